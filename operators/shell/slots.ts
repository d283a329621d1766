import type { SchedulerLike } from 'rxjs';
import type { Bidder, Outcome, Permit, Permits, Place } from '../options/permits.js';
import { Alarm } from './alarm.js';

/** Longest that a promise which was given up keeps its slot, in ms. */
const ABORT_GRACE_MS = 1000;

/**
 * So many slots for one operator, which bids for one at a time: what a number for `concurrency` becomes. Grants in a loop, never from inside
 * a grant, and lets nobody in when a call was given up, before the end of the frame.
 *
 * All permits are one object, and it is this one: each grant is to be released once, which `Call` sees to.
 */
export class Slots implements Permits, Permit, Place {
  readonly tokenCapacity = Infinity;
  readonly borrows = true;
  executing = 0;
  private readonly alarm: Alarm;
  private pausedUntil = -Infinity;
  private bidder: Bidder | undefined = undefined;
  private isGranting = false;
  private again = false;
  private isClosed = false;
  /** Until when those keep their slot whose promise was given up. */
  private readonly lingering = new Set<{ readonly until: number }>();

  /** @param concurrency `poke` after a change */
  constructor(
    public concurrency: number,
    scheduler: SchedulerLike,
  ) {
    this.alarm = new Alarm(scheduler, () => {
      this.poke();
    });
  }

  get load(): number {
    return this.isPaused() ? 1 : Math.min(1, this.executing / this.concurrency);
  }

  take(): Permit | undefined {
    if (this.bidder || this.isGranting || !this.hasFree()) return undefined;
    this.executing++;
    return this;
  }

  enlist(bidder: Bidder): Place {
    this.bidder = bidder;
    this.poke();
    return this;
  }

  withdraw(): void {
    this.bidder = undefined;
    this.rest();
  }

  /** Grants what can be granted now. */
  poke(): void {
    this.again = true;
    if (this.isGranting) return;
    this.isGranting = true;
    try {
      while (this.again) {
        this.again = false;
        this.grant();
      }
    } finally {
      this.isGranting = false;
      this.rest();
    }
  }

  penalize(pauseMs: number): void {
    this.pausedUntil = Math.max(this.pausedUntil, this.alarm.now() + pauseMs);
    this.rest();
  }

  /** There is no rate to be learned: that is for limiters. */
  observe(): void {
    // nothing to do
  }

  /** Nor one to be charged. */
  settle(): void {
    // nothing to do
  }

  release(outcome?: Outcome): void {
    this.executing--;
    if (this.bidder === undefined) return;
    if (outcome !== 'cancelled') this.poke();
    else if (this.isGranting) this.again = true;
    else this.rest();
  }

  releaseAfter(work: PromiseLike<unknown>): void {
    // Nobody waits any more.
    if (this.isClosed) return;
    const lingerer = { until: this.alarm.now() + ABORT_GRACE_MS };
    const over = (): void => {
      if (this.lingering.delete(lingerer)) this.release();
    };
    this.lingering.add(lingerer);
    this.rest();
    work.then(over, over);
  }

  /** Keeps no timer any more. */
  close(): void {
    this.isClosed = true;
    this.bidder = undefined;
    this.lingering.clear();
    this.alarm.clear();
  }

  private grant(): void {
    const { bidder, lingering } = this;
    const now = lingering.size > 0 ? this.alarm.now() : 0;
    for (const lingerer of lingering) {
      if (lingerer.until > now) break;
      lingering.delete(lingerer);
      this.executing--;
    }
    if (bidder === undefined || !this.hasFree()) return;
    this.bidder = undefined;
    if (bidder.bid?.(Infinity) === undefined) return;
    this.executing++;
    this.again = true;
    bidder.granted(this);
  }

  private hasFree(): boolean {
    return this.executing < this.concurrency && !this.isPaused();
  }

  private isPaused(): boolean {
    if (this.pausedUntil === -Infinity) return false;
    if (this.alarm.now() < this.pausedUntil) return true;
    this.pausedUntil = -Infinity;
    return false;
  }

  /** One timer, for whatever comes first: the end of a pause or of a grace, or of the frame in which a call was given up. */
  private rest(): void {
    if (this.isGranting) return;
    const [first] = this.lingering;
    let at = first ? first.until : Infinity;
    if (this.bidder !== undefined && this.executing < this.concurrency) at = Math.min(at, Math.max(this.alarm.now(), this.pausedUntil));
    this.alarm.set(at);
  }
}

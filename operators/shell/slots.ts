import type { SchedulerLike } from 'rxjs';
import type { Bidder, Outcome, Permit, Permits, Place } from '../options/permits.js';
import { Alarm } from './alarm.js';

/** How long the promise of cancelled work may keep its slot, in ms. */
const ABORT_GRACE_MS = 1000;

/**
 * The slots of one operator, which bids for one at a time: made from a number for `concurrency`. Grants in a loop, never from inside a grant. After
 * a cancelled call it grants at the end of the frame.
 *
 * This object is also the permit of every grant. Each grant is to be released once; `Call` sees to that.
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
  /** Cancelled work that still runs, and until when each keeps its slot. */
  private readonly abandoned = new Set<{ readonly until: number }>();

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
    this.arm();
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
      this.arm();
    }
  }

  penalize(pauseMs: number): void {
    this.pausedUntil = Math.max(this.pausedUntil, this.alarm.now() + pauseMs);
    this.arm();
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
    else this.arm();
  }

  releaseAfter(work: PromiseLike<unknown>): void {
    // Nothing is granted any more.
    if (this.isClosed) return;
    const entry = { until: this.alarm.now() + ABORT_GRACE_MS };
    const over = (): void => {
      if (this.abandoned.delete(entry)) this.release();
    };
    this.abandoned.add(entry);
    this.arm();
    work.then(over, over);
  }

  /** Keeps no timer any more. */
  close(): void {
    this.isClosed = true;
    this.bidder = undefined;
    this.abandoned.clear();
    this.alarm.clear();
  }

  private grant(): void {
    const { bidder, abandoned } = this;
    const now = abandoned.size > 0 ? this.alarm.now() : 0;
    for (const entry of abandoned) {
      if (entry.until > now) break;
      abandoned.delete(entry);
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

  /** Sets the timer for what comes first: the end of a pause, of a grace, or of the frame in which a call was cancelled. */
  private arm(): void {
    if (this.isGranting) return;
    const [first] = this.abandoned;
    let at = first ? first.until : Infinity;
    if (this.bidder !== undefined && this.executing < this.concurrency) at = Math.min(at, Math.max(this.alarm.now(), this.pausedUntil));
    this.alarm.set(at);
  }
}

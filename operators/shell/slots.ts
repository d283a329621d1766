import type { SchedulerLike } from 'rxjs';
import type { Bidder, Outcome, Permit, Permits, Place } from '../options/permits.js';
import type { ResponseLike } from '../options/types.js';
import { Alarm } from './alarm.js';

/** How long a response asks to wait, in ms; undefined when it does not. The time is in ms since 1970. */
type PauseOf = (response: ResponseLike, epochMs: number) => number | undefined;

/**
 * So many slots for one operator, which bids for one at a time: what a number for `concurrency` becomes. Grants in a loop, never from inside
 * a grant, and lets nobody in when a call was given up, before the end of the frame.
 *
 * All permits are one object, and it is this one: each grant is to be released once, which `Call` sees to.
 */
export class Slots implements Permits, Permit, Place {
  readonly tokenCapacity = Infinity;
  readonly borrows = true;
  readonly lanes = undefined;
  executing = 0;
  private most: number;
  private readonly scheduler: SchedulerLike;
  private readonly abortGraceMs: number;
  private readonly pauseOf: PauseOf | undefined;
  private readonly alarm: Alarm;
  private pausedUntil = -Infinity;
  private bidder: Bidder | undefined = undefined;
  private isGranting = false;
  private again = false;
  private isClosed = false;
  /** Until when those keep their slot whose promise was given up. */
  private readonly lingering = new Set<{ readonly until: number }>();

  /**
   * @param abortGraceMs how long a promise that was given up keeps its slot at most, in ms
   * @param pauseOf reads in a response how long to pause, for those who observe any: `pauseOf` of headers.ts
   */
  constructor(concurrency: number, scheduler: SchedulerLike, abortGraceMs: number, pauseOf?: PauseOf) {
    this.most = concurrency;
    this.scheduler = scheduler;
    this.abortGraceMs = abortGraceMs;
    this.pauseOf = pauseOf;
    this.alarm = new Alarm(scheduler, () => {
      this.poke();
    });
  }

  get concurrency(): number {
    return this.most;
  }

  set concurrency(concurrency: number) {
    this.most = concurrency;
    this.poke();
  }

  get load(): number {
    return this.isPaused() ? 1 : Math.min(1, this.executing / this.most);
  }

  take(): Permit | undefined {
    if (this.bidder || this.isGranting || this.executing >= this.most || this.isPaused()) return undefined;
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
        if (this.lingering.size > 0) this.expire(this.alarm.now());
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

  /** Keeps to the pause that a response asks for. The rates it reports are those of an account: that takes a limiter. */
  observe(response: ResponseLike): void {
    const pauseMs = this.pauseOf?.(response, this.scheduler.now());
    if (pauseMs !== undefined) this.penalize(pauseMs);
  }

  /** There is no rate to be charged. */
  settle(): void {
    // nothing to do
  }

  release(outcome: Outcome = 'ok'): void {
    this.executing--;
    if (this.bidder === undefined) return;
    if (outcome !== 'cancelled') this.poke();
    else if (this.isGranting) this.again = true;
    else this.rest();
  }

  releaseAfter(work: PromiseLike<unknown>): void {
    // Nobody waits any more.
    if (this.isClosed) return;
    if (this.abortGraceMs === 0) {
      this.release('error');
      return;
    }
    const lingerer = { until: this.alarm.now() + this.abortGraceMs };
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

  /** Takes the slots from those that have lingered long enough. */
  private expire(now: number): void {
    for (const lingerer of this.lingering) {
      if (lingerer.until > now) return;
      this.lingering.delete(lingerer);
      this.executing--;
    }
  }

  private grant(): void {
    const { bidder } = this;
    if (bidder === undefined || this.executing >= this.most || this.isPaused()) return;
    this.bidder = undefined;
    if (bidder.bid && bidder.bid(Infinity) === undefined) return;
    this.executing++;
    this.again = true;
    bidder.granted(this);
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
    let at = Infinity;
    if (this.bidder !== undefined && this.executing < this.most) at = Math.max(this.alarm.now(), this.pausedUntil);
    for (const { until } of this.lingering) {
      at = Math.min(at, until);
      break;
    }
    this.alarm.set(at);
  }
}

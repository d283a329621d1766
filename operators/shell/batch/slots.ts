import type { SchedulerLike } from 'rxjs';
import { Subscription } from 'rxjs';
import { ABORT_GRACE_MS } from '../../options/defaults.js';
import type { Outcome, Permit, Permits } from '../../options/permits.js';

/**
 * The slots of one operator, made from a number for `concurrency`. This object is also the permit of every slot; each is to be released once, which
 * `Call` sees to. Graces are rare: each has a timer of its own.
 */
export class Slots implements Omit<Permits, 'enlist'>, Permit {
  readonly tokenCapacity = Infinity;
  readonly borrows = true;
  executing = 0;
  private pausedUntil = -Infinity;
  private readonly graces = new Subscription();

  /** @param freed called when a slot has become free */
  constructor(
    public concurrency: number,
    private readonly clock: { now(): number },
    private readonly scheduler: SchedulerLike,
    private readonly freed: (outcome?: Outcome) => void,
  ) {}

  /** When the pause is over; Infinity when there is none. What waits looks again then. */
  get resumesAt(): number {
    return this.pausedUntil > -Infinity && this.pausedUntil > this.clock.now() ? this.pausedUntil : Infinity;
  }

  get load(): number {
    return this.pausedUntil > -Infinity && this.resumesAt < Infinity ? 1 : Math.min(1, this.executing / this.concurrency);
  }

  take(): Permit | undefined {
    if (this.executing >= this.concurrency || (this.pausedUntil > -Infinity && this.resumesAt < Infinity)) return undefined;
    this.executing++;
    return this;
  }

  penalize(pauseMs: number): void {
    this.pausedUntil = Math.max(this.pausedUntil, this.clock.now() + pauseMs);
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
    this.freed(outcome);
  }

  releaseAfter(work: Promise<unknown>): void {
    // Made first: some schedulers (`queueScheduler`) run a delay of 0 at once.
    const grace = new Subscription();
    const over = (): void => {
      if (grace.closed) return;
      grace.unsubscribe();
      this.release();
    };
    this.graces.add(grace);
    grace.add(this.scheduler.schedule(over, ABORT_GRACE_MS));
    // Without a `then` that was put on it, as `Call` does.
    void Promise.prototype.then.call(work, over, over);
  }

  /** Keeps no timer any more. */
  close(): void {
    this.graces.unsubscribe();
  }
}

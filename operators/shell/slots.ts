import type { SchedulerLike } from 'rxjs';
import { Subscription } from 'rxjs';
import type { Outcome, Permit, Permits } from '../options/permits.js';
import { LONGEST_DELAY_MS } from './scheduler.js';

/** How long the promise of cancelled work may keep its slot, in ms. */
const ABORT_GRACE_MS = 1000;

/**
 * The slots of one operator, made from a number for `concurrency`. This object is also the permit of every slot; each is to be released once, which
 * `Call` sees to. Pauses and graces are rare: each has a timer of its own.
 */
export class Slots implements Omit<Permits, 'enlist'>, Permit {
  readonly tokenCapacity = Infinity;
  readonly borrows = true;
  executing = 0;
  private pauses = 0;
  private readonly timers = new Subscription();

  /** @param freed called when a slot may have become free */
  constructor(
    public concurrency: number,
    private readonly scheduler: SchedulerLike,
    private readonly freed: (outcome?: Outcome) => void,
  ) {}

  get load(): number {
    return this.pauses > 0 ? 1 : Math.min(1, this.executing / this.concurrency);
  }

  take(): Permit | undefined {
    if (this.pauses > 0 || this.executing >= this.concurrency) return undefined;
    this.executing++;
    return this;
  }

  penalize(pauseMs: number): void {
    this.pauses++;
    this.later(pauseMs, () => {
      this.pauses--;
      this.freed();
    });
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

  releaseAfter(work: PromiseLike<unknown>): void {
    const over = (): void => {
      if (grace.closed) return;
      grace.unsubscribe();
      this.release();
    };
    const grace = this.later(ABORT_GRACE_MS, over);
    work.then(over, over);
  }

  /** Keeps no timer any more. */
  close(): void {
    this.timers.unsubscribe();
  }

  private later(ms: number, then: () => void): Subscription {
    // Made first: some schedulers (`queueScheduler`) run a delay of 0 at once.
    const timer = new Subscription();
    this.timers.add(timer);
    timer.add(
      this.scheduler.schedule(
        () => {
          if (!timer.closed) then();
          timer.unsubscribe();
        },
        Math.min(Math.ceil(ms), LONGEST_DELAY_MS),
      ),
    );
    return timer;
  }
}

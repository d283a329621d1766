import type { SchedulerAction, SchedulerLike, Subscription } from 'rxjs';
import { asyncScheduler } from 'rxjs';

/** The clock and the timers of the host, so many times as fast. */
export class FastClock implements SchedulerLike {
  readonly #speed: number;
  readonly #startedAt = performance.now();

  constructor(speed: number) {
    this.#speed = speed;
  }

  now(): number {
    return (performance.now() - this.#startedAt) * this.#speed;
  }

  schedule<S>(work: (this: SchedulerAction<S>, state?: S) => void, delay = 0, state?: S): Subscription {
    return asyncScheduler.schedule(work, delay / this.#speed, state);
  }
}

import type { SchedulerAction, SchedulerLike, Subscription } from 'rxjs';
import { VirtualTimeScheduler } from 'rxjs';

/** Virtual time that advances one instant at a time, and notices a pipeline that never comes to rest. */
export class Clock extends VirtualTimeScheduler {
  #instants = 0;
  #scheduled = 0;

  /** Runs everything due at the next instant; false when nothing is scheduled, or when this goes on for too long. */
  step(): boolean {
    const next = this.actions[0];
    if (next === undefined || this.ranAway) return false;
    this.#instants++;
    this.maxFrames = next.delay;
    this.flush();
    return true;
  }

  override schedule<T>(work: (this: SchedulerAction<T>, state?: T) => void, delay?: number, state?: T): Subscription {
    // Timers that start each other would never let this instant end.
    if (++this.#scheduled > 200_000) throw new Error('too many timers');
    return super.schedule(work, delay, state);
  }

  get ranAway(): boolean {
    return this.#instants > 50_000;
  }
}

/** The scheduler an operator is given: the clock, with a count of what the operator has left on it. */
export class WatchedScheduler implements SchedulerLike {
  live = 0;

  constructor(readonly clock: Clock) {}

  now(): number {
    return this.clock.now();
  }

  schedule<T>(work: (this: SchedulerAction<T>, state?: T) => void, delay?: number, state?: T): Subscription {
    let counted = true;
    this.live++;
    const done = (): void => {
      if (counted) this.live--;
      counted = false;
    };
    const action = this.clock.schedule<T>(
      function (this: SchedulerAction<T>, given?: T) {
        done();
        work.call(this, given);
      },
      delay,
      state,
    );
    action.add(done);
    return action;
  }
}

import type { SchedulerLike } from 'rxjs';
import { asyncScheduler, Subscription } from 'rxjs';

/** Does at once what has no delay, as `queueScheduler` does: a frame ends with each item. */
export function atOnce(scheduler: SchedulerLike = asyncScheduler): SchedulerLike {
  return {
    now: () => scheduler.now(),
    schedule: (work: (state?: never) => void, delay = 0, state?: unknown) => {
      if (delay > 0) return scheduler.schedule(work as never, delay, state);
      work.call(undefined, state as never);
      return Subscription.EMPTY;
    },
  };
}

import type { SchedulerLike } from 'rxjs';
import { Subscription } from 'rxjs';
import { LONGEST_DELAY_MS } from './scheduler.js';

/**
 * Calls back once, so long from now; never, when that is Infinity. A wait longer than a host timer can hold ends with that. The timer is made first:
 * some schedulers run a delay of 0 at once.
 */
export function after(scheduler: SchedulerLike, ms: number, callback: () => void, timer = new Subscription()): Subscription {
  if (ms < Infinity) timer.add(scheduler.schedule(callback, Math.min(ms, LONGEST_DELAY_MS)));
  return timer;
}

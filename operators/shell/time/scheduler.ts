import type { SchedulerLike } from 'rxjs';
import { asyncScheduler } from 'rxjs';
import { check } from '../../options/options.js';

/** Longest delay a host timer can hold; a longer one would fire at once. */
export const LONGEST_DELAY_MS = 2_147_483_647;

/** The `scheduler` option of an operator: anything with `now` and `schedule`. @defaultValue `asyncScheduler` */
export function schedulerOption(operator: string, option: string, value: SchedulerLike = asyncScheduler): SchedulerLike {
  return isScheduler(operator, option, value);
}

const isScheduler = /* @__PURE__ */ check<SchedulerLike>(
  'an rxjs scheduler',
  (value: Partial<SchedulerLike> | null) => typeof value?.now === 'function' && typeof value.schedule === 'function',
);

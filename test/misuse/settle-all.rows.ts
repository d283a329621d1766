import { of } from 'rxjs';
import { settleAll } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

const known = 'mode, concurrency, totalTimeoutMs, guard, scheduler, onEvent';

export const rows: MisuseTable = {
  operator: 'settleAll',
  create: (options) => settleAll([1], () => of(1), options),
  calls: { calls: (calls) => settleAll(calls, () => of(1)), project: (project) => settleAll([1], project) },
  rows: [
    ...badly('calls', 'an array', NaN, 0, -1, 1.5, Infinity, 'text', null, undefined, {}, () => [1]),
    ...badly('project', 'a function', NaN, 0, -1, 1.5, Infinity, 'text', null, undefined, {}, []),
    ...badly('mode', "one of 'settle', 'all'", 'race', true, null, 0),
    ...badly('concurrency', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, -Infinity, '4', null, of(4)),
    ...badly('totalTimeoutMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, -Infinity, '5', null),
    ...badly('guard', 'a function', true, 'yes', null, {}),
    ...badly('scheduler', 'an rxjs scheduler', 5, null, {}, { now: () => 0 }),
    ...badly('onEvent', 'a function', console, 'log', null),
    ...badly('timeoutMs', `absent (known options: ${known})`, 5),
  ],
};

import { coalesce } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';

const known = 'pace, maxWaitMs, maxSize, maxWeight, onSourceError, merge, weigh, compatible, passThrough, scheduler, onEvent, name';

/** Every row but those of `merge` needs one to reach its check. */
const create = (given: Readonly<Record<string, unknown>> | null): unknown =>
  coalesce((typeof given === 'object' && given !== null && !('merge' in given) ? { ...given, merge: () => 0 } : given) as never);

export const rows: MisuseTable = {
  operator: 'coalesce',
  create,
  rows: [
    ...badly('merge', 'a function', undefined, null, 'concat', 1, {}),
    ...badly('compatible', 'a function', true, null, 'id', 0, {}),
    ...badly('passThrough', 'a function', false, null, 'tool', NaN, []),
    ...badly('pace', "one of 'time', 'frame'", 'idle', 60, null, NaN, Infinity, {}),
    ...badly('maxWaitMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, -Infinity, '16', null, {}),
    ...badly('maxSize', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '16', null, {}),
    ...badly('maxWeight', 'a number > 0 or Infinity', 0, -1, NaN, '4096', null, []),
    ...badly('weigh', 'a function', 5, null, 'length', {}),
    ...badly('onSourceError', "one of 'flush', 'abort'", 'drain', false, null, 0),
    ...badly('scheduler', 'an rxjs scheduler', 5, null, {}, { now: () => 0 }, 'async'),
    ...badly('onEvent', 'a function', console, 'log', null, 1),
    ...badly('name', 'a non-empty string', '', 5, null),
    ...unknown('ms', known, 16),
  ],
};

import type { MisuseRow } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

const COUNT = 'a whole number >= 1 or Infinity';

/** Bad values of the options that `bulkheadMap` and `concatMapBy` share. */
export const slotRows = (besides: Readonly<Record<string, unknown>> = {}): readonly MisuseRow[] => [
  ...badly('concurrency', COUNT, NaN, 0, -1, 1.5, -Infinity, 2 ** 60, '4', true, null, {}),
  ...badly('limiter', 'a limiter made by createLimiter', NaN, 0, -1, 1.5, Infinity, 'shared', null, {}, { tryAcquire: () => undefined }),
  ...badly('maxKeys', COUNT, NaN, 0, -1, 1.5, '4', null, {}).map((row) => ({ ...row, besides })),
  ...badly('maxQueued', 'a whole number >= 0 or Infinity', NaN, -1, 1.5, -Infinity, '4', null, {}),
  ...badly('errors', "one of 'settle', 'propagate'", 'throw', NaN, 0, true, null, {}),
  ...badly('timeoutMs', 'a number > 0 or Infinity', NaN, 0, -1, '20', null, {}),
  ...badly('onSourceError', "one of 'abort', 'flush', 'drain'", 'ignore', NaN, 0, true, null, {}),
  ...badly('onEvent', 'a function', console, NaN, 0, 'log', null),
  ...badly('scheduler', 'an rxjs scheduler', NaN, 0, 'async', null, {}, { now: () => 0 }),
];

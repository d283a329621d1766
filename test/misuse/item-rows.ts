import { createLimiter } from '../../operators/index.js';
import type { MisuseRow } from '../support/misuse.js';
import { badly, notLimiter } from '../support/misuse.js';

const COUNT = 'a whole number >= 1 or Infinity';
const MS = 'a number > 0 or Infinity';

/** Options of everything that does one piece of work per item, as errors name them. */
export const ITEM_OPTIONS =
  'concurrency, limiter, maxKeys, maxQueued, overflow, order, errors, timeoutMs, deadlineMs, onSourceError, onEvent, name, scheduler';

/** Bad values of the options that `settleAll` has as well. */
export const callRows: readonly MisuseRow[] = [
  ...badly('concurrency', COUNT, NaN, 0, -1, 1.5, -Infinity, 2 ** 60, '4', true, null, {}),
  ...notLimiter({ tryAcquire: () => undefined }),
  {
    option: 'concurrency',
    value: 4,
    problem: '`{option}` cannot be combined with `limiter`',
    expected: 'Set it on the limiter.',
    besides: { limiter: createLimiter() },
  },
  ...badly('errors', "one of 'settle', 'propagate'", 'throw', 'all', NaN, 0, true, null, {}),
  ...badly('timeoutMs', MS, NaN, 0, -1, '20', null, {}),
  ...badly('deadlineMs', MS, NaN, 0, -1, '20', null, {}),
  ...badly('onEvent', 'a function', console, NaN, 0, 'log', null),
  ...badly('name', 'a non-empty string', '', 5, null, {}),
  ...badly('scheduler', 'an rxjs scheduler', NaN, 0, 'async', null, {}, { now: () => 0 }),
];

/** Bad values of the options of `bulkheadMap` that `settleAll` does not have. */
export const itemRows = (besides: Readonly<Record<string, unknown>> = {}): readonly MisuseRow[] => [
  ...callRows,
  ...badly('maxKeys', COUNT, NaN, 0, -1, 1.5, '4', null, {}).map((row) => ({ ...row, besides })),
  ...badly('maxQueued', 'a whole number >= 0 or Infinity', NaN, -1, 1.5, -Infinity, '4', null, {}),
  ...badly('order', 'inputOrder() or orderPerKey()', 'input', 'perKey', NaN, 0, true, null, {}),
  ...badly('onSourceError', "one of 'abort', 'flush', 'drain'", 'ignore', NaN, 0, true, null, {}),
];

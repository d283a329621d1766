import { createLimiter } from '../../operators/index.js';
import type { MisuseRow } from '../support/misuse.js';
import { badly, notLimiter } from '../support/misuse.js';

const COUNT = 'a whole number >= 1 or Infinity';
const POSITIVE = 'a number > 0 or Infinity';
const FUNCTION = 'a function';

const badCounts = [NaN, 0, -1, 1.5, -Infinity, 2 ** 60, '4', true, {}];
const badSizes = [NaN, 0, -1, -Infinity, '8', true, {}];
const badFunctions = [NaN, 0, 1.5, Infinity, 'length', null, {}, []];

/** The options that all batching operators share, in the order in which errors list them. */
export const BATCH_OPTIONS = [
  ...['maxSize', 'maxWeight', 'weigh', 'oversize', 'flush', 'queue', 'maxQueued', 'overflow', 'order', 'window', 'concurrency'],
  ...['limiter', 'id', 'repair', 'classify', 'timeoutMs', 'deadlineMs', 'onEvent', 'name', 'scheduler', 'random'],
];

/** Bad values of them, but for `overflow`, which not all have. */
export const batchRows: readonly MisuseRow[] = [
  ...badly('maxSize', COUNT, ...badCounts),
  ...badly('maxWeight', POSITIVE, ...badSizes),
  ...badly('weigh', FUNCTION, ...badFunctions),
  ...badly('oversize', "'alone', 'reject' or splitItem(into, join)", 'ignore', NaN, 0, -1, 1.5, Infinity, null, true, {}),
  ...badly('flush', 'an Observable, promise or iterable', NaN, 0, -1, 1.5, Infinity, null, true, {}, () => undefined),
  ...badly('queue', 'lanes([…])', 'fifo', NaN, 0, -1, 1.5, Infinity, null, {}, [{ name: 'urgent' }]),
  ...badly('order', 'inputOrder() or orderPerKey(key)', 'input', NaN, 0, -1, 1.5, Infinity, null, true, {}, () => 'key'),
  ...badly('concurrency', COUNT, ...badCounts, null),
  {
    option: 'concurrency',
    value: 4,
    problem: '`{option}` cannot be combined with `limiter`',
    expected: 'Set it on the limiter.',
    besides: { limiter: createLimiter() },
  },
  ...notLimiter({ tryAcquire: () => undefined }),
  ...badly('window', FUNCTION, 'natural', { kind: 'natural' }, 50, null, true, {}),
  ...badly('maxQueued', COUNT, ...badCounts),
  ...badly('id', FUNCTION, ...badFunctions),
  ...badly('repair', 'a repair such as retryFailed() or robust(), or a list of them', true, NaN, 0, -1, 1.5, 'no', null, {}),
  ...badly('classify', FUNCTION, ...badFunctions),
  ...badly('timeoutMs', POSITIVE, ...badSizes),
  ...badly('deadlineMs', 'a number of milliseconds >= 0 or Infinity', NaN, -1, -Infinity, '20', true, {}),
  ...badly('onEvent', FUNCTION, console, ...badFunctions),
  ...badly('name', 'a non-empty string', '', 5, null, true, {}),
  ...badly('scheduler', 'an rxjs scheduler', NaN, 0, 'async', null, {}, { now: () => 0 }),
  ...badly('random', FUNCTION, ...badFunctions),
];

/** Bad values of what only those have whose results are one stream. */
export const streamRows: readonly MisuseRow[] = [
  ...badly('onSourceError', "one of 'abort', 'drain', 'flush'", 'ignore', NaN, 0, -1, 1.5, Infinity, null, true, {}),
];

/** Bad values of `overflow`. */
export const overflowRows = badly(
  'overflow',
  "one of 'error', 'dropOldest', 'dropNewest', 'dropLowest', 'latest'",
  ...['block', NaN, 0, -1, Infinity, true, {}, []],
);

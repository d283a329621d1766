import { of } from 'rxjs';
import { createBatcher, lanes, lruCache } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown, wrong } from '../support/misuse.js';
import { BATCH_OPTIONS, batchRows, overflowRows } from './batch-options.js';

const known = [...BATCH_OPTIONS, 'dedupe', 'cache', 'job', 'operator'].join(', ');

const batcher = () => createBatcher((items: readonly string[]) => of(items), { queue: lanes([{ name: 'only' }]) });

const create = (options: never): unknown => createBatcher((items: readonly string[]) => of(items), options);

export const rows: MisuseTable = {
  operator: 'createBatcher',
  create,
  calls: {
    work: (work) => createBatcher(work),
    'LoadOptions.lane': (lane) => batcher().load('a', { lane }),
    'LoadOptions.key': (key) => batcher().load('a', { key }),
    'LoadOptions.signal': (signal) => batcher().load('a', { signal }),
    'LoadOptions.deadlineMs': (deadlineMs) => batcher().load('a', { deadlineMs }),
    'loadManyAsync.items': (items) => batcher().loadManyAsync(items),
    'DrainOptions.timeoutMs': (timeoutMs) => batcher().drain({ timeoutMs }),
    'shutdownOn.signal': (signal) => batcher().shutdownOn(signal),
  },
  rows: [
    ...wrong('tokensPerMinute', 'unknown option `{option}`', 'Use `limiter: createAccount({ … })`.', 60),
    ...badly('work', 'a function', NaN, 0, -1, 1.5, Infinity, 'text', null, undefined, {}, []),
    ...wrong(
      'LoadOptions.key',
      '`{option}` needs a queue with keys',
      'Use `queue: lanes([…], { key: … })`, or remove `key`.',
      'A',
      0,
      null,
      {},
    ),
    ...badly('LoadOptions.signal', 'an AbortSignal', NaN, 0, 'text', null, {}, () => undefined),
    ...badly('LoadOptions.deadlineMs', 'a number of milliseconds >= 0 or Infinity', NaN, -1, '5', null, {}),
    ...badly('loadManyAsync.items', 'an array', NaN, 0, 'text', null, undefined, {}),
    ...badly('DrainOptions.timeoutMs', 'a number of milliseconds >= 0 or Infinity', NaN, -1, '5', null, {}),
    ...badly('shutdownOn.signal', 'an AbortSignal', undefined, NaN, 0, 'text', null, {}, () => undefined),
    ...batchRows,
    ...overflowRows,
    ...badly('dedupe', 'a function', true, 'id', NaN, 0, 1.5, Infinity, null, {}),
    ...badly(
      'cache',
      'lruCache(maxEntries), or a cache with `get`, `set`, `delete` and `clear`',
      ...[NaN, 0, -1, 1.5, Infinity, 'on', true, false, null, { maxEntries: 1 }, new WeakMap(), new Set(), lruCache],
    ),
    ...badly('operator', 'a non-empty string', '', 0, null, {}),
    ...wrong('job', '`{option}` needs `limiter`', 'Add it, or remove `{option}`.', { model: 'm' }),
    ...unknown('onSourceError', known, 'abort'),
    ...unknown('retry', known, false),
  ],
};

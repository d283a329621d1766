import { of } from 'rxjs';
import { createBatcher, lanes } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';
import { BATCH_OPTIONS, batchRows, overflowRows } from './batch-options.js';

const known = [...BATCH_OPTIONS, 'dedupe', 'cache'].join(', ');

const batcher = () => createBatcher((items: readonly string[]) => of(items), { queue: lanes([{ name: 'only' }]) });

/** Options, and those of the cache under dotted names. */
const create = (options: Readonly<Record<string, unknown>> | null): unknown => {
  const given: Record<string, unknown> = { ...options };
  for (const [name, value] of Object.entries(Object(options) as Record<string, unknown>)) {
    if (!name.startsWith('cache.')) continue;
    Reflect.deleteProperty(given, name);
    given['cache'] = { maxEntries: 1, [name.slice('cache.'.length)]: value };
  }
  return createBatcher(
    (items: readonly string[]) => of(items),
    (typeof options === 'object' && options !== null ? given : options) as never,
  );
};

export const rows: MisuseTable = {
  operator: 'createBatcher',
  create,
  calls: {
    work: (work) => createBatcher(work),
    'LoadOptions.lane': (lane) => batcher().load('a', { lane }),
    'LoadOptions.signal': (signal) => batcher().load('a', { signal }),
    'LoadOptions.deadlineMs': (deadlineMs) => batcher().load('a', { deadlineMs }),
    'loadMany.items': (items) => batcher().loadMany(items),
    'DrainOptions.timeoutMs': (timeoutMs) => batcher().drain({ timeoutMs }),
    'shutdownOn.signal': (signal) => batcher().shutdownOn(signal),
  },
  rows: [
    ...badly('work', 'a function', NaN, 0, -1, 1.5, Infinity, 'text', null, undefined, {}, []),
    ...badly('LoadOptions.signal', 'an AbortSignal', NaN, 0, 'text', null, {}, () => undefined),
    ...badly('LoadOptions.deadlineMs', 'a number of milliseconds >= 0 or Infinity', NaN, -1, '5', null, {}),
    ...badly('loadMany.items', 'an array', NaN, 0, 'text', null, undefined, {}),
    ...badly('DrainOptions.timeoutMs', 'a number of milliseconds >= 0 or Infinity', NaN, -1, '5', null, {}),
    ...badly('shutdownOn.signal', 'an AbortSignal', undefined, NaN, 0, 'text', null, {}, () => undefined),
    ...batchRows,
    ...overflowRows,
    ...badly('dedupe', 'a function', true, 'id', NaN, 0, 1.5, Infinity, null, {}),
    ...badly('cache', 'an object', NaN, 0, -1, 1.5, Infinity, 'on', true, false, null),
    ...badly('cache.maxEntries', 'a whole number >= 1 or Infinity', NaN, 0, -1, 1.5, -Infinity, 2 ** 60, '100', null, true, {}, undefined),
    ...badly('cache.ttlMs', 'a number > 0 or Infinity', NaN, 0, -1, -Infinity, '1000', null, true, {}),
    ...badly('cache.get', 'absent (known options: maxEntries, ttlMs)', () => undefined),
    ...badly('onSourceError', `absent (known options: ${known})`, 'abort'),
    ...badly('retry', `absent (known options: ${known})`, false),
  ],
};

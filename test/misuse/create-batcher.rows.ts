import { of } from 'rxjs';
import { createBatcher } from '../../operators/index.js';
import { GATED_BATCH_OPTIONS } from '../../operators/support/batching/batch-options.js';
import type { MisuseRow, MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';
import { gatedRows, nested, overflowRows } from './gated-options.js';

const known = [...GATED_BATCH_OPTIONS, 'dedupe', 'cache'].join(', ');

const batcher = () => createBatcher((items: readonly string[]) => of(items), { lanes: [{ name: 'only' }] });

/** The rows, with other options they need to reach the check. */
function besides(others: Readonly<Record<string, unknown>>, rows: readonly MisuseRow[]): MisuseRow[] {
  return rows.map((row) => ({ ...row, besides: others }));
}

/** The methods of a map but one. */
function without(name: string): Record<string, unknown> {
  const methods = ['set', 'delete', 'clear'].filter((method) => method !== name);
  return Object.fromEntries(methods.map((method) => [`cache.${method}`, () => undefined]));
}

export const rows: MisuseTable = {
  operator: 'createBatcher',
  create: (options) => createBatcher((items: readonly string[]) => of(items), nested(options) as never),
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
    ...gatedRows,
    ...overflowRows,
    ...badly('dedupe', 'a function', true, 'id', NaN, 0, 1.5, Infinity, null, {}),
    ...badly(
      'cache',
      '{ maxEntries, ttlMs } or an object with get, set, delete and clear',
      NaN,
      0,
      -1,
      1.5,
      Infinity,
      'on',
      true,
      false,
      null,
    ),
    ...badly('cache.maxEntries', 'a whole number >= 1 or Infinity', NaN, 0, -1, 1.5, -Infinity, 2 ** 60, '100', null, true, {}, undefined),
    ...besides({ 'cache.maxEntries': 1 }, badly('cache.ttlMs', 'a number > 0 or Infinity', NaN, 0, -1, -Infinity, '1000', null, true, {})),
    ...['set', 'delete', 'clear'].flatMap((name) =>
      besides({ 'cache.get': () => undefined, ...without(name) }, badly(`cache.${name}`, 'a function', undefined, null, 5, {})),
    ),
    ...badly('onSourceError', `absent (known options: ${known})`, 'abort'),
    ...badly('failure', `absent (known options: ${known})`, 'failFast'),
  ],
};

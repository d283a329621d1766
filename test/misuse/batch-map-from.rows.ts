import { of } from 'rxjs';
import { batchMapFrom } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';
import { BATCH_OPTIONS, batchRows, streamRows } from './batch-options.js';

const known = [...BATCH_OPTIONS.filter((name) => name !== 'overflow'), 'onSourceError'].join(', ');

export const rows: MisuseTable = {
  operator: 'batchMapFrom',
  create: (options) => batchMapFrom(['a'], (items: readonly string[]) => of(items), options),
  calls: { work: (work) => batchMapFrom(['a'], work), input: (input) => batchMapFrom(input, (items: readonly string[]) => of(items)) },
  rows: [
    ...badly('work', 'a function', NaN, 0, -1, 1.5, Infinity, 'text', null, undefined, {}, []),
    ...badly('input', 'an Iterable, an AsyncIterable or a ReadableStream', NaN, 0, -1, 1.5, Infinity, null, undefined, {}, () => ['a']),
    ...batchRows,
    ...unknown('overflow', known, 'error', 'dropOldest', 'block'),
    ...streamRows,
  ],
};

import { of } from 'rxjs';
import { batchMapFrom } from '../../operators/index.js';
import { GATED_BATCH_OPTIONS } from '../../operators/support/batching/batch-options.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';
import { gatedRows, nested, streamRows } from './gated-options.js';

const known = [...GATED_BATCH_OPTIONS.filter((name) => name !== 'overflow'), 'failure', 'onSourceError'].join(', ');

export const rows: MisuseTable = {
  operator: 'batchMapFrom',
  create: (options) => batchMapFrom(['a'], (items: readonly string[]) => of(items), nested(options) as never),
  calls: { work: (work) => batchMapFrom(['a'], work), input: (input) => batchMapFrom(input, (items: readonly string[]) => of(items)) },
  rows: [
    ...badly('work', 'a function', NaN, 0, -1, 1.5, Infinity, 'text', null, undefined, {}, []),
    ...badly('input', 'an Iterable, an AsyncIterable or a ReadableStream', NaN, 0, -1, 1.5, Infinity, null, undefined, {}, () => ['a']),
    ...gatedRows,
    ...badly('overflow', `absent (known options: ${known})`, 'error', 'dropOldest', 'block'),
    ...streamRows,
  ],
};

import { of } from 'rxjs';
import { batchMap } from '../../operators/index.js';
import { GATED_BATCH_OPTIONS } from '../../operators/support/batching/batch-options.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';
import { gatedRows, nested, overflowRows, streamRows } from './gated-options.js';

const known = [...GATED_BATCH_OPTIONS, 'failure', 'onSourceError'].join(', ');

export const rows: MisuseTable = {
  operator: 'batchMap',
  create: (options) => batchMap((items: readonly string[]) => of(items), nested(options) as never),
  calls: { work: (work) => batchMap(work) },
  rows: [
    ...badly('work', 'a function', NaN, 0, -1, 1.5, Infinity, 'text', null, undefined, {}, []),
    ...gatedRows,
    ...overflowRows,
    ...streamRows,
    ...badly('maxItems', `absent (known options: ${known})`, 16),
    ...badly('dedupe', `absent (known options: ${known})`, () => 'key'),
  ],
};

import { of } from 'rxjs';
import { batchMap } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';
import { BATCH_OPTIONS, batchRows, overflowRows, streamRows } from './batch-options.js';

const known = [...BATCH_OPTIONS, 'onSourceError'].join(', ');

export const rows: MisuseTable = {
  operator: 'batchMap',
  create: (options) => batchMap((items: readonly string[]) => of(items), options),
  calls: { work: (work) => batchMap(work) },
  rows: [
    ...badly('work', 'a function', NaN, 0, -1, 1.5, Infinity, 'text', null, undefined, {}, []),
    ...batchRows,
    ...overflowRows,
    ...streamRows,
    ...unknown('maxItems', known, 16),
    ...unknown('retry', known, false, {}),
  ],
};

import { of } from 'rxjs';
import { batchMap } from '../../operators/batch-map.js';
import { GATED_BATCH_OPTIONS } from '../../operators/support/batch-options.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';
import { gatedRows, nested, overflowRows } from './gated-options.js';

export const rows: MisuseTable = {
  operator: 'batchMap',
  create: (options) => batchMap((items: readonly string[]) => of(items), nested(options) as never),
  rows: [
    ...gatedRows,
    ...overflowRows,
    ...badly('onSourceError', "one of 'abort', 'drain', 'flush'", 'ignore', NaN, 0, -1, Infinity, true, {}),
    ...badly('maxItems', `absent (known options: ${[...GATED_BATCH_OPTIONS, 'onSourceError'].join(', ')})`, 16),
    ...badly('dedupe', `absent (known options: ${[...GATED_BATCH_OPTIONS, 'onSourceError'].join(', ')})`, () => 'key'),
  ],
};

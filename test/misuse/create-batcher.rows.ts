import { of } from 'rxjs';
import { createBatcher } from '../../operators/create-batcher.js';
import { GATED_BATCH_OPTIONS } from '../../operators/support/batching/batch-options.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';
import { gatedRows, nested, overflowRows } from './gated-options.js';

const known = [...GATED_BATCH_OPTIONS, 'dedupe'].join(', ');

export const rows: MisuseTable = {
  operator: 'createBatcher',
  create: (options) => createBatcher((items: readonly string[]) => of(items), nested(options) as never),
  rows: [
    ...gatedRows,
    ...overflowRows,
    ...badly('dedupe', 'a function', true, 'id', NaN, 0, 1.5, Infinity, null, {}),
    ...badly('cache', `absent (known options: ${known})`, { max: 100 }),
    ...badly('onSourceError', `absent (known options: ${known})`, 'abort'),
    ...badly('failure', `absent (known options: ${known})`, 'failFast'),
  ],
};

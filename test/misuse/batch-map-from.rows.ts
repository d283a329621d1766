import { of } from 'rxjs';
import { batchMapFrom } from '../../operators/batch-map-from.js';
import { GATED_BATCH_OPTIONS } from '../../operators/support/batching/batch-options.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';
import { gatedRows, nested, streamRows } from './gated-options.js';

const known = [...GATED_BATCH_OPTIONS.filter((name) => name !== 'overflow'), 'failure', 'onSourceError'].join(', ');

export const rows: MisuseTable = {
  operator: 'batchMapFrom',
  create: (options) => batchMapFrom(['a'], (items: readonly string[]) => of(items), nested(options) as never),
  rows: [...gatedRows, ...badly('overflow', `absent (known options: ${known})`, 'error', 'dropOldest', 'block'), ...streamRows],
};

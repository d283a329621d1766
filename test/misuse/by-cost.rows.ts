import { byCost } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'byCost',
  create: byCost,
  rows: [...badly('unit', 'a non-empty string', '', 5, NaN, null, {}), ...badly('units', 'absent (known options: unit)', 'tokens')],
};

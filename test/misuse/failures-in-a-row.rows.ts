import { failuresInARow } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'failuresInARow',
  create: () => undefined,
  calls: { failures: (failures) => failuresInARow(failures) },
  optionless: true,
  rows: [...badly('failures', 'a whole number >= 1', 0, -1, 1.5, NaN, Infinity, '5', null, undefined, {})],
};

import { byCost } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'byCost',
  optionless: true,
  create: () => byCost(),
  calls: { unit: (unit) => byCost(unit) },
  rows: badly('unit', 'a non-empty string', '', 5, NaN, null, {}),
};

import { heldBy } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'heldBy',
  optionless: true,
  create: heldBy,
  calls: { lease: heldBy },
  rows: badly('lease', 'a lease of a limiter', NaN, 0, 'lease', null, undefined, {}, []),
};

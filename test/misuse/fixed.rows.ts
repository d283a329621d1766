import { fixed } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'fixed',
  create: (ms: never) => fixed(ms),
  calls: { ms: (ms) => fixed(ms) },
  optionless: true,
  rows: badly('ms', 'a number of milliseconds >= 0 or Infinity', NaN, -1, -Infinity, '20', true, null, undefined, {}),
};

import { graded } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'graded',
  create: (maxMs: never) => graded(maxMs),
  calls: { maxMs: (maxMs) => graded(maxMs) },
  optionless: true,
  rows: badly('maxMs', 'a number of milliseconds >= 0 or Infinity', NaN, -1, -Infinity, '20', true, null, undefined, {}),
};

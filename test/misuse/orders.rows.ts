import { orderPerKey } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'orderPerKey',
  optionless: true,
  create: () => orderPerKey(() => 0),
  calls: { key: (key) => orderPerKey(key) },
  rows: badly('key', 'a function', NaN, 0, 'tool', null, undefined, {}, []),
};

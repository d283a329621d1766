import { of } from 'rxjs';
import { partOf, toStore } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

const store = toStore(of(1), 0);

export const rows: MisuseTable = {
  operator: 'partOf',
  create: () => undefined,
  optionless: true,
  calls: {
    store: (given) => partOf(given, (n) => n),
    of: (part) => partOf(store, part),
    isEqual: (isEqual) => partOf(store, (n) => n, isEqual),
  },
  rows: [
    ...badly('store', 'a store', NaN, 0, -1, 1.5, Infinity, 'text', null, undefined, {}, [], () => 4),
    ...badly('of', 'a function', undefined, NaN, 0, -1, 1.5, Infinity, 'id', null, {}),
    ...badly('isEqual', 'a function', NaN, 0, -1, 1.5, Infinity, 'id', null, {}),
  ],
};

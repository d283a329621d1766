import { sharedStore } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

const STORE = 'a store such as memoryStore(), with `ask`, `correct` and `hold`';

export const rows: MisuseTable = {
  operator: 'sharedStore',
  optionless: true,
  create: () => sharedStore({ ask: () => undefined as never, correct: () => undefined, hold: () => undefined }),
  calls: { store: (store) => sharedStore(store) },
  rows: badly('store', STORE, undefined, 5, NaN, 'redis', null, {}, () => undefined),
};

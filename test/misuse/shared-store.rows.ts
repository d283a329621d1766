import { sharedStore } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';

const STORE = 'a store such as memoryStore(), with `ask`, `correct` and `hold`';

export const rows: MisuseTable = {
  operator: 'sharedStore',
  create: (options) => sharedStore({ ask: () => undefined as never, correct: () => undefined, hold: () => undefined }, options),
  calls: { store: (store) => sharedStore(store) },
  rows: [
    ...badly('store', STORE, undefined, 5, NaN, 'redis', null, {}, () => undefined),
    ...badly('concurrency', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '4', null),
    ...unknown('slots', 'concurrency', 5),
  ],
};

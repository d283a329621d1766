import { memoryStore, perMinute, shared, slidingWindow } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown, wrong } from '../support/misuse.js';

const STORE = 'a store such as memoryStore(), with `ask`, `correct` and `hold`';
const RATES = "a list of rates such as perMinute('requests', 600)";

export const rows: MisuseTable = {
  operator: 'shared',
  create: (options) => shared(memoryStore(), [perMinute('requests', 60)], options),
  calls: {
    store: (store) => shared(store, [perMinute('requests', 60)]),
    rates: (rates) => shared(memoryStore(), rates),
    'rates[0].windowMs': (windowMs) => shared(memoryStore(), [slidingWindow({ unit: 'tokens', amount: 10, windowMs })]),
  },
  rows: [
    ...badly('store', STORE, undefined, 5, NaN, 'redis', null, {}, () => undefined),
    ...badly('rates', RATES, undefined, 5, NaN, 'tokens', null, {}),
    ...wrong(
      'rates[0].windowMs',
      'a store counts no window without an end',
      'Use `createBudget` with a `store` for what several processes spend once.',
      Infinity,
    ),
    ...badly('scope', 'a non-empty string', '', 5, NaN, null, {}),
    ...badly('leastShare', 'a number from 0 to 0.1', -1, 0.2, NaN, '0.01', null),
    ...badly('concurrency', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '4', null),
    ...badly('guardMs', 'a finite number > 0', 0, -1, NaN, Infinity, '200', null),
    ...unknown('localShare', 'scope, leastShare, concurrency, guardMs', 0.1),
  ],
};

import { createLimiter } from '../../operators/index.js';
import { createMetrics } from '../../src/metrics/create-metrics.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, misspelt } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'createMetrics',
  create: createMetrics,
  calls: {
    'observe.name': (value) => createMetrics().observe(value, { snapshot: () => ({}) }),
    'observe.observed.snapshot': (value) => createMetrics().observe('limiter', { snapshot: value }),
    'watch.account': (value) => createMetrics().watch(value),
    'watch.name': (value) => createMetrics().watch(createLimiter(), value),
  },
  rows: [
    ...badly('intervalMs', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '5', null),
    ...badly('maxLabels', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '5', null),
    ...badly('maxBatchSize', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '5', null),
    ...badly('windowMs', 'a number from 10 to 86400000', 0, -1, 9, NaN, '5', null, Infinity, 86_400_001),
    ...badly('scheduler', 'an rxjs scheduler', 5, null, {}),
    ...misspelt('interval', 'intervalMs', 5),
    ...badly('observe.name', 'a non-empty string', '', 5, null, undefined),
    ...badly('observe.observed.snapshot', 'a function', 5, null, undefined, {}),
    ...badly('watch.account', 'a limiter made by createLimiter or createAccount', 5, null, undefined, {}),
    ...badly('watch.name', 'a non-empty string', '', 5, null),
  ],
};

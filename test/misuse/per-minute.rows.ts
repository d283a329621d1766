import { perMinute } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown, wrong } from '../support/misuse.js';
import { buckets } from './quotas.js';

export const rows: MisuseTable = {
  operator: 'perMinute',
  create: (options) => perMinute('requests', 60, options),
  calls: {
    unit: (value) => perMinute(value, 60),
    amount: (value) => perMinute('requests', value),
  },
  rows: [
    ...badly('unit', 'a non-empty string', '', 5, null, {}),
    ...wrong('unit', '`slots` are not counted per window', 'Use `concurrency`.', 'slots'),
    ...badly('amount', 'a number >= 0 or Infinity', -1, NaN, '60', null),
    ...buckets,
    ...unknown('windowMs', 'burst', 1000),
  ],
};

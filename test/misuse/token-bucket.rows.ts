import { tokenBucket } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';
import { quotas } from './quotas.js';

export const rows: MisuseTable = {
  operator: 'tokenBucket',
  create: (options: object) => tokenBucket({ unit: 'requests', amount: 1, windowMs: 1000, ...options }),
  optionless: true,
  calls: { rate: tokenBucket },
  rows: [...quotas('unit, amount, windowMs, burst', true), ...badly('rate', 'an object', null, 5, 'fast')],
};

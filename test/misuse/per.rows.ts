import { per } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';
import { quotas } from './quotas.js';

export const rows: MisuseTable = {
  operator: 'per',
  create: (options: object) => per({ unit: 'requests', amount: 1, windowMs: 1000, ...options }),
  optionless: true,
  calls: { rate: per },
  rows: [...quotas('unit, amount, windowMs, burst, borrow', true), ...badly('rate', 'an object', null, 5, 'fast')],
};

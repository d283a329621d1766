import { strict } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';
import { quotas } from './quotas.js';

export const rows: MisuseTable = {
  operator: 'strict',
  create: (options: object) => strict({ unit: 'requests', amount: 1, windowMs: 1000, ...options }),
  optionless: true,
  calls: { rate: strict },
  rows: [...quotas('unit, amount, windowMs', false), ...badly('rate', 'an object', null, 5, 'fast')],
};

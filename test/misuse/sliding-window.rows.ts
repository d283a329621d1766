import { slidingWindow } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';
import { quotas } from './quotas.js';

export const rows: MisuseTable = {
  operator: 'slidingWindow',
  create: (options: object) => slidingWindow({ unit: 'requests', amount: 1, windowMs: 1000, ...options }),
  optionless: true,
  calls: { rate: slidingWindow },
  rows: [...quotas('unit, amount, windowMs', false), ...badly('rate', 'an object', null, 5, 'fast')],
};

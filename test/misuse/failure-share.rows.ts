import { failureShare } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'failureShare',
  create: (options) => failureShare(options),
  rows: [
    ...badly('share', 'a number from 0 to 1', -0.1, 1.1, 50, NaN, Infinity, '0.5', null),
    ...badly('minCalls', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '10', null),
    ...badly('windowMs', 'a number > 0 or Infinity', 0, -1, NaN, '30000', null),
    ...badly('failures', 'absent (known options: share, minCalls, windowMs)', 5),
  ],
};

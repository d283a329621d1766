import { probeShare } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'probeShare',
  create: (options) => probeShare(options),
  rows: [
    ...badly('probes', 'a whole number >= 1', 0, -1, 1.5, NaN, Infinity, '1', null),
    ...badly('share', 'a number from 0 to 1', -0.1, 1.1, 50, NaN, Infinity, '0.5', null),
    ...badly('failures', 'absent (known options: probes, share)', 5),
  ],
};

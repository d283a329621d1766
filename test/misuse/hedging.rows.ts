import { hedging } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, misspelt, unknown } from '../support/misuse.js';

const known = 'delayMs, maxAttempts, maxShare, lanes';

export const rows: MisuseTable = {
  operator: 'hedging',
  create: (options) => hedging(options),
  rows: [
    ...badly('delayMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, -Infinity, '50', null, {}),
    ...badly('maxAttempts', 'a whole number >= 1', 0, -1, 1.5, NaN, Infinity, '1', null),
    ...badly('maxShare', 'a number > 0 or Infinity', 0, -1, NaN, '0.2', null),
    ...badly('lanes', 'a list of lanes', 5, null, 'user', {}),
    ...unknown('priority', known, 5),
    ...misspelt('delay', 'delayMs', 5),
  ],
};

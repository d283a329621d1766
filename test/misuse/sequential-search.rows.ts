import { sequentialSearch } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'sequentialSearch',
  create: (options: never) => sequentialSearch(options),
  rows: [...badly('confirm', 'true or false', NaN, 0, 1, 'yes', null, {}), ...badly('confrim', 'absent (known options: confirm)', true)],
};

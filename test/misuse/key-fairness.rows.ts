import { byPriority } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'byPriority',
  optionless: true,
  create: () => byPriority(() => 0),
  calls: { priority: (priority) => byPriority(priority) },
  rows: badly('priority', 'a function', NaN, 0, 'urgent', null, undefined, {}, []),
};

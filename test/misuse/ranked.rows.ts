import { ranked } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

const key = (): unknown => undefined;
const order = (): number => 0;

export const rows: MisuseTable = {
  operator: 'ranked',
  optionless: true,
  create: () => ranked(key, order),
  calls: { group: (group) => ranked(group, order), compare: (compare) => ranked(key, compare) },
  rows: ['group', 'compare'].flatMap((option) => badly(option, 'a function', undefined, 5, NaN, null, {}, 'key')),
};

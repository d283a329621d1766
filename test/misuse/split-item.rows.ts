import { splitItem } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

const halves = (item: string): string[] => [item];
const joined = (results: readonly string[]): string => results.join('');

export const rows: MisuseTable = {
  operator: 'splitItem',
  optionless: true,
  create: () => splitItem(halves, joined),
  calls: { into: (into) => splitItem(into, joined), join: (join) => splitItem(halves, join) },
  rows: [...badly('into', 'a function', undefined, null, 'halves', {}), ...badly('join', 'a function', undefined, null, 5, 'sum')],
};

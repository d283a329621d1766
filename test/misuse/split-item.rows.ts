import { splitItem } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'splitItem',
  create: (options: never) => splitItem(options),
  rows: [
    ...badly('into', 'a function', undefined, null, 'halves', {}).map((row) => ({ ...row, besides: { join: () => 1 } })),
    ...[undefined, null, 5, 'sum'].map((value) => ({ option: 'join', value, expected: 'a function', besides: { into: () => [1] } })),
    ...badly('parts', 'absent (known options: into, join)', 2),
  ],
};

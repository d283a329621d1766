import { partitionSettled } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

const LIST = 'an array of settled results';

export const rows: MisuseTable = {
  operator: 'partitionSettled',
  create: partitionSettled,
  calls: { results: (value) => partitionSettled(value) },
  optionless: true,
  rows: [
    ...badly('results', LIST, undefined, null, 5, 'fulfilled', {}, new Map(), { status: 'fulfilled', value: 1 }),
    ...badly(
      'results',
      LIST,
      [1],
      [null],
      [undefined],
      ['fulfilled'],
      [{ status: 'pending' }],
      [{ status: 'constructor' }],
      [{ value: 1 }],
      new Array(1),
    ),
  ],
};

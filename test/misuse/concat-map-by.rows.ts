import { of } from 'rxjs';
import { concatMapBy } from '../../operators/index.js';
import { SLOT_OPTIONS } from '../../operators/support/slots/slot-options.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';
import { slotRows } from './slot-rows.js';

const known = [...SLOT_OPTIONS, 'onError'].join(', ');

export const rows: MisuseTable = {
  operator: 'concatMapBy',
  create: (options) =>
    concatMapBy(
      (item: string) => item,
      (item) => of(item),
      options,
    ),
  calls: {
    key: (key) => concatMapBy(key, () => of(1)),
    project: (project) => concatMapBy((item) => item, project),
  },
  rows: [
    ...badly('key', 'a function', NaN, 0, -1, 1.5, Infinity, 'text', null, undefined, {}, []),
    ...badly('project', 'a function', NaN, 0, -1, 1.5, Infinity, 'text', null, undefined, {}, []),
    ...slotRows(),
    ...badly(
      'overflow',
      "one of 'error', 'dropOldest', 'dropNewest', 'latest'",
      'block',
      'dropLowest',
      NaN,
      0,
      -1,
      Infinity,
      true,
      null,
      {},
    ),
    ...badly('order', "one of 'completion', 'input'", 'perKey', NaN, 0, true, null, {}),
    ...badly('fairness', "one of 'roundRobin', 'fifo'", 'lifo', NaN, 0, -1, null, {}, { kind: 'priority', priority: () => 0 }),
    ...badly('onError', "one of 'continue', 'stopKey', 'error'", 'stop', NaN, 0, true, null, {}),
    ...badly('onError', "one of 'error'", 'continue', 'stopKey').map((row) => ({ ...row, besides: { errors: 'propagate' } })),
    ...badly('perKey', `absent (known options: ${known})`, 2),
  ],
};

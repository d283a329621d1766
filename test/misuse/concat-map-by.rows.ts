import { of } from 'rxjs';
import { concatMapBy } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';
import { ITEM_OPTIONS, itemRows } from './item-rows.js';

const OVERFLOW = "one of 'error', 'dropOldest', 'dropNewest', 'latest'";

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
    ...itemRows(),
    ...badly('overflow', OVERFLOW, 'block', 'dropLowest', NaN, 0, -1, Infinity, true, null, {}),
    ...badly('stopKey', 'true or false', 'stop', NaN, 0, null, {}),
    { option: 'stopKey', value: true, expected: "absent with `errors: 'propagate'`", besides: { errors: 'propagate' } },
    ...badly('perKey', `absent (known options: ${ITEM_OPTIONS}, stopKey)`, 2),
  ],
};

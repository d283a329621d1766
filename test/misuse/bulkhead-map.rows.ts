import { of } from 'rxjs';
import { bulkheadMap } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';
import { ITEM_OPTIONS, itemRows } from './item-rows.js';

const COUNT = 'a whole number >= 1 or Infinity';
const OVERFLOW = "one of 'error', 'dropOldest', 'dropNewest', 'latest'";
const known = `${ITEM_OPTIONS}, key, perKey, stopKey`;
const key = (item: string): string => item;

/** `{ 'perKey.a': 0 }` as `{ perKey: { a: 0 } }`. */
function nested(options: unknown): never {
  const bad = typeof options === 'object' && options !== null ? Object.entries(options) : [];
  const [path, value] = bad.find(([name]) => name.startsWith('perKey.')) ?? [];
  return (path === undefined ? options : { key, perKey: { [path.slice('perKey.'.length)]: value as unknown } }) as never;
}

export const rows: MisuseTable = {
  operator: 'bulkheadMap',
  create: (options) => bulkheadMap((item: string) => of(item), nested(options)),
  calls: { project: (project) => bulkheadMap(project) },
  rows: [
    ...badly('project', 'a function', NaN, 0, -1, 1.5, Infinity, 'text', null, undefined, {}, []),
    ...itemRows({ key }),
    { option: 'maxKeys', value: 5, problem: '`{option}` needs `key`', expected: 'Add it, or remove `{option}`.' },
    ...badly('key', 'a function', NaN, 0, 1.5, Infinity, 'tool', null, {}),
    ...badly('perKey', COUNT, NaN, 0, -1, 1.5, '4', true, null, [1], new Map([['tool', 1]])).map((row) => ({ ...row, besides: { key } })),
    ...badly('perKey.a', COUNT, NaN, 0, -1, 1.5, '4', null),
    { option: 'perKey', value: 2, problem: '`{option}` needs `key`', expected: 'Add it, or remove `{option}`.' },
    ...badly('stopKey', 'true or false', 'stop', NaN, 0, null, {}).map((row) => ({ ...row, besides: { key } })),
    { option: 'stopKey', value: true, problem: '`{option}` needs `key`', expected: 'Add it, or remove `{option}`.' },
    {
      option: 'stopKey',
      value: true,
      problem: "`{option}` cannot be combined with `errors: 'propagate'`",
      expected: 'Remove one of them: the first error already ends all keys.',
      besides: { key, errors: 'propagate' },
    },
    ...badly('overflow', OVERFLOW, 'block', 'dropLowest', NaN, 0, -1, Infinity, true, null, {}),
    ...unknown('maxItems', known, 16),
    ...unknown('onError', known, 'continue'),
  ],
};

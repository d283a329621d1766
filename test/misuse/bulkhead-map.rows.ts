import { of } from 'rxjs';
import { bulkheadMap, createLimiter } from '../../operators/index.js';
import { SLOT_OPTIONS } from '../../operators/support/slots/slot-options.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';
import { slotRows } from './slot-rows.js';

const COUNT = 'a whole number >= 1 or Infinity';
const OVERFLOW = "one of 'error', 'dropOldest', 'dropNewest', 'latest'";
const RANKED = "one of 'error', 'dropNewest', 'dropLowest'";
const FAIRNESS = "'roundRobin', 'fifo' or { kind: 'priority', priority }";
const known = [...SLOT_OPTIONS, 'key', 'perKey', 'perKeyDefault'].join(', ');
const key = (item: string): string => item;
const fairness = { kind: 'priority', priority: () => 0 };

/** `{ 'perKey.a': 0 }` as `{ perKey: { a: 0 } }`, `{ 'fairness.kind': 0 }` as `{ fairness: { kind: 0, priority } }`. */
function nested(options: unknown): never {
  const bad = typeof options === 'object' && options !== null ? Object.entries(options) : [];
  const [path, value] = bad.find(([name]) => name.includes('.')) ?? [];
  const [group = '', field = ''] = path?.split('.') ?? [];
  if (group === 'perKey') return { key, perKey: { [field]: value as unknown } } as never;
  return (group === 'fairness' ? { fairness: { ...fairness, [field]: value as unknown } } : options) as never;
}

export const rows: MisuseTable = {
  operator: 'bulkheadMap',
  create: (options) => bulkheadMap((item: string) => of(item), nested(options)),
  calls: { project: (project) => bulkheadMap(project) },
  rows: [
    ...badly('project', 'a function', NaN, 0, -1, 1.5, Infinity, 'text', null, undefined, {}, []),
    ...slotRows({ key }),
    { option: 'maxKeys', value: 5, expected: 'absent without a `key`' },
    ...badly('key', 'a function', NaN, 0, 1.5, Infinity, 'tool', null, {}),
    { option: 'key', value: undefined, expected: 'a function', besides: { order: 'perKey' } },
    ...badly('perKey', COUNT, NaN, 0, -1, 1.5, '4', true, null, [1], new Map([['tool', 1]])).map((row) => ({ ...row, besides: { key } })),
    ...badly('perKey.a', COUNT, NaN, 0, -1, 1.5, '4', null),
    { option: 'perKey', value: 2, expected: 'absent without a `key`' },
    ...badly('perKeyDefault', COUNT, NaN, 0, -1, 1.5, '4', null, {}).map((row) => ({ ...row, besides: { key } })),
    { option: 'perKeyDefault', value: 5, expected: 'absent without a `key`' },
    { option: 'perKeyDefault', value: 5, expected: 'absent unless `perKey` names keys', besides: { key, perKey: 2 } },
    { option: 'perKeyDefault', value: 5, expected: 'absent unless `perKey` names keys', besides: { key, perKey: () => 2 } },
    ...badly('overflow', OVERFLOW, 'block', 'dropLowest', NaN, 0, -1, Infinity, true, null, {}),
    ...badly('overflow', RANKED, 'dropOldest', 'latest', 'block', 0).map((row) => ({ ...row, besides: { fairness } })),
    ...badly('order', "one of 'completion', 'input', 'perKey'", 'output', NaN, 0, true, null, {}),
    ...badly('fairness', FAIRNESS, 'lifo', NaN, 0, -1, Infinity, null, {}, { kind: 'priority' }, { kind: 'priority', priority: 1 }),
    { option: 'concurrency', value: 4, expected: 'absent when a `limiter` is given', besides: { limiter: createLimiter() } },
    ...badly('maxItems', `absent (known options: ${known})`, 16),
    ...badly('onError', `absent (known options: ${known})`, 'continue'),
  ],
};

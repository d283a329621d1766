import { of } from 'rxjs';
import { bulkheadMap } from '../../operators/bulkhead-map.js';
import { createLimiter } from '../../operators/create-limiter.js';
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

/** `{ 'perKey.a': 0 }` as `{ perKey: { a: 0 } }`. */
function nested(options: unknown): never {
  const bad = typeof options === 'object' && options !== null ? Object.entries(options) : [];
  const named = bad.find(([name]) => name.startsWith('perKey.'));
  return (named ? { key, perKey: { [named[0].slice('perKey.'.length)]: named[1] as unknown } } : options) as never;
}

export const rows: MisuseTable = {
  operator: 'bulkheadMap',
  create: (options) => bulkheadMap((item: string) => of(item), nested(options)),
  rows: [
    ...slotRows,
    ...badly('key', 'a function', NaN, 0, 1.5, Infinity, 'tool', null, {}),
    { option: 'key', value: undefined, expected: 'a function', besides: { order: 'perKey' } },
    ...badly('perKey', COUNT, NaN, 0, -1, 1.5, '4', true, null, [1], new Map([['tool', 1]])).map((row) => ({ ...row, besides: { key } })),
    ...badly('perKey.a', COUNT, NaN, 0, -1, 1.5, '4', null),
    { option: 'perKey', value: 2, expected: 'absent without a `key`' },
    ...badly('perKeyDefault', COUNT, NaN, 0, -1, 1.5, '4', null, {}),
    ...badly('overflow', OVERFLOW, 'block', 'dropLowest', NaN, 0, -1, Infinity, true, null, {}),
    ...badly('overflow', RANKED, 'dropOldest', 'latest', 'block', 0).map((row) => ({ ...row, besides: { fairness } })),
    ...badly('order', "one of 'completion', 'input', 'perKey'", 'output', NaN, 0, true, null, {}),
    ...badly('fairness', FAIRNESS, 'lifo', NaN, 0, -1, Infinity, null, {}, { kind: 'priority' }, { kind: 'priority', priority: 1 }),
    { option: 'concurrency', value: 4, expected: 'absent when a `limiter` is given', besides: { limiter: createLimiter() } },
    ...badly('maxItems', `absent (known options: ${known})`, 16),
    ...badly('onError', `absent (known options: ${known})`, 'continue'),
  ],
};

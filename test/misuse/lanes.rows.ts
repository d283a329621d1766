import { byCost, lanes, weighted } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown, wrong } from '../support/misuse.js';

const OVERFLOW = "one of 'error', 'dropOldest', 'dropNewest', 'dropLowest', 'latest'";
const FIELDS = 'name, maxWaitMs, maxQueued, overflow, share, floor, piggyback, reserve';

/** `lanes` and its fields stand for the first argument, the others for the second. */
const create = (options: Readonly<Record<string, unknown>>): unknown => {
  const list: unknown[] = [{ name: 'first' }, { name: 'second' }];
  if (typeof options !== 'object' || (options as unknown) === null) return lanes(list as never, options);
  let given: unknown = list;
  const rest: Record<string, unknown> = {};
  for (const [path, value] of Object.entries(options)) {
    const [, at, field] = /^lanes\[(\d)\](?:\.(.+))?$/.exec(path) ?? [];
    if (path === 'lanes') given = value;
    else if (at === undefined) rest[path] = value;
    else list[Number(at)] = field === undefined ? value : { ...(list[Number(at)] as object), [field]: value };
  }
  return lanes(given as never, rest);
};

export const rows: MisuseTable = {
  operator: 'lanes',
  create,
  rows: [
    ...badly('lanes', 'a list of at least one lane or name', NaN, 0, -1, 1.5, Infinity, 'high', null, undefined, {}, []),
    ...badly('lanes[0]', 'an object', NaN, 0, null, undefined),
    ...badly('lanes[0].name', 'a non-empty string', '', 5, NaN, null, undefined, {}),
    { option: 'lanes[1].name', value: 'first', problem: 'two lanes are called `first`', expected: 'Rename one of them.' },
    ...badly('lanes[0].maxWaitMs', 'a number of milliseconds >= 0 or Infinity', NaN, -1, -Infinity, '20', null, {}),
    ...badly('lanes[0].maxQueued', 'a whole number >= 0 or Infinity', NaN, -1, 1.5, -Infinity, '4', null, {}),
    ...badly('lanes[0].overflow', OVERFLOW, 'block', 0, null, {}),
    ...badly('lanes[0].share', 'a finite number > 0', NaN, 0, -1, Infinity, '1', null, {}),
    ...badly('lanes[0].floor', 'a number from 0 to 1', NaN, -1, 1.5, Infinity, '0.1', null, {}),
    ...badly('lanes[0].piggyback', 'true or false', NaN, 0, 1, 'no', null, {}),
    ...badly('lanes[0].reserve', 'a number from 0 to less than 1', NaN, -0.1, 1, 1.5, Infinity, '0.1', null, {}),
    ...unknown('lanes[0].weight', FIELDS, 3),
    ...badly('by', 'a function', NaN, 0, 'lane', null, {}),
    ...badly('key', 'a function', NaN, 0, 'key', true, null, {}),
    ...badly('keyFairness', 'byCost()', 'byCost', NaN, 0, true, null, {}, () => undefined, weighted()),
    ...wrong('keyFairness', '`{option}` needs `key`', 'Add it, or remove `{option}`.', byCost()),
    ...badly('fairness', 'strictWithFloor(), weighted() or roundRobin()', 'strict', NaN, 0, true, null, {}, () => undefined),
    ...badly('operator', 'a non-empty string', '', 0, null, {}),
    ...unknown('order', 'by, key, keyFairness, fairness, operator', 1),
  ],
};

import { NEVER } from 'rxjs';
import { mergeLanes } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';

const COUNT = 'a whole number >= 1 or Infinity';
const DURATION = 'a number of milliseconds >= 0 or Infinity';
const POSITIVE = 'a number > 0 or Infinity';
const FUNCTION = 'a function';
const OVERFLOW = "one of 'error', 'dropOldest', 'dropNewest', 'latest'";
const known = 'maxSize, maxWeight, fairness, maxQueued, overflow, errors, onSourceError, weigh, flush, scheduler, onEvent, name';

const badCounts = [NaN, 0, -1, 1.5, -Infinity, 2 ** 60, '4', null, true, {}];
const badSizes = [NaN, 0, -1, -Infinity, '8', null, true, {}];
const badWords = [NaN, 0, -1, 1.5, Infinity, true, null, {}, 'ignore'];

/** `lanes` and its fields stand for the first argument, the others for the second. */
const create = (options: Readonly<Record<string, unknown>>): unknown => {
  const lanes: unknown[] = [
    { name: 'first', source: NEVER },
    { name: 'second', source: NEVER },
  ];
  let given: unknown = lanes;
  const rest: Record<string, unknown> = {};
  if (typeof options !== 'object' || (options as unknown) === null) return mergeLanes(lanes as never, options);
  for (const [path, value] of Object.entries(options)) {
    const [, at, field] = /^lanes\[(\d)\](?:\.(.+))?$/.exec(path) ?? [];
    if (path === 'lanes') given = value;
    else if (at !== undefined) lanes[Number(at)] = field === undefined ? value : { ...(lanes[Number(at)] as object), [field]: value };
    else rest[path] = value;
  }
  return mergeLanes(given as never, rest);
};

export const rows: MisuseTable = {
  operator: 'mergeLanes',
  create,
  rows: [
    ...badly('lanes', 'a list of at least one lane', NaN, 0, -1, 1.5, Infinity, 'high', null, undefined, {}, []),
    ...badly('lanes[0]', 'an object', NaN, 0, 'high', null, undefined),
    ...badly('lanes[0].name', 'a non-empty string', '', 5, NaN, null, undefined, {}),
    { option: 'lanes[1].name', value: 'first', problem: 'two lanes are called `first`', expected: 'Rename one of them.' },
    ...badly('lanes[0].source', 'an Observable, promise or iterable', NaN, 0, -1, 1.5, Infinity, true, null, undefined, {}, () => NEVER),
    ...badly('lanes[0].maxWaitMs', DURATION, NaN, -1, -Infinity, '20', null, {}),
    ...badly('lanes[0].maxQueued', COUNT, ...badCounts),
    ...badly('lanes[0].overflow', OVERFLOW, 'dropLowest', 'block', 0, null, {}),
    ...badly('lanes[0].floor', 'a number from 0 to 1', NaN, -1, 1.5, Infinity, '0.1', null, {}),
    ...badly('lanes[0].share', 'a finite number > 0', NaN, 0, -1, Infinity, '1', null, {}),
    ...badly('lanes[0].piggyback', 'true or false', NaN, 0, 1, 'no', null, {}),
    ...badly('maxSize', COUNT, ...badCounts),
    ...badly('maxWeight', POSITIVE, ...badSizes),
    ...badly('weigh', FUNCTION, NaN, 0, 1.5, Infinity, 'length', null, {}),
    ...badly('fairness', 'strictWithFloor(), weighted() or roundRobin()', 'strict', NaN, 0, 1.5, true, null, {}, () => undefined),
    ...badly('flush', 'an Observable, promise or iterable', NaN, 0, -1, 1.5, Infinity, true, null, {}, () => NEVER),
    ...badly('maxQueued', COUNT, ...badCounts),
    ...badly('overflow', OVERFLOW, 'dropLowest', ...badWords),
    ...badly('errors', "one of 'propagate', 'isolate'", ...badWords),
    ...badly('onSourceError', "one of 'flush', 'abort'", 'drain', ...badWords),
    ...badly('scheduler', 'an rxjs scheduler', NaN, 0, 'async', null, {}, { now: () => 0 }),
    ...badly('onEvent', FUNCTION, NaN, 0, 'log', null, console),
    ...badly('name', 'a non-empty string', '', 5, null, {}),
    ...unknown('maxWaitMs', known, 50),
  ],
};

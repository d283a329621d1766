import { createLimiter } from '../../operators/index.js';
import type { MisuseRow } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

const COUNT = 'a whole number >= 1 or Infinity';
const DURATION = 'a number of milliseconds >= 0 or Infinity';
const POSITIVE = 'a number > 0 or Infinity';
const FUNCTION = 'a function';
const OVERFLOW = "one of 'error', 'dropOldest', 'dropNewest', 'dropLowest', 'latest'";
const WINDOW = "{ kind: 'natural' }, { kind: 'fixed', ms }, { kind: 'graded', maxMs } or a function";

const badCounts = [NaN, 0, -1, 1.5, -Infinity, 2 ** 60, '4', true, {}];
const badDurations = [NaN, -1, -Infinity, '20', true, {}];
const badSizes = [NaN, 0, -1, -Infinity, '8', true, {}];
const badFunctions = [NaN, 0, 1.5, Infinity, 'length', null, {}, []];

/** Bad values of `fairness`. */
export const fairnessRows: readonly MisuseRow[] = [
  ...badly('fairness', "one of 'strict', 'wdrr', 'roundRobin', 'fifo'", 'aging', '', NaN, 0, -1, 1.5, Infinity, true, null),
  ...badly('fairness.kind', "one of 'strict', 'wdrr', 'roundRobin', 'fifo'", 'aging', 0, null, undefined, {}),
  ...badly('fairness.floor', 'a number from 0 to 1', NaN, -1, 1.5, Infinity, '0.1', null, {}),
];

/** Bad values of the options that `batchMap`, `batchMapFrom` and `createBatcher` share. Dotted names are for {@link nested}. */
export const gatedRows: readonly MisuseRow[] = [
  ...badly('maxSize', COUNT, ...badCounts),
  ...badly('maxWeight', POSITIVE, ...badSizes),
  ...badly('hardMaxWeight', POSITIVE, ...badSizes),
  ...badly('weigh', FUNCTION, ...badFunctions),
  ...badly('oversize', "one of 'alone', 'reject', 'split', 'drop', 'error'", 'ignore', NaN, 0, -1, 1.5, Infinity, null, true, {}),
  ...badly('splitItem', FUNCTION, ...badFunctions),
  { option: 'splitItem', value: undefined, expected: FUNCTION, besides: { oversize: 'split' } },
  ...badly('joinResults', FUNCTION, ...badFunctions),
  { option: 'joinResults', value: undefined, expected: FUNCTION, besides: { oversize: 'split', splitItem: () => [1] } },
  ...badly('flush', 'an Observable, promise or iterable', NaN, 0, -1, 1.5, Infinity, null, true, {}, () => undefined),
  ...badly('order', "one of 'completion', 'input', 'perKey'", 'random', NaN, 0, -1, 1.5, Infinity, null, true, {}),
  ...badly('key', FUNCTION, ...badFunctions),
  { option: 'key', value: undefined, expected: FUNCTION, besides: { order: 'perKey' } },
  ...badly('concurrency', COUNT, ...badCounts, null),
  { option: 'concurrency', value: 4, expected: 'absent when a `limiter` is given', besides: { limiter: createLimiter() } },
  ...badly('limiter', 'a limiter made by createLimiter', NaN, 0, -1, 1.5, Infinity, 'shared', null, {}, { tryAcquire: () => undefined }),
  ...badly('window', WINDOW, NaN, 0, -1, 1.5, Infinity, 'natural', {}, [], { kind: 'adaptive' }),
  ...badly('window.ms', DURATION, ...badDurations, undefined, null),
  ...badly('window.maxMs', DURATION, ...badDurations, undefined, null),
  ...badly('maxQueued', COUNT, ...badCounts),
  ...badly('lanes', 'a list of at least one lane', NaN, 0, -1, 1.5, Infinity, 'urgent', null, {}, []),
  ...badly('lanes[0]', 'an object', NaN, 0, 'urgent', null, undefined),
  ...badly('lanes[0].name', 'a non-empty string', '', 5, null, undefined, {}),
  { option: 'lanes[1].name', value: 'urgent', expected: 'unique', besides: { 'lanes[0].name': 'urgent' } },
  ...badly('lanes[0].maxWaitMs', DURATION, ...badDurations, null),
  ...badly('lanes[0].maxQueued', 'a whole number >= 0 or Infinity', NaN, -1, 1.5, -Infinity, '4', {}),
  ...badly('lanes[0].floor', 'a number from 0 to 1', NaN, -1, 1.5, Infinity, '0.1', {}),
  ...badly('lanes[0].weight', POSITIVE, NaN, 0, -1, '1', null, {}),
  ...badly('lanes[0].weight', 'a finite number > 0', Infinity),
  ...badly('lanes[0].piggyback', 'true or false', 0, 1, 'no', {}),
  ...badly('lanes[0].overflow', OVERFLOW, 'block', 0, {}),
  ...fairnessRows,
  ...badly('lane', FUNCTION, ...badFunctions),
  ...badly('id', FUNCTION, ...badFunctions),
  ...badly('classify', FUNCTION, ...badFunctions),
  ...badly('retry', 'an object or false', true, NaN, 0, -1, 1.5, Infinity, 'no', null),
  ...badly('retry.maxAttempts', COUNT, ...badCounts),
  ...badly('retry.initialMs', DURATION, ...badDurations),
  ...badly('retry.factor', POSITIVE, ...badSizes),
  ...badly('retry.maxMs', DURATION, ...badDurations),
  ...badly('retry.jitter', "one of 'full', 'equal', 'none'", 'some', true, 0, NaN, {}),
  ...badly('retry.budget', POSITIVE, ...badSizes),
  ...badly('split', 'an object or false', true, NaN, 0, -1, 1.5, Infinity, 'no', null),
  ...badly('split.factor', 'a whole number >= 2 or Infinity', 1, ...badCounts),
  ...badly('split.strategy', "one of 'parallel', 'sequential'", 'random', NaN, 0, -1, true, null, {}),
  {
    option: 'split.factor',
    value: 4,
    expected: "absent under `split.strategy: 'sequential'`",
    besides: { 'split.strategy': 'sequential' },
  },
  ...badly('split.confirm', "absent under `split.strategy: 'parallel'`", true, false, 1),
  ...badly('split.maxCalls', COUNT, ...badCounts, null),
  ...badly('split.maxDepth', 'a whole number >= 0 or Infinity', NaN, -1, 1.5, '4', {}),
  ...badly('split.maxBlameRounds', 'a whole number >= 0 or Infinity', NaN, -1, 1.5, '4', {}),
  ...badly('attemptTimeoutMs', POSITIVE, ...badSizes),
  ...badly('itemDeadlineMs', DURATION, ...badDurations),
  ...badly('burst', "one of 'asap', 'tick', 'sync'", 'async', 0, NaN, true, {}),
  ...badly('onEvent', FUNCTION, console, ...badFunctions),
  ...badly('scheduler', 'an rxjs scheduler', NaN, 0, 'async', null, {}, { now: () => 0 }),
  ...badly('random', FUNCTION, ...badFunctions),
];

/** Bad values of what only the two have whose results are one stream. */
export const streamRows: readonly MisuseRow[] = [
  ...badly('failure', "one of 'settle', 'failFast'", 'throw', NaN, 0, -1, 1.5, Infinity, null, true, {}),
  ...badly('onSourceError', "one of 'abort', 'drain', 'flush'", 'ignore', NaN, 0, -1, 1.5, Infinity, null, true, {}),
];

/** Bad values of `overflow`, which not all three have. */
export const overflowRows = badly('overflow', OVERFLOW, 'block', NaN, 0, -1, Infinity, true, {}, []);

/** What the other fields of a group must be for the check of one of them to be reached. */
const COMPANY: Readonly<Record<string, object>> = {
  'window.ms': { kind: 'fixed' },
  'window.maxMs': { kind: 'graded' },
  'fairness.floor': { kind: 'strict' },
};

/** `{ 'retry.factor': 0 }` as `{ retry: { factor: 0 } }`, `{ 'lanes[0].floor': 2 }` as `{ lanes: [{ name: 'a', floor: 2 }] }`. */
export function nested(options: unknown): unknown {
  if (typeof options !== 'object' || options === null) return options;
  const out: Record<string, unknown> = {};
  for (const [path, value] of Object.entries(options) as [string, unknown][]) {
    const lane = /^lanes\[(\d)\](?:\.(\w+))?$/.exec(path);
    const [group = '', field] = path.split('.');
    if (lane) {
      const [, at, name] = lane;
      const lanes = (out['lanes'] ??= []) as unknown[];
      lanes[Number(at)] = name === undefined ? value : { name: `lane ${String(at)}`, [name]: value };
    } else if (field !== undefined) {
      out[group] = { ...COMPANY[path], ...(out[group] as object | undefined), [field]: value };
    } else {
      out[path] = value;
    }
  }
  return out;
}

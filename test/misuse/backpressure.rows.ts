import { NEVER } from 'rxjs';
import { backpressure } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';

const known = 'ready, maxWeight, weigh, onSourceError, onDrop, onEvent, name, maxQueued, overflow, highWater, lowWater';

const zero = "a whole number >= 1 or Infinity (0 with `overflow` 'latest' or 'dropNewest')";

const overflows = "one of 'error', 'dropOldest', 'dropNewest', 'latest'";

const bad: MisuseTable['rows'] = [
  ...badly('ready', 'an Observable, promise or iterable of booleans', 'yes', ''),
  ...badly('ready', 'an Observable, promise or iterable', undefined, null, true, 0, 1.5, {}, () => true),
  ...badly('maxQueued', 'a whole number >= 0 or Infinity', -1, 1.5, NaN, -Infinity, '16', null, {}),
  ...badly('maxQueued', zero, 0),
  { option: 'maxQueued', value: 0, expected: zero, besides: { overflow: 'dropOldest' } },
  { option: 'maxQueued', value: -1, expected: 'a whole number >= 0 or Infinity', besides: { overflow: 'latest' } },
  { option: 'maxQueued', value: () => 5, expected: 'a whole number >= 0 or Infinity', besides: { overflow: 'latest' } },
  { option: 'maxQueued', value: NaN, expected: 'a whole number >= 0 or Infinity', besides: { overflow: 'dropNewest' } },
  ...badly('overflow', overflows, 'block', '', null, 0, true, {}),
  ...badly('overflow', overflows, 'dropLowest'),
  ...badly('highWater', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '800', null, {}),
  ...badly('highWater', 'at most `maxQueued` (1000)', 1001, Infinity),
  { option: 'highWater', value: 1, expected: 'at most `maxQueued` (0)', besides: { maxQueued: 0, overflow: 'latest' } },
  ...badly('lowWater', 'a whole number >= 0 or Infinity', -1, 1.5, NaN, '500', null, []),
  ...badly('lowWater', 'less than `highWater` (800)', 800, Infinity),
  { option: 'lowWater', value: 3, expected: 'less than `highWater` (2)', besides: { highWater: 2 } },
  ...badly('maxWeight', 'a number > 0 or Infinity', 0, -1, NaN, '8192', null, []),
  ...badly('weigh', 'a function', 1, 'length', null, {}),
  ...badly('onDrop', 'a function', console, 'log', null, NaN),
  ...badly('onSourceError', "one of 'flush', 'abort'", 'drain', false, null),
  ...badly('onEvent', 'a function', console, 'log', null),
  ...badly('name', 'a non-empty string', '', 5, null),
  ...unknown('capacity', known, 16),
];

export const rows: MisuseTable = {
  operator: 'backpressure',
  create: backpressure,
  rows: bad.map((row) => ({ ...row, besides: { ready: NEVER, ...row.besides } })),
};

import { NEVER } from 'rxjs';
import { conflateWhileBusy } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';

const known = 'ready, maxWeight, weigh, onSourceError, onDrop, onEvent, name, seed, merge, overflow';

const bad: MisuseTable['rows'] = [
  ...badly('ready', 'an Observable, promise or iterable of booleans', 'yes', ''),
  ...badly('ready', 'an Observable, promise or iterable', undefined, null, true, 0, 1.5, {}, () => true),
  ...badly('seed', 'a function', undefined, null, 0, [], 'sum'),
  ...badly('merge', 'a function', undefined, null, NaN, {}, 'sum'),
  ...badly('maxWeight', 'a number > 0 or Infinity', 0, -1, NaN, '8192', null, []),
  ...badly('weigh', 'a function', 1, 'length', null, {}),
  ...badly('overflow', "one of 'error', 'dropOldest', 'dropNewest'", 'latest', 'dropLowest', 'block', null, 0),
  ...badly('onDrop', 'a function', console, 'log', null, NaN),
  ...badly('onSourceError', "one of 'flush', 'abort'", 'drain', false, null),
  ...badly('onEvent', 'a function', console, 'log', null),
  ...badly('name', 'a non-empty string', '', 5, null),
  ...unknown('maxQueued', known, 1),
];

const sum = { ready: NEVER, seed: (n: number) => n, merge: (a: number, b: number) => a + b };

export const rows: MisuseTable = {
  operator: 'conflateWhileBusy',
  create: conflateWhileBusy,
  rows: bad.map((row) => ({ ...row, besides: { ...sum, ...row.besides } })),
};

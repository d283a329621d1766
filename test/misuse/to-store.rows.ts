import { of } from 'rxjs';
import { toStore } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';

const known = 'pace, maxWaitMs, keepAliveMs, scheduler';

export const rows: MisuseTable = {
  operator: 'toStore',
  create: (options) => toStore(of(1), 0, options),
  calls: {
    source: (source) => toStore(source, 0),
    initial: (initial) => toStore(of(1), initial),
    'select.of': (part) => toStore(of(1), 0).select(part),
    'select.isEqual': (isEqual) => toStore(of(1), 0).select((n) => n, isEqual),
  },
  rows: [
    ...badly('source', 'an Observable', NaN, 0, -1, 1.5, Infinity, 'text', null, undefined, {}, [], () => of(1)),
    ...badly('select.of', 'a function', undefined, NaN, 0, -1, 1.5, Infinity, 'id', null, {}),
    ...badly('select.isEqual', 'a function', NaN, 0, -1, 1.5, Infinity, 'id', null, {}),
    ...badly('pace', "one of 'time', 'frame'", 'sync', '', NaN, 0, -1, 1.5, Infinity, null, {}),
    ...badly('maxWaitMs', 'a number of milliseconds >= 0 or Infinity', NaN, -1, -Infinity, '10', null, {}),
    ...badly('keepAliveMs', 'a number of milliseconds >= 0 or Infinity', NaN, -1, -Infinity, '10', null, {}),
    ...badly('scheduler', 'an rxjs scheduler', NaN, 0, -1, 1.5, Infinity, 'async', null, {}, { now: () => 0 }),
    ...unknown('listener', known, 0),
  ],
};

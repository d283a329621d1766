import { resequence } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';

const known = 'maxQueued, maxWaitMs, onGap, onSourceError, scheduler, onEvent, name';

export const rows: MisuseTable = {
  operator: 'resequence',
  create: (options: never) => resequence(() => 0, options),
  calls: { sequence: (sequence) => resequence(sequence) },
  rows: [
    ...badly('sequence', 'a function', undefined, null, 'seq', 0, {}),
    ...badly('maxQueued', 'a whole number >= 0 or Infinity', -1, 1.5, NaN, -Infinity, '1000', null, {}),
    ...badly('maxWaitMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, -Infinity, '200', null, {}),
    ...badly('onGap', "one of 'error', 'skip'", 'wait', 0, null, NaN, {}),
    ...badly('onSourceError', "one of 'flush', 'abort'", 'drain', false, null, 0),
    ...badly('scheduler', 'an rxjs scheduler', 5, null, {}, { now: () => 0 }, 'async'),
    ...badly('onEvent', 'a function', console, 'log', null, 1),
    ...badly('name', 'a non-empty string', '', 5, null),
    ...unknown('start', known, 0),
  ],
};

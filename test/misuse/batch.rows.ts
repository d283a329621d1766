import { batch } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';

const known = 'maxSize, maxWaitMs, maxWeight, onSourceError, weigh, closeWhen, flush, scheduler, onEvent, name';

export const rows: MisuseTable = {
  operator: 'batch',
  create: batch,
  rows: [
    ...badly('maxSize', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, -Infinity, 2 ** 60, '16', true),
    ...badly('maxWaitMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, -Infinity, '20', {}),
    ...badly('maxWeight', 'a number > 0 or Infinity', 0, -1, NaN, '8192', []),
    ...badly('weigh', 'a function', 1, 'length', null, {}),
    ...unknown('oversize', known, 'alone', 'reject'),
    ...badly('closeWhen', 'a function', 'before', true),
    ...badly('flush', 'an Observable, promise or iterable', 5, {}, true, () => undefined, null),
    ...badly('onSourceError', "one of 'flush', 'abort'", 'drain', false),
    ...badly('scheduler', 'an rxjs scheduler', 5, null, {}, { now: () => 0 }),
    ...badly('onEvent', 'a function', console, 'log'),
    ...badly('name', 'a non-empty string', '', 5, null),
    ...unknown('maxItems', known, 16),
  ],
};

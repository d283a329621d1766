import { batch } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

const known =
  'maxSize, maxWaitMs, maxWeight, hardMaxWeight, oversize, burst, onSourceError, weigh, splitItem, closeWhen, flush, scheduler, onEvent';

export const rows: MisuseTable = {
  operator: 'batch',
  create: batch,
  rows: [
    ...badly('maxSize', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, -Infinity, 2 ** 60, '16', true),
    ...badly('maxWaitMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, -Infinity, '20', {}),
    ...badly('maxWeight', 'a number > 0 or Infinity', 0, -1, NaN, '8192', []),
    ...badly('hardMaxWeight', 'a number > 0 or Infinity', 0, NaN, 'much'),
    { option: 'hardMaxWeight', value: 10, expected: 'a number >= `maxWeight` (20) or Infinity', besides: { maxWeight: 20 } },
    { option: 'hardMaxWeight', value: 10, expected: 'a number >= `maxWeight` (Infinity) or Infinity' },
    ...badly('weigh', 'a function', 1, 'length', null, {}),
    ...badly('oversize', "one of 'alone', 'reject', 'split', 'drop', 'error'", 'ignore', true, 0),
    ...badly('splitItem', 'a function', 'halves', {}),
    { option: 'splitItem', value: undefined, expected: 'a function', besides: { oversize: 'split' } },
    ...badly('closeWhen', 'a function', 'before', true),
    ...badly('flush', 'an Observable, promise or iterable', 5, {}, true, () => undefined, null),
    ...badly('burst', "one of 'asap', 'sync'", 'async', 0),
    ...badly('onSourceError', "one of 'flush', 'abort'", 'drain', false),
    ...badly('scheduler', 'an rxjs scheduler', 5, null, {}, { now: () => 0 }),
    ...badly('onEvent', 'a function', console, 'log'),
    ...badly('maxItems', `absent (known options: ${known})`, 16),
  ],
};

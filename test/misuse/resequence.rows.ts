import { resequence } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

const known = 'first, maxQueued, maxGapWaitMs, onGap, onDuplicate, onSourceError, sequence, scheduler, onEvent, name';

/** Every row but those of `sequence` needs one to reach its check. */
const create = (given: Readonly<Record<string, unknown>> | null): unknown =>
  resequence((typeof given === 'object' && given !== null && !('sequence' in given) ? { ...given, sequence: () => 0 } : given) as never);

export const rows: MisuseTable = {
  operator: 'resequence',
  create,
  rows: [
    ...badly('sequence', 'a function', undefined, null, 'seq', 0, {}),
    ...badly('first', 'a whole number', NaN, 1.5, Infinity, -Infinity, 2 ** 60, '0', null, {}),
    ...badly('maxQueued', 'a whole number >= 0 or Infinity', -1, 1.5, NaN, -Infinity, '1000', null, {}),
    ...badly('maxGapWaitMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, -Infinity, '200', null, {}),
    ...badly('onGap', "one of 'error', 'skip'", 'wait', 0, null, NaN, {}),
    ...badly('onDuplicate', "one of 'drop', 'error'", 'skip', false, null, 1),
    ...badly('onSourceError', "one of 'flush', 'abort'", 'drain', false, null, 0),
    ...badly('scheduler', 'an rxjs scheduler', 5, null, {}, { now: () => 0 }, 'async'),
    ...badly('onEvent', 'a function', console, 'log', null, 1),
    ...badly('name', 'a non-empty string', '', 5, null),
    ...badly('start', `absent (known options: ${known})`, 0),
  ],
};

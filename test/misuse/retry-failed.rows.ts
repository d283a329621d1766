import { retryFailed } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown, wrong } from '../support/misuse.js';

const DURATION = 'a number of milliseconds >= 0 or Infinity';
const POSITIVE = 'a number > 0 or Infinity';

export const rows: MisuseTable = {
  operator: 'retryFailed',
  create: (options: never) => retryFailed(options),
  rows: [
    ...badly('maxAttempts', 'a whole number >= 1 or Infinity', NaN, 0, -1, 1.5, '3', null, {}),
    ...badly('delayMs', DURATION, NaN, -1, '200', null, {}, 10n, Symbol('x'), [100]),
    ...badly('maxMs', DURATION, NaN, -1, '200', null, {}),
    ...badly('jitter', "one of 'full', 'equal', 'none'", 'some', true, 0, NaN, null, {}),
    ...badly('maxShare', POSITIVE, NaN, 0, -1, '0.2', null, {}),
    ...badly('maxThrottledMs', 'a number of milliseconds >= 0 or Infinity', NaN, -1, '0', null, {}),
    ...wrong('maxRetries', 'unknown option `{option}`', 'Use `maxAttempts`, the first attempt included.', 3),
    ...unknown('maxTries', 'maxAttempts, delayMs, maxMs, jitter, maxShare, maxThrottledMs', 3),
  ],
};

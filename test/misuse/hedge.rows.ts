import { of } from 'rxjs';
import { hedge } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, misspelt, unknown, wrong } from '../support/misuse.js';

const known = 'maxAttempts, maxShare, delayMs, limiter, job, classify, scheduler, onEvent, name';

export const rows: MisuseTable = {
  operator: 'hedge',
  create: (options) => hedge(() => of(1), options),
  calls: { attempt: (attempt) => hedge(attempt) },
  rows: [
    ...badly('attempt', 'a function', NaN, 0, -1, 1.5, Infinity, 'text', null, undefined, {}, []),
    ...badly('delayMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, -Infinity, '50', null, {}),
    ...badly('maxAttempts', 'a whole number >= 1', 0, -1, 1.5, NaN, Infinity, '1', null),
    ...badly('limiter', 'a limiter made by createLimiter or createAccount', {}, 4, null, 'shared'),
    ...badly('job', 'an object', 5, null, 'p0'),
    ...wrong('job', '`{option}` needs `limiter`', 'Add it, or remove `{option}`.', {}, { lane: 'p0' }),
    ...badly('maxShare', 'a number > 0 or Infinity', 0, -1, NaN, '0.2', null),
    ...badly('classify', 'a function', 'fatal', null, {}),
    ...badly('scheduler', 'an rxjs scheduler', 5, null, {}, { now: () => 0 }),
    ...badly('onEvent', 'a function', console, 'log', null),
    ...badly('name', 'a non-empty string', '', 5, null),
    ...unknown('priority', known, 5),
    ...misspelt('delay', 'delayMs', 5),
  ],
};

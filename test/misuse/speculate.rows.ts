import { NEVER, of } from 'rxjs';
import type { SpeculateOptions } from '../../operators/index.js';
import { speculate } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';

const known = 'predict, confirm, match, ttlMs, concurrency, maxQueued, scheduler, onEvent, name';
const good: SpeculateOptions<number, number> = { predict: NEVER, confirm: NEVER, match: () => true };
const run = () => of(1);
const stream = 'an Observable, promise or iterable';

export const rows: MisuseTable = {
  operator: 'speculate',
  create: (options: unknown) =>
    speculate(run, (typeof options === 'object' && options !== null ? { ...good, ...options } : options) as typeof good),
  calls: { run: (wrong) => speculate(wrong, good) },
  rows: [
    ...badly('predict', stream, undefined, null, 5, {}, () => NEVER),
    ...badly('confirm', stream, undefined, null, 5, {}, () => NEVER),
    ...badly('match', 'a function', undefined, null, true, 'equal'),
    ...badly('run', 'a function', undefined, null, NEVER),
    ...badly('ttlMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, -Infinity, '5', null),
    ...badly('concurrency', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '1', null),
    ...badly('maxQueued', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '1000', null),
    ...badly('scheduler', 'an rxjs scheduler', 5, null, {}, { now: () => 0 }),
    ...badly('onEvent', 'a function', console, 'log', null),
    ...badly('name', 'a non-empty string', '', 5, null),
    ...unknown('ttl', known, 5),
  ],
};

import { of } from 'rxjs';
import { settleAll } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';
import { callRows } from './item-rows.js';

const known = 'concurrency, limiter, errors, timeoutMs, deadlineMs, onEvent, name, scheduler, guard';

export const rows: MisuseTable = {
  operator: 'settleAll',
  create: (options) => settleAll([1], () => of(1), options),
  calls: { calls: (calls) => settleAll(calls, () => of(1)), project: (project) => settleAll([1], project) },
  rows: [
    ...badly('calls', 'an array', NaN, 0, -1, 1.5, Infinity, 'text', null, undefined, {}, () => [1]),
    ...badly('project', 'a function', NaN, 0, -1, 1.5, Infinity, 'text', null, undefined, {}, []),
    ...callRows,
    ...badly('guard', 'a function', true, 'yes', null, {}),
    ...unknown('mode', known, 'all'),
  ],
};

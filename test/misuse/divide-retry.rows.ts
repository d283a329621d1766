import { of } from 'rxjs';
import { createLimiter, divideRetry } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';
import { batchRows } from './batch-options.js';

/** The options shared with `batchMap`. */
const SHARED = ['limiter', 'weigh', 'id', 'repair', 'classify', 'timeoutMs', 'deadlineMs', 'onEvent', 'name', 'scheduler', 'random'];
const KNOWN = ['concurrency', 'limiter', 'lane', ...SHARED.slice(1)].join(', ');

export const rows: MisuseTable = {
  operator: 'divideRetry',
  create: (options) => divideRetry((items: readonly string[]) => of(items), options),
  calls: {
    work: (work) => divideRetry(work),
    'call.items': (items) => divideRetry(() => of([]))(items),
    'call.context': (context) => divideRetry(() => of([]))([], context),
    'DivideRetryContext.signal': (signal) => divideRetry(() => of([]))([], { signal }),
  },
  rows: [
    ...badly('call.items', 'an array', NaN, 0, -1, 1.5, Infinity, 'text', null, undefined, {}, () => [1]),
    ...badly('call.context', 'an object', 'text', null, true),
    ...badly('DivideRetryContext.signal', 'an AbortSignal', NaN, 0, 'text', null, {}, () => undefined),
    ...badly('work', 'a function', NaN, 0, -1, 1.5, Infinity, 'text', null, undefined, {}, []),
    ...batchRows.filter(({ option }) => SHARED.includes(option)),
    ...badly('concurrency', 'a whole number >= 1 or Infinity', NaN, 0, -1, 1.5, -Infinity, '4', true, {}, null, of(4)),
    { option: 'concurrency', value: 4, expected: 'absent when a `limiter` is given', besides: { limiter: createLimiter() } },
    ...badly('lane', 'a non-empty string', NaN, 0, -1, 1.5, Infinity, '', null, {}, () => 'urgent'),
    ...badly('maxSize', `absent (known options: ${KNOWN})`, 4),
    ...badly('split', `absent (known options: ${KNOWN})`, {}),
  ],
};

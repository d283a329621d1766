import { of } from 'rxjs';
import { createLimiter, divideRetry } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';
import { gatedRows, nested } from './gated-options.js';

/** The options shared with `batchMap`, groups included. */
const SHARED = [
  'limiter',
  'weigh',
  'id',
  'classify',
  'retry',
  'split',
  'attemptTimeoutMs',
  'itemDeadlineMs',
  'onEvent',
  'scheduler',
  'random',
];
const KNOWN = 'limiter, concurrency, lane, weigh, id, classify, retry, split, attemptTimeoutMs, itemDeadlineMs, onEvent, scheduler, random';

export const rows: MisuseTable = {
  operator: 'divideRetry',
  create: (options) => divideRetry((items: readonly string[]) => of(items), nested(options) as never),
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
    ...gatedRows.filter(({ option }) => SHARED.includes(option.split('.')[0]!)),
    ...badly('concurrency', 'a whole number >= 1 or Infinity', NaN, 0, -1, 1.5, -Infinity, '4', true, {}, null, of(4)),
    { option: 'concurrency', value: 4, expected: 'absent when a `limiter` is given', besides: { limiter: createLimiter() } },
    ...badly('lane', 'a non-empty string', NaN, 0, -1, 1.5, Infinity, '', null, {}, () => 'urgent'),
    {
      option: 'lane',
      value: 'other',
      expected: 'a lane the limiter has (a,b)',
      besides: { limiter: createLimiter({ lanes: [{ name: 'a' }, { name: 'b' }] }) },
    },
    ...badly('maxSize', `absent (known options: ${KNOWN})`, 4),
    ...badly('window', `absent (known options: ${KNOWN})`, 0),
  ],
};

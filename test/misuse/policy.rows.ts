import { of } from 'rxjs';
import { createLimiter, policy } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

const known =
  'fallback, deadlineMs, breaker, whenOpen, retry, limiter, job, timeoutMs, idempotent, classify, onEvent, name, scheduler, random';

const work = () => of(1);

export const rows: MisuseTable = {
  operator: 'policy',
  create: (options) => policy(options),
  calls: {
    'call.work': (value) => policy()(value),
    'call.call': (value) => policy()(work, value),
    'PolicyCallOptions.timeoutMs': (value) => policy()(work, { timeoutMs: value } as never),
    'PolicyCallOptions.signal': (value) => policy()(work, { signal: value }),
    'PolicyCallOptions.idempotent': (value) => policy()(work, { idempotent: value }),
    'PolicyCallOptions.job': (value) => policy({ limiter: createLimiter() })(work, { job: value }),
  },
  rows: [
    ...badly('fallback', 'a function', 'cache', 5, null, {}, of(1)),
    ...badly('deadlineMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, -Infinity, '1000', null),
    ...badly('breaker', 'a breaker made by createBreaker', {}, 5, null, 'shared', { run: work }),
    ...badly('whenOpen', "one of 'fail', 'wait'", 'skip', true, null),
    ...badly('retry', '`retryFailed({ … })`', 5, null, 'often', {}, false, { maxAttempts: 3 }),
    ...badly('name', 'a non-empty string', '', 5, null),
    ...badly('limiter', 'a limiter made by createLimiter', {}, 4, null, 'shared'),
    ...badly('job', 'an object', 5, null, 'p0'),
    ...badly('job', 'absent without a `limiter`', {}, { lane: 'p0' }),
    ...badly('timeoutMs', 'a number > 0 or Infinity', 0, -1, NaN, '1000', null),
    ...badly('idempotent', 'true or false', 0, 1, 'no', null),
    ...badly('classify', 'a function', 'fatal', null, {}),
    ...badly('onEvent', 'a function', console, 'log', null),
    ...badly('scheduler', 'an rxjs scheduler', 5, null, {}, { now: () => 0 }),
    ...badly('random', 'a function', 0.5, null, {}),
    ...badly('call.work', 'a function', undefined, null, 5, {}, of(1)),
    ...badly('call.call', 'an object', null, 'p0', true),
    ...badly('PolicyCallOptions.timeoutMs', 'absent (known options: signal, job, idempotent)', 5),
    ...badly('PolicyCallOptions.signal', 'an AbortSignal', NaN, 0, 'text', null, {}, () => undefined),
    ...badly('PolicyCallOptions.idempotent', 'true or false', 0, 'no', null),
    ...badly('PolicyCallOptions.job', 'an object', 5, null, 'p0'),
    ...badly('attemptTimeoutMs', `absent (known options: ${known})`, 5),
  ],
};

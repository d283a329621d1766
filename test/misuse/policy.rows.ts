import { of } from 'rxjs';
import { createLimiter, policy } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, misspelt, unknown, wrong } from '../support/misuse.js';

const known =
  'fallback, deadlineMs, breaker, whenOpen, retry, guard, limiter, job, hedge, timeoutMs, silenceMs, operator, idempotent, resumable, classify, onEvent, name, scheduler, random';

const work = () => of(1);

export const rows: MisuseTable = {
  operator: 'policy',
  create: (options) => policy(options),
  calls: {
    'call.work': (value) => policy()(value),
    'call.call': (value) => policy()(work, value),
    'PolicyCallOptions.timeoutMs': (value) => policy()(work, { timeoutMs: value } as never),
    'PolicyCallOptions.signal': (value) => policy()(work, { signal: value }),
    'PolicyCallOptions.guard': (value) => policy()(work, { guard: value }),
    'PolicyCallOptions.idempotent': (value) => policy()(work, { idempotent: value }),
    'PolicyCallOptions.deadlineMs': (value) => policy()(work, { deadlineMs: value }),
    'PolicyCallOptions.id': (value) => policy()(work, { id: value }),
    'PolicyCallOptions.job': (value) => policy({ limiter: createLimiter() })(work, { job: value }),
  },
  rows: [
    ...badly('fallback', 'a function', 'cache', 5, null, {}, of(1)),
    ...badly('deadlineMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, -Infinity, '1000', null),
    ...badly('breaker', 'a breaker made by createBreaker', {}, 5, null, 'shared', { run: work }),
    ...badly('whenOpen', "one of 'fail', 'wait'", 'skip', true, null),
    ...badly('retry', '`retryFailed({ … })`', 5, null, 'often', {}, false, { maxAttempts: 3 }),
    ...badly('name', 'a non-empty string', '', 5, null),
    ...badly('guard', 'a function', true, null, 'yes', {}),
    ...badly('limiter', 'a limiter made by createLimiter or createAccount', {}, 4, null, 'shared'),
    ...badly('job', 'an object', 5, null, 'p0'),
    ...wrong('job', '`{option}` needs `limiter`', 'Add it, or remove `{option}`.', {}, { lane: 'p0' }),
    ...badly('timeoutMs', 'a number > 0 or Infinity', 0, -1, NaN, '1000', null),
    ...badly('silenceMs', 'a number > 0 or Infinity', 0, -1, NaN, '1000', null),
    ...badly('hedge', '`hedging({ … })`', 5, null, true, { delayMs: 5 }),
    ...badly('operator', 'a non-empty string', '', 5, null),
    ...badly('idempotent', 'true or false', 0, 1, 'no', null),
    ...badly('resumable', 'true or false', 0, 1, 'yes', null),
    ...badly('classify', 'a function', 'fatal', null, {}),
    ...badly('onEvent', 'a function', console, 'log', null),
    ...badly('scheduler', 'an rxjs scheduler', 5, null, {}, { now: () => 0 }),
    ...badly('random', 'a function', 0.5, null, {}),
    ...badly('call.work', 'a function', undefined, null, 5, {}, of(1)),
    ...badly('call.call', 'an object', null, 'p0', true),
    ...unknown('PolicyCallOptions.timeoutMs', 'signal, job, idempotent, deadlineMs, id, guard', 5),
    ...badly('PolicyCallOptions.signal', 'an AbortSignal', NaN, 0, 'text', null, {}, () => undefined),
    ...badly('PolicyCallOptions.guard', 'a function', true, null, 'yes', {}),
    ...badly('PolicyCallOptions.idempotent', 'true or false', 0, 'no', null),
    ...badly('PolicyCallOptions.deadlineMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '5', null),
    ...badly('PolicyCallOptions.id', 'a non-empty string', '', 5, null),
    ...badly('PolicyCallOptions.job', 'an object', 5, null, 'p0'),
    ...unknown('priority', known, 5),
    ...misspelt('attemptTimeoutMs', 'timeoutMs', 5),
  ],
};

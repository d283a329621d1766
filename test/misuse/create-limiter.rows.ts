import { createLimiter } from '../../operators/create-limiter.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';
import { fairnessRows } from './gated-options.js';

const known =
  'concurrency, requestsPerMinute, tokensPerMinute, burstSeconds, headroom, lanes, fairness, maxQueued, overflow, maxWaitMs, costAboveCapacity, abortGraceMs, onEvent, scheduler';
const overflows = "one of 'error', 'dropOldest', 'dropNewest', 'dropLowest', 'latest'";

/** What is said in a call, not when the limiter is made. `runAsync` says the same in its rejection. */
const calls: Readonly<Record<string, (value: never) => unknown>> = {
  work: (value) => createLimiter().run(value),
  job: (value) => createLimiter().tryAcquire(value),
  priority: (value) => createLimiter().acquire({ priority: value } as never),
  timeoutMs: (value) => createLimiter().acquire({ timeoutMs: value }),
  cost: (value) => createLimiter().tryAcquire({ cost: value }),
  token: (value) => createLimiter().tryAcquire({ cost: { token: value } as never }),
  'cost.requests': (value) => createLimiter().acquire({ cost: { requests: value } }),
  'cost.tokens': (value) => createLimiter().tryAcquire({ cost: { tokens: value } }),
  pauseMs: (value) => {
    createLimiter().penalize(value);
  },
  'bidder.granted': (value) => createLimiter().enlist({ granted: value, refused: () => undefined }),
  'bidder.refused': (value) => createLimiter().enlist({ granted: () => undefined, refused: value }),
  listener: (value) => createLimiter().watch(value),
};

/** `lanes` names the lane and its field. */
const create = (options: Readonly<Record<string, unknown>>): unknown => {
  const path = Object.keys(Object(options) as object).find((option) => option.startsWith('lanes['));
  const field = path && /^lanes\[0\](?:\.(.+))?$/.exec(path)?.[1];
  const part = Object.keys(Object(options) as object).find((option) => option.startsWith('fairness.'));
  if (part !== undefined) return createLimiter({ fairness: { kind: 'strict', [part.slice('fairness.'.length)]: options[part] } as never });
  const call = Object.keys(Object(options) as object).find((option) => option in calls);
  if (call !== undefined) return calls[call]?.(options[call] as never);
  if (path === undefined) return createLimiter(options);
  return createLimiter({ lanes: [field === undefined ? options[path] : { name: 'p0', [field]: options[path] }] as never });
};

export const rows: MisuseTable = {
  operator: 'createLimiter',
  create,
  rows: [
    ...badly('concurrency', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, -Infinity, 2 ** 60, '4', null, true),
    ...badly('requestsPerMinute', 'a number > 0 or Infinity', 0, -1, NaN, -Infinity, '60', null, {}),
    ...badly('tokensPerMinute', 'a number > 0 or Infinity', 0, -1, NaN, '90000', [], true),
    ...badly('burstSeconds', 'a number from 0.001 to 86400', 0, -1, NaN, Infinity, 100_000, '2', null),
    ...badly('headroom', 'a number from 0.01 to 1', 0, -0.5, 1.1, 90, NaN, Infinity, '0.9', null),
    ...badly('lanes', 'a list of at least one lane', [], {}, 'p0', 3, null),
    ...badly('lanes[0]', 'an object', null, 'p0', 5),
    ...badly('lanes[0].name', 'a non-empty string', '', 5, undefined),
    ...badly('lanes[0].maxQueued', 'a whole number >= 0 or Infinity', -1, 0.5, NaN, '5'),
    ...badly('lanes[0].overflow', overflows, 'block', 5),
    ...badly('lanes[0].floor', 'a number from 0 to 1', -0.1, 1.5, NaN, '0.1'),
    ...badly('lanes[0].weight', 'a number > 0 or Infinity', -1, 0, NaN, '1'),
    ...badly('lanes[0].weight', 'a finite number > 0', Infinity),
    ...fairnessRows,
    ...badly('lanes[0].maxWaitMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '5'),
    ...badly('lanes[0].piggyback', 'true or false', 1, 'yes'),
    ...badly('maxQueued', 'a whole number >= 0 or Infinity', -1, 0.5, NaN, '1000', null),
    ...badly('overflow', overflows, 'block', 'drop', 0, true),
    ...badly('maxWaitMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '100', {}),
    ...badly('costAboveCapacity', "one of 'borrow', 'reject'", 'wait', false, 0),
    ...badly('abortGraceMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '1000', null),
    ...badly('onEvent', 'a function', console, 'log'),
    ...badly('scheduler', 'an rxjs scheduler', 5, {}, { now: () => 0 }),
    ...badly('job', 'an object', null, 5, 'urgent'),
    ...badly('priority', 'absent (known options: lane, cost, signal, timeoutMs)', 5),
    ...badly('cost', 'an object', null, 5, 'much'),
    ...badly('token', 'absent (known options: requests, tokens)', 5),
    ...badly('bidder.granted', 'a function', undefined, null, 5),
    ...badly('bidder.refused', 'a function', undefined, null, {}),
    ...badly('listener', 'a function', undefined, null, 'on'),
    ...badly('work', 'a function', undefined, null, 5, {}, 'work'),
    ...badly('timeoutMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '5', null),
    ...badly('cost.requests', 'a finite number >= 0', -1, NaN, Infinity, '1', null),
    ...badly('cost.tokens', 'a finite number >= 0', -0.5, NaN, Infinity, '800', null),
    ...badly('pauseMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '5', null, undefined),
    ...badly('maxConcurrency', `absent (known options: ${known})`, 4),
    ...badly('queueLimit', `absent (known options: ${known})`, 4),
  ],
};

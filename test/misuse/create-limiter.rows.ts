import { createLimiter } from '../../operators/create-limiter.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';
import { fairnessRows } from './gated-options.js';

const known =
  'concurrency, requestsPerMinute, tokensPerMinute, burstSeconds, headroom, lanes, fairness, maxQueued, overflow, maxWaitMs, costAboveCapacity, abortGraceMs, onEvent, scheduler';
const overflows = "one of 'error', 'dropOldest', 'dropNewest', 'dropLowest', 'latest'";

const ignore = (): void => undefined;
const bidder = { granted: ignore, refused: ignore };
const withLanes = () => createLimiter({ lanes: [{ name: 'p0' }, { name: 'p1' }] });
const lease = () => createLimiter({ tokensPerMinute: 1000 }).tryAcquire()!;

/** What is said in a call, not when the limiter is made. `runAsync` and `acquireAsync` say the same in their rejections. */
const calls: Readonly<Record<string, (value: never) => unknown>> = {
  'run.work': (value) => createLimiter().run(value),
  'tryAcquire.job': (value) => createLimiter().tryAcquire(value),
  'LimiterJob.priority': (value) => createLimiter().acquire({ priority: value } as never),
  'LimiterJob.lane': (value) => withLanes().acquire({ lane: value }),
  'LimiterJob.signal': (value) => createLimiter().acquire({ signal: value }),
  'LimiterJob.timeoutMs': (value) => createLimiter().acquire({ timeoutMs: value }),
  'LimiterJob.cost': (value) => createLimiter().tryAcquire({ cost: value }),
  'LimiterJob.cost.token': (value) => createLimiter().tryAcquire({ cost: { token: value } as never }),
  'LimiterJob.cost.requests': (value) => createLimiter().acquire({ cost: { requests: value } }),
  'LimiterJob.cost.tokens': (value) => createLimiter().tryAcquire({ cost: { tokens: value } }),
  'DrainOptions.timeoutMs': (value) => createLimiter().drain({ timeoutMs: value }),
  'shutdownOn.signal': (value) => createLimiter().shutdownOn(value),
  'penalize.pauseMs': (value) => {
    createLimiter().penalize(value);
  },
  'LimiterLimits.concurrency': (value) => {
    createLimiter().setLimits({ concurrency: value });
  },
  'LimiterLimits.requestsPerMinute': (value) => {
    createLimiter().setLimits({ requestsPerMinute: value });
  },
  'LimiterLimits.tokensPerMinute': (value) => {
    createLimiter().setLimits({ tokensPerMinute: value });
  },
  'enlist.bidder.granted': (value) => createLimiter().enlist({ ...bidder, granted: value }),
  'enlist.bidder.refused': (value) => createLimiter().enlist({ ...bidder, refused: value }),
  'enlist.bidder': (value) => createLimiter().enlist(value),
  'enlist.lane': (value) => withLanes().enlist(bidder, value),
  'watch.listener': (value) => createLimiter().watch(value),
  'Usage.inputTokens': (value) => {
    lease().settle({ inputTokens: value });
  },
  'Usage.outputTokens': (value) => {
    lease().settle({ outputTokens: value });
  },
  'release.outcome': (value) => {
    lease().release(value);
  },
  'releaseAfter.work': (value) => {
    lease().releaseAfter(value);
  },
  'ResponseLike.status': (value) => {
    createLimiter().observe({ status: value, headers: {} });
  },
  'ResponseLike.headers': (value) => {
    createLimiter().observe({ status: 429, headers: value });
  },
};

/** `lanes` names the lane and its field. */
const create = (options: Readonly<Record<string, unknown>>): unknown => {
  const path = Object.keys(Object(options) as object).find((option) => option.startsWith('lanes['));
  const field = path && /^lanes\[0\](?:\.(.+))?$/.exec(path)?.[1];
  const part = Object.keys(Object(options) as object).find((option) => option.startsWith('fairness.'));
  if (part !== undefined) return createLimiter({ fairness: { kind: 'strict', [part.slice('fairness.'.length)]: options[part] } as never });
  if (path === undefined) return createLimiter(options);
  return createLimiter({ lanes: [field === undefined ? options[path] : { name: 'p0', [field]: options[path] }] as never });
};

export const rows: MisuseTable = {
  operator: 'createLimiter',
  create,
  calls,
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
    ...badly('LimiterJob.signal', 'an AbortSignal', NaN, 0, 'text', null, {}, () => undefined),
    ...badly('DrainOptions.timeoutMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '5', null),
    ...badly('shutdownOn.signal', 'an AbortSignal', NaN, 0, 'text', null, undefined, {}, () => undefined),
    ...badly('releaseAfter.work', 'a promise', NaN, 0, 'text', null, undefined, {}, () => undefined),
    ...badly('tryAcquire.job', 'an object', null, 5, 'urgent'),
    ...badly('LimiterJob.priority', 'absent (known options: lane, cost, signal, timeoutMs)', 5),
    ...badly('LimiterJob.cost', 'an object', null, 5, 'much'),
    ...badly('LimiterJob.cost.token', 'absent (known options: requests, tokens)', 5),
    ...badly('LimiterJob.timeoutMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '5', null),
    ...badly('LimiterJob.cost.requests', 'a finite number >= 0', -1, NaN, Infinity, '1', null),
    ...badly('LimiterJob.cost.tokens', 'a finite number >= 0', -0.5, NaN, Infinity, '800', null),
    ...badly('LimiterLimits.concurrency', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '4', null),
    ...badly('LimiterLimits.requestsPerMinute', 'a number > 0 or Infinity', 0, -1, NaN, '60', null),
    ...badly('LimiterLimits.tokensPerMinute', 'a number > 0 or Infinity', 0, -1, NaN, '60', null),
    ...badly('enlist.bidder.granted', 'a function', undefined, null, 5),
    ...badly('enlist.bidder.refused', 'a function', undefined, null, {}),
    ...badly('watch.listener', 'a function', undefined, null, 'on'),
    ...badly('run.work', 'a function', undefined, null, 5, {}, 'work'),
    ...badly('penalize.pauseMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '5', null, undefined),
    ...badly('maxConcurrency', `absent (known options: ${known})`, 4),
    ...badly('queueLimit', `absent (known options: ${known})`, 4),
  ],
};

import { createLimiter } from '../../operators/index.js';
import type { MisuseRow, MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';
import { fairnessRows } from './gated-options.js';

const known =
  'concurrency, requestsPerMinute, tokensPerMinute, discipline, burstSeconds, headroom, lanes, fairness, maxQueued, overflow, maxWaitMs, costAboveCapacity, learn, refunds, abortGraceMs, random, onEvent, scheduler';
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
  'LimiterJob.holder': (value) => createLimiter().acquire({ holder: value }),
  'onRelease.listener': (value) => createLimiter().onRelease(value),
  'child.options': (value) => createLimiter().child(value),
  'keyed.options': (value) => createLimiter().keyed(value),
  'KeyedLimiterOptions.maxKeys': (value) => createLimiter().keyed({ maxKeys: value }),
  'KeyedJob.job': (value) => createLimiter().keyed().acquire(value),
  'LimiterJob.cost': (value) => createLimiter().tryAcquire({ cost: value }),
  'LimiterJob.cost.token': (value) => createLimiter().tryAcquire({ cost: { token: value } as never }),
  'LimiterJob.cost.requests': (value) => createLimiter().acquire({ cost: { requests: value } }),
  'LimiterJob.cost.tokens': (value) => createLimiter().tryAcquire({ cost: { tokens: value } }),
  'DrainOptions.timeoutMs': (value) => createLimiter().drain({ timeoutMs: value }),
  'shutdownOn.signal': (value) => createLimiter().shutdownOn(value),
  'clear.reason': (value) => {
    createLimiter().clear(value);
  },
  '__type.below': (value) => createLimiter().whenQueued({ below: value }),
  'whenQueued.options': (value) => createLimiter().whenQueued(value),
  'penalize.pauseMs': (value) => {
    createLimiter().penalize(value);
  },
  'penalize.lane': (value) => {
    withLanes().penalize(5, value);
  },
  'observe.options': (value) => {
    createLimiter().observe({ status: 200, headers: {} }, value);
  },
  'ObserveOptions.sentAt': (value) => {
    createLimiter().observe({ status: 200, headers: {} }, { sentAt: value });
  },
  'ObserveOptions.lane': (value) => {
    withLanes().observe({ status: 200, headers: {} }, { lane: value });
  },
  'ObserveOptions.at': (value) => {
    createLimiter().observe({ status: 200, headers: {} }, { at: value } as never);
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
  'enlist.bidder.requests': (value) => createLimiter().enlist({ ...bidder, requests: value }),
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
const withOptions =
  (make: (options: never) => unknown) =>
  (options: Readonly<Record<string, unknown>>): unknown => {
    const path = Object.keys(Object(options) as object).find((option) => option.startsWith('lanes['));
    const field = path && /^lanes\[0\](?:\.(.+))?$/.exec(path)?.[1];
    const part = Object.keys(Object(options) as object).find((option) => option.startsWith('fairness.'));
    if (part !== undefined) return make({ fairness: { kind: 'strict', [part.slice('fairness.'.length)]: options[part] } } as never);
    if (path === undefined) return make(options as never);
    return make({ lanes: [field === undefined ? options[path] : { name: 'p0', [field]: options[path] }] } as never);
  };

const ownRows: readonly MisuseRow[] = [
  ...badly('concurrency', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, -Infinity, 2 ** 60, '4', null, true),
  ...badly('requestsPerMinute', 'a number >= 0 or Infinity', -1, NaN, -Infinity, '60', null, {}),
  ...badly('tokensPerMinute', 'a number >= 0 or Infinity', -1, NaN, '90000', [], true),
  ...badly('discipline', "one of 'bucket', 'sliding'", 'window', 'Sliding', 60, true, null, {}),
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
  ...badly('learn', 'true or false', 1, 'yes', null, 0),
  ...badly('refunds', 'true or false', 1, 'no', null, 0),
  ...badly('random', 'a function', 0.5, 'Math.random', null, {}),
  ...badly('abortGraceMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '1000', null),
  ...badly('onEvent', 'a function', console, 'log'),
];

/** A window can neither be borrowed from nor saved up. */
const slidingRows: readonly MisuseRow[] = [
  ...badly('burstSeconds', "absent with `discipline: 'sliding'`", 2, 60).map((row) => ({
    ...row,
    besides: { discipline: 'sliding', costAboveCapacity: 'reject' },
  })),
  ...badly('costAboveCapacity', "'reject' with `discipline: 'sliding'`", 'borrow').map((row) => ({
    ...row,
    besides: { discipline: 'sliding' },
  })),
];

/** A limiter below takes the same options, and says the same of them. */
const below = {
  ChildLimiterOptions: withOptions((options) => createLimiter().child(options)),
  KeyedLimiterOptions: withOptions((options) => createLimiter().keyed(options)),
};
const rowsBelow = Object.keys(below).flatMap((type) => ownRows.map((row) => ({ ...row, option: `${type}.${row.option}` })));
const keyed = createLimiter({ lanes: [{ name: 'p0' }] }).keyed();
const callsBelow: Readonly<Record<string, (value: never) => unknown>> = Object.fromEntries(
  Object.entries(below).flatMap(([type, create]) =>
    ownRows.map(({ option, besides }) => [`${type}.${option}`, (value: never) => create({ ...besides, [option]: value })] as const),
  ),
);

/** A job with a key is otherwise a job. */
const jobRows: readonly MisuseRow[] = [
  ...badly('LimiterJob.signal', 'an AbortSignal', NaN, 0, 'text', null, {}, () => undefined),
  ...badly('LimiterJob.holder', 'a lease of a limiter', NaN, 0, 'text', null, {}, () => undefined),
  ...badly('LimiterJob.cost', 'an object', null, 5, 'much'),
  ...badly('LimiterJob.cost.token', 'absent (known options: requests, tokens)', 5),
  ...badly('LimiterJob.timeoutMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '5', null),
  ...badly('LimiterJob.cost.requests', 'a finite number >= 0', -1, NaN, Infinity, '1', null),
  ...badly('LimiterJob.cost.tokens', 'a finite number >= 0', -0.5, NaN, Infinity, '800', null),
];
const keyedRows = jobRows.map((row) => ({ ...row, option: row.option.replace('LimiterJob', 'KeyedJob') }));
const keyedCalls: Readonly<Record<string, (value: never) => unknown>> = {
  'KeyedJob.lane': (lane) => keyed.acquire({ key: 1, lane }),
  ...Object.fromEntries(
    keyedRows.map(({ option }) => {
      const [, field, part] = option.split('.') as [string, string, string | undefined];
      return [option, (value: never) => keyed.acquire({ key: 1, [field]: part === undefined ? value : { [part]: value } })] as const;
    }),
  ),
};

export const rows: MisuseTable = {
  operator: 'createLimiter',
  create: withOptions(createLimiter),
  calls: { ...calls, ...callsBelow, ...keyedCalls },
  rows: [
    ...ownRows,
    ...slidingRows,
    ...rowsBelow,
    ...jobRows,
    ...keyedRows,
    ...badly('scheduler', 'an rxjs scheduler', 5, {}, { now: () => 0 }),
    ...badly('onRelease.listener', 'a function', undefined, null, 'on', 5, {}),
    ...badly('child.options', 'an object', null, 5, 'slow', NaN, 0),
    ...badly('keyed.options', 'an object', null, 5, 'slow', NaN, 0),
    ...badly('KeyedLimiterOptions.maxKeys', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '4', null),
    ...badly('KeyedJob.job', 'an object with a `key`', undefined, null, 5, 'slow', {}),
    ...badly('DrainOptions.timeoutMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '5', null),
    ...badly('shutdownOn.signal', 'an AbortSignal', NaN, 0, 'text', null, undefined, {}, () => undefined),
    ...badly('releaseAfter.work', 'a promise', NaN, 0, 'text', null, undefined, {}, () => undefined),
    ...badly('tryAcquire.job', 'an object', null, 5, 'urgent'),
    ...badly('LimiterJob.priority', 'absent (known options: lane, cost, signal, timeoutMs, holder)', 5),
    ...badly('LimiterLimits.concurrency', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '4', null),
    ...badly('LimiterLimits.requestsPerMinute', 'a number >= 0 or Infinity', -1, NaN, '60', null),
    ...badly('LimiterLimits.tokensPerMinute', 'a number >= 0 or Infinity', -1, NaN, '60', null),
    ...badly('enlist.bidder.granted', 'a function', undefined, null, 5),
    ...badly('enlist.bidder.requests', 'a finite number >= 0', NaN, -1, Infinity, '1', null, {}),
    ...badly('enlist.bidder.refused', 'a function', undefined, null, {}),
    ...badly('watch.listener', 'a function', undefined, null, 'on'),
    ...badly('run.work', 'a function', undefined, null, 5, {}, 'work'),
    ...badly('ObserveOptions.sentAt', 'a finite number', NaN, Infinity, '5', null, {}),
    ...badly('ObserveOptions.at', 'absent (known options: sentAt, lane)', 5),
    ...badly('observe.options', 'an object', null, 5, 'now'),
    ...badly('penalize.pauseMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '5', null, undefined),
    ...badly('__type.below', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '3', undefined),
    ...badly('whenQueued.options', 'an object', null, 5, undefined),
    ...badly('maxConcurrency', `absent (known options: ${known})`, 4),
    ...badly('queueLimit', `absent (known options: ${known})`, 4),
  ],
};

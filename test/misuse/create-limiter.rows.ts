import { childOf, createLimiter, heldBy, keyedLimiter, lanes, perMinute } from '../../operators/index.js';
import type { MisuseRow, MisuseTable } from '../support/misuse.js';
import { badly, misspelt, unknown, wrong } from '../support/misuse.js';

const known =
  'concurrency, rates, headroom, queue, maxQueued, overflow, learn, refunds, enforce, abortGraceMs, restore, random, onEvent, name, scheduler';
const overflows = "one of 'error', 'dropOldest', 'dropNewest', 'dropLowest', 'latest'";

const ignore = (): void => undefined;
const bidder = { granted: ignore, refused: ignore };
const withLanes = () => createLimiter({ queue: lanes([{ name: 'p0' }, { name: 'p1' }]) });
const lease = () => createLimiter({ rates: [perMinute('tokens', 1000)] }).tryAcquire()!;

const USAGE = ['inputTokens', 'outputTokens', 'cacheReadTokens', 'cacheWriteTokens', 'cacheWrite1hTokens', 'reasoningTokens', 'units'];

/** What is said in a call, not when the limiter is made. `runAsync` and `acquireAsync` say the same in their rejections. */
const calls: Readonly<Record<string, (value: never) => unknown>> = {
  'run.work': (value) => createLimiter().run(value),
  'tryAcquire.job': (value) => createLimiter().tryAcquire(value),
  'LimiterJob.priority': (value) => createLimiter().acquire({ priority: value } as never),
  'LimiterJob.lane': (value) => withLanes().acquire({ lane: value }),
  'LimiterJob.signal': (value) => createLimiter().acquire({ signal: value }),
  'LimiterJob.deadlineMs': (value) => createLimiter().acquire({ deadlineMs: value }),
  'LimiterJob.model': (value) => createLimiter().acquire({ model: value }),
  'LimiterJob.waitsForRoom': (value) => createLimiter().acquire({ waitsForRoom: value }),
  'LimiterJob.holder': (value) => createLimiter().acquire({ holder: value }),
  'onRelease.listener': (value) => createLimiter().onRelease(value),
  'childOf.options': (value) => childOf(createLimiter(), value),
  'keyedLimiter.options': (value) => keyedLimiter(createLimiter(), value),
  'KeyedLimiterOptions.maxKeys': (value) => keyedLimiter(createLimiter(), { maxKeys: value }),
  'KeyedLimiterOptions.perKey': (value) => keyedLimiter(createLimiter(), { perKey: value }),
  'KeyedJob.job': (value) => keyedLimiter(createLimiter()).acquire(value),
  'LimiterJob.cost': (value) => createLimiter().tryAcquire({ cost: value }),
  'LimiterJob.cost.token': (value) => createLimiter().tryAcquire({ cost: { token: value } }),
  'LimiterJob.cost.slots': (value) => createLimiter().tryAcquire({ cost: { slots: value } }),
  'LimiterJob.cost.requests': (value) => createLimiter().acquire({ cost: { requests: value } }),
  'LimiterJob.cost.tokens': (value) => createLimiter().tryAcquire({ cost: { tokens: value } }),
  'LimiterJob.cost.inputTokens': (value) => createLimiter().tryAcquire({ cost: { inputTokens: value } }),
  'LimiterJob.cost.outputTokens': (value) => createLimiter().tryAcquire({ cost: { outputTokens: value } }),
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
  'observe.options': (value) => {
    createLimiter().observe({ status: 200, headers: {} }, value);
  },
  'ObserveOptions.sentAt': (value) => {
    createLimiter().observe({ status: 200, headers: {} }, { sentAt: value });
  },
  'ObserveOptions.model': (value) => {
    createLimiter().observe({ status: 200, headers: {} }, { model: value });
  },
  'ObserveOptions.at': (value) => {
    createLimiter().observe({ status: 200, headers: {} }, { at: value } as never);
  },
  'LimiterLimits.concurrency': (value) => {
    createLimiter().setLimits({ concurrency: value });
  },
  'LimiterLimits.rates': (value) => {
    createLimiter().setLimits({ rates: value });
  },
  'childOf.limiter': (value) => childOf(value),
  'heldBy.lease': (value) => heldBy(value),
  'wrap.work': (value) => createLimiter().wrap(value),
  'move.lane': (value) => withLanes().move(1, value),
  'enlist.bidder.granted': (value) => createLimiter().enlist({ ...bidder, granted: value }),
  'enlist.bidder.refused': (value) => createLimiter().enlist({ ...bidder, refused: value }),
  'enlist.bidder.requests': (value) => createLimiter().enlist({ ...bidder, requests: value }),
  'enlist.bidder': (value) => createLimiter().enlist(value),
  'enlist.lane': (value) => withLanes().enlist(bidder, value),
  'watch.listener': (value) => createLimiter().watch(value),
  ...Object.fromEntries(
    USAGE.map((field) => [
      `Usage.${field}`,
      (value: never) => {
        lease().settle({ [field]: value });
      },
    ]),
  ),
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

/** What `save` of an account cannot have answered of its models. */
const savedModels: readonly unknown[] = [
  null,
  {},
  [null],
  [{ model: ['large'], at: 0, pausedForMs: 0 }],
  [{ model: ['large'], at: null, pausedForMs: 0, rates: [] }],
  [{ model: ['large'], at: 0, pausedForMs: '0', rates: [] }],
  [{ model: ['large'], at: 0, pausedForMs: 0, rates: [{ unit: 'tokens', windowMs: 60_000, isStrict: false, spent: [null] }] }],
  [{ model: ['large'], at: 0, pausedForMs: 0, rates: [], models: {} }],
];

const ownRows: readonly MisuseRow[] = [
  ...badly('concurrency', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, -Infinity, 2 ** 60, '4', null, true),
  ...badly('rates', "a list of rates such as perMinute('requests', 600)", 5, '60', {}, null),
  ...badly('headroom', 'a number from 0.01 to 1', 0, -0.5, 1.1, 90, NaN, Infinity, '0.9', null),
  ...badly('queue', 'lanes([…])', 5, 'fifo', {}, [], null),
  ...badly('maxQueued', 'a whole number >= 0 or Infinity', -1, 0.5, NaN, '1000', null),
  ...badly('overflow', overflows, 'block', 'drop', 0, true),
  ...badly('learn', 'fromHeaders()', 1, 'yes', true, {}),
  ...badly('refunds', 'true or false', 1, 'no', null, 0),
  ...badly('enforce', 'true or false', 1, 'no', null, 0),
  ...badly(
    'restore',
    'the result of `save()`',
    1,
    'yes',
    null,
    {},
    { at: 0, pausedForMs: 0 },
    { pausedForMs: 0, rates: [] },
    { at: 0, pausedForMs: '0', rates: [] },
    { at: 0, pausedForMs: 0, rates: [null] },
    { at: 0, pausedForMs: 0, rates: [{ unit: 'tokens', windowMs: 60_000, isStrict: false }] },
    { at: 0, pausedForMs: 0, rates: [{ unit: 'tokens', windowMs: 60_000, spent: [1] }] },
    { at: 0, pausedForMs: 0, rates: [{ unit: 'tokens', isStrict: false, spent: [1] }] },
    { at: 0, pausedForMs: 0, rates: [{ unit: 'tokens', windowMs: 60_000, isStrict: false, spent: [null] }] },
    { at: 0, pausedForMs: 0, rates: [{ unit: 'tokens', windowMs: 60_000, isStrict: false, spent: 5 }] },
    ...savedModels.map((models) => ({ at: 0, pausedForMs: 0, rates: [], models })),
  ),
  ...badly('random', 'a function', 0.5, 'Math.random', null, {}),
  ...badly('abortGraceMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '1000', null),
  ...badly('onEvent', 'a function', console, 'log'),
  ...badly('name', 'a non-empty string', '', 5, {}),
];

/** A limiter below takes the same options, and says the same of them. */
const below = {
  ChildLimiterOptions: (options: never) => childOf(createLimiter(), options),
  KeyedLimiterOptions: (options: never) => keyedLimiter(createLimiter(), options),
};
const rowsBelow = Object.keys(below).flatMap((type) => ownRows.map((row) => ({ ...row, option: `${type}.${row.option}` })));
const keyed = keyedLimiter({ queue: lanes([{ name: 'p0' }]) });
const callsBelow: Readonly<Record<string, (value: never) => unknown>> = Object.fromEntries(
  Object.entries(below).flatMap(([type, create]) =>
    ownRows.map(
      ({ option, besides }) => [`${type}.${option}`, (value: never) => create({ ...besides, [option]: value } as never)] as const,
    ),
  ),
);

/** A job with a key is otherwise a job. */
const jobRows: readonly MisuseRow[] = [
  ...badly('LimiterJob.signal', 'an AbortSignal', NaN, 0, 'text', null, {}, () => undefined),
  ...badly('LimiterJob.model', 'a non-empty string', '', NaN, 5, null, {}),
  ...badly('LimiterJob.waitsForRoom', 'true or false', 0, 1, 'yes', null, {}),
  ...badly('LimiterJob.holder', 'heldBy(lease)', NaN, 0, 'text', null, {}, () => undefined),
  ...badly('LimiterJob.cost', 'an object', null, 5, 'much'),
  ...misspelt('LimiterJob.cost.token', 'cost.tokens', 5),
  ...badly('LimiterJob.deadlineMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '5', null),
  ...badly('LimiterJob.cost.slots', 'a finite number >= 0', -1, NaN, Infinity, '1', null),
  ...badly('LimiterJob.cost.slots', 'a whole number >= 0', 0.5, 1.000001),
  ...badly('LimiterJob.cost.requests', 'a finite number >= 0', -1, NaN, Infinity, '1', null),
  ...['tokens', 'inputTokens', 'outputTokens'].flatMap((unit) =>
    badly(`LimiterJob.cost.${unit}`, 'a finite number >= 0', -0.5, NaN, Infinity, '800', null),
  ),
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
  create: createLimiter,
  names: { ChildLimiterOptions: 'childOf', childOf: 'childOf', KeyedLimiterOptions: 'keyedLimiter', keyedLimiter: 'keyedLimiter' },
  calls: { ...calls, ...callsBelow, ...keyedCalls },
  rows: [
    ...ownRows,
    ...rowsBelow,
    ...jobRows,
    ...keyedRows,
    ...badly('scheduler', 'an rxjs scheduler', 5, {}, { now: () => 0 }),
    ...badly('onRelease.listener', 'a function', undefined, null, 'on', 5, {}),
    ...badly('childOf.options', 'an object', null, 5, 'slow', NaN, 0),
    ...badly('keyedLimiter.options', 'an object', null, 5, 'slow', NaN, 0),
    ...badly('KeyedLimiterOptions.maxKeys', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '4', null),
    ...badly('KeyedLimiterOptions.perKey', 'a function', null, 5, 'a', {}, { a: 1 }, new Map()),
    ...badly('KeyedJob.job', 'an object with a `key`', undefined, null, 5, 'slow', {}),
    ...badly('DrainOptions.timeoutMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '5', null),
    ...badly('shutdownOn.signal', 'an AbortSignal', NaN, 0, 'text', null, undefined, {}, () => undefined),
    ...badly('releaseAfter.work', 'a promise', NaN, 0, 'text', null, undefined, {}, () => undefined),
    ...badly('tryAcquire.job', 'an object', null, 5, 'urgent'),
    ...unknown('LimiterJob.priority', 'id, lane, key, model, cost, signal, deadlineMs, waitsForRoom, holder', 5),
    ...badly('LimiterLimits.concurrency', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '4', null),
    ...badly('LimiterLimits.rates', "a list of rates such as perMinute('requests', 600)", 5, '60', {}, null),
    ...badly('wrap.work', 'a function', undefined, null, 5, {}, 'work'),
    ...badly('enlist.bidder.granted', 'a function', undefined, null, 5),
    ...badly('enlist.bidder.requests', 'a finite number >= 0', NaN, -1, Infinity, '1', null, {}),
    ...badly('enlist.bidder.refused', 'a function', undefined, null, {}),
    ...badly('watch.listener', 'a function', undefined, null, 'on'),
    ...badly('run.work', 'a function', undefined, null, 5, {}, 'work'),
    ...badly('ObserveOptions.sentAt', 'a finite number', NaN, Infinity, '5', null, {}),
    ...badly('ObserveOptions.model', 'a non-empty string', '', NaN, 5, null, {}),
    ...unknown('ObserveOptions.at', 'sentAt, model', 5),
    ...badly('observe.options', 'an object', null, 5, 'now'),
    ...badly('penalize.pauseMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '5', null, undefined),
    ...badly('__type.below', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '3', undefined),
    ...badly('whenQueued.options', 'an object', null, 5, undefined),
    ...unknown('priority', known, 4),
    ...wrong('maxConcurrency', 'unknown option `{option}`', 'Use `concurrency`.', 4),
    ...wrong('requestsPerMinute', 'unknown option `{option}`', 'Use `createAccount`, or `rates`.', 60),
    ...wrong('lanes', 'unknown option `{option}`', 'Use `createAccount`, or `queue: lanes([…])`.', ['user']),
    ...misspelt('queueLimit', 'queue', 4),
  ],
};

import type { Observable, SchedulerLike } from 'rxjs';
import { isObservable } from 'rxjs';
import type { BackoffOptions } from '../kernel/backoff.js';
import type { DivideLimits } from '../kernel/divide-plan.js';
import { schedulerOption } from './alarm.js';
import { FlowConfigError } from './errors.js';
import type { FlowSink } from './events.js';
import { safeSink } from './events.js';
import { LaneTable, overflow } from './lanes.js';
import type { Limiter } from './limiter.js';
import { FlowLimiter } from './limiter.js';
import { callback, count, durationMs, known, oneOf, orDefault, positive } from './options.js';
import type { Classify, LaneOptions, Overflow } from './types.js';

/** What a window function is told. */
export interface WindowContext {
  /** Leases the limiter has handed out, this operator's and others'. */
  readonly executing: number;
  /** Most leases at a time. */
  readonly concurrency: number;
  readonly queued: number;
  readonly queuedWeight: number;
  /** Age of the oldest waiting item, in ms. */
  readonly oldestMs: number;
}

/**
 * How long a batch that is not full is held for company while a permit is free:
 * not at all, a fixed time, a time that grows with the share of slots in use (0 when idle, `maxMs` when all are busy), or your own rule in ms.
 */
export type Window =
  | { readonly kind: 'natural' }
  | { readonly kind: 'fixed'; readonly ms: number }
  | { readonly kind: 'graded'; readonly maxMs: number }
  | ((context: WindowContext) => number);

export interface RetryOptions {
  /** Calls one batch may take, the first included. @defaultValue 3 */
  readonly maxAttempts?: number;
  /** First delay, in ms. @defaultValue 200 */
  readonly initialMs?: number;
  /** @defaultValue 2 */
  readonly factor?: number;
  /** Longest delay, in ms; a `retry-after` may be longer. @defaultValue 20000 */
  readonly maxMs?: number;
  /** @defaultValue 'full' */
  readonly jitter?: BackoffOptions['jitter'];
  /** Most retries at a time as a share of all calls under way, never less than 3. @defaultValue Infinity */
  readonly budget?: number;
}

export interface SplitOptions {
  /** Parts a failed batch is split into. 2 halves it, Infinity sends every item alone. @defaultValue 4 */
  readonly factor?: number;
  /** Most calls for one batch, the first included. @defaultValue twice the batch's size */
  readonly maxCalls?: number;
  /** Most splits and blame rounds above one call. @defaultValue 16 */
  readonly maxDepth?: number;
  /** How often the items an error names are taken out and the rest sent whole, before splitting. @defaultValue 3 */
  readonly maxBlameRounds?: number;
}

/** Options of everything that forms batches behind a gate. */
export interface GatedBatchOptions<T> {
  /** Most items in one call. @defaultValue 20 */
  readonly maxSize?: number;
  /** Most weight in one call, in the unit `weigh` returns. @defaultValue 8192 */
  readonly maxWeight?: number;
  /** Weight above which one item is rejected with `ItemTooHeavyError`. @defaultValue Infinity */
  readonly hardMaxWeight?: number;
  /** Weight of one item, for example its tokens; with a limiter it is the call's token cost. @defaultValue `() => 1`, and no token cost */
  readonly weigh?: (item: T) => number;
  /** An item heavier than `maxWeight` travels alone, or is rejected with `ItemTooHeavyError`. @defaultValue 'alone' */
  readonly oversize?: 'alone' | 'reject';
  /** Calls at a time; an Observable changes it while running. Not together with `limiter`. @defaultValue 4 */
  readonly concurrency?: number | Observable<number>;
  /** A limiter shared with others. */
  readonly limiter?: Limiter;
  /** @defaultValue `{ kind: 'graded', maxMs: 100 }` */
  readonly window?: Window;
  /** Most items waiting; those in backoff count. @defaultValue 1000 */
  readonly maxQueued?: number;
  /** What happens at the bound: `'error'` fails the operator, the others drop an item, whose caller gets an `OverflowError`. @defaultValue 'error' */
  readonly overflow?: Overflow;
  /** Lanes, most urgent first. @defaultValue one lane for all */
  readonly lanes?: readonly LaneOptions[];
  /** Name of an item's lane. @defaultValue the last lane */
  readonly lane?: (item: T) => string;
  /** Name of an item, for results by id and for blame by id. @defaultValue its index as text */
  readonly id?: (item: T) => string;
  /** Sorts errors into retry, split and give up. @defaultValue `classifyError` */
  readonly classify?: Classify;
  /** @defaultValue 3 attempts, 200 ms doubling to 20 s with full jitter */
  readonly retry?: RetryOptions | false;
  /** @defaultValue 4 parts, at most twice as many calls as items */
  readonly split?: SplitOptions | false;
  /** Longest single call, in ms; its signal aborts and it counts as `timeout`. @defaultValue 30000 */
  readonly attemptTimeoutMs?: number;
  /** Longest time from acceptance to result, in ms; waiting and backoff included. @defaultValue Infinity */
  readonly itemDeadlineMs?: number | ((item: T) => number);
  /** `'asap'` forms the batch at the end of the current frame, so that a synchronous burst travels together; `'sync'` does not wait. @defaultValue 'asap' */
  readonly burst?: 'asap' | 'sync';
  readonly onEvent?: FlowSink;
  /** Clock and timers. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Source of jitter, 0 to 1. @defaultValue `Math.random` */
  readonly random?: () => number;
}

export const GATED_BATCH_DEFAULTS = {
  maxSize: 20,
  maxWeight: 8192,
  hardMaxWeight: Infinity,
  oversize: 'alone',
  concurrency: 4,
  window: { kind: 'graded', maxMs: 100 },
  maxQueued: 1000,
  overflow: 'error',
  retry: { maxAttempts: 3, initialMs: 200, factor: 2, maxMs: 20_000, jitter: 'full', budget: Infinity },
  split: { factor: 4, maxDepth: 16, maxBlameRounds: 3 },
  attemptTimeoutMs: 30_000,
  itemDeadlineMs: Infinity,
  burst: 'asap',
} as const;

export const GATED_BATCH_OPTIONS = [
  'maxSize',
  'maxWeight',
  'hardMaxWeight',
  'weigh',
  'oversize',
  'concurrency',
  'limiter',
  'window',
  'maxQueued',
  'overflow',
  'lanes',
  'lane',
  'id',
  'classify',
  'retry',
  'split',
  'attemptTimeoutMs',
  'itemDeadlineMs',
  'burst',
  'onEvent',
  'scheduler',
  'random',
] as const satisfies readonly (keyof GatedBatchOptions<unknown>)[];

/** The options, checked and with their defaults: what one engine needs. */
export interface EngineConfig<T> {
  readonly operator: string;
  readonly maxSize: number;
  readonly maxWeight: number;
  readonly hardMaxWeight: number;
  readonly weigh: ((item: T) => number) | undefined;
  readonly window: (context: WindowContext) => number;
  readonly maxQueued: number;
  readonly table: LaneTable;
  readonly lane: ((item: T) => string) | undefined;
  readonly id: ((item: T) => string) | undefined;
  readonly classify: Classify;
  readonly retry: (BackoffOptions & { readonly maxAttempts: number; readonly budget: number }) | undefined;
  readonly split: ((size: number) => DivideLimits) | undefined;
  readonly attemptTimeoutMs: number;
  readonly itemDeadlineMs: (item: T) => number;
  readonly burst: 'asap' | 'sync';
  readonly onEvent: FlowSink | undefined;
  readonly scheduler: SchedulerLike | undefined;
  readonly random: () => number;
  /** The shared limiter, or a way to make one of this run's own. */
  readonly limiter: Limiter | (() => Limiter);
  readonly concurrency$: Observable<number> | undefined;
}

/** @throws FlowConfigError naming the operator and the option */
export function engineConfig<T>(
  operator: string,
  options: GatedBatchOptions<T>,
  classify: Classify,
  extra: readonly string[] = [],
): EngineConfig<T> {
  known(operator, options, [...GATED_BATCH_OPTIONS, ...extra]);
  const d = GATED_BATCH_DEFAULTS;
  const maxQueued = count(operator, 'maxQueued', orDefault(options.maxQueued, d.maxQueued));
  const maxWeight = positive(operator, 'maxWeight', orDefault(options.maxWeight, d.maxWeight));
  const hardMaxWeight = positive(operator, 'hardMaxWeight', orDefault(options.hardMaxWeight, d.hardMaxWeight));
  const oversize = oneOf(operator, 'oversize', orDefault(options.oversize, d.oversize), ['alone', 'reject']);
  const itemDeadlineMs = orDefault(options.itemDeadlineMs, d.itemDeadlineMs);
  const table = new LaneTable(operator, options.lanes, {
    maxQueued,
    overflow: overflow(operator, 'overflow', orDefault(options.overflow, d.overflow)),
  });
  const fixedDeadlineMs = typeof itemDeadlineMs === 'function' ? undefined : durationMs(operator, 'itemDeadlineMs', itemDeadlineMs);
  return {
    operator,
    maxSize: count(operator, 'maxSize', orDefault(options.maxSize, d.maxSize)),
    maxWeight,
    hardMaxWeight: oversize === 'reject' ? Math.min(maxWeight, hardMaxWeight) : hardMaxWeight,
    weigh: callback(operator, 'weigh', options.weigh),
    window: windowRule(operator, orDefault(options.window, d.window)),
    maxQueued,
    table,
    lane: callback(operator, 'lane', options.lane),
    id: callback(operator, 'id', options.id),
    classify: callback(operator, 'classify', options.classify) ?? classify,
    retry: retryRule(operator, options.retry),
    split: splitRule(operator, options.split),
    attemptTimeoutMs: positive(operator, 'attemptTimeoutMs', orDefault(options.attemptTimeoutMs, d.attemptTimeoutMs)),
    itemDeadlineMs: fixedDeadlineMs === undefined ? (itemDeadlineMs as (item: T) => number) : () => fixedDeadlineMs,
    burst: oneOf(operator, 'burst', orDefault(options.burst, d.burst), ['asap', 'sync']),
    onEvent: safeSink(callback(operator, 'onEvent', options.onEvent)),
    scheduler: options.scheduler === undefined ? undefined : schedulerOption(operator, options.scheduler),
    random: callback(operator, 'random', options.random) ?? Math.random,
    ...gate(operator, options, table),
  };
}

function gate<T>(operator: string, options: GatedBatchOptions<T>, table: LaneTable): Pick<EngineConfig<T>, 'limiter' | 'concurrency$'> {
  const { limiter, concurrency = GATED_BATCH_DEFAULTS.concurrency } = options;
  if (limiter !== undefined) {
    if (options.concurrency !== undefined)
      throw new FlowConfigError(operator, 'concurrency', 'absent when a `limiter` is given', options.concurrency);
    if (typeof (limiter as Partial<Limiter> | null)?.enlist !== 'function')
      throw new FlowConfigError(operator, 'limiter', 'a limiter made by createLimiter', limiter);
    const missing = options.lanes === undefined ? undefined : table.names.find((name) => limiter.lanes?.includes(name) === false);
    if (missing !== undefined) throw new FlowConfigError(operator, 'lanes', `lanes the limiter has (${String(limiter.lanes)})`, missing);
    return { limiter, concurrency$: undefined };
  }
  const changing = isObservable(concurrency) ? concurrency : undefined;
  const fixed = changing ? GATED_BATCH_DEFAULTS.concurrency : count(operator, 'concurrency', concurrency);
  const { scheduler } = options;
  const lanes = table.lanes.map(({ name, floor }) => ({ name, floor }));
  return { limiter: () => new FlowLimiter({ concurrency: fixed, lanes, ...(scheduler && { scheduler }) }), concurrency$: changing };
}

function windowRule(operator: string, window: Window): (context: WindowContext) => number {
  if (typeof window === 'function') return window;
  switch ((window as { kind?: unknown } | null)?.kind) {
    case 'natural':
      return () => 0;
    case 'fixed': {
      const ms = durationMs(operator, 'window.ms', (window as { ms: number }).ms);
      return () => ms;
    }
    case 'graded': {
      const maxMs = durationMs(operator, 'window.maxMs', (window as { maxMs: number }).maxMs);
      return ({ executing, concurrency }) => (concurrency === Infinity ? 0 : maxMs * Math.min(1, executing / concurrency));
    }
    default:
      throw new FlowConfigError(
        operator,
        'window',
        "{ kind: 'natural' }, { kind: 'fixed', ms }, { kind: 'graded', maxMs } or a function",
        window,
      );
  }
}

/** Options under one name, which `false` turns off. */
function group<O extends object>(operator: string, option: string, value: O | undefined): Partial<O> {
  if (value === undefined || (typeof value === 'object' && (value as unknown) !== null)) return value ?? {};
  throw new FlowConfigError(operator, option, 'an object or false', value);
}

function retryRule(operator: string, retry: RetryOptions | false | undefined): EngineConfig<never>['retry'] {
  if (retry === false) return undefined;
  const given: RetryOptions = group(operator, 'retry', retry);
  known(operator, given, ['maxAttempts', 'initialMs', 'factor', 'maxMs', 'jitter', 'budget']);
  const d = GATED_BATCH_DEFAULTS.retry;
  return {
    maxAttempts: count(operator, 'retry.maxAttempts', orDefault(given.maxAttempts, d.maxAttempts)),
    initialMs: durationMs(operator, 'retry.initialMs', orDefault(given.initialMs, d.initialMs)),
    factor: positive(operator, 'retry.factor', orDefault(given.factor, d.factor)),
    maxMs: durationMs(operator, 'retry.maxMs', orDefault(given.maxMs, d.maxMs)),
    jitter: oneOf(operator, 'retry.jitter', orDefault(given.jitter, d.jitter), ['full', 'equal', 'none']),
    budget: positive(operator, 'retry.budget', orDefault(given.budget, d.budget)),
  };
}

function splitRule(operator: string, split: SplitOptions | false | undefined): EngineConfig<never>['split'] {
  if (split === false) return undefined;
  const given: SplitOptions = group(operator, 'split', split);
  known(operator, given, ['factor', 'maxCalls', 'maxDepth', 'maxBlameRounds']);
  const d = GATED_BATCH_DEFAULTS.split;
  const factor = count(operator, 'split.factor', orDefault(given.factor, d.factor), 2);
  const maxDepth = count(operator, 'split.maxDepth', orDefault(given.maxDepth, d.maxDepth), 0);
  const maxBlameRounds = count(operator, 'split.maxBlameRounds', orDefault(given.maxBlameRounds, d.maxBlameRounds), 0);
  const maxCalls = given.maxCalls === undefined ? undefined : count(operator, 'split.maxCalls', given.maxCalls);
  return (size) => ({ factor, maxDepth, maxBlameRounds, maxCalls: maxCalls ?? 2 * size });
}

/* eslint-disable @typescript-eslint/no-unnecessary-type-parameters, @typescript-eslint/no-unnecessary-type-assertion -- types of today beside those that tests speak of */
/**
 * The operators as tests write them. The only place in `test/` where the names of today's options stand: a test that is built of these says what
 * it means (values for queue, order, window, repair and rates) and outlives a change of names. Extend it when a test needs more.
 */
import type { Observable, OperatorFunction, SchedulerLike } from 'rxjs';
import type {
  Batcher,
  BatchMapFromOptions,
  BatchWork,
  Classify,
  DivideRetryOptions,
  FlowSink,
  Overflow,
  Policy,
  PolicyOptions,
  PullSource,
  RetryOptions,
  Settled,
  WindowContext,
} from '../operators/index.js';
import * as operators from '../operators/index.js';
import type { GatedBatchOptions, LaneOptions, SplitOptions } from './today/gated.js';
import { gated as renamed } from './today/gated.js';
import type { BulkheadMapOptions, ConcatMapByOptions, SettleAllOptions } from './today/items.js';
import * as today from './today/items.js';
import type { Cost, Limiter, LimiterJob, LimiterOptions } from './today/limiter.js';
import { createLimiter as limiterOf } from './today/limiter.js';

export type { FlowEvent, Settled } from '../operators/index.js';
export {
  adaptiveLimit,
  backpressure,
  batch,
  classifyError,
  coalesce,
  conflateWhileBusy,
  createBreaker,
  createIntake,
  fromNative,
  fromStream,
  HedgeStats,
  hedge,
  isFlowError,
  mergeLanes,
  rateLimit,
  resequence,
  speculate,
  switchLatest,
  toAsyncIterable,
  toNative,
  toReadableStream,
  toStore,
  unwrap,
} from '../operators/index.js';
export type { Limiter } from './today/limiter.js';

// ---- values -----------------------------------------------------------------------------------------------------------

type Window = (context: WindowContext) => number;
export const natural = (): Window => () => 0;
export const fixed =
  (ms: number): Window =>
  () =>
    ms;
export const graded =
  (maxMs: number): Window =>
  ({ load }) =>
    load === 0 ? 0 : maxMs * load;

interface Order {
  readonly order: 'input' | 'perKey';
  readonly key?: (item: never) => unknown;
}
export const inputOrder = (): Order => ({ order: 'input' });
export const orderPerKey = <T>(key: (item: T) => unknown): Order => ({ order: 'perKey', key });

interface Fairness {
  readonly kind: 'strict' | 'wdrr' | 'roundRobin';
  readonly floor?: number;
}
export const strictWithFloor = (floor?: number): Fairness => ({ kind: 'strict', ...(floor !== undefined && { floor }) });
export const weighted = (): Fairness => ({ kind: 'wdrr' });
export const roundRobin = (): Fairness => ({ kind: 'roundRobin' });

/** A lane; `share` is its part under `weighted()`. */
export interface Lane extends Omit<LaneOptions, 'weight'> {
  readonly share?: number;
}
interface Lanes {
  readonly lanes: readonly LaneOptions[];
  readonly by?: (item: never) => string;
  readonly fairness?: Fairness;
}
export const lanes = <T>(list: readonly Lane[], how: { by?: (item: T) => string; fairness?: Fairness } = {}): Lanes => ({
  lanes: list.map(({ share, ...lane }) => ({ ...lane, ...(share !== undefined && { weight: share }) })),
  ...how,
});

interface Repair {
  readonly retry?: RetryOptions;
  readonly split?: SplitOptions;
}
export const retryFailed = (retry: RetryOptions = {}): Repair => ({ retry });
export const divideAndConquer = (split: SplitOptions = {}): Repair => ({ split });
export const oneByOne = (): Repair => ({ split: { factor: Infinity } });
export const robust = (): readonly Repair[] => [retryFailed(), divideAndConquer()];

interface SplitItem {
  readonly split: (item: never) => readonly unknown[];
  readonly join: (results: readonly never[]) => unknown;
}
export const splitItem = <T, R>(split: (item: T) => readonly T[], join: (results: readonly R[]) => R): SplitItem => ({ split, join });

type Rate = Pick<LimiterOptions, 'requestsPerMinute' | 'tokensPerMinute' | 'discipline' | 'burstSeconds' | 'costAboveCapacity'>;
/** A bucket that saves up two seconds of its rate, or `burstSeconds`. */
export const perMinute = (unit: 'requests' | 'tokens', amount: number, burstSeconds?: number): Rate => ({
  [`${unit}PerMinute`]: amount,
  ...(burstSeconds !== undefined && { burstSeconds }),
});
/** Never more than the amount in any minute. */
export const strict = (unit: 'requests' | 'tokens', amount: number): Rate => ({
  [`${unit}PerMinute`]: amount,
  discipline: 'sliding',
  costAboveCapacity: 'reject',
});

// ---- operators --------------------------------------------------------------------------------------------------------

interface Common {
  readonly scheduler?: SchedulerLike;
  readonly random?: () => number;
  readonly onEvent?: FlowSink;
}

export interface GatedOptions<T> extends Common {
  readonly maxSize?: number;
  readonly maxWeight?: number;
  readonly weigh?: (item: T) => number;
  readonly oversize?: 'alone' | 'reject' | SplitItem;
  readonly flush?: Observable<unknown>;
  readonly queue?: Lanes;
  readonly maxQueued?: number;
  readonly overflow?: Overflow;
  readonly order?: Order;
  readonly window?: Window;
  readonly concurrency?: number | Observable<number>;
  readonly limiter?: operators.Permits;
  readonly id?: (item: T) => string;
  /** None by default. */
  readonly repair?: Repair | readonly (Repair | readonly Repair[])[];
  readonly classify?: Classify;
  readonly timeoutMs?: number;
  readonly deadlineMs?: number | ((item: T) => number);
}

function gated<T>({ oversize, queue, order, repair, timeoutMs, deadlineMs, ...same }: GatedOptions<T>): GatedBatchOptions<T> {
  const rules = Object.assign({}, ...[repair ?? []].flat(3)) as Repair;
  return {
    ...same,
    ...(typeof oversize === 'string' && { oversize }),
    ...(typeof oversize === 'object' && { oversize: 'split', splitItem: oversize.split as never, joinResults: oversize.join as never }),
    ...(queue && { lanes: queue.lanes, ...(queue.fairness && { fairness: queue.fairness }), ...(queue.by && { lane: queue.by as never }) }),
    ...(order as object),
    retry: rules.retry ?? false,
    split: rules.split ?? false,
    ...(timeoutMs !== undefined && { attemptTimeoutMs: timeoutMs }),
    ...(deadlineMs !== undefined && { itemDeadlineMs: deadlineMs }),
  };
}

type SourceError = Pick<BatchMapFromOptions<never>, 'onSourceError'>;

export function batchMap<T, R>(work: BatchWork<T, R>, options: GatedOptions<T> & SourceError = {}): OperatorFunction<T, Settled<T, R>> {
  return operators.batchMap(work, renamed(gated(options) as object));
}

export function batchMapFrom<T, R>(
  input: PullSource<T>,
  work: BatchWork<T, R>,
  options: GatedOptions<T> & SourceError = {},
): Observable<Settled<T, R>> {
  return operators.batchMapFrom(input, work, renamed(gated(options) as object));
}

export interface BatcherOptions<T> extends GatedOptions<T> {
  readonly dedupe?: (item: T) => unknown;
  readonly cache?: { readonly maxEntries?: number; readonly ttlMs?: number };
}
export function createBatcher<T, R>(work: BatchWork<T, R>, options: BatcherOptions<T> = {}): Batcher<T, R> {
  return operators.createBatcher(work, renamed(gated(options) as object));
}

export interface DivideOptions<T> extends Common, Pick<GatedOptions<T>, 'repair' | 'classify' | 'id' | 'limiter' | 'timeoutMs' | 'weigh'> {
  readonly concurrency?: number;
  readonly lane?: string;
}
/** Divides by default, as its name says. */
export function divideRetry<T, R>(
  work: BatchWork<T, R>,
  options: DivideOptions<T> = {},
): (items: readonly T[]) => Observable<Settled<T, R>[]> {
  const { lane, ...same } = options;
  const given = renamed(gated({ repair: divideAndConquer(), ...same }) as object);
  return operators.divideRetry(work, { ...given, ...(lane !== undefined && { lane }) } as object as DivideRetryOptions<T>);
}

export interface BulkheadOptions<T> extends Omit<BulkheadMapOptions<T>, 'order' | 'key' | 'errors'> {
  readonly key?: (item: T) => unknown;
  readonly order?: Order;
}

function slotted<T>({ order, ...same }: BulkheadOptions<T>): BulkheadMapOptions<T> {
  return { ...same, ...(order as object) };
}
export function bulkheadMap<T, R>(
  project: (item: T, context: operators.ItemContext) => operators.WorkResult<R>,
  options: BulkheadOptions<T> = {},
): OperatorFunction<T, Settled<T, R>> {
  return today.bulkheadMap(project as never, slotted(options) as object) as OperatorFunction<T, Settled<T, R>>;
}
/** The same with `errors: 'propagate'`. */
export function bulkheadValues<T, R>(
  project: (item: T, context: operators.ItemContext) => operators.WorkResult<R>,
  options: BulkheadOptions<T> = {},
): OperatorFunction<T, R> {
  return today.bulkheadMap(project as never, { ...slotted(options), errors: 'propagate' }) as OperatorFunction<T, R>;
}

export interface ConcatOptions extends Omit<ConcatMapByOptions, 'order' | 'errors'> {
  readonly order?: Order;
}
export function concatMapBy<T, R>(
  key: (item: T) => unknown,
  project: (item: T, context: operators.ItemContext) => operators.WorkResult<R>,
  options: ConcatOptions = {},
): OperatorFunction<T, Settled<T, R>> {
  return today.concatMapBy(key, project as never, { ...options, ...(options.order as object) } as object) as OperatorFunction<
    T,
    Settled<T, R>
  >;
}
/** The same with `errors: 'propagate'`. */
export function concatValuesBy<T, R>(
  key: (item: T) => unknown,
  project: (item: T, context: operators.ItemContext) => operators.WorkResult<R>,
  options: ConcatOptions = {},
): OperatorFunction<T, R> {
  const given = { ...options, ...(options.order as object), errors: 'propagate' } as object;
  return today.concatMapBy(key, project as never, given as never) as unknown as OperatorFunction<T, R>;
}

export interface SettleOptions<T> extends Omit<SettleAllOptions<T>, 'mode' | 'totalTimeoutMs'> {
  readonly errors?: 'settle' | 'propagate';
  readonly deadlineMs?: number;
}
export function settleAll<T, R>(
  calls: readonly T[],
  project: (item: T, context: operators.ItemContext) => operators.WorkResult<R>,
  { errors, deadlineMs, ...same }: SettleOptions<T> = {},
): Observable<Settled<T, R>[]> {
  return today.settleAll(calls, project as never, {
    ...same,
    ...(errors && { mode: errors === 'settle' ? 'settle' : 'all' }),
    ...(deadlineMs !== undefined && { totalTimeoutMs: deadlineMs }),
  });
}

export interface PolicyRules<F> extends Omit<PolicyOptions<F>, 'retry'> {
  /** None by default. */
  readonly retry?: RetryOptions;
}
export function policy<F = never>({ retry, ...same }: PolicyRules<F> = {}): Policy<F> {
  return operators.policy({ ...same, ...(retry && { retry: operators.retryFailed({ budget: 0.2, ...retry }) }) });
}

// ---- limiters ---------------------------------------------------------------------------------------------------------

export interface LimiterRules extends Common {
  readonly concurrency?: number;
  readonly rates?: readonly Rate[];
  readonly queue?: Lanes;
  readonly maxQueued?: number;
  readonly overflow?: Overflow;
  readonly headroom?: number;
  readonly learn?: 'fromHeaders';
  readonly abortGraceMs?: number;
}

/** Without headroom and without learning unless they are asked for. */
function limits({ rates = [], queue, headroom = 1, learn, ...same }: LimiterRules): LimiterOptions {
  return Object.assign({}, same, ...rates, {
    headroom,
    learn: learn !== undefined,
    ...(queue && { lanes: queue.lanes, ...(queue.fairness && { fairness: queue.fairness }) }),
  }) as LimiterOptions;
}
export const createLimiter = (rules: LimiterRules = {}): Limiter => limiterOf(limits(rules));
export const childOf = (limiter: Limiter, rules: LimiterRules = {}): Limiter => limiter.child(limits(rules));
export const keyedLimiter = (limiter: Limiter, rules: LimiterRules & { readonly maxKeys?: number } = {}): ReturnType<Limiter['keyed']> =>
  limiter.keyed({ ...limits(rules), ...(rules.maxKeys !== undefined && { maxKeys: rules.maxKeys }) });

export interface Job extends Omit<LimiterJob, 'timeoutMs'> {
  readonly cost?: Cost;
  readonly deadlineMs?: number;
}
export const job = ({ deadlineMs, ...same }: Job): LimiterJob => ({ ...same, ...(deadlineMs !== undefined && { timeoutMs: deadlineMs }) });
/** Changes slots and rates. */
export const setLimits = (limiter: Limiter, { concurrency, rates = [] }: Pick<LimiterRules, 'concurrency' | 'rates'>): void => {
  const { requestsPerMinute, tokensPerMinute } = Object.assign({}, ...rates) as Rate;
  limiter.setLimits({
    ...(concurrency !== undefined && { concurrency }),
    ...(requestsPerMinute !== undefined && { requestsPerMinute }),
    ...(tokensPerMinute !== undefined && { tokensPerMinute }),
  });
};

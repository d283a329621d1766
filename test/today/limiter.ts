/* eslint-disable @typescript-eslint/unbound-method, @typescript-eslint/no-unnecessary-condition -- methods are called on their limiter, and tests hand in nonsense */
/** Limiters and what drives or asks them. */
import type { Observable } from 'rxjs';
import type {
  FlowSink,
  Lease,
  LeaseContext,
  LimiterJob as NewJob,
  KeyedLimiter as NewKeyed,
  Limiter as NewLimiter,
  LimiterOptions as NewOptions,
  RateRule,
  WorkResult,
} from '../../operators/index.js';
import * as operators from '../../operators/index.js';
import { lanes as lanesOf, roundRobin, strictWithFloor, weighted } from '../../operators/lanes.js';
import type { LaneOptions, Fairness as SharedFairness } from './gated.js';

export type { LaneOptions } from './gated.js';
/** How lanes of a limiter share its grants. */
export type Fairness = SharedFairness | 'fifo' | { readonly kind: 'fifo' };

export type {
  AdaptiveLimitOptions,
  Lease,
  LimitRule,
  LimitSample,
  LimitState,
  Outcome,
  RateLimitOptions,
  Release,
} from '../../operators/index.js';
export { adaptiveLimit, rateLimit } from '../../operators/index.js';
export type { Place } from '../../operators/permits.js';

export interface Cost {
  readonly requests?: number;
  readonly tokens?: number;
}

/** A job whose longest wait is its `timeoutMs`, and whose holder is a lease. */
export interface LimiterJob extends Omit<NewJob, 'deadlineMs' | 'holder' | 'cost'> {
  readonly cost?: Cost;
  readonly timeoutMs?: number;
  readonly holder?: Lease;
}

export interface LimiterLimits {
  readonly concurrency?: number;
  readonly requestsPerMinute?: number;
  readonly tokensPerMinute?: number;
}

export interface ChildLimiterOptions extends LimiterLimits, Omit<NewOptions, 'rates' | 'queue' | 'learn' | 'scheduler' | 'concurrency'> {
  readonly burstSeconds?: number;
  readonly discipline?: 'bucket' | 'sliding';
  readonly lanes?: readonly LaneOptions[];
  readonly fairness?: Fairness;
  readonly maxWaitMs?: number;
  readonly costAboveCapacity?: 'borrow' | 'reject';
  readonly learn?: boolean;
}

export interface LimiterOptions extends ChildLimiterOptions, Pick<NewOptions, 'scheduler'> {}

type KeyedJob = LimiterJob & { readonly key: unknown };
type Work<R> = (context: LeaseContext) => WorkResult<R>;

/** As it was asked before. */
interface Asked<J> {
  tryAcquire(job?: J): Lease | undefined;
  acquire(job?: J): Observable<Lease>;
  acquireAsync(job?: J): Promise<Lease>;
  run<R>(work: Work<R>, job?: J): Observable<R>;
  runAsync<R>(work: Work<R>, job?: J): Promise<R>;
}

export interface KeyedLimiter extends Omit<NewKeyed, keyof Asked<KeyedJob> | 'of'>, Asked<KeyedJob> {
  of(key: unknown): Limiter;
}

export type Limiter = NewLimiter &
  Asked<LimiterJob> & {
    setLimits(limits: LimiterLimits): void;
    child(options?: ChildLimiterOptions): Limiter;
    keyed(options?: ChildLimiterOptions & { readonly maxKeys?: number }): KeyedLimiter;
  };

export function createLimiter(options: LimiterOptions = {}): Limiter {
  return asBefore(operators.createLimiter(translated(options)), options);
}

/** What every event carries now, and did not. */
export function unstamped(sink: FlowSink): FlowSink {
  return (event) => {
    const { at: _at, instance: _instance, ...rest } = event;
    sink(rest);
  };
}

function translated(options: LimiterOptions): NewOptions {
  const {
    requestsPerMinute,
    tokensPerMinute,
    burstSeconds: _burstSeconds,
    discipline: _discipline,
    lanes,
    fairness,
    maxWaitMs: _maxWaitMs,
    costAboveCapacity: _costAboveCapacity,
    learn = true,
    onEvent,
    ...same
  } = options;
  return {
    ...same,
    ...(typeof onEvent === 'function' && { onEvent: unstamped(onEvent) }),
    rates: [rateOf('requests', requestsPerMinute ?? Infinity, options), rateOf('tokens', tokensPerMinute ?? Infinity, options)],
    // Whoever came first, whatever the lane: one line for all.
    ...(lanes && fairness !== 'fifo' && { queue: queueOf(lanes, fairness) }),
    learn: operators.fromHeaders({ rates: learn }),
  };
}

function rateOf(unit: 'requests' | 'tokens', amount: number, options: ChildLimiterOptions): RateRule {
  if (options.discipline === 'sliding') return operators.strict({ unit, amount, windowMs: 60_000 });
  const { burstSeconds = 2, costAboveCapacity = 'borrow' } = options;
  // What can be saved up follows the rate.
  return { ...operators.perMinute(unit, amount, { borrow: costAboveCapacity === 'borrow' }), ...{ burstMs: burstSeconds * 1000 } };
}

function queueOf(list: readonly LaneOptions[], rule: Fairness = 'strict'): NonNullable<NewOptions['queue']> {
  const { kind, floor } = typeof rule === 'string' ? { kind: rule, floor: undefined } : { floor: undefined, ...rule };
  const fairness = kind === 'strict' ? strictWithFloor(floor) : kind === 'wdrr' ? weighted() : roundRobin();
  return lanesOf(
    list.map(({ weight, piggyback: _piggyback, maxWaitMs: _maxWaitMs, ...lane }) => ({
      ...lane,
      ...(weight !== undefined && { share: weight }),
    })),
    { fairness },
  );
}

function jobOf(job: LimiterJob | undefined, maxWaitMs: number | undefined): NewJob | undefined {
  if (job === undefined && maxWaitMs === undefined) return undefined;
  if (typeof (job ?? {}) !== 'object' || job === null) return job as unknown as NewJob;
  const { timeoutMs = maxWaitMs, holder, ...same } = job ?? {};
  return {
    ...same,
    ...(timeoutMs !== undefined && { deadlineMs: timeoutMs }),
    ...(holder !== undefined && { holder: 'granted' in Object(holder) ? holder : operators.heldBy(holder) }),
  } as NewJob;
}

const known = new WeakSet<NewLimiter>();

/** The same limiter, asked as before. */
function asBefore(limiter: NewLimiter, options: ChildLimiterOptions): Limiter {
  if (known.has(limiter)) return limiter as Limiter;
  known.add(limiter);
  const { maxWaitMs } = options;
  let limits: ChildLimiterOptions = options;
  const setLimits = limiter.setLimits.bind(limiter);
  return Object.assign(limiter, {
    ...asked<LimiterJob>(limiter as unknown as Asked<NewJob>, maxWaitMs),
    setLimits: (changed: LimiterLimits & { readonly rates?: readonly RateRule[] }) => {
      const { requestsPerMinute, tokensPerMinute, ...rest } = changed;
      limits = { ...limits, ...changed };
      setLimits({
        ...rest,
        rates: [
          ...(rest.rates ?? []),
          ...(requestsPerMinute === undefined ? [] : [rateOf('requests', requestsPerMinute, limits)]),
          ...(tokensPerMinute === undefined ? [] : [rateOf('tokens', tokensPerMinute, limits)]),
        ],
      });
    },
    child: (below: ChildLimiterOptions = {}) => asBefore(operators.childOf(limiter, translated(below)), below),
    keyed: (below: ChildLimiterOptions & { readonly maxKeys?: number } = {}): KeyedLimiter => {
      const keyed = operators.keyedLimiter(limiter, translated(below));
      const of = keyed.of.bind(keyed);
      return Object.assign(keyed, {
        ...asked<KeyedJob>(keyed as unknown as Asked<NewJob>, below.maxWaitMs),
        of: (key: unknown) => asBefore(of(key), below),
      });
    },
  });
}

function asked<J extends LimiterJob>(limiter: Asked<NewJob>, maxWaitMs: number | undefined): Asked<J> {
  const { tryAcquire, acquire, acquireAsync, run, runAsync } = limiter;
  return {
    tryAcquire: (job) => tryAcquire.call(limiter, jobOf(job, maxWaitMs)),
    acquire: (job) => acquire.call(limiter, jobOf(job, maxWaitMs)),
    acquireAsync: (job) => acquireAsync.call(limiter, jobOf(job, maxWaitMs)),
    run: <R>(work: Work<R>, job?: J) => run.call(limiter, work as Work<unknown>, jobOf(job, maxWaitMs)) as Observable<R>,
    runAsync: <R>(work: Work<R>, job?: J) => runAsync.call(limiter, work as Work<unknown>, jobOf(job, maxWaitMs)) as Promise<R>,
  };
}

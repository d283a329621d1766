import type { Observable, SchedulerLike } from 'rxjs';
import type { GrantQueueRule, Overflow, QueueRule } from '../kernel/queues/queue.js';
import type { FlowSink } from './events.js';
import type { Outcome, Permit, Permits } from './permits.js';
import type { Handle, ResponseLike, WorkOutcome, WorkResult, WorkValue } from './types.js';

export type { Outcome } from './permits.js';

/**
 * What a job takes from the limiter: slots, requests, tokens, and whatever units of your own its rates count. Finite numbers >= 0, slots whole ones.
 * More tokens than a rate brings in within one window (a minute, where that is longer) are charged as that many, and emit `costClamped`.
 * @stable
 */
export interface Cost {
  /** Of the calls at a time. More than there are is all of them. @defaultValue 1 */
  readonly slots?: number;
  /** @defaultValue 1 */
  readonly requests?: number;
  /** Input and output together. @defaultValue the sum of `inputTokens` and `outputTokens` */
  readonly tokens?: number;
  /** What is sent. @defaultValue `tokens` less `outputTokens` */
  readonly inputTokens?: number;
  /** What may come back. @defaultValue `tokens` less `inputTokens`, 0 when `tokens` stands alone */
  readonly outputTokens?: number;
  /** Another unit that a rate of the limiter, or of one above it, counts. @defaultValue 0 */
  readonly [unit: string]: number | undefined;
}

/** @stable */
export interface LimiterJob {
  /** A name to find it by while it waits: `move`, `remove`. No two that wait may have the same. @defaultValue none */
  readonly id?: string | number;
  /** One of the declared lanes. @defaultValue the last, least urgent one */
  readonly lane?: string;
  /** Whose it is, for lanes that are shared fairly by key: `lanes([...], { key: ({ key }) => key })`, and those of `createAccount`. @defaultValue none */
  readonly key?: unknown;
  /** Which model it calls: it also comes under the limits of that model, as given to `createAccount({ models })`. Any other limiter ignores it. @defaultValue none */
  readonly model?: string;
  readonly cost?: Cost;
  /** Leaves the queue when it aborts; a lease already handed over is not touched. */
  readonly signal?: AbortSignal;
  /** Longest wait for the permit, in ms; then it is rejected with `DeadlineError`, whose `cause` names the limit. 0: may not wait, and is rejected with `RateLimitError`. @defaultValue Infinity */
  readonly deadlineMs?: number;
  /**
   * Waits for room in a full queue, as `acquireAsync` does, instead of being refused: for another attempt of work that was let in before. @defaultValue false
   */
  readonly waitsForRoom?: boolean;
  /**
   * `heldBy(lease)`: the permit of the work that asks. When everything that holds a slot waits in this way for another slot, or for work that does,
   * no job could ever be served: the job is then rejected with `NestedAcquireError`. @defaultValue none
   */
  readonly holder?: LeaseHolder;
}

/** One permit that was given back. Times are the limiter's own clock, in ms. */
export interface Release {
  readonly outcome: Outcome;
  /** The error of the work, when it was passed to `release`. */
  readonly error: unknown;
  readonly grantedAt: number;
  readonly releasedAt: number;
  /** Slots in use just before this one came back. */
  readonly executing: number;
}

/**
 * A permit. It counts against the limits until `release`; `release` may be called again without effect. `settle` replaces the estimated cost by the
 * real one, unit by unit, also when it is called again or late, and the rate may go into debt. A number that no model can use (above 10,000,000, and
 * above what a minute pays) costs what can be saved up, and emits `usageClamped`. Without numbers the estimate stands, and without `refunds` a lower
 * one says nothing.
 * @stable
 */
export type Lease = Permit;

/** One rate at one moment. */
export interface RateSnapshot {
  readonly unit: string;
  readonly windowMs: number;
  /** Most in one window: the configured or the learned amount, whichever is lower, before the headroom. */
  readonly amount: number;
  /** What could be spent at once; negative in debt. */
  readonly left: number;
}

/**
 * Numbers of one moment. What a child says of its limits is the tightest, here and above; `rates` are its own.
 * @stable
 */
export interface LimiterSnapshot {
  /** Most slots in use at a time. */
  readonly concurrency: number;
  /** Slots in use: of leases handed out and not released. */
  readonly executing: number;
  /** Waiting, for whatever reason. */
  readonly queued: number;
  /** Of those: waiting for a rate, or for the end of a pause, so that a free slot would not help. */
  readonly heldByRate: number;
  /** Of those: waiting for nothing but a slot. What can be paid now is reckoned in the order of the lanes. */
  readonly heldBySlot: number;
  /** Requests that could be sent at once; Infinity without a limit, negative in debt. */
  readonly requests: number;
  /** Tokens that could be spent at once; Infinity without a limit, negative in debt. */
  readonly tokens: number;
  /** How much longer everything is paused, in ms; Infinity after `pause`. */
  readonly pausedForMs: number;
  /** The rate in force, before the headroom: the configured or the learned one, whichever is lower. Infinity without. */
  readonly requestsPerMinute: number;
  /** The same for tokens. */
  readonly tokensPerMinute: number;
  readonly rates: readonly RateSnapshot[];
  /** Of `createAccount({ models })`: the numbers of each model, or pool of models, with limits of its own. The numbers above count them in. */
  readonly models?: readonly ModelSnapshot[];
}

/** Numbers of a model, or of several that share limits, inside an account. */
export interface ModelSnapshot extends LimiterSnapshot {
  readonly model: readonly string[];
}

/**
 * What is known about a response besides itself.
 * @stable
 */
export interface ObserveOptions {
  /** When its request was sent, in ms on the limiter's clock. @defaultValue no earlier than any other request */
  readonly sentAt?: number;
  /** Which model was called: a model with limits of its own learns for itself. @defaultValue none: the limiter that is asked learns */
  readonly model?: string;
}

/**
 * An amount of something per window, and how it is counted. A value: made by `perMinute`, `tokenBucket` or `slidingWindow`.
 * @stable
 */
export interface RateRule {
  /** `'requests'`, `'tokens'`, `'inputTokens'`, `'outputTokens'`, or a unit of your own that jobs name in their `cost`. */
  readonly unit: string;
  /** Most in one window, >= 0; Infinity for no limit but a learned one. */
  readonly amount: number;
  readonly windowMs: number;
  /** The limiter's own. */
  addTo(rates: object | undefined, limiter: object): object;
}

/** What can be changed while the limiter runs. */
export interface LimiterLimits {
  /** Most slots in use at a time; lowering it never takes one back. @defaultValue Infinity */
  readonly concurrency?: number;
  /**
   * Rates, of which a job must be able to pay all, one for each unit and window, and a `slidingWindow` one beside it. In `setLimits` each takes the place
   * of the one that there is, and is a new one when there is none; an amount of 0 lets nothing pass, one of Infinity everything. @defaultValue none
   */
  readonly rates?: readonly RateRule[];
}

/**
 * What a limiter keeps between two processes: what was spent, not what waits or runs. Plain data.
 * @beta
 */
export interface SavedLimits {
  /** When it was saved, on the scheduler's clock. */
  readonly at: number;
  /** How much longer a pause of `penalize` lasted; -1 for one without an end. */
  readonly pausedForMs: number;
  readonly rates: readonly {
    readonly unit: string;
    /** -1 for a window without an end. */
    readonly windowMs: number;
    readonly isStrict: boolean;
    readonly spent: readonly number[];
  }[];
  /** Of models with limits of their own. */
  readonly models?: readonly SavedModel[];
}

/** What an account remembers of a model, or of several that share limits. */
export interface SavedModel extends SavedLimits {
  readonly model: readonly string[];
}

/**
 * What a limiter learns from responses: made by `fromHeaders`.
 * @stable
 */
export interface LearnRule {
  /** The limiter's own. */
  addTo(rates: object | undefined, limiter: object): object;
}

/**
 * Whose work asks for a lease: made by `heldBy`.
 * @stable
 */
export interface LeaseHolder {
  /** The limiter's own. */
  readonly granted: unknown;
}

/**
 * Of a limiter under another one. The clock is that of the one above, and so are the lanes, when it has declared any.
 * @stable
 */
export interface ChildLimiterOptions extends LimiterLimits {
  /**
   * One lane of the limiter above, for all jobs of this one, which then has a `queue` of its own. Its jobs wait in the order of that queue, and the first of
   * them takes the turns in the lane. @defaultValue the lanes of the limiter above are its own
   */
  readonly lane?: string;
  /** What `penalize` pauses: this limiter alone, or the one above with everything under it, as for one account. @defaultValue 'self' */
  readonly pauses?: 'self' | 'parent';
  /** Share of the rates that is used, so that a provider which counts differently still never refuses, 0.01 to 1. @defaultValue 0.9 */
  readonly headroom?: number;
  /** In which order waiting jobs are granted: one line, `lanes([...])`, or `ranked(group, compare)`. @defaultValue first come, first served */
  readonly queue?: QueueRule<LimiterJob> | GrantQueueRule<LimiterJob>;
  /**
   * Most jobs waiting; `acquireAsync` and `runAsync` wait for room. 0 rejects instead of waiting. A function is asked for each job that has to wait.
   * @defaultValue Infinity
   */
  readonly maxQueued?: number | (() => number);
  /** What happens at the bound. A function is asked each time. @defaultValue 'error' */
  readonly overflow?: Overflow | (() => Overflow);
  /** What is learned from the responses given to `observe`: `fromHeaders()`. @defaultValue nothing */
  readonly learn?: LearnRule;
  /**
   * Whether tokens that a job pays for and does not use come back when it settles. Say `false` where the provider counts what a request allows
   * (`max_tokens`), whatever its answer needs. @defaultValue true
   */
  readonly refunds?: boolean;
  /**
   * Whether limits hold jobs back. `false` is for trying out limits: jobs go at once, and slots, rates and pauses are still counted (more slots in
   * use than there are, less than 0 left). `wouldWait` is emitted for each job that would have waited or been rejected. Jobs held back by `pause()`
   * still wait. Limiters below this one enforce their own limits, unless they say so as well. @defaultValue true
   */
  readonly enforce?: boolean;
  /** How long an aborted promise may keep its slot, in ms. @defaultValue 1000 */
  readonly abortGraceMs?: number;
  /** State to continue from: what `save` returned, maybe in another process. @defaultValue with nothing spent */
  readonly restore?: SavedLimits;
  /** Spreads the pauses after refusals without a reason, 0 to 1. @defaultValue `Math.random` */
  readonly random?: () => number;
  /** Told about `throttled`, `limitChanged`, `dropped`, `queueLong`, `costClamped`, `usageClamped`, `wouldWait` and `drained`. @defaultValue none */
  readonly onEvent?: FlowSink;
  /** What events call it. @defaultValue a number */
  readonly name?: string;
}

/** @stable */
export interface LimiterOptions extends Omit<ChildLimiterOptions, 'lane' | 'pauses'> {
  /** Clock and timer. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
}

/** Context of work under a lease. */
export interface LeaseContext {
  /** Aborts when the caller has left. Made on the first look. */
  readonly signal: AbortSignal;
  readonly lease: Lease;
}

/** Work under a lease. */
export type LeasedWork<R> = (context: LeaseContext) => WorkResult<R>;

/** @stable */
export interface Limiter extends Permits, Handle {
  /** The `name` option, which its events have as `instance`. */
  readonly name?: string | undefined;
  /** Grants at once or not at all; undefined when a limit or a waiting job is in the way. */
  tryAcquire(job?: LimiterJob): Lease | undefined;
  /** Emits one lease when it is granted (at once when nothing is in the way) and completes. From `next` on it is yours to release; unsubscribing before leaves the queue. */
  acquire(job?: LimiterJob): Observable<Lease>;
  /** The same as a promise, which waits for room in a full queue. Aborting the job's signal rejects with its reason and costs nothing. */
  acquireAsync(job?: LimiterJob): Promise<Lease>;
  /**
   * Resolves when a job that needs no slot may go: its requests and tokens are paid, and there is nothing to release. For calls that only need to be
   * spaced out.
   */
  pass(job?: LimiterJob): Promise<void>;
  /**
   * Runs the work under a lease, released when the work ends. The values are those of its Observable, async iterable or stream, or the one of its
   * promise; anything else that it returns is the value. Unsubscribing aborts the signal.
   */
  run<R, W = never>(work: LeasedWork<R> | ((context: LeaseContext) => W), job?: LimiterJob): Observable<WorkOutcome<R, W>>;
  /**
   * The same as a promise of the last value, or of the only one; rejects with RxJS's `EmptyError` when an Observable has none. A promise cannot be
   * unsubscribed from: aborting the job's signal cancels the work as well as the wait.
   */
  runAsync<R, W = never>(work: LeasedWork<R> | ((context: LeaseContext) => W), job?: LimiterJob): Promise<WorkOutcome<R, W>>;
  /** The function, each call of it under a lease; `this` is handed on. A call costs no function of its own. */
  wrap<A extends unknown[], R>(
    work: (...args: A) => WorkResult<R>,
    job?: Omit<LimiterJob, 'id' | 'signal' | 'holder'>,
  ): (...args: A) => Promise<R>;
  wrap<P extends unknown[], A, B>(
    work: (...args: P) => A | B,
    job?: Omit<LimiterJob, 'id' | 'signal' | 'holder'>,
  ): (...args: P) => Promise<WorkValue<A | B>>;
  /**
   * Puts a waiting job at the end of another lane, whatever that one's bound: it was let in long ago. False when none with this id waits.
   *
   * @throws LaneUnknownError
   */
  move(id: string | number, lane: string): boolean;
  /** Takes a waiting job out, which is refused with `ClosedError`; false when none with this id waits. */
  remove(id: string | number, reason?: unknown): boolean;
  /** Learns from a response whose lease is not at hand; `lease.observe` knows more. Without effect unless the limiter learns. */
  observe(response: ResponseLike, options?: ObserveOptions): void;
  /** Grants nothing for this long; a shorter pause never ends a longer one, and 0 ends it. */
  penalize(pauseMs: number): void;
  /** Grants nothing until `resume`, here and below. Running work continues. */
  pause(): void;
  resume(): void;
  /** Changes limits, of slots and of rates; what is left out stays. Never takes a lease back. */
  setLimits(limits: LimiterLimits): void;
  /** Rejects all waiting jobs, here and below, with `ClosedError`. Running work continues, and new jobs are accepted. */
  clear(reason?: unknown): void;
  /** Resolves when nothing waits and nothing runs, here and below. */
  whenIdle(): Promise<void>;
  /** Resolves when fewer jobs wait than `below`, here and below. */
  whenQueued(options: { readonly below: number }): Promise<void>;
  snapshot(): LimiterSnapshot;
  /** What was spent, for `restore`. */
  save(): SavedLimits;
  /** Most requests that can be saved up and granted without going into debt; Infinity without a limit. */
  readonly requestCapacity: number;
  /** The declared lanes' names, undefined when none were declared. */
  readonly lanes: readonly string[] | undefined;
  /** Tells the listener of every permit that is given back, before the next is granted; the returned function stops that. */
  onRelease(listener: (release: Release) => void): () => void;
  /** Calls the listener whenever something may have become free, after waiting jobs have been served; the returned function stops that. */
  watch(listener: () => void): () => void;
  /**
   * Takes no new jobs, refuses the waiting ones and ends the work of `run` and `runAsync` with `ClosedError`, its signal aborted. A lease
   * of your own stays valid until you release it.
   */
  close(): void;
}

import type { Observable, SchedulerLike } from 'rxjs';
import type { FlowSink } from '../../options/events.js';
import type { Fairness, Handle, LaneOptions, Overflow, ResponseLike, Usage, WorkResult } from '../../options/types.js';

/** What a job takes from the limiter. */
export interface Cost {
  /** @defaultValue 1 */
  readonly requests?: number;
  /** @defaultValue 0 */
  readonly tokens?: number;
}

export interface LimiterJob {
  /** One of the declared lanes. @defaultValue the last, least urgent one */
  readonly lane?: string;
  readonly cost?: Cost;
  /** Leaves the queue when it aborts; a lease already handed over is not touched. */
  readonly signal?: AbortSignal;
  /** Longest wait for the permit, in ms. @defaultValue the limiter's `maxWaitMs` */
  readonly timeoutMs?: number;
  /**
   * The permit of the work that asks. When everything that holds a slot waits in this way for another one, or for work that does, nobody would
   * ever be served: such a job is refused with `NestedAcquireError` instead. @defaultValue none
   */
  readonly holder?: Lease;
}

/** How the work under a permit ended. */
export type Outcome = 'ok' | 'error' | 'cancelled' | 'unused';

/** One permit that was given back. Times are the limiter's own clock, in ms. */
export interface Release {
  readonly outcome: Outcome;
  /** What the work failed with, when whoever released the permit said so. */
  readonly error: unknown;
  readonly grantedAt: number;
  readonly releasedAt: number;
  /** Permits in use just before this one came back. */
  readonly executing: number;
}

/** A permit. It counts against the limits until `release`; both methods may be called again without effect. */
export interface Lease {
  /** Replaces the estimated token cost by the real one; the bucket may go into debt. A number that no model can have (above 10,000,000, and above what a minute pays) costs what a full bucket holds, and is told as `usageClamped`. Without numbers the estimate stands, and without `refunds` a lower one says nothing. */
  settle(usage: Usage): void;
  /** Frees the slot. `'unused'` says nothing was sent: request and tokens are given back. The error is for those who listen to releases. */
  release(outcome?: Outcome, error?: unknown): void;
  /**
   * Frees the slot when the promise settles, or after `abortGraceMs`: for work that was given up but cannot be stopped. An `error`
   * (it took too long) is then told to those who listen, whatever becomes of the promise.
   */
  releaseAfter(work: PromiseLike<unknown>, error?: unknown): void;
  /** Shows the limiter the response to the request sent under this lease. It knows when that was, and what has been granted since. */
  observe(response: ResponseLike): void;
}

/** Numbers of one moment. What a child says of its limits is the tightest, here and above. */
export interface LimiterSnapshot {
  /** Most leases at a time. */
  readonly concurrency: number;
  /** Leases handed out and not released. */
  readonly executing: number;
  /** Waiting, for whatever reason. */
  readonly queued: number;
  /** Of those: waiting for the rate (requests, tokens, or a pause the other side asked for), so that a free slot would not help. */
  readonly heldByRate: number;
  /** Of those: waiting for nothing but a slot. What can be paid now is reckoned in the order of the lanes. */
  readonly heldBySlot: number;
  /** Requests that could be sent at once; Infinity without a limit, negative in debt. */
  readonly requests: number;
  /** Tokens that could be spent at once; Infinity without a limit, negative in debt. */
  readonly tokens: number;
  /** How much longer everything is paused, in ms. */
  readonly pausedForMs: number;
  /** The rate in force, before the headroom: the configured or the learned one, whichever is lower. Infinity without. */
  readonly requestsPerMinute: number;
  /** The same for tokens. */
  readonly tokensPerMinute: number;
}

/** What is known about a response besides itself. */
export interface ObserveOptions {
  /** When its request was sent, in ms on the limiter's clock. @defaultValue no earlier than any other request */
  readonly sentAt?: number;
  /** The lane that a pause holds back. @defaultValue all of them */
  readonly lane?: string;
}

/** What can be changed while the limiter runs. */
export interface LimiterLimits {
  /** Most leases at a time; lowering it never takes one back. @defaultValue Infinity */
  readonly concurrency?: number;
  /** Requests per minute; with 0 nothing passes until `setLimits` says more. @defaultValue Infinity */
  readonly requestsPerMinute?: number;
  /** Tokens per minute; with 0 nothing passes until `setLimits` says more. @defaultValue Infinity */
  readonly tokensPerMinute?: number;
}

/** Of a limiter under another one. The clock is that of the one above, and so are the lanes, when it has declared any. */
export interface ChildLimiterOptions extends LimiterLimits {
  /** Seconds of rate that may be saved up and spent at once, 0.001 to 86400. Providers enforce windows well below a minute. @defaultValue 2 */
  readonly burstSeconds?: number;
  /**
   * How the rates are counted. `'bucket'` saves up `burstSeconds` of them: steady, exact against providers that count the same way. `'sliding'`
   * never grants more than a minute's worth in any 60 seconds; it needs `costAboveCapacity: 'reject'` and takes no `burstSeconds`.
   * @defaultValue 'bucket'
   */
  readonly discipline?: 'bucket' | 'sliding';
  /** Share of the rates that is used, so that a provider which counts differently still never refuses. @defaultValue 0.9 */
  readonly headroom?: number;
  /** Lanes, most urgent first. @defaultValue one lane for all */
  readonly lanes?: readonly LaneOptions[];
  /** Which lane is granted next. @defaultValue 'strict' */
  readonly fairness?: Fairness;
  /** Most jobs waiting; `acquireAsync` and `runAsync` wait for room. 0 rejects instead of waiting. @defaultValue Infinity */
  readonly maxQueued?: number;
  /** What happens at the bound. @defaultValue 'error' */
  readonly overflow?: Overflow;
  /** Longest wait for a permit, in ms. @defaultValue Infinity */
  readonly maxWaitMs?: number;
  /** A job that costs more than the bucket can ever hold goes into debt, or is rejected with `ItemTooHeavyError`. @defaultValue 'borrow' */
  readonly costAboveCapacity?: 'borrow' | 'reject';
  /**
   * Whether the responses given to `observe` set the rates: the limits they report, what remains of them, and refusals without a reason. With
   * `false` they only make pauses. @defaultValue true
   */
  readonly learn?: boolean;
  /**
   * Whether tokens that a job pays for and does not use come back when it settles. Say `false` where the provider counts what a request allows
   * (`max_tokens`), whatever its answer needs. @defaultValue true
   */
  readonly refunds?: boolean;
  /** How long an aborted promise may keep its slot, in ms. @defaultValue 1000 */
  readonly abortGraceMs?: number;
  /** Spreads the pauses after refusals without a reason, 0 to 1. @defaultValue `Math.random` */
  readonly random?: () => number;
  /** Told about `throttled`, `limitChanged`, `dropped`, `queueLong`, `usageClamped` and `drained`. */
  readonly onEvent?: FlowSink;
}

export interface LimiterOptions extends ChildLimiterOptions {
  /** Clock and timer. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
}

export interface KeyedLimiterOptions extends ChildLimiterOptions {
  /** Most keys at a time that are in use or have something to remember; a job of one more is refused. @defaultValue 10000 */
  readonly maxKeys?: number;
}

/** A job of a keyed limiter: whose limits it takes from. */
export interface KeyedJob extends LimiterJob {
  /** Compared as a `Map` compares its keys. */
  readonly key: unknown;
}

/** Work that decides what to send only when it gets its permit: the batch grows while it waits. */
export interface Bidder {
  /**
   * Tokens wanted now, or undefined to give up the place. Asked each time the bidder is next, with the tokens that could be
   * spent at once (Infinity without a limit). Must not call the limiter. Without it, a request without tokens is wanted.
   * One that throws or answers something else is refused with a `CallbackError`.
   */
  bid?(affordable: number): number | undefined;
  /** Requests wanted, a finite number >= 0; looked at after each bid. One that has it must have it from the start. @defaultValue 1 */
  readonly requests?: number;
  granted(lease: Lease): void;
  refused(error: unknown): void;
}

/** A bidder's place in the queue. */
export interface Place {
  /** Asks for a new bid now, because what is wanted has changed. */
  poke(): void;
  /** Leaves; nothing was charged. */
  withdraw(): void;
}

/** What work under a lease is told. */
export interface LeaseContext {
  /** Aborts when nobody wants the result any more. Made on the first look. */
  readonly signal: AbortSignal;
  readonly lease: Lease;
}

export interface Limiter extends Handle {
  /** Grants at once or not at all; undefined when a limit, or somebody who waits, is in the way. */
  tryAcquire(job?: LimiterJob): Lease | undefined;
  /** Emits one lease when it is granted (at once when nothing is in the way) and completes. From `next` on it is yours to release; unsubscribing before leaves the queue. */
  acquire(job?: LimiterJob): Observable<Lease>;
  /** The same as a promise, which waits for room in a full queue. Aborting the job's signal rejects with an `AbortError` and costs nothing. */
  acquireAsync(job?: LimiterJob): Promise<Lease>;
  /**
   * Runs the work under a lease, released when the work ends. The values are those of its Observable, async iterable or stream, or the one of its
   * promise; anything else that it returns is the value. Unsubscribing aborts the signal.
   */
  run<R>(work: (context: LeaseContext) => WorkResult<R>, job?: LimiterJob): Observable<R>;
  /**
   * The same as a promise of the last value, or of the only one; rejects with RxJS's `EmptyError` when an Observable has none. Nobody can unsubscribe from a
   * promise: aborting the job's signal gives up the work as well as the wait.
   */
  runAsync<R>(work: (context: LeaseContext) => WorkResult<R>, job?: LimiterJob): Promise<R>;
  /** Queues work that is formed when its permit comes; what `batchMap` uses. */
  enlist(bidder: Bidder, lane?: string): Place;
  /** Learns from a response: pauses as long as a 429, 503 or 529 asks for, and keeps to the rates that its headers report. */
  observe(response: ResponseLike, options?: ObserveOptions): void;
  /**
   * Grants nothing for this long, in ms, or nothing in one lane. A shorter pause never ends a longer one; 0 ends it: that of the lane, or
   * the one of everybody.
   */
  penalize(pauseMs: number, lane?: string): void;
  setLimits(limits: LimiterLimits): void;
  /** Grants nothing until `resume`, here and below. What runs goes on, and a pause that the other side asked for is another matter. */
  pause(): void;
  /** Ends a `pause`. */
  resume(): void;
  /** Refuses whoever waits, here and below, with a `ClearedError` whose `cause` is the reason. What runs goes on, and newcomers are taken. */
  clear(reason?: unknown): void;
  /** Resolves when nothing waits and nothing runs, here and below; at once when that is so. Nothing is closed: more may come. */
  whenIdle(): Promise<void>;
  /** Resolves when fewer jobs wait than this, here and below; at once when that is so. @throws FlowConfigError */
  whenQueued(options: { readonly below: number }): Promise<void>;
  /**
   * A limiter with limits of its own, whose leases also count here. It gives a lease when both can, and holds nothing while it waits for
   * one of them. Closing this one closes it.
   */
  child(options?: ChildLimiterOptions): Limiter;
  /** A child for each key, made when its first job comes and forgotten when it has nothing left to remember. */
  keyed(options?: KeyedLimiterOptions): KeyedLimiter;
  snapshot(): LimiterSnapshot;
  /** Most tokens that can be saved up and granted without going into debt; Infinity without a limit. */
  readonly tokenCapacity: number;
  /** The same for requests. */
  readonly requestCapacity: number;
  /** Whether a job above that may go into debt. */
  readonly borrows: boolean;
  readonly concurrency: number;
  readonly executing: number;
  /** How busy it is, 0 to 1: the share in use of its slots, its requests or its tokens, whichever is the largest; 1 during a pause. */
  readonly load: number;
  /** Tells the listener of every permit that is given back, before the next is granted; the returned function stops that. */
  onRelease(listener: (release: Release) => void): () => void;
  /** Calls the listener whenever something may have become free, after those who wait have been served; the returned function stops that. */
  watch(listener: () => void): () => void;
  /** The declared lanes' names, undefined when none were declared. */
  readonly lanes: readonly string[] | undefined;
  /**
   * Takes no new jobs, refuses the waiting ones and ends the work of `run` and `runAsync` with `ClosedError`, its signal aborted. A lease
   * of your own stays valid until you release it.
   */
  close(): void;
}

/** Limiters of the same kind, one for each key, under one that all of them share. */
export interface KeyedLimiter extends Handle {
  tryAcquire(job: KeyedJob): Lease | undefined;
  acquire(job: KeyedJob): Observable<Lease>;
  acquireAsync(job: KeyedJob): Promise<Lease>;
  run<R>(work: (context: LeaseContext) => WorkResult<R>, job: KeyedJob): Observable<R>;
  runAsync<R>(work: (context: LeaseContext) => WorkResult<R>, job: KeyedJob): Promise<R>;
  /** The limiter of a key, for whatever takes a `limiter`. It is not forgotten any more. */
  of(key: unknown): Limiter;
  /** Keys that are in use or have something to remember. */
  readonly keys: number;
  /** As of a limiter, for all keys together. */
  pause(): void;
  resume(): void;
  clear(reason?: unknown): void;
  whenIdle(): Promise<void>;
  whenQueued(options: { readonly below: number }): Promise<void>;
}

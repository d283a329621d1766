import type { Observable, ObservableInput, SchedulerLike } from 'rxjs';
import type { FlowSink } from '../events.js';
import type { Fairness, Handle, LaneOptions, Overflow, ResponseLike, Usage } from '../types.js';

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
   * The permit of the work that asks. When everything that holds a slot waits in this way for another one, nobody would ever be served:
   * such a job is refused with `NestedAcquireError` instead. @defaultValue none
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
  /** Replaces the estimated token cost by the real one; the bucket may go into debt. Without numbers the estimate stands. */
  settle(usage: Usage): void;
  /** Frees the slot. `'unused'` says nothing was sent: request and tokens are given back. The error is for those who listen to releases. */
  release(outcome?: Outcome, error?: unknown): void;
  /** Frees the slot when the promise settles, or after `abortGraceMs`: for work that was given up but cannot be stopped. */
  releaseAfter(work: PromiseLike<unknown>): void;
}

export interface LimiterSnapshot {
  /** Most leases at a time. */
  readonly concurrency: number;
  /** Leases handed out and not released. */
  readonly executing: number;
  /** Waiting, for whatever reason. */
  readonly queued: number;
  /** Waiting for the rate (requests, tokens, or a pause the other side asked for). */
  readonly heldByRate: number;
  /** Waiting for a slot. */
  readonly heldBySlot: number;
  /** Requests that could be sent at once; Infinity without a limit, negative in debt. */
  readonly requests: number;
  /** Tokens that could be spent at once; Infinity without a limit, negative in debt. */
  readonly tokens: number;
  /** How much longer everything is paused, in ms. */
  readonly pausedForMs: number;
}

/** What can be changed while the limiter runs. */
export interface LimiterLimits {
  /** Most leases at a time; lowering it never takes one back. @defaultValue Infinity */
  readonly concurrency?: number;
  /** Requests per minute. @defaultValue Infinity */
  readonly requestsPerMinute?: number;
  /** Tokens per minute. @defaultValue Infinity */
  readonly tokensPerMinute?: number;
}

export interface LimiterOptions extends LimiterLimits {
  /** Seconds of rate that may be saved up and spent at once, 0.001 to 86400. Providers enforce windows well below a minute. @defaultValue 2 */
  readonly burstSeconds?: number;
  /** Share of the rates that is used, so that a provider which counts differently still never refuses. @defaultValue 0.9 */
  readonly headroom?: number;
  /** Lanes, most urgent first. @defaultValue one lane for all */
  readonly lanes?: readonly LaneOptions[];
  /** Which lane is granted next. @defaultValue 'strict' */
  readonly fairness?: Fairness;
  /** Most jobs waiting; 0 rejects instead of waiting. @defaultValue 1000 */
  readonly maxQueued?: number;
  /** What happens at the bound. @defaultValue 'error' */
  readonly overflow?: Overflow;
  /** Longest wait for a permit, in ms. @defaultValue Infinity */
  readonly maxWaitMs?: number;
  /** A job that costs more than the bucket can ever hold goes into debt, or is rejected with `ItemTooHeavyError`. @defaultValue 'borrow' */
  readonly costAboveCapacity?: 'borrow' | 'reject';
  /** How long an aborted promise may keep its slot, in ms. @defaultValue 1000 */
  readonly abortGraceMs?: number;
  /** Told about `throttled`, `limitChanged`, `dropped` and `drained`. */
  readonly onEvent?: FlowSink;
  /** Clock and timer. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
}

/** Work that decides what to send only when it gets its permit: the batch grows while it waits. */
export interface Bidder {
  /**
   * Tokens wanted now, or undefined to give up the place. Asked each time the bidder is next, with the tokens that could be
   * spent at once (Infinity without a limit). Must not call the limiter. Without it, a request without tokens is wanted.
   * One that throws or answers something else is refused with a `CallbackError`.
   */
  bid?(affordable: number): number | undefined;
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
  /** The same as a promise. Aborting the job's signal rejects with an `AbortError` and costs nothing. */
  acquireAsync(job?: LimiterJob): Promise<Lease>;
  /** Runs the work under a lease, released when the work ends. Unsubscribing aborts the signal. */
  run<R>(work: (context: LeaseContext) => ObservableInput<R>, job?: LimiterJob): Observable<R>;
  /**
   * The same as a promise of the last value; rejects with RxJS's `EmptyError` when there is none. Nobody can unsubscribe from a
   * promise: aborting the job's signal gives up the work as well as the wait.
   */
  runAsync<R>(work: (context: LeaseContext) => ObservableInput<R>, job?: LimiterJob): Promise<R>;
  /** Queues work that is formed when its permit comes; what `batchMap` uses. */
  enlist(bidder: Bidder, lane?: string): Place;
  /** Reads `retry-after` from a 429, 503 or 529 response and pauses. */
  observe(response: ResponseLike): void;
  /** Grants nothing for this long, in ms; a shorter pause never ends a longer one. */
  penalize(pauseMs: number): void;
  setLimits(limits: LimiterLimits): void;
  snapshot(): LimiterSnapshot;
  /** Most tokens that can be saved up and granted without going into debt; Infinity without a limit. */
  readonly tokenCapacity: number;
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

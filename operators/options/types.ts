import type { InteropObservable, Observable, ObservableInput, ObservedValueOf, ReadableStreamLike, Subscribable } from 'rxjs';
import type { ResponseLike } from '../kernel/limits/headers.js';
import type { Overflow } from '../kernel/queues/queue.js';

export type { HeadersLike, ResponseLike } from '../kernel/limits/headers.js';
export type { Fairness } from '../kernel/queues/discipline.js';
export type { Overflow } from '../kernel/queues/queue.js';
export type { Classify, ClassifyContext, ErrorClass, Verdict } from '../kernel/repair/verdict.js';

/**
 * What became of one accepted item: its own value, or a named error. Every accepted item gets exactly one.
 * @stable
 */
export type Settled<T, R> = Fulfilled<T, R> | Rejected<T>;

/** @stable */
export interface Fulfilled<T, R> {
  readonly status: 'fulfilled';
  readonly value: R;
  readonly input: T;
  /** Position in the order of acceptance, from 0. */
  readonly index: number;
  /** What the `id` option made of the item; by default the index as text. */
  readonly id: string;
  /** Calls this item was part of. */
  readonly attempts: number;
}

/** @stable */
export interface Rejected<T> {
  readonly status: 'rejected';
  readonly reason: unknown;
  readonly input: T;
  /** Position in the order of acceptance, from 0. */
  readonly index: number;
  /** What the `id` option made of the item; by default the index as text. */
  readonly id: string;
  /** Calls this item was part of; 0 when it was never sent. */
  readonly attempts: number;
}

/**
 * What a call really used. Input or output may be left out when the provider reports a sum.
 * @stable
 */
export interface Usage {
  /** All input, cached reads and writes included. */
  readonly inputTokens?: number;
  /** Of the input: read from the provider's prompt cache. */
  readonly cacheReadTokens?: number;
  /** Of the input: written to the prompt cache, for 5 minutes or the provider's default. */
  readonly cacheWriteTokens?: number;
  /** Of the input: written to the prompt cache for an hour. */
  readonly cacheWrite1hTokens?: number;
  /** All output, reasoning included. */
  readonly outputTokens?: number;
  /** Of the output: reasoning. */
  readonly reasoningTokens?: number;
  /**
   * What the provider's rates count of it, by unit, where that differs from the numbers above: cached input that is free, requests that were refused.
   *
   * @defaultValue `inputTokens`, `outputTokens`, and as `tokens` their sum
   */
  readonly units?: Readonly<Record<string, number>>;
}

/**
 * Context of a work function's call.
 * @stable
 */
export interface CallContext {
  /** Aborted when every member of the call has left, or the attempt has timed out; made on first use. */
  readonly signal: AbortSignal;
  /** 1 on the first attempt. */
  readonly attempt: number;
  /** How often the batch was split or blamed before this call; 0 for a fresh one. */
  readonly splitDepth: number;
  /** The same for a batch, its retries and its parts. */
  readonly batchId: string;
  /** The lane that led the batch; lower lanes may ride along. */
  readonly lane: string;
  /** Sum of the items' weights. */
  readonly weight: number;
  /** When this attempt times out, on the operator's scheduler; Infinity when it does not. */
  readonly deadlineAt: number;
  /** Replaces the estimated cost by the real one, unit by unit; a unit that the usage does not name keeps its estimate. */
  settle(usage: Usage): void;
  /**
   * Shows the response to the call, good or bad, to a `limiter` that learns: it pauses when that is asked for, and keeps to the rates that are reported.
   * Without one it does nothing.
   */
  observe(response: ResponseLike): void;
}

/**
 * What a batch work function may answer:
 * - an array as long as the batch, in its order; an `Error` in it rejects that item alone;
 * - a `Map` from item id to value (an `Error` or a missing id rejects that item, an unknown one the batch);
 * - a list of `{ status: 'fulfilled', value } | { status: 'rejected', reason }`, as `Promise.allSettled` makes.
 * @stable
 */
export type BatchResult<R> = readonly (R | Error)[] | ReadonlyMap<string, R | Error> | readonly PromiseSettledResult<R>[];

/**
 * What a work function may hand back: a promise, an Observable, an async iterable or a web stream, whose last value counts. Anything else, be it a
 * string, an array or nothing, is the value itself.
 * @stable
 */
export type WorkResult<R> =
  | R
  | PromiseLike<R>
  | Observable<R>
  | Subscribable<R>
  | InteropObservable<R>
  | AsyncIterable<R>
  | ReadableStreamLike<R>;

/** The value of work that returns this. */
export type WorkValue<W> = W extends
  | Observable<infer V>
  | Subscribable<infer V>
  | InteropObservable<infer V>
  | AsyncIterable<infer V>
  | ReadableStreamLike<infer V>
  ? V
  : Awaited<W>;

/**
 * The value of work that answers `R`; when its branches answer different things, which no single `R` is inferred from, the union of them. `W` is all
 * that it returns. Functions are compared because that is not put off while the types are not known.
 * @stable
 */
export type WorkOutcome<R, W> = (() => W) extends () => WorkResult<R> ? R : WorkValue<W>;

/** The same of an input, whose every value counts. */
export type InputOutcome<R, W extends ObservableInput<unknown>> = (() => W) extends () => ObservableInput<R> ? R : ObservedValueOf<W>;

/** The same of one item of batch work. */
export type BatchOutcome<R, W> = (() => W) extends () => WorkResult<BatchResult<R>> ? R : BatchValue<W>;

/** The value of one item of batch work that returns this. */
export type BatchValue<W> =
  WorkValue<W> extends infer Answer
    ? Answer extends readonly PromiseSettledResult<infer R>[]
      ? R
      : Answer extends readonly (infer R | Error)[] | ReadonlyMap<string, infer R | Error>
        ? R
        : never
    : never;

/**
 * One priority class. The order of the lanes is the priority, most urgent first.
 * @stable
 */
export interface LaneOptions {
  readonly name: string;
  /** Longest the lane's oldest item is held for company while a permit is free, in ms. 0 = leave at once. @defaultValue the operator's window */
  readonly maxWaitMs?: number;
  /** Most that wait in this lane. @defaultValue the operator's `maxQueued` alone */
  readonly maxQueued?: number;
  /** What happens at a bound. @defaultValue the operator's `overflow` */
  readonly overflow?: Overflow;
  /** Part of the places (or of the grants) in proportion to the other lanes', under `weighted()`. @defaultValue 1 */
  readonly share?: number;
  /** Part of the places (or of the grants) kept for this lane while higher lanes could fill them all, under `strictWithFloor()`. @defaultValue 0 for the first lane, that of the fairness for the others */
  readonly floor?: number;
  /** Whether other lanes may fill up a batch that this lane leads. @defaultValue true */
  readonly piggyback?: boolean;
  /**
   * Share of every rate of a limiter that lanes below this one may not take, 0 to less than 1; all lanes together keep less than 1. Without a limiter of
   * its own, or without rates, it changes nothing. @defaultValue 0; in `createAccount` 0.05 for the first lane when no lane says one
   */
  readonly reserve?: number;
}

/**
 * Context of work on a single item.
 * @stable
 */
export interface ItemContext {
  /** Aborts when the subscriber has left. Made on the first look. */
  readonly signal: AbortSignal;
  /** Position of the item in the source, from 0. */
  readonly index: number;
  /** What the operator's `key` answered for the item; undefined without one. */
  readonly key: unknown;
}

export interface DrainOptions {
  /** Longest time until everything is over, in ms; then the rest is cancelled. @defaultValue Infinity */
  readonly timeoutMs?: number;
}

/** What became of everything that was accepted and not settled when a handle began to shut down. Work that its own caller cancelled is in none of the numbers. */
export interface Drained {
  /** Ended by itself, with a result or with an error of its own. */
  readonly done: number;
  /** Under way when the rest was cancelled: it may have had its effect on the server. */
  readonly aborted: number;
  /** Given up before it was ever sent: it has had no effect, and can be sent again. */
  readonly dropped: number;
}

/**
 * How everything that accepts work comes to its end.
 * @stable
 */
export interface Handle {
  /**
   * Takes nothing new and resolves when everything accepted is over, waiting for no window. What is not over within `timeoutMs` is given
   * up as by `close`. Every call returns the same promise, which never rejects; a later call can only bring the end nearer.
   */
  drain(options?: DrainOptions): Promise<Drained>;
  /** Accepts nothing new and cancels at once what is not over. */
  close(): void;
  /**
   * Drains when the signal aborts, at once if it has already. Nothing listens to the signal any more when everything is over.
   * A limiter that others share is better drained after them: theirs would find it closed.
   */
  shutdownOn(signal: AbortSignal, options?: DrainOptions): this;
  /** The same as `drain()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Lanes as pipelines and accounts take them: a name stands for a lane with the defaults.
 * @stable
 */
export type NamedLanes = readonly (string | LaneOptions)[];

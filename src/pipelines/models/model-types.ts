import type { Observable, SchedulerLike } from 'rxjs';
import type { Breaker, BreakerOptions } from '../../../operators/create-breaker.js';
import type { StreamLike } from '../../../operators/from-stream.js';
import type { RepairRule } from '../../../operators/repair.js';
import type {
  Classify,
  FlowEvent,
  FlowSink,
  Handle,
  LaneOptions,
  Limiter,
  ResponseLike,
  RetryOptions,
  Settled,
  Usage,
  WorkResult,
} from '../../../operators/types.js';
import type { ProviderRules } from '../../account/providers.js';
import type { CallRecord } from '../../metrics/call-record.js';
import type { CallMetrics } from '../../metrics/call-stats.js';
import type { BudgetPort } from '../budget/budget-types.js';

/** What a client is told about one attempt. The functions may be taken out of it. */
export interface ModelContext {
  /** Aborts when the attempt has taken too long, another one has won, or nobody wants the answer any more. Give it to the client. */
  readonly signal: AbortSignal;
  /** How often the call has been sent by now, this time included. */
  readonly attempt: number;
  readonly lane: string;
  /** When this attempt is cut off, on the caller's scheduler; Infinity when it is not. */
  readonly deadlineAt: number;
  readonly traceId: string;
  readonly spanId: string;
  readonly name: string;
  /** Replaces the estimated token cost by the real one, for clients whose answers do not say it. */
  settle(usage: Usage): void;
  /** Lets the limiter read `retry-after` and rate-limit headers from a response. */
  observe(response: ResponseLike): void;
}

/** A second attempt while the first is silent, never because it failed; for calls only, not for streams. */
export interface ModelHedgeOptions {
  /** How long an attempt may be silent, in ms. @defaultValue what 95 of 100 attempts did not exceed, at least 50 */
  readonly delayMs?: number | (() => number);
  /** Most attempts besides the first. @defaultValue 1 */
  readonly maxHedges?: number;
  /** Most hedges at a time as a share of the calls under way, never less than 3. @defaultValue 0.1 */
  readonly maxShare?: number;
  /** Lanes whose calls are hedged. @defaultValue the most urgent one */
  readonly lanes?: readonly string[];
}

/** Asking again for an answer that `parse` can read. */
export interface FixAnswerOptions<Q, R> {
  /** Most calls besides the first. @defaultValue 1 */
  readonly rounds?: number;
  /**
   * Makes the next request of the last one, of its answer and of what `parse` threw at it. Each round is a call of its own, with its permit, its
   * attempts, its records and its whole `deadlineMs`. What the last one's `parse` throws is the error of the call.
   */
  readonly ask: (request: Q, answer: R, fault: unknown) => Q;
}

/** Where answers are kept. A `Map` is one, and so are most caches; each method may answer later, with a promise. */
export interface AnswerStorage<P> {
  /** What `set` was given; undefined or null when there is nothing. By way of JSON is well. */
  get(key: string): ModelEntry<P> | null | undefined | PromiseLike<ModelEntry<P> | null | undefined>;
  /** What it answers is waited for, not looked at. */
  set(key: string, entry: ModelEntry<P>): unknown;
  delete(key: string): unknown;
}

/** An answer that is kept. */
export interface ModelEntry<P> {
  /** What `call` would have emitted. */
  readonly value: P;
  /** Until when it is good, on the caller's scheduler; null for ever. It is looked at when it is read. */
  readonly expiresAt: number | null;
}

/** Answers for requests that were asked before, or are being asked. */
export interface ModelCacheOptions<Q, P> {
  /** What equal requests have in common; undefined for one that has to be asked in any case. It should name model, prompt and parameters, or a hash of them. */
  readonly key: (request: Q) => string | undefined;
  /** How long an answer is good, in ms from when it came. @defaultValue Infinity */
  readonly ttlMs?: number;
  /** @defaultValue in memory: the last 1,000 answers at least, and 2,000 at most */
  readonly storage?: AnswerStorage<P>;
  /** How long the store may take for one thing it is asked, in ms; then it goes on without. @defaultValue 1000 */
  readonly timeoutMs?: number;
}

/** What is the same for every client. */
export interface ModelCallerRules<Q, R, C, P> {
  /** Shared with everything else that calls the same account. @defaultValue one of the caller's own, with the limits below */
  readonly limiter?: Limiter;
  /** Calls at a time; beside a `limiter`, most of its slots that these calls take. @defaultValue 4; with a `limiter`, as many as it has */
  readonly concurrency?: number;
  /** Not together with `limiter`. @defaultValue Infinity */
  readonly requestsPerMinute?: number;
  /** Not together with `limiter`. @defaultValue Infinity */
  readonly tokensPerMinute?: number;
  /** Most calls waiting. Not together with `limiter`. @defaultValue 1000 */
  readonly maxQueued?: number;
  /** Most urgent first. Not together with `limiter`. @defaultValue `user`, `normal`, `background` */
  readonly lanes?: readonly LaneOptions[];
  /**
   * What a request will take, in tokens: of its prompt and of its longest answer. A mere number is both together; a budget charges it at the dearer
   * price of the two. @defaultValue that of the client in `call`; else 0
   */
  readonly estimateTokens?: (request: Q) => number | Usage;
  /** What an answer, or a chunk, says about tokens; the last one that says something counts. @defaultValue that of the client in `call` */
  readonly usage?: (answer: R | C) => Usage | undefined;
  /**
   * Makes the result of an answer, not a promise of it. When it throws, the call fails with that error, unless `repair` asks again.
   * @defaultValue the answer
   */
  readonly parse?: (answer: R, request: Q) => P;
  /** Asks again when `parse` throws; for calls only, not for streams. @defaultValue none */
  readonly fixAnswer?: FixAnswerOptions<Q, R>;
  /** Requests of equal keys share one answer; for calls only, not for streams. @defaultValue none */
  readonly cache?: ModelCacheOptions<Q, P>;
  /** When and how often a failed attempt is made again. @defaultValue 3 attempts, 200 ms doubling to 20 s with full jitter, a budget of 0.2 */
  readonly retry?: RetryOptions | RepairRule | false;
  /** One that others share, or the options of one of its own. @defaultValue none */
  readonly breaker?: Breaker | BreakerOptions;
  /**
   * What calls do while the circuit of the `breaker` is open. `'fail'`: error at once with `BreakerOpenError`, also those that wait in the queue or for
   * their next attempt when it opens. `'wait'`: wait without a permit until it lets calls through, up to `deadlineMs`; for bulk work. @defaultValue 'fail'
   */
  readonly whenOpen?: 'fail' | 'wait';
  /** What calls may cost, made by `createBudget`: each attempt is charged before it is sent. One that others share, or not. @defaultValue none */
  readonly budget?: BudgetPort;
  /**
   * What the provider's rate limits count of a call, and when. @defaultValue that of the limiter's account, else that of the client in `call`, else
   * `providers.other`
   */
  readonly provider?: ProviderRules;
  /** Longest time of a call from its start to its end, in ms, waiting and pauses included; each round of a `repair` has as long. @defaultValue Infinity */
  readonly deadlineMs?: number;
  /** Longest attempt, in ms; of a stream, longest silence: until its first chunk, and between two. @defaultValue 30000 */
  readonly timeoutMs?: number;
  /** @defaultValue none */
  readonly hedge?: ModelHedgeOptions;
  /** Sorts errors into those worth another try and those that are not. @defaultValue `classifyError` */
  readonly classify?: Classify;
  /** Told of every attempt when it is over. @defaultValue none */
  readonly onRecord?: (record: CallRecord) => void;
  /** @defaultValue none */
  readonly onEvent?: FlowSink;
  /** What events call this caller, as `instance`. @defaultValue a number of its own */
  readonly name?: string;
  /** Clock and timers. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Source of jitter and ids, 0 to 1. @defaultValue `Math.random` */
  readonly random?: () => number;
}

/** What a client may stream: an async iterable or a `ReadableStream`, at once or as a promise, or an Observable. */
export type ModelStream<C> = Observable<C> | StreamLike<C> | PromiseLike<StreamLike<C>>;

/**
 * What sends the requests of a caller and knows what they cost: `chatCompletions(…)`, `openAIChat(client)` and `anthropicChat(client)` make one, and an
 * object of your own is one as well.
 */
export interface ModelClient<Q, R, C = never> {
  /** Sends a request. The answer is a promise's, the last value of a stream, or what it returns otherwise. */
  readonly send: (request: Q, context: ModelContext) => WorkResult<R>;
  /** Sends a request whose answer comes in chunks. @defaultValue none */
  readonly stream?: (request: Q, context: ModelContext) => ModelStream<C>;
  /** Which model a request is for, for records and metrics. @defaultValue 'default' */
  readonly model?: string | ((request: Q) => string);
  /** What a request will take, in tokens. @defaultValue 0 */
  readonly estimateTokens?: (request: Q) => number | Usage;
  /** What an answer, or a chunk, says about tokens. @defaultValue nothing */
  readonly usage?: (answer: R | C) => Usage | undefined;
  /** What the provider's rate limits count of a call, and when. @defaultValue `providers.other` */
  readonly provider?: ProviderRules;
}

/** Options of `createModelCaller`. */
export interface ModelCallerOptions<Q, R, C = never, P = R> extends ModelCallerRules<Q, R, C, P> {
  /**
   * Sends a request: a function over any SDK, `fetch` or a model in the process, or a client such as `chatCompletions(…)`, which brings `stream`, `model`,
   * `usage` and `estimateTokens` along. The answer of a function is a promise's, the last value of a stream, or what it returns otherwise.
   */
  readonly call: ((request: Q, context: ModelContext) => WorkResult<R>) | ModelClient<Q, R, C>;
  /** Sends a request whose answer comes in chunks. Only beside a function in `call`. @defaultValue none */
  readonly stream?: (request: Q, context: ModelContext) => ModelStream<C>;
  /** Which model a request is for, for records and metrics. Only beside a function in `call`. @defaultValue 'default' */
  readonly model?: string | ((request: Q) => string);
}

/** What is different for one call. */
export interface ModelCallOptions {
  /** @defaultValue the limiter's last lane */
  readonly lane?: string;
  /**
   * Whose call it is, a tenant or a user: inside a lane, keys take turns, so that whoever asks for much delays nobody else. With a `limiter` whose
   * lanes keys share: one made by `createAccount`, or with `lanes([...], { key })`. @defaultValue none
   */
  readonly key?: string;
  /** Gives up the call when it aborts; the result errors with its reason. */
  readonly signal?: AbortSignal;
  /** @defaultValue a new one */
  readonly traceId?: string;
  /** What the call is for, for its record. @defaultValue 'call' */
  readonly name?: string;
}

/** How several calls answer together. */
export type ModelCallMode = 'all' | 'settle' | 'collect';

/** What is different for one group of calls; their names are those of the requests. */
export interface ModelCallAllOptions<M extends ModelCallMode = ModelCallMode> extends Omit<ModelCallOptions, 'name'> {
  /**
   * `'all'`: all or nothing, the first failure aborts the others and is the result. `'collect'`: the values there are, and the errors of the rest.
   * `'settle'`: for each what became of it, with its request and its attempts. @defaultValue 'all'
   */
  readonly mode?: M;
  /** Longest all of them together may take, in ms. @defaultValue the caller's `deadlineMs` */
  readonly deadlineMs?: number;
}

/** What came of several calls: each name is in one of the two. */
export interface Collected<K extends string, P> {
  readonly values: Readonly<Partial<Record<K, P>>>;
  readonly errors: Readonly<Partial<Record<K, unknown>>>;
}

/** Numbers of one moment, and of the attempts since the start. */
export interface ModelCallerSnapshot extends CallMetrics {
  /** Calls that are accepted and not on their way: they wait for a permit, for the pause before their next attempt, or for the store of a `cache`. */
  readonly queued: number;
  /** Of those: waiting for requests or tokens per minute, or for a pause the provider asked for. */
  readonly heldByRate: number;
  /** Of those: waiting for a slot. */
  readonly heldBySlot: number;
  /** Attempts under way. */
  readonly executing: number;
}

export interface ModelCaller<Q, P, C> extends Handle {
  /** Makes the call for each subscriber. Unsubscribing gives it up. */
  call(request: Q, options?: ModelCallOptions): Observable<P>;
  /** The same as a promise. A rejection nobody listens to is not reported. */
  callAsync(request: Q, options?: ModelCallOptions): Promise<P>;
  /** The answer chunk by chunk. The permit is held to the end of the stream, its error, or until it is left. */
  stream(request: Q, options?: ModelCallOptions): Observable<C>;
  /** Several calls at once, under one trace id: one object with their results, by the names of the requests. */
  callAll<K extends string>(requests: Readonly<Record<K, Q>>, options?: ModelCallAllOptions<'all'>): Observable<Record<K, P>>;
  callAll<K extends string>(
    requests: Readonly<Record<K, Q>>,
    options: ModelCallAllOptions<'settle'> & { readonly mode: 'settle' },
  ): Observable<Record<K, Settled<Q, P>>>;
  callAll<K extends string>(
    requests: Readonly<Record<K, Q>>,
    options: ModelCallAllOptions<'collect'> & { readonly mode: 'collect' },
  ): Observable<Collected<K, P>>;
  /** The next call of a request with this one's key is made. Whoever waits for one that is under way has its answer. Does nothing without a `cache`. */
  forget(request: Q): void;
  snapshot(): ModelCallerSnapshot;
  /** Everything that is told through `onEvent`, too. Completes when the caller has drained or was closed. */
  readonly events: Observable<FlowEvent>;
}

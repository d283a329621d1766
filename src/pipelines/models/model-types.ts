import type { Observable, SchedulerLike } from 'rxjs';
import type {
  Breaker,
  Classify,
  FlowEvent,
  FlowSink,
  Handle,
  HedgeRule,
  Limiter,
  NamedLanes,
  RepairRule,
  ResponseLike,
  RetryOptions,
  StreamLike,
  Usage,
  WorkResult,
} from '../../../operators/index.js';
import type { ProviderRules } from '../../account/providers.js';
import type { CallRecord } from '../../metrics/call-record.js';
import type { BudgetPort } from '../budget/budget-types.js';
import type { AnswerCaching } from './answer-cache.js';

/**
 * Context of a client for one attempt. Its functions may be destructured.
 * @beta
 */
export interface ModelContext {
  /** Aborts when the attempt has timed out, another attempt has won, or the caller has left. Pass it to the client. */
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

/**
 * Asking again for an answer that `parse` can read.
 * @beta
 */
export interface FixAnswerOptions<Q, R> {
  /** Most calls besides the first. @defaultValue 1 */
  readonly rounds?: number;
  /**
   * Makes the next request of the last one, of its answer and of what `parse` threw at it. Each round is a call of its own, with its permit, its
   * attempts, its records and its whole `deadlineMs`. What the last one's `parse` throws is the error of the call.
   */
  readonly ask: (request: Q, answer: R, fault: unknown) => Q;
}

/** What is the same for every client. */
export interface ModelCallerRules<Q, R, P> {
  /**
   * Shared with everything else that calls the same account: `createAccount({ … })` has rates, learns them from responses, writes records and keeps to
   * budgets. @defaultValue one of the caller's own, with slots and lanes
   */
  readonly limiter?: Limiter;
  /** Calls at a time; beside an account as `limiter`, most of its slots that these calls take. @defaultValue 4; with a `limiter`, as many as it has */
  readonly concurrency?: number;
  /** Most calls waiting. Not together with `limiter`. @defaultValue 1000 */
  readonly maxQueued?: number;
  /** Most urgent first. Not together with `limiter`. @defaultValue `user`, `normal`, `background` */
  readonly lanes?: NamedLanes;
  /**
   * Makes the result of an answer, not a promise of it. When it throws, the call fails with that error, unless `fixAnswer` asks again.
   * @defaultValue the answer
   */
  readonly parse?: (answer: R, request: Q) => P;
  /** Asks again when `parse` throws: for calls only, not for streams. @defaultValue none */
  readonly fixAnswer?: FixAnswerOptions<Q, R>;
  /** Requests of equal keys share one answer: the value `answerCache({ key: (request: Request) => … })`; for calls only, not for streams. @defaultValue none */
  readonly cache?: AnswerCaching<NoInfer<Q>>;
  /** When and how often a failed attempt is made again. @defaultValue 3 attempts, 200 ms doubling to 20 s with full jitter, a budget of 0.2 */
  readonly retry?: RetryOptions | RepairRule | false;
  /** Refuses attempts while the backend is down: the value `createBreaker({ … })`, which others may share. @defaultValue none */
  readonly breaker?: Breaker;
  /**
   * What calls do while the circuit of the `breaker` is open. `'fail'`: error at once with `BreakerOpenError`, also those that wait in the queue or for
   * their next attempt when it opens. `'wait'`: wait without a permit until it lets calls through, up to `deadlineMs`; for bulk work. @defaultValue 'fail'
   */
  readonly whenOpen?: 'fail' | 'wait';
  /**
   * What calls may cost, made by `createBudget`: each attempt is charged before it is sent. Needs an account as `limiter`, which may have a budget of its
   * own besides. @defaultValue none
   */
  readonly budget?: BudgetPort;
  /**
   * What the provider's rate limits count of a call, and when. Needs an account as `limiter`. @defaultValue that of the account, else that of the client
   * in `call`, else `providers.other`
   */
  readonly provider?: ProviderRules;
  /** Longest time of a call from its start to its end, in ms, waiting and pauses included; each round of `fixAnswer` has as long. @defaultValue Infinity */
  readonly deadlineMs?: number;
  /** Longest attempt, in ms; of a stream, longest silence: until its first chunk, and between two. @defaultValue 30000 */
  readonly timeoutMs?: number;
  /** A second attempt while the first is silent: the value `hedging({ … })`; for calls only, not for streams. @defaultValue none */
  readonly hedge?: HedgeRule;
  /** Sorts errors into those worth another try and those that are not. @defaultValue `classifyError` */
  readonly classify?: Classify;
  /** Called with the record of every attempt when it is over. Needs an account as `limiter`. @defaultValue none */
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

/**
 * What a client may stream: an async iterable or a `ReadableStream`, at once or as a promise, or an Observable.
 * @beta
 */
export type ModelStream<C> = Observable<C> | StreamLike<C> | PromiseLike<StreamLike<C>>;

/**
 * What sends the requests of a caller and knows what they cost: `chatCompletions(…)`, `openAIChat(client)` and `anthropicChat(client)` make one, and an
 * object of your own is one as well.
 * @beta
 */
export interface ModelClient<Q, R, C = never> {
  /** Sends a request. The answer is a promise's, the last value of a stream, or what it returns otherwise. */
  readonly send: (request: Q, context: ModelContext) => WorkResult<R>;
  /** Sends a request whose answer comes in chunks. @defaultValue none */
  readonly stream?: (request: Q, context: ModelContext) => ModelStream<C>;
  /** Which model a request is for, for records and metrics. @defaultValue 'default' */
  readonly model?: string | ((request: Q) => string);
  /**
   * What a request will take, in tokens: of its prompt and of its longest answer. A mere number is both together; a budget charges it at the dearer
   * price of the two. @defaultValue 0
   */
  readonly cost?: (request: Q) => number | Usage;
  /** What an answer, or a chunk, says about tokens; the last one that says something counts. @defaultValue nothing */
  readonly usage?: (answer: R | C) => Usage | undefined;
  /** Counts the tokens of a text, for streams that break off or are left before they tell their usage. @defaultValue an estimate by its length */
  readonly countTokens?: (text: string) => number;
  /** What the provider's rate limits count of a call, and when. @defaultValue `providers.other` */
  readonly provider?: ProviderRules;
}

/**
 * Options of `createModelCaller`.
 * @beta
 */
export interface ModelCallerOptions<Q, R, C = never, P = R> extends ModelCallerRules<Q, R, P> {
  /**
   * Sends a request: a function over any SDK, `fetch` or a model in the process, or a client, which knows `stream`, `model`, `usage` and `cost` as well:
   * `chatCompletions(…)` makes one, and `{ send, stream, usage, … }` is one of your own. The answer of a function is a promise's, the last value of a
   * stream, or what it returns otherwise.
   */
  readonly call: ((request: Q, context: ModelContext) => WorkResult<R>) | ModelClient<Q, R, C>;
  /** Which model a request is for, for records and metrics. Only beside a function in `call`. @defaultValue 'default' */
  readonly model?: string | ((request: Q) => string);
}

/**
 * What is different for one call.
 * @beta
 */
export interface ModelCallOptions {
  /** @defaultValue the limiter's last lane */
  readonly lane?: string;
  /**
   * The tenant or user of the call: inside a lane, keys take turns, so that a tenant with many calls does not delay the others. With a `limiter`
   * whose lanes keys share: one made by `createAccount`, or with `lanes([...], { key })`. @defaultValue none
   */
  readonly key?: string;
  /** Cancels the call when it aborts; the result errors with its reason. */
  readonly signal?: AbortSignal;
  /** @defaultValue a new one */
  readonly traceId?: string;
  /** What the call is for, for its record. @defaultValue 'call' */
  readonly name?: string;
  /** Longest time of this call, in ms, with all its rounds. @defaultValue none beside the caller's `deadlineMs` */
  readonly deadlineMs?: number;
}

/** What becomes of the failures among several calls. */
export type ModelCallErrors = 'propagate' | 'settle' | 'collect';

/**
 * What is different for one group of calls; their names are those of the requests.
 * @beta
 */
export interface ModelCallAllOptions<M extends ModelCallErrors = ModelCallErrors> extends Omit<ModelCallOptions, 'name' | 'deadlineMs'> {
  /**
   * `'propagate'`: all or nothing, the first failure aborts the others and is the result. `'collect'`: the values there are, and the errors of the rest.
   * `'settle'`: for each what became of it, with its request and its attempts. @defaultValue 'propagate'
   */
  readonly errors?: M;
  /** Longest all of them together may take, in ms. @defaultValue none beside the model caller's `deadlineMs` */
  readonly deadlineMs?: number;
}

/**
 * What came of several calls: each name is in one of the two.
 * @beta
 */
export interface Collected<K extends string, P> {
  readonly values: Readonly<Partial<Record<K, P>>>;
  readonly errors: Readonly<Partial<Record<K, unknown>>>;
}

/**
 * Numbers of one moment. Sums of all attempts are those of `createMetrics`, by the records of the account.
 * @beta
 */
export interface ModelCallerSnapshot {
  /** Calls that are accepted and not on their way: they wait for a permit, for the pause before their next attempt, or for the store of a `cache`. */
  readonly queued: number;
  /** Of those: waiting for requests or tokens per minute, or for a pause the provider asked for. */
  readonly heldByRate: number;
  /** Of those: waiting for a slot. */
  readonly heldBySlot: number;
  /** Attempts under way. */
  readonly executing: number;
}

/** @beta */
export interface ModelCaller<Q, P, C> extends Handle {
  /** Makes the call for each subscriber. Unsubscribing gives it up. */
  call(request: Q, options?: ModelCallOptions): Observable<P>;
  /** The same as a promise. A rejection without a handler is not reported as unhandled. */
  callAsync(request: Q, options?: ModelCallOptions): Promise<P>;
  /** The answer chunk by chunk. The permit is held to the end of the stream, its error, or until it is left. */
  stream(request: Q, options?: ModelCallOptions): Observable<C>;
  /** Forgets the answer that the `cache` has for this request. Callers that wait for it get the one that is under way. Does nothing without a `cache`. */
  forget(request: Q): void;
  /** A trace id, for calls that belong together. */
  newTraceId(): string;
  snapshot(): ModelCallerSnapshot;
  /** The same events as `onEvent`. Completes when the caller has drained or was closed. */
  readonly events: Observable<FlowEvent>;
}

import { catchError, defer, EMPTY, map, Observable, subscribeOn } from 'rxjs';
import { ClosedError, FlowConfigError } from '../../operators/errors.js';
import type { AttemptContext, PolicyCallOptions } from '../../operators/policy.js';
import { settleAllOf } from '../../operators/settle-all.js';
import {
  AbortCalls,
  Alarm,
  ask,
  connect,
  DEFAULT_LANE,
  drawnFrom,
  instanceOf,
  isA,
  isAmount,
  lastOf,
  listener,
  Shutdown,
  ShutdownHandle,
  unusable,
  verdictOrFatal,
} from '../../operators/toolkit.js';
import type { ErrorClass, FlowEvent, Settled, Usage, WorkResult } from '../../operators/types.js';
import type { AttemptFacts, CallFacts } from '../account/entry.js';
import { asGranted, Entry } from '../account/entry.js';
import type { Ledger } from '../account/ledger.js';
import { ledgerOf } from '../account/ledger.js';
import type { RequestTokens, TokenUnits } from '../account/providers.js';
import { ambientJob } from '../account/with-job.js';
import { CallStats } from '../metrics/call-stats.js';
import { EventChannel } from './event-channel.js';
import { AnswerCache } from './models/answer-cache.js';
import { exchange, openStream } from './models/exchange.js';
import type { Asker } from './models/flight.js';
import { Inquiry } from './models/inquiry.js';
import type { AttemptEnd, AttemptRules } from './models/model-attempt.js';
import { ModelAttempt } from './models/model-attempt.js';
import type { CallHost } from './models/model-call.js';
import { ModelCall } from './models/model-call.js';
import type { CallerConfig } from './models/model-options.js';
import { callerConfig, checkCall, checkCallAll } from './models/model-options.js';
import { ModelPolicies } from './models/model-policies.js';
import type {
  Collected,
  ModelCallAllOptions,
  ModelCaller,
  ModelCallerOptions,
  ModelCallerSnapshot,
  ModelCallMode,
  ModelCallOptions,
} from './models/model-types.js';
import { NAME } from './models/name.js';
import { ParseFault } from './models/parse-fault.js';

export type { ChatChunk, ChatCompletion, ChatMessage, ChatRequest, ChatUsage } from './models/chat-api.js';
export { chatCompletions } from './models/chat-api.js';
export { MODEL_CALLER_DEFAULTS } from './models/model-options.js';
export type * from './models/model-types.js';

/** Codes that are told apart. */
const MAX_CODES = 50;

/**
 * Calls to a model, whole answers and streams, over any client: one limiter with lanes `user` (a person waits),
 * `normal` and `background`, retries, a breaker, deadlines, hedging, and a record of every attempt.
 *
 * - **Order** of what surrounds a call, always: cache > fixAnswer > deadline > retry > hedge > limiter > breaker > attempt timeout > client.
 * - **Tries again** only after 429, 5xx, a broken connection or a timeout, never after a 400 or 401, after a `parse` that failed, or once a
 *   stream has shown its first chunk. A pause holds no slot.
 * - **Asks again** with `fixAnswer` when `parse` failed, and **not at all** with `cache` when the answer is known or on its way.
 * - **Holds at most** `maxQueued` calls that wait.
 * - **Errors when** there are no more attempts (the last error, as the same object), at the deadline (`DeadlineError`, never tried again),
 *   when the breaker is open (`BreakerOpenError`), the queue is full (`OverflowError`) or the caller is closed (`ClosedError`).
 * - **On unsubscribe**, or when its signal aborts, a waiting call leaves; the signal that the client was given aborts, with a `cache` once nobody
 *   waits for the answer any more. A signal has one listener here, however many calls are made with it.
 *
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { chatCompletions, createModelCaller } from 'sluice';
 *
 * const answer = { choices: [{ index: 0, message: { role: 'assistant', content: 'four' }, finish_reason: 'stop' }] };
 * const models = createModelCaller({
 *   call: chatCompletions({ baseUrl: 'http://127.0.0.1:9/v1', model: 'm', fetch: async () => Response.json(answer) }),
 * });
 * const { choices } = await models.callAsync({ messages: [{ role: 'user', content: '2 + 2?' }] }, { lane: 'user' });
 * choices[0]?.message.content; // => 'four'
 * ```
 * @example A client of your own, and a result that is checked.
 * ```ts
 * import { createModelCaller } from 'sluice';
 *
 * const models = createModelCaller({ call: async (question: string) => `{ "length": ${question.length} }`, parse: (text) => JSON.parse(text) as { length: number } });
 * const both = await new Promise((resolve) => models.callAll({ short: 'why?', long: 'why not?' }).subscribe(resolve));
 * both; // => { short: { length: 4 }, long: { length: 8 } }
 * ```
 */
export function createModelCaller<Q, R, C = never, P = R>(options: ModelCallerOptions<Q, R, C, P>): ModelCaller<Q, P, C> {
  return new PolicedModelCaller<Q, R, C, P>(options);
}

class PolicedModelCaller<Q, R, C, P> extends ShutdownHandle implements ModelCaller<Q, P, C>, CallHost {
  readonly events: Observable<FlowEvent>;
  readonly #config: CallerConfig<Q, R, C, P>;
  readonly #channel: EventChannel;
  readonly #clock: Alarm;
  readonly #stats = new CallStats(MAX_CODES);
  readonly #ledger: Ledger;
  readonly #calls = new Set<ModelCall>();
  /** Everybody who waits, and how to tell them that it is in vain. */
  readonly #askers = new Map<Asker, (error: unknown) => void>();
  readonly #signals = new AbortCalls();
  readonly #cache: AnswerCache<Q, P> | undefined;
  protected override readonly shutdown: Shutdown;
  readonly #policies: ModelPolicies;
  /** The first half of all ids, and what has been counted in the second. */
  readonly #idPrefix: string;
  #ids = 0;
  #made = 0;
  readonly #instance: string;
  #executing = 0;

  constructor(options: ModelCallerOptions<Q, R, C, P>) {
    super();
    const config = callerConfig<Q, R, C, P>(options, (event) => {
      this.#tell(event);
    });
    this.#config = config;
    this.#channel = new EventChannel(listener(NAME, 'onEvent', options.onEvent));
    this.events = this.#channel.events;
    this.#instance = instanceOf(config.name);
    this.#clock = new Alarm(config.scheduler, () => undefined);
    this.#idPrefix = hex(drawnFrom(NAME, config.random));
    const tell = (event: FlowEvent): void => {
      this.#tell(event);
    };
    this.#policies = new ModelPolicies(config, this.#instance, tell, () => this.now());
    const { budget, cache, deadlineMs, limiter, onRecord, fixAnswer, scheduler } = config;
    this.#ledger = ledgerOf(limiter).with({ budget, onRecord });
    this.#ledger.watch((record) => {
      this.#stats.add(record);
    });
    const isMoreUrgent = (lane: string, than: string): boolean => {
      const { lanes = [] } = limiter;
      return lanes.indexOf(lane) < lanes.indexOf(than);
    };
    const rested = (): void => {
      this.#checkDrained();
    };
    const patienceMs = deadlineMs * (1 + (fixAnswer?.rounds ?? 0));
    this.#cache = cache && new AnswerCache(cache, { scheduler, now: () => this.now(), patienceMs, isMoreUrgent, tell, rested });
    this.shutdown = new Shutdown({
      operator: NAME,
      scheduler: config.scheduler,
      stop: () => {
        this.#checkDrained();
      },
      abort: (error) => {
        this.#giveUp(error);
      },
    });
  }

  call(request: Q, options: ModelCallOptions = {}): Observable<P> {
    return this.#ask(request, options, Infinity);
  }

  callAsync(request: Q, options?: ModelCallOptions): Promise<P> {
    const answer = lastOf(this.call(request, options));
    // As all other rejections here: one that nobody listens to kills nobody.
    answer.catch(() => undefined);
    return answer;
  }

  stream(request: Q, options: ModelCallOptions = {}): Observable<C> {
    const { client, timeoutMs, scheduler } = this.#config;
    const open = client.stream;
    if (open === undefined) throw new FlowConfigError(NAME, 'stream', 'a function', open);
    return this.#accept(options, Infinity, ({ inquiry }) =>
      this.#make(request, inquiry, (call, how) => {
        const send = (attempt: ModelAttempt): Observable<C> => openStream(client, open, request, attempt, timeoutMs, scheduler);
        return this.#policies.stream((context) => this.#attempt(call, send, context), call.id, how);
      }),
    );
  }

  callAll<K extends string>(
    requests: Readonly<Record<K, Q>>,
    options: ModelCallAllOptions = {},
  ): Observable<Record<K, P> & Record<K, Settled<Q, P>> & Collected<K, P>> {
    if (typeof requests !== 'object' || (requests as unknown) === null) throw new FlowConfigError(NAME, 'requests', 'an object', requests);
    checkCallAll(options);
    const { scheduler } = this.#config;
    const { mode = 'all', deadlineMs = this.#config.deadlineMs, ...how } = options;
    return defer(() => {
      const traceId = how.traceId ?? this.#newTraceId();
      const endsAt = this.now() + deadlineMs;
      const calls = Object.entries<Q>(requests);
      const make = ([name, request]: readonly [string, Q]): Observable<P> =>
        this.#ask(request, { ...how, traceId, name: name === '' ? 'call' : name }, endsAt);
      return settleAllOf(NAME, calls, make, {
        errors: mode === 'all' ? 'propagate' : 'settle',
        deadlineMs,
        scheduler,
        // The limiter knows how many.
        concurrency: Infinity,
      });
    }).pipe(map((results) => named(results, mode) as Record<K, P> & Record<K, Settled<Q, P>> & Collected<K, P>));
  }

  forget(request: Q): void {
    const key = this.#cache?.keyOf(request);
    if (key !== undefined) this.#cache?.forget(key);
  }

  snapshot(): ModelCallerSnapshot {
    let queued = this.#cache?.lookingUp ?? 0;
    for (const call of this.#calls) if (call.running === 0) queued++;
    const waiting = this.#config.limiter.snapshot();
    const heldBySlot = Math.min(queued, waiting.heldBySlot);
    const heldByRate = Math.min(queued - heldBySlot, waiting.heldByRate);
    return { queued, heldByRate, heldBySlot, executing: this.#executing, ...this.#stats.snapshot() };
  }

  // ---- what a call asks -----------------------------------------------------------------------------------------------

  now(): number {
    return this.#clock.now();
  }

  classOf(error: unknown, attempt: number): ErrorClass {
    const context = { size: 1, attempt, aborted: false, epochMs: this.#config.scheduler.now() };
    return verdictOrFatal(NAME, this.#config.classify, error, context).class;
  }

  over(call: ModelCall, { attempt, spanId }: ModelAttempt, outcome: AttemptEnd['outcome'], latencyMs: number): void {
    const { lane, traceId } = call;
    call.running--;
    this.#executing--;
    if (outcome === 'ok') call.inquiry.isAnswered = true;
    this.#tell({ type: 'attemptEnded', operator: NAME, lane, batchId: call.id, traceId, spanId, size: 1, attempt, outcome, latencyMs });
  }

  // ---- what somebody waits for ----------------------------------------------------------------------------------------

  /** @param endsAt - when the group that it is part of is cut off */
  #ask(request: Q, options: ModelCallOptions, endsAt: number): Observable<P> {
    const cache = this.#cache;
    return this.#accept(options, endsAt, (asker) => {
      const key = cache?.keyOf(request);
      if (cache === undefined || key === undefined) return this.#rounds(request, asker.inquiry);
      return cache.answer(key, asker, (inquiry) => this.#rounds(request, inquiry));
    });
  }

  /** What `withJob` says of a call. A lane of it that this limiter does not know is for another one. */
  #ambient() {
    const { lane, key, name = 'call', traceId } = ambientJob();
    const { limiter, defaultLane } = this.#config;
    const isKnown = lane !== undefined && limiter.lanes?.includes(lane) === true;
    return { lane: isKnown ? lane : defaultLane, key: key === undefined ? undefined : String(key), name, traceId };
  }

  /** Takes somebody in, anew for each subscriber: counted when the caller shuts down, and over with its signal. */
  #accept<V>(options: ModelCallOptions, endsAt: number, work: (asker: Asker) => Observable<V>): Observable<V> {
    checkCall(options);
    const { signal } = options;
    const { lane, key, name, traceId } = this.#ambient();
    const { lane: inLane = lane, key: ofKey = key, name: called = name } = options;
    return new Observable((subscriber) => {
      if (this.shutdown.isClosed) {
        subscriber.error(new ClosedError(NAME));
        return;
      }
      if (signal) {
        this.#signals.stop(signal, subscriber, (reason) => {
          subscriber.error(reason);
        });
        if (subscriber.closed) return;
      }
      const asker: Asker = { inquiry: new Inquiry(options.traceId ?? traceId ?? this.#newTraceId(), called, inLane, ofKey, endsAt) };
      this.#askers.set(asker, (error) => {
        subscriber.error(error);
      });
      subscriber.add(() => {
        this.#askers.delete(asker);
        this.#checkDrained();
      });
      connect(work(asker), subscriber, {
        next: (value) => {
          subscriber.next(value);
        },
        error: (error) => {
          this.shutdown.count('done');
          subscriber.error(error);
        },
        complete: () => {
          this.shutdown.count('done');
          subscriber.complete();
        },
      });
    });
  }

  // ---- calls ----------------------------------------------------------------------------------------------------------

  /** A call, and others as long as its answer cannot be read. */
  #rounds(request: Q, inquiry: Inquiry, left = this.#config.fixAnswer?.rounds ?? 0): Observable<P> {
    const { client, parse, fixAnswer, scheduler } = this.#config;
    const call = this.#make(request, inquiry, (made, how) => {
      const send = (attempt: ModelAttempt): WorkResult<P> => exchange(client, parse, request, attempt, scheduler);
      return this.#policies.call((context, rules) => this.#attempt(made, send, context, rules), made, how);
    });
    return call.pipe(
      catchError((error: unknown) => {
        if (!isA(error, ParseFault)) throw error;
        if (fixAnswer === undefined || left === 0) throw error.cause;
        const next = ask(NAME, 'fixAnswer.ask', fixAnswer.ask, request, error.answer as R, error.cause);
        // The permit of this round comes back first.
        return this.#rounds(next, inquiry, left - 1).pipe(subscribeOn(scheduler));
      }),
    );
  }

  /** One call with everything around it, made anew for each subscriber. */
  #make<V>(request: Q, inquiry: Inquiry, start: (call: ModelCall, how: PolicyCallOptions) => Observable<V>): Observable<V> {
    const { deadlineMs, limiter } = this.#config;
    return new Observable((subscriber) => {
      const { lane, key } = inquiry;
      // A limiter without lanes has no name for the only one.
      const hasLane = limiter.lanes !== undefined || lane !== DEFAULT_LANE;
      const facts = this.#factsOf(request, inquiry);
      const call = new ModelCall(this, inquiry, `c${String(this.#made++)}`, deadlineMs, facts);
      const made = start(call, {
        job: { ...(hasLane && { lane }), ...(key !== undefined && { key }), model: facts.model, cost: { ...facts.charged } },
      });
      this.#calls.add(call);
      made.subscribe(subscriber);
      // Only now: nothing that it tells of its end comes after `drained`.
      subscriber.add(() => {
        this.#calls.delete(call);
        this.#checkDrained();
      });
    });
  }

  #attempt<V>(
    call: ModelCall,
    send: (attempt: ModelAttempt) => WorkResult<V>,
    context: AttemptContext,
    rules: AttemptRules = context,
  ): WorkResult<V> {
    const { lane, id: batchId, traceId } = call;
    const spanId = this.#nextId();
    const sent = call.sent + 1;
    const entry = this.#enter(call, { traceId, spanId, attempt: sent, queuedMs: rules.queuedMs }, rules);
    // A listener of the budget may have ended the call.
    if (entry.isReserved && context.signal.aborted) {
      entry.withdraw();
      return EMPTY;
    }
    call.sent++;
    call.inquiry.sent++;
    call.running++;
    this.#executing++;
    const attempt = new ModelAttempt(call, context, rules, sent, spanId, entry);
    const about = { operator: NAME, lane, batchId, traceId, spanId, size: 1, weight: 1, attempt: sent, splitDepth: 0 };
    this.#tell({ type: 'attemptStarted', ...about, executing: this.#executing });
    // Whoever was told may have ended the call.
    if (attempt.aborted) return EMPTY;
    attempt.isSent = true;
    return send(attempt);
  }

  /** @throws BudgetExceededError, or what else the budget refuses it with; then its permit was not used */
  #enter({ facts }: ModelCall, attempt: AttemptFacts, { lease, settle }: AttemptRules): Entry {
    try {
      return new Entry(this.#ledger, asGranted(facts, lease), attempt, settle, () => this.now());
    } catch (error) {
      lease?.release('unused');
      throw error;
    }
  }

  #modelOf(request: Q): string {
    const model: unknown = ask(NAME, 'model', this.#config.client.model, request);
    if (typeof model === 'string' && model !== '') return model;
    throw unusable(NAME, 'model', 'a non-empty string', model);
  }

  #factsOf(request: Q, { name, lane, key }: Inquiry): CallFacts {
    const { provider } = this.#config;
    const model = this.#modelOf(request);
    const tokens = this.#estimateOf(request);
    const estimate = (): TokenUnits => this.#ledger.estimate(provider, model, tokens);
    return { name, model, lane, key, provider, tokens, charged: estimate(), estimate };
  }

  /** A mere number is of both kinds together. */
  #estimateOf(request: Q): RequestTokens {
    const { estimateTokens } = this.#config.client;
    const answer = estimateTokens === undefined ? 0 : ask(NAME, 'estimateTokens', estimateTokens, request);
    const { inputTokens = 0, outputTokens } = Object(answer) as Usage;
    const tokens = Object(answer) === answer ? 0 : (answer as number);
    for (const amount of [inputTokens, outputTokens ?? 0, tokens])
      if (!isAmount(amount) || amount === Infinity) throw unusable(NAME, 'estimateTokens', 'a finite number >= 0', amount);
    return { inputTokens, maxOutputTokens: outputTokens, tokens };
  }

  #newTraceId(): string {
    return `${this.#idPrefix}${this.#idPrefix}${this.#nextId()}`;
  }

  /** Never twice in this caller; 16 digits. */
  #nextId(): string {
    return `${this.#idPrefix}${(++this.#ids).toString(16).padStart(8, '0')}`;
  }

  // ---- what is told, and the end --------------------------------------------------------------------------------------

  #tell(event: FlowEvent): void {
    this.#channel.tell({ instance: this.#instance, at: this.now(), ...event });
  }

  #giveUp(error: unknown): void {
    for (const [asker, giveUp] of [...this.#askers]) {
      // Whoever was told of the answer has closed the caller before it is out.
      if (asker.inquiry.isAnswered) continue;
      // Between two attempts it has had its effect as well.
      this.shutdown.count(asker.inquiry.sent > 0 ? 'aborted' : 'dropped');
      giveUp(error);
    }
    this.#cache?.close();
    this.#checkDrained();
  }

  #checkDrained(): void {
    if (!this.shutdown.isClosed || this.#askers.size + this.#calls.size > 0 || this.#cache?.isBusy || !this.shutdown.finish()) return;
    this.#config.ownLimiter?.close();
    this.#tell({ type: 'drained', operator: NAME });
  }
}

/** What came of several calls, by their names. */
function named<Q, P>(results: readonly Settled<readonly [string, Q], P>[], mode: ModelCallMode): object {
  const values = [];
  const errors = [];
  const all = [];
  for (const result of results) {
    const [name, input] = result.input;
    all.push([name, { ...result, input }] as const);
    if (result.status === 'fulfilled') values.push([name, result.value] as const);
    else errors.push([name, result.reason] as const);
  }
  if (mode === 'settle') return Object.fromEntries(all);
  return mode === 'all' ? Object.fromEntries(values) : { values: Object.fromEntries(values), errors: Object.fromEntries(errors) };
}

/** Eight hexadecimal digits. */
function hex(drawn: number): string {
  return Math.min(Math.floor(drawn * 2 ** 32), 2 ** 32 - 1)
    .toString(16)
    .padStart(8, '0');
}

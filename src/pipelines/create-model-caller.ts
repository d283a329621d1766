import { EMPTY, isObservable, lastValueFrom, Observable } from 'rxjs';
import { AbortCalls, Alarm, ask, check, connect, type Shutdown, ShutdownHandle, teller } from '../../operators/build.js';
import type { Classify, ErrorClass, FlowEvent, Policy, PolicyContext, Usage, WorkResult } from '../../operators/index.js';
import { ClosedError, FlowConfigError, isFlowError, policy } from '../../operators/index.js';
import type { RequestTokens, TokenUnits } from '../account/providers.js';
import { ambientJob, ambientLane } from '../account/with-job.js';
import type { Reservation } from './budget/budget-types.js';
import { withReservation } from './budget/reserving.js';
import type { HeldRules } from './limited.js';
import { underPermit } from './limited.js';
import type { Answers } from './models/answer-cache.js';
import { exchange, openStream } from './models/exchange.js';
import { fixed } from './models/fix-answer.js';
import type { Asker } from './models/flight.js';
import type { AttemptHost, AttemptOutcome } from './models/model-attempt.js';
import { ModelAttempt } from './models/model-attempt.js';
import { Inquiry, ModelCall } from './models/model-call.js';
import type { CallerConfig } from './models/model-options.js';
import { callerConfig, checkCall } from './models/model-options.js';
import type { ModelCaller, ModelCallerOptions, ModelCallerSnapshot, ModelCallOptions } from './models/model-types.js';
import { NAME } from './models/name.js';
import { ParseFault } from './models/parse-fault.js';

export { MODEL_CALLER_DEFAULTS } from './defaults.js';
export type { AnswerCaching } from './models/answer-cache.js';
export { answerCache } from './models/answer-cache.js';
export type * from './models/cache-types.js';
export { callAll } from './models/call-all.js';
export type { ChatChunk, ChatCompletion, ChatMessage, ChatRequest, ChatUsage } from './models/chat-api.js';
export { chatCompletions } from './models/chat-api.js';
export type * from './models/model-types.js';

/**
 * Calls to a model, whole answers and streams, over any client: one limiter with lanes `user` (a person waits),
 * `normal` and `background`, retries and deadlines. What not every program needs is a value: an account with rates and records as `limiter`, a breaker,
 * hedging, a cache of answers, a second question for an answer that cannot be read.
 *
 * - **Order** of what surrounds a call, always: cache > fixAnswer > deadline > retry > hedge > limiter > breaker > attempt timeout > client.
 * - **Tries again** only after 429, 5xx, a broken connection or a timeout, never after a 400 or 401, after a `parse` that failed, or once a
 *   stream has shown its first chunk. A pause holds no slot.
 * - **Asks again** with `fixAnswer` when `parse` failed, and **not at all** with `cache` when the answer is known or on its way.
 * - **Holds at most** `maxQueued` calls that wait.
 * - **Errors when** there are no more attempts (the last error, as the same object), at the deadline (`DeadlineError`, never tried again),
 *   when the breaker is open (`BreakerOpenError`), the queue is full (`OverflowError`) or the caller is closed (`ClosedError`).
 * - **On unsubscribe**, or when its signal aborts, a waiting call leaves; the signal that the client was given aborts, with a `cache` once no
 *   caller waits for the answer any more. A signal has one listener here, however many calls are made with it.
 *
 * @beta
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
 * import { callAll, createModelCaller } from 'sluice';
 *
 * const models = createModelCaller({ call: async (question: string) => `{ "length": ${question.length} }`, parse: (text) => JSON.parse(text) as { length: number } });
 * const both = await new Promise((resolve) => callAll(models, { short: 'why?', long: 'why not?' }).subscribe(resolve));
 * both; // => { short: { length: 4 }, long: { length: 8 } }
 * ```
 */
export function createModelCaller<Q, R, C = never, P = R>(options: ModelCallerOptions<Q, R, C, P>): ModelCaller<Q, P, C> {
  return new PolicedModelCaller<Q, R, C, P>(options);
}

/** Makes one attempt. */
type Send<V> = (attempt: ModelAttempt) => WorkResult<V>;

/** Tells events of the model caller itself. */
type Tell = NonNullable<ReturnType<typeof teller>>;

class PolicedModelCaller<Q, R, C, P> extends ShutdownHandle implements ModelCaller<Q, P, C>, AttemptHost {
  readonly events: Observable<FlowEvent>;
  protected override readonly shutdown: Shutdown;
  readonly #config: CallerConfig<Q, R, C, P>;
  readonly #clock: Alarm;
  readonly #calls: Policy;
  readonly #streams: Policy;
  /** A client that keeps to the same limiter would wait for the permit of its own call. */
  readonly #shared: HeldRules | undefined;
  readonly #cache: Answers<Q> | undefined;
  /** Callers that wait, and what ends them. */
  readonly #askers = new Map<Asker, (error: unknown) => void>();
  readonly #signals = new AbortCalls();
  readonly #tell: Tell;
  /** The first half of all ids. */
  readonly #idPrefix: string;
  #ids = 0;
  #made = 0;
  /** Calls that the policies have accepted, and those of them with an attempt under way. */
  #accepted = 0;
  #sending = 0;
  #executing = 0;

  constructor(options: ModelCallerOptions<Q, R, C, P>) {
    super();
    const config = callerConfig<Q, R, C, P>(options);
    this.#config = config;
    this.#tell = teller(NAME, { onEvent: config.channel.tell, name: config.name }, () => this.#clock.now()) as Tell;
    this.events = config.channel.events;
    const { scheduler, limiter, timeoutMs, hedge } = config;
    this.#clock = new Alarm(scheduler, () => undefined);
    this.#idPrefix = hex(check.drawn(NAME, config.random));
    const rules = this.#rules();
    this.#calls = policy({ ...rules, timeoutMs, ...(hedge && { hedge }) });
    this.#streams = policy({ ...rules, timeoutMs: Infinity, silenceMs: timeoutMs });
    this.#shared = config.isShared ? { operator: NAME, kind: 'request', limiter } : undefined;
    const { lanes = [] } = config;
    this.#cache = config.cache?.open({
      scheduler,
      tell: this.#tell,
      now: () => this.now(),
      patienceMs: config.deadlineMs * (1 + (config.fixAnswer?.rounds ?? 0)),
      isMoreUrgent: (lane, than) => lanes.indexOf(lane) < lanes.indexOf(than),
      rested: () => {
        this.#checkDrained();
      },
    });
    this.shutdown = this.shutdownOf({
      operator: NAME,
      scheduler,
      stop: () => {
        this.#checkDrained();
      },
      abort: (error) => {
        this.#giveUp(error);
      },
    });
  }

  call(request: Q, options: ModelCallOptions = {}): Observable<P> {
    const cache = this.#cache;
    return this.#accept(options, (asker) => {
      const key = cache?.keyOf(request);
      if (cache === undefined || key === undefined) return this.#answer(request, asker.inquiry, asker.inquiry.endsAt);
      // The deadline of one caller is not that of an answer that others share.
      return cache.answer(key, asker, (inquiry) => this.#answer(request, inquiry, Infinity));
    });
  }

  callAsync(request: Q, options?: ModelCallOptions): Promise<P> {
    const answer = lastValueFrom(this.call(request, options));
    // As all other rejections here: one without a listener is not reported.
    answer.catch(() => undefined);
    return answer;
  }

  stream(request: Q, options: ModelCallOptions = {}): Observable<C> {
    const { client, scheduler } = this.#config;
    const open = client.stream;
    if (open === undefined) throw new FlowConfigError(NAME, 'call.stream', 'a function', open);
    return this.#accept(options, ({ inquiry }) =>
      this.#make(this.#streams, request, inquiry, inquiry.endsAt, (attempt) => openStream(client, open, request, attempt, scheduler)),
    );
  }

  forget(request: Q): void {
    const key = this.#cache?.keyOf(request);
    if (key !== undefined) this.#cache?.forget(key);
  }

  newTraceId(): string {
    return `${this.#idPrefix}${this.#idPrefix}${this.#nextId()}`;
  }

  snapshot(): ModelCallerSnapshot {
    const queued = this.#accepted - this.#sending + (this.#cache?.lookingUp ?? 0);
    const waiting = this.#config.limiter.snapshot();
    const heldBySlot = Math.min(queued, waiting.heldBySlot);
    return { queued, heldByRate: Math.min(queued - heldBySlot, waiting.heldByRate), heldBySlot, executing: this.#executing };
  }

  // ---- what attempts need -------------------------------------------------------------------------------------------------

  now(): number {
    return this.#clock.now();
  }

  classOf(error: unknown, attempt: number): ErrorClass {
    const { classify, scheduler } = this.#config;
    return check.verdict(NAME, classify, error, { size: 1, attempt, aborted: false, epochMs: scheduler.now() }).class;
  }

  over({ call, attempt, spanId }: ModelAttempt, outcome: AttemptOutcome, latencyMs: number): void {
    const { lane, id: batchId, inquiry } = call;
    this.#executing--;
    if (--call.running === 0) this.#sending--;
    if (outcome === 'ok') inquiry.isAnswered = true;
    const { traceId } = inquiry;
    this.#tell({ type: 'attemptEnded', lane, batchId, traceId, spanId, size: 1, attempt, outcome, latencyMs });
  }

  // ---- from a caller to its answer ----------------------------------------------------------------------------------------

  /** Accepts a caller, anew for each subscriber: counted when the model caller shuts down, and cancelled by its signal. */
  #accept<V>(options: ModelCallOptions, work: (asker: Asker) => Observable<V>): Observable<V> {
    checkCall(options);
    const { signal, deadlineMs } = options;
    const ambient = ambientJob();
    const { lanes, defaultLane } = this.#config;
    const lane = options.lane ?? (ambient.lane === undefined ? undefined : ambientLane(lanes)) ?? defaultLane;
    const key = options.key ?? (ambient.key === undefined ? undefined : String(ambient.key));
    const name = options.name ?? ambient.name ?? 'call';
    return new Observable((subscriber) => {
      if (this.shutdown.isClosed) {
        subscriber.error(new ClosedError(NAME));
        return;
      }
      const end = (error: unknown): void => {
        subscriber.error(error);
      };
      if (signal) {
        this.#signals.stop(signal, subscriber, end);
        if (subscriber.closed) return;
      }
      const traceId = options.traceId ?? ambient.traceId ?? this.newTraceId();
      const endsAt = deadlineMs === undefined ? Infinity : this.now() + deadlineMs;
      const asker: Asker = { inquiry: new Inquiry(traceId, name, lane, key, endsAt) };
      this.#askers.set(asker, end);
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
          subscriber.error(ParseFault.is(error) ? error.cause : error);
        },
        complete: () => {
          this.shutdown.count('done');
          subscriber.complete();
        },
      });
    });
  }

  /** A call, and with `fixAnswer` others as long as its answer cannot be read. */
  #answer(request: Q, inquiry: Inquiry, endsAt: number): Observable<P> {
    const { client, parse, fixAnswer, scheduler } = this.#config;
    const call = (asked: Q): Observable<P> =>
      this.#make(this.#calls, asked, inquiry, endsAt, (attempt) => exchange(client, parse, asked, attempt, scheduler));
    return fixAnswer ? fixed(fixAnswer, request, call, scheduler) : call(request);
  }

  /** One call under a policy. */
  #make<V>(run: Policy, request: Q, inquiry: Inquiry, endsAt: number, send: Send<V>): Observable<V> {
    const { lanes, ledger, deadlineMs: mostMs, client } = this.#config;
    const { lane, key, name } = inquiry;
    const model: unknown = ask(NAME, 'model', client.model, request);
    if (typeof model !== 'string' || model === '') throw check.unusable(NAME, 'model', 'a non-empty string', model);
    const tokens = this.#estimate(request);
    const facts = ledger?.factsOf({ name, model, lane, key, tokens });
    const now = this.now();
    const deadlineMs = Math.max(0, Math.min(mostMs, endsAt - now));
    const call = new ModelCall(inquiry, `c${String(this.#made++)}`, facts, now + deadlineMs);
    // A limiter without lanes has no name for the only one.
    const hasLane = lanes !== undefined || lane !== check.defaultLane;
    const cost = { ...(facts?.charged ?? unitsOf(tokens)) };
    return run((context) => this.#attempt(call, send, context), {
      id: call.id,
      ...(deadlineMs < Infinity && { deadlineMs }),
      job: { ...(hasLane && { lane }), ...(key !== undefined && { key }), model, cost },
    });
  }

  #attempt<V>(call: ModelCall, send: Send<V>, context: PolicyContext, reserved?: Reservation): WorkResult<V> {
    const { lane, id: batchId, inquiry, facts } = call;
    const reserving = reserved ?? (facts && this.#config.ledger?.reserveFor(facts, () => context.lease?.release('unused')));
    if (isObservable(reserving))
      return withReservation(reserving, context, (reservation) => this.#attempt(call, send, context, reservation));
    const { traceId } = inquiry;
    const spanId = this.#nextId();
    const attempt = call.sent + 1;
    const { queuedMs } = context;
    const about = { traceId, spanId, attempt, queuedMs };
    const entry = facts && this.#config.ledger?.enter(facts, about, context, () => this.now(), reserving);
    // A listener of the budget may have ended the call.
    if (entry?.isReserved && context.signal.aborted) {
      entry.withdraw();
      return EMPTY;
    }
    call.sent++;
    inquiry.sent++;
    this.#executing++;
    if (call.running++ === 0) this.#sending++;
    const made = new ModelAttempt(this, call, context, attempt, spanId, entry);
    const batch = { lane, batchId, traceId, spanId, size: 1, weight: 1, attempt, splitDepth: 0 };
    this.#tell({ type: 'attemptStarted', ...batch, executing: this.#executing });
    // A listener may have ended the call.
    if (made.isOver) return EMPTY;
    made.isSent = true;
    return this.#shared ? underPermit(this.#shared, context.lease, () => send(made)) : send(made);
  }

  /** What a request will take. A mere number is of both kinds together. */
  #estimate(request: Q): RequestTokens {
    const { cost } = this.#config.client;
    if (cost === undefined) return UNKNOWN;
    const answer = ask(NAME, 'call.cost', cost, request);
    const { inputTokens = 0, outputTokens } = Object(answer) as Usage;
    const tokens = Object(answer) === answer ? 0 : (answer as number);
    for (const amount of [inputTokens, outputTokens ?? 0, tokens])
      if (!check.isAmount(amount) || amount === Infinity) throw check.unusable(NAME, 'call.cost', 'a finite number >= 0', amount);
    return { inputTokens, maxOutputTokens: outputTokens, tokens };
  }

  // ---- what is around calls, and the end ----------------------------------------------------------------------------------

  #rules() {
    const { scheduler, random, limiter, deadlineMs, retry, breaker, whenOpen, classify } = this.#config;
    // The provider has answered when parsing fails, and what a budget has refused it refuses a moment later: nothing is made again.
    const isFinal = (error: unknown): boolean => ParseFault.is(error) || isFlowError(error, 'FLOW_BUDGET_EXCEEDED');
    const judge: Classify = (error, context) => (isFinal(error) ? { class: 'contract' } : classify(error, context));
    return {
      ...{ operator: NAME, classify: judge, scheduler, random, limiter, deadlineMs },
      ...(retry && { retry }),
      ...(breaker && { breaker, whenOpen }),
      onEvent: (event: FlowEvent) => {
        this.#relay(event);
      },
    };
  }

  /** Attempts are told by the model caller itself: it knows of hedges. */
  #relay(event: FlowEvent): void {
    const { type } = event;
    if (type === 'attemptStarted' || type === 'attemptEnded') return;
    if (type === 'accepted') this.#accepted++;
    this.#tell(event);
    if (type !== 'settled' && type !== 'cancelled') return;
    this.#accepted--;
    this.#checkDrained();
  }

  #giveUp(error: unknown): void {
    for (const [{ inquiry }, end] of [...this.#askers]) {
      // A listener to the answer has closed the model caller before it is out.
      if (inquiry.isAnswered) continue;
      // Between two attempts it has had its effect as well.
      this.shutdown.count(inquiry.sent > 0 ? 'aborted' : 'dropped');
      end(error);
    }
    this.#cache?.close();
    this.#checkDrained();
  }

  #checkDrained(): void {
    if (!this.shutdown.isClosed || this.#askers.size + this.#accepted > 0 || this.#cache?.isBusy || !this.shutdown.finish()) return;
    this.#config.ownLimiter?.close();
    this.#tell({ type: 'drained' });
  }

  /** Never twice in this caller; 16 digits. */
  #nextId(): string {
    return `${this.#idPrefix}${(++this.#ids).toString(16).padStart(8, '0')}`;
  }
}

const UNKNOWN: RequestTokens = { inputTokens: 0, maxOutputTokens: undefined };

/** What a limiter without a ledger is charged: what a request will take at most. */
function unitsOf({ inputTokens: prompt, maxOutputTokens: outputTokens = 0, tokens = 0 }: RequestTokens): TokenUnits {
  const inputTokens = prompt + tokens;
  return { inputTokens, outputTokens, tokens: inputTokens + outputTokens };
}

/** Eight hexadecimal digits. */
function hex(drawn: number): string {
  return Math.min(Math.floor(drawn * 2 ** 32), 2 ** 32 - 1)
    .toString(16)
    .padStart(8, '0');
}

import type { SchedulerLike, Subscriber } from 'rxjs';
import { Observable } from 'rxjs';
import { classifyError } from './classify-error.js';
import type { CircuitState } from './kernel/limits/circuit.js';
import { Circuit } from './kernel/limits/circuit.js';
import { verdictOf } from './options/ask.js';
import { BreakerOpenError, FlowConfigError, isFlowError } from './options/errors.js';
import type { FlowSink } from './options/events.js';
import { listener } from './options/events.js';
import { checked, count, known, positive, ratio, required } from './options/options.js';
import type { Classify, ErrorClass, Verdict, WorkResult } from './options/types.js';
import { requiredSignal } from './shell/abort.js';
import { schedulerOption } from './shell/alarm.js';
import { isBug } from './shell/error-evidence.js';
import { AbortCalls } from './shell/signal-groups.js';
import { passLastValue } from './support/limiting/limiter-work.js';
import type { Breaker, BreakerCallOptions, BreakerContext, BreakerSnapshot } from './support/policing/breaker-types.js';
import { StoppableWork } from './support/racing/stoppable-work.js';

export type { CircuitState } from './kernel/limits/circuit.js';
export type { Breaker, BreakerCallOptions, BreakerContext, BreakerSnapshot } from './support/policing/breaker-types.js';

/** A class of error that a breaker may count. A cancelled call says nothing about the backend. */
export type CountedClass = Exclude<ErrorClass, 'cancelled'>;

export interface BreakerOptions {
  /** Share of failed calls at which it opens, 0 to 1. @defaultValue 0.5 */
  readonly failureRatio?: number;
  /** Calls that must have ended within `windowMs` before it may open. @defaultValue 10 */
  readonly minCalls?: number;
  /** How far back results count, in ms; they are forgotten a tenth of it at a time. @defaultValue 30000 */
  readonly windowMs?: number;
  /** How long it stays open at first, in ms; doubled by every probe that fails. @defaultValue 5000 */
  readonly openMs?: number;
  /** The longest it stays open, in ms. @defaultValue 60000, or `openMs` when that is longer */
  readonly maxOpenMs?: number;
  /** Calls let through at a time to probe the backend; so many must succeed before it closes. @defaultValue 1 */
  readonly probes?: number;
  /** Sorts errors into those that count and those that do not. @defaultValue `classifyError` */
  readonly classify?: Classify;
  /** Classes of errors that count as failures; of all others none opens it. @defaultValue transient, timeout */
  readonly counts?: readonly CountedClass[];
  /** Clock; there is no timer. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Told of every change of state (`breakerChanged`). @defaultValue none */
  readonly onEvent?: FlowSink;
}

/** What {@link createBreaker} does when an option is left out. */
export const BREAKER_DEFAULTS = {
  failureRatio: 0.5,
  minCalls: 10,
  windowMs: 30_000,
  openMs: 5_000,
  maxOpenMs: 60_000,
  probes: 1,
  counts: ['transient', 'timeout'],
} as const satisfies BreakerOptions;

const NAME = 'createBreaker';

const COUNTABLE: readonly CountedClass[] = ['throttled', 'transient', 'timeout', 'tooLarge', 'itemFault', 'fatal', 'contract'];

/**
 * Stops calling a backend that is down, and finds out by itself when it is back: one breaker is shared by everything that calls the same
 * backend.
 *
 * ```text marbles/createBreaker
 * source  a-b-c-d---e----f---|
 *         mergeMap(breaker.run(call)), { minCalls: 2, openMs: 5 }; r = refused, x = failed
 * a       #
 * b         #
 * e                 -(E|)
 * f                      (F|)
 * result  x-x-r-r----E---F---|
 *         # = Error: status 503
 * ```
 *
 * - **Lets through** every call while it is `closed`. When, of at least `minCalls` calls within `windowMs`, the share `failureRatio` has
 *   failed, it opens.
 * - **Refuses** calls while it is `open`, at once and without making them. After `openMs` it is `halfOpen`: `probes` calls at a time are
 *   let through, the others refused. Success closes it. A failure opens it again for twice as long, up to `maxOpenMs`.
 * - **Counts** errors of the classes in `counts` as failures. Any other answer (a 404, a 429, a wrong key) counts neither way, but shows that
 *   the backend is up: a probe that ends so has succeeded. What need not have come from the backend says nothing, and gives the place of
 *   a probe to the next call: a cancelled call, an error of this package, one that nobody recognises, a bug. Nor does a call that was
 *   under way when the circuit opened. A call that is left after its first value has succeeded.
 * - **Holds at most** ten pairs of counts, however many calls there are. It sets no timer.
 * - **Errors when** it is open (`BreakerOpenError`, which knows `retryAfterMs`); otherwise as the work does, with the same object.
 * - **On unsubscribe** the signal aborts, and a probe gives its place to the next call.
 *
 * A probe that is silent for as long as the circuit was open is no longer waited for: the next call may try as well.
 *
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { throwError } from 'rxjs';
 * import { createBreaker } from 'sluice/operators';
 *
 * const breaker = createBreaker({ minCalls: 2 });
 * const down = () => throwError(() => ({ status: 503 }));
 * breaker.run(down).subscribe({ error: () => undefined });
 * breaker.state; // => 'closed'
 * breaker.run(down).subscribe({ error: () => undefined });
 * breaker.state; // => 'open'
 * const seen: string[] = [];
 * breaker.run(down).subscribe({ error: (error: Error) => seen.push(error.name) });
 * seen; // => ['BreakerOpenError']
 * ```
 * @see {@link policy} for a breaker together with retries, a limiter and time limits, in the right order.
 */
export function createBreaker(options: BreakerOptions = {}): Breaker {
  return new FlowBreaker(options);
}

class FlowBreaker implements Breaker {
  readonly #circuit: Circuit;
  readonly #counts: ReadonlySet<ErrorClass>;
  readonly #classify: Classify;
  readonly #scheduler: SchedulerLike;
  readonly #onEvent: FlowSink | undefined;
  #toldState: CircuitState = 'closed';
  #toldOpenMs = 0;
  /** What ends calls, by their signals. */
  readonly #signals = new AbortCalls();

  constructor(options: BreakerOptions) {
    const { counts, classify, scheduler, onEvent, ...circuit } = readOptions(options);
    this.#circuit = new Circuit(circuit);
    this.#counts = new Set(counts);
    this.#classify = classify;
    this.#scheduler = scheduler;
    this.#onEvent = onEvent;
  }

  get state(): CircuitState {
    return this.#circuit.stateAt(this.#scheduler.now());
  }

  run<R>(work: (context: BreakerContext) => WorkResult<R>): Observable<R> {
    required(NAME, 'work', work);
    return new Observable<R>((subscriber) => {
      const now = this.#scheduler.now();
      const ticket = this.#circuit.enter(now);
      if (ticket === undefined) {
        subscriber.error(new BreakerOpenError(NAME, this.#circuit.retryAfterMs(now)));
        return;
      }
      this.#tell();
      const call = new BreakerCall<R>(this, ticket, subscriber);
      subscriber.add(() => {
        call.leave();
      });
      // A listener may have made the consumer leave.
      if (!subscriber.closed) call.start(() => work(call));
    });
  }

  runAsync<R>(work: (context: BreakerContext) => WorkResult<R>, options: BreakerCallOptions = {}): Promise<R> {
    return new Promise((resolve, reject) => {
      known(NAME, options, ['signal'], 'call options');
      const { signal } = options;
      if (signal !== undefined && requiredSignal(NAME, 'signal', signal).aborted) throw signal.reason;
      const subscription = passLastValue(this.run(work), resolve, reject);
      if (signal === undefined) return;
      const rejectWith: (reason: unknown) => void = reject;
      this.#signals.stop(signal, subscription, (reason) => {
        subscription.unsubscribe();
        rejectWith(reason);
      });
    });
  }

  snapshot(): BreakerSnapshot {
    const now = this.#scheduler.now();
    const circuit = this.#circuit;
    return { state: circuit.stateAt(now), ...circuit.counts(now), probing: circuit.probing, retryAfterMs: circuit.retryAfterMs(now) };
  }

  trip(): void {
    this.#circuit.trip();
    this.#tell();
  }

  reset(): void {
    this.#circuit.reset();
    this.#tell();
  }

  succeeded(ticket: number): void {
    this.#circuit.succeeded(ticket, this.#scheduler.now());
    this.#tell();
  }

  failed(ticket: number, error: unknown): void {
    const now = this.#scheduler.now();
    const found = this.#meaningOf(error, now);
    if (found === 'down') this.#circuit.failed(ticket, now);
    else if (found === 'up') this.#circuit.answered(ticket, now);
    else this.#circuit.left(ticket);
    this.#tell();
  }

  left(ticket: number): void {
    this.#circuit.left(ticket);
  }

  /** What an error says about the backend: any answer, a refusal as well, shows that it is up. */
  #meaningOf(error: unknown, now: number): 'down' | 'up' | 'nothing' {
    let verdict: Verdict;
    try {
      verdict = verdictOf(NAME, this.#classify, error, { size: 1, attempt: 1, aborted: false, epochMs: now });
    } catch {
      return 'nothing';
    }
    if (this.#counts.has(verdict.class)) return 'down';
    // None of these need have come from the other side.
    if (verdict.class === 'cancelled' || verdict.unrecognised || isFlowError(error) || isBug(error)) return 'nothing';
    return 'up';
  }

  /** Reports a change of state, when there was one. */
  #tell(): void {
    const { state, openForMs: openMs } = this.#circuit;
    if (state === this.#toldState && openMs === this.#toldOpenMs) return;
    this.#toldState = state;
    this.#toldOpenMs = openMs;
    this.#onEvent?.({ type: 'breakerChanged', operator: NAME, state, openMs });
  }
}

/** One call that was let through: what its work is told, and what hears of its end. */
class BreakerCall<R> extends StoppableWork<R> implements BreakerContext {
  readonly #breaker: FlowBreaker;
  readonly #ticket: number;
  readonly #to: Subscriber<R>;
  #hasAnswered = false;
  #isOver = false;

  constructor(breaker: FlowBreaker, ticket: number, to: Subscriber<R>) {
    super();
    this.#breaker = breaker;
    this.#ticket = ticket;
    this.#to = to;
  }

  said(value: R): void {
    this.#hasAnswered = true;
    this.#to.next(value);
  }

  done(): void {
    this.#isOver = true;
    this.#breaker.succeeded(this.#ticket);
    this.#to.complete();
  }

  failed(error: unknown): void {
    this.#isOver = true;
    this.#breaker.failed(this.#ticket, error);
    this.#to.error(error);
  }

  /** Its consumer has left, or it is over. One that took the first value and had enough has got its answer. */
  leave(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (this.#hasAnswered) this.#breaker.succeeded(this.#ticket);
    else this.#breaker.left(this.#ticket);
    this.cancel();
  }
}

function readOptions(options: BreakerOptions) {
  const { maxOpenMs: longestMs, ...defaults } = BREAKER_DEFAULTS;
  const read = checked(
    NAME,
    options,
    { ...defaults, classify: classifyError },
    {
      failureRatio: ratio,
      minCalls: count,
      windowMs: positive,
      openMs: positive,
      maxOpenMs: (operator, option, value: number | undefined) => (value === undefined ? value : positive(operator, option, value)),
      probes: finiteCount,
      classify: required,
      counts: countedClasses,
      scheduler: schedulerOption,
      onEvent: listener,
    },
  );
  const { openMs, maxOpenMs = Math.max(openMs, longestMs) } = read;
  if (maxOpenMs < openMs) throw new FlowConfigError(NAME, 'maxOpenMs', `at least \`openMs\` (${String(openMs)})`, maxOpenMs);
  return { ...read, maxOpenMs };
}

/** With no bound it would never close: so many must succeed. */
function finiteCount(operator: string, option: string, value: unknown): number {
  if (Number.isSafeInteger(value) && (value as number) >= 1) return value as number;
  throw new FlowConfigError(operator, option, 'a whole number >= 1', value);
}

function countedClasses(operator: string, option: string, value: readonly CountedClass[]): readonly CountedClass[] {
  const list: readonly unknown[] = Array.isArray(value) ? value : [];
  if (list.length > 0 && list.every((each) => COUNTABLE.includes(each as CountedClass))) return value;
  throw new FlowConfigError(operator, option, `a list of at least one of ${COUNTABLE.map((each) => `'${each}'`).join(', ')}`, value);
}

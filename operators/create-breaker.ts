import type { SchedulerLike, Subscriber } from 'rxjs';
import { Observable } from 'rxjs';
import type { CircuitState } from './kernel/limits/circuit.js';
import { Circuit } from './kernel/limits/circuit.js';
import { classifyByStatus } from './kernel/repair/classify-by-status.js';
import { verdictOf } from './options/ask.js';
import type { Breaker, BreakerContext, BreakerState, PolicyBreakerContext, WatchedBreaker } from './options/breaker.js';
import { BREAKER_CLOSES, BREAKER_OPENS, BREAKER_OPENS_SHARE, CREATE_BREAKER } from './options/defaults.js';
import { BreakerOpenError, isFlowError } from './options/errors.js';
import type { FlowSink } from './options/events.js';
import { EVENT_CHECKS, teller } from './options/events.js';
import { check, checked, count, optional, orDefault, positive, ratio, requiredFunction, unchecked } from './options/options.js';
import type { Classify, ErrorClass, Verdict, WorkResult } from './options/types.js';
import { Relay } from './shell/calls/call.js';
import { isBug } from './shell/calls/error-evidence.js';
import { passLastValue } from './shell/calls/last-value.js';
import { schedulerOption } from './shell/time/alarm.js';

export type { CircuitState } from './kernel/limits/circuit.js';
export type { Breaker, BreakerContext, BreakerSnapshot, BreakerState } from './options/breaker.js';

/** When a breaker opens. With `inARow` alone, only for that. */
export interface OpenRule {
  /** Share of failed calls at which it opens, 0 to 1. @defaultValue 0.5 */
  readonly share?: number;
  /** Calls that must have ended within `windowMs` before it may open for their share. @defaultValue 10 */
  readonly minCalls?: number;
  /** How far back results count for it, in ms; they are forgotten a tenth of it at a time. @defaultValue 30000 */
  readonly windowMs?: number;
  /** Calls one after the other that have failed, however long that took, at which it opens too. @defaultValue Infinity */
  readonly inARow?: number;
}

/** When a breaker that is half open closes; it opens again as soon as that cannot be any more. */
export interface CloseRule {
  /** Calls let through at a time to probe the backend. @defaultValue 1 */
  readonly probes?: number;
  /** Share of them that must succeed, 0 to 1; at least one must. @defaultValue 1 */
  readonly share?: number;
}

/** @stable */
export interface BreakerOptions {
  /** When it opens. @defaultValue half of at least 10 calls within 30 s have failed */
  readonly opens?: OpenRule;
  /** When it closes again. @defaultValue one probe succeeds */
  readonly closes?: CloseRule;
  /** How long it stays open at first, in ms; doubled whenever its probes fail, up to 60 s. @defaultValue 5000 */
  readonly openMs?: number;
  /** Sorts errors: `transient` and `timeout` count as failures, no other class opens it. @defaultValue by status; pass `classifyError` to have the errors of SDKs read in full */
  readonly classify?: Classify;
  /** Clock; there is no timer. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Listener for every change of state (`breakerChanged`). @defaultValue none */
  readonly onEvent?: FlowSink;
  /** What events call it, as `instance`. @defaultValue a number of its own */
  readonly name?: string;
  /** What `save` of a breaker with the same rules has returned: continues from there, for example after a restart; the time since then counts. @defaultValue none */
  readonly restore?: BreakerState;
}

const NAME = 'createBreaker';

/** Longest that failed probes keep it open, unless `openMs` is longer: a backend that is back is noticed within a minute. */
const LONGEST_OPEN_MS = 60_000;
/** Classes that count as failures. All others show a backend that is up: `classify` decides which errors are which. */
const FAILURES: readonly ErrorClass[] = ['transient', 'timeout'];

/**
 * Stops calling a backend that is down, and finds out by itself when it is back: one breaker is shared by everything that calls the same
 * backend.
 *
 * ```text marbles/createBreaker
 * source  a-b-c-d---e----f---|
 *         mergeMap(breaker.run(call)), { opens: { inARow: 2 }, openMs: 5 }; r = refused, x = failed
 * a       #
 * b         #
 * e                 -(E|)
 * f                      (F|)
 * result  x-x-r-r----E---F---|
 *         # = Error: status 503
 * ```
 *
 * - **Lets through** every call while it is `closed`. It opens when the rule `opens` is met: half of at least 10 calls within
 *   30 s have failed, or what you say.
 * - **Refuses** calls while it is `open`, at once and without making them. After `openMs` it is `halfOpen`: one call at a time, or as many
 *   as `closes` says, are let through, the others refused. Success closes it. A failure opens it again for twice as long, up to 60 s.
 * - **Counts** `transient` errors and timeouts as failures. Any other answer (a 404, a 429, a wrong key) counts neither way, but shows that
 *   the backend is up: a probe that ends so has succeeded. Ends that need not have come from the backend are ignored, and a probe that ends so gives
 *   its place to the next call. These are cancelled calls, errors of this package whose class does not count (a rejection by another breaker never
 *   does), unrecognised errors and bugs. Calls that were under way when the circuit opened are ignored as well. A call that is left after its first
 *   value has succeeded.
 * - **Holds at most** ten pairs of counts, however many calls there are. It sets no timer.
 * - **Errors when** it is open (`BreakerOpenError`, which knows `retryAfterMs`); otherwise as the work does, with the same object.
 * - **On unsubscribe** the signal aborts, and a probe gives its place to the next call.
 *
 * A probe that is silent for as long as the circuit was open is no longer waited for: the next call may try as well.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { throwError } from 'rxjs';
 * import { createBreaker } from 'sluice/operators';
 *
 * const breaker = createBreaker({ opens: { inARow: 2 } });
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
  const settings = readOptions(options);
  const { scheduler, restore: saved } = settings;
  const now = (): number => scheduler.now();
  const circuit = new Circuit(settings);
  if (saved) circuit.restore(saved, now());
  const tellEvent = teller(NAME, settings, now);
  let { state, openForMs: openMs } = circuit;

  const watchers = new Set<() => void>();

  /** Reports a change of state, when there was one. */
  function tell(): void {
    if (circuit.state === state && circuit.openForMs === openMs) {
      // A probe may have given its place back.
      if (state === 'halfOpen') notify();
      return;
    }
    ({ state, openForMs: openMs } = circuit);
    tellEvent?.({ type: 'breakerChanged', state, openMs });
    notify();
  }

  function notify(): void {
    for (const watcher of [...watchers]) watcher();
  }

  const host: Host = {
    ended(ticket, outcome) {
      if (outcome === 'ok') circuit.succeeded(ticket, now());
      else if (outcome === 'down') circuit.failed(ticket, now());
      else if (outcome === 'up') circuit.answered(ticket, now());
      else circuit.left(ticket);
      tell();
    },
    meaningOf: (error) => meaningOf(error, settings, now()),
  };

  return {
    get state() {
      return circuit.stateAt(now());
    },
    run<R>(work: (context: BreakerContext) => WorkResult<R>) {
      requiredFunction(NAME, 'work', work);
      return new Observable<R>((subscriber) => {
        const ticket = circuit.enter(now());
        if (ticket === undefined) {
          subscriber.error(new BreakerOpenError(NAME, circuit.snapshot(now()).retryAfterMs));
          return;
        }
        tell();
        // A listener may have made the consumer leave.
        if (subscriber.closed) circuit.left(ticket);
        else new BreakerCall(host, ticket, work, subscriber).begin();
      });
    },
    runAsync<R>(work: (context: BreakerContext) => WorkResult<R>) {
      return new Promise<R>((resolve, reject) => {
        passLastValue(this.run(work), resolve, reject);
      });
    },
    snapshot() {
      return circuit.snapshot(now());
    },
    save() {
      return circuit.save(now());
    },
    trip() {
      circuit.trip();
      tell();
    },
    reset() {
      circuit.reset();
      tell();
    },
    watch(listener: () => void) {
      watchers.add(listener);
      return () => {
        watchers.delete(listener);
      };
    },
  } as WatchedBreaker;
}

/** What the end of a call says about the backend: any answer, a refusal as well, shows that it is up. */
type Meaning = 'ok' | 'down' | 'up' | 'nothing';

/** The breaker, to a call. */
interface Host {
  /** Reports the end once, before the consumer gets it. */
  ended(ticket: number, outcome: Meaning): void;
  meaningOf(error: unknown): Meaning;
}

function meaningOf(error: unknown, { classify }: Pick<ReturnType<typeof readOptions>, 'classify'>, now: number): Meaning {
  // Another breaker has rejected the call: it never reached the backend.
  if (isFlowError(error, 'FLOW_BREAKER_OPEN')) return 'nothing';
  let verdict: Verdict;
  try {
    verdict = verdictOf(NAME, classify, error, { size: 1, attempt: 1, aborted: false, epochMs: now });
  } catch {
    return 'nothing';
  }
  if (FAILURES.includes(verdict.class)) return 'down';
  // None of these need have come from the other side.
  if (verdict.class === 'cancelled' || verdict.unrecognised || isFlowError(error) || isBug(error)) return 'nothing';
  return 'up';
}

/** One call that was let through; also the context of its work. */
class BreakerCall<R> extends Relay<R> implements PolicyBreakerContext {
  private hasAnswered = false;
  private isOver = false;

  constructor(
    private readonly host: Host,
    private readonly ticket: number,
    private readonly given: (context: BreakerContext) => WorkResult<R>,
    to: Subscriber<R>,
  ) {
    super(to);
  }

  work(): WorkResult<R> {
    return this.given(this);
  }

  override got(value: R): void {
    this.hasAnswered = true;
    super.got(value);
  }

  endsWell(): void {
    this.tell('ok');
  }

  override done(): void {
    this.tell('ok');
    super.done();
  }

  override failed(error: unknown): void {
    this.tell(this.host.meaningOf(error));
    super.failed(error);
  }

  cutOff(): void {
    this.hasAnswered = false;
  }

  /** Its consumer has left, or it is over. One that took the first value and had enough has got its answer. */
  override stop(): void {
    this.tell(this.hasAnswered ? 'ok' : 'nothing');
    super.stop();
  }

  private tell(outcome: Meaning): void {
    if (this.isOver) return;
    this.isOver = true;
    this.host.ended(this.ticket, outcome);
  }
}

function readOptions(options: BreakerOptions) {
  const read = checked(
    NAME,
    options,
    { ...CREATE_BREAKER, classify: classifyByStatus },
    {
      opens: unchecked,
      closes: unchecked,
      openMs: positive,
      classify: requiredFunction,
      restore: optional(savedState),
      scheduler: schedulerOption,
      ...EVENT_CHECKS,
    },
  );
  return { ...read, ...openRule(read.opens), ...closeRule(read.closes), maxOpenMs: Math.max(read.openMs, LONGEST_OPEN_MS) };
}

function openRule(rule: OpenRule = {}) {
  const { share, ...read } = checked(
    NAME,
    rule,
    BREAKER_OPENS,
    { share: unchecked, minCalls: count, windowMs: positive, inARow: count },
    'opens.',
  );
  const never = share === undefined && rule.inARow !== undefined;
  return { ...read, share: never ? Infinity : ratio(NAME, 'opens.share', orDefault(share, BREAKER_OPENS_SHARE)) };
}

function closeRule(rule: CloseRule = {}) {
  const { probes, share } = checked(NAME, rule, BREAKER_CLOSES, { probes: finiteCount, share: ratio }, 'closes.');
  return { probes, probeShare: share };
}

/** With no bound it would never close. */
const finiteCount = /* @__PURE__ */ check<number>('a whole number >= 1', (value: number) => Number.isSafeInteger(value) && value >= 1);

const STATES: readonly unknown[] = ['closed', 'open', 'halfOpen'] satisfies CircuitState[];

const savedState = /* @__PURE__ */ check<BreakerState>('the result of `save()` of a breaker', (saved) => {
  const { state, at = 0, openMs, leftMs, counted } = Object(saved) as Partial<BreakerState>;
  const numbers: readonly unknown[] = [at, openMs, leftMs, ...(Array.isArray(counted) ? (counted as readonly unknown[]) : [undefined])];
  return STATES.includes(state) && numbers.every(Number.isFinite);
});

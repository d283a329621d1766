import type { SchedulerLike } from 'rxjs';
import { Observable } from 'rxjs';
import { classifyByStatus } from './kernel/repair/classify-by-status.js';
import { Refusals } from './kernel/repair/refusals.js';
import type { RepairRule } from './kernel/repair/rule.js';
import type { Breaker } from './options/breaker.js';
import { POLICY } from './options/defaults.js';
import type { FlowSink } from './options/events.js';
import { EVENT_CHECKS, teller } from './options/events.js';
import { DEFAULT_LANE } from './options/lanes.js';
import type { Limiter, LimiterJob } from './options/limiter.js';
import { jobOption, limiterOption } from './options/limiter-option.js';
import {
  callback,
  checked,
  durationMs,
  flag,
  madeBy,
  nonEmpty,
  oneOf,
  onlyKnown,
  orDefault,
  positive,
  requiredFunction,
  unchecked,
} from './options/options.js';
import type { Classify, WorkOutcome } from './options/types.js';
import { requiredSignal } from './shell/calls/abort.js';
import { AbortCalls } from './shell/calls/signal-groups.js';
import { BreakerGate } from './shell/policy/breaker-gate.js';
import { PolicyCall } from './shell/policy/policy-call.js';
import type {
  Fallback,
  FallbackContext,
  HedgeRule,
  PolicyContext,
  PolicyGuard,
  PolicyLoad,
  PolicyWork,
} from './shell/policy/policy-rules.js';
import { schedulerOption } from './shell/time/alarm.js';

export type {
  Fallback,
  FallbackContext,
  HedgeRule,
  PolicyContext,
  PolicyGuard,
  PolicyGuardContext,
  PolicyWork,
} from './shell/policy/policy-rules.js';

/** @stable */
export interface PolicyOptions<F = never, W = never> {
  /**
   * What is answered instead, when everything else has failed before the first value. Throw what you have no answer for. Not asked when
   * the call was cancelled, and not held to the deadline. @defaultValue none
   */
  readonly fallback?: Fallback<F> | ((error: unknown, context: FallbackContext) => W);
  /** Longest time from the subscription to the end, in ms; waiting for permits and pauses included. @defaultValue Infinity */
  readonly deadlineMs?: number;
  /** Refuses attempts while the backend is down. Asked before each attempt, when that has its permit; it hears the outcome of each. @defaultValue none */
  readonly breaker?: Breaker;
  /**
   * What calls do while the circuit is open. `'fail'`: error at once with `BreakerOpenError`, also those that wait in the queue of the `limiter` or for
   * their next attempt when it opens. `'wait'`: wait without a permit until it lets calls through, up to `deadlineMs`; for bulk work. @defaultValue 'fail'
   */
  readonly whenOpen?: 'fail' | 'wait';
  /** When and how often a failed attempt is made again: the value `retryFailed({ … })`; give it a `maxShare`. @defaultValue none, and then never */
  readonly retry?: Pick<RepairRule, 'failed'>;
  /**
   * Asked before every attempt, with its permit in hand: true lets it go. False or a reason ends the call with `GuardRefusedError`, what throws or answers
   * something else with `CallbackError`; such an attempt is not counted, costs nothing and is never made again. `timeoutMs` includes the answer. @defaultValue none
   */
  readonly guard?: PolicyGuard;
  /** Every attempt takes a permit of its own. @defaultValue none */
  readonly limiter?: Limiter;
  /** What each attempt takes from the `limiter`. @defaultValue one request in the last lane */
  readonly job?: LimiterJob;
  /** A second attempt while the first is silent: the value `hedging({ … })`. @defaultValue none */
  readonly hedge?: HedgeRule;
  /** Longest single attempt from its permit to its end, in ms; its signal aborts and it counts as `timeout`. @defaultValue 30000 */
  readonly timeoutMs?: number;
  /** Longest silence of an attempt, in ms: until its first value, and between two; then it is aborted as at its timeout. @defaultValue Infinity */
  readonly silenceMs?: number;
  /** Whether an attempt that timed out may be made again: it may have had its effect. @defaultValue true */
  readonly idempotent?: boolean;
  /**
   * Whether an attempt that has emitted values may be made again: for work that continues where it stopped, such as an event stream with
   * `Last-Event-ID`. Each value starts the count of attempts anew. @defaultValue false
   */
  readonly resumable?: boolean;
  /** Sorts errors into those worth another try and those that are not. @defaultValue by status; pass `classifyError` to have the errors of SDKs read in full */
  readonly classify?: Classify;
  /** Told of attempts, retries and results. @defaultValue none */
  readonly onEvent?: FlowSink;
  /** What events call it, as `instance`. @defaultValue a number of its own */
  readonly name?: string;
  /** What its errors and events say they come from, for a pipeline of your own. @defaultValue 'policy' */
  readonly operator?: string;
  /** Clock and timers. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Source of jitter, 0 to 1. @defaultValue `Math.random` */
  readonly random?: () => number;
}

/**
 * What is different for one call.
 * @stable
 */
export interface PolicyCallOptions {
  /** Ends the call with the signal's reason. */
  readonly signal?: AbortSignal;
  /** Fields of the policy's `job` that are different for this call. */
  readonly job?: LimiterJob;
  /** @defaultValue what the policy says */
  readonly guard?: PolicyGuard;
  /** @defaultValue what the policy says */
  readonly idempotent?: boolean;
  /** @defaultValue what the policy says */
  readonly deadlineMs?: number;
  /** What events call it, as `batchId`. @defaultValue a number of its own */
  readonly id?: string;
}

/**
 * Wraps work; a number in place of the options, as `map` passes along, tells nothing.
 * @stable
 */
export type Policy<F = never> = <R, W = never>(
  work: PolicyWork<R> | ((context: PolicyContext) => W),
  call?: PolicyCallOptions | number,
) => Observable<WorkOutcome<R, W> | F>;

const NAME = 'policy';

/**
 * Everything that makes a call survive a bad minute of its backend, in one wrapper, so that the order is always the right one:
 * fallback > deadline > retry > limiter > guard > breaker > attempt timeout > work.
 *
 * ```text marbles/policy
 *         policy({ retry: retryFailed({ delayMs: 2, jitter: 'none' }) })(call)
 * first   -#
 * second     -#
 * third           -(c|)
 * result  ---------(c|)
 *         # = Error: status 503
 * ```
 *
 * - **Emits when** the work does: values are handed on as they come.
 * - **Tries again** with `retryFailed()` what failed as `throttled`, `transient` or `timeout`, until `maxAttempts` (the first included) are used up.
 *   Never what was cancelled, what has emitted its first value already (unless it is `resumable`), or, with `idempotent: false`, what has timed out.
 * - **Waits** between attempts without a slot or a permit; every attempt takes a fresh one. A wait the other side asked for (`retry-after`)
 *   pauses the limiter for all calls. All calls of one policy share what may be retried: with `maxShare: 0.2` at a time at most 3 of them, or 20 %, try again.
 * - **Holds at most** nothing; what waits for a permit waits in the limiter.
 * - **Completes when** the work does.
 * - **Errors when** there are no more attempts, with the last error as the same object; when the breaker is open (`BreakerOpenError`, never retried); at
 *   the deadline, or as soon as the next pause would go beyond it (`DeadlineError`, its `cause` the last error). A `fallback` is asked first.
 * - **On unsubscribe** the signal aborts, the permit or the place in the queue is given back, timers are cleared; no failure is counted.
 *
 * The breaker is asked before each attempt, behind the queue, and hears the outcome of each, but not of one that the deadline cut off. When the circuit
 * opens, calls that wait fail at once, or with `whenOpen: 'wait'` leave the queue until it lets calls through. Subscribing again is a new call.
 *
 * Source: the order is Polly's; full jitter and the share of retries as in `batchMap`.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range; what it returns throws it for work
 *   that is no function and for options of a call.
 * @example
 * ```ts
 * import { of, throwError } from 'rxjs';
 * import { policy, retryFailed } from 'sluice/operators';
 *
 * const careful = policy({ retry: retryFailed({ delayMs: 0 }), fallback: () => of('from the cache') });
 * const seen: string[] = [];
 * careful(() => of('answer')).subscribe((answer) => seen.push(answer));
 * careful(() => throwError(() => ({ status: 401 }))).subscribe((answer) => seen.push(answer));
 * seen; // => ['answer', 'from the cache']
 * ```
 * @see {@link batchMap} which does all this for batches, and takes failed ones apart.
 * @see {@link createBreaker} and {@link createLimiter} for what calls to one backend share.
 */
export function policy<F = never, W = never>(options?: PolicyOptions<F, W>): Policy<WorkOutcome<F, W>>;
export function policy<F = never>(options: PolicyOptions<F> = {}): Policy<F> {
  const operator = nonEmpty(NAME, 'operator', orDefault((Object(options) as PolicyOptions).operator, NAME));
  const read = readOptions(operator, options);
  const gate = read.breaker && new BreakerGate(read.breaker, read.scheduler);
  const load: PolicyLoad = { calls: 0, active: 0, retrying: 0, executing: 0, isStarting: false, refusals: new Refusals() };
  const rules = { ...read, operator, gate, asksInside: undefined, load };
  const hedges = read.hedge?.hedged(rules);
  // The attempts of a hedge have their permits and timeouts to themselves.
  const asksInside = hedges && ((error: unknown) => hedges.isRefusal(error));
  const hedged = { ...rules, limiter: undefined, timeoutMs: Infinity, silenceMs: Infinity, asksInside };
  const signals = new AbortCalls();

  return (<R>(work: PolicyWork<R>, call?: PolicyCallOptions | number) => {
    requiredFunction(operator, 'work', work);
    const given = callOptions(operator, call, rules.limiter);
    const { signal, idempotent = rules.idempotent, deadlineMs = rules.deadlineMs, guard = rules.guard } = given;
    const job = given.job && rules.job ? { ...rules.job, ...given.job } : (given.job ?? rules.job);
    const lane = job?.lane ?? DEFAULT_LANE;
    return new Observable<R | F>((subscriber) => {
      if (signal) {
        signals.stop(signal, subscriber, (reason) => {
          subscriber.error(reason);
        });
        if (subscriber.closed) return;
      }
      const index = load.calls++;
      const own = { deadlineMs, guard, job, idempotent, index, id: given.id ?? `p${index}`, lane };
      if (hedges?.lanes.has(lane)) new PolicyCall<R, F>(hedged, own, hedges.work(work, own), subscriber).start();
      else new PolicyCall<R, F>(rules, own, work, subscriber).start();
    });
  }) as Policy<F>;
}

function readOptions<F>(operator: string, options: PolicyOptions<F>) {
  const read = checked(
    operator,
    options,
    { ...POLICY, classify: classifyByStatus, random: Math.random },
    {
      fallback: callback,
      deadlineMs: durationMs,
      breaker: madeBy<Breaker | undefined>('trip', 'a breaker made by createBreaker', undefined),
      whenOpen: oneOf('fail', 'wait'),
      retry: madeBy<PolicyOptions['retry']>('failed', '`retryFailed({ … })`', undefined),
      guard: callback,
      limiter: unchecked,
      job: unchecked,
      hedge: madeBy<HedgeRule | undefined>('hedged', '`hedging({ … })`', undefined),
      timeoutMs: positive,
      silenceMs: positive,
      operator: unchecked,
      idempotent: flag,
      resumable: flag,
      classify: requiredFunction,
      ...EVENT_CHECKS,
      scheduler: schedulerOption,
      random: requiredFunction,
    },
  );
  const job = jobOption(operator, read.job, limiterOption(operator, 'limiter', read.limiter));
  return { ...read, job, tell: teller(operator, read, () => read.scheduler.now()) };
}

function callOptions(operator: string, call: PolicyCallOptions | number | undefined, permits: object | undefined): PolicyCallOptions {
  if (call === undefined || typeof call === 'number') return {};
  onlyKnown(operator, call, ['signal', 'job', 'idempotent', 'deadlineMs', 'id', 'guard'], 'call');
  const { signal, job, idempotent, deadlineMs, id, guard } = call;
  if (signal !== undefined) requiredSignal(operator, 'signal', signal);
  const own = jobOption(operator, job, permits);
  callback(operator, 'guard', guard);
  if (idempotent !== undefined) flag(operator, 'idempotent', idempotent);
  if (deadlineMs !== undefined) durationMs(operator, 'deadlineMs', deadlineMs);
  if (id !== undefined) nonEmpty(operator, 'id', id);
  return own ? { ...call, job: own } : call;
}

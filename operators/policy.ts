import type { SchedulerLike } from 'rxjs';
import { Observable } from 'rxjs';
import { classifyByStatus } from './kernel/repair/classify-by-status.js';
import { Refusals } from './kernel/repair/refusals.js';
import type { RepairRule } from './kernel/repair/rule.js';
import type { Breaker } from './options/breaker.js';
import type { FlowSink } from './options/events.js';
import { EVENT_CHECKS, teller } from './options/events.js';
import { DEFAULT_LANE } from './options/lanes.js';
import type { Limiter, LimiterJob } from './options/limiter.js';
import { jobOption, limiterOption } from './options/limiter-option.js';
import { callback, checked, durationMs, flag, madeBy, oneOf, onlyKnown, positive, requiredFunction, unchecked } from './options/options.js';
import type { Classify, WorkOutcome } from './options/types.js';
import { requiredSignal } from './shell/abort.js';
import { schedulerOption } from './shell/alarm.js';
import { BreakerGate } from './shell/breaker-gate.js';
import { PolicyCall } from './shell/policy-call.js';
import type { AttemptWork, Fallback, FallbackContext, PermitSource, PolicyContext, PolicyLoad, PolicyWork } from './shell/policy-rules.js';
import { AbortCalls } from './shell/signal-groups.js';

export type {
  AttemptContext,
  AttemptWork,
  Fallback,
  FallbackContext,
  PermitSource,
  PolicyContext,
  PolicyWork,
} from './shell/policy-rules.js';

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
  readonly retry?: RepairRule;
  /** Every attempt takes a permit of its own. @defaultValue none */
  readonly limiter?: Limiter;
  /** What each attempt takes from the `limiter`. @defaultValue one request in the last lane */
  readonly job?: LimiterJob;
  /** Longest single attempt from its permit to its end, in ms; its signal aborts and it counts as `timeout`. @defaultValue 30000 */
  readonly timeoutMs?: number;
  /** Whether an attempt that timed out may be made again: it may have had its effect. @defaultValue true */
  readonly idempotent?: boolean;
  /** Sorts errors into those worth another try and those that are not. @defaultValue by status; pass `classifyError` to have the errors of SDKs read in full */
  readonly classify?: Classify;
  /** Told of attempts, retries and results. @defaultValue none */
  readonly onEvent?: FlowSink;
  /** What events call it, as `instance`. @defaultValue a number of its own */
  readonly name?: string;
  /** Clock and timers. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Source of jitter, 0 to 1. @defaultValue `Math.random` */
  readonly random?: () => number;
}

/** What is different for one call. */
export interface PolicyCallOptions {
  /** Ends the call with the signal's reason. */
  readonly signal?: AbortSignal;
  /** Fields of the policy's `job` that are different for this call. */
  readonly job?: LimiterJob;
  /** @defaultValue what the policy says */
  readonly idempotent?: boolean;
}

/** Wraps work; a number in place of the options, as `map` passes along, tells nothing. */
export type Policy<F = never> = <R, W = never>(
  work: PolicyWork<R> | ((context: PolicyContext) => W),
  call?: PolicyCallOptions | number,
) => Observable<WorkOutcome<R, W> | F>;

/** The same for work that is part of this package; events call it `id`. */
export type AttemptPolicy<F = never> = <R>(work: AttemptWork<R>, call?: PolicyCallOptions | number, id?: string) => Observable<R | F>;

const NAME = 'policy';

/**
 * Everything that makes a call survive a bad minute of its backend, in one wrapper, so that the order is always the right one:
 * fallback > deadline > retry > limiter > breaker > attempt timeout > work.
 *
 * ```text marbles/policy
 *         policy({ retry: retryFailed({ initialMs: 2, jitter: 'none' }) })(call)
 * first   -#
 * second     -#
 * third           -(c|)
 * result  ---------(c|)
 *         # = Error: status 503
 * ```
 *
 * - **Emits when** the work does: values are handed on as they come.
 * - **Tries again** with `retryFailed()` what failed as `throttled`, `transient` or `timeout`, until `maxAttempts` (the first included) are used up.
 *   Never what was cancelled, what has shown its first value already, or, with `idempotent: false`, what has timed out.
 * - **Waits** between attempts without a slot or a permit; every attempt takes a fresh one. A wait the other side asked for (`retry-after`)
 *   pauses the limiter for everybody. All calls of one policy share what may be retried: with `maxShare: 0.2` at a time at most 3 of them, or 20 %, try again.
 * - **Holds at most** nothing; what waits for a permit waits in the limiter.
 * - **Completes when** the work does.
 * - **Errors when** there are no more attempts, with the last error as the same object; when the breaker is open (`BreakerOpenError`, never retried); at
 *   the deadline, or as soon as the next pause would go beyond it (`DeadlineError`, its `cause` the last error). A `fallback` is asked first.
 * - **On unsubscribe** the signal aborts, the permit or the place in the queue is given back, timers are cleared; nobody counts a failure.
 *
 * The breaker is asked before each attempt, behind the queue, and hears the outcome of each, but not of one that the deadline cut off. When the circuit
 * opens, calls that wait fail at once, or with `whenOpen: 'wait'` leave the queue until it lets calls through. Subscribing again is a new call.
 *
 * Source: the order is Polly's; full jitter and the share of retries as in `batchMap`.
 *
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range; what it returns throws it for work
 *   that is no function and for options of a call.
 * @example
 * ```ts
 * import { of, throwError } from 'rxjs';
 * import { policy, retryFailed } from 'sluice/operators';
 *
 * const careful = policy({ retry: retryFailed({ initialMs: 0 }), fallback: () => of('from the cache') });
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
  const made = policyOf(NAME, options);
  // `mergeMap` and its like pass more along.
  return (<R>(work: PolicyWork<R>, call?: PolicyCallOptions | number) => made(work, call)) as Policy<F>;
}

/**
 * A policy inside something else, under whose name it raises errors and tells events; its work may hear of the abort without a signal.
 *
 * @param permits - where attempts get their permits, and the only one who reads a call's `job`; the `limiter` of the options, unless something else is given
 * @param asksInside - for work that asks the `breaker` under permits of its own: whether an error is a refusal by it
 */
export function policyOf<F = never>(
  operator: string,
  options: PolicyOptions<F>,
  permits?: PermitSource,
  asksInside?: (error: unknown) => boolean,
): AttemptPolicy<F> {
  const read = readOptions(operator, options);
  const gate = read.breaker && new BreakerGate(read.breaker, read.scheduler);
  const rules = { ...read, limiter: permits ?? read.limiter, gate, asksInside };
  const load: PolicyLoad = { calls: 0, active: 0, retrying: 0, executing: 0, refusals: new Refusals() };
  const signals = new AbortCalls();

  return <R>(work: AttemptWork<R>, call?: PolicyCallOptions | number, id?: string) => {
    requiredFunction(operator, 'work', work);
    const { signal, job, idempotent } = callOptions(operator, call, rules.limiter);
    const lane = job?.lane ?? rules.job?.lane ?? DEFAULT_LANE;
    const own = { job: job ? { ...rules.job, ...job } : rules.job, idempotent: idempotent ?? rules.idempotent, lane, load };
    return new Observable<R | F>((subscriber) => {
      if (signal) {
        signals.stop(signal, subscriber, (reason) => {
          subscriber.error(reason);
        });
        if (subscriber.closed) return;
      }
      new PolicyCall<R, F>({ operator, ...rules, ...own, id: id ?? `p${load.calls++}` }, work, subscriber).start();
    });
  };
}

function readOptions<F>(operator: string, options: PolicyOptions<F>) {
  const read = checked(
    operator,
    options,
    { deadlineMs: Infinity, timeoutMs: 30_000, idempotent: true, whenOpen: 'fail', classify: classifyByStatus, random: Math.random },
    {
      fallback: callback,
      deadlineMs: durationMs,
      breaker: madeBy<Breaker | undefined>('trip', 'a breaker made by createBreaker', undefined),
      whenOpen: oneOf('fail', 'wait'),
      retry: madeBy<RepairRule | undefined>('failed', '`retryFailed({ … })`', undefined),
      limiter: unchecked,
      job: unchecked,
      timeoutMs: positive,
      idempotent: flag,
      classify: requiredFunction,
      ...EVENT_CHECKS,
      scheduler: schedulerOption,
      random: requiredFunction,
    },
  );
  const job = jobOption(operator, read.job, limiterOption(operator, read.limiter));
  return { ...read, job, tell: teller(operator, read, () => read.scheduler.now()) };
}

function callOptions(operator: string, call: PolicyCallOptions | number | undefined, permits: object | undefined): PolicyCallOptions {
  if (call === undefined || typeof call === 'number') return {};
  onlyKnown(operator, call, ['signal', 'job', 'idempotent'], 'call');
  const { signal, job, idempotent } = call;
  if (signal !== undefined) requiredSignal(operator, 'signal', signal);
  const own = jobOption(operator, job, permits);
  if (idempotent !== undefined) flag(operator, 'idempotent', idempotent);
  return own ? { ...call, job: own } : call;
}

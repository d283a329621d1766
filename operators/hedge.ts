import type { SchedulerLike, Subscriber } from 'rxjs';
import { EMPTY, Observable, Subscription } from 'rxjs';
import { captureContext } from '#async-context';
import { boundedHintMs } from './kernel/limits/headers.js';
import { isWithinShare } from './kernel/repair/backoff.js';
import { classifyByStatus } from './kernel/repair/classify-by-status.js';
import { isAmount, unusable } from './options/answers.js';
import { ask, verdictOf } from './options/ask.js';
import { HEDGE } from './options/defaults.js';
import type { FlowSink } from './options/events.js';
import { EVENT_CHECKS, teller } from './options/events.js';
import { DEFAULT_LANE } from './options/lanes.js';
import type { Lease, Limiter, LimiterJob } from './options/limiter.js';
import { jobOption, limiterOption } from './options/limiter-option.js';
import { check, checked, delayOption, optional, positive, requiredFunction, unchecked } from './options/options.js';
import type { Classify, ErrorClass, Verdict, WorkOutcome, WorkResult } from './options/types.js';
import type { CallOwner } from './shell/calls/owned-call.js';
import { OwnedCall } from './shell/calls/owned-call.js';
import type { PermittedRun } from './shell/policy/guarded-permits.js';
import { HedgeStats } from './shell/policy/hedge-stats.js';
import { trampoline } from './shell/streams/trampoline.js';
import { schedulerOption } from './shell/time/alarm.js';
import { after } from './shell/time/timer.js';

/** For tests. @internal */
export { HedgeStats };

const NAME = 'hedge';

/** Context of one attempt of a hedged call. */
export interface HedgeContext {
  /** Aborts when another attempt has won, a fatal error has ended the call, or the subscriber has left; not once it has answered. */
  readonly signal: AbortSignal;
  /** The attempt's own permit, with a `limiter`; it is released when the attempt ends. */
  readonly lease: Lease | undefined;
}

export type HedgeAttempt<R> = (attempt: number, context: HedgeContext) => WorkResult<R>;

/** @beta */
export interface HedgeOptions {
  /**
   * How long an attempt may be silent before the next one is started, in ms; a function is asked anew each time. 0 = all at once,
   * Infinity = only after a failure. @defaultValue the 95th percentile of the last 100 times, at least 50 ms
   */
  readonly delayMs?: number | (() => number);
  /** Most attempts, the first included; a finite whole number. @defaultValue 2 */
  readonly maxAttempts?: number;
  /** Every attempt takes a permit of its own. A hedge that gets none is left out. @defaultValue none */
  readonly limiter?: Limiter;
  /** What each attempt takes from the `limiter`. @defaultValue one request in the last lane */
  readonly job?: LimiterJob;
  /** Most hedges at a time as a share of the calls under way, never less than 3. @defaultValue Infinity */
  readonly maxShare?: number;
  /** Sorts errors into those that end the call, those that stop hedging, and the rest. @defaultValue by status; pass `classifyError` to have the errors of SDKs read in full */
  readonly classify?: Classify;
  /** Clock and timer. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Listener for every hedge (`hedged`) and for cancelled attempts (`cancelled`). @defaultValue none */
  readonly onEvent?: FlowSink;
  /** What events call it, as `instance`. @defaultValue a number of its own */
  readonly name?: string;
}

/** The least the default delay may be: below it, the noise of an ordinary call would be hedged. */
const LEAST_DELAY_MS = 50;

/**
 * Makes a call, and makes it again while the first attempt is slow: the first to answer wins, the others are aborted.
 *
 * ```text marbles/hedge
 *         hedge(call, { delayMs: 4 })
 * first   -------!
 * second      ---(b|)
 * result  -------(b|)
 * ```
 *
 * - **Emits when** the first attempt to say anything does; from then on this attempt's values are the result.
 * - **Holds at most** nothing.
 * - **Completes when** the winning attempt completes. One that ends without a value has won as well.
 * - **Errors when** every attempt has failed, with the first attempt's error; at once with an error that `classify` calls `fatal`; with
 *   the winner's own error after its first value; with `CallbackError` when `delayMs` or `classify` throws or answers nonsense.
 * - **On unsubscribe** every attempt's signal aborts, waiting permits are given back and the timer is cleared. The signal of a promise that
 *   has answered stays as it is: the answer may be a body that is still to be read.
 *
 * Promises, Observables, async iterables and streams are awaited; anything else that `attempt` returns is the answer. All attempts begin in the
 * asynchronous context of the subscriber.
 *
 * An attempt that fails (`transient`, `timeout`, `itemFault`) brings the next one forward; after `throttled`, `tooLarge`, `contract` and
 * `cancelled` no more are started, but those under way may still win. When several attempts have failed, the first one's error carries
 * all of them as `errors`, in order, unless it has such a field already; a fatal error carries none. The delay runs from when an attempt
 * is really sent: waiting for a permit is no reason to hedge.
 *
 * The subscriptions of one `hedge(…)` share what is learned: the last 100 times, how many calls and hedges are under way, and a pause that the backend
 * asks for.
 *
 * Hedging multiplies the load where the backend is slow: it is for calls that may be made twice, few `maxAttempts` and a `maxShare`.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { NEVER, of } from 'rxjs';
 * import { hedge } from 'sluice/operators';
 *
 * const seen: string[] = [];
 * const ask = (attempt: number) => (attempt === 0 ? NEVER : of(`answer of attempt ${attempt}`));
 * hedge(ask, { delayMs: 0 }).subscribe((answer) => seen.push(answer));
 * seen; // => ['answer of attempt 1']
 * ```
 * @see {@link switchLatest} when a newer question should replace the old one.
 * @see {@link createLimiter} for the permits that attempts share with all other calls.
 */
export function hedge<R, W = never>(
  attempt: HedgeAttempt<R> | ((attempt: number, context: HedgeContext) => W),
  options?: HedgeOptions,
): Observable<WorkOutcome<R, W>>;
export function hedge<R>(attempt: HedgeAttempt<R>, options: HedgeOptions = {}): Observable<R> {
  return hedgeWith(new HedgeStats(), requiredFunction(NAME, 'attempt', attempt), options);
}

/**
 * A hedge that shares `stats` with others. Its attempts get their permits from `run`, if given: they may be refused there. `hedged` is called in place of
 * the event, before an attempt after the first.
 */
export function hedgeWith<R>(
  stats: HedgeStats,
  attempt: HedgeAttempt<R>,
  options: HedgeOptions,
  run?: PermittedRun,
  hedged?: (attempt: number, afterMs: number) => void,
): Observable<R> {
  const settings = { ...readOptions(options), stats, hedged };
  return new Observable((subscriber) => {
    hedgeInto(attempt, settings, subscriber, run);
  });
}

type Settings = ReturnType<typeof readOptions> & {
  readonly stats: HedgeStats;
  readonly hedged: ((attempt: number, afterMs: number) => void) | undefined;
};

function readOptions(options: HedgeOptions) {
  const settings = checked(
    NAME,
    options,
    { ...HEDGE, classify: classifyByStatus },
    {
      maxAttempts: attemptsOption,
      maxShare: positive,
      delayMs: optional(delayOption<number | (() => number)>),
      limiter: limiterOption,
      job: unchecked,
      classify: requiredFunction,
      scheduler: schedulerOption,
      ...EVENT_CHECKS,
    },
  );
  return { ...settings, job: jobOption(NAME, settings.job, settings.limiter) };
}

const attemptsOption = /* @__PURE__ */ check<number>('a whole number >= 1', (value: number) => Number.isSafeInteger(value) && value >= 1);

/** After these errors another attempt would fare no better, or do harm. */
const NO_MORE: readonly ErrorClass[] = ['throttled', 'tooLarge', 'contract', 'cancelled'];

/** One hedged call. */
function hedgeInto<R>(work: HedgeAttempt<R>, settings: Settings, to: Subscriber<R>, run?: PermittedRun): void {
  const { delayMs, maxAttempts, stats, hedged, maxShare, limiter, job, classify, scheduler } = settings;
  const permitted: PermittedRun | undefined = run ?? (limiter && ((permittedWork, its) => limiter.run(permittedWork, its)));
  const now = (): number => scheduler.now();
  const tell = teller(NAME, settings, now);
  /** Attempts begin one after the other, so that work which fails at once does not recurse. */
  const enqueue = trampoline(to, end);
  /** The subscriber's context: attempts begin in timers, and inside other callers' releases of a permit. */
  const context = captureContext();
  const attempts: Attempt<R>[] = [];
  /** Whether another attempt may be started at all. */
  let mayHedge = true;
  let timer = Subscription.EMPTY;
  let winner: Attempt<R> | undefined;

  const owner: CallOwner<Attempt<R>, R> = {
    work: (attempt) => (permitted ? permitted((context) => begin(attempt, context), job) : begin(attempt, attempt)),
    got: (attempt, value) => {
      if (attempt.isOver) return;
      win(attempt);
      to.next(value);
    },
    done: (attempt) => {
      if (attempt.isOver) return;
      // Over first: a listener that is told of the losers may unsubscribe, and this attempt must not be cancelled then.
      over(attempt);
      win(attempt);
      to.complete();
    },
    failed: (attempt, error) => {
      if (attempt.isOver) return;
      over(attempt);
      if (attempt === winner) end(error);
      // The limiter has no room for a hedge. That says nothing about the call.
      else if (attempt.startedAt === undefined && attempt.index > 0) goOn(false);
      else judge(attempt, error);
    },
  };

  stats.calling++;
  to.add(() => {
    stats.calling--;
    giveUp();
  });
  next();

  /** Makes another attempt, unless that was the last one. */
  function next(): void {
    timer.unsubscribe();
    enqueue(start);
    if (attempts.some(({ isOver }) => !isOver) || winner || to.closed || enqueue.isBusy) return;
    const errors = attempts.flatMap(({ broke }) => (broke ? [broke.error] : []));
    end(withOthers(errors));
  }

  function goOn(isWorthIt: boolean): void {
    mayHedge &&= isWorthIt;
    next();
  }

  /** @throws CallbackError of `delayMs` */
  function start(): void {
    if (!mayHedge) return;
    const index = attempts.length;
    mayHedge = index + 1 < maxAttempts;
    const patienceMs = mayHedge ? patience() : Infinity;
    // The rule for the delay may have made the consumer leave.
    if (to.closed) return;
    const [first] = attempts;
    if (first && (now() < stats.pausedUntil || !isWithinShare(stats.hedging, stats.calling, maxShare))) {
      mayHedge = false;
      return;
    }
    const attempt = new Attempt<R>(owner, index, patienceMs);
    attempts.push(attempt);
    if (first) {
      stats.hedging++;
      const afterMs = first.startedAt === undefined ? 0 : Math.max(0, now() - first.startedAt);
      if (hedged) hedged(index, afterMs);
      else tell?.({ type: 'hedged', lane: DEFAULT_LANE, attempt: index, afterMs });
    }
    // A listener may have made the consumer leave, or another attempt answer.
    if (!attempt.isOver) attempt.begin(context);
  }

  /** The work of an attempt; the next one's time runs from here, not from when it joined the queue of the limiter. */
  function begin(attempt: Attempt<R>, permitted: HedgeContext): WorkResult<R> {
    if (!attempt.isOver) {
      attempt.startedAt = now();
      if (mayHedge && attempt.patienceMs === 0) next();
      else if (mayHedge) {
        timer.unsubscribe();
        timer = after(scheduler, attempt.patienceMs, next);
      }
    }
    // The permit came while the attempt was being cancelled, or `delayMs` made the consumer leave.
    return attempt.isOver ? EMPTY : work(attempt.index, permitted);
  }

  function patience(): number {
    if (delayMs === undefined) return Math.max(LEAST_DELAY_MS, stats.p95Ms);
    if (typeof delayMs === 'number') return delayMs;
    const answer: unknown = ask(NAME, 'delayMs', delayMs);
    if (isAmount(answer)) return answer;
    throw unusable(NAME, 'delayMs', 'a number >= 0', answer);
  }

  function judge(attempt: Attempt<R>, error: unknown): void {
    attempt.broke = { error };
    let verdict: Verdict;
    try {
      verdict = verdictOf(NAME, classify, error, { size: 1, attempt: 1, aborted: false });
    } catch (thrown) {
      end(thrown);
      return;
    }
    // Another attempt won while the classifier ran, or the subscriber left.
    if (winner || to.closed) return;
    const { class: found, retryAfterMs, isTierOnly } = verdict;
    if (found === 'throttled' && retryAfterMs && !isTierOnly) {
      limiter?.penalize(boundedHintMs(retryAfterMs, tell));
      // Without a limiter, no call asks a second time meanwhile.
      stats.pausedUntil = Math.max(stats.pausedUntil, now() + boundedHintMs(retryAfterMs));
    }
    if (found === 'fatal') end(error);
    else goOn(!NO_MORE.includes(found));
  }

  /** The first to say something has won. */
  function win(attempt: Attempt<R>): void {
    if (winner) return;
    winner = attempt;
    for (const one of attempts.slice(0, attempt.index + 1)) {
      // An older attempt that is still silent would have taken at least as long: leaving it out would make the delay ever shorter.
      if ((one === attempt || !one.isOver) && one.startedAt !== undefined) stats.record(Math.max(0, now() - one.startedAt));
    }
    giveUp(attempt);
  }

  /** Over before the consumer gets the error: a permit that the consumer frees then starts no further attempt. */
  function end(error: unknown): void {
    giveUp();
    to.error(error);
  }

  function giveUp(kept?: Attempt<R>): void {
    mayHedge = false;
    timer.unsubscribe();
    const losers = attempts.filter((attempt) => attempt !== kept && !attempt.isOver);
    for (const attempt of losers) over(attempt);
    // An attempt that has answered already is not counted as cancelled.
    const count = losers.filter((attempt) => attempt.isOpen).length;
    if (count > 0) tell?.({ type: 'cancelled', lane: DEFAULT_LANE, count });
    for (const attempt of losers) attempt.stop();
  }

  /** Once for each attempt. */
  function over(attempt: Attempt<R>): void {
    attempt.isOver = true;
    if (attempt.index > 0) stats.hedging--;
  }
}

/** The first error as it is, with all of them as `errors` when there are more and it can carry them. */
function withOthers(errors: readonly unknown[]): unknown {
  const [first] = errors;
  try {
    if (errors.length > 1 && typeof first === 'object' && first !== null && Object.isExtensible(first) && !('errors' in first)) {
      Object.defineProperty(first, 'errors', { value: errors, configurable: true });
    }
  } catch {
    // A revoked proxy, or one that forbids writing.
  }
  return first;
}

/** One attempt; also the context of its work, without a limiter. */
class Attempt<R> extends OwnedCall<R> implements HedgeContext {
  readonly lease = undefined;
  /** Undefined until the work begins. */
  startedAt: number | undefined = undefined;
  broke: { readonly error: unknown } | undefined = undefined;
  /** Ended, or cancelled. */
  isOver = false;

  constructor(
    owner: CallOwner<Attempt<R>, R>,
    readonly index: number,
    /** How long it may be silent before the next one is started, in ms. */
    readonly patienceMs: number,
  ) {
    super(owner);
  }
}

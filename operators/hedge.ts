import type { SchedulerLike, Subscriber } from 'rxjs';
import { EMPTY, Observable } from 'rxjs';
import { captureContext } from '#async-context';
import { isWithinBudget } from './kernel/repair/backoff.js';
import { classifyByStatus } from './kernel/repair/classify-by-status.js';
import { isAmount, unusable } from './options/answers.js';
import { ask, verdictOf } from './options/ask.js';
import { FlowConfigError } from './options/errors.js';
import type { FlowSink, Note } from './options/events.js';
import { EVENT_CHECKS, teller } from './options/events.js';
import { DEFAULT_LANE } from './options/lanes.js';
import type { Lease, Limiter, LimiterJob } from './options/limiter.js';
import { jobOption, limiterOption } from './options/limiter-option.js';
import { check, checked, durationMs, madeBy, positive, requiredFunction, unchecked } from './options/options.js';
import type { Classify, ErrorClass, Verdict, WorkResult } from './options/types.js';
import { Alarm, schedulerOption } from './shell/alarm.js';
import { Call } from './shell/call.js';

const NAME = 'hedge';

/** What one attempt of a hedged call is told. */
export interface HedgeContext {
  /** Aborts when another attempt has won, a fatal error has ended the call, or nobody wants the result any more; not once it has answered. */
  readonly signal: AbortSignal;
  /** The attempt's own permit, with a `limiter`; it is released when the attempt ends. */
  readonly lease: Lease | undefined;
}

export type HedgeAttempt<R> = (attempt: number, context: HedgeContext) => WorkResult<R>;

export interface HedgeOptions {
  /**
   * How long an attempt may be silent before the next one is started, in ms; a function is asked anew each time. 0 = all at once,
   * Infinity = only after a failure. @defaultValue the 95th percentile of what `stats` has seen, at least 50 ms
   */
  readonly delayMs?: number | (() => number);
  /** Most attempts besides the first, a finite whole number. @defaultValue 1 */
  readonly maxHedges?: number;
  /** What calls to this backend have taken; share it between calls. @defaultValue one for this `hedge`, shared by its subscriptions */
  readonly stats?: HedgeStats;
  /** Every attempt takes a permit of its own. A hedge that gets none is left out. @defaultValue none */
  readonly limiter?: Limiter;
  /** What each attempt takes from the `limiter`. @defaultValue one request in the last lane */
  readonly job?: LimiterJob;
  /** Most hedges at a time as a share of the calls under way in `stats`, never less than 3. @defaultValue Infinity */
  readonly budget?: number;
  /** Sorts errors into those that end the call, those that stop hedging, and the rest. @defaultValue by status; pass `classifyError` to have the errors of SDKs read in full */
  readonly classify?: Classify;
  /** Clock and timer. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Told of every hedge (`hedged`) and of attempts given up (`cancelled`). @defaultValue none */
  readonly onEvent?: FlowSink;
  /** What events call it, as `instance`. @defaultValue a number of its own */
  readonly name?: string;
}

/** Times remembered. */
const SIZE = 100;

/**
 * What calls to one backend have taken, for the delay and the budget of `hedge`. Give the same one to every `hedge` that calls the same
 * backend: the more it has seen, the better the default delay.
 *
 * @example
 * ```ts
 * import { HedgeStats } from 'sluice/operators';
 *
 * const stats = new HedgeStats();
 * for (let ms = 1; ms <= 200; ms++) stats.record(ms);
 * stats.p95Ms; // => 195
 * ```
 */
export class HedgeStats {
  readonly #times: number[] = [];
  /** Where the next time goes, once there are enough. */
  #next = 0;
  #hedging = 0;
  #calls = 0;

  /**
   * Remembers how long an attempt took, in ms; the last 100 count.
   *
   * @throws FlowConfigError when it is no finite number >= 0
   */
  record(latencyMs: number): void {
    if (!isAmount(latencyMs) || latencyMs === Infinity)
      throw new FlowConfigError('HedgeStats', 'latencyMs', 'a finite number of milliseconds >= 0', latencyMs);
    this.#times[this.#next] = latencyMs;
    this.#next = (this.#next + 1) % SIZE;
  }

  /** What 95 of 100 attempts did not exceed, in ms (nearest rank); 0 before the first. */
  get p95Ms(): number {
    const sorted = [...this.#times].sort((a, b) => a - b);
    return sorted[Math.ceil(sorted.length * 0.95) - 1] ?? 0;
  }

  /** Hedges under way. */
  get hedging(): number {
    return this.#hedging;
  }

  /** Calls under way, each with all its attempts. */
  get calling(): number {
    return this.#calls;
  }

  /** Called by `hedge` when a call begins; the returned function tells that it is over. */
  begin(): () => void {
    this.#calls += 1;
    return () => {
      this.#calls -= 1;
    };
  }

  /** Called by `hedge`: takes one hedge when no more than `share` of the calls under way (and 3 in any case) are being hedged. */
  tryHedge(share: number): boolean {
    if (!isWithinBudget(this.#hedging, this.#calls, share)) return false;
    this.#hedging += 1;
    return true;
  }

  /** Called by `hedge` when a hedge is over. */
  endHedge(): void {
    this.#hedging -= 1;
  }
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
 * Promises, Observables, async iterables and streams are awaited; anything else that `attempt` returns is the answer. All attempts begin
 * in the asynchronous context of whoever subscribed.
 *
 * An attempt that fails (`transient`, `timeout`, `itemFault`) brings the next one forward; after `throttled`, `tooLarge`, `contract` and
 * `cancelled` no more are started, but those under way may still win. When several attempts have failed, the first one's error carries
 * all of them as `errors`, in order, unless it has such a field already; a fatal error carries none. The delay runs from when an attempt
 * is really sent: waiting for a permit is no reason to hedge.
 *
 * Hedging multiplies the load where the backend is slow: it is for calls that may be made twice, a small `maxHedges` and a `budget`.
 *
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
 * @see {@link createLimiter} for the permits the attempts share with everybody else.
 */
export function hedge<R>(attempt: HedgeAttempt<R>, options: HedgeOptions = {}): Observable<R> {
  const settings = { attempt: requiredFunction(NAME, 'attempt', attempt), ...readOptions(options) };
  return new Observable((subscriber) => {
    const hedger = new Hedger<R>(settings, subscriber);
    subscriber.add(() => {
      hedger.stop();
    });
    hedger.run();
  });
}

type Settings<R> = ReturnType<typeof readOptions> & { readonly attempt: HedgeAttempt<R> };

function readOptions(options: HedgeOptions) {
  const { delayMs, ...settings } = checked(
    NAME,
    options,
    { maxHedges: 1, budget: Infinity, classify: classifyByStatus, stats: new HedgeStats() },
    {
      maxHedges: hedges,
      budget: positive,
      delayMs: (operator, option, value: HedgeOptions['delayMs']) =>
        value === undefined || typeof value === 'function' ? value : durationMs(operator, option, value),
      stats: madeBy<HedgeStats>('tryHedge', 'a HedgeStats'),
      limiter: (operator, _option, limiter: Limiter | undefined) => limiterOption(operator, limiter),
      job: unchecked,
      classify: requiredFunction,
      scheduler: schedulerOption,
      ...EVENT_CHECKS,
    },
  );
  const { job, limiter, stats } = settings;
  jobOption(NAME, job, limiter);
  return { ...settings, delayMs: delayRule(delayMs, stats) };
}

function delayRule(delayMs: HedgeOptions['delayMs'], stats: HedgeStats): () => number {
  if (delayMs === undefined) return () => Math.max(LEAST_DELAY_MS, stats.p95Ms);
  return typeof delayMs === 'function' ? delayMs : () => delayMs;
}

const hedges = /* @__PURE__ */ check<number>('a whole number >= 0', (value: number) => Number.isSafeInteger(value) && value >= 0);

/** After these errors another attempt would fare no better, or do harm. */
const NO_MORE: ReadonlySet<ErrorClass> = new Set<ErrorClass>(['throttled', 'tooLarge', 'contract', 'cancelled']);

/** One hedged call. Attempts are started by one loop, so that work which fails at once does not recurse. */
class Hedger<R> {
  readonly #settings: Settings<R>;
  readonly #tell: ((note: Note) => void) | undefined;
  readonly #to: Subscriber<R>;
  readonly #alarm: Alarm;
  /** Of whoever made the call: attempts begin in timers, and in calls of others that give a permit back. */
  readonly #context = captureContext();
  readonly #endCall: () => void;
  readonly #attempts: Attempt<R>[] = [];
  #running = 0;
  /** Whether another attempt may be started at all. */
  #mayHedge = true;
  /** Whether one is to be started now. */
  #due = true;
  #busy = false;
  #winner: Attempt<R> | undefined;

  constructor(settings: Settings<R>, to: Subscriber<R>) {
    this.#settings = settings;
    this.#to = to;
    this.#endCall = settings.stats.begin();
    this.#tell = teller(NAME, settings, () => this.#alarm.now());
    this.#alarm = new Alarm(settings.scheduler, () => {
      this.#due = true;
      this.run();
    });
  }

  /** Starts what is due, and fails when nothing is left to wait for. */
  run(): void {
    if (this.#busy) return;
    this.#busy = true;
    try {
      while (this.#due && this.#mayHedge && !this.#to.closed) this.#start();
    } catch (error) {
      this.#end(error);
    }
    this.#busy = false;
    if (this.#running === 0 && this.#winner === undefined && !this.#to.closed) this.#fail();
  }

  stop(): void {
    this.#endCall();
    this.#giveUp();
  }

  #giveUp(): void {
    this.#mayHedge = false;
    this.#alarm.clear();
    this.#cancelAllBut(undefined);
  }

  /** The attempt's work begins: the next one's time runs from here, not from when it joined the queue of the limiter. */
  began(attempt: Attempt<R>): void {
    attempt.startedAt = this.#alarm.now();
    if (!this.#mayHedge) return;
    if (attempt.patienceMs === 0) this.#due = true;
    else this.#alarm.set(attempt.startedAt + attempt.patienceMs);
    // A grant may come when the loop is long over.
    this.run();
  }

  value(attempt: Attempt<R>, value: R): void {
    this.#commit(attempt);
    this.#to.next(value);
  }

  done(attempt: Attempt<R>): void {
    // Over first: whoever hears of the losers may leave, and there is nothing of this one to give up.
    this.#over(attempt);
    this.#commit(attempt);
    this.#to.complete();
  }

  failed(attempt: Attempt<R>, error: unknown): void {
    this.#over(attempt);
    if (attempt === this.#winner) {
      this.#end(error);
      return;
    }
    const wasSent = attempt.startedAt !== undefined;
    if (!wasSent && attempt.index > 0) {
      // The limiter has no room for a hedge. That says nothing about the call.
      this.#mayHedge = false;
    } else {
      attempt.broke = { error };
      if (!this.#goesOnAfter(error)) return;
    }
    this.#alarm.clear();
    this.run();
  }

  /** Over before its consumer hears of the error: no permit that is freed there starts an attempt any more. */
  #end(error: unknown): void {
    this.#giveUp();
    this.#to.error(error);
  }

  /** False when the call has been ended by this error. */
  #goesOnAfter(error: unknown): boolean {
    let verdict: Verdict;
    try {
      verdict = verdictOf(NAME, this.#settings.classify, error, { size: 1, attempt: 1, aborted: false });
    } catch (thrown) {
      this.#end(thrown);
      return false;
    }
    // Another attempt has won while the classifier was asked, or nobody waits any more.
    if (this.#winner !== undefined || this.#to.closed) return false;
    if (verdict.class === 'fatal') {
      this.#end(error);
      return false;
    }
    const { retryAfterMs } = verdict;
    if (verdict.class === 'throttled' && retryAfterMs) this.#settings.limiter?.penalize(retryAfterMs);
    if (NO_MORE.has(verdict.class)) this.#mayHedge = false;
    else this.#due = true;
    return true;
  }

  /** @throws CallbackError of `delayMs` */
  #start(): void {
    const { maxHedges, stats, budget } = this.#settings;
    this.#due = false;
    const index = this.#attempts.length;
    const patienceMs = index < maxHedges ? this.#delayMs() : Infinity;
    // The rule for the delay may have made the consumer leave.
    if (this.#to.closed) return;
    const attempt = new Attempt<R>(this, index, patienceMs);
    this.#mayHedge = index < maxHedges;
    const [first] = this.#attempts;
    if (first !== undefined && !stats.tryHedge(budget)) {
      this.#mayHedge = false;
      return;
    }
    this.#attempts.push(attempt);
    this.#running += 1;
    if (first !== undefined) {
      const now = this.#alarm.now();
      const afterMs = now - (first.startedAt ?? now);
      this.#tell?.({ type: 'hedged', lane: DEFAULT_LANE, attempt: index, afterMs });
      // A listener may have made the consumer leave, or another attempt answer.
      if (attempt.over) return;
    }
    attempt.begin(this.#context);
  }

  /** Called by an attempt: makes it, with a permit of its own. */
  make(attempt: Attempt<R>): WorkResult<R> {
    const { limiter, job, attempt: work } = this.#settings;
    const begin = (context: HedgeContext): WorkResult<R> => {
      if (!attempt.over) this.began(attempt);
      // The permit came while it was being given up, or the rule for the next delay has made the consumer leave.
      return attempt.over ? EMPTY : work(attempt.index, context);
    };
    return limiter ? limiter.run(begin, job) : begin(attempt);
  }

  #delayMs(): number {
    const delayMs: unknown = ask(NAME, 'delayMs', this.#settings.delayMs);
    if (isAmount(delayMs)) return delayMs;
    throw unusable(NAME, 'delayMs', 'a number >= 0', delayMs);
  }

  /** The first to say something has won. */
  #commit(winner: Attempt<R>): void {
    if (this.#winner !== undefined) return;
    this.#winner = winner;
    this.#mayHedge = false;
    this.#alarm.clear();
    const now = this.#alarm.now();
    for (const attempt of this.#attempts.slice(0, winner.index + 1)) {
      // An older attempt that is still silent would have taken at least as long: leaving it out would make the delay ever shorter.
      if ((attempt === winner || !attempt.over) && attempt.startedAt !== undefined) this.#settings.stats.record(now - attempt.startedAt);
    }
    this.#cancelAllBut(winner);
  }

  #cancelAllBut(kept: Attempt<R> | undefined): void {
    const losers = this.#attempts.filter((attempt) => attempt !== kept && !attempt.over);
    for (const attempt of losers) this.#over(attempt);
    // Whoever leaves with an answer gives nothing up.
    const count = losers.filter((attempt) => !attempt.hasEnded).length;
    if (count > 0) this.#tell?.({ type: 'cancelled', lane: DEFAULT_LANE, count });
    for (const attempt of losers) attempt.stop();
  }

  /** Once for each attempt. */
  #over(attempt: Attempt<R>): void {
    attempt.over = true;
    this.#running -= 1;
    if (attempt.index > 0) this.#settings.stats.endHedge();
  }

  #fail(): void {
    const errors = this.#attempts.flatMap(({ broke }) => (broke === undefined ? [] : [broke.error]));
    this.#end(withOthers(errors));
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
    // A proxy that is gone, or lets nobody write.
  }
  return first;
}

/** One attempt: what its work is told, and what hears of its end. */
class Attempt<R> extends Call<R> implements HedgeContext {
  readonly lease = undefined;
  /** Undefined until the work begins. */
  startedAt: number | undefined = undefined;
  broke: { readonly error: unknown } | undefined = undefined;
  over = false;

  constructor(
    readonly hedger: Hedger<R>,
    readonly index: number,
    /** How long it may be silent before the next one is started, in ms. */
    readonly patienceMs: number,
  ) {
    super();
  }

  work(): WorkResult<R> {
    return this.hedger.make(this);
  }

  override got(value: R): void {
    if (!this.over) this.hedger.value(this, value);
  }

  done(): void {
    if (!this.over) this.hedger.done(this);
  }

  failed(error: unknown): void {
    if (!this.over) this.hedger.failed(this, error);
  }
}

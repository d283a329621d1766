import type { SchedulerLike } from 'rxjs';
import { Observable } from 'rxjs';
import { classifyError } from './classify-error.js';
import { FlowConfigError } from './options/errors.js';
import type { FlowSink } from './options/events.js';
import { listener } from './options/events.js';
import { asGiven, checked, durationMs, positive, required } from './options/options.js';
import type { Classify } from './options/types.js';
import { schedulerOption } from './shell/alarm.js';
import { jobOption, limiterOption } from './support/limiting/limiter-option.js';
import type { Limiter, LimiterJob } from './support/limiting/limiter-types.js';
import { HedgeStats } from './support/racing/hedge-stats.js';
import type { HedgeAttempt } from './support/racing/hedger.js';
import { Hedger } from './support/racing/hedger.js';

export { HedgeStats } from './support/racing/hedge-stats.js';
export type { HedgeAttempt, HedgeContext } from './support/racing/hedger.js';

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
  /** Sorts errors into those that end the call, those that stop hedging, and the rest. @defaultValue `classifyError` */
  readonly classify?: Classify;
  /** Clock and timer. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Told of every hedge (`hedged`) and of attempts given up (`cancelled`). @defaultValue none */
  readonly onEvent?: FlowSink;
}

/** What {@link hedge} does when an option is left out. */
export const HEDGE_DEFAULTS = { maxHedges: 1, budget: Infinity } as const;

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
 * all of them as `errors`, in order, unless it has such a field already. The delay runs from when an attempt is really sent: waiting for
 * a permit is no reason to hedge.
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
  const settings = { attempt: required('hedge', 'attempt', attempt), ...readOptions(options) };
  return new Observable((subscriber) => {
    const hedger = new Hedger<R>(settings, subscriber);
    subscriber.add(() => {
      hedger.stop();
    });
    hedger.run();
  });
}

function readOptions(options: HedgeOptions) {
  const { delayMs, ...settings } = checked(
    'hedge',
    options,
    { ...HEDGE_DEFAULTS, classify: classifyError, stats: new HedgeStats() },
    {
      maxHedges: hedges,
      budget: positive,
      delayMs: (operator, option, value: HedgeOptions['delayMs']) =>
        value === undefined || typeof value === 'function' ? value : durationMs(operator, option, value),
      stats: isStats,
      limiter: (operator, _option, limiter: Limiter | undefined) => limiterOption(operator, limiter),
      job: asGiven,
      classify: required,
      scheduler: schedulerOption,
      onEvent: listener,
    },
  );
  const { job, limiter, stats } = settings;
  jobOption('hedge', job, limiter);
  return { ...settings, delayMs: delayRule(delayMs, stats) };
}

function isStats(operator: string, option: string, stats: HedgeStats | null): HedgeStats {
  if (typeof stats?.tryHedge === 'function') return stats;
  throw new FlowConfigError(operator, option, 'a HedgeStats', stats);
}

function delayRule(delayMs: HedgeOptions['delayMs'], stats: HedgeStats): () => number {
  if (delayMs === undefined) return () => Math.max(LEAST_DELAY_MS, stats.p95Ms);
  return typeof delayMs === 'function' ? delayMs : () => delayMs;
}

function hedges(operator: string, option: string, value: number): number {
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw new FlowConfigError(operator, option, 'a whole number >= 0', value);
}

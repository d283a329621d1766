import { Subscription } from 'rxjs';
import { classifyError } from './classify-error.js';
import type { LimitSample } from './kernel/limits/aimd.js';
import { Aimd } from './kernel/limits/aimd.js';
import { verdictOf } from './options/ask.js';
import { ADAPTIVE_LIMIT } from './options/defaults.js';
import type { Limiter, Release } from './options/limiter.js';
import { requiredLimiter } from './options/limiter-option.js';
import { checked, count, misused, requiredFunction } from './options/options.js';
import type { Classify, ErrorClass } from './options/types.js';
import { isOverloaded } from './shell/calls/error-evidence.js';
import { report } from './shell/calls/report.js';

/** @beta */
export interface AdaptiveLimitOptions {
  /** Fewest calls at a time. @defaultValue 1 */
  readonly min?: number;
  /** Most calls at a time. @defaultValue 64 */
  readonly max?: number;
  /** Sorts errors: `throttled`, `timeout`, and `transient` with status 503 or 529 mean that the backend had too much to do. @defaultValue `classifyError` */
  readonly classify?: Classify;
}

const DEFAULTS = /* @__PURE__ */ (() => ({ ...ADAPTIVE_LIMIT, classify: classifyError }))();
/** What an overloaded call leaves of the limit. Gentler than half, so around a backend that takes k calls the limit stays above 0.75 k. */
const BACKOFF_RATIO = 0.75;
/** Classes of errors that say "too many calls at a time". Of the `transient` ones only an overload does: a 500 has other causes. */
const OVERLOADS: readonly ErrorClass[] = ['throttled', 'timeout'];

/** Calls at a time to begin with, where `min` and `max` allow it. */
const INITIAL = 4;

const NAME = 'adaptiveLimit';

/**
 * Finds out how many calls at a time a backend takes, and keeps the limiter's `concurrency` there: one more while calls go well, a
 * quarter less when the backend says that it has too much to do.
 *
 * - **Sets** a limit of 4 at once, or the nearest that `min` and `max` allow, and then the limit after each call that changes it; nothing else of the limiter's limits.
 * - **One more** after as many good calls as the limit counts, made while at least half of it was in use. An unused limit does not grow.
 * - **A quarter less** after a call that was refused, timed out or met an overload (503, 529). Every call that had started by then is left out
 *   afterwards, so that a burst of refusals is one step.
 * - **Says nothing:** calls that were cancelled (but for promises that answer all the same) or never sent, other errors (a wrong item, a
 *   wrong key), and good calls that took no time.
 * - **On unsubscribe** it stops listening. The limit stays where it is.
 *
 * It learns from every permit that is released, by `batchMap`, `bulkheadMap`, `hedge`, `run` and every other user of the limiter. For a lease of
 * your own, pass the outcome: `lease.release('error', error)`. A closed limiter reports no more releases.
 *
 * A `classify` that throws or answers no class leaves the limit as it is; the `CallbackError` is reported as RxJS reports what an observer throws.
 *
 * @beta
 * @param limiter - Made by {@link createLimiter}. One `adaptiveLimit` is enough: of two, each would set a limit of its own.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when the limiter is none, or an option is unknown or out of range.
 * @example
 * ```ts
 * import { adaptiveLimit, createLimiter } from 'sluice/operators';
 *
 * const limiter = createLimiter();
 * const adapting = adaptiveLimit(limiter);
 * const refused = Object.assign(new Error('too many requests'), { status: 429 });
 * const leases = [1, 2, 3].map(() => limiter.tryAcquire());
 * for (const lease of leases) lease?.release('error', refused);
 * limiter.concurrency; // => 3
 * adapting.unsubscribe();
 * ```
 * @see {@link createLimiter} with a `concurrency` of your own when the backend says how many calls it takes.
 */
export function adaptiveLimit(limiter: Limiter, options: AdaptiveLimitOptions = {}): Subscription {
  requiredLimiter(NAME, 'limiter', limiter);
  const { classify, range } = readOptions(options);
  const aimd = new Aimd(range, BACKOFF_RATIO);
  let limit = range.initial;
  // Listens first: the limiter records the times of grants only while it has a listener.
  const stop = limiter.onRelease((release) => {
    try {
      const outcome = outcomeOf(release, classify);
      if (outcome === undefined) return;
      const { grantedAt: startedAt, releasedAt: endedAt, executing: inFlight } = release;
      const next = aimd.add({ startedAt, endedAt, inFlight, outcome });
      if (next === limit) return;
      limit = next;
      limiter.setLimits({ concurrency: limit });
    } catch (error) {
      report(error);
    }
  });
  limiter.setLimits({ concurrency: limit });
  return new Subscription(stop);
}

/** Undefined for what says nothing about how busy the other side is. @throws CallbackError of `classify` */
function outcomeOf({ outcome, error }: Release, classify: Classify): LimitSample['outcome'] | undefined {
  if (outcome === 'ok') return 'ok';
  if (outcome !== 'error') return undefined;
  const { class: found } = verdictOf(NAME, classify, error, { size: 1, attempt: 1, aborted: false });
  return OVERLOADS.includes(found) || (found === 'transient' && isOverloaded(error)) ? 'dropped' : undefined;
}

function readOptions(options: AdaptiveLimitOptions) {
  const { min, max, classify } = checked(NAME, options, DEFAULTS, {
    min: count,
    max: count,
    classify: requiredFunction,
  });
  if (min > max || min === Infinity) throw misused(NAME, 'min', '`min` is greater than `max`, or Infinity', 'Lower `min`.');
  return { classify, range: { initial: Math.min(max, Math.max(min, INITIAL)), min, max } };
}

import { Subscription } from 'rxjs';
import { classifyError } from './classify-error.js';
import type { LimitRange, LimitSample } from './kernel/limits/aimd.js';
import { Aimd } from './kernel/limits/aimd.js';
import { isAmount, unusable } from './options/answers.js';
import { ask, verdictOf } from './options/ask.js';
import { FlowConfigError } from './options/errors.js';
import type { Limiter, Release } from './options/limiter.js';
import { requiredLimiter } from './options/limiter-option.js';
import { check, checked, count, oneOf, orDefault, ratio, requiredFunction, unchecked } from './options/options.js';
import type { Classify } from './options/types.js';
import { isOverloaded } from './shell/error-evidence.js';
import { report } from './shell/report.js';

export type { LimitSample } from './kernel/limits/aimd.js';

/** Classes of errors that may mean "too many calls at a time"; `'overloaded'` are the `transient` ones with status 503 or 529. */
export type OverloadClass = 'throttled' | 'timeout' | 'overloaded' | 'transient';

/** What a rule of your own is told besides the call. */
export interface LimitState {
  /** Calls at a time now. */
  readonly limit: number;
  readonly min: number;
  readonly max: number;
}

/** Answers how many calls at a time there may be after this one; rounded down, and kept between `min` and `max`. */
export type LimitRule = (sample: LimitSample, state: LimitState) => number;

export interface AdaptiveLimitOptions {
  /** How the limit follows the calls: `'aimd'` as described, or a rule of your own. @defaultValue 'aimd' */
  readonly algorithm?: 'aimd' | LimitRule;
  /** Calls at a time to begin with, a whole number from `min` to `max`. @defaultValue 4, or the nearest that `min` and `max` allow */
  readonly initial?: number;
  /** Fewest calls at a time. @defaultValue 1 */
  readonly min?: number;
  /** Most calls at a time. @defaultValue 64 */
  readonly max?: number;
  /** What a dropped call leaves of the limit, 0.1 to 0.99. Only with `'aimd'`. @defaultValue 0.75 */
  readonly backoffRatio?: number;
  /** Errors that mean the other side had too much to do. @defaultValue ['throttled', 'timeout', 'overloaded'] */
  readonly dropOn?: readonly OverloadClass[];
  /** Sorts errors into classes. @defaultValue `classifyError` */
  readonly classify?: Classify;
}

const DEFAULTS = { algorithm: 'aimd', min: 1, max: 64, dropOn: ['throttled', 'timeout', 'overloaded'], classify: classifyError } as const;

const NAME = 'adaptiveLimit';
const OVERLOAD_CLASSES = ['throttled', 'timeout', 'overloaded', 'transient'] as const satisfies readonly OverloadClass[];

/**
 * Finds out how many calls at a time a backend takes, and keeps the limiter's `concurrency` there: one more while calls go well, a
 * quarter less when the backend says that it has too much to do.
 *
 * - **Sets** `initial` at once, and then the limit after each call that changes it; nothing else of the limiter's limits.
 * - **One more** after as many good calls as the limit counts, made while at least half of it was in use. A limit that nobody uses does
 *   not grow.
 * - **Less** (`backoffRatio`) after a call that failed with an error in `dropOn`. Every call that had started by then is left out
 *   afterwards, so that a burst of refusals is one step.
 * - **Says nothing:** calls that were cancelled (but for promises that answer all the same) or never sent, other errors (a wrong item, a
 *   wrong key), and good calls that took no time.
 * - **On unsubscribe** it stops listening. The limit stays where it is.
 *
 * It hears of every permit that comes back, whoever used it: `batchMap`, `bulkheadMap`, `hedge`, `run`. For a lease of your own, tell how
 * it went: `lease.release('error', error)`. Of a limiter that is closed nothing more is heard.
 *
 * An `algorithm` of your own is told every good and every dropped call. One that throws or answers no number, and a `classify` that
 * does, leaves the limit as it is; the `CallbackError` is reported as RxJS reports what an observer throws.
 *
 * @param limiter - Made by {@link createLimiter}. One `adaptiveLimit` is enough: of two, each would set a limit of its own.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when the limiter is none, or an option is unknown or out of range.
 * @example
 * ```ts
 * import { adaptiveLimit, createLimiter } from 'sluice/operators';
 *
 * const limiter = createLimiter();
 * const adapting = adaptiveLimit(limiter, { initial: 8 });
 * const refused = Object.assign(new Error('too many requests'), { status: 429 });
 * const leases = [1, 2, 3].map(() => limiter.tryAcquire());
 * for (const lease of leases) lease?.release('error', refused);
 * limiter.concurrency; // => 6
 * adapting.unsubscribe();
 * ```
 * @see {@link createLimiter} with a `concurrency` of your own when the backend says how many calls it takes.
 */
export function adaptiveLimit(limiter: Limiter, options: AdaptiveLimitOptions = {}): Subscription {
  requiredLimiter(NAME, limiter);
  const { drops, range, rule } = readOptions(options);
  const { min, max } = range;
  let limit = range.initial;
  // Listens first: the limiter notes when a permit is granted only while somebody wants to know.
  const stop = limiter.onRelease((release) => {
    try {
      const outcome = outcomeOf(release, drops);
      if (outcome === undefined) return;
      const { grantedAt: startedAt, releasedAt: endedAt, executing: inFlight } = release;
      const next = rule({ startedAt, endedAt, inFlight, outcome }, { limit, min, max });
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

type Drops = Pick<Required<AdaptiveLimitOptions>, 'dropOn' | 'classify'>;

/** Undefined for what says nothing about how busy the other side is. @throws CallbackError of `classify` */
function outcomeOf({ outcome, error }: Release, { dropOn, classify }: Drops): LimitSample['outcome'] | undefined {
  if (outcome === 'ok') return 'ok';
  if (outcome !== 'error') return undefined;
  const { class: found } = verdictOf(NAME, classify, error, { size: 1, attempt: 1, aborted: false });
  const words: readonly string[] = dropOn;
  const drops = words.includes(found) || (found === 'transient' && words.includes('overloaded') && isOverloaded(error));
  return drops ? 'dropped' : undefined;
}

function readOptions(options: AdaptiveLimitOptions) {
  const { algorithm, initial, min, max, backoffRatio, ...drops } = checked(NAME, options, DEFAULTS, {
    algorithm: ruleOption,
    initial: unchecked,
    min: count,
    max: count,
    backoffRatio: unchecked,
    dropOn: classes,
    classify: requiredFunction,
  });
  within('min', min, 1, max);
  const range = { initial: within('initial', orDefault(initial, Math.min(max, Math.max(min, 4))), min, max), min, max };
  if (algorithm !== 'aimd') {
    if (backoffRatio !== undefined) throw new FlowConfigError(NAME, 'backoffRatio', "absent without `algorithm` 'aimd'", backoffRatio);
    return { drops, range, rule: ownRule(algorithm, range) };
  }
  const aimd = new Aimd(range, ratio(NAME, 'backoffRatio', orDefault(backoffRatio, 0.75), 0.1, 0.99));
  return { drops, range, rule: (sample: LimitSample) => aimd.add(sample) };
}

/** A rule of yours, kept within the range. @throws CallbackError */
function ownRule(algorithm: LimitRule, { min, max }: LimitRange): LimitRule {
  return (sample, state) => {
    const answer: unknown = ask(NAME, 'algorithm', algorithm, sample, state);
    if (!isAmount(answer)) throw unusable(NAME, 'algorithm', 'a number >= 0', answer);
    return Math.min(max, Math.max(min, Math.floor(answer)));
  };
}

const ruleOption = /* @__PURE__ */ check("'aimd' or a function", (algorithm) => algorithm === 'aimd' || typeof algorithm === 'function');

function within(option: string, value: number, least: number, most: number): number {
  if (Number.isSafeInteger(value) && value >= least && value <= most) return value;
  throw new FlowConfigError(NAME, option, `a whole number from ${String(least)} to ${String(most)}`, value);
}

function classes(operator: string, option: string, list: readonly OverloadClass[]): readonly OverloadClass[] {
  if (!Array.isArray(list) || list.length === 0) throw new FlowConfigError(operator, option, 'a list of at least one class', list);
  return Array.from(list, (word, i) => oneOf(...OVERLOAD_CLASSES)(operator, `${option}[${String(i)}]`, word));
}

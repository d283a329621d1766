import { isAmount, unusable } from './answers.js';
import { CallbackError } from './errors.js';
import type { Classify, ClassifyContext, ErrorClass, Verdict } from './types.js';

/** State of the open batch for `closeWhen`, before the item joins it. */
export interface BatchState<T> {
  /** The items waiting, oldest first; a look at the moment, so do not keep it. */
  readonly items: readonly T[];
  /** Their total weight. */
  readonly weight: number;
  /** Weight of the item in question. */
  readonly itemWeight: number;
}

/** Says where a batch ends: `'before'` the item, `'after'` it, or not here. */
export type CloseWhen<T> = (item: T, state: BatchState<T>) => 'before' | 'after' | false;

/**
 * Calls a callback that a user passed as an option, so that an error names it. For callbacks whose fault belongs to one item or call; the work itself is
 * called directly, because its errors are classified.
 *
 * @beta
 * @param operator - the function that the option belongs to
 * @param name - the option
 * @throws CallbackError (`FLOW_CALLBACK`) when it throws, with what it threw as `cause`.
 * @example
 * ```ts
 * import { ask } from 'sluice/operators/build';
 *
 * const length = ask('createTranslator', 'weigh', (text: string) => text.length, 'hello');
 * length; // => 5
 * ```
 */
export function ask<A extends unknown[], R>(operator: string, name: string, callback: (...args: A) => R, ...args: A): R {
  try {
    return callback(...args);
  } catch (cause) {
    throw new CallbackError(operator, name, 'threw', cause);
  }
}

/**
 * One without a `weigh`.
 *
 * @throws CallbackError when it is no finite number >= 0
 */
export function weightOf<T>(operator: string, weigh: ((item: T) => number) | undefined, item: T): number {
  if (weigh === undefined) return 1;
  let weight: unknown;
  // Not `ask`, which costs a list of arguments for every item.
  try {
    weight = weigh(item);
  } catch (cause) {
    throw new CallbackError(operator, 'weigh', 'threw', cause);
  }
  // Infinity is none of these.
  if (isAmount(weight) && weight < Infinity) return weight;
  throw unusable(operator, 'weigh', 'a finite number >= 0', weight);
}

const CLASSES: readonly ErrorClass[] = ['throttled', 'transient', 'timeout', 'tooLarge', 'itemFault', 'fatal', 'contract', 'cancelled'];

/**
 * What a classifier answers, without invalid fields.
 *
 * @throws CallbackError when that has no class, with what was to be classified as its cause
 */
export function verdictOf(operator: string, classify: Classify, error: unknown, context: ClassifyContext): Verdict {
  const verdict: unknown = ask(operator, 'classify', classify, error, context);
  const { class: found, retryAfterMs, blame, tooLarge, isTierOnly, unrecognised } = Object(verdict) as Partial<Verdict>;
  const known = CLASSES.find((one) => one === found);
  if (known === undefined) throw new CallbackError(operator, 'classify', `must return { class: one of ${CLASSES.join(', ')} }`, error);
  return {
    class: known,
    ...(Number.isFinite(retryAfterMs) && isAmount(retryAfterMs) && { retryAfterMs }),
    ...(Array.isArray(blame) && { blame }),
    ...(tooLarge && { tooLarge }),
    ...(isTierOnly && { isTierOnly: true }),
    ...(unrecognised && { unrecognised }),
  };
}

/** The same for a classifier that may fail: the error that was to be classified is then final, because callers need to see that one. */
export function verdictOrFatal(operator: string, classify: Classify, error: unknown, context: ClassifyContext): Verdict {
  try {
    return verdictOf(operator, classify, error, context);
  } catch {
    return { class: 'fatal' };
  }
}

/**
 * What a source of randomness says.
 *
 * @throws CallbackError when it is no number from 0 to 1
 */
export function drawnFrom(operator: string, random: () => number): number {
  const drawn: unknown = ask(operator, 'random', random);
  if (isAmount(drawn) && drawn <= 1) return drawn;
  throw unusable(operator, 'random', 'a number from 0 to 1', drawn);
}

/**
 * What a `delayMs` says about this attempt.
 *
 * @throws CallbackError when it is no finite number >= 0
 */
export function delayFrom(operator: string, delayMs: number | ((attempt: number) => number), attempt: number): number {
  if (typeof delayMs === 'number') return delayMs;
  const answer: unknown = ask(operator, 'delayMs', delayMs, attempt);
  if (isAmount(answer) && answer < Infinity) return answer;
  throw unusable(operator, 'delayMs', 'a finite number >= 0', answer);
}

/** @throws CallbackError when it answers something else */
export function whenToClose<T>(operator: string, closeWhen: CloseWhen<T>, item: T, state: BatchState<T>): 'before' | 'after' | false {
  const when: unknown = ask(operator, 'closeWhen', closeWhen, item, state);
  if (when === 'before' || when === 'after' || when === false) return when;
  throw unusable(operator, 'closeWhen', "'before', 'after' or false", when);
}

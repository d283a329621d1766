import type { BackoffOptions } from '../kernel/repair/backoff.js';
import { RETRY_FAILED } from './defaults.js';
import { checked, count, delayOption, durationMs, group, oneOf, optional, positive } from './options.js';

/** @stable */
export interface RetryOptions {
  /** Attempts one call (or batch) may take, the first included; one that was refused as too many (429) is not counted. @defaultValue 3 */
  readonly maxAttempts?: number;
  /**
   * First delay, in ms; each one after it is twice as long. Or a function: the delay after the so many-th failed attempt (from 1; of refusals, after the
   * so many-th in a row), such as `(attempt) => attempt * 100`. What it throws, or an answer that is no finite number >= 0, ends the call with
   * `CallbackError`. @defaultValue 200
   */
  readonly delayMs?: number | ((attempt: number) => number);
  /** Longest delay, in ms; a `retry-after` may be longer. @defaultValue 20000, or `delayMs` when that is longer; Infinity when that is a function */
  readonly maxMs?: number;
  /** `'full'`: anywhere from 0 to the delay; `'equal'`: its upper half; `'none'`: the delay itself. @defaultValue 'full' */
  readonly jitter?: BackoffOptions['jitter'];
  /**
   * Most retries at a time as a share of all calls under way, never less than 3; refusals (429) are not counted. Beyond it a call fails with
   * `RetryShareError`. @defaultValue Infinity, in model callers and adapters 0.2
   */
  readonly maxShare?: number;
  /**
   * Longest time that one call (or batch) waits after refusals (429) altogether, in ms; then it fails with the last one. 0 = a refusal is final.
   * @defaultValue up to the deadline; 600000 without one
   */
  readonly maxThrottledMs?: number;
}

/** {@link RetryOptions}, checked and with their defaults. */
export interface RetryRule extends Omit<BackoffOptions, 'delayMs'> {
  readonly delayMs: number | ((attempt: number) => number);
  readonly maxAttempts: number;
  readonly maxShare: number;
  /** Undefined when it was not given: then a deadline may be longer. */
  readonly maxThrottledMs?: number;
}

/** Longest wait after refusals without a deadline, in ms. */
const MOST_THROTTLED_MS = 600_000;

/** How long a call waits after refusals altogether. One with a deadline waits up to that, unless a bound was given. */
export function mostThrottledMs({ maxThrottledMs }: RetryRule, hasDeadline: boolean): number {
  return maxThrottledMs ?? (hasDeadline ? Infinity : MOST_THROTTLED_MS);
}

const CHECKS = /* @__PURE__ */ (() => ({
  maxAttempts: count,
  delayMs: delayOption<RetryRule['delayMs']>,
  maxMs: durationMs,
  jitter: oneOf('full', 'equal', 'none'),
  maxShare: positive,
  maxThrottledMs: optional(durationMs),
}))();

/** The `retry` option, or one like it (`''` for the options of a value); undefined when it is turned off. @throws FlowConfigError */
export function retryRule(operator: string, option: string, retry: RetryOptions | undefined, maxShare: number): RetryRule;
export function retryRule(
  operator: string,
  option: string,
  retry: RetryOptions | false | undefined,
  maxShare: number,
): RetryRule | undefined;
export function retryRule(
  operator: string,
  option: string,
  retry: RetryOptions | false | undefined,
  maxShare: number,
): RetryRule | undefined {
  if (retry === false) return undefined;
  const given: RetryOptions = group(operator, option || 'options', retry);
  const { maxThrottledMs, ...rule } = checked(
    operator,
    given,
    { ...RETRY_FAILED, maxShare },
    CHECKS,
    option && `${option}.`,
    // `retries` and `maxRetries`, as other libraries say.
    { etries: 'Use `maxAttempts`, the first attempt included.' },
  );
  const longestMs = typeof rule.delayMs === 'function' ? Infinity : Math.max(rule.delayMs, rule.maxMs);
  const maxMs = given.maxMs === undefined ? longestMs : rule.maxMs;
  return { ...rule, maxMs, ...(maxThrottledMs !== undefined && { maxThrottledMs }) };
}

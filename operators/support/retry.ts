import type { BackoffOptions } from '../kernel/backoff.js';
import { BACKOFF_DEFAULTS } from '../kernel/backoff.js';
import { count, durationMs, group, known, oneOf, orDefault, positive } from './options.js';
import type { Verdict } from './types.js';

export interface RetryOptions {
  /** Attempts one call (or batch) may take, the first included. @defaultValue 3 */
  readonly maxAttempts?: number;
  /** First delay, in ms. @defaultValue 200 */
  readonly initialMs?: number;
  /** @defaultValue 2 */
  readonly factor?: number;
  /** Longest delay, in ms; a `retry-after` may be longer. @defaultValue 20000 */
  readonly maxMs?: number;
  /** @defaultValue 'full' */
  readonly jitter?: BackoffOptions['jitter'];
  /** Most retries at a time as a share of all calls under way, never less than 3. @defaultValue Infinity, in `policy` 0.2 */
  readonly budget?: number;
}

/** {@link RetryOptions}, checked and with their defaults. */
export interface RetryRule extends BackoffOptions {
  readonly maxAttempts: number;
  readonly budget: number;
}

export const RETRY_DEFAULTS = { maxAttempts: 3, ...BACKOFF_DEFAULTS } as const;

/** The `retry` option; undefined when it is turned off. @throws FlowConfigError */
export function retryRule(operator: string, retry: RetryOptions | false | undefined, budget: number): RetryRule | undefined {
  if (retry === false) return undefined;
  const given: RetryOptions = group(operator, 'retry', retry);
  known(operator, given, ['maxAttempts', 'initialMs', 'factor', 'maxMs', 'jitter', 'budget'], 'retry', 'retry.');
  const d = RETRY_DEFAULTS;
  return {
    maxAttempts: count(operator, 'retry.maxAttempts', orDefault(given.maxAttempts, d.maxAttempts)),
    initialMs: durationMs(operator, 'retry.initialMs', orDefault(given.initialMs, d.initialMs)),
    factor: positive(operator, 'retry.factor', orDefault(given.factor, d.factor)),
    maxMs: durationMs(operator, 'retry.maxMs', orDefault(given.maxMs, d.maxMs)),
    jitter: oneOf(operator, 'retry.jitter', orDefault(given.jitter, d.jitter), ['full', 'equal', 'none']),
    budget: positive(operator, 'retry.budget', orDefault(given.budget, budget)),
  };
}

/** Whether an error may be gone at another try. */
export function isRetryable(verdict: Verdict): boolean {
  return verdict.class === 'throttled' || verdict.class === 'transient' || verdict.class === 'timeout';
}

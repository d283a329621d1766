/** How the pauses between the attempts of one call grow. */
export interface BackoffOptions {
  /** Ceiling of the first pause, in ms. */
  readonly delayMs: number;
  /** What the ceiling is multiplied by after every attempt. @defaultValue 2 */
  readonly factor?: number;
  /** Highest ceiling, in ms. */
  readonly maxMs: number;
  /** `'full'`: anywhere from 0 to the ceiling; `'equal'`: its upper half; `'none'`: the ceiling itself. */
  readonly jitter: 'full' | 'equal' | 'none';
}

/** Pauses double. */
const FACTOR = 2;

/** The longest delay a timer takes (about 25 days); bounds every factor below, or Infinity times 0 would give NaN. */
const LONGEST_MS = 2_147_483_647;

/** Most that a wait the other side asked for is stretched by, so that its callers do not all come back in the same moment. */
const RETRY_AFTER_STRETCH = 0.1;

/**
 * The pause after a failed attempt, in ms. `attempt` counts from 1; `random01` is a number from 0 to 1.
 *
 * Source: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015; full jitter needed the fewest calls there.
 */
export function backoffDelayMs(attempt: number, options: BackoffOptions, random01: number): number {
  const { delayMs, factor = FACTOR, maxMs, jitter } = options;
  const growth = Math.min(factor ** (attempt - 1), LONGEST_MS);
  const ceilingMs = Math.min(Math.min(delayMs, LONGEST_MS) * growth, maxMs, LONGEST_MS);
  if (jitter === 'none') return ceilingMs;
  return jitter === 'full' ? ceilingMs * random01 : (ceilingMs * (1 + random01)) / 2;
}

/** As {@link backoffDelayMs}, but never sooner than the other side asked: a `retryAfterMs` is stretched by up to a tenth. */
export function retryDelayMs(attempt: number, retryAfterMs: number | undefined, options: BackoffOptions, random01: number): number {
  const delayMs = backoffDelayMs(attempt, options, random01);
  return retryAfterMs === undefined ? delayMs : Math.max(delayMs, retryAfterMs * (1 + RETRY_AFTER_STRETCH * random01));
}

/**
 * The pause after the so many-th refusal in a row, in ms. Refusals have no number of attempts that ends them: without a pause they would follow each other
 * as fast as they can, so it is never below 1.
 */
export function refusalDelayMs(inARow: number, retryAfterMs: number | undefined, options: BackoffOptions, random01: number): number {
  const { delayMs, maxMs } = options;
  return retryDelayMs(inARow, retryAfterMs, { ...options, delayMs: Math.max(1, delayMs), maxMs: Math.max(1, maxMs) }, random01);
}

/**
 * Whether one more of this kind (a retry, a hedge) may be added to `running`. At any time they are at most the share `ratio` of the `active` calls,
 * so that they cannot multiply the load on a backend that is already failing. `least` are always allowed, or a caller with little traffic could
 * never retry.
 *
 * Source: retry budgets ("Handling Overload", Google SRE book, 2016).
 */
export function isWithinShare(running: number, active: number, ratio: number, least = 3): boolean {
  // At least one active: no budget at all (Infinity) times no call would not be a number.
  return running + 1 <= Math.max(least, ratio * Math.max(1, active));
}

import type { RateSpec } from './kernel/limits/limit.js';
import { SlidingWindow } from './kernel/limits/sliding-window.js';
import { TokenBucket } from './kernel/limits/token-bucket.js';
import { FlowConfigError } from './options/errors.js';
import type { RateRule } from './options/limiter.js';
import { finitePositive, flag, limit, nonEmpty, onlyKnown, positive } from './options/options.js';
import type { RatedLimiter } from './shell/limiter/rates.js';
import { Rates } from './shell/limiter/rates.js';

/** A rate, and how it saves up. */
export interface RateOptions {
  /** Most that can be saved up and spent at once, > 0. Providers enforce windows well below a minute. @defaultValue what comes in within two seconds, at least 1 or the amount */
  readonly burst?: number;
  /** Whether a job that costs more than can be saved up may go when all of it is there, and leave a debt; else it is refused with `ItemTooHeavyError`. @defaultValue true */
  readonly borrow?: boolean;
}

/** An amount of a unit per window. */
export interface Quota {
  /** `'requests'`, `'tokens'`, `'inputTokens'`, `'outputTokens'`, or a unit of your own that jobs name in their `cost`. */
  readonly unit: string;
  /** Most in one window, >= 0. With 0, which only `setLimits` takes, nothing passes; Infinity is no limit. */
  readonly amount: number;
  /** Length of the window in ms, > 0: 1000 for a second, 86_400_000 for a day. */
  readonly windowMs: number;
}

/**
 * A rate per minute that is spent steadily: what is not used can be saved up, two seconds' worth or `burst`.
 *
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when something is unknown or out of range.
 * @example
 * ```ts
 * import { createLimiter, perMinute } from 'sluice/operators';
 *
 * const limiter = createLimiter({ rates: [perMinute('requests', 60), perMinute('tokens', 6000)], headroom: 1 });
 * limiter.snapshot().tokens; // => 200
 * ```
 * @see {@link slidingWindow} for a provider that counts the last minute, and to use all of it at once.
 */
export function perMinute(unit: string, amount: number, options: RateOptions = {}): RateRule {
  onlyKnown('perMinute', options, ['burst', 'borrow']);
  return bucket('perMinute', { ...options, unit, amount, windowMs: 60_000 });
}

/**
 * The same over any window. Several rates of one unit hold at the same time.
 *
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when something is unknown or out of range.
 * @example
 * ```ts
 * import { createLimiter, tokenBucket } from 'sluice/operators';
 *
 * const second = tokenBucket({ unit: 'requests', amount: 5, windowMs: 1000, burst: 5 });
 * const day = tokenBucket({ unit: 'requests', amount: 1000, windowMs: 86_400_000, burst: 100 });
 * createLimiter({ rates: [second, day], headroom: 1 }).snapshot().requests; // => 5
 * ```
 */
export function tokenBucket(rate: Quota & RateOptions): RateRule {
  onlyKnown('tokenBucket', rate, ['unit', 'amount', 'windowMs', 'burst', 'borrow'], 'rate');
  return bucket('tokenBucket', rate);
}

/**
 * A rate of which no window, wherever it begins, ever gets more than the amount: all of it may be spent at once, and comes back when it is a
 * window old. A job that costs more than the amount is refused with `ItemTooHeavyError`. It remembers what was granted when: one entry for each ms
 * of the last window in which something was.
 *
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when something is unknown or out of range.
 * @example
 * ```ts
 * import { createLimiter, slidingWindow } from 'sluice/operators';
 *
 * const limiter = createLimiter({ rates: [slidingWindow({ unit: 'requests', amount: 2, windowMs: 1000 })], headroom: 1 });
 * [1, 2, 3].map(() => limiter.tryAcquire() !== undefined); // => [true, true, false]
 * ```
 */
export function slidingWindow(rate: Quota): RateRule {
  onlyKnown('slidingWindow', rate, ['unit', 'amount', 'windowMs'], 'rate');
  return rule({
    ...quota('slidingWindow', rate),
    burstMs: 0,
    isStrict: true,
    borrows: false,
    meter: (rateNow, capacity, now) => new SlidingWindow(rateNow, capacity, now),
  });
}

function bucket(operator: string, rate: Quota & RateOptions): RateRule {
  const { burst, borrow = true } = rate;
  return rule({
    ...quota(operator, rate),
    burst: burst === undefined ? undefined : finite(operator, 'burst', burst),
    burstMs: 2000,
    isStrict: false,
    borrows: flag(operator, 'borrow', borrow),
    meter: (rateNow, capacity, now) => new TokenBucket(rateNow, capacity, now),
  });
}

/** Makes a value of a rate. Limiters know nothing of rates before the first of them joins. */
export function rule(spec: RateSpec): RateRule {
  return {
    ...spec,
    addTo(this: RateRule, known: object | undefined, limiter: object): Rates {
      const rates = (known as Rates | undefined) ?? new Rates(limiter as RatedLimiter);
      rates.set(this as RateSpec & RateRule);
      return rates;
    },
  };
}

export function quota(operator: string, { unit, amount, windowMs }: Quota): Quota {
  if (nonEmpty(operator, 'unit', unit) === 'slots')
    throw new FlowConfigError(operator, 'unit', 'no `slots`, which are `concurrency`', unit);
  return { unit, amount: limit(operator, 'amount', amount), windowMs: finite(operator, 'windowMs', windowMs) };
}

function finite(operator: string, option: string, value: number): number {
  return finitePositive(operator, option, positive(operator, option, value));
}

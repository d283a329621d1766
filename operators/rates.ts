import type { Rates } from './kernel/limiter/rates.js';
import type { RateSpec } from './kernel/limits/limit.js';
import { ReservedBucket } from './kernel/limits/reserved-bucket.js';
import { ReservedWindow } from './kernel/limits/reserved-window.js';
import { SlidingWindow } from './kernel/limits/sliding-window.js';
import { TokenBucket } from './kernel/limits/token-bucket.js';
import { BURST_SECONDS } from './options/defaults.js';
import type { RateRule } from './options/limiter.js';
import { finitePositive, limit, misused, nonEmpty, onlyKnown, positive } from './options/options.js';
import type { RatedLimiter } from './shell/limiter/rates.js';
import { ratesOf } from './shell/limiter/rates.js';

/**
 * How a rate saves up.
 * @stable
 */
export interface RateOptions {
  /**
   * Most that can be saved up and spent at once, > 0. Providers enforce windows well below a minute. A job that costs more goes when all of it is
   * there, and leaves a debt. @defaultValue what comes in within two seconds, at least 1 or the amount
   */
  readonly burst?: number;
}

/** An amount of a unit per window. */
export interface Quota {
  /** `'requests'`, `'tokens'`, `'inputTokens'`, `'outputTokens'`, or a unit of your own that jobs name in their `cost`. */
  readonly unit: string;
  /** Most in one window, >= 0. With 0, which only `setLimits` takes, nothing passes; Infinity is no limit. */
  readonly amount: number;
  /** Length of the window in ms, > 0: 1000 for a second, 86_400_000 for a day. Infinity, which only `slidingWindow` takes, is an amount that is spent once. */
  readonly windowMs: number;
}

/**
 * A rate per minute that is spent steadily: what is not used can be saved up, two seconds' worth or `burst`.
 *
 * @stable
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
  onlyKnown('perMinute', options, ['burst']);
  return bucket('perMinute', { ...options, unit, amount, windowMs: 60_000 });
}

/**
 * The same over any window. Several rates of one unit hold at the same time.
 *
 * @stable
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
  onlyKnown('tokenBucket', rate, ['unit', 'amount', 'windowMs', 'burst'], 'rate');
  return bucket('tokenBucket', rate);
}

/**
 * A rate of which no window, wherever it begins, ever gets more than the amount: all of it may be spent at once, and comes back when it is a
 * window old. A job that costs more than the amount is refused with `ItemTooHeavyError`. It remembers what was granted when: one entry for each ms
 * of the last window in which something was.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when something is unknown or out of range.
 * @example
 * ```ts
 * import { createLimiter, slidingWindow } from 'sluice/operators';
 *
 * const limiter = createLimiter({ rates: [slidingWindow({ unit: 'requests', amount: 2, windowMs: 1000 })], headroom: 1 });
 * [1, 2, 3].map(() => limiter.tryAcquire() !== undefined); // => [true, true, false]
 * ```
 * @example An amount that is spent once: `windowMs: Infinity`. What was bought since lets waiting jobs go.
 * ```ts
 * import { createLimiter, slidingWindow } from 'sluice/operators';
 *
 * const bought = (amount: number) => ({ rates: [slidingWindow({ unit: 'credits', amount, windowMs: Infinity })] });
 * const limiter = createLimiter({ ...bought(100), headroom: 1 });
 * limiter.tryAcquire({ cost: { credits: 80 } })?.release();
 * const lease = limiter.acquireAsync({ cost: { credits: 50 } });
 * limiter.setLimits(bought(100 + 50));
 * (await lease).release();
 * limiter.snapshot().rates.map(({ left }) => left); // => [20]
 * ```
 */
export function slidingWindow(rate: Quota): RateRule {
  onlyKnown('slidingWindow', rate, ['unit', 'amount', 'windowMs'], 'rate');
  return rule({
    ...quota('slidingWindow', rate, positive),
    burstMs: 0,
    isStrict: true,
    borrows: false,
    meter: (rateNow, capacity, now) => new SlidingWindow(rateNow, capacity, now),
    reservedMeter: (shares, rateNow, capacity, now) => new ReservedWindow(shares, rateNow, capacity, now),
  });
}

function bucket(operator: string, rate: Quota & RateOptions): RateRule {
  const { burst, windowMs } = rate;
  return rule({
    ...quota(operator, rate),
    burst: burst === undefined ? undefined : finite(operator, 'burst', burst),
    burstMs: 1000 * BURST_SECONDS,
    isStrict: false,
    borrows: true,
    meter: (rateNow, capacity, now) => new TokenBucket(rateNow, capacity, now),
    reservedMeter: (shares, rateNow, capacity, now) => new ReservedBucket(shares, windowMs, rateNow, capacity, now),
  });
}

/** Makes a value of a rate. Limiters know nothing of rates before the first of them joins. */
export function rule(spec: RateSpec): RateRule {
  return {
    ...spec,
    addTo(this: RateRule, known: object | undefined, limiter: object): Rates {
      const rates = ratesOf(known, limiter as RatedLimiter);
      rates.set(this as RateSpec & RateRule, (limiter as RatedLimiter).now());
      return rates;
    },
  };
}

export function quota(operator: string, { unit, amount, windowMs }: Quota, windowOf = finite): Quota {
  if (nonEmpty(operator, 'unit', unit) === 'slots')
    throw misused(operator, 'unit', '`slots` are not counted per window', 'Use `concurrency`.');
  return { unit, amount: limit(operator, 'amount', amount), windowMs: windowOf(operator, 'windowMs', windowMs) };
}

function finite(operator: string, option: string, value: number): number {
  return finitePositive(operator, option, positive(operator, option, value));
}

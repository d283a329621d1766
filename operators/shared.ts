import type { RateSpec } from './kernel/limits/limit.js';
import type { CreditStore } from './options/credit-store.js';
import { FlowConfigError } from './options/errors.js';
import type { RateRule } from './options/limiter.js';
import { checked, finitePositive, misused, nonEmpty, ratio } from './options/options.js';
import type { CreditedLimiter } from './shell/limiter/credit-line.js';
import { CreditLine } from './shell/limiter/credit-line.js';
import type { RatedLimiter } from './shell/limiter/rates.js';
import { ratesOf } from './shell/limiter/rates.js';
import { ratesOption } from './shell/limiter/settings.js';

/**
 * How rates are shared.
 * @beta
 */
export interface SharedOptions {
  /** What the limits are of. Limiters of one store share them when they name the same, in whatever process. @defaultValue 'account' */
  readonly scope?: string;
  /**
   * Least part of a limit that lanes below the first ask for at a time, when so much waits, 0 to 0.1: more asks the store less often, and lets urgent jobs of other
   * processes wait longer. @defaultValue 0.01
   */
  readonly leastShare?: number;
  /** How long credit is good for, in ms, > 0: a job may reach the provider so long after its question. Longer costs use: a window counts for so much longer. @defaultValue 200 */
  readonly guardMs?: number;
}

const NAME = 'shared';
const DEFAULTS = { scope: 'account', leastShare: 0.01, guardMs: 200 };
const CHECKS = /* @__PURE__ */ (() => ({
  scope: nonEmpty,
  leastShare: (operator: string, option: string, value: number) => {
    if (value !== 0) ratio(operator, option, value, 0);
    if (value > 0.1) throw new FlowConfigError(operator, option, 'a number from 0 to 0.1', value);
    return value;
  },
  guardMs: finitePositive,
}))();

/**
 * Rates that several processes share, for the `rates` of a limiter: what one of them grants is spent for all. No window of any of them gets more than
 * its amount, whatever the processes do; a rate that is a token bucket also comes in evenly, with its `burst` (a hundredth of the amount where it says none).
 *
 * While the store is down everything waits. What one process learns of a limit, and a pause of `penalize`, holds for all.
 *
 * @beta
 * @param store - Where they are kept: `memoryStore()`, `localStore(…)`, `redisStore(…)`.
 * @param rates - Rates as of a limiter of its own. All are asked for and charged in one step.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when something is unknown or out of range.
 * @example
 * ```ts
 * import { createLimiter, memoryStore, shared, slidingWindow } from 'sluice/operators';
 *
 * const store = memoryStore();
 * const limiterOf = () => createLimiter({ headroom: 1, rates: shared(store, [slidingWindow({ unit: 'requests', amount: 3, windowMs: 1000 })]) });
 * const [one, other] = [limiterOf(), limiterOf()];
 * [one.tryAcquire(), other.tryAcquire(), one.tryAcquire(), other.tryAcquire()].map((lease) => lease !== undefined); // => [true, true, true, false]
 * ```
 */
export function shared(store: CreditStore, rates: readonly RateRule[], options: SharedOptions = {}): RateRule[] {
  const isStore = typeof (Object(store) as Partial<CreditStore>).ask === 'function';
  if (!isStore) throw new FlowConfigError(NAME, 'store', 'a store such as memoryStore()', store);
  const rules = ratesOption(NAME, 'rates', rates) as readonly (RateRule & RateSpec)[];
  const units = [...new Set(rules.map(({ unit }) => unit))];
  const settings = { store, units, ...checked(NAME, options, DEFAULTS, CHECKS) };
  const lines = new WeakMap<object, CreditLine>();
  const lineOf = (limiter: object): CreditLine => {
    const line = lines.get(limiter) ?? new CreditLine(settings, limiter as CreditedLimiter);
    lines.set(limiter, line);
    return line;
  };
  return rules.map((rate): RateRule & RateSpec => ({
    ...rate,
    addTo: (known, limiter) => {
      const all = ratesOf(known, limiter as RatedLimiter);
      const line = lineOf(limiter);
      if (all.credit !== undefined && all.credit !== line)
        throw misused(
          NAME,
          'rates',
          'a limiter has rates of two stores or scopes',
          'Give it one, and put the other rates into a limiter made by `childOf`.',
        );
      all.credit = line;
      const meter = (perMinute: number, capacity: number) => line.meter(rate, perMinute, capacity);
      all.set({ ...rate, meter, reservedMeter: (_, perMinute, capacity) => meter(perMinute, capacity) }, (limiter as RatedLimiter).now());
      return all;
    },
  }));
}

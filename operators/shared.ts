import type { RateSpec } from './kernel/limits/limit.js';
import { SLOTS } from './kernel/limits/limit.js';
import type { CreditStore, SharedOptions, SharedStore, SharedStoreOptions } from './options/credit-store.js';
import type { RateRule } from './options/limiter.js';
import { check, checked, count, finitePositive, misused, nonEmpty } from './options/options.js';
import { requiredStore } from './options/store-option.js';
import type { CreditedLimiter } from './shell/limiter/credit-line.js';
import { CreditLine } from './shell/limiter/credit-line.js';
import { SLOT_MS } from './shell/limiter/held-slots.js';
import type { RatedLimiter } from './shell/limiter/rates.js';
import { ratesOf } from './shell/limiter/rates.js';
import { ratesOption } from './shell/limiter/settings.js';

/** How a rate is counted, the store decides. */
type SharedRule = Omit<RateSpec, 'meter' | 'reservedMeter'>;

const NAME = 'shared';
const DEFAULTS = { scope: 'account', leastShare: 0.01, concurrency: Infinity, guardMs: 200 };
const CHECKS = /* @__PURE__ */ (() => ({
  scope: nonEmpty,
  leastShare: check<number>('a number from 0 to 0.1', (value) => typeof value === 'number' && value >= 0 && value <= 0.1),
  concurrency: count,
  guardMs: finitePositive,
}))();

/**
 * Rates that several processes share, for the `rates` of a limiter: what one of them grants is spent for all. No window of any of them gets more than
 * its amount, whatever the processes do; a rate that is a token bucket also comes in evenly, with its `burst` (a fiftieth of the amount where it says none).
 *
 * While the store is down everything waits. What one process learns of a limit, and a pause of `penalize`, holds for all.
 *
 * @beta
 * @param store - Where they are kept: `localStore(…)`, `redisStore(…)`, `memoryStore()`, or a `CreditStore` of your own.
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
  requiredStore(NAME, 'store', store);
  const { concurrency: slots = Infinity } = store as Partial<SharedStore>;
  const checkedOptions = checked(NAME, options, { ...DEFAULTS, concurrency: slots }, CHECKS);
  const { concurrency } = checkedOptions;
  const rules: SharedRule[] = [...(ratesOption(NAME, 'rates', rates) as readonly (RateRule & RateSpec)[])];
  const endless = rules.findIndex(({ windowMs }) => windowMs === Infinity);
  if (endless !== -1)
    throw misused(
      NAME,
      `rates[${endless}].windowMs`,
      'a store counts no window without an end',
      'Use `createBudget` with a `store` for what several processes spend once.',
    );
  if (concurrency < Infinity) rules.push(slotsOf(concurrency));
  const units = [...new Set(rules.map(({ unit }) => unit))];
  const settings = { store, units, ...checkedOptions };
  const lines = new WeakMap<object, CreditLine>();
  const lineOf = (limiter: object): CreditLine => {
    const line = lines.get(limiter) ?? new CreditLine(settings, limiter as CreditedLimiter);
    lines.set(limiter, line);
    return line;
  };
  return rules.map((rate): RateRule & SharedRule => ({
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
      // Slots have no headroom.
      const { headroom } = (limiter as RatedLimiter).settings;
      const amount = rate.unit === SLOTS ? rate.amount / headroom : rate.amount;
      all.set(
        { ...rate, amount, meter, reservedMeter: (_, perMinute, capacity) => meter(perMinute, capacity) },
        (limiter as RatedLimiter).now(),
      );
      return all;
    },
  }));
}

/**
 * Makes a store that accounts take of one of your own. The stores of this package are such stores already.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when it has no `ask`, `correct` and `hold`.
 * @example
 * ```ts
 * import { createAccount, memoryStore, sharedStore } from 'sluice/operators';
 *
 * const own = memoryStore();
 * const asked: number[] = [];
 * const store = sharedStore({
 *   ask: (question) => (asked.push(question.number), own.ask(question)),
 *   correct: (corrections) => own.correct(corrections),
 *   hold: (scope, ms) => own.hold(scope, ms),
 * });
 * const account = createAccount({ tokensPerMinute: 60_000, store });
 * account.tryAcquire({ cost: { tokens: 10 } }) !== undefined; // => true
 * asked; // => [1]
 * ```
 */
export function sharedStore(store: CreditStore, options: SharedStoreOptions = {}): SharedStore {
  requiredStore('sharedStore', 'store', store);
  const { concurrency } = checked('sharedStore', options, { concurrency: Infinity }, { concurrency: count });
  const made: SharedStore = {
    concurrency,
    ask: (question) => store.ask(question),
    correct: (corrections) => store.correct(corrections),
    hold: (scope, ms) => store.hold(scope, ms),
    share: (rates, of) => shared(made, rates, of),
  };
  return made;
}

/** Slots count as long as they are renewed at the store, as in a window in which they are granted anew. A job of more slots than there are takes all. */
function slotsOf(concurrency: number): SharedRule {
  return { unit: SLOTS, amount: concurrency, windowMs: SLOT_MS, burstMs: 0, isStrict: true, borrows: true };
}

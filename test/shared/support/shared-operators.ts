// The operators, with every rate of a limiter wrapped in `shared`, each limiter at a store of its own: `vitest.config.ts` gives it to the tests of the limiter.
import type { SchedulerLike } from 'rxjs';
import type {
  ChildLimiterOptions,
  KeyedLimiter,
  KeyedLimiterOptions,
  Limiter,
  LimiterOptions,
  RateRule,
} from '../../../operators/index.js';
import * as operators from '../../../operators/index.js';

export * from '../../../operators/index.js';

/** As short as it can be: a window counts for so much longer. */
const SHARED = { guardMs: 1, leastShare: 0 };

const schedulers = new WeakMap<Limiter, SchedulerLike | undefined>();

/** Other things than lists are for the limiter to refuse. */
function wrapped<O extends { readonly rates?: readonly RateRule[] }>(options: O, scheduler: SchedulerLike | undefined): O {
  const rates = Object(options) === options ? options.rates : undefined;
  if (!Array.isArray(rates) || rates.length === 0 || rates.some((rate) => typeof (rate as Partial<RateRule> | null)?.addTo !== 'function'))
    return options;
  const store = operators.memoryStore(scheduler && { scheduler });
  return { ...options, rates: operators.shared(store, rates, SHARED) };
}

export function createLimiter(options: LimiterOptions = {}): Limiter {
  // A test may pass options that are no object.
  const { scheduler } = Object(options) as LimiterOptions;
  const limiter = operators.createLimiter(wrapped(options, scheduler));
  schedulers.set(limiter, scheduler);
  return limiter;
}

export function childOf(limiter: Limiter, options: ChildLimiterOptions = {}): Limiter {
  const scheduler = schedulers.get(limiter);
  const child = operators.childOf(limiter, wrapped(options, scheduler));
  schedulers.set(child, scheduler);
  return child;
}

export function keyedLimiter(first: Limiter | (KeyedLimiterOptions & LimiterOptions), options?: KeyedLimiterOptions): KeyedLimiter {
  return options === undefined ? operators.keyedLimiter(first as LimiterOptions) : operators.keyedLimiter(first as Limiter, options);
}

import { Rates } from '../../kernel/limiter/rates.js';
import type { Charge } from '../../kernel/limits/limit.js';
import { ItemTooHeavyError } from '../../options/errors.js';
import type { Note } from '../../options/events.js';
import type { LimiterSettings } from './settings.js';
import { NAME } from './settings.js';

/** A limiter, as its rates and what learns of them see it. */
export interface RatedLimiter {
  readonly settings: LimiterSettings;
  readonly tell: ((note: Note) => void) | undefined;
  /** The error for a job that no rate will ever pay; set with the first rate. */
  tooHeavy: ((charge: Charge, lane: number) => Error | undefined) | undefined;
  /** Reads the clock. */
  now(): number;
  freed(isLater: boolean): void;
  penalize(pauseMs: number): void;
}

/** The rates of a limiter, made for the first of them. */
export function ratesOf(known: object | undefined, limiter: RatedLimiter): Rates {
  if (known) return known as Rates;
  const rates = new Rates(limiter.settings);
  limiter.tooHeavy = (charge, lane) => {
    const rate = rates.tooHeavyFor(charge, lane);
    return rate && new ItemTooHeavyError(NAME, rate.costOf(charge), rate.capacityOf(lane), rate.rule.unit);
  };
  return rates;
}

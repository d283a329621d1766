import type { Credit, CreditCorrections, CreditQuestion, CreditWait } from '../kernel/credit/credit.js';
import type { RateRule } from './limiter.js';
import type { WorkResult } from './types.js';

export type {
  Credit,
  CreditCorrection,
  CreditCorrections,
  CreditLimit,
  CreditQuestion,
  CreditWait,
} from '../kernel/credit/credit.js';
export type { SavedCredit } from '../kernel/credit/saved-credit.js';

/**
 * Where limits are kept that several processes share. A store has the only clock: all that is said to it and by it are durations. It may answer at once,
 * later or never; a limiter asks one question at a time, and asks an unanswered one again.
 * @beta
 */
export interface CreditStore {
  /** Asks for credit. The same `number` of one `owner` gets the same answer. */
  ask(question: CreditQuestion): WorkResult<Credit | CreditWait>;
  /** Changes what credits have cost. The same `number` of one `owner` is booked once. */
  correct(corrections: CreditCorrections): WorkResult<void>;
  /** Grants nothing in the scope for so many ms. A shorter pause never ends a longer one; one of 0 ends it. */
  hold(scope: string, ms: number): WorkResult<void>;
}

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
  /**
   * Most jobs at a time in all processes, a whole number >= 1, beside the `concurrency` of each. A slot is held until the job ends; one of a process that has died or stopped
   * is free again after about 5 s. @defaultValue the `concurrency` of the store, else Infinity: the slots of processes have nothing to do with each other
   */
  readonly concurrency?: number;
  /** How long credit is good for, in ms, > 0: a job may reach the provider so long after its question. Longer costs use: a window counts for so much longer. @defaultValue 200 */
  readonly guardMs?: number;
}

/**
 * What a store shares beside rates.
 * @beta
 */
export interface SharedStoreOptions {
  /** Most jobs at a time of all processes that name the same store, a whole number >= 1; see `SharedOptions`. @defaultValue Infinity */
  readonly concurrency?: number;
}

/**
 * A store that accounts take.
 * @beta
 */
export interface SharedStore extends CreditStore {
  /** Most jobs at a time of all processes that name the same store; `shared` keeps to it. @defaultValue Infinity */
  readonly concurrency?: number;
  /** The same as `shared(store, rates, options)`. */
  share(rates: readonly RateRule[], options?: SharedOptions): RateRule[];
}

import type { Credit, CreditCorrections, CreditQuestion, CreditWait } from '../kernel/credit/credit.js';
import type { WorkResult } from './types.js';

export type {
  Credit,
  CreditCorrection,
  CreditCorrections,
  CreditLimit,
  CreditQuestion,
  CreditWait,
} from '../kernel/credit/credit.js';

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

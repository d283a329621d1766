import type { CreditQuestion } from '../../../operators/index.js';

/** A question for a hundred of a limit of a thousand, but for what is said. */
export function questionOf(over: Partial<CreditQuestion> = {}): CreditQuestion {
  return {
    scope: 'account',
    owner: 'one',
    number: 1,
    limits: [{ key: 'tokens/1000/window/0', column: 0, amount: 1000, windowMs: 1000, fromLane: 0 }],
    guardMs: 100,
    lane: 0,
    floors: [0],
    least: [100],
    most: [100],
    epoch: 0,
    ...over,
  };
}

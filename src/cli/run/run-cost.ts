import type { Usage } from '../../../operators/index.js';
import type { ModelPrice, Reservation } from '../../pipelines/budget/budget-types.js';
import { billionths, priceOf, usdOf } from '../../pipelines/budget/prices.js';

type CallEnd = 'answered' | 'estimated' | 'failed';

/** What the calls of a run have cost: nothing for models without a price. In whole billionths of a USD, so that sums do not drift. */
export class RunCost {
  readonly #amounts = { answered: 0, estimated: 0, failed: 0 };

  /** Of all answers. */
  get costUsd(): number {
    return usdOf(this.#amounts.answered + this.#amounts.estimated);
  }

  /** Of those that do not say what they took, by the length of their texts. */
  get estimatedUsd(): number {
    return usdOf(this.#amounts.estimated);
  }

  /** The most that calls may have cost that failed or were cut off after they were sent. */
  get failedUsd(): number {
    return usdOf(this.#amounts.failed);
  }

  add(end: CallEnd, amount: number): void {
    this.#amounts[end] += amount;
  }
}

/** What one call is charged with, and how that is counted when it is over. A budget keeps the most that a call can have cost until the call says what it took. */
export class CallCost implements Reservation {
  /** How it ended. */
  end: CallEnd = 'failed';
  readonly #reservation: Reservation;
  readonly #price: ModelPrice | undefined;
  readonly #cost: RunCost;

  constructor(reservation: Reservation, price: ModelPrice | undefined, cost: RunCost) {
    this.#reservation = reservation;
    this.#price = price;
    this.#cost = cost;
  }

  get costUsd(): number | undefined {
    return this.#reservation.costUsd;
  }

  /** @param usage - what an answer says, or what it is estimated to have taken */
  settle(usage: Usage = {}): void {
    const isEstimated = this.end === 'estimated';
    this.#reservation.settle(isEstimated ? undefined : usage);
    const { inputTokens = 0, outputTokens = 0 } = usage;
    this.#cost.add(this.end, isEstimated ? priceOf(this.#price ?? {}, { inputTokens, outputTokens }) : billionths(this.costUsd ?? 0));
  }

  release(): void {
    this.#reservation.release();
  }
}

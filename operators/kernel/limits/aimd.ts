/** How a call ended that was made under a limit. Times are in ms, on one clock. */
export interface LimitSample {
  readonly startedAt: number;
  readonly endedAt: number;
  /** Calls under way when it ended, itself included. */
  readonly inFlight: number;
  /** `'dropped'` when the other side had too much to do. */
  readonly outcome: 'ok' | 'dropped';
}

/** A whole number of calls at a time, and how far it may move. */
export interface LimitRange {
  readonly initial: number;
  readonly min: number;
  readonly max: number;
}

/**
 * Additive increase, multiplicative decrease: finds out how many calls at a time another side takes.
 *
 * One more after as many good calls as the limit counts, made while at least half of it was in use: an unused limit has not been tested. A dropped
 * call multiplies it by `backoffRatio`, and then every call that had started by then is left out, good or bad: it was made under the old limit, so a
 * burst of refusals is one step. A good call that took no time was answered without the other side, and says nothing.
 */
export class Aimd {
  readonly #min: number;
  readonly #max: number;
  readonly #backoffRatio: number;
  #limit: number;
  /** Good calls since the limit changed. */
  #good = 0;
  #decreasedAt = -Infinity;

  /** `backoffRatio` is between 0 and 1. */
  constructor({ initial, min, max }: LimitRange, backoffRatio: number) {
    this.#limit = initial;
    this.#min = min;
    this.#max = max;
    this.#backoffRatio = backoffRatio;
  }

  get limit(): number {
    return this.#limit;
  }

  /** Answers the limit from now on. */
  add({ startedAt, endedAt, inFlight, outcome }: LimitSample): number {
    if (startedAt <= this.#decreasedAt) return this.#limit;
    if (outcome === 'dropped') {
      this.#decreasedAt = endedAt;
      this.#change(Math.max(this.#min, Math.floor(this.#limit * this.#backoffRatio)));
    } else if (endedAt > startedAt && 2 * inFlight >= this.#limit && ++this.#good >= this.#limit) {
      this.#change(Math.min(this.#max, this.#limit + 1));
    }
    return this.#limit;
  }

  #change(limit: number): void {
    this.#limit = limit;
    this.#good = 0;
  }
}

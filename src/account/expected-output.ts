/** Weight of the newest answer once several are known. */
const NEWEST = 0.1;
/** What is added to the mean, so that most answers are shorter than expected. */
const MARGIN = 1.1;
/** Share of `max_tokens` that is expected of a model of which no answer is known yet. */
const UNKNOWN_SHARE = 0.25;
/** A bound up to this many tokens is mostly made for the answer that is wanted. */
const SHORT = 1000;
/** Most models that are remembered; the one not used for longest is forgotten. */
const MOST_MODELS = 100;

interface Learned {
  answers: number;
  mean: number;
  /** Mean distance from the mean. */
  spread: number;
}

/**
 * How many tokens the answers of a model really have, learned from those that came: a mean in which older answers count less and less, with a tenth on
 * top and the mean distance from it. `max_tokens` only says what an answer may have.
 *
 * Source: smoothed mean and mean deviation as in RFC 6298 (retransmission timers of TCP).
 */
export class ExpectedOutput {
  readonly #models = new Map<string, Learned>();

  /** Tokens of the next answer, at most `bound`. Without a bound, of a model of which nothing is known, 0. */
  of(model: string, bound: number | undefined): number {
    const learned = this.#models.get(model);
    if (learned === undefined) return bound === undefined ? 0 : Math.min(bound, Math.max(SHORT, Math.ceil(bound * UNKNOWN_SHARE)));
    return Math.min(bound ?? Infinity, Math.ceil(learned.mean * MARGIN + learned.spread));
  }

  /** An answer that came to its end had so many tokens. */
  learn(model: string, outputTokens: number): void {
    const learned = this.#models.get(model) ?? { answers: 0, mean: outputTokens, spread: 0 };
    learned.answers++;
    const share = Math.max(NEWEST, 1 / learned.answers);
    learned.spread += share * (Math.abs(outputTokens - learned.mean) - learned.spread);
    learned.mean += share * (outputTokens - learned.mean);
    this.#models.delete(model);
    this.#models.set(model, learned);
    if (this.#models.size <= MOST_MODELS) return;
    const [oldest] = this.#models.keys();
    this.#models.delete(oldest as string);
  }
}

import { isWithinBudget } from '../../kernel/repair/backoff.js';
import { isAmount } from '../../options/answers.js';
import { FlowConfigError } from '../../options/errors.js';

const SIZE = 100;

/**
 * What calls to one backend have taken, for the delay and the budget of `hedge`. Give the same one to every `hedge` that calls the same
 * backend: the more it has seen, the better the default delay.
 *
 * @example
 * ```ts
 * import { HedgeStats } from 'sluice/operators';
 *
 * const stats = new HedgeStats();
 * for (let ms = 1; ms <= 200; ms++) stats.record(ms);
 * stats.p95Ms; // => 195
 * ```
 */
export class HedgeStats {
  readonly #times: number[] = [];
  /** Where the next time goes, once there are enough. */
  #next = 0;
  #hedging = 0;
  #calls = 0;

  /**
   * Remembers how long an attempt took, in ms; the last 100 count.
   *
   * @throws FlowConfigError when it is no finite number >= 0
   */
  record(latencyMs: number): void {
    if (!isAmount(latencyMs) || latencyMs === Infinity)
      throw new FlowConfigError('HedgeStats', 'latencyMs', 'a finite number of milliseconds >= 0', latencyMs);
    this.#times[this.#next] = latencyMs;
    this.#next = (this.#next + 1) % SIZE;
  }

  /** What 95 of 100 attempts did not exceed, in ms (nearest rank); 0 before the first. */
  get p95Ms(): number {
    const sorted = [...this.#times].sort((a, b) => a - b);
    return sorted[Math.ceil(sorted.length * 0.95) - 1] ?? 0;
  }

  /** Hedges under way. */
  get hedging(): number {
    return this.#hedging;
  }

  /** Calls under way, each with all its attempts. */
  get calling(): number {
    return this.#calls;
  }

  /** Called by `hedge` when a call begins; the returned function tells that it is over. */
  begin(): () => void {
    this.#calls += 1;
    return () => {
      this.#calls -= 1;
    };
  }

  /** Called by `hedge`: takes one hedge when no more than `share` of the calls under way (and 3 in any case) are being hedged. */
  tryHedge(share: number): boolean {
    if (!isWithinBudget(this.#hedging, this.#calls, share)) return false;
    this.#hedging += 1;
    return true;
  }

  /** Called by `hedge` when a hedge is over. */
  endHedge(): void {
    this.#hedging -= 1;
  }
}

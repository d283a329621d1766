import type { AttemptMetrics } from './attempt-stats.js';
import { AttemptStats } from './attempt-stats.js';
import type { CallRecord } from './call-record.js';
import type { Distribution } from './histogram.js';
import { Histogram } from './histogram.js';

/** What records of calls add up to. */
export interface CallMetrics extends AttemptMetrics {
  /** How long attempts waited for their permits. */
  readonly queuedMs: Distribution;
  /** As the provider counted them; attempts it said nothing about are left out. */
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** What budgets were charged, in USD; attempts without a budget or a price are left out. */
  readonly costUsd: number;
}

const BILLION = 1e9;

/** Adds up {@link CallRecord}s. */
export class CallStats {
  readonly #attempts: AttemptStats;
  readonly #queued = new Histogram();
  #promptTokens = 0;
  #completionTokens = 0;
  /** In billionths of a USD: budgets count so, and whole numbers add up exactly. */
  #cost = 0;

  constructor(maxCodes: number) {
    this.#attempts = new AttemptStats(maxCodes);
  }

  add({ status, errorCode, attempt, latencyMs, queuedMs, promptTokens, completionTokens, costUsd }: CallRecord): void {
    const end = status === 'success' ? 'ok' : status === 'cancelled' ? 'cancelled' : { code: errorCode ?? status };
    this.#attempts.add(end, attempt, latencyMs);
    this.#queued.add(queuedMs);
    this.#promptTokens += promptTokens ?? 0;
    this.#completionTokens += completionTokens ?? 0;
    this.#cost += Math.round((costUsd ?? 0) * BILLION);
  }

  /** Takes all that another one was given. */
  merge(other: CallStats): void {
    this.#attempts.merge(other.#attempts);
    this.#queued.merge(other.#queued);
    this.#promptTokens += other.#promptTokens;
    this.#completionTokens += other.#completionTokens;
    this.#cost += other.#cost;
  }

  snapshot(): CallMetrics {
    return {
      ...this.#attempts.snapshot(),
      queuedMs: this.#queued.distribution(),
      promptTokens: this.#promptTokens,
      completionTokens: this.#completionTokens,
      costUsd: this.#cost / BILLION,
    };
  }
}

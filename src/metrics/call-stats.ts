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
}

/** Adds up {@link CallRecord}s. */
export class CallStats {
  readonly #attempts: AttemptStats;
  readonly #queued = new Histogram();
  #promptTokens = 0;
  #completionTokens = 0;

  constructor(maxCodes: number) {
    this.#attempts = new AttemptStats(maxCodes);
  }

  add({ status, errorCode, attempt, latencyMs, queuedMs, promptTokens, completionTokens }: CallRecord): void {
    const end = status === 'success' ? 'ok' : status === 'cancelled' ? 'cancelled' : { code: errorCode ?? status };
    this.#attempts.add(end, attempt, latencyMs);
    this.#queued.add(queuedMs);
    this.#promptTokens += promptTokens ?? 0;
    this.#completionTokens += completionTokens ?? 0;
  }

  /** Takes all that another one was given. */
  merge(other: CallStats): void {
    this.#attempts.merge(other.#attempts);
    this.#queued.merge(other.#queued);
    this.#promptTokens += other.#promptTokens;
    this.#completionTokens += other.#completionTokens;
  }

  snapshot(): CallMetrics {
    return {
      ...this.#attempts.snapshot(),
      queuedMs: this.#queued.distribution(),
      promptTokens: this.#promptTokens,
      completionTokens: this.#completionTokens,
    };
  }
}

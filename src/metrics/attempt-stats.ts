import type { Distribution } from './histogram.js';
import { Histogram } from './histogram.js';
import { Labels } from './labels.js';

/** How many failures of one kind, and their share of the attempts that ended by themselves. */
export interface FailureCount {
  readonly count: number;
  readonly rate: number;
}

/** Attempts that are over. */
export interface AttemptMetrics {
  /** All of them, those that were cancelled included. */
  readonly attempts: number;
  /** Those that were not the first of their call. */
  readonly retries: number;
  /** `retries` as a share of `attempts`. */
  readonly retryRate: number;
  readonly failures: number;
  /** `failures` as a share of the attempts that were not cancelled. */
  readonly failureRate: number;
  /** The same by error code or class. */
  readonly byCode: Readonly<Record<string, FailureCount>>;
  /** Attempts whose caller left; these are not failures. */
  readonly cancelled: number;
  /** Of the attempts that were not cancelled. */
  readonly latencyMs: Distribution;
}

/** How an attempt ended: well, cancelled because its caller left, or with an error code. */
export type AttemptEnd = 'ok' | 'cancelled' | { readonly code: string };

/** Adds up attempts. */
export class AttemptStats {
  readonly #latency = new Histogram();
  readonly #codes: Labels<{ count: number }>;
  #ended = 0;
  #retries = 0;
  #failures = 0;
  #cancelled = 0;

  /** @param maxCodes - most codes that are told apart */
  constructor(maxCodes: number) {
    this.#codes = new Labels(maxCodes, () => ({ count: 0 }));
  }

  add(end: AttemptEnd, attempt: number, latencyMs: number): void {
    if (attempt > 1) this.#retries++;
    if (end === 'cancelled') {
      this.#cancelled++;
      return;
    }
    this.#ended++;
    this.#latency.add(latencyMs);
    if (end === 'ok') return;
    this.#failures++;
    this.#codes.of(end.code).count++;
  }

  /** Takes all that another one was given. */
  merge(other: AttemptStats): void {
    this.#ended += other.#ended;
    this.#retries += other.#retries;
    this.#failures += other.#failures;
    this.#cancelled += other.#cancelled;
    this.#latency.merge(other.#latency);
    for (const [code, { count }] of other.#codes) this.#codes.of(code).count += count;
  }

  snapshot(): AttemptMetrics {
    const ended = this.#ended;
    const attempts = ended + this.#cancelled;
    return {
      attempts,
      retries: this.#retries,
      retryRate: share(this.#retries, attempts),
      failures: this.#failures,
      failureRate: share(this.#failures, ended),
      byCode: this.#codes.record(({ count }) => ({ count, rate: share(count, ended) })),
      cancelled: this.#cancelled,
      latencyMs: this.#latency.distribution(),
    };
  }
}

function share(part: number, whole: number): number {
  return whole === 0 ? 0 : part / whole;
}

import { Quantiles } from './quantiles.js';

/** What is known of many measurements: how many, and how they are spread. Zeros when there were none. */
export interface Distribution {
  readonly count: number;
  readonly mean: number;
  readonly max: number;
  /** What half of them did not exceed, at most 2 % off; so are the other two. */
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
}

/** Quantiles of measurements, and their mean and the largest, which are exact. */
export class Histogram extends Quantiles {
  #sum = 0;

  override add(value: number): void {
    const before = this.count;
    super.add(value);
    if (this.count > before) this.#sum += value;
  }

  /** Takes all that another one was given. */
  merge(other: Histogram): void {
    this.count += other.count;
    this.#sum += other.#sum;
    this.min = Math.min(this.min, other.min);
    this.max = Math.max(this.max, other.max);
    if (other.counts === undefined) return;
    this.counts ??= new Uint32Array(other.counts.length);
    for (const [bucket, inside] of other.counts.entries()) (this.counts[bucket] as number) += inside;
  }

  distribution(): Distribution {
    return {
      count: this.count,
      mean: this.count === 0 ? 0 : this.#sum / this.count,
      max: this.max,
      p50: this.quantile(0.5),
      p95: this.quantile(0.95),
      p99: this.quantile(0.99),
    };
  }
}

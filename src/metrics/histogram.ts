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

/** Most that a percentile is off, as a share of the true value. */
export const RELATIVE_ERROR = 0.02;

const GROWTH = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR);
const LOG_GROWTH = Math.log(GROWTH);
/** Between these two the error holds; in milliseconds that is a microsecond to eleven days. */
const LEAST = 0.001;
const MOST = 1e9;
const BUCKETS = Math.ceil(Math.log(MOST / LEAST) / LOG_GROWTH) + 1;

/**
 * Counts measurements in buckets, each wider than the one below by the same share: percentiles of any number of measurements from
 * 2.8 kB, each at most {@link RELATIVE_ERROR} off. What is below a thousandth counts as 0, what is above 1e9 as 1e9. The mean and the
 * largest are exact, and no percentile is outside of what was measured.
 */
export class Histogram {
  /** Made with the first measurement. */
  #counts: Uint32Array | undefined;
  #zeros = 0;
  #count = 0;
  #sum = 0;
  #min = Infinity;
  #max = 0;

  get count(): number {
    return this.#count;
  }

  /** Takes any number; what is none, or negative, or infinite, is left out. */
  add(value: number): void {
    if (!(value >= 0 && value < Infinity)) return;
    this.#count++;
    this.#sum += value;
    if (value > this.#max) this.#max = value;
    if (value < this.#min) this.#min = value;
    if (value < LEAST) this.#zeros++;
    else ((this.#counts ??= new Uint32Array(BUCKETS))[bucketOf(value)] as number)++;
  }

  /** Takes all that another one was given. */
  merge(other: Histogram): void {
    this.#count += other.#count;
    this.#sum += other.#sum;
    this.#zeros += other.#zeros;
    this.#min = Math.min(this.#min, other.#min);
    this.#max = Math.max(this.#max, other.#max);
    if (other.#counts === undefined) return;
    this.#counts ??= new Uint32Array(BUCKETS);
    for (let bucket = 0; bucket < BUCKETS; bucket++) (this.#counts[bucket] as number) += other.#counts[bucket] as number;
  }

  /** What a share of the measurements did not exceed (nearest rank); 0 when there were none. */
  quantile(share: number): number {
    let left = Math.max(1, Math.ceil(share * this.#count)) - this.#zeros;
    if (left <= 0 || this.#counts === undefined) return 0;
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      left -= this.#counts[bucket] as number;
      if (left <= 0) return Math.max(this.#min, Math.min(middleOf(bucket), this.#max));
    }
    return this.#max;
  }

  distribution(): Distribution {
    return {
      count: this.#count,
      mean: this.#count === 0 ? 0 : this.#sum / this.#count,
      max: this.#max,
      p50: this.quantile(0.5),
      p95: this.quantile(0.95),
      p99: this.quantile(0.99),
    };
  }
}

function bucketOf(value: number): number {
  return Math.ceil(Math.log(Math.min(value, MOST) / LEAST) / LOG_GROWTH);
}

/** As far, by share, from the lower end of the bucket as from its upper end. */
function middleOf(bucket: number): number {
  return (2 * LEAST * GROWTH ** bucket) / (GROWTH + 1);
}

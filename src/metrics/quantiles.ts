/** Most that a quantile is off, as a share of the true value. */
export const RELATIVE_ERROR = 0.02;

const GROWTH = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR);
const LOG_GROWTH = Math.log(GROWTH);
/** Between these two the error holds; in milliseconds that is a microsecond to eleven days. */
const LEAST = 0.001;
const MOST = 1e9;

/**
 * Counts measurements in buckets, each wider than the one below by the same share: quantiles of any number of measurements from
 * 2.8 kB, each at most {@link RELATIVE_ERROR} off. What is below a thousandth counts as 0, what is above 1e9 as 1e9. No quantile is outside of what was
 * measured.
 */
export class Quantiles {
  /** Made with the first measurement. */
  protected counts: Uint32Array | undefined;
  protected count = 0;
  protected min = Infinity;
  protected max = 0;

  /** Adds a number; NaN, negative and infinite values are left out. */
  add(value: number): void {
    if (!(value >= 0 && value < Infinity)) return;
    this.count++;
    this.max = Math.max(this.max, value);
    this.min = Math.min(this.min, value);
    ((this.counts ??= new Uint32Array(bucketOf(MOST) + 1))[bucketOf(value)] as number)++;
  }

  /** What a share of the measurements did not exceed (nearest rank); 0 when there were none. */
  quantile(share: number): number {
    const { counts, min, max } = this;
    let left = Math.max(1, Math.ceil(share * this.count));
    const bucket = counts?.findIndex((inside) => (left -= inside) <= 0) ?? 0;
    // As far, by share, from the lower end of the bucket as from its upper end.
    return bucket > 0 ? Math.max(min, Math.min((2 * LEAST * GROWTH ** (bucket - 1)) / (GROWTH + 1), max)) : 0;
  }
}

/** The first is for all below the least. */
function bucketOf(value: number): number {
  return value < LEAST ? 0 : 1 + Math.ceil(Math.log(Math.min(value, MOST) / LEAST) / LOG_GROWTH);
}

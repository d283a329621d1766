import type { Meter } from './limit.js';

/** A cost within this of the level is payable: refills are sums of fractions. */
const EPSILON = 1e-6;

/** So is one that will be payable within a microsecond: no clock is finer, and a time since 1970 has a quarter of that as its smallest step. */
const EARLY_MS = 0.001;

/**
 * A token bucket refilled lazily, when it is looked at. It may go into debt: a cost above its capacity is payable when the
 * bucket is full, and a corrected estimate may cost more than is left. Debt is paid off before anything else is.
 *
 * Source: token bucket / leaky bucket as a meter (ITU-T I.371); debt as in GCRA's virtual scheduling.
 */
export class TokenBucket implements Meter {
  private perMs = 0;
  private most = Infinity;
  private saved = Infinity;
  private at: number;

  /** Starts full. `perMinute` is the refill rate, `capacity` the most that can be saved up. */
  constructor(perMinute: number, capacity: number, now: number) {
    this.at = now;
    this.resize(perMinute, capacity, now);
  }

  get capacity(): number {
    return this.most;
  }

  /** What is saved up; negative in debt. */
  level(now: number): number {
    this.refill(now);
    return this.saved;
  }

  /**
   * When the cost can be paid if nothing else is paid before; `now` when it can be already. A cost above the capacity is payable
   * when the bucket is full, one of 0 when there is no debt.
   */
  payableAt(cost: number, now: number): number {
    const missing = this.missing(cost, now);
    return missing <= 0 ? now : now + missing / this.perMs;
  }

  fullAt(now: number): number {
    return this.payableAt(this.most, now);
  }

  /** Pays without asking; the level may become negative. A negative cost is a refund, which never lifts the level above the capacity. */
  pay(cost: number, now: number): void {
    this.refill(now);
    this.saved = Math.min(this.most, this.saved - cost);
  }

  /** Changes what was paid earlier. When that was makes no difference here: what is given back now lifts the level now. */
  correct(delta: number, _paidAt: number, now: number): void {
    this.pay(delta, now);
  }

  /** Changes rate and capacity; what is saved up beyond the new capacity is lost, debt stays. */
  resize(perMinute: number, capacity: number, now: number): void {
    this.refill(now);
    this.perMs = perMinute / 60_000;
    this.most = capacity;
    this.saved = Math.min(this.saved, capacity);
  }

  save(now: number): readonly number[] {
    return [this.level(now)];
  }

  /** Goes on from what was saved so long ago. */
  load([level = this.most]: readonly number[], elapsedMs: number, now: number): void {
    this.saved = Math.min(this.most, level + elapsedMs * this.perMs);
    this.at = now;
  }

  /** What has to come in before the cost can be paid; 0 or less when it can be. */
  private missing(cost: number, now: number): number {
    const missing = Math.min(cost, this.most) - this.level(now);
    return missing <= Math.max(EPSILON, this.perMs * EARLY_MS) ? 0 : missing;
  }

  private refill(now: number): void {
    if (now > this.at) this.saved = Math.min(this.most, this.saved + (now - this.at) * this.perMs);
    this.at = now;
  }
}

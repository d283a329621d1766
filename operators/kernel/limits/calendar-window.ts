import type { Meter } from './limit.js';

/** A cost within this of the level is payable: sums of fractions round. */
const EPSILON = 1e-6;

/**
 * Windows that follow each other on a calendar, such as days: the whole capacity may be spent in each, and nothing is carried over, neither what was
 * saved nor a debt. Times that are passed in never go back.
 */
export class CalendarWindow implements Meter {
  private most = Infinity;
  private used = 0;
  private startedAt: number;
  private endsAt: number;
  private readonly endOf: (at: number) => number;

  /** Starts unspent. `endOf` answers when the window ends that contains a time. */
  constructor(capacity: number, now: number, endOf: (at: number) => number) {
    this.most = capacity;
    this.endOf = endOf;
    this.startedAt = now;
    this.endsAt = endOf(now);
  }

  get capacity(): number {
    return this.most;
  }

  level(now: number): number {
    this.turn(now);
    return this.most - this.used;
  }

  /** A cost above the capacity is payable when nothing is spent, one of 0 when there is no debt. */
  payableAt(cost: number, now: number): number {
    return Math.min(cost, this.most) - this.level(now) <= EPSILON ? now : this.endsAt;
  }

  fullAt(now: number): number {
    this.turn(now);
    return this.used > 0 ? this.endsAt : now;
  }

  pay(cost: number, now: number): void {
    this.turn(now);
    this.used = Math.max(0, this.used + cost);
  }

  /** Nothing changes when the window in which it was paid is over. */
  correct(delta: number, paidAt: number, now: number): void {
    this.turn(now);
    if (paidAt >= this.startedAt) this.pay(delta, now);
  }

  /** What was spent stays spent. */
  resize(_perMinute: number, capacity: number): void {
    this.most = capacity;
  }

  save(now: number): readonly number[] {
    this.turn(now);
    return [this.used];
  }

  /** What was spent still counts when it was saved in this window. */
  load([used = 0]: readonly number[], elapsedMs: number, now: number): void {
    this.turn(now);
    const savedAt = now - elapsedMs;
    const isThisOne = this.endOf(savedAt) >= this.endsAt;
    this.used = isThisOne ? used : 0;
    if (isThisOne) this.startedAt = Math.min(this.startedAt, savedAt);
  }

  private turn(now: number): void {
    if (now < this.endsAt) return;
    this.startedAt = this.endsAt;
    this.endsAt = this.endOf(now);
    this.used = 0;
  }
}

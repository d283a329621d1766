/* oxlint-disable no-restricted-imports -- the meters of reserves are not exported */
import type { Meter } from '../../operators/kernel/limits/limit.js';

/** The simplest meter of windows that follow each other: all of the capacity in each, nothing carried over. */
export class FixedWindow implements Meter {
  /** When the window ends that contains a time. */
  static endOf(windowMs: number): (at: number) => number {
    return (at) => (Math.floor(at / windowMs) + 1) * windowMs;
  }

  private endsAt: number;
  private used = 0;

  constructor(
    private readonly windowMs: number,
    public capacity: number,
    now: number,
  ) {
    this.endsAt = FixedWindow.endOf(windowMs)(now);
  }

  level(now: number): number {
    if (now >= this.endsAt) {
      this.endsAt = FixedWindow.endOf(this.windowMs)(now);
      this.used = 0;
    }
    return this.capacity - this.used;
  }

  canPay(cost: number, now: number): boolean {
    return Math.min(cost, this.capacity) <= this.level(now) + 1e-6;
  }

  payableAt(cost: number, now: number): number {
    return this.canPay(cost, now) ? now : this.endsAt;
  }

  fullAt(now: number): number {
    return this.level(now) === this.capacity ? now : this.endsAt;
  }

  pay(cost: number, now: number): void {
    this.level(now);
    this.used = Math.max(0, this.used + cost);
  }

  correct(delta: number, paidAt: number, now: number): void {
    this.level(now);
    if (paidAt >= this.endsAt - this.windowMs) this.pay(delta, now);
  }

  resize(_perMinute: number, capacity: number): void {
    this.capacity = capacity;
  }

  save(now: number): readonly number[] {
    return [this.capacity - this.level(now)];
  }

  load([used = 0]: readonly number[]): void {
    this.used = used;
  }
}

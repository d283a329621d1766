import type { SharedRate } from '../../kernel/credit/credit-limits.js';
import type { Meter } from '../../kernel/limits/limit.js';

/** The credit that meters pay with. */
export interface MeteredCredit {
  /** What one question would bring at once. */
  level(meter: CreditMeter, now: number, lane?: number): number;
  /** What the store has left. */
  leftOf(meter: CreditMeter): number;
  payableAt(meter: CreditMeter, cost: number, now: number, lane?: number): number;
  /** Whether it is the one of several rates of a unit that pays. */
  isFirst(meter: CreditMeter): boolean;
  pay(column: number, cost: number, now: number, lane?: number): void;
  correct(column: number, delta: number, paidAt: number, now: number, lane?: number): void;
  /** The amount of the rate is another one. */
  resized(): void;
  /** The same, as a response has told. */
  learned(meter: CreditMeter): void;
}

/** One of the rates of a limiter that are paid with credit. */
export class CreditMeter implements Meter {
  readonly isShared = true;
  /** Most in one window. */
  amount = 0;
  capacity = 0;

  constructor(
    readonly line: MeteredCredit,
    readonly rate: SharedRate,
    readonly column: number,
  ) {}

  level(now: number, lane?: number): number {
    return this.line.level(this, now, lane);
  }

  payableAt(cost: number, now: number, lane?: number): number {
    return this.line.payableAt(this, cost, now, lane);
  }

  fullAt(now: number): number {
    return now;
  }

  pay(cost: number, now: number, lane?: number): void {
    if (this.line.isFirst(this)) this.line.pay(this.column, cost, now, lane);
  }

  correct(delta: number, paidAt: number, now: number, lane?: number): void {
    if (this.line.isFirst(this)) this.line.correct(this.column, delta, paidAt, now, lane);
  }

  resize(perMinute: number, capacity: number, _now: number, isLearned = false): void {
    const amount = (perMinute * this.rate.windowMs) / 60_000;
    const before = this.amount;
    this.amount = amount;
    this.capacity = capacity;
    if (amount !== before) this.line.resized();
    // What was configured is a matter of this limiter.
    if (isLearned && amount !== before) this.line.learned(this);
  }

  save(): readonly number[] {
    return [];
  }

  load(): void {
    // The store remembers.
  }

  loadOf(): number {
    return 1 - Math.max(0, Math.min(1, this.line.leftOf(this) / this.amount));
  }

  lower(): void {
    // What is left, the store knows.
  }
}

import type { Meter } from './limit.js';

/** Sums of fractions round: less than this is nothing. */
const EPSILON = 1e-6;

/** So does a time since 1970. */
const EARLY_MS = 0.001;

/**
 * A window on a calendar, such as a day, of which each lane with a reserve keeps a share from the lanes below it: at every moment its share of what the
 * rest of the window is worth. Lower lanes may take the rest at once, and what of the reserve is not used as the window goes by.
 */
export class ReservedDay implements Meter {
  private readonly day: Meter;
  private readonly windowMs: number;
  private readonly endOf: (at: number) => number;
  private endsAt: number;
  /** What all lanes above one keep together, by lane. */
  private readonly above: readonly number[];

  /** @param shares - of the amount, by lane  @param day - counts what is spent in the window */
  constructor(shares: readonly number[], windowMs: number, day: Meter, endOf: (at: number) => number, now: number) {
    let sum = 0;
    this.above = [0, ...shares.map((share) => (sum += share))];
    this.windowMs = windowMs;
    this.day = day;
    this.endOf = endOf;
    this.endsAt = endOf(now);
  }

  get capacity(): number {
    return this.day.capacity;
  }

  capacityOf(lane: number): number {
    return this.capacity * (1 - this.shareAbove(lane));
  }

  level(now: number, lane = 0): number {
    return this.day.level(now) - this.keptFrom(lane, now);
  }

  loadOf(now: number): number {
    return 1 - this.level(now, Infinity) / this.capacityOf(Infinity);
  }

  payableAt(cost: number, now: number, lane = 0): number {
    // One that is heavier than what the lane can have goes when that is there.
    const least = Math.min(cost, this.capacityOf(lane));
    const level = this.day.level(now);
    const inDay = this.day.payableAt(least, now);
    // In another window: all of it is there then, and a lane may have at least `least`.
    if (inDay > now) return inDay;
    if (this.level(now, lane) >= least - EPSILON) return now;
    const at = this.endsAt - ((level - least) * this.windowMs) / (this.shareAbove(lane) * this.capacity);
    return at <= now + EARLY_MS ? now : at;
  }

  fullAt(now: number): number {
    return this.day.fullAt(now);
  }

  pay(cost: number, now: number): void {
    this.day.pay(cost, now);
  }

  correct(delta: number, paidAt: number, now: number): void {
    this.day.correct(delta, paidAt, now);
  }

  resize(perMinute: number, capacity: number, now: number): void {
    this.day.resize(perMinute, capacity, now);
  }

  save(now: number): readonly number[] {
    return this.day.save(now);
  }

  load(saved: readonly number[], elapsedMs: number, now: number): void {
    this.day.load(saved, elapsedMs, now);
  }

  /** What the lanes above this one keep of the rest of the window. */
  private keptFrom(lane: number, now: number): number {
    if (now >= this.endsAt) this.endsAt = this.endOf(now);
    const left = Math.min(1, Math.max(0, this.endsAt - now) / this.windowMs);
    return this.shareAbove(lane) * this.capacity * left;
  }

  private shareAbove(lane: number): number {
    return this.above[Math.min(lane, this.above.length - 1)] as number;
  }
}

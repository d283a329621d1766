import type { Meter } from './limit.js';
import { TokenBucket } from './token-bucket.js';

const MINUTE_MS = 60_000;

/** Sums of fractions round: less than this is nothing. */
const EPSILON = 1e-6;

/**
 * A token bucket beside which each lane with a reserve has a smaller one of its own. All lanes pay from the common bucket; one that has a reserve, when
 * that is empty, pays from its own and from those of less urgent lanes. What comes in fills the reserves first, the most urgent one before the others: a
 * reserve that was not used costs the other lanes nothing. Debt is the common bucket's.
 */
export class ReservedBucket implements Meter {
  private readonly common: TokenBucket;
  private readonly shares: readonly number[];
  private readonly windowMs: number;
  private perMs: number;
  /** Most in each reserve, and what is in it. */
  private rooms: number[];
  private readonly kept: number[];
  private at: number;

  /** Starts full. @param shares - of the amount of one window, by lane */
  constructor(shares: readonly number[], windowMs: number, perMinute: number, capacity: number, now: number) {
    this.common = new TokenBucket(perMinute, capacity, now);
    this.shares = shares;
    this.windowMs = windowMs;
    this.perMs = perMinute / MINUTE_MS;
    this.rooms = this.roomsOf(perMinute);
    this.kept = [...this.rooms];
    this.at = now;
  }

  get capacity(): number {
    return this.common.capacity + sumFrom(this.rooms, 0);
  }

  level(now: number): number {
    this.refill(now);
    return this.common.level(now) + sumFrom(this.kept, 0);
  }

  canPay(cost: number, now: number, lane = 0): boolean {
    return this.payableAt(cost, now, lane) <= now;
  }

  payableAt(cost: number, now: number, lane = 0): number {
    this.refill(now);
    const level = this.common.level(now);
    const own = sumFrom(this.kept, lane);
    // A cost of 0 waits for the end of a debt where there is no reserve, as in a bucket alone.
    const missing = Math.min(cost, this.common.capacity + sumFrom(this.rooms, lane)) - own - Math.max(0, level);
    const debt = Math.max(0, -level);
    if (missing <= EPSILON && (debt <= EPSILON || own > 0)) return now;
    const unfilled = sumFrom(this.rooms, 0) - sumFrom(this.kept, 0);
    const ownUnfilled = sumFrom(this.rooms, lane) - own;
    const fromReserve = ownUnfilled > 0 && missing <= ownUnfilled;
    const tokens = unfilled - ownUnfilled + missing + (fromReserve ? 0 : debt);
    return now + tokens / this.perMs;
  }

  fullAt(now: number): number {
    const missing = this.capacity - this.level(now);
    return missing <= EPSILON ? now : now + missing / this.perMs;
  }

  pay(cost: number, now: number, lane = 0): void {
    this.refill(now);
    if (cost < 0) {
      this.give(-cost, now);
      return;
    }
    const fromCommon = Math.min(cost, Math.max(0, this.common.level(now)));
    let left = cost - fromCommon;
    for (let i = this.kept.length - 1; i >= lane; i--) {
      const taken = Math.min(left, this.kept[i] as number);
      (this.kept[i] as number) -= taken;
      left -= taken;
    }
    this.common.pay(fromCommon + left, now);
  }

  correct(delta: number, _paidAt: number, now: number, lane = 0): void {
    this.pay(delta, now, lane);
  }

  resize(perMinute: number, capacity: number, now: number): void {
    this.refill(now);
    this.perMs = perMinute / MINUTE_MS;
    this.rooms = this.roomsOf(perMinute);
    for (const [i, room] of this.rooms.entries()) this.kept[i] = Math.min(this.kept[i] as number, room);
    this.common.resize(perMinute, capacity, now);
  }

  save(now: number): readonly number[] {
    this.refill(now);
    return [this.common.level(now), ...this.kept];
  }

  load([level = this.common.capacity, ...kept]: readonly number[], elapsedMs: number, now: number): void {
    for (const i of this.kept.keys()) this.kept[i] = Math.min(this.rooms[i] as number, kept[i] ?? 0);
    const moved = this.fill(elapsedMs * this.perMs);
    this.common.load([level - moved], elapsedMs, now);
    this.at = now;
  }

  private refill(now: number): void {
    if (now > this.at) {
      // At the time before: what goes to a reserve never was in the common bucket.
      const moved = this.fill((now - this.at) * this.perMs);
      if (moved > 0) this.common.pay(moved, this.at);
    }
    this.at = now;
  }

  private give(amount: number, now: number): void {
    this.common.pay(this.fill(amount) - amount, now);
  }

  /** Fills the reserves from an amount; answers how much of it they took. */
  private fill(amount: number): number {
    let left = amount;
    for (const [i, room] of this.rooms.entries()) {
      const taken = Math.min(left, room - (this.kept[i] as number));
      if (taken <= 0) continue;
      (this.kept[i] as number) += taken;
      left -= taken;
    }
    return amount - left;
  }

  private roomsOf(perMinute: number): number[] {
    return this.shares.map((share) => (share * perMinute * this.windowMs) / MINUTE_MS);
  }
}

function sumFrom(amounts: readonly number[], lane: number): number {
  let sum = 0;
  for (let i = lane; i < amounts.length; i++) sum += amounts[i] as number;
  return sum;
}

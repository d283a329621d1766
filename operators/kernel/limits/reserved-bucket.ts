import type { Meter } from './limit.js';
import { TokenBucket } from './token-bucket.js';

const MINUTE_MS = 60_000;

/** Sums of fractions round: less than this is nothing. */
const EPSILON = 1e-6;

/** A cost that will be payable within a microsecond is payable, as in a bucket without reserves. */
const EARLY_MS = 0.001;

/** Halvings of the time in which a cost becomes payable: days come down to less than a microsecond. */
const SEARCH_STEPS = 50;

/**
 * A token bucket beside which each lane with a reserve has a smaller one of its own. All lanes pay from the common bucket; one that has a reserve, when
 * that is empty, pays from its own and from those of less urgent lanes. Of what comes in, a reserve that is not full gets its share: it is full again after
 * one window, and one that was not used costs the other lanes nothing. Refunds fill the reserves first, and debt is the common bucket's.
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

  capacityOf(lane: number): number {
    return this.common.capacity + sumFrom(this.rooms, lane);
  }

  level(now: number, lane?: number): number {
    this.refill(now);
    const level = this.common.level(now);
    if (lane === undefined) return level + sumFrom(this.kept, 0);
    const own = sumFrom(this.kept, lane);
    // A debt is paid off from what comes in, not from a reserve.
    return own > 0 ? own + Math.max(0, level) : level;
  }

  loadOf(now: number): number {
    return 1 - this.level(now, Infinity) / this.common.capacity;
  }

  payableAt(cost: number, now: number, lane = 0): number {
    this.refill(now);
    const most = Math.min(cost, this.capacityOf(lane));
    const early = Math.max(EPSILON, this.perMs * EARLY_MS);
    if (this.isEnough(most - early, 0, lane, early)) return now;
    // Sums of large amounts round as well.
    const needed = most - EPSILON - most * Number.EPSILON * 8;
    // Enough grows with time, and everything is full at some time.
    let before = 0;
    let after = this.perMs * this.windowMs + this.common.capacity + Math.abs(this.common.level(now));
    while (!this.isEnough(needed, after, lane)) after *= 2;
    for (let i = 0; i < SEARCH_STEPS; i++) {
      const middle = (before + after) / 2;
      if (this.isEnough(needed, middle, lane)) after = middle;
      else before = middle;
    }
    return now + after / this.perMs;
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
    const moved = this.earn(elapsedMs * this.perMs);
    this.common.load([level - moved], elapsedMs, now);
    this.at = now;
  }

  private refill(now: number): void {
    if (now > this.at) {
      // At the time before: what goes to a reserve never was in the common bucket.
      const moved = this.earn((now - this.at) * this.perMs);
      if (moved > 0) this.common.pay(moved, this.at);
    }
    this.at = now;
  }

  /** Whether a lane would have so much after so much more has come in. */
  private isEnough(needed: number, more: number, lane: number, early = EPSILON): boolean {
    let own = 0;
    let moved = 0;
    for (const [i, room] of this.rooms.entries()) {
      const kept = this.kept[i] as number;
      const earned = Math.min(room - kept, more * (this.shares[i] as number));
      moved += earned;
      if (i >= lane) own += kept + earned;
    }
    const common = this.common.level(this.at) + more - moved;
    // A cost of 0 waits for the end of a debt where there is no reserve, as in a bucket alone.
    const isSolvent = common >= -early || own > 0;
    return isSolvent && own + Math.min(this.common.capacity, Math.max(0, common)) >= needed;
  }

  /** Each reserve gets its share of what has come in; answers how much they took. */
  private earn(amount: number): number {
    let moved = 0;
    for (const [i, room] of this.rooms.entries()) {
      const earned = Math.min(room - (this.kept[i] as number), amount * (this.shares[i] as number));
      (this.kept[i] as number) += earned;
      moved += earned;
    }
    return moved;
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

import type { CreditLimit } from './credit.js';
import { partMs, partsOf } from './credit.js';

/** Sums of fractions round: less than this is nothing. */
const EPSILON = 1e-6;

/** Where a window comes in evenly for a time only, most that is saved up, as a part of its amount. */
const EVEN_BURST = 0.01;

/**
 * One limit of a store: what was granted in each part of its window, and a bucket that spreads it. The parts make it exact: no window has more than the
 * amount, whatever is corrected later. The bucket makes it even, so that an urgent job finds something at any moment. A calendar window has one part.
 *
 * Source: sliding window counters, and a token bucket as pace.
 */
export class CountedWindow {
  /** What was granted in each part, in the order of the parts. */
  private parts = new Map<number, number>();
  private sum = 0;
  /** The latest part that it was told of: time does not go back. */
  private part = 0;
  /** What is saved up; undefined for all that can be. */
  private level: number | undefined;
  private levelAt: number;
  /** Until then also a window that may be spent at once comes in evenly. */
  private readonly evenUntil: number;
  /** Of a calendar window. */
  private endsAt = -Infinity;

  /**
   * @param isLost - what was granted before is not known. It begins with nothing saved up, and evenly: what was granted then and what is granted now keep to
   * the limit together
   */
  constructor(limit: CreditLimit, guardMs: number, now: number, isLost: boolean) {
    this.evenUntil = isLost ? now + partsOf(limit, guardMs) * partMs(limit.windowMs) : -Infinity;
    this.level = isLost ? 0 : undefined;
    this.levelAt = now;
  }

  /** Goes on to now: what has left the window is forgotten, and the bucket fills. */
  advance(limit: CreditLimit, guardMs: number, now: number): void {
    this.forget(limit, guardMs, now);
    if (this.parts.size === 0) this.sum = 0;
    const burst = this.burstOf(limit, now);
    this.level = Math.min(burst, (this.level ?? burst) + Math.max(0, now - this.levelAt) * perMs(limit, guardMs));
    this.levelAt = Math.max(this.levelAt, now);
  }

  /** What may be granted now. */
  room(limit: CreditLimit, now: number): number {
    return this.isEven(limit, now) ? Math.min(this.left(limit), this.level as number) : this.left(limit);
  }

  /** What the window has left, at whatever pace. */
  left({ amount }: CreditLimit): number {
    return amount - this.sum;
  }

  /**
   * In how many ms so much can be granted, and before it what is ahead; 0 for now. What is more than can be saved up, or than a window has, waits for as much as there
   * can be.
   */
  waitMs(limit: CreditLimit, guardMs: number, cost: number, ahead: number, now: number): number {
    const byWindow = this.windowWaitMs(limit, guardMs, Math.min(cost + ahead, limit.amount), now);
    if (!this.isEven(limit, now)) return byWindow;
    const burst = this.burstOf(limit, now);
    const level = this.level as number;
    if (Math.min(cost + ahead, burst) - level <= EPSILON) return byWindow;
    // Those ahead are served first, one after the other.
    return Math.max(byWindow, (Math.min(cost, burst) + ahead - level) / perMs(limit, guardMs));
  }

  grant(amount: number): void {
    this.change(this.part, amount);
    this.level = (this.level as number) - amount;
  }

  /** Changes what a credit of that time has cost. What has left the window changes nothing. */
  correct(limit: CreditLimit, guardMs: number, delta: number, at: number, now: number): void {
    const part = Math.min(this.part, this.partAt(limit, at));
    if (part < this.oldest(limit, guardMs)) return;
    this.change(part, delta);
    this.level = Math.min(this.burstOf(limit, now), (this.level as number) - delta);
  }

  private isEven({ burst, endsInMs }: CreditLimit, now: number): boolean {
    return endsInMs === undefined && (burst !== undefined || now < this.evenUntil);
  }

  /** Most that is saved up. */
  private burstOf({ amount, burst }: CreditLimit, now: number): number {
    return Math.min(amount, burst ?? (now < this.evenUntil ? amount * EVEN_BURST : amount));
  }

  /** The part of a time. Those of a calendar window are numbered by its ends. */
  private partAt({ endsInMs, windowMs }: CreditLimit, at: number): number {
    return endsInMs === undefined ? Math.floor(at / partMs(windowMs)) : at < this.endsAt - windowMs ? 0 : this.part;
  }

  private oldest(limit: CreditLimit, guardMs: number): number {
    return limit.endsInMs === undefined ? this.part - partsOf(limit, guardMs) + 1 : this.part;
  }

  private forget(limit: CreditLimit, guardMs: number, now: number): void {
    if (limit.endsInMs === undefined) this.part = Math.max(this.part, this.partAt(limit, now));
    else if (now >= this.endsAt) {
      this.part++;
      this.endsAt = now + limit.endsInMs;
    }
    const oldest = this.oldest(limit, guardMs);
    for (const [part, amount] of this.parts) {
      if (part >= oldest) break;
      this.sum -= amount;
      this.parts.delete(part);
    }
  }

  private windowWaitMs(limit: CreditLimit, guardMs: number, cost: number, now: number): number {
    const { amount, endsInMs, windowMs } = limit;
    let used = this.sum;
    if (used + cost <= amount + EPSILON) return 0;
    if (endsInMs !== undefined) return Math.max(1, this.endsAt - now);
    for (const [part, granted] of this.parts) {
      used -= granted;
      if (used + cost <= amount + EPSILON) return Math.max(1, (part + partsOf(limit, guardMs)) * partMs(windowMs) - now);
    }
    return windowMs;
  }

  /** What was granted in a part is never less than nothing. */
  private change(part: number, delta: number): void {
    const before = this.parts.get(part);
    const change = Math.max(delta, -(before ?? 0));
    this.sum += change;
    this.parts.set(part, (before ?? 0) + change);
    // One that had nothing, and is not the last: into its place.
    if (before === undefined && part < this.part) this.parts = new Map([...this.parts].sort(([one], [other]) => one - other));
  }
}

/** What comes in within a ms: the parts of the window and of the guard together have the amount. */
function perMs(limit: CreditLimit, guardMs: number): number {
  return limit.amount / (partsOf(limit, guardMs) * partMs(limit.windowMs));
}

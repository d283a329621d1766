import type { Meter } from './limit.js';
import { SlidingWindow } from './sliding-window.js';
import { TokenBucket } from './token-bucket.js';

/** Part of what lower lanes may spend in a window that they may spend at once. */
const BURST = 0.1;

/** What this lane and all below it may spend. */
interface Part {
  readonly lane: number;
  readonly share: number;
  readonly window: SlidingWindow;
  /** Spreads it over the window: what is spent in one moment also comes back in one, a whole window later. */
  readonly pace: TokenBucket;
}

/**
 * A sliding window of which each lane with a reserve keeps a share from the lanes below it, at every moment. In no span of one window do the lower lanes
 * spend more than the rest, nor much faster than evenly; the lane with the reserve may spend all that is left.
 */
export class ReservedWindow implements Meter {
  private readonly all: SlidingWindow;
  private readonly parts: readonly Part[];

  /** Starts empty. @param shares - of the amount, by lane */
  constructor(shares: readonly number[], perMinute: number, capacity: number, now: number) {
    this.all = new SlidingWindow(perMinute, capacity, now);
    const parts: Part[] = [];
    let share = 1;
    for (const [lane, reserve] of shares.entries()) {
      if (reserve === 0) continue;
      share -= reserve;
      const amount = capacity * share;
      const window = new SlidingWindow(perMinute * share, amount, now);
      parts.push({ lane: lane + 1, share, window, pace: new TokenBucket(perMinute * share, amount * BURST, now) });
    }
    this.parts = parts;
  }

  get capacity(): number {
    return this.all.capacity;
  }

  capacityOf(lane: number): number {
    return this.partsFor(lane).reduce((most, { window }) => Math.min(most, window.capacity), this.capacity);
  }

  level(now: number, lane = 0): number {
    return this.partsFor(lane).reduce(
      (least, { window, pace }) => Math.min(least, window.level(now), pace.level(now)),
      this.all.level(now),
    );
  }

  loadOf(now: number): number {
    return Math.max(...this.parts.map(({ window }) => 1 - window.level(now) / window.capacity));
  }

  /** What is left is that of the more urgent lanes, as far as it goes. */
  lower(most: number, now: number): void {
    const lowerWindow = (window: SlidingWindow, left: number): void => {
      const level = window.level(now);
      if (level > left) window.pay(level - left, now);
    };
    lowerWindow(this.all, most);
    for (const { share, window } of this.parts) lowerWindow(window, Math.max(0, most - (1 - share) * this.capacity));
  }

  canPay(cost: number, now: number, lane = 0): boolean {
    return this.payableAt(cost, now, lane) <= now;
  }

  payableAt(cost: number, now: number, lane = 0): number {
    let at = this.all.payableAt(cost, now);
    for (const { window, pace } of this.partsFor(lane)) at = Math.max(at, window.payableAt(cost, now), pace.payableAt(cost, now));
    return at;
  }

  fullAt(now: number): number {
    return this.all.fullAt(now);
  }

  pay(cost: number, now: number, lane = 0): void {
    this.all.pay(cost, now);
    for (const { window, pace } of this.partsFor(lane)) {
      window.pay(cost, now);
      pace.pay(cost, now);
    }
  }

  correct(delta: number, paidAt: number, now: number, lane = 0): void {
    this.all.correct(delta, paidAt, now);
    for (const { window, pace } of this.partsFor(lane)) {
      window.correct(delta, paidAt, now);
      pace.correct(delta, paidAt, now);
    }
  }

  resize(perMinute: number, capacity: number, now: number): void {
    this.all.resize(perMinute, capacity, now);
    for (const { pace, share, window } of this.parts) {
      window.resize(perMinute * share, capacity * share, now);
      pace.resize(perMinute * share, capacity * share * BURST, now);
    }
  }

  save(now: number): readonly number[] {
    return this.all.save(now);
  }

  /** Whose what was saved was is not known: it counts for all. */
  load(saved: readonly number[], elapsedMs: number, now: number): void {
    this.all.load(saved, elapsedMs, now);
    for (const { window } of this.parts) window.load(saved, elapsedMs, now);
  }

  /** The parts that a lane comes under. */
  private partsFor(lane: number): readonly Part[] {
    return this.parts.filter((part) => part.lane <= lane);
  }
}

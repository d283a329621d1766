import type { Meter } from './limit.js';
import { SlidingWindow } from './sliding-window.js';
import { TokenBucket } from './token-bucket.js';

/** Part of what lower lanes may spend in a window that they may spend at once. */
const BURST = 0.1;

/** Part of a reserve that is lent while nothing of it was used for a whole window. Once it is used, the lower lanes wait for so much to come back. */
const LENT = 0.25;

/** What this lane and all below it may spend. */
interface Part {
  readonly lane: number;
  readonly share: number;
  /** Share of the amount that is lent to it, of the reserve next above. */
  readonly loan: number;
  readonly window: SlidingWindow;
  /** Spreads it over the window: what is spent in one moment also comes back in one, a whole window later. */
  readonly pace: TokenBucket;
  /** When lanes above have spent something last. */
  usedAboveAt: number;
}

/**
 * A sliding window of which each lane with a reserve keeps a share from the lanes below it, at every moment. In no span of one window do the lower lanes
 * spend more than the rest, nor much faster than evenly; the lane with the reserve may spend all that is left. Of a reserve that was not used for a whole
 * window a quarter is lent, so that at least three quarters of it can be spent at once at any moment.
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
      const loan = reserve * LENT;
      const pace = new TokenBucket(perMinute * (share + loan), amount * BURST, now);
      parts.push({ lane: lane + 1, share, loan, window, pace, usedAboveAt: -Infinity });
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
      (least, part) => Math.min(least, part.window.level(now) + this.lent(part, now), part.pace.level(now)),
      this.all.level(now),
    );
  }

  loadOf(now: number): number {
    return Math.max(...this.parts.map((part) => 1 - (part.window.level(now) + this.lent(part, now)) / part.window.capacity));
  }

  /** What is left is that of the more urgent lanes, as far as it goes. */
  lower(most: number, now: number): void {
    const lowerWindow = (window: SlidingWindow, left: number): void => {
      const level = window.level(now);
      if (level > left) window.pay(level - left, now);
    };
    lowerWindow(this.all, most);
    for (const part of this.parts) {
      lowerWindow(part.window, Math.max(0, most - (1 - part.share) * this.capacity));
      // Others have spent it: nothing is lent of what is left.
      part.usedAboveAt = now;
    }
  }

  payableAt(cost: number, now: number, lane = 0): number {
    let at = this.all.payableAt(cost, now);
    for (const part of this.partsFor(lane)) at = Math.max(at, this.partPayableAt(part, cost, now), part.pace.payableAt(cost, now));
    return at;
  }

  fullAt(now: number): number {
    return this.all.fullAt(now);
  }

  pay(cost: number, now: number, lane = 0): void {
    this.all.pay(cost, now);
    this.noteUse(cost, now, lane);
    for (const { window, pace } of this.partsFor(lane)) {
      window.pay(cost, now);
      pace.pay(cost, now);
    }
  }

  correct(delta: number, paidAt: number, now: number, lane = 0): void {
    this.all.correct(delta, paidAt, now);
    this.noteUse(delta, now, lane);
    for (const { window, pace } of this.partsFor(lane)) {
      window.correct(delta, paidAt, now);
      pace.correct(delta, paidAt, now);
    }
  }

  resize(perMinute: number, capacity: number, now: number): void {
    this.all.resize(perMinute, capacity, now);
    for (const { loan, pace, share, window } of this.parts) {
      window.resize(perMinute * share, capacity * share, now);
      pace.resize(perMinute * (share + loan), capacity * share * BURST, now);
    }
  }

  save(now: number): readonly number[] {
    return this.all.save(now);
  }

  /** Whose what was saved was is not known: it counts for all. */
  load(saved: readonly number[], elapsedMs: number, now: number): void {
    this.all.load(saved, elapsedMs, now);
    for (const part of this.parts) {
      part.window.load(saved, elapsedMs, now);
      part.usedAboveAt = now;
    }
  }

  /** A lane has spent something: what comes under the lanes below it borrows nothing for a window. */
  private noteUse(cost: number, now: number, lane: number): void {
    if (cost > 0) for (const part of this.parts) if (lane < part.lane) part.usedAboveAt = now;
  }

  /** What a part may borrow now. */
  private lent({ loan, usedAboveAt }: Part, now: number): number {
    return now - usedAboveAt >= this.all.windowMs ? loan * this.capacity : 0;
  }

  /** By its window: with the loan as soon as there is one. */
  private partPayableAt(part: Part, cost: number, now: number): number {
    const { loan, usedAboveAt, window } = part;
    const own = window.payableAt(cost, now);
    if (own <= now) return own;
    const lendsAt = Math.max(now, usedAboveAt + this.all.windowMs);
    return Math.min(own, Math.max(lendsAt, window.payableAt(Math.min(cost, window.capacity) - loan * this.capacity, now)));
  }

  /** The parts that a lane comes under. */
  private partsFor(lane: number): readonly Part[] {
    return this.parts.filter((part) => part.lane <= lane);
  }
}

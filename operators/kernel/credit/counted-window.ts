import type { CreditLimit } from './credit.js';
import { partMs, partsOf } from './credit.js';

/** Sums of fractions round: less than this is nothing. */
const EPSILON = 1e-6;

/** Where a window comes in evenly for a time only, most that is saved up, as a part of its amount. */
const EVEN_BURST = 0.01;

/** While something waits, the bucket saves up so many parts more: what comes in because a question is late, or is given back, is not lost. */
const AWAITED_PARTS = 2;

/** An end that is later by more than this part of a window is the end of another window; by less, two clocks differ. */
const SAME_WINDOW = 0.5;

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
  /** The latest part that it was told of. */
  private part = 0;
  /** What was taken from the bucket and has not come in again, in amounts of the limit. So it means the same to processes whose amounts or bursts differ. */
  private debt = 0;
  private debtAt: number;
  /** Below 0 while something waits. */
  private leastDebt = 0;
  /** Until then also a window that may be spent at once comes in evenly. */
  private readonly evenUntil: number;
  /** The longest guard of the processes that use the limit, and when one of them last did. */
  private guardMs: number;
  private guardAt: number;

  // Of a calendar window.
  private endsAt = -Infinity;
  /** What was granted since then counts. */
  private countsFrom = -Infinity;
  /** What was granted so late that it may be spent in the next window, and since when. */
  private late = 0;
  private lateFrom = Infinity;

  /**
   * @param isLost - what was granted before is not known. It begins evenly, and with a debt: what was granted before and what is granted now keep to the
   * limit together
   */
  constructor(limit: CreditLimit, guardMs: number, now: number, isLost: boolean) {
    this.guardMs = guardMs;
    this.guardAt = this.debtAt = now;
    this.evenUntil = isLost ? now + spanMs(limit, guardMs) : -Infinity;
    // All that was saved up may have been granted just before.
    if (isLost) this.debt = (2 * burstOf(limit)) / limit.amount + (AWAITED_PARTS - 1) / partsOf(limit, guardMs);
  }

  /** @param saved - a copy that nothing else uses */
  static restored({ parts, ...saved }: { readonly parts: Iterable<readonly [part: number, amount: number]> }): CountedWindow {
    return Object.assign(Object.create(CountedWindow.prototype) as CountedWindow, { ...saved, parts: new Map(parts) });
  }

  /**
   * Goes on to now, which is never earlier than before: what has left the window is forgotten, and the bucket fills.
   *
   * @param isAwaited - something waits for credit
   */
  advance(limit: CreditLimit, guardMs: number, now: number, isAwaited: boolean): void {
    // Credit of a process with a long guard may still be spent when the others no longer count it.
    if (guardMs >= this.guardMs || now - this.guardAt > spanMs(limit, this.guardMs)) {
      this.guardMs = guardMs;
      this.guardAt = now;
    }
    if (limit.endsInMs === undefined) this.part = this.partAt(limit, now);
    else this.roll(limit, now + limit.endsInMs, now);
    this.forget(this.oldest(limit));
    this.leastDebt = isAwaited ? -AWAITED_PARTS / partsOf(limit, this.guardMs) : 0;
    this.debt = Math.max(this.leastDebt, this.debt - (now - this.debtAt) / spanMs(limit, this.guardMs));
    this.debtAt = now;
  }

  /** What may be granted now. */
  room(limit: CreditLimit, now: number): number {
    return this.isEven(limit, now) ? Math.min(this.left(limit), this.level(limit)) : this.left(limit);
  }

  /** What the window has left, at whatever pace. */
  left({ amount }: CreditLimit): number {
    return amount - this.sum;
  }

  /** In how many ms so much can be granted after what is ahead of it, if that is granted as soon as it can be; 0 for now. */
  waitMs(limit: CreditLimit, cost: number, ahead: number, now: number): number {
    const byWindow = this.windowWaitMs(limit, Math.min(limit.amount, cost + ahead), now);
    if (!this.isEven(limit, now)) return byWindow;
    // A cost that is more than can be saved up leaves a debt. What is ahead is saved up for, however much it is.
    const missing = ahead + Math.min(cost, burstOf(limit)) - this.level(limit);
    const byPace = missing <= EPSILON ? 0 : (missing / limit.amount) * spanMs(limit, this.guardMs);
    return Math.max(byWindow, limit.burst === undefined ? Math.min(byPace, this.evenUntil - now) : byPace);
  }

  grant(limit: CreditLimit, amount: number, now: number): void {
    this.change(this.part, amount);
    this.debt += amount / limit.amount;
    if (!isCalendar(limit) || now < this.endsAt - this.guardMs) return;
    this.late += amount;
    this.lateFrom = Math.min(this.lateFrom, now);
  }

  /** Changes what a credit of that time has cost. What has left the window changes nothing. */
  correct(limit: CreditLimit, delta: number, at: number): void {
    const part = isCalendar(limit) ? this.part : Math.min(this.part, this.partAt(limit, at));
    if (isCalendar(limit) ? at < this.countsFrom : part < this.oldest(limit)) return;
    const change = this.change(part, delta);
    this.debt = Math.max(this.leastDebt, this.debt + change / limit.amount);
    if (at >= this.lateFrom) this.late = Math.max(0, this.late + change);
  }

  private isEven(limit: CreditLimit, now: number): boolean {
    return !isCalendar(limit) && (limit.burst !== undefined || now < this.evenUntil);
  }

  /** What is saved up. */
  private level(limit: CreditLimit): number {
    return burstOf(limit) - this.debt * limit.amount;
  }

  private partAt({ windowMs }: CreditLimit, at: number): number {
    return Math.floor(at / partMs(windowMs));
  }

  private oldest(limit: CreditLimit): number {
    return isCalendar(limit) ? this.part : this.part - partsOf(limit, this.guardMs) + 1;
  }

  /**
   * Goes on to the calendar window that ends then. What was granted at the end of the last one may be spent in this one, and counts in both. Clocks of
   * processes differ: one that is behind is in this window as well, and begins no new one.
   */
  private roll({ windowMs }: CreditLimit, endsAt: number, now: number): void {
    const laterMs = endsAt - this.endsAt;
    if (laterMs <= windowMs * SAME_WINDOW) {
      if (laterMs >= -windowMs * SAME_WINDOW) this.endsAt = Math.min(this.endsAt, endsAt);
      return;
    }
    const isNext = laterMs < windowMs * (1 + SAME_WINDOW);
    const carried = isNext ? this.late : 0;
    this.countsFrom = isNext ? Math.min(now, this.lateFrom) : now;
    this.part++;
    this.endsAt = endsAt;
    this.late = 0;
    this.lateFrom = Infinity;
    this.change(this.part, carried);
  }

  private forget(oldest: number): void {
    const { size } = this.parts;
    for (const part of this.parts.keys()) {
      if (part >= oldest) break;
      this.parts.delete(part);
    }
    // Added up anew: sums of fractions that come and go drift.
    if (this.parts.size < size) this.sum = [...this.parts.values()].reduce((sum, amount) => sum + amount, 0);
  }

  private windowWaitMs(limit: CreditLimit, cost: number, now: number): number {
    const { amount, endsInMs, windowMs } = limit;
    let missing = this.sum + cost - amount;
    if (missing > EPSILON && endsInMs !== undefined) return Math.max(1, endsInMs);
    let at = now;
    for (const [part, granted] of this.parts) {
      if (missing <= EPSILON) break;
      missing -= granted;
      at = (part + partsOf(limit, this.guardMs)) * partMs(windowMs);
    }
    return at - now;
  }

  /** What was granted in a part is never less than nothing. Answers by how much it has changed. */
  private change(part: number, delta: number): number {
    const before = this.parts.get(part);
    const change = Math.max(delta, -(before ?? 0));
    if (change === 0) return 0;
    this.sum += change;
    this.parts.set(part, (before ?? 0) + change);
    // One that had nothing, and is not the last: into its place.
    if (before === undefined && part < this.part) this.parts = new Map([...this.parts].sort(([one], [other]) => one - other));
    return change;
  }
}

/** Most that is saved up, of a limit that comes in evenly. */
function burstOf({ amount, burst = amount * EVEN_BURST }: CreditLimit): number {
  return Math.min(amount, burst);
}

function isCalendar({ endsInMs }: CreditLimit): boolean {
  return endsInMs !== undefined;
}

/** For how long a grant is counted. */
export function spanMs(limit: CreditLimit, guardMs: number): number {
  return partsOf(limit, guardMs) * partMs(limit.windowMs);
}

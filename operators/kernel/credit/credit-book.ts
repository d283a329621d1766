import type { Credit, CreditCorrection } from './credit.js';

/** Credit that has ended is remembered for so long at least: what was paid with it may still be settled. */
const KEPT_MS = 600_000;

/** Less than this is nothing: sums of fractions round. */
const EPSILON = 1e-6;

/** One credit, as long as something of it may be corrected. */
interface Held {
  readonly credit: number;
  readonly lane: number;
  /** Since when it may have been paid with, and until when. */
  readonly from: number;
  readonly endsAt: number;
  /** What has not been paid with. */
  readonly left: number[];
  /** By unit, what several jobs may spend of it: where it is more than a limit, for one job, that limit; else Infinity. */
  readonly most: readonly number[];
  /** By lane of the job and then by unit, what has been paid with it and not been given back. */
  readonly spent: number[][];
  /** What is left of it was given back. */
  isOver: boolean;
  /** Nothing of it is given back to the store. */
  isFrozen: boolean;
  /** As what it counts at the store where jobs hold it until their end, since that was renewed. */
  renewedAs?: number;
  /** When it was first and last paid with. */
  paidFrom: number;
  paidTo: number;
}

/**
 * The credit that one limiter holds. It is spent the oldest first, by jobs of the lane that asked for it or of more urgent ones, until it ends; then the rest
 * goes back. At any time: spent + left + gone back = granted + what was corrected.
 */
export class CreditBook {
  /** In the order in which they came, which is the order of their ends. */
  private held: Held[] = [];
  /** Position of the first that is not over. */
  private live = 0;
  /** By lane and then by unit, what was paid without credit: it is charged to the next one. */
  private due: (number[] | undefined)[] = [];
  /** The unit that jobs hold until their end; below 0 without one. */
  private readonly heldColumn: number;
  /** What jobs hold of it in all. */
  private heldSum = 0;
  /** What is to be told to the store, by credit and lane. */
  private unsent = new Map<string, { readonly credit: number; readonly lane: number; readonly amounts: number[] }>();

  constructor(heldColumn = -1) {
    this.heldColumn = heldColumn;
  }

  /** Adds what a store has granted. It ends no earlier than those before. */
  add({ amounts, credit, left }: Credit, lane: number, now: number, endsAt: number): void {
    const held: Held = {
      credit,
      lane,
      from: now,
      endsAt,
      left: [...amounts],
      most: amounts.map((amount, column) => {
        const { [column]: room = 0 } = left;
        return room < -EPSILON ? amount + room : Infinity;
      }),
      spent: [],
      isOver: false,
      isFrozen: false,
      paidFrom: Infinity,
      paidTo: -Infinity,
    };
    this.held.push(held);
    for (const [job, units] of this.due.entries())
      for (const [column, amount = 0] of (units ?? []).entries()) this.charge(held, column, amount, job);
    this.due = [];
  }

  /** What a lane may spend. */
  left(column: number, now: number, lane = 0): number {
    let left = 0;
    for (const each of this.for(lane, now)) left += each.left[column] as number;
    return left;
  }

  /** Whether a lane may spend so much. What costs nothing needs credit as well: without it, the limit may be exceeded by what was corrected. */
  covers(column: number, cost: number, now: number, lane = 0): boolean {
    let missing = cost;
    for (const each of this.for(lane, now)) {
      missing -= each.left[column] as number;
      if (missing <= EPSILON) return true;
    }
    return false;
  }

  /** Pays, the oldest credit first. What no credit covers is charged to the latest one, or to the next. */
  pay(column: number, cost: number, now: number, lane = 0): void {
    let due = cost;
    let latest: Held | undefined;
    for (const each of this.for(lane, now)) {
      latest = each;
      const paid = Math.min(due, each.left[column] as number);
      if (due > 0 && paid <= 0) continue;
      each.left[column] = (each.left[column] as number) - paid;
      this.spend(each, column, paid, now, lane);
      if (paid > 0) this.keepToLimit(each, column);
      due -= paid;
      if (due <= EPSILON) return;
    }
    if (latest) {
      this.spend(latest, column, 0, now, lane);
      this.charge(latest, column, due, lane);
    } else this.owe(column, due, lane);
  }

  /** Changes what a job of this lane paid at that time. What is given back while the credit lasts may be spent again: answers whether something may have been. */
  correct(column: number, delta: number, paidAt: number, now: number, lane = 0): boolean {
    const { from, paid } = this.paidAt(paidAt);
    if (delta > 0) {
      // Not to credit of a more urgent lane that was paid with at the same time: that is under fewer limits.
      const latest = paid.filter((each) => each.lane >= lane).at(-1) ?? this.for(0, now).at(-1);
      if (latest) this.charge(latest, column, delta, lane);
      else this.owe(column, delta, lane);
      return false;
    }
    // To the oldest first, which leaves the window first: never too much comes back. What another lane has paid stays where it is: it may be under more limits.
    let back = -delta;
    for (const each of paid) back -= this.refund(each, column, back, now, lane);
    const owed = Math.min(back, this.due[lane]?.[column] ?? 0);
    this.owe(column, -owed, lane);
    back -= owed;
    // It went to a job that was paid with a later one.
    for (let i = from; back > EPSILON && i < this.held.length; i++) back -= this.refund(this.held[i] as Held, column, back, now, lane);
    return this.live < this.held.length;
  }

  /** What has ended by now goes back. */
  expire(now: number): void {
    for (let first = this.held[this.live]; first && first.endsAt <= now; first = this.held[this.live]) this.giveBack(first);
    const half = Math.floor(this.live / 2);
    const last = this.held[half - 1];
    if (!last || last.endsAt + KEPT_MS > now) return;
    const kept = this.held.slice(0, half).filter((held) => heldOf(held, this.heldColumn) > EPSILON);
    this.held = [...kept, ...this.held.slice(half)];
    this.live -= half - kept.length;
  }

  /** Everything goes back. */
  drop(): void {
    for (let first = this.held[this.live]; first; first = this.held[this.live]) this.giveBack(first);
  }

  /** What no job holds any more of the held unit goes back, though its credit lasts. */
  giveBackHeld(): void {
    const { heldColumn, held, live } = this;
    for (let i = live; i < held.length; i++) {
      const each = held[i] as Held;
      const { [heldColumn]: left = 0 } = each.left;
      if (left <= EPSILON) continue;
      each.left[heldColumn] = 0;
      this.note(each, heldColumn, -left);
    }
  }

  /** No job runs: nothing of the held unit is held. */
  forgetHeld(): void {
    const { heldColumn } = this;
    if (this.heldSum <= EPSILON) return;
    this.heldSum = 0;
    for (const each of this.held) {
      this.note(each, heldColumn, -heldOf(each, heldColumn));
      for (const units of each.spent) if (units as readonly number[] | undefined) units[heldColumn] = 0;
    }
  }

  /** What jobs hold until their end counts as granted at that time, on the clock of the store. Answers whether there is any. */
  renew(credit: number): boolean {
    if (this.heldSum <= EPSILON) return false;
    for (const held of this.held) {
      const taken = heldOf(held, this.heldColumn);
      if (taken <= EPSILON) continue;
      // What is left moves along: it goes back to where the credit counts.
      const amount = taken + (held.left[this.heldColumn] as number);
      this.note(held, this.heldColumn, -amount);
      held.renewedAs = credit;
      this.note(held, this.heldColumn, amount);
    }
    return true;
  }

  /** From now on nothing comes back of what was granted until now. */
  freeze(): void {
    for (const held of this.held) held.isFrozen = true;
    for (const { amounts } of this.unsent.values())
      for (const [column, amount] of amounts.entries()) if (column !== this.heldColumn) amounts[column] = Math.max(0, amount);
  }

  /**
   * When the next credit ends of which something is left; Infinity when there is none.
   *
   * @param isAwaited - something waits, maybe for a limiter above: its credit counts although nothing is left of it
   */
  endsAt(isAwaited: boolean): number {
    for (let i = this.live; i < this.held.length; i++) {
      const { endsAt, left } = this.held[i] as Held;
      if (isAwaited || left.some((amount) => amount > EPSILON)) return endsAt;
    }
    return Infinity;
  }

  get hasCorrections(): boolean {
    return this.unsent.size > 0;
  }

  /** What is to be told to the store. It is not told again. */
  takeCorrections(): readonly CreditCorrection[] {
    const corrections = [...this.unsent.values()];
    this.unsent = new Map();
    return corrections;
  }

  /** The credit that a lane may spend. */
  private for(lane: number, now: number): Held[] {
    const all: Held[] = [];
    for (let i = this.live; i < this.held.length; i++) {
      const each = this.held[i] as Held;
      if (each.lane >= lane && isOpen(each, now)) all.push(each);
    }
    return all;
  }

  /** The credit that was paid with at that time, and the position of the first that had not ended then. */
  private paidAt(at: number): { readonly from: number; readonly paid: readonly Held[] } {
    const { held } = this;
    let [from, behind] = [0, held.length];
    while (from < behind) {
      const middle = Math.floor((from + behind) / 2);
      if ((held[middle] as Held).endsAt > at) behind = middle;
      else from = middle + 1;
    }
    const paid: Held[] = [];
    for (let i = from; i < held.length && (held[i] as Held).from <= at; i++) {
      const each = held[i] as Held;
      if (each.paidFrom <= at && at <= each.paidTo) paid.push(each);
    }
    return { from, paid };
  }

  private spend(held: Held, column: number, amount: number, now: number, lane: number): void {
    this.addSpent(held, lane, column, amount);
    held.paidFrom = Math.min(held.paidFrom, now);
    held.paidTo = Math.max(held.paidTo, now);
  }

  private addSpent(held: Held, lane: number, column: number, amount: number): void {
    const units = (held.spent[lane] ??= held.left.map(() => 0));
    units[column] = (units[column] as number) + amount;
    if (column === this.heldColumn) this.heldSum += amount;
  }

  private charge(held: Held, column: number, amount: number, lane: number): void {
    this.addSpent(held, lane, column, amount);
    this.note(held, column, amount);
  }

  /** Gives back so much of what a lane has paid with a credit, as far as it has. Answers how much. */
  private refund(held: Held, column: number, most: number, now: number, lane: number): number {
    const amount = Math.min(most, held.spent[lane]?.[column] ?? 0);
    if (amount === 0) return 0;
    this.addSpent(held, lane, column, -amount);
    if (isOpen(held, now)) {
      held.left[column] = (held.left[column] as number) + amount;
      this.keepToLimit(held, column);
    } else this.note(held, column, -amount);
    return amount;
  }

  /** What is more than a limit was for one job, which goes alone: no other one may spend that. */
  private keepToLimit(held: Held, column: number): void {
    const rest = Math.max(0, (held.most[column] as number) - heldOf(held, column));
    const excess = (held.left[column] as number) - rest;
    if (excess <= 0) return;
    held.left[column] = rest;
    this.note(held, column, -excess);
  }

  private owe(column: number, amount: number, lane: number): void {
    if (amount === 0) return;
    const units = (this.due[lane] ??= []);
    units[column] = (units[column] ?? 0) + amount;
  }

  /** The first that is not over is now. */
  private giveBack(held: Held): void {
    this.live++;
    held.isOver = true;
    for (const [column, left] of held.left.entries()) {
      held.left[column] = 0;
      if (left > EPSILON) this.note(held, column, -left);
    }
  }

  private note({ credit: granted, isFrozen, lane, left, renewedAs }: Held, column: number, delta: number): void {
    const isHeld = column === this.heldColumn;
    if (delta === 0 || (delta < 0 && isFrozen && !isHeld)) return;
    const credit = (isHeld ? renewedAs : undefined) ?? granted;
    const key = `${String(credit)} ${String(lane)}`;
    const amounts = this.unsent.get(key)?.amounts ?? left.map(() => 0);
    amounts[column] = (amounts[column] as number) + delta;
    this.unsent.set(key, { credit, lane, amounts });
  }
}

function isOpen({ endsAt, isOver }: Held, now: number): boolean {
  return !isOver && endsAt > now;
}

function heldOf({ spent }: Held, column: number): number {
  return spent.reduce((sum, units) => sum + (units[column] ?? 0), 0);
}

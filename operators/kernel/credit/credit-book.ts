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
  /** What has been paid with, and not been given back. */
  readonly spent: number[];
  /** What is left of it was given back. */
  isOver: boolean;
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
  /** What was paid without credit: it is charged to the next one. */
  private readonly due: number[] = [];
  /** What is to be told to the store, by credit and lane. */
  private unsent = new Map<string, { readonly credit: number; readonly lane: number; readonly amounts: number[] }>();

  /** Adds what a store has granted. It ends no earlier than those before. */
  add({ amounts, credit }: Credit, lane: number, now: number, endsAt: number): void {
    const spent = amounts.map(() => 0);
    const held = { credit, lane, from: now, endsAt, left: [...amounts], spent, isOver: false, paidFrom: Infinity, paidTo: -Infinity };
    this.held.push(held);
    for (const column of amounts.keys()) {
      this.charge(held, column, this.due[column] ?? 0);
      this.due[column] = 0;
    }
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
      spend(each, column, paid, now);
      due -= paid;
      if (due <= EPSILON) return;
    }
    if (latest) {
      spend(latest, column, 0, now);
      this.charge(latest, column, due);
    } else this.owe(column, due);
  }

  /** Changes what was paid at that time. What is given back while the credit lasts may be spent again. */
  correct(column: number, delta: number, paidAt: number, now: number): void {
    const paid = this.paidAt(paidAt);
    if (delta > 0) {
      const latest = paid.at(-1) ?? this.for(0, now).at(-1);
      if (latest) this.charge(latest, column, delta);
      else this.owe(column, delta);
      return;
    }
    // To the oldest first, which leaves the window first: never too much comes back.
    let back = -delta;
    for (const each of paid) {
      const given = Math.min(back, each.spent[column] as number);
      each.spent[column] = (each.spent[column] as number) - given;
      if (isOpen(each, now)) each.left[column] = (each.left[column] as number) + given;
      else this.note(each, column, -given);
      back -= given;
    }
    this.owe(column, -Math.min(back, this.due[column] ?? 0));
  }

  /** What has ended by now goes back. */
  expire(now: number): void {
    for (let first = this.held[this.live]; first && first.endsAt <= now; first = this.held[this.live]) this.giveBack(first);
    const half = Math.floor(this.live / 2);
    const last = this.held[half - 1];
    if (!last || last.endsAt + KEPT_MS > now) return;
    this.held = this.held.slice(half);
    this.live -= half;
  }

  /** Everything goes back. */
  drop(): void {
    for (let first = this.held[this.live]; first; first = this.held[this.live]) this.giveBack(first);
  }

  /** When the next credit ends of which something is left; Infinity when there is none. */
  get endsAt(): number {
    for (let i = this.live; i < this.held.length; i++) {
      const { endsAt, left } = this.held[i] as Held;
      if (left.some((amount) => amount > EPSILON)) return endsAt;
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

  /** The credit that was paid with at that time. */
  private paidAt(at: number): Held[] {
    const { held } = this;
    let [first, behind] = [0, held.length];
    while (first < behind) {
      const middle = Math.floor((first + behind) / 2);
      if ((held[middle] as Held).endsAt > at) behind = middle;
      else first = middle + 1;
    }
    const paid: Held[] = [];
    for (let i = first; i < held.length && (held[i] as Held).from <= at; i++) {
      const each = held[i] as Held;
      if (each.paidFrom <= at && at <= each.paidTo) paid.push(each);
    }
    return paid;
  }

  private charge(held: Held, column: number, amount: number): void {
    held.spent[column] = (held.spent[column] as number) + amount;
    this.note(held, column, amount);
  }

  private owe(column: number, amount: number): void {
    this.due[column] = (this.due[column] ?? 0) + amount;
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

  private note({ credit, lane, left }: Held, column: number, delta: number): void {
    if (delta === 0) return;
    const key = `${String(credit)} ${String(lane)}`;
    const amounts = this.unsent.get(key)?.amounts ?? left.map(() => 0);
    amounts[column] = (amounts[column] as number) + delta;
    this.unsent.set(key, { credit, lane, amounts });
  }
}

function isOpen({ endsAt, isOver }: Held, now: number): boolean {
  return !isOver && endsAt > now;
}

function spend(held: Held, column: number, amount: number, now: number): void {
  held.spent[column] = (held.spent[column] as number) + amount;
  held.paidFrom = Math.min(held.paidFrom, now);
  held.paidTo = Math.max(held.paidTo, now);
}

import type { Credit, CreditCorrection } from './credit.js';

/** Credit that has ended is remembered for so long: what was paid with it may still be settled. */
const KEPT_MS = 600_000;

/** Less than this is nothing: sums of fractions round. */
const EPSILON = 1e-6;

/** One credit, as long as something of it may be corrected. */
interface Held {
  readonly credit: number;
  readonly lane: number;
  /** What has not been paid with. */
  readonly left: number[];
  /** What has been paid with, and not been given back. */
  readonly spent: number[];
  endsAt: number;
  /** When it was first and last paid with. */
  paidFrom: number;
  paidTo: number;
}

/**
 * The credit that one limiter holds. It is spent the oldest first, by jobs of the lane that asked for it or of more urgent ones, until it ends; then the rest
 * goes back. At any time: spent + left + gone back = granted + what was corrected.
 */
export class CreditBook {
  private held: Held[] = [];
  /** What is to be told to the store. */
  private unsent: CreditCorrection[] = [];

  /** Adds what a store has granted. */
  add({ amounts, credit }: Credit, lane: number, endsAt: number): void {
    const spent = amounts.map(() => 0);
    this.held.push({ credit, lane, left: [...amounts], spent, endsAt, paidFrom: Infinity, paidTo: -Infinity });
  }

  /** What a lane may spend. */
  left(column: number, now: number, lane = 0): number {
    let left = 0;
    for (const each of this.held) if (isFor(each, lane, now)) left += each.left[column] as number;
    return left;
  }

  /** Whether a lane may spend so much. */
  covers(column: number, cost: number, now: number, lane = 0): boolean {
    return cost <= EPSILON || this.left(column, now, lane) >= cost - EPSILON;
  }

  /** Pays, the oldest credit first. What no credit covers is charged to the latest one. */
  pay(column: number, cost: number, now: number, lane = 0): void {
    let due = cost;
    let latest: Held | undefined;
    for (const each of this.held) {
      if (!isFor(each, lane, now)) continue;
      latest = each;
      const paid = Math.min(due, each.left[column] as number);
      if (due > 0 && paid <= 0) continue;
      spend(each, column, paid, now);
      (each.left[column] as number) -= paid;
      due -= paid;
      if (due <= EPSILON) return;
    }
    latest ??= this.held.at(-1);
    if (latest) this.charge(latest, column, due, now);
  }

  /** Changes what was paid at that time. What is given back while the credit lasts may be spent again. */
  correct(column: number, delta: number, paidAt: number, now: number): void {
    const paid = this.held.filter(({ paidFrom, paidTo }) => paidFrom <= paidAt && paidAt <= paidTo);
    if (delta > 0) {
      const latest = paid.at(-1) ?? this.held.at(-1);
      if (latest) this.charge(latest, column, delta, now);
      return;
    }
    // To the oldest first, which leaves the window first: never too much comes back.
    let back = -delta;
    for (const each of paid) {
      const given = Math.min(back, each.spent[column] as number);
      if (given <= 0) continue;
      (each.spent[column] as number) -= given;
      if (each.endsAt > now) (each.left[column] as number) += given;
      else this.note(each, column, -given);
      back -= given;
    }
  }

  /** What has ended by now goes back. */
  expire(now: number): void {
    for (const each of this.held) if (each.endsAt <= now) this.giveBack(each);
    while (this.held[0] && this.held[0].endsAt + KEPT_MS <= now) this.held.shift();
  }

  /** Everything goes back. */
  drop(): void {
    for (const each of this.held) {
      each.endsAt = -Infinity;
      this.giveBack(each);
    }
  }

  /** When the next credit ends of which something is left; Infinity when there is none. */
  get endsAt(): number {
    let endsAt = Infinity;
    for (const each of this.held) if (each.left.some((left) => left > EPSILON)) endsAt = Math.min(endsAt, each.endsAt);
    return endsAt;
  }

  get hasCorrections(): boolean {
    return this.unsent.length > 0;
  }

  /** What is to be told to the store; it is not told again. */
  takeCorrections(): readonly CreditCorrection[] {
    const { unsent } = this;
    this.unsent = [];
    return unsent;
  }

  /** The store may not have heard of these. What costs more is told again; what would come back twice is not. */
  untold(corrections: readonly CreditCorrection[]): void {
    for (const { amounts, ...of } of corrections) {
      const more = amounts.map((amount) => Math.max(0, amount));
      if (more.some((amount) => amount > 0)) this.unsent.push({ ...of, amounts: more });
    }
  }

  private charge(held: Held, column: number, amount: number, now: number): void {
    spend(held, column, amount, now);
    this.note(held, column, amount);
  }

  private giveBack(held: Held): void {
    for (const [column, left] of held.left.entries()) {
      held.left[column] = 0;
      if (left > EPSILON) this.note(held, column, -left);
    }
  }

  private note({ credit, lane, left }: Held, column: number, delta: number): void {
    if (delta === 0) return;
    const known = this.unsent.find((each) => each.credit === credit && each.lane === lane);
    const amounts = known?.amounts ?? left.map(() => 0);
    (amounts as number[])[column] = (amounts[column] as number) + delta;
    if (!known) this.unsent.push({ credit, lane, amounts });
  }
}

function isFor({ endsAt, lane }: Held, of: number, now: number): boolean {
  return endsAt > now && lane >= of;
}

function spend(held: Held, column: number, amount: number, now: number): void {
  (held.spent[column] as number) += amount;
  held.paidFrom = Math.min(held.paidFrom, now);
  held.paidTo = Math.max(held.paidTo, now);
}

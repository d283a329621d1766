import type { CreditQuestion, CreditWait } from '../../kernel/credit/credit.js';
import type { CreditBook } from '../../kernel/credit/credit-book.js';

/** A store takes slots for free again that it has not heard of for so long. */
export const SLOT_MS = 5000;
/** What is held is told again after so long. */
const RENEW_MS = 2000;
/** While the store has not heard of what was told before, it is told after that. */
const LOOK_AGAIN_MS = 100;

/** The slots that several processes share, as one limiter holds them: a job has its slot until its end, and the store hears of it again and again meanwhile. */
export class HeldSlots {
  /** When the store is to hear of them next. */
  renewAt = Infinity;
  /** By how much the clock of the store is ahead of ours, at least. */
  private aheadMs = 0;

  /** @param column - position of the slots among the units; below 0 where they are not shared */
  constructor(readonly column: number) {}

  paid(now: number): void {
    this.renewAt = Math.min(this.renewAt, now + RENEW_MS);
  }

  /** The store has granted a credit, before now. */
  heard(credit: number, now: number): void {
    this.aheadMs = credit - now;
  }

  /** @param hasUnheard - there is something that the store may not have heard of, and is told again */
  renew(book: CreditBook, now: number, hasUnheard: boolean): void {
    if (now < this.renewAt) return;
    if (hasUnheard) this.renewAt = now + LOOK_AGAIN_MS;
    else this.renewAt = book.renew(now + this.aheadMs) ? now + RENEW_MS : Infinity;
  }

  /** Whether a slot is missing. */
  isShort({ left }: CreditWait, { least }: CreditQuestion): boolean {
    const { [this.column]: cost = 0 } = least;
    return cost > (left[this.column] ?? Infinity);
  }
}

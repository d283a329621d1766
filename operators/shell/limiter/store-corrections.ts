import type { CreditCorrection, CreditLimit } from '../../kernel/credit/credit.js';
import type { CreditBook } from '../../kernel/credit/credit-book.js';
import type { CreditStore } from '../../options/credit-store.js';
import { Message } from './store-messages.js';

/** Corrections are collected for so long. */
const COLLECT_MS = 100;
/** Corrections that a store has not taken for so long are dropped. */
const GIVE_UP_MS = 600_000;

/** The credit that is corrected. */
interface CorrectedCredit {
  now(): number;
  limits(): CreditLimit[];
  /** When a message of now is taken for lost. */
  lostAt(now: number): number;
  /** Sets the timer. */
  arm(): void;
  found(): void;
  /** Answers how long to wait before the next try; Infinity for no other. */
  lost(): number;
  /** The store has heard of the corrections, or does not answer. */
  heard(): void;
}

/** What the store may not have heard. */
interface UnheardCorrections {
  readonly number: number;
  readonly corrections: readonly CreditCorrection[];
  /** Those that it was charged to. */
  readonly limits: readonly CreditLimit[];
  readonly until: number;
}

/** Tells a store what the credit of one limiter has cost. What it may not have heard is told again under the same number, so that it is booked once. */
export class StoreCorrections {
  /** When they are sent; Infinity while there are none. */
  at = Infinity;
  /** When those that were sent are taken for lost. */
  lostAt = Infinity;
  private readonly of: { readonly store: CreditStore; readonly scope: string; readonly guardMs: number };
  private readonly owner: string;
  private readonly book: CreditBook;
  private readonly credit: CorrectedCredit;
  private number = 0;
  private unheard: UnheardCorrections | undefined = undefined;
  private sending: Message<void> | undefined = undefined;

  constructor(
    of: { readonly store: CreditStore; readonly scope: string; readonly guardMs: number },
    owner: string,
    book: CreditBook,
    credit: CorrectedCredit,
  ) {
    this.of = of;
    this.owner = owner;
    this.book = book;
    this.credit = credit;
  }

  get isSending(): boolean {
    return this.sending !== undefined;
  }

  get hasUnheard(): boolean {
    return this.unheard !== undefined;
  }

  /** Sends what there is after a while, or at once. */
  collect(isUrgent = false): void {
    if (!this.book.hasCorrections || this.sending || this.unheard || (this.at < Infinity && !isUrgent)) return;
    this.at = this.credit.now() + (isUrgent ? 0 : COLLECT_MS);
    this.credit.arm();
  }

  send(): void {
    const { book, credit, of, owner } = this;
    const now = credit.now();
    this.at = Infinity;
    if (this.sending) return;
    if (!this.unheard) {
      if (!book.hasCorrections) return;
      // Before the corrections are taken: what was granted under other limits is none of them.
      const limits = credit.limits();
      this.unheard = { number: ++this.number, corrections: book.takeCorrections(), limits, until: now + GIVE_UP_MS };
    }
    const { corrections, limits, number, until } = this.unheard;
    const { guardMs, scope, store } = of;
    this.lostAt = credit.lostAt(now);
    const ended = (): void => {
      this.sending = undefined;
      this.lostAt = Infinity;
      credit.heard();
    };
    this.sending = new Message<void>(
      () => store.correct({ scope, owner, number, limits, guardMs, corrections }),
      () => {
        this.unheard = undefined;
        credit.found();
        ended();
      },
      () => {
        const again = credit.now() + credit.lost();
        if (again < until) this.at = again;
        else this.unheard = undefined;
        ended();
      },
    );
    credit.arm();
    this.sending.begin();
  }

  /** Takes what was sent for lost. */
  giveUp(): void {
    const { sending } = this;
    sending?.stop();
    sending?.failed();
  }

  drop(): void {
    this.sending?.stop();
    this.sending = this.unheard = undefined;
    this.at = this.lostAt = Infinity;
    this.book.takeCorrections();
  }
}

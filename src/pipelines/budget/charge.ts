import { check } from '../../../operators/build.js';
import type { Usage } from '../../../operators/index.js';
import type { ModelPrice, Reservation } from './budget-types.js';
import type { Amounts, Window } from './meter.js';
import type { CallTokens } from './prices.js';
import { priceOf, usdOf } from './prices.js';

/** The budget that is charged. */
export interface Account {
  /** The call is over. */
  ended(): void;
  /** What is charged in these windows is another sum now. */
  changed(windows: readonly Window[]): void;
  /** A call has cost more than it was charged with, by this much. */
  rose(window: Window): void;
}

/** What one call is charged with, in every limit that is about it. */
export class Charge implements Reservation {
  readonly #account: Account;
  readonly #windows: readonly Window[];
  readonly #price: ModelPrice | undefined;
  readonly #estimate: CallTokens;
  readonly #reserved: Amounts;
  /** What is known of its usage. */
  #used: Usage = {};
  #amounts: Amounts;
  #state: 'inFlight' | 'settled' | 'released' = 'inFlight';

  constructor(account: Account, windows: readonly Window[], price: ModelPrice | undefined, estimate: CallTokens, now: number) {
    this.#account = account;
    this.#windows = windows;
    this.#price = price;
    this.#estimate = estimate;
    this.#reserved = amountsOf(price, estimate);
    this.#amounts = this.#reserved;
    for (const window of windows) window.take(this.#reserved, now);
  }

  get costUsd(): number | undefined {
    return this.#price === undefined ? undefined : usdOf(this.#amounts.usd);
  }

  settle(usage: Usage = {}): void {
    if (this.#state === 'released') return;
    for (const kind of KINDS) {
      const tokens = usage[kind];
      if (isTokens(tokens)) this.#used = { ...this.#used, [kind]: Math.ceil(tokens) };
    }
    this.#land('settled');
    this.#correct(amountsOf(this.#price, correctedBy(this.#used, this.#estimate)));
  }

  release(): void {
    if (this.#state !== 'inFlight') return;
    this.#land('released');
    this.#correct(NOTHING);
  }

  #land(state: 'settled' | 'released'): void {
    const wasInFlight = this.#state === 'inFlight';
    this.#state = state;
    if (!wasInFlight) return;
    for (const window of this.#windows) window.land(this.#reserved);
    this.#account.ended();
  }

  #correct(amounts: Amounts): void {
    const before = this.#amounts;
    this.#amounts = amounts;
    // Correct all windows before listeners are called.
    const risen = this.#windows.filter((window) => window.correct(before, amounts) > 0);
    this.#account.changed(this.#windows);
    for (const window of risen) this.#account.rose(window);
  }
}

const KINDS = ['inputTokens', 'cacheReadTokens', 'cacheWriteTokens', 'cacheWrite1hTokens', 'outputTokens'] as const;
const NOTHING: Amounts = { usd: 0, tokens: 0 };

/** USD are those of a price that is known. */
export function amountsOf(price: ModelPrice | undefined, call: CallTokens): Amounts {
  const { inputTokens, outputTokens, tokens = 0 } = call;
  return { usd: bounded(price === undefined ? 0 : priceOf(price, call)), tokens: bounded(inputTokens + outputTokens + tokens) };
}

/** Beyond this, sums would not be exact; what is infinite would never leave them again. */
function bounded(amount: number): number {
  return Math.min(amount, Number.MAX_SAFE_INTEGER);
}

/** What the usage does not say stays as estimated. Of tokens of either kind that is what it leaves of them. */
function correctedBy(used: Usage, estimate: CallTokens): CallTokens {
  const isWhole = used.inputTokens !== undefined && used.outputTokens !== undefined;
  const { cacheReadTokens = 0, cacheWriteTokens = 0, cacheWrite1hTokens = 0 } = used.inputTokens === undefined ? estimate : used;
  return {
    ...{ cacheReadTokens, cacheWriteTokens, cacheWrite1hTokens },
    inputTokens: used.inputTokens ?? estimate.inputTokens,
    outputTokens: used.outputTokens ?? estimate.outputTokens,
    tokens: isWhole ? 0 : Math.max(0, (estimate.tokens ?? 0) - (used.inputTokens ?? 0) - (used.outputTokens ?? 0)),
  };
}

function isTokens(value: unknown): value is number {
  return check.isAmount(value) && value !== Infinity;
}

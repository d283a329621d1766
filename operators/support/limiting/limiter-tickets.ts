import type { AsyncContext } from '#async-context';
import { isAmount, unusable } from '../../options/answers.js';
import { ask } from '../../options/ask.js';
import type { WorkResult } from '../../options/types.js';
import type { LimiterLease } from './limiter-lease.js';
import type { JobWish, Wish } from './limiter-options.js';
import { NAME } from './limiter-options.js';
import type { Bidder, Lease, LeaseContext } from './limiter-types.js';
import type { Endings } from './limiter-work.js';

/** How a job comes in. */
export interface Admission {
  /** The longest wait; undefined for ever. */
  readonly waitMs: number | undefined;
  /** The lease of the work that asks. */
  readonly holder: LimiterLease | undefined;
  /** Whoever asks can wait, so a full queue is no reason to refuse anybody. */
  readonly waitsForRoom: boolean;
}

/** Somebody who wants a lease. A hundred thousand of them may wait, so each kind holds what it needs and no more. */
export abstract class Ticket {
  /** In the queue. */
  isWaiting = false;
  /** The lease of the work that asks, if it said so. Few do, so the others have no room for it. */
  declare holder?: LimiterLease;

  constructor(readonly wish: Wish) {}

  /** Stands for a job of a limiter below. */
  get isPlace(): boolean {
    return false;
  }

  /** Tokens wanted now, undefined to give up the place; asked when the wish leaves it open. @throws CallbackError */
  bid(_affordable: number): number | undefined {
    return this.wish.tokens;
  }

  abstract granted(lease: Lease, endings: Endings): void;
  abstract refused(error: unknown): void;
}

/** One with handlers of its own: a bidder, or whoever subscribed to `acquire`. */
export class BidderTicket extends Ticket {
  readonly #bidder: Bidder;

  constructor(wish: Wish, bidder: Bidder) {
    super(wish);
    this.#bidder = bidder;
  }

  granted(lease: Lease): void {
    this.#bidder.granted(lease);
  }

  refused(error: unknown): void {
    this.#bidder.refused(error);
  }

  override bid(affordable: number): number | undefined {
    const tokens = ask(NAME, 'bid', (left) => (this.#bidder.bid ? this.#bidder.bid(left) : 0), affordable);
    if (tokens === undefined || (isAmount(tokens) && tokens !== Infinity)) return tokens;
    throw unusable(NAME, 'bid', 'a finite number >= 0 or undefined', tokens);
  }
}

/** `acquireAsync`. */
export class PromiseTicket extends Ticket {
  constructor(
    wish: JobWish,
    readonly granted: (lease: Lease) => void,
    readonly refused: (error: unknown) => void,
  ) {
    super(wish);
  }
}

/** `runAsync`. */
export class WorkTicket<R> extends Ticket {
  readonly #work: (context: LeaseContext) => WorkResult<R>;
  readonly #resolve: (value: R) => void;
  /** Of whoever asked, once the work has to wait. */
  declare context?: AsyncContext;

  constructor(
    wish: JobWish,
    work: (context: LeaseContext) => WorkResult<R>,
    resolve: (value: R) => void,
    readonly refused: (error: unknown) => void,
  ) {
    super(wish);
    this.#work = work;
    this.#resolve = resolve;
  }

  granted(lease: Lease, endings: Endings): void {
    const { context } = this;
    const work = this.#work;
    endings.run(context ? (about) => context.run(work, about) : work, lease, this.#resolve, this.refused);
  }
}

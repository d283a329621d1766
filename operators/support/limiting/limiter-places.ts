import type { Slotted } from '../../kernel/bag.js';
import { Bag } from '../../kernel/bag.js';
import type { LimiterLease } from './limiter-lease.js';
import type { Wish } from './limiter-options.js';
import { Ticket } from './limiter-tickets.js';
import type { Cost } from './limiter-types.js';

/**
 * Most places in one lane. A child takes its turns among everybody else's, so with few places it would get few of them; but
 * all are given up when its own rate runs out, and must be cheap to take again.
 */
const MOST = 32;

/** The limiter above. */
export interface Parent {
  admitPlace(ticket: Ticket): void;
  leave(ticket: Ticket): void;
}

/** Who is to go when the turn comes, and what that costs. */
export interface Offer extends Required<Cost> {
  readonly ticket: Ticket;
}

/** The limiter whose places these are. */
export interface Child {
  /** What it wants when its turn comes in a lane of the parent, undefined when nothing, or when its own limits are in the way. */
  bid(lane: number, affordable: number): Offer | undefined;
  /** What was wanted is granted above. */
  granted(offer: Offer, lease: LimiterLease): void;
}

/**
 * A limiter's places in the queue of the one above it. A place holds nothing: what goes is decided when the turn comes, and only if the
 * child's own limits let it go then. So a permit is taken of both or of none.
 */
export class Places {
  readonly #parent: Parent;
  readonly #child: Child;
  readonly #waiting: Bag<PlaceTicket>[];

  constructor(parent: Parent, child: Child, lanes: number) {
    this.#parent = parent;
    this.#child = child;
    this.#waiting = Array.from({ length: lanes }, () => new Bag());
  }

  /** Places taken. */
  get size(): number {
    return this.#waiting.reduce((sum, { size }) => sum + size, 0);
  }

  /** Whether the limiter above will ask when it has something for this lane. */
  has(lane: number): boolean {
    return this.#waiting[lane]?.size !== 0;
  }

  /** Sees to it that there are so many places in a lane. They may be granted before this returns. */
  seek(lane: number, wanted: number): void {
    const waiting = this.#waiting[lane] as Bag<PlaceTicket>;
    for (let missing = Math.min(wanted, MOST) - waiting.size; missing > 0; missing--) {
      const ticket = new PlaceTicket(lane, this.#child, waiting);
      waiting.add(ticket);
      this.#parent.admitPlace(ticket);
    }
  }

  withdraw(): void {
    for (const waiting of this.#waiting) {
      for (const ticket of [...waiting.items]) {
        waiting.delete(ticket);
        this.#parent.leave(ticket);
      }
    }
  }
}

/** One of them. */
class PlaceTicket extends Ticket implements Slotted {
  slot = -1;
  declare readonly wish: Wish & { requests: number };
  readonly #child: Child;
  readonly #all: Bag<PlaceTicket>;
  /** What was bid last. Kept here: bids for other places may come between a bid and its grant. */
  #offer: Offer | undefined;

  constructor(lane: number, child: Child, all: Bag<PlaceTicket>) {
    super({ lane, requests: 1, tokens: undefined });
    this.#child = child;
    this.#all = all;
  }

  override bid(affordable: number): number | undefined {
    this.#offer = this.#child.bid(this.wish.lane, affordable);
    if (this.#offer === undefined) {
      this.#all.delete(this);
      return undefined;
    }
    this.wish.requests = this.#offer.requests;
    return this.#offer.tokens;
  }

  granted(lease: LimiterLease): void {
    this.#all.delete(this);
    this.#child.granted(this.#offer as Offer, lease);
  }

  refused(): void {
    this.#all.delete(this);
  }
}

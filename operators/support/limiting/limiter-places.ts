import type { Slotted } from '../../kernel/bag.js';
import { Bag } from '../../kernel/bag.js';
import type { LimiterLease } from './limiter-lease.js';
import type { JobWish, Wish } from './limiter-options.js';
import { Ticket } from './limiter-tickets.js';
import type { Cost } from './limiter-types.js';

/**
 * Most places in one lane. A child takes its turns among everybody else's, so with few places it would get few of them; but
 * all are given up when its own rate runs out, and must be cheap to take again.
 */
const MOST = 32;

/** The limiter above. */
export interface Parent {
  tryGrant(wish: JobWish): LimiterLease | undefined;
  admitPlace(ticket: Ticket): void;
  leave(ticket: Ticket): void;
}

/** The limiter whose places these are. */
export interface Child {
  /** What it wants when its turn comes in a lane of the parent, undefined when nothing, or when its own limits are in the way. */
  bid(lane: number, affordable: number): Required<Cost> | undefined;
  /** What was wanted is granted above. */
  granted(lane: number, lease: LimiterLease): void;
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

  get size(): number {
    return this.#waiting.reduce((sum, { size }) => sum + size, 0);
  }

  /** A lease above at once, or none. */
  take(lane: number, { requests, tokens }: Required<Cost>): LimiterLease | undefined {
    return this.#parent.tryGrant({ lane, requests, tokens });
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

  constructor(lane: number, child: Child, all: Bag<PlaceTicket>) {
    super({ lane, requests: 1, tokens: undefined });
    this.#child = child;
    this.#all = all;
  }

  override bid(affordable: number): number | undefined {
    const cost = this.#child.bid(this.wish.lane, affordable);
    if (cost === undefined) {
      this.#all.delete(this);
      return undefined;
    }
    this.wish.requests = cost.requests;
    return cost.tokens;
  }

  granted(lease: LimiterLease): void {
    this.#all.delete(this);
    this.#child.granted(this.wish.lane, lease);
  }

  refused(): void {
    this.#all.delete(this);
  }
}

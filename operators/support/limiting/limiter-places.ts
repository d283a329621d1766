import type { Slotted } from '../../kernel/queues/bag.js';
import { Bag } from '../../kernel/queues/bag.js';
import type { LimiterLease } from './limiter-lease.js';
import type { JobWish, LimiterConfig, Wish } from './limiter-options.js';
import type { WaitingRoom } from './limiter-queue.js';
import { Ticket } from './limiter-tickets.js';
import type { Cost } from './limiter-types.js';

/**
 * Most places in one lane. A child takes its turns among everybody else's, so with few places it would get few of them; but
 * all are given up when its own rate runs out, and must be cheap to take again.
 */
const MOST = 32;

/** The limiter above has to be waited for. */
export const NONE = 'none';

/** The limiter above. */
export interface Parent {
  tryGrant(wish: JobWish): LimiterLease | undefined;
  /** Whether it would. */
  goesAtOnce(wish: JobWish): boolean;
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
 * What a limiter has of the one above it: leases when they are free, or else places in its queue. A place holds nothing: what goes is decided when the turn comes, and only if the
 * child's own limits let it go then. So a permit is taken of both or of none.
 */
export class Places {
  readonly #parent: Parent;
  readonly #child: Child;
  readonly #config: LimiterConfig;
  /** By the lanes of the parent. */
  readonly #waiting: Bag<PlaceTicket>[];

  constructor(parent: Parent, child: Child, config: LimiterConfig) {
    this.#parent = parent;
    this.#child = child;
    this.#config = config;
    this.#waiting = Array.from({ length: config.sharesLanes ? config.lanes.lanes.length : 1 }, () => new Bag());
  }

  /** A lease at once, or none. */
  take({ lane, requests, tokens }: JobWish): LimiterLease | typeof NONE {
    return this.#parent.tryGrant({ lane: this.#laneAbove(lane), requests, tokens }) ?? NONE;
  }

  goesAtOnce(wish: JobWish): boolean {
    return this.#parent.goesAtOnce({ ...wish, lane: this.#laneAbove(wish.lane) });
  }

  /** Places taken. */
  get size(): number {
    return this.#waiting.reduce((sum, { size }) => sum + size, 0);
  }

  /** Whether the limiter above will ask when it has something for this lane. */
  has(lane: number): boolean {
    return this.#waiting[this.#laneAbove(lane)]?.size !== 0;
  }

  /** Sees to it that there are places for as many as wait and have a slot here. They may be granted before this returns. */
  seek(room: WaitingRoom, freeSlots: number): void {
    if (!this.#config.sharesLanes) {
      this.#seek(0, Math.min(freeSlots, room.size));
      return;
    }
    for (const lane of this.#waiting.keys()) if (!room.isPaused(lane)) this.#seek(lane, Math.min(freeSlots, room.count(lane)));
  }

  #seek(lane: number, wanted: number): void {
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

  #laneAbove(lane: number): number {
    return this.#config.sharesLanes ? lane : 0;
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

  override get isPlace(): boolean {
    return true;
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

import { RateLimitError } from '../../options/errors.js';
import type { Shutdown } from '../../shell/shutdown.js';
import type { Capacity } from './limiter-capacity.js';
import type { LimiterClock } from './limiter-clock.js';
import type { JobWish } from './limiter-options.js';
import { NAME } from './limiter-options.js';
import type { Pauses } from './limiter-pauses.js';
import type { Offer } from './limiter-places.js';
import type { WaitingRoom } from './limiter-queue.js';
import type { TimedLimit } from './limiter-rates.js';
import type { Ticket } from './limiter-tickets.js';
import type { Cost } from './limiter-types.js';

/** What is in the way of a job, and for how long. */
interface Obstacle {
  readonly limit: 'concurrency' | TimedLimit | undefined;
  readonly waitMs: number;
}

/** The limiter whose turns these are. */
export interface Host {
  readonly capacity: Capacity;
  readonly pauses: Pauses;
  readonly shutdown: Shutdown;
  /** Somebody who was asked wanted nothing any more. */
  dismissed(): void;
}

/** Whose turn it is, what those want who decide late, and who is sent away. */
export class Turns {
  readonly #own: Host;
  readonly #clock: LimiterClock;
  readonly #room: WaitingRoom;
  readonly #above: Turns | undefined;

  constructor(own: Host, clock: LimiterClock, room: WaitingRoom, above: Turns | undefined) {
    this.#own = own;
    this.#clock = clock;
    this.#room = room;
    this.#above = above;
  }

  /** What the one wants whose turn it is, in any lane or in this one; undefined when nobody waits. */
  next(lane?: number, affordable?: number): Offer | undefined {
    for (let ticket = this.#head(lane); ticket; ticket = this.#head(lane)) {
      const tokens = this.bid(ticket, affordable);
      if (tokens !== undefined) return { ticket, requests: ticket.wish.requests, tokens };
    }
    return undefined;
  }

  /** Undefined from one that gives up its place, and is gone from the queue then; so is one that cannot say what it wants. */
  bid(ticket: Ticket, affordable?: number): number | undefined {
    const { tokens } = ticket.wish;
    if (tokens !== undefined) return tokens;
    try {
      const bid = ticket.bid(this.#own.capacity.affordableWith(affordable));
      if (bid === undefined) this.#dismiss(ticket);
      return bid;
    } catch (error) {
      this.#dismiss(ticket);
      this.#refused(ticket, error);
      return undefined;
    }
  }

  /** Refuses one that has waited long enough. */
  expire(ticket: Ticket): void {
    const { limit, waitMs } = this.#obstacle(ticket.wish as JobWish);
    const heldForMs = this.#own.pauses.heldForMs(ticket.wish.lane);
    this.refuse(ticket, new RateLimitError(NAME, heldForMs > 0 ? 'pause' : (limit ?? 'concurrency'), Math.max(waitMs, heldForMs)));
  }

  /** Takes it out of the queue, and tells it why. */
  refuse(ticket: Ticket, error: unknown): void {
    this.#room.remove(ticket);
    this.#refused(ticket, error);
  }

  #refused(ticket: Ticket, error: unknown): void {
    this.#own.shutdown.count('done');
    ticket.refused(error);
  }

  /** Its own cost, or that of the one whose turn it is, here or above. Each limiter has its own idea of the time when the clock was set back. */
  #obstacle(own: Required<Cost>): Obstacle {
    this.#clock.read();
    const next = this.next() ?? own;
    const above = this.#above && this.#above.#obstacle(own);
    const waitMs = Math.max(this.#own.capacity.payableAt(own), this.#own.capacity.payableAt(next)) - this.#clock.time;
    return {
      limit: this.#own.capacity.blockedBy(next.requests, next.tokens) ?? above?.limit,
      waitMs: Math.max(waitMs, above?.waitMs ?? 0),
    };
  }

  #head(lane: number | undefined): Ticket | undefined {
    if (lane === undefined) return this.#room.lead;
    return this.#room.isPaused(lane) ? undefined : this.#room.head(lane);
  }

  #dismiss(ticket: Ticket): void {
    if (!ticket.isWaiting) return;
    this.#room.remove(ticket);
    this.#own.dismissed();
  }
}

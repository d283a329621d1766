import { DeadlineHeap } from '../../kernel/queues/deadline-heap.js';
import { LaneQueue } from '../../kernel/queues/lane-queue.js';
import type { Lane } from '../../options/lanes.js';
import { LongQueue } from '../../shell/long-queue.js';
import type { LimiterConfig } from './limiter-options.js';
import { NAME } from './limiter-options.js';
import type { Ticket } from './limiter-tickets.js';

/** What levels and costs may differ by without meaning anything. */
const ROUNDING = 1e-6;

/** Everybody who waits for a lease: in which order, how many at most, and for how long. */
export class WaitingRoom {
  readonly #lanes: readonly Lane[];
  readonly #maxQueued: number;
  readonly #queue: LaneQueue<Ticket>;
  /** Jobs waiting, in all and in each lane; a bidder's own queue has a bound, so bidders do not count towards these. */
  #counted = 0;
  readonly #jobs: Int32Array;
  /** Jobs with a time limit on their wait; those that left are swept out now and then. */
  readonly #expiring = new DeadlineHeap<Ticket>();

  readonly #long: LongQueue;

  constructor({ lanes: table, maxQueued, onEvent }: LimiterConfig) {
    this.#long = new LongQueue(NAME, onEvent);
    this.#lanes = table.lanes;
    this.#maxQueued = maxQueued;
    this.#queue = new LaneQueue<Ticket>(table.fairness, 1, isWaiting);
    this.#jobs = new Int32Array(table.lanes.length);
  }

  get size(): number {
    return this.#queue.size;
  }

  /** Whose turn it is. */
  get lead(): Ticket | undefined {
    const lane = this.#queue.lead();
    return lane === -1 ? undefined : this.#queue.peek(lane);
  }

  /** Nobody in the lane has a turn until `resume`. */
  pause(lane: number): void {
    this.#queue.pause(lane);
  }

  resume(lane: number): void {
    this.#queue.resume(lane);
  }

  isPaused(lane: number): boolean {
    return this.#queue.isPaused(lane);
  }

  /** Who is next in a lane. */
  head(lane: number): Ticket | undefined {
    return this.#queue.peek(lane);
  }

  /** How many wait in a lane. */
  count(lane: number): number {
    return this.#queue.count(lane);
  }

  /**
   * How many of those who wait could be paid from so many requests and tokens, in the order of the lanes: a slot is all they need. What a
   * bidder wants is not known before its turn, and counts as one token.
   */
  payable(requests: number, tokens: number): number {
    let [requestsLeft, tokensLeft, payable] = [requests, tokens, 0];
    let isEnough = true;
    for (let lane = 0; lane < this.#lanes.length && (isEnough as boolean); lane++) {
      if (this.isPaused(lane)) continue;
      this.#queue.scanFresh(lane, ({ wish }) => {
        requestsLeft -= wish.requests;
        tokensLeft -= wish.tokens ?? 1;
        isEnough = requestsLeft >= -ROUNDING && tokensLeft >= -ROUNDING;
        if (isEnough) payable++;
        return isEnough;
      });
    }
    return payable;
  }

  /** Nobody who waits goes before a newcomer in this lane: not in a lane as urgent, and not in one that is owed a turn. */
  goesFirst(lane: number): boolean {
    return this.#queue.goesFirst(lane);
  }

  /** Whether the bounds leave room for one more job in this lane. */
  hasRoom(lane: number): boolean {
    return this.#counted < this.#maxQueued && !this.#isFull(lane);
  }

  /** Whether nobody may wait in this lane. */
  isClosed(lane: number): boolean {
    return this.#maxQueued === 0 || this.lane(lane).maxQueued === 0;
  }

  /** Most jobs that may wait in this lane. */
  bound(lane: number): number {
    return Math.min(this.#maxQueued, this.lane(lane).maxQueued);
  }

  lane(lane: number): Lane {
    return this.#lanes[lane] as Lane;
  }

  /** `until` is when a job has waited long enough, Infinity for never. */
  enter(ticket: Ticket, until: number): void {
    const { lane } = ticket.wish;
    ticket.isWaiting = true;
    this.#queue.push(lane, ticket);
    if (!isJob(ticket)) return;
    this.#counted++;
    (this.#jobs[lane] as number)++;
    if (until !== Infinity) {
      this.#expiring.push(until, ticket);
      if (this.#expiring.length > 2 * this.#counted + 32) this.#expiring.keep(isWaiting);
    }
    this.#long.grew(this.#counted, this.lane(lane).name);
  }

  /** Takes the ticket out from wherever it stands. */
  remove(ticket: Ticket): void {
    this.#forget(ticket);
    this.#queue.left(ticket.wish.lane);
  }

  /** Takes the ticket out that stands first in its lane. */
  take(ticket: Ticket): void {
    this.#queue.shift(ticket.wish.lane);
    this.#forget(ticket);
  }

  /** Everybody but the places of limiters below, the most urgent lane first. */
  all(): Ticket[] {
    const all: Ticket[] = [];
    for (const lane of this.#lanes.keys()) {
      this.#queue.scanFresh(lane, (ticket) => {
        if (!ticket.isPlace) all.push(ticket);
        return true;
      });
    }
    return all;
  }

  /** Takes out everybody, and tells them. */
  close(error: unknown): void {
    // Lane by lane, the most urgent first: a lane may be held back, or be so by whoever is refused just now.
    for (const lane of this.#lanes.keys()) {
      for (let ticket = this.head(lane); ticket; ticket = this.head(lane)) {
        this.take(ticket);
        ticket.refused(error);
      }
    }
  }

  /** Books a grant to a lane: those still waiting earn their floor. */
  turn(lane: number): void {
    // A lane alone is owed nothing, and neither is an empty one.
    if (this.#lanes.length === 1 || this.#queue.size === 0) return;
    this.#queue.turn(lane);
  }

  /** Who has to go by the lane's overflow policy, so that one more can wait in it; nobody when only the newcomer can. */
  losers(lane: number): readonly Ticket[] {
    const losers: Ticket[] = [];
    const { overflow: policy } = this.lane(lane);
    if (policy === 'latest' || policy === 'dropOldest') {
      this.#queue.scanFresh(lane, (waiter) => {
        if (isJob(waiter)) losers.push(waiter);
        return policy === 'latest' || losers.length === 0;
      });
    } else if (policy === 'dropLowest' && !this.#isFull(lane)) {
      // The newest job of the least urgent lane that has one, if that is below.
      const lowest = this.#jobs.findLastIndex((jobs) => jobs > 0);
      const newest = lowest > lane ? this.#queue.newestFresh(lowest, isJob) : undefined;
      if (newest) losers.push(newest);
    }
    return losers;
  }

  /** Whether somebody may have waited long enough one day. */
  get isTimed(): boolean {
    return this.#expiring.length > 0;
  }

  /** When the next job will have waited long enough; Infinity when none will. */
  get nextExpiry(): number {
    while (this.#expiring.peek()?.isWaiting === false) this.#expiring.pop();
    return this.#expiring.peekAt();
  }

  /** The next job that has waited long enough; it still waits. */
  expired(now: number): Ticket | undefined {
    return this.nextExpiry <= now ? this.#expiring.pop() : undefined;
  }

  #isFull(lane: number): boolean {
    return (this.#jobs[lane] as number) >= this.lane(lane).maxQueued;
  }

  #forget(ticket: Ticket): void {
    ticket.isWaiting = false;
    if (!isJob(ticket)) return;
    this.#counted--;
    (this.#jobs[ticket.wish.lane] as number)--;
  }
}

function isWaiting(ticket: Ticket): boolean {
  return ticket.isWaiting;
}

function isJob(ticket: Ticket): boolean {
  return ticket.wish.tokens !== undefined;
}

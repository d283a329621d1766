import { DeadlineHeap } from '../../kernel/queues/deadline-heap.js';
import type { Queue } from '../../kernel/queues/queue.js';
import { OverflowError } from '../../options/errors.js';
import type { Note } from '../../options/events.js';
import type { LimiterSettings } from './settings.js';
import { NAME } from './settings.js';
import type { Ticket } from './ticket.js';

/** What levels and costs may differ by without meaning anything. */
const ROUNDING = 1e-6;

/** So many in a queue without a bound that whoever sends them should be looked at. */
const LONG = 10_000;

/** Everybody who waits for a lease: in which order, how many at most, and for how long. */
export class WaitingRoom {
  /** How many of those who wait need no slot. */
  slotless = 0;
  private readonly settings: LimiterSettings;
  private readonly tell: ((note: Note) => void) | undefined;
  private readonly tickets: Queue<Ticket>;
  /** Jobs waiting, in all and in each lane; a bidder's own queue has a bound, so bidders do not count towards these. */
  private counted = 0;
  private readonly jobs: number[];
  private isToldLong = false;
  /** Jobs with a time limit on their wait; those that left are swept out now and then. */
  private expiring: DeadlineHeap<Ticket> | undefined = undefined;
  /** Those with an id. */
  private byId: Map<string | number, Ticket> | undefined = undefined;

  constructor(settings: LimiterSettings, tell: ((note: Note) => void) | undefined) {
    this.settings = settings;
    this.tell = tell;
    this.tickets = settings.queue.create<Ticket>(1);
    this.jobs = settings.queue.lanes.map(() => 0);
  }

  get size(): number {
    return this.tickets.size;
  }

  /** The lane whose turn it is; -1 when nobody waits. */
  get lead(): number {
    return this.tickets.size === 0 ? -1 : this.tickets.lead();
  }

  /** Who is next in a lane where somebody waits. */
  head(lane: number): Ticket {
    return this.tickets.head(lane) as Ticket;
  }

  count(lane: number): number {
    return this.tickets.count(lane);
  }

  find(id: string | number): Ticket | undefined {
    return this.byId?.get(id);
  }

  /**
   * How many of those who wait could be paid from so many requests and tokens, in the order of the lanes: a slot is all they need. What a
   * bidder wants is not known before its turn, and counts as one token.
   */
  payable(requests: number, tokens: number): number {
    let [requestsLeft, tokensLeft, payable] = [requests, tokens, 0];
    let isEnough = true;
    for (let lane = 0; lane < this.jobs.length && (isEnough as boolean); lane++) {
      this.tickets.each(lane, ({ charge, isJob }) => {
        requestsLeft -= charge.requests;
        tokensLeft -= isJob ? charge.tokens : 1;
        isEnough = requestsLeft >= -ROUNDING && tokensLeft >= -ROUNDING;
        if (isEnough) payable++;
        return isEnough;
      });
    }
    return payable;
  }

  /** Nobody who waits goes before a newcomer in this lane: not in a lane as urgent, and not in one that is owed a turn. */
  goesFirst(lane: number): boolean {
    return this.tickets.size === 0 || this.tickets.goesFirst(lane);
  }

  /** Whether the bounds leave room for one more job in this lane. */
  hasRoom(lane: number): boolean {
    return this.counted < this.settings.maxQueued && !this.isFull(lane);
  }

  /** Whether nobody may wait in this lane. */
  isClosed(lane: number): boolean {
    return this.bound(lane) === 0;
  }

  nameOf(lane: number): string {
    return this.settings.queue.lanes[lane]?.name ?? '';
  }

  /** `until` is when a job has waited long enough, Infinity for never. */
  enter(ticket: Ticket, until: number): void {
    const lane = ~ticket.lane;
    ticket.lane = lane;
    this.tickets.push(ticket);
    if (!ticket.isJob) return;
    if (ticket.charge.slots === 0) this.slotless++;
    this.counted++;
    (this.jobs[lane] as number)++;
    if (ticket.id !== undefined) (this.byId ??= new Map()).set(ticket.id, ticket);
    if (until !== Infinity) {
      this.expiring ??= new DeadlineHeap();
      this.expiring.push(until, ticket);
      if (this.expiring.length > 2 * this.counted + 32) this.expiring.keep(isWaiting);
    }
    if (this.counted === 1) this.isToldLong = false;
    if (this.counted < LONG || this.isToldLong) return;
    this.isToldLong = true;
    this.tell?.({ type: 'queueLong', lane: this.nameOf(lane), queued: this.counted });
  }

  /** Takes the ticket out from wherever it stands. */
  remove(ticket: Ticket): void {
    this.tickets.remove(ticket);
    this.forget(ticket);
  }

  /** Takes the one out that is next in its lane: it has had its turn. */
  take(ticket: Ticket): void {
    this.tickets.takeHead(ticket.lane);
    this.forget(ticket);
  }

  /** Books a grant to one that has not waited: those still waiting earn their share. */
  turn(lane: number): void {
    // A lane alone is owed nothing, and neither is an empty one.
    if (this.jobs.length > 1 && this.tickets.size > 0) this.tickets.turn(lane);
  }

  move(ticket: Ticket, lane: number): void {
    this.tickets.remove(ticket);
    (this.jobs[ticket.lane] as number)--;
    ticket.lane = lane;
    this.tickets.push(ticket);
    (this.jobs[lane] as number)++;
  }

  /** Everybody but the places of limiters below, the most urgent lane first. */
  all(): Ticket[] {
    const all: Ticket[] = [];
    for (const lane of this.jobs.keys()) this.tickets.each(lane, (ticket) => ticket.isPlace || all.push(ticket) > 0);
    return all;
  }

  /** Takes out everybody, and tells them. */
  close(error: unknown): void {
    for (const lane of this.jobs.keys()) {
      while (this.count(lane) > 0) {
        const ticket = this.head(lane);
        this.remove(ticket);
        ticket.refused(error);
      }
    }
  }

  /** Who has to go by the lane's overflow policy, so that one more can wait in it; nobody when only the newcomer can. */
  losers(lane: number): readonly Ticket[] {
    const losers: Ticket[] = [];
    const policy = this.policy(lane);
    if (policy === 'latest' || policy === 'dropOldest') {
      this.tickets.each(lane, (ticket) => {
        if (ticket.isJob) losers.push(ticket);
        return policy === 'latest' || losers.length === 0;
      });
    } else if (policy === 'dropLowest' && !this.isFull(lane)) {
      // The newest job of the least urgent lane that has one, if that is below.
      const lowest = this.jobs.findLastIndex((jobs) => jobs > 0);
      let newest = lowest > lane ? this.tickets.newest(lowest) : undefined;
      while (newest && !newest.isJob) newest = newest.previous;
      if (newest) losers.push(newest);
    }
    return losers;
  }

  /** What came of an overflow of the lane. */
  refuse(losers: readonly Ticket[], lane: number): void {
    const policy = this.policy(lane);
    for (const loser of losers) {
      this.tell?.({ type: 'dropped', lane: this.nameOf(~loser.lane), policy });
      loser.refused(new OverflowError(NAME, this.bound(lane), policy));
    }
  }

  /** Whether somebody may have waited long enough one day. */
  get isTimed(): boolean {
    return this.expiring !== undefined && this.expiring.length > 0;
  }

  /** When the next job will have waited long enough; Infinity when none will. */
  get nextExpiry(): number {
    const { expiring } = this;
    while (expiring?.peek()?.isWaiting === false) expiring.pop();
    return expiring?.peekAt() ?? Infinity;
  }

  /** The next job that has waited long enough; it still waits. */
  expired(now: number): Ticket | undefined {
    return this.nextExpiry <= now ? this.expiring?.pop() : undefined;
  }

  /** Most jobs that may wait in this lane. */
  private bound(lane: number): number {
    return Math.min(this.settings.maxQueued, this.settings.queue.lanes[lane]?.maxQueued ?? Infinity);
  }

  private policy(lane: number) {
    return this.settings.queue.lanes[lane]?.overflow ?? this.settings.overflow;
  }

  private isFull(lane: number): boolean {
    return (this.jobs[lane] as number) >= (this.settings.queue.lanes[lane]?.maxQueued ?? Infinity);
  }

  private forget(ticket: Ticket): void {
    const { lane } = ticket;
    ticket.lane = ~lane;
    if (!ticket.isJob) return;
    if (ticket.charge.slots === 0) this.slotless--;
    this.counted--;
    (this.jobs[lane] as number)--;
    if (ticket.id !== undefined) this.byId?.delete(ticket.id);
  }
}

function isWaiting(ticket: Ticket): boolean {
  return ticket.isWaiting;
}

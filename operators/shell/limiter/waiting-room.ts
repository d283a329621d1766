import { DeadlineHeap } from '../../kernel/queues/deadline-heap.js';
import type { LaneRule, Queue } from '../../kernel/queues/queue.js';
import { OverflowError } from '../../options/errors.js';
import type { Note } from '../../options/events.js';
import { teller } from '../../options/events.js';
import { ShutdownHandle } from '../shutdown.js';
import type { LimiterSettings } from './settings.js';
import { NAME } from './settings.js';
import type { Ticket } from './ticket.js';

/** What levels and costs may differ by without meaning anything. */
const ROUNDING = 1e-6;

/** So many in a queue without a bound that whoever sends them should be looked at. */
const LONG = 10_000;

/** Who waits for a lease: in which order, how many at most, and for how long. Jobs are all but those who bid, whose own queues have bounds. */
export abstract class WaitingRoom extends ShutdownHandle {
  readonly settings: LimiterSettings;
  readonly queue: Queue<Ticket>;
  protected readonly tell: ((note: Note) => void) | undefined;
  /** Jobs waiting that need no slot. */
  protected slotless = 0;
  /** Jobs waiting, in all and in each lane. */
  private counted = 0;
  private readonly jobs: number[];
  /** Most that may wait in each lane. */
  private readonly most: readonly number[];
  private isToldLong = false;
  /** Those with a time limit on their wait; those that left are swept out now and then. */
  protected expiring: DeadlineHeap<Ticket> | undefined = undefined;
  private readonly byId = new Map<string | number, Ticket>();

  constructor(settings: LimiterSettings) {
    super();
    const { queue } = settings;
    this.settings = settings;
    this.tell = teller(NAME, settings, () => this.read());
    this.queue = queue.create<Ticket>(1);
    this.jobs = queue.lanes.map(() => 0);
    this.most = queue.lanes.map(({ maxQueued = Infinity }) => maxQueued);
  }

  /** Looks at the clock. */
  abstract read(): number;

  find(id: string | number): Ticket | undefined {
    return this.byId.get(id);
  }

  /**
   * How many of those who wait could be paid from so many requests and tokens, in the order of the lanes: a slot is all they need. What a
   * bidder wants is not known before its turn, and counts as one token.
   */
  protected payable(requests: number, tokens: number): number {
    let payable = 0;
    let [requestsLeft, tokensLeft] = [requests + ROUNDING, tokens + ROUNDING];
    this.jobs.every((_, lane) => {
      this.queue.each(lane, (ticket) => {
        requestsLeft -= ticket.charge.requests;
        tokensLeft -= ticket.bid ? 1 : ticket.charge.tokens;
        if (requestsLeft < 0 || tokensLeft < 0) return false;
        return ++payable > 0;
      });
      return requestsLeft >= 0 && tokensLeft >= 0;
    });
    return payable;
  }

  /** Lets the ticket wait; until so late, Infinity for ever. */
  protected enter(ticket: Ticket, until: number): void {
    const { lane, id } = ticket;
    ticket.isWaiting = true;
    this.queue.push(ticket);
    if (ticket.bid) return;
    this.count(ticket, 1);
    if (id !== undefined) this.byId.set(id, ticket);
    if (until !== Infinity) {
      this.expiring ??= new DeadlineHeap();
      this.expiring.push(until, ticket);
      if (this.expiring.length > 2 * this.counted + 32) this.expiring.keep(({ isWaiting }) => isWaiting);
    }
    if (this.counted === 1) this.isToldLong = false;
    if (this.counted < LONG || this.isToldLong) return;
    this.isToldLong = true;
    this.tell?.({ type: 'queueLong', lane: this.ruleOf(lane).name, queued: this.counted });
  }

  /** Takes the ticket out: because it has its turn, or from wherever it stands. */
  protected takeOut(ticket: Ticket, hasTurn = false): void {
    const { lane, id } = ticket;
    if (hasTurn) this.queue.takeHead(lane, 1, ticket);
    else this.queue.remove(ticket);
    ticket.isWaiting = false;
    if (ticket.bid) return;
    this.count(ticket, -1);
    if (id !== undefined) this.byId.delete(id);
  }

  /** Into another lane, at its end. */
  protected shift(ticket: Ticket, lane: number): void {
    this.queue.remove(ticket);
    this.count(ticket, -1);
    ticket.lane = lane;
    this.queue.push(ticket);
    this.count(ticket, 1);
  }

  /** Everybody who waits, the most urgent lane first. */
  protected everybody(): Ticket[] {
    const all: Ticket[] = [];
    for (const lane of this.jobs.keys()) this.queue.each(lane, (ticket) => all.push(ticket) > 0);
    return all;
  }

  /** Whether the bounds leave room for one more job in this lane. */
  protected hasRoom(lane: number): boolean {
    return this.counted < this.settings.maxQueued && (this.jobs[lane] as number) < (this.most[lane] as number);
  }

  /** Takes out who has to go by the lane's overflow policy, so that one more can wait in it; nobody when only the newcomer can. */
  protected makeRoom(lane: number): readonly Ticket[] {
    const losers: Ticket[] = [];
    const policy = this.policy(lane);
    if (policy === 'latest' || policy === 'dropOldest') {
      this.queue.each(lane, (ticket) => {
        if (!ticket.bid) losers.push(ticket);
        return policy === 'latest' || losers.length === 0;
      });
    } else if (policy === 'dropLowest' && (this.jobs[lane] as number) < (this.most[lane] as number)) {
      // The newest job of the least urgent lane that has one, if that is below.
      const lowest = this.jobs.findLastIndex((jobs) => jobs > 0);
      let newest = lowest > lane ? this.queue.newest(lowest) : undefined;
      while (newest?.bid) newest = newest.previous;
      if (newest) losers.push(newest);
    }
    for (const loser of losers) this.takeOut(loser);
    return losers;
  }

  /** Tells them what came of an overflow of the lane. */
  protected turnAway(losers: readonly Ticket[], lane: number): void {
    const policy = this.policy(lane);
    for (const loser of losers) {
      this.tellDropped(loser, policy);
      loser.refused(new OverflowError(NAME, this.bound(lane), policy));
    }
  }

  /** When the next job will have waited long enough; Infinity when none will. */
  protected get nextExpiry(): number {
    const { expiring } = this;
    while (expiring?.peek()?.isWaiting === false) expiring.pop();
    if (expiring?.length === 0) this.expiring = undefined;
    return expiring?.peekAt() ?? Infinity;
  }

  /** The next job that has waited long enough; it still waits. */
  protected expired(now: number): Ticket | undefined {
    return this.nextExpiry <= now ? this.expiring?.pop() : undefined;
  }

  protected tellDropped({ lane }: Ticket, policy: string): void {
    this.tell?.({ type: 'dropped', lane: this.ruleOf(lane).name, policy });
  }

  private ruleOf(lane: number): LaneRule {
    return this.settings.queue.lanes[lane] as LaneRule;
  }

  /** Most jobs that may wait in this lane. */
  protected bound(lane: number): number {
    return Math.min(this.settings.maxQueued, this.most[lane] as number);
  }

  private policy(lane: number) {
    return this.ruleOf(lane).overflow ?? this.settings.overflow;
  }

  private count({ lane, charge }: Ticket, change: number): void {
    this.counted += change;
    (this.jobs[lane] as number) += change;
    if (charge.slots === 0) this.slotless += change;
  }
}

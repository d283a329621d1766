import { DeadlineHeap } from '../../kernel/queues/deadline-heap.js';
import { LONG_QUEUE } from '../../kernel/queues/line.js';
import type { GrantQueue, LaneRule, Overflow } from '../../kernel/queues/queue.js';
import { OverflowError } from '../../options/errors.js';
import type { Note } from '../../options/events.js';
import { teller } from '../../options/events.js';
import { ShutdownHandle } from '../shutdown.js';
import type { LimiterSettings } from './settings.js';
import { NAME } from './settings.js';
import type { ParentLink, Ticket } from './ticket.js';

/** Levels and costs that differ by less are equal: they are sums of fractions. */
const ROUNDING = 1e-6;

/**
 * The queue of a limiter: tickets in the order in which they are granted, with its bounds and deadlines. Bidders are not counted as jobs: they have
 * queues of their own, with their own bounds.
 */
export abstract class LimiterQueue extends ShutdownHandle {
  readonly settings: LimiterSettings;
  readonly queue: GrantQueue<Ticket>;
  readonly parent: ParentLink | undefined = undefined;
  /** Child limiters that have something waiting or running. */
  abstract readonly children: ReadonlySet<LimiterQueue>;
  readonly tell: ((note: Note) => void) | undefined;
  /** Waiting jobs that need no slot, here and in child limiters. */
  protected slotless = 0;
  /** Waiting jobs, in total and by lane. */
  protected waiting = 0;
  protected readonly inLane: number[];
  /** Jobs that may only wait for so long. Those that have left are removed now and then. */
  protected expiring: DeadlineHeap<Ticket> | undefined = undefined;
  protected readonly byId = new Map<string | number, Ticket>();
  private isLong = false;
  private arrivals = 0;

  constructor(settings: LimiterSettings) {
    super();
    const { queue } = settings;
    this.settings = settings;
    this.tell = teller(NAME, settings, () => this.now());
    this.queue = queue.create<Ticket>(1);
    this.inLane = queue.lanes.map(() => 0);
  }

  /** Reads the clock, and keeps the time. */
  abstract now(): number;

  /**
   * How many waiting tickets these requests and tokens would pay for, in the order of the lanes: they only wait for a slot. What a bidder wants is
   * not known before its turn, so it counts as one token.
   */
  protected payable(requests: number, tokens: number): number {
    let [requestsLeft, tokensLeft] = [requests + ROUNDING, tokens + ROUNDING];
    const unpaid = this.allWaiting().findIndex((ticket) => {
      requestsLeft -= ticket.charge.requests;
      tokensLeft -= ticket.bid ? 1 : ticket.charge.tokens;
      return requestsLeft < 0 || tokensLeft < 0;
    });
    return unpaid === -1 ? this.queue.size : unpaid;
  }

  /** Puts the ticket into the queue, for `waitMs` at most. */
  protected enqueue(ticket: Ticket, waitMs: number): void {
    const { lane, id } = ticket;
    this.parent?.markBusy();
    ticket.isWaiting = true;
    if (this.settings.queue.keyOf) ticket.index = this.arrivals++;
    this.queue.push(ticket);
    if (ticket.bid) return;
    this.count(ticket, 1);
    if (id !== undefined) this.byId.set(id, ticket);
    if (waitMs !== Infinity) {
      this.expiring ??= new DeadlineHeap();
      this.expiring.push(this.now() + waitMs, ticket);
      if (this.expiring.length > 2 * this.waiting + 32) this.expiring.keep(({ isWaiting }) => isWaiting);
    }
    if (this.waiting === 1) this.isLong = false;
    if (this.waiting < LONG_QUEUE || this.isLong) return;
    this.isLong = true;
    this.tell?.({ type: 'queueLong', lane: this.ruleOf(lane).name, queued: this.waiting });
  }

  /** Takes the ticket out of the queue: from the head of its lane when it has its turn, else from wherever it is. */
  protected dequeue(ticket: Ticket, hasTurn = false): void {
    const { lane, id } = ticket;
    if (hasTurn) this.queue.takeHead(lane, 1, ticket);
    else this.queue.remove(ticket);
    ticket.isWaiting = false;
    if (ticket.bid) return;
    this.count(ticket, -1);
    if (id !== undefined) this.byId.delete(id);
  }

  /** Takes out a ticket that leaves, and its place in the parent's queue: another ticket would overtake others with that place. */
  protected withdraw(ticket: Ticket): void {
    const place = this.parent?.placeOf(ticket);
    this.dequeue(ticket);
    // Only now: the parent may ask which ticket is next here.
    place?.withdraw();
    this.fill();
  }

  /** Takes places in the parent's queue for the waiting tickets. The caller makes the parent grant what it can. */
  abstract fill(): void;

  private count({ lane, charge }: Ticket, change: number): void {
    this.waiting += change;
    (this.inLane[lane] as number) += change;
    if (charge.slots === 0) this.countSlotless(change);
  }

  countSlotless(change: number): void {
    this.slotless += change;
    this.parent?.limiter.countSlotless(change);
  }

  /** All waiting tickets, the most urgent lane first. */
  protected allWaiting(): Ticket[] {
    const all: Ticket[] = [];
    for (const lane of this.inLane.keys()) this.queue.each(lane, (ticket) => all.push(ticket) > 0);
    return all;
  }

  /** Tickets waiting here and in child limiters. */
  get queued(): number {
    let jobs = this.queue.size;
    // A place here stands for a job there: do not count it twice.
    for (const child of this.children) jobs += child.queued - (child.parent as ParentLink).size;
    return jobs;
  }

  /** Jobs waiting here and in child limiters. */
  jobs(): Ticket[] {
    const own = this.allWaiting().filter(({ isPlace }) => !isPlace);
    return [...own, ...[...this.children].flatMap((child) => child.jobs())];
  }

  /** The queue is full: drops other tickets for this one, by the overflow policy of the lane, or refuses this one. */
  protected makeRoom(ticket: Ticket, deadlineMs: number, bound: number): void {
    const { lane } = ticket;
    const { overflow = this.settings.overflow, maxQueued = Infinity } = this.ruleOf(lane);
    const victims = this.victims(lane, overflow, (this.inLane[lane] as number) >= maxQueued);
    for (const victim of victims) this.withdraw(victim);
    const hasRoom = victims.length > 0;
    if (hasRoom) {
      this.enqueue(ticket, deadlineMs);
      this.fill();
    } else victims.push(ticket);
    // Only now that the new ticket is in the queue: the callbacks may ask for another lease.
    for (const victim of victims) {
      this.tellDropped(victim, overflow);
      victim.refused(new OverflowError(NAME, bound, overflow));
    }
    if (hasRoom) this.parent?.limiter.grantNow();
  }

  /** Who goes so that one more fits. As whoever has a promise may stand above the bound, that may take several. */
  private victims(lane: number, overflow: Overflow, isLaneFull: boolean): Ticket[] {
    const { maxQueued = Infinity } = this.ruleOf(lane);
    const excess = 1 + Math.max(this.waiting - this.settings.maxQueued, (this.inLane[lane] as number) - maxQueued);
    const victims: Ticket[] = [];
    if (overflow === 'latest' || overflow === 'dropOldest') {
      this.queue.each(lane, (ticket) => {
        if (!ticket.bid) victims.push(ticket);
        return overflow === 'latest' || victims.length < excess;
      });
    } else if (overflow === 'dropLowest' && !isLaneFull) {
      for (let lowest = this.inLane.length - 1; lowest > lane && victims.length < excess; lowest--)
        victims.push(...this.newest(lowest, excess - victims.length));
    }
    return victims;
  }

  /** The jobs of a lane that came last, so many at most. */
  private newest(lane: number, most: number): Ticket[] {
    const newest = this.queue.newest(lane);
    if (most === 1 && newest && !newest.bid) return [newest];
    const jobs: Ticket[] = [];
    this.queue.each(lane, (ticket) => {
      if (!ticket.bid) jobs.push(ticket);
      return true;
    });
    return jobs.slice(-most).reverse();
  }

  /** When the deadline of the next job is over; Infinity when no job has one. */
  protected get nextExpiry(): number {
    const { expiring } = this;
    while (expiring?.peek()?.isWaiting === false) expiring.pop();
    if (expiring?.length === 0) this.expiring = undefined;
    return expiring?.peekAt() ?? Infinity;
  }

  protected tellDropped({ lane }: Ticket, policy: string): void {
    this.tell?.({ type: 'dropped', lane: this.ruleOf(lane).name, policy });
  }

  protected ruleOf(lane: number): LaneRule {
    return this.settings.queue.lanes[lane] as LaneRule;
  }
}

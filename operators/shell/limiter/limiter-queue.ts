import { DeadlineHeap } from '../../kernel/queues/deadline-heap.js';
import { LONG_QUEUE } from '../../kernel/queues/line.js';
import type { GrantQueue, LaneRule } from '../../kernel/queues/queue.js';
import { OverflowError } from '../../options/errors.js';
import type { Teller } from '../../options/events.js';
import { teller } from '../../options/events.js';
import { ShutdownHandle } from '../shutdown.js';
import type { Listeners } from './listeners.js';
import type { LimiterSettings } from './settings.js';
import { NAME } from './settings.js';
import type { Ticket } from './ticket.js';

/**
 * Who waits for a limiter, in the order in which they are granted, with its bounds. Bidders are not counted as jobs: they have queues of their own, with
 * their own bounds.
 */
export abstract class LimiterQueue extends ShutdownHandle {
  readonly settings: LimiterSettings;
  readonly queue: GrantQueue<Ticket>;
  tell: Teller | undefined;
  /** Those who listen besides the listener of its options. */
  declare listeners?: Listeners;
  /** Limiters under this one that have something waiting or running. */
  abstract readonly children: ReadonlySet<LimiterQueue>;
  protected byId = new Map<string | number, Ticket>();
  /** Jobs that may only wait for so long. Those that no longer wait are removed now and then. */
  protected expiring: DeadlineHeap<Ticket> | undefined = undefined;
  /** Waiting jobs, in total and by lane. */
  protected waiting = 0;
  protected readonly inLane: number[];
  private isLong = false;
  private arrivals = 0;

  constructor(settings: LimiterSettings) {
    super();
    const { queue } = settings;
    this.settings = settings;
    this.queue = queue.create<Ticket>(1);
    this.inLane = queue.lanes.map(() => 0);
    this.tell = teller(NAME, settings, () => this.now());
  }

  /** Reads the clock, and keeps the time. */
  abstract now(): number;

  /** Tickets waiting here and in child limiters. */
  get queued(): number {
    let tickets = this.queue.size;
    for (const child of this.children) tickets += child.queued - child.placesAbove;
    return tickets;
  }

  /** No two jobs that wait here or there may have the same id. */
  shareIds(other: LimiterQueue): void {
    this.byId = other.byId;
  }

  /** The ticket whose turn it is. */
  get first(): Ticket | undefined {
    const { queue } = this;
    return queue.size === 0 ? undefined : queue.head(queue.lead());
  }

  /** Jobs waiting here and in child limiters. */
  jobs(): Ticket[] {
    const own = this.allWaiting().filter(({ isPlace }) => !isPlace);
    return [...own, ...[...this.children].flatMap((child) => child.jobs())];
  }

  /** Places in the queue of the limiter above: each stands for a job that waits here. */
  get placesAbove(): number {
    return 0;
  }

  /** All waiting tickets, the most urgent lane first. */
  protected allWaiting(): Ticket[] {
    const all: Ticket[] = [];
    for (const lane of this.inLane.keys()) this.queue.each(lane, (ticket) => all.push(ticket) > 0);
    return all;
  }

  /** When the deadline of the next job is over; Infinity when no job has one. */
  protected get nextExpiry(): number {
    const { expiring } = this;
    while (expiring?.peek()?.isWaiting === false) expiring.pop();
    if (expiring?.length === 0) this.expiring = undefined;
    return expiring?.peekAt() ?? Infinity;
  }

  /** Puts the ticket into the queue, for `waitMs` at most. */
  protected enqueue(ticket: Ticket, waitMs: number): void {
    const { lane, id } = ticket;
    ticket.isWaiting = true;
    if (this.settings.queue.keyOf) ticket.index = this.arrivals++;
    this.queue.push(ticket);
    if (ticket.bid) return;
    this.waiting++;
    (this.inLane[lane] as number)++;
    if (id !== undefined) this.byId.set(id, ticket);
    if (waitMs < Infinity) {
      const expiring = (this.expiring ??= new DeadlineHeap());
      expiring.push(this.now() + waitMs, ticket);
      if (expiring.length > 2 * this.waiting + 32) expiring.keep(({ isWaiting }) => isWaiting);
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
    this.waiting--;
    (this.inLane[lane] as number)--;
    if (id !== undefined) this.byId.delete(id);
  }

  /** Takes out a ticket that leaves. */
  protected withdraw(ticket: Ticket): void {
    this.dequeue(ticket);
  }

  /** The queue is full: drops others for this ticket, by the overflow policy of its lane, or refuses this one. Answers whether it waits now. */
  protected makeRoom(ticket: Ticket, waitMs: number, bound: number): boolean {
    const { lane } = ticket;
    const { overflow = this.settings.overflow, maxQueued = Infinity } = this.ruleOf(lane);
    const laneExcess = (this.inLane[lane] as number) - maxQueued;
    // Whoever has a promise may stand above the bound, so that more than one has to go.
    const excess = 1 + Math.max(this.waiting - this.settings.maxQueued, laneExcess);
    let victims: Ticket[] = [];
    if (overflow === 'latest') victims = this.jobsIn(lane);
    else if (overflow === 'dropOldest') victims = this.jobsIn(lane, excess);
    else if (overflow === 'dropLowest' && laneExcess < 0) {
      for (let lowest = this.inLane.length - 1; lowest > lane && victims.length < excess; lowest--)
        victims.push(
          ...this.jobsIn(lowest)
            .reverse()
            .slice(0, excess - victims.length),
        );
    }
    for (const victim of victims) this.withdraw(victim);
    const hasRoom = victims.length > 0;
    if (hasRoom) this.enqueue(ticket, waitMs);
    else victims.push(ticket);
    // Only now that the new ticket is in the queue: the callbacks may ask for another lease.
    for (const victim of victims) {
      this.tellDropped(victim, overflow);
      victim.refused(new OverflowError(NAME, bound, overflow));
    }
    return hasRoom;
  }

  /** Jobs that wait in a lane, the oldest first, so many at most. */
  private jobsIn(lane: number, most = Infinity): Ticket[] {
    const jobs: Ticket[] = [];
    this.queue.each(lane, (ticket) => {
      if (!ticket.bid) jobs.push(ticket);
      return jobs.length < most;
    });
    return jobs;
  }

  protected tellDropped({ lane }: Ticket, policy: string): void {
    this.tell?.({ type: 'dropped', lane: this.ruleOf(lane).name, policy });
  }

  protected ruleOf(lane: number): LaneRule {
    return this.settings.queue.lanes[lane] as LaneRule;
  }
}

import { DeadlineHeap } from '../../kernel/queues/deadline-heap.js';
import { LONG_QUEUE } from '../../kernel/queues/line.js';
import type { GrantQueue, LaneRule, Overflow } from '../../kernel/queues/queue.js';
import { OverflowError } from '../../options/errors.js';
import type { Note } from '../../options/events.js';
import { teller } from '../../options/events.js';
import { ShutdownHandle } from '../shutdown.js';
import type { LimiterSettings } from './settings.js';
import { NAME } from './settings.js';
import type { Above, Ticket } from './ticket.js';

/** What levels and costs may differ by without meaning anything. */
const ROUNDING = 1e-6;

/** Who waits for a lease: in which order, how many at most, and for how long. Jobs are all but those who bid, whose own queues have bounds. */
export abstract class WaitingRoom extends ShutdownHandle {
  readonly settings: LimiterSettings;
  readonly queue: GrantQueue<Ticket>;
  readonly above: Above | undefined = undefined;
  /** Limiters below that have something waiting or running. */
  abstract readonly below: ReadonlySet<WaitingRoom>;
  readonly tell: ((note: Note) => void) | undefined;
  /** Jobs waiting that need no slot, here and below. */
  protected slotless = 0;
  /** Jobs waiting, in all and in each lane. */
  protected waiting = 0;
  protected readonly inLane: number[];
  /** Jobs with a time limit on their wait; those that left are swept out now and then. */
  protected expiring: DeadlineHeap<Ticket> | undefined = undefined;
  protected readonly byId = new Map<string | number, Ticket>();
  private isToldLong = false;

  constructor(settings: LimiterSettings) {
    super();
    const { queue } = settings;
    this.settings = settings;
    this.tell = teller(NAME, settings, () => this.read());
    this.queue = queue.create<Ticket>(1);
    this.inLane = queue.lanes.map(() => 0);
  }

  /** Looks at the clock. */
  abstract read(): number;

  /**
   * How many of those who wait could be paid from so many requests and tokens, in the order of the lanes: a slot is all they need. What a
   * bidder wants is not known before its turn, and counts as one token.
   */
  protected payable(requests: number, tokens: number): number {
    let [requestsLeft, tokensLeft] = [requests + ROUNDING, tokens + ROUNDING];
    const unpaid = this.everybody().findIndex((ticket) => {
      requestsLeft -= ticket.charge.requests;
      tokensLeft -= ticket.bid ? 1 : ticket.charge.tokens;
      return requestsLeft < 0 || tokensLeft < 0;
    });
    return unpaid === -1 ? this.queue.size : unpaid;
  }

  /** Lets the ticket wait so long, Infinity for ever. */
  protected enter(ticket: Ticket, waitMs: number): void {
    const { lane, id } = ticket;
    this.above?.enter();
    ticket.isWaiting = true;
    this.queue.push(ticket);
    if (ticket.bid) return;
    this.count(ticket, 1);
    if (id !== undefined) this.byId.set(id, ticket);
    if (waitMs !== Infinity) {
      this.expiring ??= new DeadlineHeap();
      this.expiring.push(this.read() + waitMs, ticket);
      if (this.expiring.length > 2 * this.waiting + 32) this.expiring.keep(({ isWaiting }) => isWaiting);
    }
    if (this.waiting === 1) this.isToldLong = false;
    if (this.waiting < LONG_QUEUE || this.isToldLong) return;
    this.isToldLong = true;
    this.tell?.({ type: 'queueLong', lane: this.ruleOf(lane).name, queued: this.waiting });
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

  /** The same for one that leaves: its place above is for nobody else, who would go past others with it. */
  protected takeAway(ticket: Ticket): void {
    const place = this.above?.placeOf(ticket);
    this.takeOut(ticket);
    // Only now: the limiter above may ask what is next here.
    place?.withdraw();
    this.seek();
  }

  /** Takes places above for those who wait. Whoever calls it sees to it that the limiters above look who has a turn. */
  abstract seek(): void;

  private count({ lane, charge }: Ticket, change: number): void {
    this.waiting += change;
    (this.inLane[lane] as number) += change;
    if (charge.slots === 0) this.countSlotless(change);
  }

  countSlotless(change: number): void {
    this.slotless += change;
    this.above?.pump.countSlotless(change);
  }

  /** Everybody who waits, the most urgent lane first. */
  protected everybody(): Ticket[] {
    const all: Ticket[] = [];
    for (const lane of this.inLane.keys()) this.queue.each(lane, (ticket) => all.push(ticket) > 0);
    return all;
  }

  /** What waits here and below. */
  get queued(): number {
    let jobs = this.queue.size;
    // A place here is held for a job there.
    for (const child of this.below) jobs += child.queued - (child.above as Above).size;
    return jobs;
  }

  /** Jobs that wait here and below. */
  jobs(): Ticket[] {
    const own = this.everybody().filter(({ isPlace }) => !isPlace);
    return [...own, ...[...this.below].flatMap((child) => child.jobs())];
  }

  /** Lets the ticket wait in place of others, by the lane's overflow policy; or nobody but itself has to go. */
  protected makeRoom(ticket: Ticket, deadlineMs: number, bound: number): void {
    const { lane } = ticket;
    const { overflow = this.settings.overflow, maxQueued = Infinity } = this.ruleOf(lane);
    const losers = this.losers(lane, overflow, (this.inLane[lane] as number) >= maxQueued);
    for (const loser of losers) this.takeAway(loser);
    const hasRoom = losers.length > 0;
    if (hasRoom) {
      this.enter(ticket, deadlineMs);
      this.seek();
    } else losers.push(ticket);
    // Told only now that the newcomer has its place: they may well call again.
    for (const loser of losers) {
      this.tellDropped(loser, overflow);
      loser.refused(new OverflowError(NAME, bound, overflow));
    }
    if (hasRoom) this.above?.pump.poked();
  }

  private losers(lane: number, overflow: Overflow, isLaneFull: boolean): Ticket[] {
    const losers: Ticket[] = [];
    if (overflow === 'latest' || overflow === 'dropOldest') {
      this.queue.each(lane, (ticket) => {
        if (!ticket.bid) losers.push(ticket);
        return overflow === 'latest' || losers.length === 0;
      });
    } else if (overflow === 'dropLowest' && !isLaneFull) {
      // The newest job of the least urgent lane that has one, if that is below.
      const lowest = this.inLane.findLastIndex((jobs) => jobs > 0);
      let newest = lowest > lane ? this.queue.newest(lowest) : undefined;
      while (newest?.bid) newest = newest.previous;
      if (newest) losers.push(newest);
    }
    return losers;
  }

  /** When the next job will have waited long enough; Infinity when none will. */
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

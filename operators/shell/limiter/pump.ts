import type { Charge } from '../../kernel/limits/limit.js';
import { Bag } from '../../kernel/queues/bag.js';
import { ClosedError, RateLimitError } from '../../options/errors.js';
import type { Release } from '../../options/limiter.js';
import type { Outcome } from '../../options/permits.js';
import type { ResponseLike } from '../../options/types.js';
import { Shutdown } from '../shutdown.js';
import type { Audience } from './audience.js';
import { Capacity } from './capacity.js';
import type { LimiterSettings } from './settings.js';
import { NAME } from './settings.js';
import type { Above, Lessor, NestedJobs, RunningWork, Ticket } from './ticket.js';
import { Lease, WAIT } from './ticket.js';

/**
 * Who gets what a limiter has to give: one loop, one timer, and a clock that is only looked at when something depends on the time. Nobody
 * is granted anything from inside a grant: calls made there only enqueue, and the loop comes round again.
 */
export abstract class Pump extends Capacity implements Lessor {
  /** Leases handed out and not released. */
  leases = 0;
  readonly above: Above | undefined = undefined;
  /** Limiters below that have something waiting or running. */
  readonly below = new Set<Pump>();
  nesting: NestedJobs | undefined = undefined;
  readonly running = new Bag<RunningWork>();
  readonly shutdown: Shutdown;
  protected isPumping = false;
  /** Everything is being given up: what a refused job releases must not be granted to the next. */
  protected isGivingUp = false;
  // For whoever watches: that something came free, what comes back, and that something may hold that is waited for.
  declare protected news?: Audience<void>;
  declare protected releases?: Audience<Release>;
  declare changes?: Audience<void>;
  /** Something has changed since the loop last went round. */
  private again = false;
  /** Something was released or widened, and the watchers do not know yet. */
  private hasFreed = false;
  /** Slots held by work that was given up but is not over, and until when. */
  private readonly lingering = new Map<Lease, number>();

  constructor(settings: LimiterSettings) {
    super(settings);
    this.shutdown = new Shutdown({
      operator: NAME,
      scheduler: settings.scheduler,
      stop: () => {
        for (const child of [...this.below]) void child.drain();
        this.finish();
      },
      abort: (error) => {
        this.giveUp(error);
      },
    });
  }

  // ---- what there is --------------------------------------------------------------------------------------------------

  /** The error for a job that can never be paid, or comes too late: the end has begun, here or above. */
  refusal(charge: Charge): Error | undefined {
    return this.rates?.tooHeavy(charge) ?? (this.shutdown.isClosed ? new ClosedError(NAME) : undefined);
  }

  /** Whether nobody is to be served any more, because this one or one above gives everything up. */
  get isGivenUp(): boolean {
    return this.isGivingUp;
  }

  /** Whether anything waits or runs, here or below. */
  get isBusy(): boolean {
    return this.leases > 0 || this.queue.size > 0 || this.below.size > 0;
  }

  /** Whether everything that was spent has come back, and no pause is under way but one by hand. */
  get isIdle(): boolean {
    return !this.isBusy && (this.rates?.load() ?? 0) <= 0 && this.asksToWaitMs === 0;
  }

  /** What waits here and below. */
  get queued(): number {
    let jobs = this.queue.size;
    // A place here is held for a job there.
    for (const child of this.below) jobs += child.queued - (child.above as Above).size;
    return jobs;
  }

  // ---- who asks -------------------------------------------------------------------------------------------------------

  /** A lease at once, or none. */
  tryGrant(charge: Charge, lane: number): Lease | undefined {
    const above = this.refusal(charge) ? WAIT : this.admission(charge, lane);
    if (above === WAIT) return undefined;
    const lease = new Lease(this, charge);
    this.book(lease, above);
    // Somebody who was passed over may be owed the next turn, and whoever waited for the rate may wait for this slot now.
    if (this.queue.size > 0) this.letOthersIn();
    return lease;
  }

  /** Whether a job would be granted now, so that it does not need a place to wait. */
  goesAtOnce(charge: Charge, lane: number): boolean {
    return this.isNext(charge, lane);
  }

  /** For who bids, and for a limiter below, which may still have to send what it has accepted before the end of this one began. */
  admitPlace(ticket: Ticket): void {
    this.enter(ticket, Infinity);
    this.above?.enter();
    this.pump();
  }

  /** The ticket is granted, refused, or waits: for ever or until its deadline. */
  admit(ticket: Ticket, deadlineMs: number, waitsForRoom: boolean): void {
    const error = this.refusal(ticket.charge);
    if (error) {
      ticket.refused(error);
      return;
    }
    const above = this.isPumping ? WAIT : this.admission(ticket.charge, ticket.lane);
    if (above !== WAIT) this.pump(ticket, above);
    else this.admitLater(ticket, deadlineMs, waitsForRoom);
  }

  /** Leaves the queue. */
  leave(ticket: Ticket): void {
    if (!ticket.isWaiting) return;
    this.takeOut(ticket);
    this.letOthersIn();
  }

  /** Takes it out of the queue, and tells it why. */
  refuse(ticket: Ticket, error: unknown, how: 'done' | 'dropped' = 'done'): void {
    this.takeOut(ticket);
    this.shutdown.count(how);
    if (how === 'dropped') this.tellDropped(ticket, 'clear');
    ticket.refused(error);
    this.letOthersIn();
  }

  /** Everybody who waits here and below, but those that stand for jobs below. */
  waiting(): Ticket[] {
    const own = this.everybody().filter(({ isPlace }) => !isPlace);
    return [...own, ...[...this.below].flatMap((child) => child.waiting())];
  }

  /** A response to the request under this lease. */
  abstract learn(response: ResponseLike, lease: Lease): void;

  // ---- what leases report ---------------------------------------------------------------------------------------------

  freed(lease: Lease, outcome: Outcome, error: unknown): void {
    if (this.releases?.isThere) {
      const { executing } = this;
      const releasedAt = this.read();
      this.releases.tell({ outcome, error, grantedAt: lease.grantedAt ?? releasedAt, releasedAt, executing });
    }
    const isGivenUp = this.lingering.size > 0 && this.lingering.delete(lease);
    const isDone = (outcome === 'ok' || outcome === 'error') && !isGivenUp && !this.isGivingUp;
    if (isDone && this.shutdown.isClosed) this.shutdown.count('done');
    this.leases--;
    this.executing -= lease.charge.slots;
    this.nesting?.released(lease);
    if (outcome === 'unused') this.rates?.refund(lease);
    this.hasFreed = true;
    if (outcome === 'cancelled') this.letOthersIn();
    else this.pump();
  }

  settled(lease: Lease, tokens: number): void {
    if (this.rates && this.rates.settle(lease, tokens) < 0) this.pump();
  }

  lingers(lease: Lease): void {
    const { abortGraceMs } = this.settings;
    if (this.isGivingUp || abortGraceMs === 0) lease.release('cancelled');
    else if (!this.lingering.has(lease)) {
      this.lingering.set(lease, this.read() + abortGraceMs);
      this.rest();
    }
  }

  // ---- the loop -------------------------------------------------------------------------------------------------------

  /** The one loop that grants. Calls made from inside it only enqueue: it comes round again. `first` was found to go at once. */
  pump(first?: Ticket, above?: Lease): void {
    if (this.isPumping) {
      this.again = true;
      return;
    }
    // Nothing follows from it.
    if (first === undefined && this.queue.size === 0 && this.isQuiet()) {
      this.again = this.hasFreed = false;
      this.alarm?.clear();
      return;
    }
    this.isPumping = true;
    let hasFreed: boolean;
    try {
      if (first) this.grant(first, above);
      do {
        this.again = false;
        const isTimed = this.dependsOnTime();
        if (isTimed) this.read();
        // First the grants: a permit that comes free in the moment a wait ends is not refused.
        while (this.queue.size > 0 && this.grantNext());
        if (isTimed) this.expire();
        this.refuseStuck();
      } while (this.again as boolean);
    } finally {
      this.isPumping = false;
      hasFreed = this.hasFreed;
      this.hasFreed = false;
      this.rest();
    }
    if (hasFreed) this.news?.tell();
  }

  private grantNext(): boolean {
    const lane = this.queue.lead();
    if (this.isGivenUp) return false;
    const ticket = this.queue.head(lane) as Ticket;
    if (ticket.bid && !this.hasBid(ticket)) return true;
    if (this.blockedBy(ticket.charge) !== undefined) return false;
    const above = this.above?.take(ticket.charge, lane);
    if (above === WAIT) {
      this.above?.seek(Math.max(1, this.slots - this.executing));
      return false;
    }
    this.takeOut(ticket, true);
    this.grant(ticket, above);
    return true;
  }

  protected grant(ticket: Ticket, above: Lease | undefined): void {
    this.book(ticket, above);
    ticket.asker?.granted(ticket);
    ticket.begin();
  }

  /** Takes slots, and pays. */
  private book(lease: Lease, above: Lease | undefined): void {
    this.leases++;
    this.executing += lease.charge.slots;
    if (above) lease.above = above;
    this.above?.enter();
    if (this.releases?.isThere) lease.grantedAt = this.isTimed ? this.time : this.read();
    this.rates?.take(lease);
  }

  /** What a newcomer gets who goes at once: a lease of the limiter above, or nothing where none is above. It has had its turn. */
  private admission(charge: Charge, lane: number): Lease | undefined | typeof WAIT {
    const above = this.isNext(charge, lane) ? this.above?.take(charge, lane) : WAIT;
    // Those still waiting earn their share.
    if (above !== WAIT && this.queue.size > 0) this.queue.turn(lane);
    return above;
  }

  /** Whether it would be granted now, as far as this limiter is concerned. */
  protected isNext(charge: Charge, lane: number): boolean {
    if (!this.hasSlots(charge) || !this.queue.goesFirst(lane)) return false;
    if (this.isTimed) this.read();
    return this.blockedBy(charge) === undefined;
  }

  /** The one whose turn it is, in any lane or in this one, and of one key if it has any there, when it has said what it wants. */
  protected next(lane?: number, affordable?: number, key?: unknown): Ticket | undefined {
    let ticket: Ticket | undefined;
    do {
      const at = lane ?? this.queue.lead();
      ticket = at === -1 ? undefined : ((key === undefined ? undefined : this.queue.headOf?.(at, key)) ?? this.queue.head(at));
    } while (ticket && !this.hasBid(ticket, affordable));
    return ticket;
  }

  /** False for one that gives up its place, and is gone from the queue then; so is one that cannot say what it wants. */
  private hasBid(ticket: Ticket, affordable?: number): boolean {
    if (!ticket.bid) return true;
    let failure: { readonly error: unknown } | undefined;
    try {
      const above = affordable ?? this.above?.affordable ?? Infinity;
      if (ticket.bid(Math.min(above, this.rates?.left('tokens', this.time) ?? Infinity))) return ticket.isWaiting;
    } catch (error) {
      failure = { error };
    }
    if (ticket.isWaiting) {
      this.takeOut(ticket);
      // If the limiter above asked, what follows from that is not to happen in its midst.
      if (!this.isPumping) this.clock.setBy(this.time);
    }
    if (failure) {
      this.shutdown.count('done');
      ticket.refused(failure.error);
    }
    return false;
  }

  private admitLater(ticket: Ticket, deadlineMs: number, waitsForRoom: boolean): void {
    const { lane, charge } = ticket;
    const hasRoom = this.hasRoom(lane);
    // Where nobody may wait, a job that cannot go at once has waited long enough.
    const isShut = !hasRoom && this.bound(lane) === 0;
    const waitMs = isShut ? 0 : deadlineMs;
    // One that goes at once needs no place to wait.
    const fits = waitsForRoom || isShut || hasRoom || this.goesAtOnce(charge, lane);
    const losers = fits ? undefined : this.makeRoom(lane);
    if (losers?.length !== 0) {
      this.above?.enter();
      this.enter(ticket, waitMs === Infinity ? Infinity : this.read() + waitMs);
    }
    // Told only now that the newcomer has its place: they may well call again.
    if (losers) this.turnAway(losers.length > 0 ? losers : [ticket], lane);
    // With all slots taken and no time that matters, one more who waits changes nothing.
    if (this.mayGrant() || this.dependsOnTime()) this.pump();
    if (ticket.isWaiting) ticket.asker?.waits(this, ticket);
  }

  /** Refuses those who have waited long enough, and takes their slots from those who have lingered long enough. */
  private expire(): void {
    // Everybody is being refused, for another reason.
    if (this.isGivenUp) return;
    for (let ticket = this.expired(this.time); ticket; ticket = this.expired(this.time)) {
      const { limit, waitMs } = this.obstacle(ticket.charge);
      // Whoever comes next may want less.
      this.refuse(ticket, new RateLimitError(NAME, limit ?? 'concurrency', waitMs));
    }
    for (const [lease, until] of this.lingering) if (until <= this.time) lease.release('cancelled');
  }

  /** What is in the way of a job: its own cost, or that of the one whose turn it is. */
  obstacle(own: Charge): { readonly limit: string | undefined; readonly waitMs: number } {
    this.read();
    const next = this.next()?.charge ?? own;
    return { limit: this.blockedBy(next), waitMs: Math.max(this.payableAt(own), this.payableAt(next)) - this.time };
  }

  // ---- what comes next ------------------------------------------------------------------------------------------------

  protected widened(isLater = false): void {
    this.hasFreed = true;
    if (isLater) this.letOthersIn();
    else this.pump();
  }

  /** Grants what can be granted at the end of the frame: whoever leaves is often the first of many, who are not to start calls meanwhile. */
  letOthersIn(): void {
    this.again = true;
    this.rest();
  }

  /** Nothing more is to be done now: the timer is set for what comes next, or this was the end. */
  rest(): void {
    if (this.isPumping) return;
    const isQuiet = this.queue.size === 0 && this.isQuiet();
    const at = isQuiet ? Infinity : this.wakesAt();
    if (at < Infinity) this.clock.set(at);
    else this.alarm?.clear();
    if (isQuiet) return;
    this.above?.rested();
    this.changes?.tell();
    this.finish();
  }

  /** While all slots are held by work that waits for another one, here or above, one of those jobs is refused: it would wait for ever. */
  refuseStuck(): void {
    this.nesting?.refuseStuck();
  }

  /** One timer, for whatever comes first: a rate, a wait that gets too long, a slot held by work that was given up. */
  private wakesAt(): number {
    const next = this.mayGrant() && !this.isGivenUp ? this.next() : undefined;
    const hasNews = this.hasFreed && this.news?.isThere;
    // Something has changed since it was looked whether those who hold all the slots wait for each other.
    const mayBeStuck = this.again && this.nesting?.isEmpty === false;
    let at = mayBeStuck || hasNews ? this.read() : this.nextExpiry;
    // One that wants more slots than are free is let in by whoever gives some back.
    if (next && this.hasSlots(next.charge)) {
      const payableAt = this.payableAt(next.charge);
      // What could be paid here and has a place above waits for the limiter above, which says when.
      if (payableAt > this.time || this.above?.has(next.lane) !== true) at = Math.min(at, payableAt);
    }
    for (const until of this.lingering.values()) at = Math.min(at, until);
    return at;
  }

  /** Whether whoever is next may find a slot, or needs none. */
  private mayGrant(): boolean {
    return this.queue.size > 0 && (this.executing < this.slots || this.slotless > 0);
  }

  private giveUp(error: unknown): void {
    this.isGivingUp = true;
    this.shutdown.count('aborted', this.leases - this.lingering.size);
    this.shutdown.count('dropped', this.queued);
    for (const child of [...this.below]) child.shutdown.close(error);
    for (const ticket of this.everybody()) {
      if (!ticket.isWaiting) continue;
      this.takeOut(ticket);
      ticket.refused(error);
    }
    for (const lease of this.lingering.keys()) lease.release('cancelled');
    for (const work of [...this.running.items]) work.giveUp(error);
    this.pump();
    this.finish(true);
  }

  /** Says so when everything is over that was accepted before the end began. */
  private finish(isOver = this.shutdown.isClosed && !this.isGivingUp && !this.isBusy): void {
    if (isOver && this.shutdown.finish()) this.tell?.({ type: 'drained' });
  }

  /** Whether what is to be done depends on the time. */
  private dependsOnTime(): boolean {
    return this.lingering.size > 0 || (this.queue.size > 0 && (this.isTimed || this.expiring !== undefined));
  }

  /** Nobody listens or is to be told anything: with nobody who waits nothing follows from a slot that comes free. */
  private isQuiet(): boolean {
    return (
      this.above === undefined &&
      this.lingering.size === 0 &&
      this.nesting?.isEmpty !== false &&
      !this.changes?.isThere &&
      !this.news?.isThere &&
      !this.shutdown.isClosed
    );
  }
}

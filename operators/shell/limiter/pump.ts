import type { Charge } from '../../kernel/limits/limit.js';
import { ClosedError, RateLimitError } from '../../options/errors.js';
import type { Outcome } from '../../options/permits.js';
import type { ResponseLike } from '../../options/types.js';
import { Shutdown } from '../shutdown.js';
import type { Above } from './above.js';
import { NONE } from './above.js';
import { Audience } from './audience.js';
import { Capacity } from './capacity.js';
import { Lease } from './lease.js';
import type { Rates } from './rates.js';
import type { LimiterSettings } from './settings.js';
import { NAME } from './settings.js';
import type { NestedJobs, Ticket } from './ticket.js';
import { WaitingRoom } from './waiting-room.js';

/**
 * Grants leases to those who wait: one loop, one timer, and a clock that is only looked at when something depends on the time. Nobody is granted
 * anything from inside a grant: calls made there only enqueue, and the loop comes round again.
 */
export class Pump extends Capacity<Pump> {
  readonly shutdown: Shutdown;
  readonly room: WaitingRoom;
  /** Handed out and not released. */
  leases = 0;
  above: Above<Pump> | undefined = undefined;
  /** Limiters below that have something waiting or running. */
  below: Set<Pump> | undefined = undefined;
  readonly audience = new Audience();
  nesting: NestedJobs | undefined = undefined;
  /** Everything is being given up: what a refused job releases must not be granted to the next. */
  isGivingUp = false;
  /** Ends the work under leases. */
  onGiveUp: ((error: unknown) => void) | undefined = undefined;
  /** Something has changed since the loop last went round. */
  again = false;
  /** Slots held by work that was given up but is not over, and until when. */
  private readonly lingering = new Map<Lease, number>();
  /** Something was released or widened, and the watchers do not know yet. */
  private hasFreed = false;
  private isPumping = false;

  constructor(settings: LimiterSettings) {
    super(settings);
    const { scheduler, rates, learn, restore } = settings;
    this.room = new WaitingRoom(settings, this.tell);
    for (const rule of rates) this.rates = rule.join(this.rates, this) as Rates;
    if (learn) this.rates = learn.join(this.rates, this) as Rates;
    if (restore) this.resume(restore.pausedForMs, this.rates?.restore(restore));
    this.shutdown = new Shutdown({
      operator: NAME,
      scheduler,
      stop: () => {
        for (const child of [...(this.below ?? [])]) void child.shutdown.drain();
        if (this.shutdown.isClosed && !this.isGivingUp && !this.isBusy) this.finish();
      },
      abort: (error) => {
        this.giveUp(error);
      },
    });
  }

  // ---- what there is --------------------------------------------------------------------------------------------------

  /** Whether the end has begun, here or above. */
  get isClosed(): boolean {
    return this.shutdown.isClosed || this.above?.pump.isClosed === true;
  }

  /** Whether nobody is to be served any more, because this one or one above gives everything up. */
  get isGivenUp(): boolean {
    return this.isGivingUp || this.above?.pump.isGivenUp === true;
  }

  /** Whether anything waits or runs, here or below. */
  get isBusy(): boolean {
    return this.leases > 0 || this.room.size > 0 || (this.below !== undefined && this.below.size > 0);
  }

  /** What waits here and below. */
  get queued(): number {
    let jobs = this.room.size;
    // A place here is held for a job there.
    for (const child of this.below ?? []) jobs += child.queued - (child.above?.size ?? 0);
    return jobs;
  }

  // ---- who asks -------------------------------------------------------------------------------------------------------

  /** A lease at once, or none. */
  tryGrant(charge: Charge, lane: number): Lease | undefined {
    if (this.isClosed || this.tooHeavy(charge) || !this.isNext(charge, lane)) return undefined;
    const above = this.above?.take(charge, lane);
    if (above === NONE) return undefined;
    this.room.turn(lane);
    const lease = this.charge(charge, above);
    // Somebody who was passed over may be owed the next turn, and whoever waited for the rate may wait for this slot now.
    if (this.room.size > 0) this.letOthersIn();
    return lease;
  }

  /** The same for who would wait otherwise: calls made while others are served only enqueue. */
  grantNow(charge: Charge, lane: number): Lease | undefined {
    return this.isPumping ? undefined : this.tryGrant(charge, lane);
  }

  /** Whether a job would be granted now, so that it does not need a place to wait. */
  goesAtOnce(charge: Charge, lane: number): boolean {
    return this.isNext(charge, lane) && this.above?.goesAtOnce(charge, lane) !== false;
  }

  /** For a bidder, and for a limiter below, which may still have to send what it has accepted before the end of this one began. */
  admitPlace(ticket: Ticket): void {
    this.room.enter(ticket, Infinity);
    this.above?.enter();
    this.pump();
  }

  /** The ticket is granted, refused, or waits: for ever or until its deadline. */
  admit(ticket: Ticket, deadlineMs: number, waitsForRoom: boolean): void {
    const { charge } = ticket;
    const lane = ~ticket.lane;
    const error = this.tooHeavy(charge) ?? (this.isClosed ? new ClosedError(NAME) : undefined);
    if (error) {
      ticket.refused(error);
      return;
    }
    if (!this.isPumping && this.isNext(charge, lane)) {
      const above = this.above?.take(charge, lane);
      if (above !== NONE) {
        this.room.turn(lane);
        this.pump(ticket, above);
        return;
      }
    }
    this.queue(ticket, lane, deadlineMs, waitsForRoom);
  }

  /** Leaves the queue. */
  leave(ticket: Ticket): void {
    if (!ticket.isWaiting) return;
    this.room.remove(ticket);
    this.letOthersIn();
  }

  /** Into another lane, at its end. */
  move(ticket: Ticket, lane: number): void {
    this.room.move(ticket, lane);
    this.letOthersIn();
  }

  /** Takes it out of the queue, and tells it why. */
  refuse(ticket: Ticket, error: unknown): void {
    this.room.remove(ticket);
    this.shutdown.count('done');
    ticket.refused(error);
    this.letOthersIn();
  }

  /** Refuses one that is cleared away. */
  dismiss(ticket: Ticket, error: unknown): void {
    this.room.remove(ticket);
    this.shutdown.count('dropped');
    this.tell?.({ type: 'dropped', lane: this.room.nameOf(~ticket.lane), policy: 'clear' });
    ticket.refused(error);
    this.letOthersIn();
  }

  watch(listener: () => void): () => void {
    // What comes free above is news here.
    const [stop, stopAbove] = [this.audience.watch(listener), this.above?.pump.watch(listener)];
    return () => {
      stop();
      stopAbove?.();
    };
  }

  // ---- what the limiter below asks ------------------------------------------------------------------------------------

  /** Whose turn it would be in a lane of the limiter above, with its charge; undefined when nobody's, or when a limit here is in the way. */
  offer(lane: number | undefined, affordable: number): Ticket | undefined {
    if (this.isGivenUp) return undefined;
    if (this.isTimed) this.read();
    const ticket = this.next(lane, affordable);
    const limit = ticket && this.blockedBy(ticket.charge);
    if (ticket === undefined || limit === undefined) return ticket;
    // The place is gone. A slot that comes free takes another; when the rate can pay, only the timer knows.
    if (limit !== 'concurrency') this.clock.setBy(this.payableAt(ticket.charge));
    return undefined;
  }

  /** The limiter above grants what was offered just before. */
  accept(ticket: Ticket, above: Lease): void {
    this.room.take(ticket);
    if (this.isPumping) {
      this.grant(ticket, above);
      this.again = true;
    } else this.pump(ticket, above);
  }

  // ---- what is changed ------------------------------------------------------------------------------------------------

  /** Whether everything that was spent has come back, and no pause is under way but one by hand. */
  get isIdle(): boolean {
    return !this.isBusy && (this.rates?.load() ?? 0) <= 0 && this.saysToWaitMs === 0;
  }

  /** A response to the request under this lease, or to one of which nothing is known but maybe when it was sent. */
  observe(response: ResponseLike, lease?: Lease, sentAt = Infinity): void {
    const lesson = this.rates?.learn(response, lease, sentAt);
    if (lesson === undefined) {
      // Who learns nothing itself teaches the one above.
      this.above?.pump.observe(response, lease?.above, sentAt);
      return;
    }
    if (lesson.hasChanged) {
      this.hasFreed = true;
      this.letOthersIn();
    }
    if (lesson.pauseMs) this.penalize(lesson.pauseMs);
  }

  // ---- what leases report ---------------------------------------------------------------------------------------------

  freed(lease: Lease, outcome: Outcome, error: unknown): void {
    if (this.audience.wantsReleases) {
      const { executing } = this;
      this.audience.released({ outcome, error, grantedAt: lease.grantedAt, releasedAt: this.read(), executing });
    }
    const isGivenUp = this.lingering.size > 0 && this.lingering.delete(lease);
    if (!isGivenUp && !this.isGivingUp && (outcome === 'ok' || outcome === 'error')) this.shutdown.count('done');
    this.leases--;
    this.executing -= lease.charge.slots;
    this.hasFreed = true;
    this.nesting?.released(lease);
    if (outcome === 'unused') this.rates?.refund(lease);
    if (outcome === 'cancelled') this.letOthersIn();
    else this.pump();
  }

  settled(lease: Lease, tokens: number): void {
    if (this.rates && this.rates.settle(lease, tokens) < 0) this.pump();
  }

  lingers(lease: Lease): void {
    if (this.lingering.has(lease)) return;
    if (this.isGivingUp || this.settings.abortGraceMs === 0) {
      lease.release('cancelled');
      return;
    }
    this.lingering.set(lease, this.read() + this.settings.abortGraceMs);
    this.rest();
  }

  // ---- the loop -------------------------------------------------------------------------------------------------------

  /** The one loop that grants. Calls made from inside it only enqueue: it comes round again. `first` was found to go at once. */
  pump(first?: Ticket, above?: Lease): void {
    if (this.isPumping) {
      this.again = true;
      return;
    }
    // Nothing follows from it.
    if (first === undefined && this.isQuiet()) {
      this.again = this.hasFreed = false;
      this.alarm?.clear();
      return;
    }
    this.isPumping = true;
    let hasFreed: boolean;
    try {
      if (first) this.grant(first, above);
      let comesRound = this.again || !this.isQuiet();
      while (comesRound) {
        this.again = false;
        if (this.dependsOnTime()) this.read();
        // First the grants: a permit that comes free in the moment a wait ends is not refused.
        while (this.grantNext());
        this.expire();
        this.refuseStuck();
        comesRound = this.again;
      }
    } finally {
      this.isPumping = false;
      hasFreed = this.hasFreed;
      this.hasFreed = false;
      this.rest();
    }
    if (hasFreed && this.audience.wantsNews) this.audience.freed();
  }

  private grantNext(): boolean {
    const lane = this.room.lead;
    if (lane === -1 || this.isGivenUp) return false;
    const ticket = this.room.head(lane);
    if (!this.hasBid(ticket)) return true;
    const { charge } = ticket;
    if (this.blockedBy(charge) !== undefined) return false;
    const above = this.above?.take(charge, lane);
    if (above === NONE) {
      this.above?.seek(this.room, Math.max(1, this.freeSlots));
      return false;
    }
    this.room.take(ticket);
    this.grant(ticket, above);
    return true;
  }

  private grant(ticket: Ticket, above: Lease | undefined): void {
    const lease = this.charge(ticket.charge, above);
    ticket.holder?.granted(lease);
    ticket.granted(lease);
  }

  /** Takes slots, and pays. */
  private charge(charge: Charge, above: Lease | undefined): Lease {
    this.leases++;
    this.executing += charge.slots;
    this.above?.enter();
    // Whoever listens to releases is told when the lease was granted, even if nothing here depends on the time.
    if (this.audience.wantsReleases && !this.isTimed) this.read();
    const lease = new Lease(this, charge, this.time, above);
    this.rates?.take(lease);
    return lease;
  }

  /** Whether it would be granted now, as far as this limiter is concerned. */
  private isNext(charge: Charge, lane: number): boolean {
    if (!this.room.goesFirst(lane)) return false;
    if (this.isTimed) this.read();
    return this.blockedBy(charge) === undefined;
  }

  /** The one whose turn it is, in any lane or in this one, when it has said what it wants. */
  private next(lane?: number, affordable?: number): Ticket | undefined {
    for (let at = lane ?? this.room.lead; at !== -1 && this.room.count(at) > 0; at = lane ?? this.room.lead) {
      const ticket = this.room.head(at);
      if (this.hasBid(ticket, affordable)) return ticket;
    }
    return undefined;
  }

  /** False for one that gives up its place, and is gone from the queue then; so is one that cannot say what it wants. */
  private hasBid(ticket: Ticket, affordable?: number): boolean {
    if (ticket.isJob) return true;
    let failure: { readonly error: unknown } | undefined;
    try {
      const above = affordable ?? this.above?.pump.least(({ rates }) => rates?.left('tokens') ?? Infinity) ?? Infinity;
      if (ticket.bid(this.rates ? Math.min(above, this.rates.left('tokens', this.time)) : above)) return ticket.isWaiting;
    } catch (error) {
      failure = { error };
    }
    if (ticket.isWaiting) {
      this.room.remove(ticket);
      // If the limiter above asked, what follows from that is not to happen in its midst.
      if (!this.isPumping) this.clock.setBy(this.time);
    }
    if (failure) {
      this.shutdown.count('done');
      ticket.refused(failure.error);
    }
    return false;
  }

  private queue(ticket: Ticket, lane: number, deadlineMs: number, waitsForRoom: boolean): void {
    const { room } = this;
    // Where nobody may wait, a job that cannot go at once has waited long enough.
    const isClosed = room.isClosed(lane);
    const waitMs = isClosed ? 0 : deadlineMs;
    // One that goes at once needs no place to wait.
    const fits = waitsForRoom || isClosed || room.hasRoom(lane) || this.goesAtOnce(ticket.charge, lane);
    const losers = fits ? undefined : room.losers(lane);
    for (const loser of losers ?? []) room.remove(loser);
    if (losers?.length !== 0) {
      this.above?.enter();
      room.enter(ticket, waitMs === Infinity ? Infinity : this.read() + waitMs);
    }
    // Told only now that the newcomer has its place: they may well call again.
    if (losers) room.refuse(losers.length > 0 ? losers : [ticket], lane);
    // With all slots taken and no time that matters, one more who waits changes nothing.
    if (this.mayGrant() || this.dependsOnTime()) this.pump();
    if (ticket.isWaiting) ticket.holder?.waits(this, ticket);
  }

  /** Refuses those who have waited long enough, and takes their slots from those who have lingered long enough. */
  private expire(): void {
    // Everybody is being refused, for another reason.
    if (this.isGivenUp || !this.dependsOnTime()) return;
    for (let ticket = this.room.expired(this.time); ticket; ticket = this.room.expired(this.time)) {
      const { limit, waitMs } = this.obstacle(ticket.charge);
      // Whoever comes next may want less.
      this.refuse(ticket, new RateLimitError(NAME, limit ?? 'concurrency', waitMs));
    }
    for (const [lease, until] of this.lingering) if (until <= this.time) lease.release('cancelled');
  }

  /** What is in the way of a job: its own cost, or that of the one whose turn it is, here or above. */
  private obstacle(own: Charge): { readonly limit: string | undefined; readonly waitMs: number } {
    this.read();
    const next = this.next()?.charge ?? own;
    const above = this.above?.pump.obstacle(own);
    const waitMs = Math.max(this.payableAt(own), this.payableAt(next)) - this.time;
    return { limit: this.blockedBy(next) ?? above?.limit, waitMs: Math.max(waitMs, above?.waitMs ?? 0) };
  }

  // ---- what comes next ------------------------------------------------------------------------------------------------

  /** Grants what can be granted at the end of the frame: whoever leaves is often the first of many, who are not to start calls meanwhile. */
  letOthersIn(): void {
    this.again = true;
    this.rest();
  }

  /** Nothing more is to be done now: the timer is set for what comes next, or this was the end. */
  rest(): void {
    if (this.isPumping) return;
    if (this.isQuiet()) {
      this.alarm?.clear();
      return;
    }
    if (this.room.size === 0) this.above?.withdraw();
    this.arm();
    if (!this.isBusy) this.above?.leave();
    this.audience.look();
    for (let { above } = this; above; { above } = above.pump) above.pump.audience.look();
    if (this.shutdown.isClosed && !this.isGivingUp && !this.isBusy) this.finish();
  }

  /** While all slots are held by work that waits for another one, here or above, one of those jobs is refused: it would wait for ever. */
  refuseStuck(): void {
    this.nesting?.refuseStuck();
    this.above?.pump.refuseStuck();
  }

  protected widened(): void {
    this.hasFreed = true;
    this.pump();
  }

  /** One timer, for whatever comes first: a rate, a wait that gets too long, a slot held by work that was given up. */
  private arm(): void {
    const next = this.mayGrant() && !this.isGivenUp ? this.next() : undefined;
    const hasNews = this.hasFreed && this.audience.wantsNews;
    // Something has changed since it was looked whether those who hold all the slots wait for each other.
    const mayBeStuck = this.again && this.nesting?.isEmpty === false;
    if (next === undefined && !hasNews && !mayBeStuck && !this.dependsOnTime()) {
      this.alarm?.clear();
      return;
    }
    let at = mayBeStuck || hasNews ? this.read() : this.room.nextExpiry;
    // One that wants more slots than are free is let in by whoever gives some back.
    if (next && this.hasSlots(next.charge)) {
      const payableAt = this.payableAt(next.charge);
      // What could be paid here and has a place above waits for the limiter above, which says when.
      if (payableAt > this.time || this.above?.has(next.lane) !== true) at = Math.min(at, payableAt);
    }
    for (const until of this.lingering.values()) at = Math.min(at, until);
    this.clock.set(at);
  }

  /** Whether whoever is next may find a slot, or needs none. */
  private mayGrant(): boolean {
    return this.room.size > 0 && (this.freeSlots > 0 || this.room.slotless > 0);
  }

  private giveUp(error: unknown): void {
    this.isGivingUp = true;
    this.shutdown.count('aborted', this.leases - this.lingering.size);
    this.shutdown.count('dropped', this.queued);
    this.above?.withdraw();
    for (const child of [...(this.below ?? [])]) child.shutdown.close(error);
    this.room.close(error);
    for (const lease of this.lingering.keys()) lease.release('cancelled');
    this.onGiveUp?.(error);
    this.pump();
    this.finish();
  }

  private finish(): void {
    if (this.shutdown.finish()) this.tell?.({ type: 'drained' });
  }

  /** Whether what is to be done depends on the time. */
  private dependsOnTime(): boolean {
    return this.lingering.size > 0 || (this.room.size > 0 && (this.isTimed || this.room.isTimed));
  }

  /** Nobody waits, listens or is to be told anything: nothing follows from a slot that comes free. */
  private isQuiet(): boolean {
    return (
      this.room.size === 0 &&
      this.above === undefined &&
      this.lingering.size === 0 &&
      this.nesting?.isEmpty !== false &&
      this.audience.isEmpty &&
      !this.shutdown.isClosed
    );
  }
}

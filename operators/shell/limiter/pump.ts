import type { Charge } from '../../kernel/limits/limit.js';
import { ClosedError, RateLimitError } from '../../options/errors.js';
import type { Release } from '../../options/limiter.js';
import { durationMs } from '../../options/options.js';
import type { Outcome } from '../../options/permits.js';
import type { ResponseLike } from '../../options/types.js';
import { Alarm } from '../alarm.js';
import { Shutdown } from '../shutdown.js';
import type { Audience } from './audience.js';
import type { Rates } from './rates.js';
import type { LimiterSettings } from './settings.js';
import { NAME } from './settings.js';
import type { Lessor, NestedJobs, RunningWork, Ticket } from './ticket.js';
import { Lease, WAIT } from './ticket.js';
import { WaitingRoom } from './waiting-room.js';

/**
 * What there is to give, and who gets it: one loop, one timer, and a clock that is only looked at when something depends on the time. Nobody is
 * granted anything from inside a grant: calls made there only enqueue, and the loop comes round again.
 */
export abstract class Pump extends WaitingRoom implements Lessor {
  readonly shutdown: Shutdown;
  readonly running = new Set<RunningWork>();
  readonly below = new Set<Pump>();
  nesting: NestedJobs | undefined = undefined;
  /** What depends on the time; made when there is such a limit. */
  rates: Rates | undefined = undefined;
  /** Slots there are, and those in use. */
  slots: number;
  executing = 0;
  /** Leases handed out and not released. */
  leases = 0;
  /** When the clock was last looked at; everything until the next time happens then. */
  time = 0;
  // For whoever watches: that something came free, what comes back, and that something may hold that is waited for.
  declare protected news?: Audience<void>;
  declare protected releases?: Audience<Release>;
  declare changes?: Audience<void>;
  protected isPumping = false;
  /** Everything is being given up: what a refused job releases must not be granted to the next. */
  protected isGivingUp = false;
  /** Something has changed since the loop last went round. */
  private again = false;
  /** Something was released or widened, and the watchers do not know yet. */
  private hasFreed = false;
  private pausedUntil = -Infinity;
  /** Paused by hand, until somebody says otherwise. */
  private isHeld = false;
  private alarm: Alarm | undefined = undefined;
  /** Slots held by work that was given up but is not over, and until when. */
  private readonly lingering = new Map<Lease, number>();

  constructor(settings: LimiterSettings) {
    super(settings);
    const { concurrency, learn, rates, restore, scheduler } = settings;
    this.slots = concurrency;
    this.shutdown = new Shutdown({
      operator: NAME,
      scheduler,
      stop: () => {
        for (const child of [...this.below]) void child.drain();
        this.finish();
      },
      abort: (error) => {
        this.giveUp(error);
      },
    });
    this.adopt(learn ? [...rates, learn] : rates);
    if (restore === undefined) return;
    const pauseMs = restore.pausedForMs - (this.rates?.restore(restore) ?? 0);
    if (pauseMs > 0) this.pausedUntil = this.read() + pauseMs;
  }

  // ---- what there is --------------------------------------------------------------------------------------------------

  /** How much longer everything is paused here, in ms. */
  get pausedForMs(): number {
    return this.isHeld ? Infinity : this.asksToWaitMs;
  }

  /** How long the pause is to last yet that was asked for. */
  get asksToWaitMs(): number {
    return this.pausedUntil === -Infinity ? 0 : Math.max(0, this.pausedUntil - this.read());
  }

  /** Whether anything waits or runs, here or below. */
  get isBusy(): boolean {
    return this.leases > 0 || this.queue.size > 0 || this.below.size > 0;
  }

  /** The least of what all limiters say, here and above. */
  least(of: (limiter: Pump) => number): number {
    return of(this);
  }

  read(): number {
    this.time = this.clock.now();
    return this.time;
  }

  /** What takes more slots than there are takes all of them. */
  within(charge: Charge): Charge {
    const most = charge.slots > 1 ? this.least(({ slots }) => slots) : Infinity;
    return charge.slots > most ? { ...charge, slots: most } : charge;
  }

  hasSlots({ slots }: Charge): boolean {
    return this.executing + slots <= this.slots || slots === 0 || this.executing === 0;
  }

  /** The error for a job that can never be paid, or comes too late: the end has begun, here or above. */
  refusal(charge: Charge): Error | undefined {
    return this.rates?.tooHeavy(charge) ?? (this.shutdown.isClosed ? new ClosedError(NAME) : undefined);
  }

  /** What is in the way of a job: its own cost, or that of the one whose turn it is. */
  obstacle(own: Charge): { readonly limit: string | undefined; readonly waitMs: number } {
    this.read();
    const next = this.next()?.charge ?? own;
    return { limit: this.blockedBy(next), waitMs: Math.max(this.payableAt(own), this.payableAt(next)) - this.time };
  }

  /** A response to the request under this lease. */
  abstract learn(response: ResponseLike, lease: Lease): void;

  penalize(pauseMs: number): void {
    durationMs(NAME, 'pauseMs', pauseMs);
    const now = this.read();
    // A shorter pause never ends a longer one; one of 0 does.
    if (pauseMs > 0 ? now + pauseMs <= this.pausedUntil : now >= this.pausedUntil) return;
    this.pausedUntil = pauseMs > 0 ? now + pauseMs : -Infinity;
    if (pauseMs === 0) this.rates?.resumed();
    this.tell?.({ type: 'throttled', pauseMs });
    if (pauseMs === 0) this.widened();
    else this.rest();
  }

  /** By hand, until that is taken back. */
  protected hold(isHeld: boolean): void {
    if (this.isHeld === isHeld) return;
    this.isHeld = isHeld;
    if (isHeld) this.rest();
    else this.widened();
  }

  protected adopt(rules: readonly { addTo(rates: object | undefined, pump: object): object }[]): void {
    for (const rule of rules) this.rates = rule.addTo(this.rates, this) as Rates;
  }

  /** Whether a grant depends on the time; when nothing does, nobody has to look at the clock. */
  protected get isTimed(): boolean {
    return this.rates?.isLimited === true || this.pausedUntil !== -Infinity || this.isHeld;
  }

  /** What stands in the way of a job, here. */
  protected blockedBy(charge: Charge): string | undefined {
    if (!this.hasSlots(charge)) return 'concurrency';
    return this.isHeld || this.time < this.pausedUntil ? 'pause' : this.rates?.blockedBy(charge);
  }

  /** When nothing but a slot stands in the way here any more. */
  protected payableAt(charge: Charge): number {
    return this.isHeld ? Infinity : Math.max(this.pausedUntil, this.rates?.payableAt(charge) ?? this.time);
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
    if (!this.hasSlots(charge) || !this.queue.goesFirst(lane)) return false;
    if (this.isTimed) this.read();
    return this.blockedBy(charge) === undefined;
  }

  /** For who bids, and for a limiter below, which may still have to send what it has accepted before the end of this one began. */
  admitPlace(ticket: Ticket): void {
    this.enter(ticket, Infinity);
    this.again = true;
    this.seek();
  }

  seek(): void {
    if (this.above === undefined) return;
    if (this.isTimed) this.read();
    const next = this.queue.size === 0 ? undefined : this.queue.head(this.queue.lead());
    // While a limit here is in the way, there are no places.
    if (next && this.blockedBy(next.charge) === undefined) this.above.seek(Math.max(1, this.slots - this.executing));
  }

  /** The ticket is granted, refused, or waits: for ever or until its deadline. */
  admit(ticket: Ticket, deadlineMs: number, waitsForRoom: boolean): void {
    const { charge, lane } = ticket;
    const error = this.refusal(charge);
    if (error) {
      ticket.refused(error);
      return;
    }
    const above = this.isPumping ? WAIT : this.admission(charge, lane);
    if (above !== WAIT) {
      this.pump(ticket, above);
      return;
    }
    const { maxQueued } = this.settings;
    const { maxQueued: most = Infinity } = this.ruleOf(lane);
    const bound = Math.min(maxQueued, most);
    const hasRoom = this.waiting < maxQueued && (this.inLane[lane] as number) < most;
    // Where nobody may wait, a job that cannot go at once has waited long enough; one that goes at once needs no place to wait.
    if (waitsForRoom || hasRoom || bound === 0 || this.goesAtOnce(charge, lane)) this.enter(ticket, bound === 0 ? 0 : deadlineMs);
    else this.makeRoom(ticket, deadlineMs, bound);
    // With all slots taken and no time that matters, one more who waits changes nothing.
    if (this.mayGrant() || this.dependsOnTime()) this.pump();
    if (ticket.isWaiting) ticket.asker?.waits(this, ticket);
  }

  leave(ticket: Ticket): void {
    if (!ticket.isWaiting) return;
    this.takeAway(ticket);
    this.letOthersIn();
  }

  /** Takes it out of the queue, and tells it why. */
  refuse(ticket: Ticket, error: unknown, how: 'done' | 'dropped' = 'done'): void {
    this.takeAway(ticket);
    this.shutdown.count(how);
    if (how === 'dropped') this.tellDropped(ticket, 'clear');
    ticket.refused(error);
    this.letOthersIn();
  }

  // ---- what leases report ---------------------------------------------------------------------------------------------

  freed(lease: Lease, outcome: Outcome, error: unknown): void {
    const { executing, releases } = this;
    if (releases?.isThere) {
      const releasedAt = this.read();
      releases.tell({ outcome, error, grantedAt: lease.grantedAt ?? releasedAt, releasedAt, executing });
    }
    const isGivenUp = (this.lingering.size > 0 && this.lingering.delete(lease)) || this.isGivingUp;
    if (this.shutdown.isClosed && !isGivenUp && (outcome === 'ok' || outcome === 'error')) this.shutdown.count('done');
    this.leases--;
    this.executing -= lease.charge.slots;
    this.nesting?.released(lease);
    if (outcome === 'unused') this.rates?.refund(lease);
    this.widened(outcome === 'cancelled');
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
    this.again = true;
    if (this.isPumping) return;
    // Nothing follows from it.
    if (first === undefined && this.queue.size === 0 && this.isQuiet()) {
      this.again = this.hasFreed = false;
      this.alarm?.clear();
      return;
    }
    this.isPumping = true;
    try {
      if (first) this.grant(first, above);
      while (this.again) {
        this.again = false;
        const isTimed = this.dependsOnTime();
        if (isTimed) this.read();
        // First the grants: a permit that comes free in the moment a wait ends is not refused.
        while (this.queue.size > 0 && !this.isGivingUp && this.grantNext());
        if (isTimed) this.expire();
        // While all slots are held by work that waits for another one, here or above, one of those jobs is refused: it would wait for ever.
        this.nesting?.refuseStuck();
        for (let { above } = this; above; above = above.pump.above) above.pump.nesting?.refuseStuck();
      }
    } finally {
      this.isPumping = false;
      const { hasFreed } = this;
      this.hasFreed = false;
      this.rest();
      if (hasFreed) this.news?.tell();
    }
  }

  private grantNext(): boolean {
    const lane = this.queue.lead();
    const ticket = this.queue.head(lane) as Ticket;
    if (ticket.bid && !this.hasBid(ticket)) return true;
    if (this.blockedBy(ticket.charge) !== undefined) return false;
    const above = this.above?.take(ticket.charge, lane);
    if (above === WAIT) {
      this.seek();
      this.above?.pump.catchUp();
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
    lease.charge = this.within(lease.charge);
    this.executing += lease.charge.slots;
    if (above) lease.above = above;
    this.above?.enter();
    if (this.releases?.isThere) lease.grantedAt = this.isTimed ? this.time : this.read();
    this.rates?.take(lease);
  }

  /** What a newcomer gets who goes at once: a lease of the limiter above, or nothing where none is above. It has had its turn. */
  private admission(charge: Charge, lane: number): Lease | undefined | typeof WAIT {
    const above = this.goesAtOnce(charge, lane) ? this.above?.take(charge, lane) : WAIT;
    // Those still waiting earn their share.
    if (above !== WAIT && this.queue.size > 0) this.queue.turn(lane);
    return above;
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
      // If the limiter above asked, what follows is not to happen in its midst.
      if (!this.isPumping) this.clock.setBy(this.time);
    }
    if (failure) {
      this.shutdown.count('done');
      ticket.refused(failure.error);
    }
    return false;
  }

  /** Refuses those who have waited long enough, and takes their slots from those who have lingered long enough. */
  private expire(): void {
    // Everybody is being refused, for another reason.
    if (this.isGivingUp) return;
    while (this.nextExpiry <= this.time) {
      const ticket = this.expiring?.pop() as Ticket;
      const { limit, waitMs } = this.obstacle(ticket.charge);
      // Whoever comes next may want less.
      this.refuse(ticket, new RateLimitError(NAME, limit ?? 'concurrency', waitMs));
    }
    for (const [lease, until] of this.lingering) if (until <= this.time) lease.release('cancelled');
  }

  // ---- what comes next ------------------------------------------------------------------------------------------------

  widened(isLater = false): void {
    this.hasFreed = true;
    if (isLater) this.letOthersIn();
    else this.pump();
  }

  /** Grants what can be granted at the end of the frame: whoever leaves is often the first of many, who are not to start calls meanwhile. */
  letOthersIn(): void {
    this.again = true;
    this.rest();
    this.above?.pump.letOthersIn();
  }

  /** Grants at once what can be: who waits wants something else, or stands elsewhere. */
  poked(): void {
    this.pump();
    this.above?.pump.poked();
  }

  /** Does now what was left for the end of the frame. */
  catchUp(): void {
    if (this.again) this.pump();
  }

  /** Nothing more is to be done now: the timer is set for what comes next, or this was the end. */
  rest(): void {
    if (this.isPumping) return;
    const isQuiet = this.queue.size === 0 && this.isQuiet();
    const at = isQuiet ? Infinity : this.wakesAt();
    if (at < Infinity || this.alarm) this.clock.set(at);
    if (isQuiet) return;
    this.above?.rested();
    this.changes?.tell();
    this.finish();
  }

  protected get clock(): Alarm {
    return (this.alarm ??= new Alarm(this.settings.scheduler, () => {
      this.pump();
    }));
  }

  /** One timer, for whatever comes first: a rate, a wait that gets too long, a slot held by work that was given up. */
  private wakesAt(): number {
    const next = this.mayGrant() && !this.isGivingUp ? this.next() : undefined;
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

  private mayGrant(): boolean {
    return this.queue.size > 0 && (this.executing < this.slots || this.slotless > 0);
  }

  private giveUp(error: unknown): void {
    this.serveNobody();
    this.shutdown.count('aborted', this.leases - this.lingering.size);
    this.shutdown.count('dropped', this.queued);
    for (const child of [...this.below]) child.shutdown.close(error);
    for (const ticket of this.everybody()) {
      if (!ticket.isWaiting) continue;
      this.takeOut(ticket);
      ticket.refused(error);
    }
    for (const lease of this.lingering.keys()) lease.release('cancelled');
    for (const work of [...this.running]) work.giveUp(error);
    this.pump();
    this.finish(true);
  }

  /** Here and below, before anybody is told. */
  private serveNobody(): void {
    this.isGivingUp = true;
    for (const child of this.below) child.serveNobody();
  }

  /** Says so when all is over that was accepted before the end began. */
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

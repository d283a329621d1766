import type { Charge } from '../../kernel/limits/limit.js';
import { ClosedError, RateLimitError } from '../../options/errors.js';
import type { Release } from '../../options/limiter.js';
import { durationMs } from '../../options/options.js';
import type { Outcome } from '../../options/permits.js';
import type { ResponseLike } from '../../options/types.js';
import { Alarm } from '../alarm.js';
import { Shutdown } from '../shutdown.js';
import { LimiterQueue } from './limiter-queue.js';
import type { Listeners } from './listeners.js';
import type { Rates } from './rates.js';
import type { LimiterSettings } from './settings.js';
import { NAME } from './settings.js';
import type { LeaseOwner, NestedJobs, RunningWork, Ticket } from './ticket.js';
import { Lease, WAIT } from './ticket.js';

/**
 * The capacity of a limiter (slots, rates, pauses), and the one loop that grants it to the queue. There is one timer, and the clock is only read when
 * something depends on the time. Nothing is granted from inside a grant: a call made there only enqueues, and the loop goes round again.
 */
export abstract class GrantLoop extends LimiterQueue implements LeaseOwner {
  readonly shutdown: Shutdown;
  readonly running = new Set<RunningWork>();
  readonly children = new Set<GrantLoop>();
  nesting: NestedJobs | undefined = undefined;
  /** Limits that depend on the time; made for the first of them. */
  rates: Rates | undefined = undefined;
  /** Slots in total, and slots in use. */
  slots: number;
  executing = 0;
  /** Leases granted and not released. */
  leases = 0;
  /** The time when the clock was last read; it stands for now until the next reading. */
  time = 0;
  // Listeners to: capacity that may have come free, released leases, changes of how many wait or run.
  declare protected watchers?: Listeners<void>;
  declare protected releases?: Listeners<Release>;
  declare changes?: Listeners<void>;
  protected isGranting = false;
  /** Everything is being cancelled: what a refused job releases must not be granted to the next. */
  protected isAborting = false;
  /** Something has changed since the last round of the loop. */
  private again = false;
  /** Something was released or raised, and the listeners have not been called yet. */
  private hasFreed = false;
  protected pausedUntil = -Infinity;
  /** Paused by `pause`, until `resume`. */
  private isPaused = false;
  private alarm: Alarm | undefined = undefined;
  /** Leases of cancelled work that still runs, and when each loses its slot. */
  private readonly abandoned = new Map<Lease, number>();

  constructor(settings: LimiterSettings) {
    super(settings);
    const { concurrency, learn, rates, scheduler } = settings;
    this.slots = concurrency;
    this.shutdown = new Shutdown({
      operator: NAME,
      scheduler,
      stop: () => {
        for (const child of [...this.children]) void child.drain();
        this.finish();
      },
      abort: (error) => {
        this.abort(error);
      },
    });
    this.addRates(learn ? [...rates, learn] : rates);
  }

  // ---- capacity ------------------------------------------------------------------------------------------------------

  /** How much longer everything is paused here, in ms. */
  get pausedForMs(): number {
    return this.isPaused ? Infinity : this.penaltyMs;
  }

  /** How much longer the pause of `penalize` lasts, in ms. */
  get penaltyMs(): number {
    return this.pausedUntil === -Infinity ? 0 : Math.max(0, this.pausedUntil - this.now());
  }

  /** Whether anything waits or runs, here or in a child limiter. */
  get isBusy(): boolean {
    return this.leases > 0 || this.queue.size > 0 || this.children.size > 0;
  }

  /** The lowest value over this limiter and its parents. */
  minOf(of: (limiter: GrantLoop) => number): number {
    return of(this);
  }

  now(): number {
    this.time = this.clock.now();
    return this.time;
  }

  /** A job that wants more slots than there are takes all of them. */
  clamp(charge: Charge): Charge {
    const most = charge.slots > 1 ? this.minOf(({ slots }) => slots) : Infinity;
    return charge.slots > most ? { ...charge, slots: most } : charge;
  }

  hasSlots({ slots }: Charge): boolean {
    return this.executing + slots <= this.slots || slots === 0 || this.executing === 0;
  }

  /** The error for a job that can never be granted: its cost is too high, or this limiter or a parent is closed. */
  refusal(charge: Charge): Error | undefined {
    return this.rates?.tooHeavy(charge) ?? (this.shutdown.isClosed ? new ClosedError(NAME) : undefined);
  }

  /** The limit in the way of a job, and for how long: because of its own cost, or that of the ticket whose turn it is. */
  obstacle(own: Charge): { readonly limit: string | undefined; readonly waitMs: number } {
    this.now();
    const next = this.next()?.charge ?? own;
    return { limit: this.blockedBy(next), waitMs: Math.max(this.payableAt(own), this.payableAt(next)) - this.time };
  }

  /** Learns from the response to the request under this lease. */
  abstract learn(response: ResponseLike, lease: Lease): void;

  penalize(pauseMs: number): void {
    durationMs(NAME, 'pauseMs', pauseMs);
    const now = this.now();
    // A shorter pause never ends a longer one; one of 0 does.
    if (pauseMs > 0 ? now + pauseMs <= this.pausedUntil : now >= this.pausedUntil) return;
    this.pausedUntil = pauseMs > 0 ? now + pauseMs : -Infinity;
    if (pauseMs === 0) this.rates?.resumed();
    this.tell?.({ type: 'throttled', pauseMs });
    if (pauseMs === 0) this.freed();
    else this.arm();
  }

  protected setPaused(isHeld: boolean): void {
    if (this.isPaused === isHeld) return;
    this.isPaused = isHeld;
    if (isHeld) this.arm();
    else this.freed();
  }

  protected addRates(rules: readonly { addTo(rates: object | undefined, limiter: object): object }[]): void {
    for (const rule of rules) this.rates = rule.addTo(this.rates, this) as Rates;
  }

  /** Whether a grant depends on the time; if not, the clock need not be read. */
  protected get isTimed(): boolean {
    return this.rates?.isLimited === true || this.pausedUntil !== -Infinity || this.isPaused;
  }

  /** The limit here that is in the way of a job. */
  protected blockedBy(charge: Charge): string | undefined {
    if (!this.hasSlots(charge)) return 'concurrency';
    return this.isPaused || this.time < this.pausedUntil ? 'pause' : this.rates?.blockedBy(charge);
  }

  /** When only a slot can be in the way here any more. */
  protected payableAt(charge: Charge): number {
    return this.isPaused ? Infinity : Math.max(this.pausedUntil, this.rates?.payableAt(charge) ?? this.time);
  }

  // ---- tickets --------------------------------------------------------------------------------------------------------

  /** A lease if there is one now, without waiting. */
  tryGrant(charge: Charge, lane: number): Lease | undefined {
    const parentLease = this.refusal(charge) ? WAIT : this.admitNow(charge, lane);
    if (parentLease === WAIT) return undefined;
    const lease = new Lease(this, charge);
    this.book(lease, parentLease);
    // A waiting ticket may be owed the next turn now, or wait for this slot instead of the rate.
    if (this.queue.size > 0) this.grantLater();
    return lease;
  }

  /** Whether a job would be granted now, so that it needs no room in the queue. */
  canGrant(charge: Charge, lane: number): boolean {
    if (!this.hasSlots(charge) || !this.queue.goesFirst(lane)) return false;
    if (this.isTimed) this.now();
    return this.blockedBy(charge) === undefined;
  }

  /** Enqueues a bidder, or a place of a child; also after the end has begun, for what was accepted before. */
  admitPlace(ticket: Ticket): void {
    this.enqueue(ticket, Infinity);
    this.again = true;
    this.fill();
  }

  fill(): void {
    if (this.parent === undefined) return;
    if (this.isTimed) this.now();
    const next = this.queue.size === 0 ? undefined : this.queue.head(this.queue.lead());
    // No places while a limit here is in the way.
    if (next && this.blockedBy(next.charge) === undefined) this.parent.fill(Math.max(1, this.slots - this.executing));
  }

  /** Grants the ticket, refuses it, or puts it into the queue. */
  admit(ticket: Ticket, deadlineMs: number, waitsForRoom: boolean): void {
    const { charge, lane } = ticket;
    const error = this.refusal(charge);
    if (error) {
      ticket.refused(error);
      return;
    }
    const parentLease = this.isGranting ? WAIT : this.admitNow(charge, lane);
    if (parentLease !== WAIT) {
      this.loop(ticket, parentLease);
      return;
    }
    const { maxQueued } = this.settings;
    const { maxQueued: most = Infinity } = this.ruleOf(lane);
    const bound = Math.min(maxQueued, most);
    const hasRoom = this.waiting < maxQueued && (this.inLane[lane] as number) < most;
    // With `maxQueued: 0` a job that cannot be granted now expires at once. One that can be needs no room in the queue.
    if (waitsForRoom || hasRoom || bound === 0 || this.canGrant(charge, lane)) this.enqueue(ticket, bound === 0 ? 0 : deadlineMs);
    else this.makeRoom(ticket, deadlineMs, bound);
    // With all slots taken and nothing that depends on the time, one more waiting ticket changes nothing.
    if (this.mayGrant() || this.dependsOnTime()) this.loop();
    if (ticket.isWaiting) ticket.hooks?.waits(this, ticket);
  }

  leave(ticket: Ticket): void {
    if (!ticket.isWaiting) return;
    this.withdraw(ticket);
    this.grantLater();
  }

  /** Takes the ticket out of the queue and rejects it with the error. */
  refuse(ticket: Ticket, error: unknown, how: 'done' | 'dropped' = 'done'): void {
    this.withdraw(ticket);
    this.shutdown.count(how);
    if (how === 'dropped') this.tellDropped(ticket, 'clear');
    ticket.refused(error);
    this.grantLater();
  }

  // ---- leases ---------------------------------------------------------------------------------------------------------

  released(lease: Lease, outcome: Outcome, error: unknown): void {
    const { executing, releases } = this;
    if (releases?.observed) {
      const releasedAt = this.now();
      releases.emit({ outcome, error, grantedAt: lease.grantedAt ?? releasedAt, releasedAt, executing });
    }
    const isGivenUp = (this.abandoned.size > 0 && this.abandoned.delete(lease)) || this.isAborting;
    if (this.shutdown.isClosed && !isGivenUp && (outcome === 'ok' || outcome === 'error')) this.shutdown.count('done');
    this.leases--;
    this.executing -= lease.charge.slots;
    this.nesting?.released(lease);
    if (outcome === 'unused') this.rates?.refund(lease);
    this.freed(outcome === 'cancelled');
  }

  settled(lease: Lease, tokens: number): void {
    if (this.rates && this.rates.settle(lease, tokens) < 0) this.loop();
  }

  abandon(lease: Lease): void {
    const { abortGraceMs } = this.settings;
    if (this.isAborting || abortGraceMs === 0) lease.release('cancelled');
    else if (!this.abandoned.has(lease)) {
      this.abandoned.set(lease, this.now() + abortGraceMs);
      this.arm();
    }
  }

  // ---- the loop -------------------------------------------------------------------------------------------------------

  /** The loop. A call from inside it only makes it go round again. `first` can be granted now, and was not in the queue. */
  loop(first?: Ticket, parentLease?: Lease): void {
    this.again = true;
    if (this.isGranting) return;
    // Nothing to grant, and nobody to notify.
    if (first === undefined && this.queue.size === 0 && this.isQuiet()) {
      this.again = this.hasFreed = false;
      this.alarm?.clear();
      return;
    }
    this.isGranting = true;
    try {
      if (first) this.grant(first, parentLease);
      while (this.again) {
        this.again = false;
        const isTimed = this.dependsOnTime();
        if (isTimed) this.now();
        // Grants come first: a ticket whose deadline is now still gets a permit that is free now.
        while (this.queue.size > 0 && !this.isAborting && this.grantNext()) {
          // What was granted may have begun with work that took its time.
          if (isTimed) this.now();
        }
        if (isTimed) this.expire();
        // A deadlock, here or in a parent: all slots are held by work that waits for another slot. One such job is refused.
        this.nesting?.refuseStuck();
        for (let { parent } = this; parent; parent = parent.limiter.parent) parent.limiter.nesting?.refuseStuck();
      }
    } finally {
      this.isGranting = false;
      const { hasFreed } = this;
      this.hasFreed = false;
      this.arm();
      if (hasFreed) this.watchers?.emit();
    }
  }

  private grantNext(): boolean {
    const lane = this.queue.lead();
    const ticket = this.queue.head(lane) as Ticket;
    if (ticket.bid && !this.askBid(ticket)) return true;
    if (this.blockedBy(ticket.charge) !== undefined) return false;
    const parentLease = this.parent?.take(ticket.charge, lane);
    if (parentLease === WAIT) {
      this.fill();
      this.parent?.limiter.flush();
      return false;
    }
    this.dequeue(ticket, true);
    this.grant(ticket, parentLease);
    return true;
  }

  protected grant(ticket: Ticket, parentLease: Lease | undefined): void {
    this.book(ticket, parentLease);
    ticket.hooks?.granted(ticket);
    ticket.begin();
  }

  /** Takes the slots, and pays the rates. */
  private book(lease: Lease, parentLease: Lease | undefined): void {
    this.leases++;
    lease.charge = this.clamp(lease.charge);
    this.executing += lease.charge.slots;
    if (parentLease) lease.parent = parentLease;
    this.parent?.markBusy();
    if (this.releases?.observed) lease.grantedAt = this.isTimed ? this.time : this.now();
    this.rates?.take(lease);
  }

  /** Counts a turn for a new job that can be granted now. Answers the lease of the parent, undefined without a parent, or WAIT. */
  private admitNow(charge: Charge, lane: number): Lease | undefined | typeof WAIT {
    const parentLease = this.canGrant(charge, lane) ? this.parent?.take(charge, lane) : WAIT;
    // So that the waiting lanes get their share.
    if (parentLease !== WAIT && this.queue.size > 0) this.queue.turn(lane);
    return parentLease;
  }

  /** The ticket whose turn it is, in any lane or in this one; there, first of those with this key. A bidder has been asked for its bid. */
  protected next(lane?: number, affordable?: number, key?: unknown): Ticket | undefined {
    for (;;) {
      const at = lane ?? this.queue.lead();
      const ofKey = lane !== undefined && this.settings.queue.keyOf ? this.queue.headOf?.(lane, key) : undefined;
      const ticket = ofKey ?? (at === -1 ? undefined : this.queue.head(at));
      if (!ticket || this.askBid(ticket, affordable)) return ticket;
    }
  }

  /** Asks a bidder what it wants. False when it gives up its place or throws; then it is taken out of the queue. */
  private askBid(ticket: Ticket, affordable?: number): boolean {
    if (!ticket.bid) return true;
    let failure: { readonly error: unknown } | undefined;
    try {
      const most = affordable ?? this.parent?.affordable ?? Infinity;
      if (ticket.bid(Math.min(most, this.rates?.left('tokens', this.time) ?? Infinity))) return ticket.isWaiting;
    } catch (error) {
      failure = { error };
    }
    if (ticket.isWaiting) {
      this.dequeue(ticket);
      // The parent may be asking: what follows must not run inside its loop.
      if (!this.isGranting) this.clock.setBy(this.time);
    }
    if (failure) {
      this.shutdown.count('done');
      ticket.refused(failure.error);
    }
    return false;
  }

  /** Refuses the tickets whose deadline is over, and releases the abandoned leases whose grace is over. */
  private expire(): void {
    // Then all are refused anyway, with another error.
    if (this.isAborting) return;
    while (this.nextExpiry <= this.time) {
      const ticket = this.expiring?.pop() as Ticket;
      const { limit, waitMs } = this.obstacle(ticket.charge);
      // The next one may cost less.
      this.refuse(ticket, new RateLimitError(NAME, limit ?? 'concurrency', waitMs));
    }
    for (const [lease, until] of this.abandoned) if (until <= this.time) lease.release('cancelled');
  }

  // ---- notifying, timer -----------------------------------------------------------------------------------------------

  /** A slot or rate may have come free: grants what it can, now or at the end of the frame. */
  freed(isLater = false): void {
    this.hasFreed = true;
    if (isLater) this.grantLater();
    else this.loop();
  }

  /** Grants at the end of the frame. A job that leaves is often the first of many, and the others must not be started meanwhile. */
  grantLater(): void {
    this.again = true;
    this.arm();
    this.parent?.limiter.grantLater();
  }

  /** Grants at once: a waiting ticket wants something else, or was moved. */
  grantNow(): void {
    this.loop();
    this.parent?.limiter.grantNow();
  }

  /** Grants now what was put off to the end of the frame. */
  flush(): void {
    if (this.again) this.loop();
  }

  /** Ends a round: sets the timer for what comes next, notifies, and finishes a shutdown when nothing is left. */
  arm(): void {
    if (this.isGranting) return;
    const isQuiet = this.queue.size === 0 && this.isQuiet();
    const at = isQuiet ? Infinity : this.wakesAt();
    if (at < Infinity || this.alarm) this.clock.set(at);
    if (isQuiet) return;
    this.parent?.update();
    this.changes?.emit();
    this.finish();
  }

  protected get clock(): Alarm {
    return (this.alarm ??= new Alarm(this.settings.scheduler, () => {
      this.loop();
    }));
  }

  /** When the timer is to fire: for a rate, a deadline, or an abandoned lease, whichever comes first. */
  private wakesAt(): number {
    const next = this.mayGrant() && !this.isAborting ? this.next() : undefined;
    const hasListeners = this.hasFreed && this.watchers?.observed;
    // Something has changed since deadlocks were last looked for.
    const mayDeadlock = this.again && this.nesting?.isEmpty === false;
    let at = mayDeadlock || hasListeners ? this.now() : this.nextExpiry;
    // A ticket that needs more slots than are free is granted when a lease is released, not by the timer.
    if (next && this.hasSlots(next.charge)) {
      const payableAt = this.payableAt(next.charge);
      // If this limiter could pay now and the ticket has a place in the parent's queue, the parent decides when.
      if (payableAt > this.time || this.parent?.has(next.lane) !== true) at = Math.min(at, payableAt);
    }
    for (const until of this.abandoned.values()) at = Math.min(at, until);
    return at;
  }

  private mayGrant(): boolean {
    return this.queue.size > 0 && (this.executing < this.slots || this.slotless > 0);
  }

  private abort(error: unknown): void {
    this.stopGranting();
    this.shutdown.count('aborted', this.leases - this.abandoned.size);
    this.shutdown.count('dropped', this.queued);
    for (const child of [...this.children]) child.shutdown.close(error);
    for (const ticket of this.allWaiting()) {
      if (!ticket.isWaiting) continue;
      this.dequeue(ticket);
      ticket.refused(error);
    }
    for (const lease of this.abandoned.keys()) lease.release('cancelled');
    for (const work of [...this.running]) work.failWith(error);
    this.loop();
    this.finish(true);
  }

  /** Here and in child limiters, before any ticket is refused. */
  private stopGranting(): void {
    this.isAborting = true;
    for (const child of this.children) child.stopGranting();
  }

  /** Finishes a shutdown when everything accepted before it is over. */
  private finish(isOver = this.shutdown.isClosed && !this.isAborting && !this.isBusy): void {
    if (isOver && this.shutdown.finish()) this.tell?.({ type: 'drained' });
  }

  /** Whether the next step depends on the time. */
  private dependsOnTime(): boolean {
    return this.abandoned.size > 0 || (this.queue.size > 0 && (this.isTimed || this.expiring !== undefined));
  }

  /** Nobody has to be notified. Then, with an empty queue, a freed slot has no consequences. */
  private isQuiet(): boolean {
    return (
      this.parent === undefined &&
      this.abandoned.size === 0 &&
      this.nesting?.isEmpty !== false &&
      !this.changes?.observed &&
      !this.watchers?.observed &&
      !this.shutdown.isClosed
    );
  }
}

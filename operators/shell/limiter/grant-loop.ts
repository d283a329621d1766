import { Subject } from 'rxjs';
import type { Charge } from '../../kernel/limits/limit.js';
import type { Amounts } from '../../kernel/limits/usage.js';
import { Chain } from '../../kernel/queues/line.js';
import { ClosedError, RateLimitError } from '../../options/errors.js';
import type { Release } from '../../options/limiter.js';
import { durationMs } from '../../options/options.js';
import type { Outcome } from '../../options/permits.js';
import type { ResponseLike } from '../../options/types.js';
import { Alarm } from '../alarm.js';
import { Shutdown } from '../shutdown.js';
import { LimiterCapacity } from './limiter-capacity.js';
import type { LimiterSettings } from './settings.js';
import { NAME } from './settings.js';
import type { LeaseOwner, RunningWork, Ticket } from './ticket.js';
import { Lease, WAIT } from './ticket.js';

/**
 * The capacity of a limiter (slots, rates, pauses), and the one loop that grants it to the queue. There is one timer, and the clock is only read when
 * something depends on the time. Nothing is granted from inside a grant: a call made there only enqueues, and the loop goes round again.
 */
export abstract class GrantLoop extends LimiterCapacity implements LeaseOwner {
  readonly shutdown: Shutdown;
  /** Not a `Set`: one through which much goes keeps what it has let go of, until the next full collection. */
  readonly running = new Chain<RunningWork>();
  /** Limiters under this one that have something waiting or running. */
  readonly children = new Set<GrantLoop>();
  slots: number;
  /** Leases granted and not released. */
  leases = 0;
  /** Of those: leases that would not be out yet if this limiter held anything back. */
  private excess = 0;
  /** Called when something has changed and nothing waits or runs any more. */
  onUnused: (() => void) | undefined = undefined;
  /** Looks for deadlocks, while jobs wait whose work holds a lease of this limiter. */
  nesting: { look(): void } | undefined = undefined;
  /** When something waits or runs, or no longer does. */
  // eslint-disable-next-line rxjs-x/no-exposed-subjects -- a limiter below tells the listeners of those above
  changes = new Subject<void>();
  // eslint-disable-next-line rxjs-x/no-exposed-subjects -- the methods of the limiter add listeners
  protected readonly freeings = new Subject<void>();
  // eslint-disable-next-line rxjs-x/no-exposed-subjects -- the same
  protected readonly releases = new Subject<Release>();
  protected isGranting = false;
  /** Everything is being cancelled: what a refused job releases must not be granted to the next. */
  protected isAborting = false;
  private alarm: Alarm | undefined = undefined;
  /** Leases of cancelled work that still runs, and when each loses its slot. All get the same grace, so the first is the first to lose it. */
  private readonly abandoned = new Map<Lease, number>();
  /** Something has changed since the last round of the loop. */
  private again = false;
  /** Something was released or raised, and the listeners have not been called yet. */
  private hasFreed = false;

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

  /** Whether anything waits or runs, here or in a child limiter. */
  get isBusy(): boolean {
    return this.leases > 0 || this.queue.size > 0 || this.children.size > 0;
  }

  /** The error for a job that can never be granted: its cost is too high, or a limiter is closed. */
  refusal(charge: Charge, lane: number): Error | undefined {
    const tooHeavy = this.settings.enforce ? this.rates?.tooHeavy(charge, lane) : undefined;
    return tooHeavy ?? (this.shutdown.isClosed ? new ClosedError(NAME) : undefined);
  }

  /** The limit in the way of a job, and for how long: because of its own cost, or that of the ticket whose turn it is. */
  obstacle(own: Charge, lane: number): { readonly limit: string | undefined; readonly waitMs: number } {
    this.now();
    const next = this.next();
    const first = next === undefined || (next.lane > lane && this.isPassable(next)) ? { charge: own, lane } : next;
    const at = Math.max(this.payableAt(own, lane), this.payableAt(first.charge, first.lane));
    return { limit: this.blockedBy(first.charge, first.lane), waitMs: at - this.time };
  }

  /** Learns from the response to the request under this lease. */
  abstract learn(response: ResponseLike, lease: Lease): void;

  penalize(pauseMs: number): void {
    durationMs(NAME, 'pauseMs', pauseMs);
    const now = this.now();
    // A shorter pause never ends a longer one; one of 0 does.
    if (pauseMs > 0 ? now + pauseMs <= this.pausedUntil : now >= this.pausedUntil) return;
    this.pausedUntil = pauseMs > 0 ? now + pauseMs : -Infinity;
    if (pauseMs === 0) this.rates?.learner?.resumed(now);
    this.tell?.({ type: 'throttled', pauseMs });
    if (pauseMs === 0) this.freed();
    else this.arm();
  }

  /** Grants nothing until `resume`, whatever `penalize` says. */
  pause(): void {
    this.isPaused = true;
    this.arm();
  }

  resume(): void {
    if (!this.isPaused) return;
    this.isPaused = false;
    this.freed();
  }

  // ---- who waits ------------------------------------------------------------------------------------------------------

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

  /** Grants the ticket, refuses it, or puts it into the queue. */
  admit(ticket: Ticket, deadlineMs: number, waitsForRoom: boolean): void {
    const { charge, lane } = ticket;
    const error = this.refusal(charge, lane);
    if (error) {
      ticket.refused(error);
      return;
    }
    const { maxQueued } = this.settings;
    const { maxQueued: most = Infinity } = this.ruleOf(lane);
    const bound = Math.min(maxQueued, most);
    const hasRoom = this.waiting < maxQueued && (this.inLane[lane] as number) < most;
    const waitMs = bound === 0 ? 0 : deadlineMs;
    // One that can be granted now, or may not wait, needs no room.
    if (waitsForRoom || hasRoom || waitMs === 0 || this.canGrant(charge, lane)) this.enqueue(ticket, waitMs);
    else if (this.makeRoom(ticket, waitMs, bound)) this.grantNow();
    // One more that waits for a slot changes nothing.
    if (this.hasSlots(charge) || waitMs < Infinity) this.loop();
    if (ticket.isWaiting) ticket.hooks?.waits(ticket);
  }

  /** Enqueues a bidder, or a place of a child; also after the end has begun, for what was accepted before. */
  admitPlace(ticket: Ticket): void {
    this.enqueue(ticket, Infinity);
    this.again = true;
  }

  // ---- leases ---------------------------------------------------------------------------------------------------------

  /** A lease if there is one now, without waiting. */
  tryGrant(charge: Charge, lane: number, key?: unknown): Lease | undefined {
    const above = !this.canGrant(charge, lane) || this.refusal(charge, lane) ? WAIT : this.takeAbove(charge, lane, key);
    if (above === WAIT) return undefined;
    const lease = new Lease(this, charge);
    if (this.rates || !this.settings.enforce) lease.lane = lane;
    const othersWait = this.queue.size > 0;
    if (othersWait && !this.queue.goesFirst(lane)) lease.passes = true;
    // So that the waiting lanes get their share.
    if (othersWait) this.queue.turn(lane);
    this.book(lease, above);
    this.queue.granted?.(lease, lane, key);
    // A waiting ticket may be owed the next turn now, or wait for this slot instead of the rate.
    if (othersWait) this.grantLater();
    return lease;
  }

  /** Whether a job would be granted now, so that it needs no room in the queue. */
  canGrant(charge: Charge, lane: number): boolean {
    if (!this.hasSlots(charge)) return false;
    const goesFirst = !this.settings.enforce || this.queue.goesFirst(lane);
    if (!goesFirst && !this.settings.queue.reserve) return false;
    if (this.isTimed) this.now();
    if (goesFirst) return this.blockedBy(charge, lane) === undefined;
    for (let other = 0; other <= lane; other++) if (this.queue.count(other) > 0) return false;
    return this.passes(lane) && this.canPass({ charge, lane });
  }

  /** A lease of the limiter above, WAIT when there is none now, undefined without a limiter above. */
  protected takeAbove(_charge: Charge, _lane: number, _key: unknown): Lease | typeof WAIT | undefined {
    return undefined;
  }

  /** Takes the slots, and pays the rates. */
  protected book(lease: Lease, above: Lease | undefined): void {
    if (!this.settings.enforce) this.tellExcess(lease);
    this.leases++;
    if (lease.charge.slots > 1) lease.charge = this.clamp(lease.charge);
    this.executing += lease.charge.slots;
    if (above) lease.parent = above;
    if (this.releases.observed) lease.grantedAt = this.isTimed ? this.time : this.now();
    this.rates?.take(lease);
  }

  /** Counts and tells a lease that only goes because nothing is enforced. */
  private tellExcess(lease: Lease): void {
    const { charge, lane = 0 } = lease;
    const held = this.wouldWait(charge, lane);
    if (held === undefined) return;
    lease.wouldWait = true;
    this.excess++;
    this.tell?.({ type: 'wouldWait', lane: this.ruleOf(lane).name, ...held, queued: this.excess });
  }

  released(lease: Lease, outcome: Outcome, error: unknown): void {
    const { executing, releases } = this;
    if (releases.observed) {
      const releasedAt = this.now();
      releases.next({ outcome, error, grantedAt: lease.grantedAt ?? releasedAt, releasedAt, executing });
    }
    const isGivenUp = this.abandoned.size > 0 && this.abandoned.delete(lease);
    if (isGivenUp) this.clock.clear();
    else if (this.shutdown.isClosed && !this.isAborting && (outcome === 'ok' || outcome === 'error')) this.shutdown.count('done');
    this.leases--;
    if (this.excess > 0 && lease.wouldWait) this.excess--;
    this.executing -= lease.charge.slots;
    this.freed(outcome === 'cancelled');
  }

  refund(lease: Lease): void {
    this.rates?.refund(lease);
  }

  settled(lease: Lease, used: Amounts): boolean {
    return this.rates?.settle(lease, used) === true;
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

  /** The loop. A call from inside it only makes it go round again. `first` is done before anything is granted. */
  loop(first?: () => void): void {
    this.again = true;
    if (this.isGranting) {
      first?.();
      return;
    }
    // The usual release: nobody waits, and nobody is to be told.
    if (first === undefined && this.isQuiet) {
      this.again = this.hasFreed = false;
      if (!this.isBusy) this.onUnused?.();
      return;
    }
    this.isGranting = true;
    try {
      first?.();
      while (this.again) {
        this.again = false;
        const isTimed = this.isTimed || this.expiring !== undefined || this.abandoned.size > 0;
        if (isTimed) this.now();
        // Grants come first: a ticket whose deadline is now still gets a permit that is free now.
        while (this.queue.size > 0 && !this.isAborting && this.grantNext()) {
          // What was granted may have begun with work that took its time.
          if (isTimed) this.now();
        }
        if (isTimed && !this.isAborting) this.endDue();
      }
    } finally {
      this.isGranting = false;
      const { hasFreed } = this;
      this.hasFreed = false;
      this.arm();
      if (hasFreed) this.freeings.next();
    }
  }

  private grantNext(): boolean {
    const leader = this.queue.head(this.queue.lead()) as Ticket;
    if (leader.bid && !this.askBid(leader)) return true;
    const passing = this.settings.queue.reserve && this.passing(leader);
    if (passing?.bid && !this.askBid(passing)) return true;
    if (passing ? !this.canPass(passing) : this.blockedBy(leader.charge, leader.lane) !== undefined) return false;
    const ticket = passing ?? leader;
    const above = this.takeAbove(ticket.charge, ticket.lane, ticket.key);
    if (above === WAIT) return false;
    if (passing) passing.passes = true;
    this.dequeue(ticket, true);
    this.grant(ticket, above);
    return true;
  }

  protected grant(ticket: Ticket, above: Lease | undefined): void {
    this.book(ticket, above);
    this.queue.granted?.(ticket, ticket.lane, ticket.key);
    ticket.hooks?.granted(ticket);
    ticket.begin();
  }

  /** The ticket whose turn it is, in any lane or in this one; there, first of those with this key. A bidder has been asked for its bid. */
  protected next(lane?: number, key?: unknown): Ticket | undefined {
    const { queue, settings } = this;
    for (;;) {
      const at = lane ?? queue.lead();
      const ofKey = lane !== undefined && settings.queue.keyOf ? queue.headOf?.(lane, key) : undefined;
      const ticket = ofKey ?? (at === -1 ? undefined : queue.head(at));
      if (!ticket || this.askBid(ticket)) return ticket;
    }
  }

  /** Asks a bidder what it wants. False when it gives up its place or throws; then it is taken out of the queue. */
  protected askBid(ticket: Ticket): boolean {
    if (!ticket.bid) return true;
    let failure: { readonly error: unknown } | undefined;
    try {
      if (ticket.bid()) return ticket.isWaiting;
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

  /** Refuses the tickets whose deadline is over, and releases the leases whose grace is over. */
  private endDue(): void {
    while (this.nextExpiry <= this.time) {
      const ticket = this.expiring?.pop() as Ticket;
      const { limit, waitMs } = this.obstacle(ticket.charge, ticket.lane);
      // The next one may cost less.
      this.refuse(ticket, new RateLimitError(NAME, limit ?? 'concurrency', waitMs));
    }
    for (const [lease, until] of this.abandoned) {
      if (until > this.time) return;
      lease.release('cancelled');
    }
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
  }

  /** Grants at once: a waiting ticket wants something else, or was moved. */
  grantNow(): void {
    this.loop();
  }

  /** Grants now what was put off to the end of the frame. */
  flush(): void {
    if (this.again) this.loop();
  }

  /** Ends a round: sets the timer for what comes next, notifies, and finishes a shutdown when nothing is left. */
  arm(): void {
    if (this.isGranting) return;
    const at = this.wakesAt();
    if (at < Infinity || this.alarm) this.clock.set(at);
    this.changed();
  }

  /** Tells that something may have begun or ended to wait or run. */
  protected changed(): void {
    this.tellChanged();
    this.finish();
    if (!this.isBusy) this.onUnused?.();
  }

  tellChanged(): void {
    // RxJS makes a closure for each `next`, also when nobody listens.
    if (this.changes.observed) this.changes.next();
    this.nesting?.look();
  }

  protected get clock(): Alarm {
    return (this.alarm ??= new Alarm(this.settings.scheduler, () => {
      this.loop();
    }));
  }

  /** Nothing waits or is to end, and nobody listens: a freed slot has no consequences. */
  protected get isQuiet(): boolean {
    const { abandoned, changes, freeings, nesting, queue, shutdown } = this;
    return queue.size === 0 && abandoned.size === 0 && !nesting && !changes.observed && !freeings.observed && !shutdown.isClosed;
  }

  /** When the timer is to fire: for a rate, a deadline, or a given up lease, whichever comes first. */
  private wakesAt(): number {
    const { first } = this;
    if (this.hasFreed && this.freeings.observed) return this.now();
    const [graceEndsAt = Infinity] = this.abandoned.values();
    const at = Math.min(this.nextExpiry, graceEndsAt);
    if (first === undefined || this.isAborting) return at;
    // A ticket that needs more slots than are free is granted when a lease is released, not by the timer.
    const next = first.isPlace || this.hasSlots(first.charge) ? this.next() : undefined;
    if (!next || !this.hasSlots(next.charge)) return at;
    const passing = this.settings.queue.reserve && this.passing(next);
    const passesAt = passing ? Math.max(this.grantsAt(passing), this.passableAt(passing.charge, passing.lane)) : Infinity;
    return Math.min(at, this.grantsAt(next), passesAt);
  }

  /** When the timer is to see to a ticket whose turn it is. */
  protected grantsAt({ charge, lane }: Ticket): number {
    return this.payableAt(charge, lane);
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
    for (const work of this.running.members) work.failWith(error);
    this.loop();
    this.finish(true);
  }

  /** Here and in child limiters, before any ticket is refused. */
  stopGranting(): void {
    this.isAborting = true;
    for (const child of this.children) child.stopGranting();
  }

  /** Finishes a shutdown when everything accepted before it is over. */
  private finish(isOver = this.shutdown.isClosed && !this.isAborting && !this.isBusy): void {
    if (isOver && this.shutdown.finish()) this.tell?.({ type: 'drained' });
  }
}

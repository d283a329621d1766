import { Subject } from 'rxjs';
import { Gate } from '../../kernel/limiter/gate.js';
import type { Rates } from '../../kernel/limiter/rates.js';
import { clamped } from '../../kernel/limiter/tree.js';
import type { Charge } from '../../kernel/limits/limit.js';
import { Chain } from '../../kernel/queues/line.js';
import { ClosedError } from '../../options/errors.js';
import type { Teller } from '../../options/events.js';
import { teller } from '../../options/events.js';
import type { Release } from '../../options/limiter.js';
import { durationMs } from '../../options/options.js';
import type { Outcome } from '../../options/permits.js';
import type { ResponseLike } from '../../options/types.js';
import type { Shutdown } from '../calls/shutdown.js';
import { Alarm } from '../time/alarm.js';
import type { Above } from './above.js';
import { endOf, finish } from './end.js';
import type { Listeners } from './listeners.js';
import { endLate, makeRoom } from './refusals.js';
import type { LimiterSettings } from './settings.js';
import { NAME } from './settings.js';
import type { RunningWork, Ticket, TicketOwner } from './ticket.js';
import { Lease } from './ticket.js';

/**
 * The one loop that grants what the gate decides, with its timer, its running work and its end. The clock is only read when something depends on the time.
 * Nothing is granted from inside a grant: a call made there only enqueues, and the loop goes round again.
 */
export class GrantLoop implements TicketOwner {
  readonly settings: LimiterSettings;
  readonly gate: Gate<Ticket, Lease>;
  readonly above: Above<GrantLoop> | undefined;
  readonly shutdown: Shutdown;
  /** Not a `Set`: one with much traffic keeps deleted members until the next full collection. */
  readonly running = new Chain<RunningWork>();
  /** Limiters under this one that have something waiting or running. */
  readonly children = new Set<GrantLoop>();
  tell: Teller | undefined;
  /** Those who listen besides the listener of its options. */
  declare listeners?: Listeners;
  /** Called when something has changed and nothing waits or runs any more. */
  onUnused: (() => void) | undefined = undefined;
  /** The error for a job that no rate will ever pay. */
  tooHeavy: ((charge: Charge, lane: number) => Error | undefined) | undefined = undefined;
  /** Looks for deadlocks, while jobs wait whose work holds a lease of this limiter. */
  nesting: { look(): void } | undefined = undefined;
  /** When something waits or runs, or no longer does. */
  /* eslint-disable rxjs-x/no-exposed-subjects -- limiters below, leases and the methods of the limiter use them */
  changes = new Subject<void>();
  readonly freeings = new Subject<void>();
  readonly releases = new Subject<Release>();
  /* eslint-enable rxjs-x/no-exposed-subjects */
  isGranting = false;
  /** Everything is being cancelled: what a refused job releases must not be granted to the next. */
  isAborting = false;
  private alarm: Alarm | undefined = undefined;
  /** Something has changed since the last round of the loop. */
  private again = false;
  /** Something was released or raised, and the listeners have not been called yet. */
  private hasFreed = false;

  constructor(settings: LimiterSettings, above?: (below: GrantLoop) => Above<GrantLoop>) {
    const { learn, rates } = settings;
    this.settings = settings;
    this.tell = teller(NAME, settings, () => this.now());
    this.above = above?.(this);
    this.gate = new Gate(settings, this.above?.parent.gate);
    this.shutdown = endOf(this);
    this.addRates(learn ? [...rates, learn] : rates);
  }

  /** Reads the clock, and keeps the time. */
  now(): number {
    return (this.gate.time = this.clock.now());
  }

  /** Reads the clock if a grant depends on the time, and answers the gate. */
  get current(): Gate<Ticket, Lease> {
    if (this.gate.isTimed) this.now();
    return this.gate;
  }

  /** Whether anything waits or runs, here or in a child limiter. */
  get isBusy(): boolean {
    return this.gate.leases > 0 || this.gate.queue.size > 0 || this.children.size > 0;
  }

  /** Tickets waiting here and in child limiters. */
  get queued(): number {
    let tickets = this.gate.queue.size;
    for (const child of this.children) tickets += child.queued - (child.above?.size ?? 0);
    return tickets;
  }

  /** Reads the clocks here and above, as far as something depends on the time, and answers the gate. */
  upToDate(): Gate<Ticket, Lease> {
    this.above?.parent.upToDate();
    return this.current;
  }

  /** The error for a job that can never be granted: its cost is too high, or a limiter is closed. */
  refusal(charge: Charge, lane: number): Error | undefined {
    const tooHeavy = this.settings.enforce ? this.tooHeavy?.(charge, lane) : undefined;
    return tooHeavy ?? (this.shutdown.isClosed ? new ClosedError(NAME) : this.above?.refusal(charge, lane));
  }

  /** Whether a job would be granted now, so that it needs no room in the queue. */
  canGrant(charge: Charge, lane: number): boolean {
    const admits = this.current.admits(charge, lane) || this.comesAtOnce(charge, lane);
    return admits && this.above?.canGrant(charge, lane) !== false;
  }

  /** Whether a job that has not waited may go by credit that comes at once. */
  private comesAtOnce(charge: Charge, lane: number): boolean {
    const credit = this.gate.rates?.credit;
    return credit !== undefined && !this.refusal(charge, lane) && credit.wanted(charge, lane) && this.current.admits(charge, lane);
  }

  /** Adds rates, or what learns from responses. */
  addRates(rules: readonly { addTo(rates: object | undefined, limiter: object): object }[]): void {
    for (const rule of rules) this.gate.rates = rule.addTo(this.gate.rates, this) as Rates;
  }

  /** Whether a limiter learned from a response to the request under this lease, or to one of which nothing is known but maybe when it was sent. */
  learn(response: ResponseLike, lease?: Lease, sentAt = Infinity): void {
    const learner = this.gate.rates?.learner;
    if (learner) learner.read(response, lease, sentAt);
    else this.above?.parent.learn(response, lease?.parent, sentAt);
  }

  penalize(pauseMs: number): void {
    if (this.above?.pausesParent) {
      this.above.parent.penalize(pauseMs);
      return;
    }
    durationMs(NAME, 'pauseMs', pauseMs);
    this.now();
    if (!this.gate.penalize(pauseMs)) return;
    this.gate.rates?.credit?.hold(pauseMs);
    this.tell?.({ type: 'throttled', pauseMs });
    if (pauseMs === 0) this.freed();
    else this.arm();
  }

  /** Grants the ticket, refuses it, or puts it into the queue. */
  admit(ticket: Ticket, deadlineMs: number, waitsForRoom: boolean): void {
    const { gate } = this;
    const { charge, lane } = ticket;
    const error = this.refusal(charge, lane);
    const hasSlots = gate.hasSlots(charge);
    if (error) ticket.refused(error);
    if (error || (hasSlots && this.grantAtOnce(ticket))) return;
    const waitMs = gate.isBounded && gate.mayNotWait(lane) ? 0 : deadlineMs;
    // One that may not wait, or can be granted now, needs no room.
    const full = waitsForRoom || waitMs === 0 || !gate.isBounded ? undefined : gate.refusal(lane);
    if (full && !(hasSlots && this.canGrant(charge, lane))) makeRoom(this, ticket, waitMs, full);
    else this.enqueue(ticket, waitMs);
    // One more that waits for a slot changes nothing. Whom it evicted may have released one.
    if (gate.hasSlots(charge) || waitMs < Infinity) this.loop();
    if (ticket.state === 'waiting') ticket.hooks?.waits(ticket);
  }

  /** Puts a ticket into the queue; also after the end has begun, for what was accepted before. */
  enqueue(ticket: Ticket, waitMs: number): void {
    const { gate } = this;
    this.again = true;
    this.above?.markBusy();
    if (waitMs < Infinity) this.now();
    if (gate.enter(ticket, waitMs)) this.tell?.({ type: 'queueLong', lane: gate.nameOf(ticket.lane), queued: gate.waiting });
  }

  /** Takes out a ticket that leaves, and its place above: another ticket would overtake others with it. */
  withdraw(ticket: Ticket): void {
    const { above } = this;
    const place = above?.placeOf(ticket);
    this.gate.leave(ticket);
    // Only now: the parent may ask which ticket is next here.
    place?.withdraw();
    above?.fill();
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

  tellDropped({ lane }: Ticket, policy: string): void {
    this.tell?.({ type: 'dropped', lane: this.gate.nameOf(lane), policy });
  }

  /** A lease if there is one now, without waiting. */
  tryGrant(charge: Charge, lane: number, key?: unknown): Lease | undefined {
    const { above, gate } = this;
    if (!this.current.admits(charge, lane) && !this.comesAtOnce(charge, lane)) return undefined;
    if (this.refusal(charge, lane)) return undefined;
    const higher = above?.tryGrant(charge, lane, key);
    if (above && !higher) return undefined;
    const lease = new Lease(this, charge);
    if (gate.rates || !this.settings.enforce) lease.lane = lane;
    gate.overtake(lease, lane);
    this.book(lease, lane, key, higher);
    // A waiting ticket may be owed the next turn now, or wait for this slot instead of the rate.
    if (gate.queue.size > 0) this.grantLater();
    return lease;
  }

  /** Grants a ticket that has not waited, where nothing waits and nothing is in the way. Answers whether it did. */
  private grantAtOnce(ticket: Ticket): boolean {
    const { above, gate } = this;
    const { charge, key, lane } = ticket;
    if (this.isGranting || gate.queue.size > 0) return false;
    if (!this.current.admits(charge, lane) && !this.comesAtOnce(charge, lane)) return false;
    const higher = above?.tryGrant(charge, lane, key);
    if (above && !higher) return false;
    this.loop(ticket, higher);
    return true;
  }

  /** Takes the slots, and pays the rates. */
  private book(lease: Lease, lane: number, key: unknown, higher: Lease | undefined): void {
    const { gate } = this;
    this.above?.markBusy();
    if (lease.charge.slots > 1) lease.charge = clamped(gate, lease.charge);
    if (higher) lease.parent = higher;
    if (this.releases.observed) lease.grantedAt = gate.isTimed ? gate.time : this.now();
    // Nothing waits for credit where limits are not enforced, but all that is used of them counts.
    if (!this.settings.enforce) gate.rates?.credit?.wanted(lease.charge, lane);
    const held = gate.take(lease, lane, key);
    if (held) this.tell?.({ type: 'wouldWait', lane: gate.nameOf(lane), ...held });
    if (gate.rates) this.tellNotes();
  }

  tellNotes(): void {
    for (const note of this.gate.rates?.takeNotes() ?? []) this.tell?.(note);
  }

  freedBy(outcome: Outcome, wasAbandoned: boolean): void {
    if (wasAbandoned) this.clock.clear();
    else if (this.shutdown.isClosed && !this.isAborting && (outcome === 'ok' || outcome === 'error')) this.shutdown.count('done');
    this.hasFreed = true;
    if (outcome === 'cancelled') this.grantLater();
    else this.loop();
  }

  /** The loop. A call from inside it only makes it go round again. `ticket` is granted before any other, under this lease of the parent. */
  loop(ticket?: Ticket, higher?: Lease): void {
    this.again = true;
    if (this.isGranting) {
      if (ticket) this.grant(ticket, higher);
      return;
    }
    // The usual release: nobody waits, and nobody is to be told.
    if (!ticket && this.isQuiet) {
      this.again = this.hasFreed = false;
      if (!this.isBusy) this.onUnused?.();
      return;
    }
    this.isGranting = true;
    const { gate } = this;
    try {
      if (ticket) this.grant(ticket, higher);
      while (this.again) {
        this.again = false;
        const isTimed = gate.isTimed || gate.hasEnds;
        if (isTimed) this.now();
        // Grants come first: a ticket whose deadline is now still gets a permit that is free now.
        while (gate.queue.size > 0 && !this.isAborting && this.grantNext()) {
          // What was granted may have begun with work that took its time.
          if (isTimed) this.now();
        }
        // What comes at once may be enough for one whose deadline is now.
        const hasCome = !this.isAborting && gate.rates?.credit?.want() === true;
        if (isTimed && !this.isAborting && !hasCome) endLate(this);
      }
    } finally {
      this.isGranting = false;
      const { hasFreed } = this;
      this.hasFreed = false;
      this.arm();
      if (hasFreed) this.freeings.next();
    }
  }

  /** Grants the next ticket; false when nothing more can be granted now. */
  private grantNext(): boolean {
    const { above, gate } = this;
    const leader = gate.first;
    // A comparison of `ranked` has taken jobs out.
    if (leader === undefined) return true;
    if (leader.bid && !this.askBid(leader)) return true;
    const ticket = gate.rules.queue.reserve ? gate.candidate(leader) : leader;
    if (ticket !== leader && !this.askBid(ticket)) return true;
    if (!gate.lets(ticket, leader)) return false;
    const higher = above?.tryGrant(ticket.charge, ticket.lane, ticket.key);
    if (above && !higher) {
      above.fill();
      above.parent.flush();
      return false;
    }
    if (ticket !== leader) ticket.passes = true;
    gate.leave(ticket, true);
    this.grant(ticket, higher);
    return true;
  }

  private grant(ticket: Ticket, higher: Lease | undefined): void {
    this.book(ticket, ticket.lane, ticket.key, higher);
    ticket.hooks?.granted(ticket);
    ticket.begin();
  }

  /** The ticket whose turn it is, in any lane or in this one; there, first of those with this key. A bidder has been asked for its bid. */
  next(lane?: number, key?: unknown): Ticket | undefined {
    for (;;) {
      const ticket = lane === undefined ? this.gate.first : this.gate.firstIn(lane, key);
      if (!ticket || this.askBid(ticket)) return ticket;
    }
  }

  /** Asks a bidder what it wants. False when it gives up its place or throws; then it is taken out of the queue. */
  askBid(ticket: Ticket): boolean {
    if (!ticket.bid) return true;
    let failure: { readonly error: unknown } | undefined;
    try {
      if (ticket.bid()) return ticket.isWaiting;
    } catch (error) {
      failure = { error };
    }
    if (ticket.isWaiting) {
      this.gate.leave(ticket);
      // The parent may be asking: what follows must not run inside its loop.
      if (!this.isGranting) this.clock.setBy(this.gate.time);
    }
    if (failure) {
      this.shutdown.count('done');
      ticket.refused(failure.error);
    }
    return false;
  }

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
    // What a place has bid above may be out of date.
    this.above?.parent.grantLater();
  }

  /** Grants at once: a waiting ticket wants something else, or was moved. */
  grantNow(): void {
    this.loop();
    this.above?.parent.grantNow();
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
    this.above?.changed();
    if (this.changes.observed || this.nesting) this.tellChanged();
    if (this.shutdown.isClosed) finish(this);
    if (!this.isBusy) this.onUnused?.();
  }

  tellChanged(): void {
    // RxJS makes a closure for each `next`, also when nobody listens.
    if (this.changes.observed) this.changes.next();
    this.nesting?.look();
  }

  get clock(): Alarm {
    return (this.alarm ??= new Alarm(this.settings.scheduler, () => {
      this.loop();
    }));
  }

  /** Nothing waits or is to end, and nobody listens: a freed slot has no consequences. */
  private get isQuiet(): boolean {
    const { above, changes, freeings, gate, nesting, shutdown } = this;
    return gate.queue.size === 0 && !gate.hasEnds && !above && !nesting && !changes.observed && !freeings.observed && !shutdown.isClosed;
  }

  /** When the timer is to fire: for a rate, a deadline, or a given up lease, whichever comes first. */
  private wakesAt(): number {
    const { above, gate } = this;
    if (this.hasFreed && this.freeings.observed) return this.now();
    const { endsAt } = gate;
    const first = gate.queue.size === 0 || this.isAborting ? undefined : gate.first;
    if (!first) return endsAt;
    // A ticket that needs more slots than are free is granted when a lease is released, not by the timer.
    const next = first.isPlace || gate.hasSlots(first.charge) ? this.next() : undefined;
    if (!next || !gate.hasSlots(next.charge)) return endsAt;
    return Math.min(endsAt, gate.goesAt(next, above));
  }
}

import { ClosedError, NestedAcquireError, OverflowError } from '../../options/errors.js';
import { durationMs } from '../../options/options.js';
import type { ResponseLike } from '../../options/types.js';
import { Shutdown } from '../../shell/shutdown.js';
import { ALL } from './lane-times.js';
import { Capacity } from './limiter-capacity.js';
import { LimiterClock } from './limiter-clock.js';
import type { Member } from './limiter-family.js';
import { Family } from './limiter-family.js';
import { Learning } from './limiter-learning.js';
import type { Lessor, LimiterLease } from './limiter-lease.js';
import { Lingering } from './limiter-lingering.js';
import { Listeners } from './limiter-listeners.js';
import { Nesting } from './limiter-nesting.js';
import type { JobWish, LimiterConfig, Wish } from './limiter-options.js';
import { NAME } from './limiter-options.js';
import { Pauses } from './limiter-pauses.js';
import type { Child, Offer, Parent } from './limiter-places.js';
import { NONE, Places } from './limiter-places.js';
import { WaitingRoom } from './limiter-queue.js';
import type { Spending } from './limiter-rates.js';
import { Rates } from './limiter-rates.js';
import type { Admission, BidderTicket, Ticket } from './limiter-tickets.js';
import type { Host } from './limiter-turns.js';
import { Turns } from './limiter-turns.js';
import type { LimiterLimits, LimiterSnapshot, Outcome } from './limiter-types.js';
import { Endings } from './limiter-work.js';

/** Grants leases to those who wait: one loop, one timer, and a clock that is only looked at when something depends on the time. */
export class LimiterPump implements Lessor, Parent, Child, Member, Host {
  readonly shutdown: Shutdown;
  readonly capacity: Capacity;
  readonly pauses: Pauses;
  readonly listeners: Listeners;
  readonly endings = new Endings();
  readonly #config: LimiterConfig;
  readonly #clock: LimiterClock;
  readonly #room: WaitingRoom;
  readonly #rates: Rates;
  readonly #learning: Learning;
  readonly #turns: Turns;
  readonly #lingering = new Lingering();
  readonly #nesting: Nesting;
  /** Itself among the limiters above and below. */
  readonly family: Family;
  /** What it has of the limiter above, if there is one. */
  readonly #places: Places | undefined;
  /** Something was released or widened, and the watchers do not know yet. */
  #hasFreed = false;
  #pumping = false;
  #again = false;
  #isGivingUp = false;

  constructor(config: LimiterConfig, parent?: LimiterPump) {
    this.#config = config;
    this.#room = new WaitingRoom(config);
    this.#clock = new LimiterClock(config.scheduler, () => {
      this.pump();
    });
    this.#rates = new Rates(config, this.#clock.time);
    this.#learning = new Learning(config, this.#rates);
    this.shutdown = new Shutdown({
      operator: NAME,
      scheduler: config.scheduler,
      stop: () => {
        this.family.drain();
        this.#checkDrained();
      },
      abort: (error) => {
        this.#giveUp(error);
      },
    });
    this.capacity = new Capacity(config, this.#clock, this.#rates, parent?.capacity);
    this.pauses = new Pauses(this.#clock, this.#room, this.#rates);
    this.listeners = new Listeners(parent?.listeners);
    this.#nesting = new Nesting(this, this.capacity, parent && parent.#nesting);
    this.#places = parent && new Places(parent, this, config);
    this.family = new Family(this, this.#room, this.#places, parent && parent.family);
    this.#turns = new Turns(this, this.#clock, this.#room, parent && parent.#turns);
  }

  get refunds(): boolean {
    return this.#config.refunds;
  }

  /** Everything is being given up: what a refused job releases must not be granted to the next. */
  get isGivingUp(): boolean {
    return this.#isGivingUp;
  }

  /** Whether there is nothing to remember. */
  get isIdle(): boolean {
    this.pauses.end();
    return !this.family.isBusy && !this.pauses.anyLane && this.#rates.isFull(this.#clock.read());
  }

  snapshot(): LimiterSnapshot {
    return this.capacity.snapshot(this.#room);
  }

  /** A lease at once, or none. */
  tryGrant(wish: JobWish): LimiterLease | undefined {
    if (this.family.isClosed || this.capacity.tooHeavy(wish) || !this.#isNext(wish)) return undefined;
    const above = this.#places?.take(wish);
    if (above === NONE) return undefined;
    const lease = this.#charge(wish, wish.tokens, above);
    // Somebody who was passed over may be owed the next turn, and whoever waited for the rate may wait for this slot now.
    if (this.#room.size > 0) this.#letOthersIn();
    return lease;
  }

  /** The same for who would wait otherwise: calls made while others are served only enqueue. */
  grantNow(wish: JobWish): LimiterLease | undefined {
    return this.#pumping ? undefined : this.tryGrant(wish);
  }

  /** Whether a job would be granted now, so that it does not need a place to wait. */
  goesAtOnce(wish: JobWish): boolean {
    return this.#isNext(wish) && this.#places?.goesAtOnce(wish) !== false;
  }

  admitBidder(ticket: BidderTicket): void {
    if (this.family.isClosed) ticket.refused(new ClosedError(NAME));
    else this.admitPlace(ticket);
  }

  /** For a limiter below, which may still have to send what it has accepted before the end of this one began. */
  admitPlace(ticket: Ticket): void {
    this.#room.enter(ticket, Infinity);
    this.family.enter();
    this.pump();
  }

  bid(lane: number, affordable: number): Offer | undefined {
    if (this.family.isGivenUp) return undefined;
    if (this.#rates.isTimed) this.#clock.read();
    this.pauses.end();
    const offer = this.#turns.next(this.#config.sharesLanes ? lane : undefined, affordable);
    const limit = offer && this.capacity.blockedBy(offer.requests, offer.tokens);
    if (offer === undefined || limit === undefined) return offer;
    // The place is gone. A slot that comes free takes another; when the rate can pay, only the timer knows.
    if (limit !== 'concurrency') this.#clock.setBy(this.capacity.payableAt(offer));
    return undefined;
  }

  /** The parent grants what was bid for just before. */
  granted({ ticket, tokens }: Offer, above: LimiterLease): void {
    this.#room.take(ticket);
    if (this.#pumping) {
      this.#grant(ticket, tokens, above);
      this.#again = true;
    } else this.pump(ticket, tokens, above);
  }

  /** The ticket is granted, refused, or waits. */
  admitJob(ticket: Ticket, wish: JobWish, { waitMs, holder, waitsForRoom }: Admission): void {
    const error = this.capacity.tooHeavy(wish) ?? (this.family.isClosed ? new ClosedError(NAME) : undefined);
    if (error) {
      ticket.refused(error);
      return;
    }
    if (holder) ticket.holder = holder;
    const above = !this.#pumping && this.#isNext(wish) ? this.#places?.take(wish) : NONE;
    if (above !== NONE) {
      this.pump(ticket, wish.tokens, above);
      return;
    }
    this.#queue(ticket, wish, waitMs, waitsForRoom);
    if (holder === undefined || !ticket.isWaiting) return;
    this.#nesting.add(ticket, holder, () => {
      this.#turns.refuse(ticket, new NestedAcquireError(NAME, this.capacity.concurrency));
      this.#letOthersIn();
    });
    this.#nesting.refuseStuck();
  }

  leave(ticket: Ticket): void {
    if (!ticket.isWaiting) return;
    this.#room.remove(ticket);
    this.#letOthersIn();
  }

  /** If the limiter above asked, what follows from that is not to happen in its midst. */
  dismissed(): void {
    if (!this.#pumping) this.#clock.setBy(this.#clock.time);
  }

  /** Without a lane it holds all of them. */
  penalize(pauseMs: number, lane = ALL): void {
    if (durationMs(NAME, 'pauseMs', pauseMs) > 0) {
      this.#pauseFor(pauseMs, lane);
      return;
    }
    if (!this.pauses.lift(lane)) return;
    this.#learning.resumed(this.#clock.time);
    this.#config.onEvent?.({ type: 'throttled', operator: NAME, pauseMs });
    this.#hasFreed = true;
    this.pump();
  }

  pause(): void {
    if (this.pauses.hold(true)) this.rest();
  }

  resume(): void {
    if (!this.pauses.hold(false)) return;
    this.#hasFreed = true;
    this.pump();
  }

  dismiss(ticket: Ticket, error: unknown): void {
    this.#room.remove(ticket);
    this.shutdown.count('dropped');
    this.#config.onEvent?.({ type: 'dropped', operator: NAME, lane: this.#room.lane(ticket.wish.lane).name, policy: 'clear' });
    ticket.refused(error);
    this.#letOthersIn();
  }

  /** A pause lets nobody in, so there is only the timer to set. */
  #pauseFor(pauseMs: number, lane = ALL): void {
    if (!this.pauses.begin(lane, pauseMs)) return;
    this.#config.onEvent?.({ type: 'throttled', operator: NAME, pauseMs });
    this.rest();
  }

  observed(lease: LimiterLease, response: ResponseLike): void {
    this.#learn(response, this.#rates.spentSince(lease, this.#clock.read()));
  }

  /** As {@link observed}, of a request whose lease is not at hand. */
  observe(response: ResponseLike, sentAt = Infinity, lane?: number): void {
    this.#learn(response, { sentAt: Math.min(sentAt, this.#clock.read()), spanMs: 0, requests: 0, tokens: 0 }, lane);
  }

  setLimits(limits: LimiterLimits): void {
    const { concurrency } = this.capacity.setLimits(limits);
    this.#config.onEvent?.({ type: 'limitChanged', operator: NAME, concurrency });
    this.#hasFreed = true;
    this.pump();
  }

  freed(lease: LimiterLease, outcome: Outcome, error?: unknown): void {
    if (this.listeners.wantReleases) {
      const { executing } = this.capacity;
      this.listeners.released({ outcome, error, grantedAt: lease.grantedAt, releasedAt: this.#clock.read(), executing });
    }
    const isGivenUp = this.#lingering.delete(lease);
    if (!isGivenUp && !this.#isGivingUp && (outcome === 'ok' || outcome === 'error')) this.shutdown.count('done');
    this.capacity.free();
    this.#hasFreed = true;
    if (!this.#nesting.isEmpty) this.#nesting.released(lease);
    if (outcome === 'unused') this.capacity.refund(lease);
    if (outcome === 'cancelled') this.#letOthersIn();
    else this.pump();
  }

  worth(reported: number, paid: number): number {
    const charged = this.#rates.worth(reported, paid);
    // Where there is no rate nothing is charged.
    if (charged !== reported && this.#rates.limitsTokens) {
      this.#config.onEvent?.({ type: 'usageClamped', operator: NAME, reported, charged });
    }
    return charged;
  }

  corrected(tokens: number, paidAt: number): void {
    this.#rates.correct(0, tokens, paidAt, this.#clock.read());
    if (tokens < 0) this.pump();
  }

  lingers(lease: LimiterLease): void {
    if (this.#lingering.has(lease)) return;
    if (this.#isGivingUp || this.#config.abortGraceMs === 0) {
      lease.release('cancelled');
      return;
    }
    this.#lingering.add(lease, this.#clock.read() + this.#config.abortGraceMs);
    this.rest();
  }

  /** The one loop that grants. Calls made from inside it only enqueue: it comes round again. `first` was found to go at once. */
  pump(first?: Ticket, tokens = 0, above?: LimiterLease): void {
    if (this.#pumping) {
      this.#again = true;
      return;
    }
    this.#pumping = true;
    let hasFreed: boolean;
    try {
      if (first) this.#grant(first, tokens, above);
      let comesRound = this.#again || !this.#isQuiet();
      while (comesRound) {
        this.#again = false;
        if (this.#isTimed()) this.#clock.read();
        this.pauses.end();
        // First the grants: a permit that comes free in the moment a wait ends is not refused.
        while (this.#grantNext());
        this.#expire();
        if (!this.#nesting.isEmpty) this.#nesting.refuseStuck();
        comesRound = this.#again;
      }
    } finally {
      this.#pumping = false;
      hasFreed = this.#hasFreed;
      this.#hasFreed = false;
      this.rest();
    }
    if (hasFreed && this.listeners.areWatching) this.listeners.freed();
  }

  /** Whether it would be granted now, as far as this limiter is concerned. */
  #isNext({ lane, requests, tokens }: JobWish): boolean {
    this.pauses.end();
    if (this.#room.isPaused(lane)) return false;
    if (!this.#room.goesFirst(lane)) return false;
    if (this.#rates.isTimed) this.#clock.read();
    return this.capacity.blockedBy(requests, tokens) === undefined;
  }

  #queue(ticket: Ticket, wish: JobWish, waitMs: number | undefined, waitsForRoom: boolean): void {
    const { lane } = wish;
    // A job that may not wait expires by itself, one that goes at once needs no place to wait.
    if (waitsForRoom || this.#room.hasRoom(lane) || this.#room.isClosed(lane) || this.goesAtOnce(wish)) this.#enter(ticket, waitMs);
    else this.#makeRoom(ticket, waitMs);
    // With all slots taken and no time that matters, one more who waits changes nothing.
    if (this.capacity.freeSlots > 0 || this.#isTimed()) this.pump();
  }

  #enter(ticket: Ticket, longestMs: number | undefined): void {
    this.family.enter();
    // Where nobody may wait, a job that cannot go at once has waited long enough.
    const waitMs = this.#room.isClosed(ticket.wish.lane) ? 0 : longestMs;
    this.#room.enter(ticket, waitMs === undefined ? Infinity : this.#clock.read() + waitMs);
  }

  /** Somebody has to go, by the lane's policy. */
  #makeRoom(ticket: Ticket, waitMs: number | undefined): void {
    const { lane } = ticket.wish;
    const losers = this.#room.losers(lane);
    for (const loser of losers) this.#room.remove(loser);
    if (losers.length > 0) this.#enter(ticket, waitMs);
    // Told only now that the newcomer has its place: they may well call again.
    const { overflow: policy } = this.#room.lane(lane);
    for (const loser of losers.length > 0 ? losers : [ticket]) {
      this.#config.onEvent?.({ type: 'dropped', operator: NAME, lane: this.#room.lane(loser.wish.lane).name, policy });
      loser.refused(new OverflowError(NAME, this.#room.bound(lane), policy));
    }
  }

  /**
   * Grants what can be granted at the end of the frame. One who leaves is often the first of many (a whole pipeline is
   * unsubscribed, call by call), and nobody is to start a call who is about to leave as well.
   */
  #letOthersIn(): void {
    this.#again = true;
    this.rest();
  }

  #grantNext(): boolean {
    const ticket = this.#room.lead;
    if (ticket === undefined || this.family.isGivenUp) return false;
    const tokens = this.#turns.bid(ticket);
    if (tokens === undefined) return true;
    const { lane, requests } = ticket.wish;
    if (this.capacity.blockedBy(requests, tokens) !== undefined) return false;
    const above = this.#places?.take({ lane, requests, tokens });
    if (above === NONE) {
      this.#places?.seek(this.#room, this.capacity.freeSlots);
      return false;
    }
    this.#room.take(ticket);
    this.#grant(ticket, tokens, above);
    return true;
  }

  #grant(ticket: Ticket, tokens: number, above: LimiterLease | undefined): void {
    const lease = this.#charge(ticket.wish, tokens, above);
    if (ticket.holder) lease.askedBy(ticket.holder);
    ticket.granted(lease, this.endings);
  }

  #charge({ lane, requests }: Wish, tokens: number, above: LimiterLease | undefined): LimiterLease {
    this.#room.turn(lane);
    this.family.enter();
    return this.capacity.take(this, requests, tokens, above, this.listeners.wantReleases);
  }

  #learn(response: ResponseLike, since: Spending, lane?: number): void {
    const { pauseMs, hasChanged } = this.#learning.read(response, since, this.#clock.time);
    if (hasChanged) {
      this.#hasFreed = true;
      this.#letOthersIn();
    }
    if (pauseMs) this.#pauseFor(pauseMs, lane);
  }

  #expire(): void {
    // Everybody is being refused, for another reason.
    if (this.family.isGivenUp) return;
    if (!this.#isTimed()) return;
    for (let ticket = this.#room.expired(this.#clock.time); ticket; ticket = this.#room.expired(this.#clock.time)) {
      // Whoever comes next may want less.
      this.#again = true;
      this.#turns.expire(ticket);
    }
    if (this.#lingering.size > 0) this.#lingering.expire(this.#clock.time);
  }

  /** Nothing more is to be done now: the timer is set for what comes next, or this was the end. */
  rest(): void {
    if (this.#pumping) return;
    if (this.#isQuiet()) {
      this.#clock.clear();
      return;
    }
    if (this.#room.size === 0) this.#places?.withdraw();
    this.#arm();
    this.family.leave();
    this.family.tell();
    this.#checkDrained();
  }

  /** One timer, for whatever comes first: the rate, a wait that gets too long, a slot held by work that was given up. */
  #arm(): void {
    const next = this.capacity.freeSlots > 0 && !this.family.isGivenUp ? this.#turns.next() : undefined;
    const hasNews = this.#hasFreed && this.listeners.areWatching;
    if (next === undefined && !hasNews && !this.#mayBeStuck() && !this.#isTimed()) {
      this.#clock.clear();
      return;
    }
    let at = this.#mayBeStuck() ? this.#clock.read() : this.#room.nextExpiry;
    const payableAt = next ? this.capacity.payableAt(next) : Infinity;
    // What could be paid here and has a place above waits for the limiter above, which says when.
    if (next && (payableAt > this.#clock.time || !this.#places?.has(next.ticket.wish.lane))) at = Math.min(at, payableAt);
    if (this.#lingering.size > 0) at = Math.min(at, this.#lingering.next);
    if (this.#room.size > 0) at = Math.min(at, this.pauses.next);
    if (hasNews) at = this.#clock.read();
    this.#clock.set(at);
  }

  /** Something has changed since it was looked whether those who hold all the slots wait for each other. */
  #mayBeStuck(): boolean {
    return this.#again && !this.#nesting.isEmpty;
  }

  #giveUp(error: unknown): void {
    this.#isGivingUp = true;
    this.shutdown.count('aborted', this.capacity.executing - this.#lingering.size);
    this.shutdown.count('dropped', this.family.queued);
    this.#places?.withdraw();
    this.family.close(error);
    this.#room.close(error);
    this.#lingering.expire(Infinity);
    this.endings.giveUp(error);
    this.pump();
    this.#finish();
  }

  #checkDrained(): void {
    if (this.shutdown.isClosed && !this.#isGivingUp && !this.family.isBusy) this.#finish();
  }

  #finish(): void {
    if (this.shutdown.finish()) this.#config.onEvent?.({ type: 'drained', operator: NAME });
  }

  /** Nobody waits, listens or is to be told anything: nothing follows from a slot that comes free. */
  #isQuiet(): boolean {
    return (
      this.#room.size === 0 &&
      this.#places === undefined &&
      this.#lingering.size === 0 &&
      this.#nesting.isEmpty &&
      !this.family.isAwaited &&
      !this.listeners.areWatching &&
      !this.shutdown.isClosed
    );
  }

  /** Whether what is to be done depends on the time; when it does not, the clock is left alone. */
  #isTimed(): boolean {
    return this.#lingering.size > 0 || (this.#room.size > 0 && (this.#rates.isTimed || this.#room.isTimed || this.pauses.anyLane));
  }
}

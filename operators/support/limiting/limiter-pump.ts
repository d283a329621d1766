import { Bag } from '../../kernel/bag.js';
import { Alarm } from '../alarm.js';
import { ClosedError, NestedAcquireError, OverflowError, RateLimitError } from '../errors.js';
import { durationMs } from '../options.js';
import { Shutdown } from '../shutdown.js';
import type { ResponseLike } from '../types.js';
import { ALL } from './lane-times.js';
import { Learning } from './limiter-learning.js';
import type { Lessor } from './limiter-lease.js';
import { LimiterLease } from './limiter-lease.js';
import { Listeners } from './limiter-listeners.js';
import { Nesting } from './limiter-nesting.js';
import type { JobWish, LimiterConfig, Wish } from './limiter-options.js';
import { changedLimits, NAME } from './limiter-options.js';
import { Pauses } from './limiter-pauses.js';
import type { Child, Offer, Parent } from './limiter-places.js';
import { Places } from './limiter-places.js';
import { WaitingRoom } from './limiter-queue.js';
import type { Spending, TimedLimit } from './limiter-rates.js';
import { Rates } from './limiter-rates.js';
import type { BidderTicket, Ticket } from './limiter-tickets.js';
import type { Cost, LimiterLimits, LimiterSnapshot, Outcome, Release } from './limiter-types.js';
import type { LeasedWork } from './limiter-work.js';
import { Endings } from './limiter-work.js';

/** The limiter above has to be waited for. */
const NONE = 'none';

/** Grants leases to those who wait: one loop, one timer, and a clock that is only looked at when something depends on the time. */
export class LimiterPump implements Lessor, Parent, Child {
  readonly shutdown: Shutdown;
  /** What runs for subscribers. */
  readonly running = new Bag<LeasedWork>();
  readonly #config: LimiterConfig;
  readonly #room: WaitingRoom;
  readonly #rates: Rates;
  readonly #learning: Learning;
  readonly #pauses: Pauses;
  readonly #alarm: Alarm;
  /** Slots held by work that was given up but not over, and until when. */
  readonly #lingering = new Map<LimiterLease, number>();
  readonly #endings = new Endings();
  readonly #listeners = new Listeners();
  /** Something was released or widened, and the watchers do not know yet. */
  #hasFreed = false;
  /** The limiter above, and the places this one has in its queue. */
  readonly #parent: LimiterPump | undefined;
  readonly #places: Places | undefined;
  /** Limiters below that have something waiting or running. */
  readonly #children = new Set<LimiterPump>();
  readonly #nesting = new Nesting();
  #limits: Required<LimiterLimits>;
  #executing = 0;
  /** When the clock was last looked at. */
  #now: number;
  #pumping = false;
  #again = false;
  /** Everything is being given up: what a refused job releases must not be granted to the next. */
  #refusing = false;

  constructor(config: LimiterConfig, parent?: LimiterPump) {
    this.#config = config;
    this.#parent = parent;
    this.#places = parent && new Places(parent, this, parent.#config.lanes.lanes.length);
    this.#limits = config.limits;
    this.#room = new WaitingRoom(config);
    this.#alarm = new Alarm(config.scheduler, () => {
      this.pump();
    });
    this.#now = this.#alarm.now();
    this.#rates = new Rates(config, this.#now);
    this.#learning = new Learning(config, this.#rates);
    this.#pauses = new Pauses(config, this.#room, this.#rates);
    this.shutdown = new Shutdown({
      operator: NAME,
      scheduler: config.scheduler,
      stop: () => {
        for (const child of [...this.#children]) void child.shutdown.drain();
        this.#checkDrained();
      },
      abort: (error) => {
        this.#giveUp(error);
      },
    });
  }

  get concurrency(): number {
    return Math.min(this.#limits.concurrency, this.#parent?.concurrency ?? Infinity);
  }

  get executing(): number {
    return this.#executing;
  }

  get load(): number {
    const { concurrency } = this.#limits;
    const slots = concurrency === Infinity ? 0 : Math.min(1, this.#executing / concurrency);
    const own = this.#rates.isTimed ? Math.max(slots, this.#rates.load(this.#read())) : slots;
    return Math.max(own, this.#parent?.load ?? 0);
  }

  get tokenCapacity(): number {
    return Math.min(this.#rates.tokenCapacity, this.#parent?.tokenCapacity ?? Infinity);
  }

  get requestCapacity(): number {
    return Math.min(this.#rates.requestCapacity, this.#parent?.requestCapacity ?? Infinity);
  }

  get longestPauseMs(): number {
    return Math.min(this.#config.failsAboveMs, this.#parent?.longestPauseMs ?? Infinity);
  }

  get borrows(): boolean {
    return this.#config.borrows && this.#parent?.borrows !== false;
  }

  snapshot(): LimiterSnapshot {
    const now = this.#read();
    const queued = this.#room.size;
    const heldBySlot = this.#heldBySlot(now);
    return {
      concurrency: this.#limits.concurrency,
      executing: this.#executing,
      queued,
      heldByRate: queued - heldBySlot,
      heldBySlot,
      requests: this.#rates.requestsLeft(now),
      tokens: this.#rates.tokensLeft(now),
      pausedForMs: this.#rates.pausedForMs(now),
      requestsPerMinute: this.#rates.perMinute('requests'),
      tokensPerMinute: this.#rates.perMinute('tokens'),
    };
  }

  /** How many would go at once if there were slots, here and above. */
  #heldBySlot(now: number): number {
    const { isFull, requests, tokens } = this.roomAt(now);
    return isFull ? this.#room.payable(requests, tokens) : 0;
  }

  /** What is left for one more, here and above. */
  roomAt(now: number): { readonly isFull: boolean; readonly requests: number; readonly tokens: number } {
    const above = this.#parent?.roomAt(this.#parent.#read()) ?? { isFull: false, requests: Infinity, tokens: Infinity };
    const isPaused = this.#rates.pausedForMs(now) > 0;
    return {
      isFull: above.isFull || this.#executing >= this.#limits.concurrency,
      // Nobody goes in a pause, whatever it costs.
      requests: isPaused ? -Infinity : Math.min(above.requests, this.#rates.requestsLeft(now)),
      tokens: Math.min(above.tokens, this.#rates.tokensLeft(now)),
    };
  }

  /** A lease at once, or none. */
  tryGrant(wish: JobWish): LimiterLease | undefined {
    if (this.isClosed || this.tooHeavy(wish) || !this.#goesAtOnce(wish)) return undefined;
    const above = this.#takeAbove(wish);
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

  admitBidder(ticket: BidderTicket): void {
    const error = this.isClosed ? new ClosedError(NAME) : this.#tooLongAPause(ticket.wish.lane);
    if (error) ticket.refused(error);
    else this.admitPlace(ticket);
  }

  /** For a limiter below, which may still have to send what it has accepted before the end of this one began. */
  admitPlace(ticket: Ticket): void {
    this.#room.enter(ticket, Infinity);
    this.#signOn();
    this.pump();
  }

  bid(lane: number, affordable: number): Offer | undefined {
    if (this.#refusing) return undefined;
    if (this.#rates.isTimed) this.#read();
    this.#endPauses();
    for (let ticket = this.#headFor(lane); ticket; ticket = this.#headFor(lane)) {
      const tokens = this.#bid(ticket, affordable);
      if (tokens === undefined) continue;
      const offer = { ticket, requests: ticket.wish.requests, tokens };
      const limit = this.#blockedBy(offer.requests, tokens);
      if (limit === undefined) return offer;
      // The place is gone. A slot that comes free takes another; when the rate can pay, only the timer knows.
      if (limit !== 'concurrency') this.#alarm.setBy(this.#payableAt(offer));
      return undefined;
    }
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

  /**
   * The ticket is granted, refused, or waits; `waitMs` is the longest wait, undefined for ever. `holder` is the lease of the work
   * that asks.
   */
  admitJob(ticket: Ticket, wish: JobWish, waitMs: number | undefined, holder?: LimiterLease): void {
    const error = this.tooHeavy(wish) ?? (this.isClosed ? new ClosedError(NAME) : this.#tooLongAPause(wish.lane));
    if (error) {
      ticket.refused(error);
      return;
    }
    if (holder) ticket.holder = holder;
    const above = !this.#pumping && this.#goesAtOnce(wish) ? this.#takeAbove(wish) : NONE;
    if (above !== NONE) {
      this.pump(ticket, wish.tokens, above);
      return;
    }
    this.#queue(ticket, wish, waitMs);
    if (holder === undefined || !ticket.isWaiting) return;
    this.nest(ticket, holder, () => {
      this.#refuse(ticket, new NestedAcquireError(NAME, this.concurrency));
      this.#letOthersIn();
    });
    this.refuseStuck();
  }

  leave(ticket: Ticket): void {
    if (!ticket.isWaiting) return;
    this.#room.remove(ticket);
    this.#letOthersIn();
  }

  /** A pause lets nobody in, so there is only the timer to set. Without a lane it holds all of them. */
  penalize(pauseMs: number, lane = ALL): void {
    if (!this.#pauses.begin(lane, durationMs(NAME, 'pauseMs', pauseMs), this.#read())) return;
    this.#config.onEvent?.({ type: 'throttled', operator: NAME, pauseMs });
    this.#restAll();
  }

  observed(lease: LimiterLease, response: ResponseLike): void {
    this.#learn(response, this.#rates.spentSince(lease, this.#read()));
  }

  /** As {@link observed}, of a request whose lease is not at hand. */
  observe(response: ResponseLike, sentAt = Infinity, lane?: number): void {
    this.#learn(response, { sentAt: Math.min(sentAt, this.#read()), spanMs: 0, requests: 0, tokens: 0 }, lane);
  }

  #learn(response: ResponseLike, since: Spending, lane?: number): void {
    const { pauseMs, hasChanged } = this.#learning.read(response, since, this.#now);
    if (hasChanged) {
      this.#hasFreed = true;
      this.#letOthersIn();
    }
    if (pauseMs !== undefined) this.penalize(pauseMs, lane);
  }

  setLimits(limits: LimiterLimits): void {
    this.#limits = changedLimits(limits, this.#limits);
    this.#rates.setLimits(this.#limits, this.#read());
    this.#config.onEvent?.({ type: 'limitChanged', operator: NAME, concurrency: this.#limits.concurrency });
    this.#hasFreed = true;
    this.pump();
  }

  watch(listener: () => void): () => void {
    const stop = this.#parent?.watch(() => {
      listener();
    });
    const stopHere = this.#listeners.watch(listener);
    return () => {
      stopHere();
      stop?.();
    };
  }

  onRelease(listener: (release: Release) => void): () => void {
    return this.#listeners.onRelease(listener);
  }

  freed(lease: LimiterLease, outcome: Outcome, error?: unknown): void {
    if (this.#listeners.wantReleases) this.#report(lease, outcome, error);
    const isGivenUp = this.#lingering.size > 0 && this.#lingering.delete(lease);
    if (!isGivenUp && !this.#refusing && (outcome === 'ok' || outcome === 'error')) this.shutdown.count('done');
    this.#executing--;
    this.#hasFreed = true;
    if (!this.#nesting.isEmpty) this.#nesting.released(lease);
    if (outcome === 'unused') {
      this.#rates.correct(-lease.requests, -lease.tokens, lease.grantedAt, this.#read());
      lease.tokens = 0;
    }
    if (outcome === 'cancelled') this.#letOthersIn();
    else this.pump();
  }

  get refunds(): boolean {
    return this.#config.refunds;
  }

  corrected(tokens: number, paidAt: number): void {
    this.#rates.correct(0, tokens, paidAt, this.#read());
    if (tokens < 0) this.pump();
  }

  lingers(lease: LimiterLease): void {
    if (this.#lingering.has(lease)) return;
    if (this.#refusing) {
      lease.release('cancelled');
      return;
    }
    this.#lingering.set(lease, this.#read() + this.#config.abortGraceMs);
    this.pump();
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
        if (this.#isTimed()) this.#read();
        this.#endPauses();
        // First the grants: a permit that comes free in the moment a wait ends is not refused.
        while (this.#grantNext());
        this.#expire();
        if (!this.#nesting.isEmpty) this.refuseStuck();
        comesRound = this.#again;
      }
    } finally {
      this.#pumping = false;
      hasFreed = this.#hasFreed;
      this.#hasFreed = false;
      this.#rest();
    }
    if (hasFreed && this.#listeners.areWatching) this.#listeners.freed();
  }

  #queue(ticket: Ticket, wish: JobWish, waitMs: number | undefined): void {
    const { lane } = wish;
    // A job that may not wait expires by itself, one that goes at once needs no place to wait.
    if (this.#room.hasRoom(lane) || this.#room.isClosed(lane) || this.goesAtOnce(wish)) this.#enter(ticket, waitMs);
    else this.#makeRoom(ticket, waitMs);
    // With all slots taken and no time that matters, one more who waits changes nothing.
    if (this.#executing < this.#limits.concurrency || this.#isTimed()) this.pump();
  }

  #enter(ticket: Ticket, longestMs: number | undefined): void {
    this.#signOn();
    // Where nobody may wait, a job that cannot go at once has waited long enough.
    const waitMs = this.#room.isClosed(ticket.wish.lane) ? 0 : longestMs;
    this.#room.enter(ticket, waitMs === undefined ? Infinity : this.#read() + waitMs);
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

  /** Whether a job would be granted now, so that it does not need a place to wait. */
  goesAtOnce(wish: JobWish): boolean {
    return this.#goesAtOnce(wish) && this.#parent?.goesAtOnce({ ...wish, lane: this.#laneAbove(wish.lane) }) !== false;
  }

  /** As far as this limiter is concerned. */
  #goesAtOnce({ lane, requests, tokens }: JobWish): boolean {
    this.#endPauses();
    if (this.#room.isPaused(lane)) return false;
    if (!this.#room.goesFirst(lane)) return false;
    if (this.#rates.isTimed) this.#read();
    return this.#blockedBy(requests, tokens) === undefined;
  }

  /**
   * Grants what can be granted at the end of the frame. One who leaves is often the first of many (a whole pipeline is
   * unsubscribed, call by call), and nobody is to start a call who is about to leave as well.
   */
  #letOthersIn(): void {
    this.#again = true;
    this.#rest();
  }

  #grantNext(): boolean {
    const ticket = this.#room.lead;
    if (ticket === undefined || this.#refusing) return false;
    const tokens = this.#bid(ticket);
    if (tokens === undefined) return true;
    const { lane, requests } = ticket.wish;
    if (this.#blockedBy(requests, tokens) !== undefined) return false;
    const above = this.#takeAbove({ lane, requests, tokens });
    if (above === NONE) {
      this.#seekPlaces();
      return false;
    }
    this.#room.take(ticket);
    this.#grant(ticket, tokens, above);
    return true;
  }

  #grant(ticket: Ticket, tokens: number, above: LimiterLease | undefined): void {
    const lease = this.#charge(ticket.wish, tokens, above);
    if (ticket.holder) lease.askedBy(ticket.holder);
    ticket.granted(lease, this.#endings);
  }

  #charge({ lane, requests }: Wish, tokens: number, above: LimiterLease | undefined): LimiterLease {
    this.#room.turn(lane);
    this.#executing++;
    this.#signOn();
    const { isTimed } = this.#rates;
    if (isTimed) this.#rates.pay(requests, tokens, this.#now);
    else if (this.#listeners.wantReleases) this.#read();
    const lease = new LimiterLease(this, requests, tokens, this.#now, above);
    if (isTimed) this.#rates.stamp(lease);
    return lease;
  }

  /** What the limiter above has to give for it: a lease, nothing when there is no such limiter, `NONE` when it has to be waited for. */
  #takeAbove({ lane, requests, tokens }: JobWish): LimiterLease | typeof NONE | undefined {
    return this.#parent && (this.#parent.tryGrant({ lane: this.#laneAbove(lane), requests, tokens }) ?? NONE);
  }

  /** A child has the lanes of its parent; lanes of its own are one lane there. */
  #laneAbove(lane: number): number {
    return this.#parent?.hasLanes ? lane : 0;
  }

  /** Who is to go when the turn comes in a lane of the limiter above. */
  #headFor(lane: number): Ticket | undefined {
    if (!this.#parent?.hasLanes) return this.#room.lead;
    return this.#room.isPaused(lane) ? undefined : this.#room.head(lane);
  }

  #seekPlaces(): void {
    const free = this.#limits.concurrency - this.#executing;
    if (!this.#parent?.hasLanes) this.#places?.seek(0, Math.min(free, this.#room.size));
    else {
      for (const lane of this.#config.lanes.lanes.keys())
        if (!this.#room.isPaused(lane)) this.#places?.seek(lane, Math.min(free, this.#room.count(lane)));
    }
  }

  /** Something waits or runs here, which the limiters above must know: they are not over before it is. */
  #signOn(): void {
    const parent = this.#parent;
    if (parent === undefined || parent.#children.has(this)) return;
    parent.#children.add(this);
    parent.#signOn();
  }

  #signOff(): void {
    if (this.#parent && !this.isBusy && this.#parent.#children.delete(this)) this.#parent.#rest();
  }

  /** Notes that the work which holds this lease waits for another one, here and in the limiters above. */
  nest(ticket: Ticket, holder: LimiterLease, refuse: () => void): void {
    const held = holder.of(this) ?? holder.outer(this);
    if (held?.isReleased === false) this.#nesting.add(ticket, held, refuse);
    this.#parent?.nest(ticket, holder, refuse);
  }

  /** While all slots are held by work that waits for another one, here or above, one of those jobs is refused: it would wait for ever. */
  refuseStuck(): void {
    for (let job = this.#stuck(); job; job = this.#stuck()) job.refuse();
    this.#parent?.refuseStuck();
  }

  #stuck() {
    if (this.#nesting.isEmpty || this.#executing < this.#limits.concurrency) return undefined;
    return this.#nesting.stuck(this.#executing, (lease) => lease.outer(this));
  }

  get isClosed(): boolean {
    return this.shutdown.isClosed || this.#parent?.isClosed === true;
  }

  /** The error for a job that can never be paid. */
  tooHeavy(cost: Required<Cost>): Error | undefined {
    return this.#rates.tooHeavy(cost.requests, cost.tokens) ?? this.#parent?.tooHeavy(cost);
  }

  #report({ grantedAt }: LimiterLease, outcome: Outcome, error: unknown): void {
    this.#listeners.released({ outcome, error, grantedAt, releasedAt: this.#read(), executing: this.#executing });
  }

  #blockedBy(requests: number, tokens: number): 'concurrency' | TimedLimit | undefined {
    if (this.#executing >= this.#limits.concurrency) return 'concurrency';
    return this.#rates.isTimed ? this.#rates.blockedBy(requests, tokens, this.#now) : undefined;
  }

  /** Why the ticket has no permit: its own cost, or that of the one whose turn it is, here or above. */
  #refusal(ticket: Ticket): RateLimitError {
    const { limit, waitMs } = this.obstacle(ticket.wish as JobWish);
    const heldForMs = this.#pauses.heldForMs(ticket.wish.lane, this.#now);
    return new RateLimitError(NAME, heldForMs > 0 ? 'pause' : (limit ?? 'concurrency'), Math.max(waitMs, heldForMs));
  }

  /** Says for how long, because each limiter has its own idea of the time when the clock was set back. */
  obstacle(own: Required<Cost>): { readonly limit: 'concurrency' | TimedLimit | undefined; readonly waitMs: number } {
    this.#read();
    const next = this.#next() ?? own;
    const above = this.#parent?.obstacle(own);
    const waitMs = Math.max(this.#payableAt(own), this.#payableAt(next)) - this.#now;
    return { limit: this.#blockedBy(next.requests, next.tokens) ?? above?.limit, waitMs: Math.max(waitMs, above?.waitMs ?? 0) };
  }

  /** When the rate alone would let it go. */
  #payableAt({ requests, tokens }: Required<Cost>): number {
    return this.#rates.payableAt(requests, tokens, this.#now);
  }

  /** What the one wants whose turn it is; undefined when nobody waits. */
  #next(): Offer | undefined {
    for (let ticket = this.#room.lead; ticket; ticket = this.#room.lead) {
      const tokens = this.#bid(ticket);
      if (tokens !== undefined) return { ticket, requests: ticket.wish.requests, tokens };
    }
    return undefined;
  }

  /** Undefined from one that gives up its place, and is gone from the queue then; so is one that cannot say what it wants. */
  #bid(ticket: Ticket, above?: number): number | undefined {
    const { tokens } = ticket.wish;
    if (tokens !== undefined) return tokens;
    try {
      const bid = ticket.bid(Math.min(above ?? this.#parent?.affordable ?? Infinity, this.#rates.tokensLeft(this.#now)));
      if (bid === undefined) this.#dismiss(ticket);
      return bid;
    } catch (error) {
      this.#dismiss(ticket);
      this.#refused(ticket, error);
      return undefined;
    }
  }

  /** One that was asked wants nothing any more. If the limiter above asked, what follows from that is not to happen in its midst. */
  #dismiss(ticket: Ticket): void {
    if (!ticket.isWaiting) return;
    this.#room.remove(ticket);
    if (!this.#pumping) this.#alarm.setBy(this.#now);
  }

  #refuse(ticket: Ticket, error: unknown): void {
    this.#room.remove(ticket);
    this.#refused(ticket, error);
  }

  #refused(ticket: Ticket, error: unknown): void {
    this.shutdown.count('done');
    ticket.refused(error);
  }

  /** Tokens that could be spent at once, here and above. */
  get affordable(): number {
    return Math.min(this.#rates.tokensLeft(this.#read()), this.#parent?.affordable ?? Infinity);
  }

  /** Lanes whose pause is over have their turns again. */
  #endPauses(): void {
    if (this.#pauses.anyLane) this.#pauses.end(this.#read());
  }

  /** Whether jobs are refused anywhere, here or above, because of a long pause. */
  get fails(): boolean {
    return this.#pauses.fails || this.#parent?.fails === true;
  }

  /** How much longer jobs of the lane are refused for that. */
  failsForMs(lane: number): number {
    return Math.max(this.#pauses.failsForMs(lane, this.#read()), this.#parent?.failsForMs(this.#laneAbove(lane)) ?? 0);
  }

  #tooLongAPause(lane: number): RateLimitError | undefined {
    if (!this.fails) return undefined;
    const retryAfterMs = this.failsForMs(lane);
    return retryAfterMs > 0 ? new RateLimitError(NAME, 'pause', retryAfterMs) : undefined;
  }

  /** Whether somebody waits who is to be refused for that. */
  #isFailing(): boolean {
    return this.#config.lanes.lanes.some((_, lane) => this.#room.count(lane) > 0 && this.#tooLongAPause(lane) !== undefined);
  }

  /** Refuses whoever waits for the end of a long pause. */
  #failWaiting(): void {
    for (const lane of this.#config.lanes.lanes.keys()) {
      const error = this.#tooLongAPause(lane);
      for (let ticket = error && this.#room.head(lane); ticket; ticket = this.#room.head(lane)) this.#refuse(ticket, error);
    }
    this.#pauses.endFailing(this.#now);
  }

  #expire(): void {
    if (this.fails) this.#failWaiting();
    if (!this.#isTimed()) return;
    for (let ticket = this.#room.expired(this.#now); ticket; ticket = this.#room.expired(this.#now)) {
      // Whoever comes next may want less.
      this.#again = true;
      this.#refuse(ticket, this.#refusal(ticket));
    }
    if (this.#lingering.size === 0) return;
    for (const [lease, until] of this.#lingering) if (until <= this.#now) lease.release('cancelled');
  }

  /** Nothing more is to be done now: the timer is set for what comes next, or this was the end. */
  #rest(): void {
    if (this.#pumping) return;
    if (this.#isQuiet()) {
      this.#alarm.clear();
      return;
    }
    if (this.#room.size === 0) this.#places?.withdraw();
    this.#arm();
    this.#signOff();
    this.#checkDrained();
  }

  /** A pause here is one of the limiters below as well. */
  #restAll(): void {
    this.#rest();
    if (this.fails) for (const child of this.#children) child.#restAll();
  }

  /** One timer, for whatever comes first: the rate, a wait that gets too long, a slot held by work that was given up. */
  #arm(): void {
    const next = this.#executing < this.#limits.concurrency && !this.#refusing ? this.#next() : undefined;
    const hasNews = this.#hasFreed && this.#listeners.areWatching;
    if (next === undefined && !hasNews && !this.#isTimed()) {
      this.#alarm.clear();
      return;
    }
    let at = this.#room.nextExpiry;
    const payableAt = next ? this.#payableAt(next) : Infinity;
    // What could be paid here and has a place above waits for the limiter above, which says when.
    if (next && (payableAt > this.#now || !this.#places?.has(this.#laneAbove(next.ticket.wish.lane)))) at = Math.min(at, payableAt);
    if (this.#lingering.size > 0) for (const until of this.#lingering.values()) at = Math.min(at, until);
    if (this.#room.size > 0) at = Math.min(at, this.#pauses.next);
    if (hasNews || (this.fails && this.#isFailing())) at = this.#read();
    this.#alarm.set(at);
  }

  #checkDrained(): void {
    if (this.shutdown.isClosed && !this.#refusing && !this.isBusy) this.#finish();
  }

  #finish(): void {
    if (this.shutdown.finish()) this.#config.onEvent?.({ type: 'drained', operator: NAME });
  }

  #giveUp(error: unknown): void {
    this.#refusing = true;
    this.shutdown.count('aborted', this.#executing - this.#lingering.size);
    this.shutdown.count('dropped', this.#waitingJobs());
    this.#places?.withdraw();
    for (const child of [...this.#children]) child.shutdown.close(error);
    // Lane by lane, the most urgent first: a lane may be held back, or be so by whoever is refused just now.
    for (const lane of this.#config.lanes.lanes.keys()) {
      for (let ticket = this.#room.head(lane); ticket; ticket = this.#room.head(lane)) {
        this.#room.take(ticket);
        ticket.refused(error);
      }
    }
    for (const lease of this.#lingering.keys()) lease.release('cancelled');
    for (const work of [...this.running.items]) work.giveUp(error);
    this.#endings.giveUp(error);
    this.pump();
    this.#finish();
  }

  /** Whether anything waits or runs, here or below. */
  get isBusy(): boolean {
    return this.#executing > 0 || this.#room.size > 0 || this.#children.size > 0;
  }

  /** Whether there is nothing to remember. */
  get isIdle(): boolean {
    this.#endPauses();
    return !this.isBusy && !this.#pauses.anyLane && this.#rates.isFull(this.#read());
  }

  get hasLanes(): boolean {
    return this.#config.lanes.isDeclared;
  }

  /** What waits here and below. */
  #waitingJobs(): number {
    let jobs = this.#room.size;
    for (const child of this.#children) jobs += child.#waitingJobs() - (child.#places?.size ?? 0);
    return jobs;
  }

  /** Nobody waits, listens or is to be told anything: nothing follows from a slot that comes free. */
  #isQuiet(): boolean {
    return (
      this.#room.size === 0 &&
      this.#parent === undefined &&
      this.#lingering.size === 0 &&
      this.#nesting.isEmpty &&
      !this.#listeners.areWatching &&
      !this.shutdown.isClosed
    );
  }

  /** Whether what is to be done depends on the time; when it does not, the clock is left alone. */
  #isTimed(): boolean {
    return (
      this.#lingering.size > 0 || (this.#room.size > 0 && (this.#rates.isTimed || this.#room.isTimed || this.#pauses.anyLane || this.fails))
    );
  }

  /** Looks at the clock; everything until the next look happens at that time. */
  #read(): number {
    this.#now = this.#alarm.now();
    return this.#now;
  }
}

import { Bag } from '../../kernel/bag.js';
import { Alarm } from '../alarm.js';
import { ClosedError, OverflowError, RateLimitError } from '../errors.js';
import { durationMs } from '../options.js';
import { Shutdown } from '../shutdown.js';
import type { Lessor } from './limiter-lease.js';
import { LimiterLease } from './limiter-lease.js';
import type { JobWish, LimiterConfig, Wish } from './limiter-options.js';
import { changedLimits, NAME } from './limiter-options.js';
import { WaitingRoom } from './limiter-queue.js';
import type { TimedLimit } from './limiter-rates.js';
import { Rates } from './limiter-rates.js';
import type { BidderTicket, Ticket } from './limiter-tickets.js';
import type { Cost, LimiterLimits, LimiterSnapshot, Outcome, Release } from './limiter-types.js';
import type { LeasedWork } from './limiter-work.js';
import { Endings } from './limiter-work.js';

/** Grants leases to those who wait: one loop, one timer, and a clock that is only looked at when something depends on the time. */
export class LimiterPump implements Lessor {
  readonly shutdown: Shutdown;
  /** What runs for subscribers. */
  readonly running = new Bag<LeasedWork>();
  readonly #config: LimiterConfig;
  readonly #room: WaitingRoom;
  readonly #rates: Rates;
  readonly #alarm: Alarm;
  /** Slots held by work that was given up but not over, and until when. */
  readonly #lingering = new Map<LimiterLease, number>();
  readonly #endings = new Endings();
  readonly #watchers = new Set<() => void>();
  readonly #listeners = new Set<(release: Release) => void>();
  /** Something was released or widened, and the watchers do not know yet. */
  #hasFreed = false;
  #limits: Required<LimiterLimits>;
  #executing = 0;
  /** When the clock was last looked at. */
  #now: number;
  #pumping = false;
  #again = false;
  /** Everything is being given up: what a refused job releases must not be granted to the next. */
  #refusing = false;

  constructor(config: LimiterConfig) {
    this.#config = config;
    this.#limits = config.limits;
    this.#room = new WaitingRoom(config);
    this.#alarm = new Alarm(config.scheduler, () => {
      this.pump();
    });
    this.#now = this.#alarm.now();
    this.#rates = new Rates(config, this.#now);
    this.shutdown = new Shutdown({
      operator: NAME,
      scheduler: config.scheduler,
      stop: () => {
        this.#checkDrained();
      },
      abort: (error) => {
        this.#giveUp(error);
      },
    });
  }

  get concurrency(): number {
    return this.#limits.concurrency;
  }

  get executing(): number {
    return this.#executing;
  }

  get load(): number {
    const { concurrency } = this.#limits;
    const slots = concurrency === Infinity ? 0 : Math.min(1, this.#executing / concurrency);
    return this.#rates.isTimed ? Math.max(slots, this.#rates.load(this.#read())) : slots;
  }

  get tokenCapacity(): number {
    return this.#rates.tokenCapacity;
  }

  snapshot(): LimiterSnapshot {
    const now = this.#read();
    const queued = this.#room.size;
    const full = this.#executing >= this.#limits.concurrency;
    return {
      concurrency: this.#limits.concurrency,
      executing: this.#executing,
      queued,
      heldByRate: full ? 0 : queued,
      heldBySlot: full ? queued : 0,
      requests: this.#rates.requestsLeft(now),
      tokens: this.#rates.tokensLeft(now),
      pausedForMs: this.#rates.pausedForMs(now),
    };
  }

  /** A lease at once, or none. */
  tryGrant(wish: JobWish): LimiterLease | undefined {
    if (this.shutdown.isClosed || this.#rates.tooHeavy(wish.requests, wish.tokens) || !this.#goesAtOnce(wish)) return undefined;
    const lease = this.#charge(wish, wish.tokens);
    // Somebody who was passed over may be owed the next turn, and whoever waited for the rate may wait for this slot now.
    if (this.#room.size > 0) this.#letOthersIn();
    return lease;
  }

  admitBidder(ticket: BidderTicket): void {
    if (this.shutdown.isClosed) {
      ticket.refused(new ClosedError(NAME));
      return;
    }
    this.#room.enter(ticket, Infinity);
    this.pump();
  }

  /** The ticket is granted, refused, or waits; `waitMs` is the longest wait, undefined for ever. */
  admitJob(ticket: Ticket, wish: JobWish, waitMs: number | undefined): void {
    const error = this.#rates.tooHeavy(wish.requests, wish.tokens) ?? (this.shutdown.isClosed ? new ClosedError(NAME) : undefined);
    if (error) ticket.refused(error);
    else if (!this.#pumping && this.#goesAtOnce(wish)) this.pump(ticket);
    else this.#queue(ticket, wish, waitMs);
  }

  leave(ticket: Ticket): void {
    if (!ticket.isWaiting) return;
    this.#room.remove(ticket);
    this.#letOthersIn();
  }

  /** A pause lets nobody in, so there is only the timer to set. */
  penalize(pauseMs: number): void {
    if (!this.#rates.pauseUntil(this.#read() + durationMs(NAME, 'pauseMs', pauseMs))) return;
    this.#config.onEvent?.({ type: 'throttled', operator: NAME, pauseMs });
    this.#rest();
  }

  setLimits(limits: LimiterLimits): void {
    this.#limits = changedLimits(limits, this.#limits);
    this.#rates.setLimits(this.#limits, this.#read());
    this.#config.onEvent?.({ type: 'limitChanged', operator: NAME, concurrency: this.#limits.concurrency });
    this.#hasFreed = true;
    this.pump();
  }

  watch(listener: () => void): () => void {
    this.#watchers.add(listener);
    return () => {
      this.#watchers.delete(listener);
    };
  }

  onRelease(listener: (release: Release) => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  freed(lease: LimiterLease, outcome: Outcome, error?: unknown): void {
    if (this.#listeners.size > 0) this.#report(lease, outcome, error);
    const isGivenUp = this.#lingering.size > 0 && this.#lingering.delete(lease);
    if (!isGivenUp && !this.#refusing && (outcome === 'ok' || outcome === 'error')) this.shutdown.count('done');
    this.#executing--;
    this.#hasFreed = true;
    if (outcome === 'unused') {
      this.#rates.pay(-lease.requests, -lease.tokens, this.#read());
      lease.tokens = 0;
    }
    if (outcome === 'cancelled') this.#letOthersIn();
    else this.pump();
  }

  corrected(tokens: number): void {
    this.#rates.pay(0, tokens, this.#read());
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
  pump(first?: Ticket): void {
    if (this.#pumping) {
      this.#again = true;
      return;
    }
    this.#pumping = true;
    let hasFreed: boolean;
    try {
      if (first) this.#grant(first, first.wish.tokens as number);
      do {
        this.#again = false;
        if (this.#isTimed) this.#read();
        // First the grants: a permit that comes free in the moment a wait ends is not refused.
        while (this.#grantNext());
        this.#expire();
      } while (this.#again as boolean);
    } finally {
      this.#pumping = false;
      hasFreed = this.#hasFreed;
      this.#hasFreed = false;
      this.#rest();
    }
    if (hasFreed && this.#watchers.size > 0) for (const listener of [...this.#watchers]) listener();
  }

  #queue(ticket: Ticket, wish: JobWish, waitMs: number | undefined): void {
    const { lane } = wish;
    // A job that may not wait expires by itself, one that goes at once needs no place to wait.
    if (this.#room.hasRoom(lane) || this.#room.isClosed(lane) || this.#goesAtOnce(wish)) this.#enter(ticket, waitMs);
    else this.#makeRoom(ticket, waitMs);
    // With all slots taken and no time that matters, one more who waits changes nothing.
    if (this.#executing < this.#limits.concurrency || this.#isTimed) this.pump();
  }

  #enter(ticket: Ticket, longestMs: number | undefined): void {
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
  #goesAtOnce({ lane, requests, tokens }: JobWish): boolean {
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
    if (this.#blockedBy(ticket.wish.requests, tokens) !== undefined) return false;
    this.#room.take(ticket);
    this.#grant(ticket, tokens);
    return true;
  }

  #grant(ticket: Ticket, tokens: number): void {
    ticket.granted(this.#charge(ticket.wish, tokens), this.#endings);
  }

  #charge({ lane, requests }: Wish, tokens: number): LimiterLease {
    this.#room.turn(lane);
    this.#executing++;
    if (this.#rates.isTimed) this.#rates.pay(requests, tokens, this.#now);
    if (this.#listeners.size > 0) this.#read();
    return new LimiterLease(this, requests, tokens, this.#now);
  }

  #report({ grantedAt }: LimiterLease, outcome: Outcome, error: unknown): void {
    const release = { outcome, error, grantedAt, releasedAt: this.#read(), executing: this.#executing };
    for (const listener of [...this.#listeners]) listener(release);
  }

  #blockedBy(requests: number, tokens: number): 'concurrency' | TimedLimit | undefined {
    if (this.#executing >= this.#limits.concurrency) return 'concurrency';
    return this.#rates.isTimed ? this.#rates.blockedBy(requests, tokens, this.#now) : undefined;
  }

  /** Why the ticket has no permit: its own cost, or that of the one whose turn it is. */
  #refusal(ticket: Ticket): RateLimitError {
    const own = ticket.wish as JobWish;
    const next = this.#next() ?? own;
    const limit = this.#blockedBy(next.requests, next.tokens) ?? 'concurrency';
    return new RateLimitError(NAME, limit, Math.max(this.#payableAt(own), this.#payableAt(next)) - this.#now);
  }

  /** When the rate alone would let it go. */
  #payableAt({ requests, tokens }: Required<Cost>): number {
    return this.#rates.payableAt(requests, tokens, this.#now);
  }

  /** What the one wants whose turn it is; undefined when nobody waits. */
  #next(): Required<Cost> | undefined {
    for (let lead = this.#room.lead; lead; lead = this.#room.lead) {
      const tokens = this.#bid(lead);
      if (tokens !== undefined) return { requests: lead.wish.requests, tokens };
    }
    return undefined;
  }

  /** Undefined from one that gives up its place, and is gone from the queue then; so is one that cannot say what it wants. */
  #bid(ticket: Ticket): number | undefined {
    const { tokens } = ticket.wish;
    if (tokens !== undefined) return tokens;
    try {
      const bid = ticket.bid(this.#rates.tokensLeft(this.#now));
      if (bid === undefined) this.#room.remove(ticket);
      return bid;
    } catch (error) {
      this.#room.remove(ticket);
      this.shutdown.count('done');
      ticket.refused(error);
      return undefined;
    }
  }

  #expire(): void {
    if (!this.#isTimed) return;
    for (let ticket = this.#room.expired(this.#now); ticket; ticket = this.#room.expired(this.#now)) {
      const refusal = this.#refusal(ticket);
      this.#room.remove(ticket);
      // Whoever comes next may want less.
      this.#again = true;
      this.shutdown.count('done');
      ticket.refused(refusal);
    }
    if (this.#lingering.size === 0) return;
    for (const [lease, until] of this.#lingering) if (until <= this.#now) lease.release('cancelled');
  }

  /** Nothing more is to be done now: the timer is set for what comes next, or this was the end. */
  #rest(): void {
    if (this.#pumping) return;
    this.#arm();
    this.#checkDrained();
  }

  /** One timer, for whatever comes first: the rate, a wait that gets too long, a slot held by work that was given up. */
  #arm(): void {
    const next = this.#executing < this.#limits.concurrency ? this.#next() : undefined;
    const hasNews = this.#hasFreed && this.#watchers.size > 0;
    if (next === undefined && !hasNews && !this.#isTimed) {
      this.#alarm.clear();
      return;
    }
    let at = this.#room.nextExpiry;
    if (next) at = Math.min(at, this.#payableAt(next));
    if (this.#lingering.size > 0) for (const until of this.#lingering.values()) at = Math.min(at, until);
    if (hasNews) at = this.#read();
    this.#alarm.set(at);
  }

  #checkDrained(): void {
    if (this.shutdown.isClosed && !this.#refusing && this.#executing === 0 && this.#room.size === 0) this.#finish();
  }

  #finish(): void {
    if (this.shutdown.finish()) this.#config.onEvent?.({ type: 'drained', operator: NAME });
  }

  #giveUp(error: unknown): void {
    this.#refusing = true;
    this.shutdown.count('aborted', this.#executing - this.#lingering.size);
    this.shutdown.count('dropped', this.#room.size);
    for (let ticket = this.#room.first; ticket; ticket = this.#room.first) {
      this.#room.take(ticket);
      ticket.refused(error);
    }
    for (const lease of this.#lingering.keys()) lease.release('cancelled');
    for (const work of [...this.running.items]) work.giveUp(error);
    this.#endings.giveUp(error);
    this.pump();
    this.#finish();
  }

  /** Whether what is to be done depends on the time; when it does not, the clock is left alone. */
  get #isTimed(): boolean {
    return this.#lingering.size > 0 || (this.#room.size > 0 && (this.#rates.isTimed || this.#room.isTimed));
  }

  /** Looks at the clock; everything until the next look happens at that time. */
  #read(): number {
    this.#now = this.#alarm.now();
    return this.#now;
  }
}

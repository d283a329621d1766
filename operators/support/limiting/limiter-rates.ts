import type { RateLesson, RateUnit } from '../../kernel/limits/rate-lesson.js';
import { SlidingWindow } from '../../kernel/limits/sliding-window.js';
import { TokenBucket } from '../../kernel/limits/token-bucket.js';
import { ItemTooHeavyError } from '../../options/errors.js';
import type { LimiterLease } from './limiter-lease.js';
import type { LimiterConfig } from './limiter-options.js';
import { NAME } from './limiter-options.js';
import type { LimiterLimits } from './limiter-types.js';

/** A limit that has to do with time. */
export type TimedLimit = 'pause' | 'requestsPerMinute' | 'tokensPerMinute';

/** How a rate is counted. */
type Meter = TokenBucket | SlidingWindow;

/** What was spent since a request was sent, as far as it was counted. */
export interface Spending extends Readonly<Record<RateUnit, number>> {
  readonly sentAt: number;
  /** For how long it was counted. */
  readonly spanMs: number;
}

/** More tokens than any model takes and gives in one call. */
const MOST_TOKENS = 10_000_000;

/** The two rates, and the pauses the other side asks for. */
export class Rates {
  readonly #config: LimiterConfig;
  #requests: Meter | undefined;
  #tokens: Meter | undefined;
  #pausedUntil = -Infinity;
  /** Paused by hand, until somebody says otherwise. */
  #isHeld = false;
  #limits: Required<LimiterLimits>;
  #lesson: RateLesson | undefined;
  /** Everything paid so far. */
  #requestsPaid = 0;
  #tokensPaid = 0;
  /** When the first was. */
  #paidSince = Infinity;

  constructor(config: LimiterConfig, now: number) {
    this.#config = config;
    this.#limits = config.limits;
    this.#setRates(now);
  }

  /** Whether anything here depends on the time; when nothing does, nobody has to look at the clock. */
  get isTimed(): boolean {
    return this.#requests !== undefined || this.#tokens !== undefined || this.#heldUntil !== -Infinity || this.#stopped() !== undefined;
  }

  get tokenCapacity(): number {
    return this.#config.borrows ? (this.#tokens?.capacity ?? Infinity) : this.#capacity(this.#limits.tokensPerMinute);
  }

  get requestCapacity(): number {
    return this.#config.borrows ? (this.#requests?.capacity ?? Infinity) : this.#capacity(this.#limits.requestsPerMinute);
  }

  setLimits(limits: Required<LimiterLimits>, now: number): void {
    this.#limits = limits;
    this.#setRates(now);
  }

  /** Keeps to what was learned, as far as the limits allow. */
  adopt(lesson: RateLesson, now: number): void {
    this.#lesson = lesson;
    this.#setRates(now);
  }

  /** The rate in force, before the headroom. */
  perMinute(unit: RateUnit): number {
    return this.#limit(unit) * (this.#lesson?.share ?? 1);
  }

  /** Takes away what is saved up beyond so much. */
  lower(unit: RateUnit, most: number, now: number): void {
    const meter = unit === 'requests' ? this.#requests : this.#tokens;
    const excess = meter ? meter.level(now) - most : 0;
    if (excess > 0) meter?.pay(excess, now);
  }

  /** After a pause of so many ms nothing is to be saved up: whoever was refused is not to come back with everything at once. */
  empty(pauseMs: number, now: number): void {
    // A window saves nothing up, and would keep what is taken from it for a minute.
    if (this.#config.isSliding) return;
    for (const unit of ['requests', 'tokens'] as const) this.lower(unit, -this.comesIn(unit, pauseMs), now);
  }

  /** What comes in within so many ms; 0 where there is no rate. */
  comesIn(unit: RateUnit, spanMs: number): number {
    const perMinute = this.perMinute(unit) * this.#config.headroom;
    return perMinute === Infinity ? 0 : (perMinute * spanMs) / 60_000;
  }

  /** Notes on a lease that was just paid what had been paid until then. */
  stamp(lease: LimiterLease): void {
    lease.requestsPaid = this.#requestsPaid;
    lease.tokensPaid = this.#tokensPaid;
  }

  /** What was spent since the lease was paid. Before anything here depended on the time, nothing was counted. */
  spentSince({ grantedAt, requestsPaid, tokensPaid }: LimiterLease, now: number): Spending {
    return {
      sentAt: grantedAt,
      spanMs: Math.max(0, now - Math.max(grantedAt, this.#paidSince)),
      requests: this.#requestsPaid - requestsPaid,
      tokens: this.#tokensPaid - tokensPaid,
    };
  }

  /** What is saved up; nothing at a rate of 0. */
  requestsLeft(now: number): number {
    const left = this.#requests?.level(now) ?? Infinity;
    return this.#limits.requestsPerMinute === 0 ? Math.min(0, left) : left;
  }

  tokensLeft(now: number): number {
    const left = this.#tokens?.level(now) ?? Infinity;
    return this.#limits.tokensPerMinute === 0 ? Math.min(0, left) : left;
  }

  /** The share of what can be saved up that has been spent, 0 to 1; 1 during a pause. */
  load(now: number): number {
    return now < this.#heldUntil || this.#stopped() ? 1 : Math.min(1, Math.max(spent(this.#requests, now), spent(this.#tokens, now)));
  }

  /** Whether nothing has been spent that has not come back, and nothing is paused. */
  isFull(now: number): boolean {
    return this.load(now) <= 0;
  }

  /** How much longer everything is paused, in ms. */
  pausedForMs(now: number): number {
    return Math.max(0, this.#heldUntil - now);
  }

  /** Answers whether that is longer than the pause already made. */
  pauseUntil(at: number): boolean {
    if (at <= this.#pausedUntil) return false;
    this.#pausedUntil = at;
    return true;
  }

  /** Answers whether that is a change. */
  hold(isHeld: boolean): boolean {
    const isChange = isHeld !== this.#isHeld;
    this.#isHeld = isHeld;
    return isChange;
  }

  /** Answers whether there was a pause to end. */
  endPause(now: number): boolean {
    const isPaused = now < this.#pausedUntil;
    this.#pausedUntil = -Infinity;
    return isPaused;
  }

  blockedBy(requests: number, tokens: number, now: number): TimedLimit | undefined {
    if (now < this.#heldUntil) return 'pause';
    const stopped = this.#stopped();
    if (stopped) return stopped;
    if (this.#requests && !this.#requests.canPay(requests, now)) return 'requestsPerMinute';
    if (this.#tokens && !this.#tokens.canPay(tokens, now)) return 'tokensPerMinute';
    return undefined;
  }

  get limitsTokens(): boolean {
    return this.#tokens !== undefined;
  }

  /**
   * What a usage costs of a job that has paid so much. One that no model can have, and no minute of this account pays, is an error of whoever
   * reports it: it costs what a full bucket holds.
   */
  worth(reported: number, paid: number): number {
    if (reported <= Math.max(MOST_TOKENS, this.#tokens ? this.#limit('tokens') : 0)) return reported;
    return Math.max(paid, this.#tokens?.capacity ?? 0);
  }

  /** When nothing here stands in the way any more. */
  payableAt(requests: number, tokens: number, now: number): number {
    if (this.#stopped()) return Infinity;
    return Math.max(this.#heldUntil, this.#requests?.payableAt(requests, now) ?? now, this.#tokens?.payableAt(tokens, now) ?? now, now);
  }

  pay(requests: number, tokens: number, now: number): void {
    this.#requestsPaid += requests;
    this.#tokensPaid += tokens;
    if (this.#paidSince === Infinity) this.#paidSince = now;
    this.#requests?.pay(requests, now);
    this.#tokens?.pay(tokens, now);
  }

  /** Changes what was paid then; negative amounts are given back. */
  correct(requests: number, tokens: number, paidAt: number, now: number): void {
    this.#requestsPaid += requests;
    this.#tokensPaid += tokens;
    this.#requests?.correct(requests, paidAt, now);
    this.#tokens?.correct(tokens, paidAt, now);
  }

  /** The error for a job that can never be paid, when nothing may be borrowed. */
  tooHeavy(requests: number, tokens: number): ItemTooHeavyError | undefined {
    if (this.#config.borrows) return undefined;
    if (tokens > this.tokenCapacity) return new ItemTooHeavyError(NAME, tokens, this.tokenCapacity);
    return requests > this.requestCapacity ? new ItemTooHeavyError(NAME, requests, this.requestCapacity) : undefined;
  }

  get #heldUntil(): number {
    return this.#isHeld ? Infinity : this.#pausedUntil;
  }

  /** The rate of 0, which lets nothing pass. */
  #stopped(): TimedLimit | undefined {
    const { requestsPerMinute, tokensPerMinute } = this.#limits;
    if (requestsPerMinute === 0) return 'requestsPerMinute';
    return tokensPerMinute === 0 ? 'tokensPerMinute' : undefined;
  }

  #setRates(now: number): void {
    this.#requests = this.#meter('requests', this.#requests, now);
    this.#tokens = this.#meter('tokens', this.#tokens, now);
  }

  #limit(unit: RateUnit): number {
    const { requestsPerMinute, tokensPerMinute } = this.#limits;
    return Math.min(unit === 'requests' ? requestsPerMinute : tokensPerMinute, this.#lesson?.perMinute(unit) ?? Infinity);
  }

  #capacity(perMinute: number): number {
    const { headroom, isSliding, burstSeconds } = this.#config;
    // Nothing is too heavy for what will be another rate.
    if (perMinute === 0) return Infinity;
    const rate = perMinute * headroom;
    // A slow rate must still be able to save up one whole request.
    return Math.max(1, isSliding ? rate : (rate / 60) * burstSeconds);
  }

  #meter(unit: RateUnit, current: Meter | undefined, now: number): Meter | undefined {
    const limit = this.#limit(unit);
    if (limit === Infinity) return undefined;
    // Nothing passes, and what was saved up until now is kept for later.
    if (limit === 0) return current;
    const { headroom, isSliding } = this.#config;
    const rate = this.perMinute(unit) * headroom;
    // Going slower for a while is no reason to make smaller batches.
    const capacity = this.#capacity(limit);
    if (current === undefined) return isSliding ? new SlidingWindow(rate, capacity, now) : new TokenBucket(rate, capacity, now);
    current.resize(rate, capacity, now);
    return current;
  }
}

/** More than 1 in debt. */
function spent(meter: Meter | undefined, now: number): number {
  return meter ? 1 - meter.level(now) / meter.capacity : 0;
}

import type { Charge, RateKey, RateSpec } from '../../kernel/limits/limit.js';
import { isSameRate } from '../../kernel/limits/limit.js';
import { Rate } from '../../kernel/limits/rate.js';
import { ItemTooHeavyError } from '../../options/errors.js';
import type { Note } from '../../options/events.js';
import type { RateSnapshot, SavedLimits } from '../../options/limiter.js';
import type { ResponseLike } from '../../options/types.js';
import type { LimiterSettings } from './settings.js';
import { NAME } from './settings.js';
import type { Lease } from './ticket.js';

/** A limiter, as its rates see it. */
export interface RatedLimiter {
  readonly settings: LimiterSettings;
  readonly tell: ((note: Note) => void) | undefined;
  /** The time when the clock was last read. */
  readonly time: number;
  /** Reads the clock. */
  now(): number;
  freed(isLater: boolean): void;
  penalize(pauseMs: number): void;
}

/** Reads the responses to a limiter's requests. */
export interface Learner {
  /** Something was paid or, below 0, refunded. */
  paid(requests: number, tokens: number, now: number): void;
  /** A mark of the request that was paid last; `read` gets it back with the response. */
  mark(): unknown;
  /** Answers how long to pause, in ms, if the response asks for that. */
  read(response: ResponseLike, sentAt: number, mark: unknown, now: number): number | undefined;
  /** A pause was ended by hand. */
  resumed(now: number): void;
}

/** The rates of one limiter, and what it learns about them. */
export class Rates {
  learner: Learner | undefined = undefined;
  private readonly limiter: RatedLimiter;
  private readonly all: Rate[] = [];
  /** Those that limit anything. */
  private limited: readonly Rate[] = [];

  constructor(limiter: RatedLimiter) {
    this.limiter = limiter;
  }

  get isLimited(): boolean {
    return this.limited.length > 0;
  }

  get borrows(): boolean {
    return this.all.every(({ rule }) => rule.borrows);
  }

  /** Whether a job may name the unit in its cost. */
  counts(unit: string): boolean {
    return this.all.some((rate) => rate.unit === unit);
  }

  capacity(unit: string): number {
    return this.minOf(unit, ({ capacity }) => capacity);
  }

  /** What could be spent at once. */
  left(unit: string, now = this.limiter.now()): number {
    return this.minOf(unit, (rate) => rate.level(now));
  }

  perMinute(unit: string): number {
    return this.minOf(unit, ({ perMinute }) => perMinute);
  }

  /** The part of the capacity that is spent, 0 to 1. */
  load(): number {
    if (this.limited.length === 0) return 0;
    const now = this.limiter.now();
    return Math.min(1, Math.max(0, ...this.limited.map((rate) => rate.load(now))));
  }

  snapshots(): RateSnapshot[] {
    const now = this.limiter.now();
    return this.all.map((rate) => ({ unit: rate.unit, windowMs: rate.rule.windowMs, amount: rate.amount, left: rate.level(now) }));
  }

  /** Sets a rate: another amount of one that there is, or a new one. */
  set(rule: RateSpec): void {
    const known = this.find(rule);
    if (known) known.change(rule, this.limiter.now());
    else this.all.push(new Rate(rule, this.limiter.settings.headroom, this.limiter.now()));
    this.update();
  }

  // ---- jobs -----------------------------------------------------------------------------------------------------------

  /** The name of the first rate that cannot pay the charge now. */
  blockedBy(charge: Charge): string | undefined {
    const { time } = this.limiter;
    for (const rate of this.limited) if (!rate.canPay(charge, time)) return rate.name;
    return undefined;
  }

  payableAt(charge: Charge): number {
    const { time } = this.limiter;
    let at = time;
    for (const rate of this.limited) at = Math.max(at, rate.payableAt(charge, time));
    return at;
  }

  /** The error for a job that can never be paid. */
  tooHeavy(charge: Charge): Error | undefined {
    for (const rate of this.all) if (rate.isTooHeavy(charge)) return new ItemTooHeavyError(NAME, rate.costOf(charge), rate.capacity);
    return undefined;
  }

  /** Pays for a lease. */
  take(lease: Lease): void {
    const { charge } = lease;
    const { time } = this.limiter;
    lease.tokens = charge.tokens;
    lease.grantedAt = time;
    for (const rate of this.limited) rate.take(charge, time);
    if (this.learner === undefined) return;
    if (this.isLimited) this.learner.paid(charge.requests, charge.tokens, time);
    lease.mark = this.learner.mark();
  }

  /** The lease was not used: refunds what was paid for it. */
  refund(lease: Lease): void {
    const { charge, tokens = 0, grantedAt = 0 } = lease;
    lease.tokens = 0;
    if (!this.isLimited) return;
    const now = this.limiter.now();
    for (const rate of this.limited) rate.correct(-rate.costOf({ ...charge, tokens }), grantedAt, now);
    this.learner?.paid(-charge.requests, -tokens, now);
  }

  /** Corrects what the lease paid to the tokens that were really used. Answers the difference. */
  settle(lease: Lease, reported: number): number {
    // A lease granted before there were rates counts as paid, at an unknown time.
    const { tokens = lease.charge.tokens, grantedAt = 0 } = lease;
    const rates = this.limited.filter(({ unit }) => unit === 'tokens');
    const charged = Math.min(...rates.map((rate) => rate.clampUsage(reported, tokens)), reported);
    if (charged !== reported) this.limiter.tell?.({ type: 'usageClamped', reported, charged });
    const more = charged - tokens;
    if (more === 0 || (more < 0 && !this.limiter.settings.refunds)) return 0;
    lease.tokens = charged;
    if (rates.length === 0) return more;
    const now = this.limiter.now();
    for (const rate of rates) rate.correct(more, grantedAt, now);
    this.learner?.paid(0, more, now);
    return more;
  }

  // ---- learning, saving -----------------------------------------------------------------------------------------------

  /** The rates of a unit, for a learner. Makes one without a limit when there is none. */
  of(unit: string, rule: (unit: string) => RateSpec): readonly Rate[] {
    if (!this.counts(unit)) this.set(rule(unit));
    return this.all.filter((rate) => rate.unit === unit);
  }

  /** False without a learner. */
  learn(response: ResponseLike, lease: Lease | undefined, sentAt: number): boolean {
    if (this.learner === undefined) return false;
    const now = this.limiter.now();
    const before = this.all.map(({ perMinute }) => perMinute);
    const pauseMs = this.learner.read(response, Math.min(lease?.grantedAt ?? sentAt, now), lease?.mark, now);
    this.update();
    if (this.all.some(({ perMinute }, i) => perMinute !== (before[i] ?? Infinity))) this.limiter.freed(true);
    if (pauseMs) this.limiter.penalize(pauseMs);
    return true;
  }

  /** A pause was ended by hand. */
  resumed(): void {
    this.learner?.resumed(this.limiter.time);
  }

  save(): SavedLimits['rates'] {
    const now = this.limiter.now();
    return this.all.map((rate) => ({ unit: rate.unit, windowMs: rate.rule.windowMs, isStrict: rate.rule.isStrict, spent: rate.save(now) }));
  }

  /** Goes on from what was saved so long ago. */
  restore(saved: SavedLimits['rates'], elapsedMs: number): void {
    const now = this.limiter.now();
    for (const rate of saved) this.find(rate)?.restore(rate.spent, elapsedMs, now);
  }

  private find(rule: RateKey): Rate | undefined {
    return this.all.find((rate) => isSameRate(rate.rule, rule));
  }

  private update(): void {
    this.limited = this.all.filter(({ isLimited }) => isLimited);
  }

  private minOf(unit: string, of: (rate: Rate) => number): number {
    let least = Infinity;
    for (const rate of this.all) if (rate.unit === unit) least = Math.min(least, of(rate));
    return least;
  }
}

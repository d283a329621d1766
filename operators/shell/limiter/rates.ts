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

/** Learns from the responses to a limiter's requests. */
export interface Learner {
  /** Something was paid or, below 0, refunded. Answers a mark of it; `read` gets it back in the lease. */
  paid(requests: number, tokens: number): unknown;
  /** Sets rates, and pauses if the response asks for that. */
  read(response: ResponseLike, lease: Lease | undefined, sentAt: number): void;
  /** A pause was ended by hand. */
  resumed(now: number): void;
}

/** The rates of one limiter, and what it learns about them. */
export class Rates {
  learner: Learner | undefined = undefined;
  readonly all: Rate[] = [];
  private readonly limiter: RatedLimiter;
  /** Payments and corrections so far. */
  private payments = 0;

  constructor(limiter: RatedLimiter) {
    this.limiter = limiter;
  }

  /** Whether it matters when something is granted. */
  get isTimed(): boolean {
    if (this.learner) return true;
    for (const rate of this.all) if (rate.isLimited) return true;
    return false;
  }

  get borrows(): boolean {
    return this.all.every(({ rule }) => rule.borrows);
  }

  /** The rates of a unit. */
  of(unit: string): readonly Rate[] {
    return this.all.filter(({ rule }) => rule.unit === unit);
  }

  /** The lowest value over the rates of a unit. */
  least(unit: string, of: (rate: Rate, now: number) => number): number {
    const now = this.limiter.now();
    let least = Infinity;
    for (const rate of this.all) if (rate.rule.unit === unit) least = Math.min(least, of(rate, now));
    return least;
  }

  /** What could be spent at once. */
  left(unit: string): number {
    return this.least(unit, (rate, now) => rate.level(now));
  }

  /** The part of the capacity that is spent, 0 to 1. */
  load(): number {
    const now = this.limiter.now();
    return Math.min(1, Math.max(0, ...this.all.map((rate) => rate.load(now))));
  }

  /** When everything spent has come back. */
  fullAt(): number {
    const now = this.limiter.now();
    let at = now;
    for (const rate of this.all) at = Math.max(at, rate.fullAt(now));
    return at;
  }

  snapshots(): RateSnapshot[] {
    const now = this.limiter.now();
    return this.all.map((rate) => ({ unit: rate.rule.unit, windowMs: rate.rule.windowMs, amount: rate.amount, left: rate.level(now) }));
  }

  /** Sets a rate: another amount of one that there is, or a new one. */
  set(rule: RateSpec): void {
    const now = this.limiter.now();
    const known = this.find(rule);
    const rate = known ?? new Rate(rule, this.limiter.settings.headroom, now);
    if (rule.amount < Infinity && known?.meter === undefined) rate.since = this.payments;
    if (known) known.change(rule, now);
    else this.all.push(rate);
  }

  // ---- jobs -----------------------------------------------------------------------------------------------------------

  /** The name of the first rate that cannot pay the charge now. */
  blockedBy(charge: Charge): string | undefined {
    const { time } = this.limiter;
    for (const rate of this.all) if (rate.payableAt(charge, time) > time) return rate.name;
    return undefined;
  }

  payableAt(charge: Charge): number {
    const { time } = this.limiter;
    let at = time;
    for (const rate of this.all) at = Math.max(at, rate.payableAt(charge, time));
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
    lease.payment = ++this.payments;
    for (const rate of this.all) rate.meter?.pay(rate.costOf(charge), time);
    if (this.learner) lease.mark = this.learner.paid(charge.requests, charge.tokens);
  }

  /** The lease was not used: refunds what was paid for it. */
  refund(lease: Lease): void {
    const { charge, tokens = charge.tokens } = lease;
    const now = this.limiter.now();
    for (const rate of this.all) rate.meter?.correct(-paidSoFar(rate, lease), paidAt(rate, lease, now), now);
    lease.tokens = 0;
    lease.correction = ++this.payments;
    this.learner?.paid(-charge.requests, -tokens);
  }

  /** Corrects what the lease paid to the tokens that were really used. Answers the difference. */
  settle(lease: Lease, reported: number): number {
    const { tokens = lease.charge.tokens } = lease;
    let charged = reported;
    for (const rate of this.all) charged = Math.min(charged, rate.clampUsage(reported, tokens));
    if (charged !== reported) this.limiter.tell?.({ type: 'usageClamped', reported, charged });
    const more = charged - tokens;
    if (more < 0 && !this.limiter.settings.refunds) return 0;
    const now = this.limiter.now();
    for (const rate of this.all) {
      // Also of a usage that is reported again: a rate may be new.
      const delta = paid(rate, lease, charged) - paidSoFar(rate, lease);
      if (delta !== 0) rate.meter?.correct(delta, paidAt(rate, lease, now), now);
    }
    lease.tokens = charged;
    lease.correction = ++this.payments;
    if (more !== 0) this.learner?.paid(0, more);
    return more;
  }

  // ---- learning, saving -----------------------------------------------------------------------------------------------

  /** False without a learner. */
  learn(response: ResponseLike, lease: Lease | undefined, sentAt: number): boolean {
    this.learner?.read(response, lease, sentAt);
    return this.learner !== undefined;
  }

  save(): SavedLimits['rates'] {
    const now = this.limiter.now();
    return this.all.map(({ rule: { unit, windowMs, isStrict }, meter }) => ({ unit, windowMs, isStrict, spent: meter?.save(now) ?? [] }));
  }

  /** Goes on from what was saved so long ago. */
  restore(saved: SavedLimits['rates'], elapsedMs: number): void {
    const now = this.limiter.now();
    for (const rate of saved) this.find(rate)?.meter?.load(rate.spent, elapsedMs, now);
  }

  private find(rule: RateKey): Rate | undefined {
    return this.all.find((rate) => isSameRate(rate.rule, rule));
  }
}

/** When a lease paid to a rate: one from before there was a limit, when it is first told what it used. */
function paidAt(rate: Rate, lease: Lease, now: number): number {
  const { grantedAt = now, payment = 0 } = lease;
  return payment > rate.since ? grantedAt : (lease.settledAt ??= now);
}

/** What a lease has paid to a rate until now. Corrections from before there was a limit were not paid to it. */
function paidSoFar(rate: Rate, lease: Lease): number {
  const { charge, payment = 0, correction = payment, tokens = charge.tokens } = lease;
  return correction > rate.since ? paid(rate, lease, tokens) : 0;
}

/** What a lease with so many tokens has paid to a rate. From before there was a limit it has paid nothing but the tokens above its estimate. */
function paid(rate: Rate, { charge, payment = 0 }: Lease, tokens: number): number {
  if (payment > rate.since) return rate.costOf({ ...charge, tokens });
  return rate.rule.unit === 'tokens' ? Math.max(0, tokens - charge.tokens) : 0;
}

import type { Charge, RateKey, RateSpec, ReserveSpec } from '../../kernel/limits/limit.js';
import { amountOf, isSameRate } from '../../kernel/limits/limit.js';
import { Rate } from '../../kernel/limits/rate.js';
import type { Amounts } from '../../kernel/limits/usage.js';
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
  /** Something was paid or, below 0, refunded, by unit. Answers a mark of it; `read` gets it back in the lease. */
  paid(amounts: Amounts): unknown;
  /** What was paid for a lease is other than it was. Answers its mark anew: what it pays itself is not spent by others. */
  corrected(mark: unknown, differences: Amounts): unknown;
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

  /** What could be spent at once, by a lane or in all. */
  left(unit: string, lane?: number): number {
    return this.least(unit, (rate, now) => rate.level(now, lane));
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
    const { headroom, queue } = this.limiter.settings;
    const rate = known ?? new Rate(rule, headroom, now, queue.reserve as ReserveSpec | undefined);
    if (rule.amount < Infinity && known?.meter === undefined) rate.since = this.payments;
    if (known) known.change(rule, now);
    else this.all.push(rate);
  }

  // ---- jobs -----------------------------------------------------------------------------------------------------------

  /** The name of the first rate that cannot pay the charge now. */
  blockedBy(charge: Charge, lane: number): string | undefined {
    const { time } = this.limiter;
    for (const rate of this.all) if (rate.payableAt(charge, time, lane) > time) return rate.name;
    return undefined;
  }

  payableAt(charge: Charge, lane: number): number {
    const { time } = this.limiter;
    let at = time;
    for (const rate of this.all) at = Math.max(at, rate.payableAt(charge, time, lane));
    return at;
  }

  /** When a lane may pay it from its reserve although a lower lane has its turn. */
  passableAt(charge: Charge, lane: number): number {
    const { time } = this.limiter;
    let at = time;
    for (const rate of this.all) at = Math.max(at, rate.passableAt(charge, time, lane));
    return at;
  }

  /** The error for a job that can never be paid. */
  tooHeavy(charge: Charge, lane: number): Error | undefined {
    for (const rate of this.all)
      if (rate.isTooHeavy(charge, lane)) return new ItemTooHeavyError(NAME, rate.costOf(charge), rate.capacityOf(lane), rate.rule.unit);
    return undefined;
  }

  /** Pays for a lease. */
  take(lease: Lease): void {
    const { charge: estimate } = lease;
    const { time } = this.limiter;
    const isBounded = this.all.some((rate) => rate.costOf(estimate) > rate.heaviest);
    const charge = isBounded ? (lease.charge = this.bounded(estimate)) : estimate;
    if (isBounded) lease.isBounded = true;
    // Without a limit the clock was not read.
    if (this.isTimed) lease.grantedAt = time;
    lease.payment = ++this.payments;
    for (const rate of this.all) {
      rate.meter?.pay(rate.costOf(charge), time, lease.lane);
      if (lease.passes) rate.passes?.pay(rate.costOf(charge), time, lease.lane);
    }
    if (this.learner) lease.mark = this.learner.paid(amountsOf(charge));
    if (isBounded) this.tellBounded(estimate, charge);
  }

  /** An estimate as far as it can be saved up for. */
  private bounded(estimate: Charge): Charge {
    const amounts: Record<string, number> = amountsOf(estimate);
    for (const { heaviest, rule } of this.all) {
      const { [rule.unit]: amount = 0 } = amounts;
      if (amount > heaviest) amounts[rule.unit] = heaviest;
    }
    const { tokens = 0, requests: _, ...others } = amounts;
    return { ...estimate, tokens, others };
  }

  private tellBounded(estimate: Charge, charge: Charge): void {
    for (const unit of Object.keys(amountsOf(charge))) {
      const [cost, charged] = [amountOf(estimate, unit), amountOf(charge, unit)];
      if (charged < cost) this.limiter.tell?.({ type: 'costClamped', unit, cost, charged });
    }
  }

  /** The lease was not used: refunds what was paid for it. */
  refund(lease: Lease): void {
    this.correct(lease, Object.fromEntries(Object.keys({ ...amountsOf(lease.charge), ...lease.used }).map((unit) => [unit, 0])));
  }

  /** Corrects what the lease paid to what was really used, unit by unit. Answers whether something has come back. */
  settle(lease: Lease, reported: Amounts): boolean {
    const { refunds } = this.limiter.settings;
    const charged: Record<string, number> = {};
    for (const unit of Object.keys(reported)) {
      const before = usedBy(lease, unit);
      const after = this.clampUsage(unit, reported[unit] as number, before);
      if (after >= before || refunds) charged[unit] = after;
    }
    return this.correct(lease, charged);
  }

  private clampUsage(unit: string, reported: number, before: number): number {
    // Of what no rate counts as well: sums must stay numbers.
    let charged = Math.min(reported, Number.MAX_SAFE_INTEGER);
    let isCounted = false;
    for (const rate of this.all) {
      if (rate.rule.unit !== unit) continue;
      charged = Math.min(charged, rate.clampUsage(reported, before));
      isCounted ||= rate.meter !== undefined;
    }
    if (isCounted && charged !== reported) this.limiter.tell?.({ type: 'usageClamped', unit, reported, charged });
    return charged;
  }

  /** From now on the lease has used so much of these units. Answers whether something has come back. */
  private correct(lease: Lease, charged: Amounts): boolean {
    const now = this.limiter.now();
    const used = { ...lease.used, ...charged };
    const differences: Record<string, number> = {};
    let isBack = false;
    for (const unit of Object.keys(charged)) {
      const difference = (differences[unit] = (charged[unit] as number) - usedBy(lease, unit));
      isBack ||= difference < 0;
    }
    for (const rate of this.all) {
      // Also of a usage that is reported again: a rate may be new.
      const delta = paid(rate, lease, used) - paidSoFar(rate, lease);
      if (delta === 0) continue;
      rate.meter?.correct(delta, paidAt(rate, lease, now), now, lease.lane);
      if (lease.passes) rate.passes?.pay(delta, now, lease.lane);
    }
    lease.used = used;
    lease.correction = ++this.payments;
    if (this.learner) lease.mark = this.learner.corrected(lease.mark, differences);
    return isBack;
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
  const { payment = 0, correction = payment, used } = lease;
  return correction > rate.since ? paid(rate, lease, used) : 0;
}

/** What a lease that has used so much has paid to a rate. From before there was a limit it has paid nothing but what is above its estimate. */
function paid(rate: Rate, { charge, payment = 0 }: Lease, used: Amounts | undefined): number {
  const { unit } = rate.rule;
  const estimate = amountOf(charge, unit);
  const amount = reportedOf(used, unit) ?? estimate;
  return payment > rate.since ? amount : Math.max(0, amount - estimate);
}

/** What a lease has used of a unit, as far as it is known, or is estimated to. */
function usedBy({ charge, used }: Lease, unit: string): number {
  return reportedOf(used, unit) ?? amountOf(charge, unit);
}

/** Undefined when nothing was reported. A unit may have the name of what every object has. */
function reportedOf(used: Amounts | undefined, unit: string): number | undefined {
  return used && Object.hasOwn(used, unit) ? used[unit] : undefined;
}

/** By unit. */
function amountsOf(charge: Charge): Amounts {
  const [inputTokens, outputTokens] = [amountOf(charge, 'inputTokens'), amountOf(charge, 'outputTokens')];
  return { ...charge.others, requests: charge.requests, tokens: charge.tokens, inputTokens, outputTokens };
}

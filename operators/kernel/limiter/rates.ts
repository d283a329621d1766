import type { Charge, RateKey, RateSpec, ReserveRule } from '../limits/limit.js';
import { amountOf, isSameRate, isTokenUnit, SLOTS } from '../limits/limit.js';
import { Rate } from '../limits/rate.js';
import type { Amounts } from '../limits/usage.js';

/** What a granted permit has paid to the rates. */
export interface Paid {
  charge: Charge;
  /** Position of the lane that pays. */
  lane?: number;
  /** Granted while a lower lane had its turn and waited for a rate. */
  passes?: true;
  /** What was reported to be used, by unit. */
  used?: Amounts;
  grantedAt?: number;
  /** The number of its payment. */
  payment?: number;
  /** When it was first corrected, where it had been granted before there was a limit. */
  settledAt?: number;
  /** The number of its last correction, in the order of all payments. */
  correction?: number;
  /** Of the learner. */
  mark?: unknown;
  /** Its charge is less than its estimate. */
  isBounded?: boolean;
}

/** Learns from the responses to a limiter's requests. */
export interface Learner {
  /** Something was paid or, below 0, refunded, by unit. Answers a mark of it; `read` gets it back in the lease. */
  paid(amounts: Amounts): unknown;
  /** What was paid for a lease is other than it was. Answers its mark anew: what it pays itself is not spent by others. */
  corrected(mark: unknown, differences: Amounts): unknown;
  /** Sets rates, and pauses if the response asks for that. */
  read(response: unknown, lease: Paid | undefined, sentAt: number): void;
  /** A pause was ended by hand. */
  resumed(now: number): void;
}

/** Credit at a store of rates that several processes share. */
export interface CreditDemand {
  /** A round is over: asks for what waits for credit and for nothing else. Answers whether the store has granted something at once. */
  want(): boolean;
  /** The same for a job that has not waited. Answers whether the store has granted something at once. */
  wanted(charge: Charge, lane: number): boolean;
  /** A permit has given back its slots, which may be shared as well. */
  freed(permit: Paid): void;
  /** A pause has begun, or was ended with 0: all processes are to keep it. */
  hold(ms: number): void;
  /** Gives back what is left. Answers whether that takes its time; then `ended` is called. */
  end(ended: () => void): boolean;
}

/** A waiting job, as far as rates are concerned. */
export interface RatedJob {
  readonly charge: Charge;
  readonly lane: number;
  readonly isBidder?: true;
}

/** Levels and costs that differ by less are equal: they are sums of fractions. */
const ROUNDING = 1e-6;

/** An amount that was bounded, for the listener of the limiter. */
export type RateNote =
  | { readonly type: 'costClamped'; readonly unit: string; readonly cost: number; readonly charged: number }
  | { readonly type: 'usageClamped'; readonly unit: string; readonly reported: number; readonly charged: number };

/** What is left of a rate. */
export interface RateLevel {
  readonly unit: string;
  readonly windowMs: number;
  readonly amount: number;
  readonly left: number;
}

/** What a rate has spent, to continue from another time. */
export interface SavedRate extends RateKey {
  /** -1 for a window without an end, which JSON has no number for. */
  readonly windowMs: number;
  readonly spent: readonly number[];
}

/** How the rates of a limiter are kept. */
export interface RateSettings {
  readonly headroom: number;
  /** Whether less usage than was charged is given back. */
  readonly refunds: boolean;
  readonly queue: { readonly reserve?: ReserveRule | undefined };
}

/** The rates of one limiter, and what it learns about them. */
export class Rates {
  learner: Learner | undefined = undefined;
  /** Where several processes share them. */
  credit: CreditDemand | undefined = undefined;
  readonly all: Rate[] = [];
  /** Amounts bounded since they were last taken. */
  private notes: RateNote[] = [];
  private readonly settings: RateSettings;
  /** Payments and corrections so far. */
  private payments = 0;

  constructor(settings: RateSettings) {
    this.settings = settings;
  }

  /** Takes the amounts that were bounded since the last time. */
  takeNotes(): readonly RateNote[] {
    const { notes } = this;
    if (notes.length > 0) this.notes = [];
    return notes;
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
  least(unit: string, of: (rate: Rate) => number): number {
    let least = Infinity;
    for (const rate of this.all) if (rate.rule.unit === unit) least = Math.min(least, of(rate));
    return least;
  }

  /** What could be spent at once, by a lane or in all. */
  left(unit: string, now: number, lane?: number): number {
    return this.least(unit, (rate) => rate.level(now, lane));
  }

  /** The part of the capacity that is spent, 0 to 1. */
  load(now: number): number {
    return Math.min(1, Math.max(0, ...this.all.map((rate) => rate.load(now))));
  }

  /** When everything spent has come back. */
  fullAt(now: number): number {
    let at = now;
    for (const rate of this.all) at = Math.max(at, rate.fullAt(now));
    return at;
  }

  levels(now: number): RateLevel[] {
    return this.all.map((rate) => ({ unit: rate.rule.unit, windowMs: rate.rule.windowMs, amount: rate.amount, left: rate.level(now) }));
  }

  /** Sets a rate: another amount of one that there is, or a new one. */
  set(rule: RateSpec, now: number): void {
    const known = this.find(rule);
    const { headroom, queue } = this.settings;
    // A lane cannot keep part of a slot.
    const rate = known ?? new Rate(rule, headroom, now, rule.unit === SLOTS ? undefined : queue.reserve);
    if (rule.amount < Infinity && known?.meter === undefined) rate.since = this.payments;
    if (known) known.change(rule, now);
    else this.all.push(rate);
  }

  // ---- jobs -----------------------------------------------------------------------------------------------------------

  /** The name of the first rate that cannot pay the charge now. */
  blockedBy(charge: Charge, lane: number, time: number): string | undefined {
    for (const rate of this.all) if (rate.payableAt(charge, time, lane) > time) return rate.name;
    return undefined;
  }

  payableAt(charge: Charge, lane: number, time: number): number {
    let at = time;
    for (const rate of this.all) at = Math.max(at, rate.payableAt(charge, time, lane));
    return at;
  }

  /** When a lane may pay it from its reserve although a lower lane has its turn. */
  passableAt(charge: Charge, lane: number, time: number): number {
    let at = time;
    for (const rate of this.all) at = Math.max(at, rate.passableAt(charge, time, lane));
    return at;
  }

  /** The first rate that can never pay the charge. */
  tooHeavyFor(charge: Charge, lane: number): Rate | undefined {
    return this.all.find((rate) => rate.isTooHeavy(charge, lane));
  }

  /** Pays for a lease. */
  take(lease: Paid, time: number): void {
    const { charge: estimate } = lease;
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
    if (isBounded) this.noteBounded(estimate, charge);
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

  private noteBounded(estimate: Charge, charge: Charge): void {
    for (const unit of Object.keys(amountsOf(charge))) {
      const [cost, charged] = [amountOf(estimate, unit), amountOf(charge, unit)];
      if (charged < cost) this.notes.push({ type: 'costClamped', unit, cost, charged });
    }
  }

  /** The lease was not used: refunds what was paid for it. */
  refund(lease: Paid, now: number): void {
    this.correct(lease, now, Object.fromEntries(Object.keys({ ...amountsOf(lease.charge), ...lease.used }).map((unit) => [unit, 0])));
  }

  /** Corrects what the lease paid to what was really used, unit by unit. Answers whether something has come back. */
  settle(lease: Paid, reported: Amounts, now: number): boolean {
    const { refunds } = this.settings;
    const charged: Record<string, number> = {};
    for (const unit of Object.keys(reported)) {
      const before = usedBy(lease, unit);
      const after = this.clampUsage(unit, reported[unit] as number, before);
      if (after >= before || refunds) charged[unit] = after;
    }
    return this.correct(lease, now, charged);
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
    if (isCounted && charged !== reported) this.notes.push({ type: 'usageClamped', unit, reported, charged });
    return charged;
  }

  /** From now on the lease has used so much of these units. Answers whether something has come back. */
  private correct(lease: Paid, now: number, charged: Amounts): boolean {
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

  /**
   * How many of these jobs could be paid for one after the other. What a bidder wants is not known before its turn, so it counts as one token. `leftOf` says
   * what is left of a unit for a lane: with reserves a lower one has less.
   */
  payable(jobs: readonly RatedJob[], units: readonly string[], leftOf: (unit: string, lane: number) => number): number {
    const spent = new Map(units.map((unit) => [unit, 0]));
    const levels = new Map<string, number>();
    const left = (unit: string, lane: number): number => {
      const at = `${String(lane)} ${unit}`;
      const level = levels.get(at) ?? leftOf(unit, lane);
      levels.set(at, level);
      return level + ROUNDING;
    };
    const unpaid = jobs.findIndex(({ charge, isBidder, lane }) => {
      let isShort = false;
      for (const [unit, before] of spent) {
        const sum = before + (isBidder && isTokenUnit(unit) ? 1 : amountOf(charge, unit));
        spent.set(unit, sum);
        isShort ||= sum > left(unit, lane);
      }
      return isShort;
    });
    return unpaid === -1 ? jobs.length : unpaid;
  }

  // ---- saving --------------------------------------------------------------------------------------------------------

  /** What several processes share is saved where they share it. */
  save(now: number): SavedRate[] {
    const own = this.all.filter(({ meter }) => !meter?.isShared);
    return own.map(({ rule: { unit, windowMs, isStrict }, meter }) => ({
      unit,
      windowMs: windowMs === Infinity ? -1 : windowMs,
      isStrict,
      spent: meter?.save(now) ?? [],
    }));
  }

  /** Goes on from what was saved so long ago. */
  restore(saved: readonly SavedRate[], elapsedMs: number, now: number): void {
    for (const rate of saved) {
      const windowMs = rate.windowMs === -1 ? Infinity : rate.windowMs;
      this.find({ ...rate, windowMs })?.meter?.load(rate.spent, elapsedMs, now);
    }
  }

  private find(rule: RateKey): Rate | undefined {
    return this.all.find((rate) => isSameRate(rate.rule, rule));
  }
}

/** When a lease paid to a rate: one from before there was a limit, when it is first told what it used. */
function paidAt(rate: Rate, lease: Paid, now: number): number {
  const { grantedAt = now, payment = 0 } = lease;
  return payment > rate.since ? grantedAt : (lease.settledAt ??= now);
}

/** What a lease has paid to a rate until now. Corrections from before there was a limit were not paid to it. */
function paidSoFar(rate: Rate, lease: Paid): number {
  const { payment = 0, correction = payment, used } = lease;
  return correction > rate.since ? paid(rate, lease, used) : 0;
}

/** What a lease that has used so much has paid to a rate. From before there was a limit it has paid nothing but what is above its estimate. */
function paid(rate: Rate, { charge, payment = 0 }: Paid, used: Amounts | undefined): number {
  const { unit } = rate.rule;
  const estimate = amountOf(charge, unit);
  const amount = reportedOf(used, unit) ?? estimate;
  return payment > rate.since ? amount : Math.max(0, amount - estimate);
}

/** What a lease has used of a unit, as far as it is known, or is estimated to. */
function usedBy({ charge, used }: Paid, unit: string): number {
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

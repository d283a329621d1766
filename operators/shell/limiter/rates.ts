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

/** What rates have to know of the limiter that keeps to them. */
export interface RatedLimiter {
  readonly settings: LimiterSettings;
  readonly tell: ((note: Note) => void) | undefined;
  /** When the clock was last looked at. */
  readonly time: number;
  /** Looks at the clock. */
  read(): number;
  widened(isLater: boolean): void;
  penalize(pauseMs: number): void;
}

/** Reads the responses to a limiter's requests. */
export interface Learner {
  /** Something was paid, or given back. */
  paid(requests: number, tokens: number, now: number): void;
  /** What is to be handed to `read` with the response to the request that was paid last. */
  mark(): unknown;
  /** Answers for how long nothing may be granted, if that is asked for. */
  read(response: ResponseLike, sentAt: number, mark: unknown, now: number): number | undefined;
  /** A pause was ended by hand. */
  resumed(now: number): void;
}

/** The rates of one limiter, and what it learns about them. */
export class Rates {
  learner: Learner | undefined = undefined;
  private readonly pump: RatedLimiter;
  private readonly all: Rate[] = [];
  /** Those of them that there is anything to keep to. */
  private limited: readonly Rate[] = [];

  constructor(pump: RatedLimiter) {
    this.pump = pump;
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
    return this.least(unit, ({ capacity }) => capacity);
  }

  /** What could be spent at once. */
  left(unit: string, now = this.pump.read()): number {
    return this.least(unit, (rate) => rate.level(now));
  }

  perMinute(unit: string): number {
    return this.least(unit, ({ perMinute }) => perMinute);
  }

  /** The share of what can be saved up that has been spent, 0 to 1. */
  load(): number {
    if (this.limited.length === 0) return 0;
    const now = this.pump.read();
    return Math.min(1, Math.max(0, ...this.limited.map((rate) => rate.load(now))));
  }

  snapshots(): RateSnapshot[] {
    const now = this.pump.read();
    return this.all.map((rate) => ({ unit: rate.unit, windowMs: rate.rule.windowMs, amount: rate.amount, left: rate.level(now) }));
  }

  /** Sets a rate: another amount of one that there is, or a new one. */
  set(rule: RateSpec): void {
    const known = this.find(rule);
    if (known) known.change(rule, this.pump.read());
    else this.all.push(new Rate(rule, this.pump.settings.headroom, this.pump.read()));
    this.changed();
  }

  // ---- jobs -----------------------------------------------------------------------------------------------------------

  /** The name of the rate that cannot pay for it now. */
  blockedBy(charge: Charge): string | undefined {
    const { time } = this.pump;
    for (const rate of this.limited) if (!rate.canPay(charge, time)) return rate.name;
    return undefined;
  }

  payableAt(charge: Charge): number {
    const { time } = this.pump;
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
    const { time } = this.pump;
    lease.tokens = charge.tokens;
    lease.grantedAt = time;
    for (const rate of this.limited) rate.take(charge, time);
    if (this.learner === undefined) return;
    if (this.isLimited) this.learner.paid(charge.requests, charge.tokens, time);
    lease.mark = this.learner.mark();
  }

  /** A lease was not used: what was paid for it comes back. */
  refund(lease: Lease): void {
    const { charge, tokens = 0, grantedAt = 0 } = lease;
    lease.tokens = 0;
    if (!this.isLimited) return;
    const now = this.pump.read();
    for (const rate of this.limited) rate.correct(-rate.costOf({ ...charge, tokens }), grantedAt, now);
    this.learner?.paid(-charge.requests, -tokens, now);
  }

  /** A lease turns out to have cost so many tokens. Answers what that changes. */
  settle(lease: Lease, reported: number): number {
    // One that was granted before there were rates has paid what it cost, at no time that is known.
    const { tokens = lease.charge.tokens, grantedAt = 0 } = lease;
    const rates = this.limited.filter(({ unit }) => unit === 'tokens');
    const charged = Math.min(...rates.map((rate) => rate.worth(reported, tokens)), reported);
    if (charged !== reported) this.pump.tell?.({ type: 'usageClamped', reported, charged });
    const more = charged - tokens;
    if (more === 0 || (more < 0 && !this.pump.settings.refunds)) return 0;
    lease.tokens = charged;
    if (rates.length === 0) return more;
    const now = this.pump.read();
    for (const rate of rates) rate.correct(more, grantedAt, now);
    this.learner?.paid(0, more, now);
    return more;
  }

  // ---- what is learned, and kept --------------------------------------------------------------------------------------

  /** For whoever learns: the rates of a unit. One that allows everything is made when there is none. */
  of(unit: string, rule: (unit: string) => RateSpec): readonly Rate[] {
    if (!this.counts(unit)) this.set(rule(unit));
    return this.all.filter((rate) => rate.unit === unit);
  }

  /** False when nobody learns here. */
  learn(response: ResponseLike, lease: Lease | undefined, sentAt: number): boolean {
    if (this.learner === undefined) return false;
    const now = this.pump.read();
    const before = this.all.map(({ perMinute }) => perMinute);
    const pauseMs = this.learner.read(response, Math.min(lease?.grantedAt ?? sentAt, now), lease?.mark, now);
    this.changed();
    if (this.all.some(({ perMinute }, i) => perMinute !== (before[i] ?? Infinity))) this.pump.widened(true);
    if (pauseMs) this.pump.penalize(pauseMs);
    return true;
  }

  /** A pause was ended by hand. */
  resumed(): void {
    this.learner?.resumed(this.pump.time);
  }

  save(): SavedLimits['rates'] {
    const now = this.pump.read();
    return this.all.map((rate) => ({ unit: rate.unit, windowMs: rate.rule.windowMs, isStrict: rate.rule.isStrict, spent: rate.save(now) }));
  }

  /** Goes on from what was saved. Answers how long ago that was. */
  restore({ at, rates }: SavedLimits): number {
    const now = this.pump.read();
    const elapsedMs = Math.max(0, this.pump.settings.scheduler.now() - at);
    for (const saved of rates) this.find(saved)?.restore(saved.spent, elapsedMs, now);
    return elapsedMs;
  }

  private find(rule: RateKey): Rate | undefined {
    return this.all.find((rate) => isSameRate(rate.rule, rule));
  }

  private changed(): void {
    this.limited = this.all.filter(({ isLimited }) => isLimited);
  }

  private least(unit: string, of: (rate: Rate) => number): number {
    let least = Infinity;
    for (const rate of this.all) if (rate.unit === unit) least = Math.min(least, of(rate));
    return least;
  }
}

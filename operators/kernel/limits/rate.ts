import type { Charge, Meter, RateSpec, ReserveRule } from './limit.js';
import { amountOf, isTokenUnit } from './limit.js';
import { ReservedBucket } from './reserved-bucket.js';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/** More tokens than any model takes and gives in one call. */
const MOST_TOKENS = 10_000_000;

/** One rate of a limiter: what it allows by its rule, by what was learned and by the share in use, and what was spent of it. */
export class Rate {
  rule: RateSpec;
  /** The number of the last payment before there was a limit: what was paid up to then was not paid here. */
  since = 0;
  /** Made for the first limit above 0; one that is lifted for a moment is no new window. */
  private spent: Meter | undefined = undefined;
  /** What lanes may spend of their reserves while a lower lane has its turn; only with reserves. */
  passes: Meter | undefined = undefined;
  private readonly headroom: number;
  private readonly reserve: ReserveRule | undefined;
  /** What was learned, per minute. */
  private learned = Infinity;
  private share = 1;
  /** Most in one window, by rule and by what was learned. */
  private limit = Infinity;

  constructor(rule: RateSpec, headroom: number, now: number, reserve?: ReserveRule) {
    this.rule = rule;
    this.headroom = headroom;
    // Of an amount that is spent once nothing comes back to a lane.
    this.reserve = rule.windowMs === Infinity ? undefined : reserve;
    this.resize(now);
  }

  /** What errors call it. */
  get name(): string {
    const { unit, windowMs } = this.rule;
    if (windowMs === DAY_MS) return `${unit}PerDay`;
    if (windowMs === Infinity) return `${unit} in all`;
    return windowMs === MINUTE_MS ? `${unit}PerMinute` : `${unit} per ${String(windowMs)} ms`;
  }

  /** Whether there is anything to keep to. */
  get isLimited(): boolean {
    return this.limit < Infinity;
  }

  /** What was spent; none without a limit, or before the first one above 0. */
  get meter(): Meter | undefined {
    return this.isLimited ? this.spent : undefined;
  }

  /** A rate of 0 lets nothing pass, whatever it costs. */
  get isStopped(): boolean {
    return this.rule.amount === 0;
  }

  /** Most in one window, before the headroom: as configured, or as learned where that is less. */
  get amount(): number {
    return this.limit * this.share;
  }

  /** What a job costs of it. */
  costOf(charge: Charge): number {
    return amountOf(charge, this.rule.unit);
  }

  /**
   * Most that an estimate may cost, so that no job stops all others for longer than one window (a minute, where that is longer). It is what a window
   * brings in, and no more tokens than any model takes, unless more can be saved up.
   */
  get heaviest(): number {
    const { meter, rule, limit } = this;
    if (meter === undefined || !isTokenUnit(rule.unit)) return Infinity;
    const { capacity } = meter;
    return Math.max(capacity, Math.min(this.refillIn(Math.max(MINUTE_MS, rule.windowMs)), Math.max(MOST_TOKENS, this.scaled(limit))));
  }

  /** The rate in force, before the headroom. */
  get perMinute(): number {
    return this.scaled(this.limit) * this.share;
  }

  /** Most that every lane can pay at once. */
  get capacity(): number {
    return this.capacityOf(Infinity);
  }

  /** Most that a lane can pay at once: what a job must not exceed where nothing is borrowed, else what can be saved up. */
  capacityOf(lane: number): number {
    const { meter, reserve } = this;
    const { borrows, amount, isStrict } = this.rule;
    if (borrows) return meter?.capacityOf?.(lane) ?? meter?.capacity ?? Infinity;
    // What was learned makes no job too heavy, and nothing is too heavy for what will be another rate.
    if (amount === 0 || amount === Infinity) return Infinity;
    const above = isStrict && reserve ? reserve.shares.slice(0, lane).reduce((sum, share) => sum + share, 0) : 0;
    return this.capacityFor(amount) * (1 - above);
  }

  level(now: number, lane?: number): number {
    const level = this.meter?.level(now, lane) ?? Infinity;
    return this.isStopped ? Math.min(0, level) : level;
  }

  /** The part of what can be saved up that has been spent; above 1 in debt. */
  load(now: number): number {
    if (this.isStopped) return 1;
    const { meter } = this;
    return meter ? Math.max(1 - meter.level(now) / meter.capacity, meter.loadOf?.(now) ?? 0) : 0;
  }

  payableAt(charge: Charge, now: number, lane?: number): number {
    return this.isStopped ? Infinity : (this.meter?.payableAt(this.costOf(charge), now, lane) ?? now);
  }

  /** When a lane may pay it although a lower lane has its turn. */
  passableAt(charge: Charge, now: number, lane: number): number {
    return this.meter ? (this.passes?.payableAt(this.costOf(charge), now, lane) ?? now) : now;
  }

  /** When it has nothing left to remember; Infinity while it is stopped. */
  fullAt(now: number): number {
    return this.isStopped ? Infinity : (this.meter?.fullAt(now) ?? now);
  }

  isTooHeavy(charge: Charge, lane: number): boolean {
    return !this.rule.borrows && this.costOf(charge) > this.capacityOf(lane);
  }

  /**
   * What a reported usage costs a job that has paid so much: the reported number, unless no model can use that many and no minute of this rate pays
   * for them. Such a number is an error in the report, and costs what can be saved up.
   */
  clampUsage(reported: number, paid: number): number {
    const { limit, meter, rule } = this;
    if (meter === undefined || !isTokenUnit(rule.unit) || reported <= Math.max(MOST_TOKENS, this.scaled(limit))) return reported;
    return Math.max(paid, meter.capacity);
  }

  /** Another amount of the same unit and window. */
  change(rule: RateSpec, now: number): void {
    this.rule = rule;
    this.resize(now);
  }

  /** Keeps to a learned rate, as far as the rule allows, and to a share of it. */
  learn(perMinute: number, share: number, now: number): void {
    this.learned = perMinute;
    this.share = share;
    this.resize(now, true);
  }

  /** What comes in within so many ms. */
  refillIn(spanMs: number): number {
    if (spanMs === Infinity) return this.amount * this.headroom;
    return (this.perMinute * this.headroom * spanMs) / MINUTE_MS;
  }

  /** Whether a report about so long a window says how much of this one is left: what a minute has left says nothing of a day that is counted for itself. */
  isAbout(reportedMs: number): boolean {
    const { isStrict, windowMs } = this.rule;
    return !isStrict || windowMs <= Math.max(MINUTE_MS, reportedMs);
  }

  /** Takes away what is saved up beyond so much. */
  lower(most: number, now: number): void {
    const { meter } = this;
    if (meter?.lower) meter.lower(most, now);
    else if (meter && meter.level(now) > most) meter.pay(meter.level(now) - most, now);
  }

  /** Leaves nothing saved up after a pause of so many ms, so that refused callers do not all send at once. */
  empty(pauseMs: number, now: number): void {
    // A window saves nothing up, and would keep what is taken from it.
    if (!this.rule.isStrict) this.lower(-this.refillIn(pauseMs), now);
  }

  private scaled(amount: number): number {
    return (amount / this.rule.windowMs) * MINUTE_MS;
  }

  /** Most that can be saved up under a limit. */
  private capacityFor(limit: number): number {
    const { unit, isStrict, burst, learnedBurstMs = 0, amount, windowMs } = this.rule;
    // A slow rate must still be able to save up one whole request. Units of one's own may come in fractions.
    const least = unit === 'requests' || isTokenUnit(unit) ? 1 : Math.min(1, burst ?? limit);
    if (isStrict) return Math.max(least, limit * this.headroom);
    const burstMs = Math.max(this.rule.burstMs, amount === Infinity ? learnedBurstMs : 0);
    if (burst === undefined) return Math.max(least, (limit * this.headroom * burstMs) / windowMs);
    return Math.max(least, amount === Infinity ? burst : (burst * limit) / amount);
  }

  private resize(now: number, isLearned = false): void {
    const { amount, windowMs } = this.rule;
    const limit = Math.min(amount, (this.learned * windowMs) / MINUTE_MS);
    this.limit = limit;
    const { spent } = this;
    // At 0 nothing passes, and what was saved up until now is kept for later.
    if (limit === Infinity || limit === 0) return;
    const perMinute = this.perMinute * this.headroom;
    // Going slower for a while is no reason to make smaller batches.
    const room = this.capacityFor(limit);
    const { passes, reserve } = this;
    if (spent) {
      spent.resize(perMinute, room, now, isLearned);
      passes?.resize(perMinute * (reserve as ReserveRule).share, 0, now);
    } else if (reserve) {
      const { shares, share } = reserve;
      this.spent = this.rule.reservedMeter(shares, perMinute, room, now);
      // Nothing but reserves, each of which comes in at its share of the rate.
      const parts = shares.map((each) => each / share);
      this.passes = new ReservedBucket(parts, windowMs, perMinute * share, 0, now);
    } else this.spent = this.rule.meter(perMinute, room, now);
  }
}

import type { Meter } from './meters.js';
import type { ProviderUnit } from './units.js';

/** One line of the books. Times are of the provider's clock. */
export interface BookEntry {
  readonly at: number;
  /** The request. */
  readonly id: string;
  readonly unit: ProviderUnit;
  /** Negative: given back. */
  readonly amount: number;
  /**
   * `arrival`: charged when the request came in. `generated`: charged as the output was made. `settled`: given back when the provider knew the real amount.
   * `refused`: charged although the request was refused with 429. `failed`: given back because the request was rejected or failed.
   */
  readonly why: 'arrival' | 'generated' | 'settled' | 'refused' | 'failed';
}

/** The moment at which most of a limit was in use. */
export interface FullestWindow {
  readonly unit: ProviderUnit;
  /** The last charge that belongs to it. */
  readonly at: number;
  readonly used: number;
  /** What may be used in such a window. */
  readonly limit: number;
  /** `used` / `limit`: at most 1 when the client kept to the limit. */
  readonly share: number;
}

/** What a client believes: amounts that it charged per unit, or a snapshot of its limiter. */
export type ClientBooks = Readonly<Record<string, number>> | ClientSnapshot;

/** The part of a limiter's snapshot that is compared. */
export interface ClientSnapshot {
  readonly rates: readonly { readonly unit: string; readonly left: number }[];
}

/** One unit in both books. */
export interface BookDifference {
  readonly ours: number;
  readonly theirs: number;
  /** Positive: the client is more careful than the provider demands. Negative: it believes to have more than it has. */
  readonly difference: number;
}

/**
 * What a provider charged to whom, and when.
 * @beta
 */
export interface ProviderBooks {
  /** Every charge and every amount given back, in the order of time. */
  readonly entries: readonly BookEntry[];
  /** Requests that came in for endpoints that the limits count, refused ones included. */
  readonly arrivals: number;
  /** Of those: refused with 429, whatever for. */
  readonly refused: number;
  /** Of those: refused because a limit was reached. */
  readonly refusedByLimit: number;
  /** Units that are limited. */
  readonly units: readonly ProviderUnit[];
  /** The limit of a unit; Infinity without one. */
  readonly limit: (unit: ProviderUnit) => number;
  /** What is left of a unit now; Infinity without a limit, negative when more was used than allowed. */
  readonly level: (unit: ProviderUnit) => number;
  /** What was charged in all, less what was given back. */
  readonly charged: (unit: ProviderUnit) => number;
  /** The same of one request, for every unit that it was charged. */
  readonly chargedTo: (id: string) => Partial<Readonly<Record<ProviderUnit, number>>>;
  /** The entries of one request. */
  readonly history: (id: string) => readonly BookEntry[];
  /**
   * Where a unit was used most. Without `windowMs` by the provider's own count (emptiest bucket, fullest counter, charges that were given back later
   * included); with it, of all windows of that length the one with most, by what was charged in the end.
   */
  readonly fullest: (unit: ProviderUnit, windowMs?: number) => FullestWindow;
  /**
   * Compares with what a client believes: of a record, amounts charged; of a snapshot, amounts left. Only units in both books are compared;
   * `tokens` of a client is compared with input and output together where the provider counts them apart.
   */
  readonly difference: (ours: ClientBooks) => Readonly<Record<string, BookDifference>>;
}

interface Charge {
  readonly at: number;
  readonly unit: ProviderUnit;
  /** Less what was given back. */
  net: number;
}

/** Takes an amount back from a charge. */
export type GiveBack = (amount: number, why: 'settled' | 'failed') => void;

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;

/** The books of one pool of limits. */
export class Ledger implements ProviderBooks {
  readonly entries: BookEntry[] = [];
  arrivals = 0;
  refused = 0;
  refusedByLimit = 0;
  #charges: Charge[] = [];
  #meters: readonly Meter[] = [];
  readonly #fullest = new Map<ProviderUnit, FullestWindow>();
  readonly #now: () => number;
  readonly #makeMeters: (now: number) => readonly Meter[];
  #opened = false;

  constructor(now: () => number, makeMeters: (now: number) => readonly Meter[]) {
    this.#now = now;
    this.#makeMeters = makeMeters;
  }

  /** Full again, as at the start: the clock was set back. */
  restart(): void {
    this.#opened = false;
  }

  get meters(): readonly Meter[] {
    if (!this.#opened) {
      this.#opened = true;
      this.#meters = this.#makeMeters(this.#now());
    }
    return this.#meters;
  }

  charge(id: string, unit: ProviderUnit, amount: number, why: BookEntry['why']): GiveBack {
    const at = this.#now();
    const meters = this.meters.filter((meter) => meter.unit === unit);
    const backs = meters.map((meter) => meter.charge(amount, at));
    const charge: Charge = { at, unit, net: amount };
    this.#charges.push(charge);
    this.entries.push({ at, id, unit, amount, why });
    for (const meter of meters) this.#note(meter, at);
    return (back, reason) => {
      if (back === 0) return;
      const later = this.#now();
      for (const giveBack of backs) giveBack(back, later);
      charge.net -= back;
      this.entries.push({ at: later, id, unit, amount: -back, why: reason });
    };
  }

  #note(meter: Meter, at: number): void {
    const used = meter.capacity - meter.level(at);
    const before = this.#fullest.get(meter.unit);
    if (before !== undefined && used / meter.capacity <= before.share) return;
    this.#fullest.set(meter.unit, { unit: meter.unit, at, used, limit: meter.capacity, share: used / meter.capacity });
  }

  get units(): readonly ProviderUnit[] {
    return this.meters.map(({ unit }) => unit);
  }

  readonly limit = (unit: ProviderUnit): number => this.#meter(unit)?.limit ?? Infinity;

  readonly level = (unit: ProviderUnit): number => this.#meter(unit)?.level(this.#now()) ?? Infinity;

  readonly charged = (unit: ProviderUnit): number => sumOf(this.entries.filter((entry) => entry.unit === unit));

  readonly chargedTo = (id: string): Partial<Readonly<Record<ProviderUnit, number>>> => {
    const sums: Partial<Record<ProviderUnit, number>> = {};
    for (const { unit, amount } of this.history(id)) sums[unit] = (sums[unit] ?? 0) + amount;
    return sums;
  };

  readonly history = (id: string): readonly BookEntry[] => this.entries.filter((entry) => entry.id === id);

  readonly fullest = (unit: ProviderUnit, windowMs?: number): FullestWindow => {
    const meter = this.#meter(unit);
    if (windowMs === undefined) {
      return this.#fullest.get(unit) ?? { unit, at: this.#now(), used: 0, limit: meter?.capacity ?? Infinity, share: 0 };
    }
    const limit = ((meter?.limit ?? Infinity) * windowMs) / (unit === 'requestsPerDay' ? DAY_MS : MINUTE_MS);
    const charges = this.#charges.filter((charge) => charge.unit === unit);
    let fullest: FullestWindow = { unit, at: this.#now(), used: 0, limit, share: 0 };
    let used = 0;
    let oldest = 0;
    for (const { at, net } of charges) {
      used += net;
      while ((charges[oldest]?.at ?? at) <= at - windowMs) used -= charges[oldest++]?.net ?? 0;
      if (used > fullest.used) fullest = { unit, at, used, limit, share: used / limit };
    }
    return fullest;
  };

  readonly difference = (ours: ClientBooks): Readonly<Record<string, BookDifference>> => {
    const compared: Record<string, BookDifference> = {};
    if (isSnapshot(ours)) {
      for (const { unit, left } of ours.rates) {
        const theirs = this.level(unit as ProviderUnit);
        const before = compared[unit]?.ours ?? Infinity;
        if (theirs !== Infinity && left < before) compared[unit] = { ours: left, theirs, difference: theirs - left };
      }
      return compared;
    }
    const sums = new Map<string, number>();
    for (const { unit, amount } of this.entries) sums.set(unit, (sums.get(unit) ?? 0) + amount);
    const apart = [sums.get('inputTokens'), sums.get('outputTokens')].filter((sum) => sum !== undefined);
    if (!sums.has('tokens') && apart.length > 0)
      sums.set(
        'tokens',
        apart.reduce((sum, part) => sum + part, 0),
      );
    for (const [unit, amount] of Object.entries(ours)) {
      const theirs = sums.get(unit);
      if (theirs !== undefined) compared[unit] = { ours: amount, theirs, difference: amount - theirs };
    }
    return compared;
  };

  #meter(unit: ProviderUnit): Meter | undefined {
    return this.meters.find((meter) => meter.unit === unit);
  }
}

function isSnapshot(ours: ClientBooks): ours is ClientSnapshot {
  return Array.isArray(ours['rates' as never]);
}

function sumOf(entries: readonly BookEntry[]): number {
  return entries.reduce((sum, { amount }) => sum + amount, 0);
}

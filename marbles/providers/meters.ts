// Written from the providers' pages, apart from the limiter's own accounting, which is tested against it: nothing here is imported from `operators/`.
import type { ProviderUnit } from './units.js';

const MINUTE_MS = 60_000;
/** A level this near to what is asked is enough: sums of fractions are not exact. */
const EPSILON = 1e-6;

/** Counts one unit. Amounts and times are numbers of the provider. */
export interface Meter {
  readonly unit: ProviderUnit;
  /** What the provider calls its limit. */
  readonly limit: number;
  /** The most that can be used at once. */
  readonly capacity: number;
  /** What is left; negative when more was used than allowed. */
  level(now: number): number;
  /** How long until `amount` is left: 0 is now, Infinity is never. */
  waitMs(amount: number, now: number): number;
  /** How long until all of it is left again. */
  resetMs(now: number): number;
  /** Takes an amount; the returned function gives a part of it back. */
  charge(amount: number, now: number): (amount: number, now: number) => void;
}

/** A token bucket: filled continuously at the rate of the limit, up to its capacity. */
export class BucketMeter implements Meter {
  readonly capacity: number;
  #level: number;
  #at: number;

  constructor(
    readonly unit: ProviderUnit,
    readonly limit: number,
    burstSeconds: number,
    now: number,
  ) {
    this.capacity = Math.max(1, (limit * burstSeconds) / 60);
    this.#level = this.capacity;
    this.#at = now;
  }

  level(now: number): number {
    const passed = Math.max(0, now - this.#at);
    this.#at = Math.max(now, this.#at);
    this.#level = Math.min(this.capacity, this.#level + (passed * this.limit) / MINUTE_MS);
    return this.#level;
  }

  waitMs(amount: number, now: number): number {
    if (amount > this.capacity + EPSILON) return Infinity;
    const missing = amount - this.level(now);
    return missing <= EPSILON ? 0 : (missing * MINUTE_MS) / this.limit;
  }

  resetMs(now: number): number {
    return ((this.capacity - this.level(now)) * MINUTE_MS) / this.limit;
  }

  charge(amount: number, now: number): (amount: number, now: number) => void {
    this.#level = this.level(now) - amount;
    return (back, later) => {
      this.#level = Math.min(this.capacity, this.level(later) + back);
    };
  }
}

/** A counter that starts again at fixed moments: a minute, a slice of a few seconds, a day. */
export class CounterMeter implements Meter {
  readonly capacity: number;
  readonly #windowOf: (now: number) => Window;
  #window: Window;
  #used = 0;

  constructor(
    readonly unit: ProviderUnit,
    readonly limit: number,
    capacity: number,
    windowOf: (now: number) => Window,
    now: number,
  ) {
    this.capacity = capacity;
    this.#windowOf = windowOf;
    this.#window = windowOf(now);
  }

  level(now: number): number {
    if (now >= this.#window.end || now < this.#window.start) {
      this.#window = this.#windowOf(now);
      this.#used = 0;
    }
    return this.capacity - this.#used;
  }

  waitMs(amount: number, now: number): number {
    if (amount > this.capacity + EPSILON) return Infinity;
    return amount <= this.level(now) + EPSILON ? 0 : this.#window.end - now;
  }

  resetMs(now: number): number {
    return this.level(now) === this.capacity ? 0 : this.#window.end - now;
  }

  charge(amount: number, now: number): (amount: number, now: number) => void {
    this.level(now);
    const { start } = this.#window;
    this.#used += amount;
    return (back, later) => {
      this.level(later);
      // The window that was charged is over: what it counted is forgotten anyway.
      if (this.#window.start === start) this.#used -= back;
    };
  }
}

/** A window of a counter: from `start` up to, but not including, `end`. */
export interface Window {
  readonly start: number;
  readonly end: number;
}

/** Windows of one length, the first of which starts at `offset`. */
export function windowsOf(lengthMs: number, offset = 0): (now: number) => Window {
  return (now) => {
    const start = Math.floor((now - offset) / lengthMs) * lengthMs + offset;
    return { start, end: start + lengthMs };
  };
}

/** Counts what was used in the last `windowMs`, at every moment. */
export class RollingMeter implements Meter {
  readonly capacity: number;
  #uses: { readonly at: number; amount: number }[] = [];

  constructor(
    readonly unit: ProviderUnit,
    readonly limit: number,
    readonly windowMs: number,
  ) {
    this.capacity = limit;
  }

  level(now: number): number {
    this.#uses = this.#uses.filter(({ at }) => at > now - this.windowMs);
    return this.capacity - this.#uses.reduce((sum, { amount }) => sum + amount, 0);
  }

  waitMs(amount: number, now: number): number {
    if (amount > this.capacity + EPSILON) return Infinity;
    let missing = amount - this.level(now);
    if (missing <= EPSILON) return 0;
    for (const use of this.#uses) {
      missing -= use.amount;
      if (missing <= EPSILON) return use.at + this.windowMs - now;
    }
    return this.windowMs;
  }

  resetMs(now: number): number {
    this.level(now);
    return (this.#uses.at(-1)?.at ?? now - this.windowMs) + this.windowMs - now;
  }

  charge(amount: number, now: number): (amount: number, now: number) => void {
    this.level(now);
    const use = { at: now, amount };
    this.#uses.push(use);
    return (back) => {
      use.amount -= back;
    };
  }
}

/** Days that begin at an hour of a time zone: 23 or 25 hours long when its clocks change. */
export function daysOf({ timeZone, hour }: { readonly timeZone: string; readonly hour: number }): (now: number) => Window {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  });
  const offsetAt = (moment: number): number => {
    const shown: Record<string, number> = {};
    for (const { type, value } of format.formatToParts(moment)) shown[type] = Number(value);
    const { year = 0, month = 1, day = 1, hour: hours = 0, minute = 0, second = 0 } = shown;
    return Date.UTC(year, month - 1, day, hours, minute, second) - Math.floor(moment / 1000) * 1000;
  };
  // The clock of the zone as if it were UTC, and back. The second look is for moments near a change of the clocks.
  const local = (moment: number): number => moment + offsetAt(moment);
  const moment = (shown: number): number => shown - offsetAt(shown - offsetAt(shown));
  const shift = hour * 60 * MINUTE_MS;
  const day = 24 * 60 * MINUTE_MS;
  return (now) => {
    const start = Math.floor((local(now) - shift) / day) * day + shift;
    return { start: moment(start), end: moment(start + day) };
  };
}

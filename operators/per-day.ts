import { CalendarWindow } from './kernel/limits/calendar-window.js';
import { ReservedDay } from './kernel/limits/reserved-day.js';
import { FlowConfigError } from './options/errors.js';
import type { RateRule } from './options/limiter.js';
import { check, limit, onlyKnown, orDefault } from './options/options.js';
import { quota, rule } from './rates.js';

/**
 * When a day begins.
 * @stable
 */
export interface DayStart {
  /** Name of the time zone (IANA), such as `'America/Los_Angeles'`. @defaultValue 'UTC' */
  readonly timeZone?: string;
  /** Hour of the day, by the clock of the time zone, a whole number from 0 to 23. @defaultValue 0 */
  readonly hour?: number;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Longer than any day by the clock of any time zone. */
const LONGEST_DAY_MS = 50 * HOUR_MS;

/** The year 2001. A clock that is not there yet does not count from 1970, and has no days but those since its own zero. */
const FIRST_EPOCH_MS = 1e12;

/**
 * A limit per calendar day: all of it may be spent at once, and all of it is there again when the next day begins. Days are those of a time zone, with
 * its changes to and from daylight saving time, on the clock of the limiter's `scheduler`; on a clock that does not count from 1970 (virtual time)
 * a day is 24 hours, and the first begins at 0.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when something is unknown or out of range.
 * @example
 * ```ts
 * import { createLimiter, perDay } from 'sluice/operators';
 *
 * const day = perDay('requests', 1000, { timeZone: 'America/Los_Angeles' });
 * const limiter = createLimiter({ rates: [day], headroom: 1 });
 * limiter.tryAcquire()?.release();
 * limiter.snapshot().requests; // => 999
 * ```
 */
export function perDay(unit: string, amount: number, options: DayStart = {}): RateRule {
  const endOf = dayEnds('perDay', 'options', '', options);
  return rule({
    ...quota('perDay', { unit, amount: limit('perDay', 'amount', amount), windowMs: DAY_MS }),
    burstMs: 0,
    isStrict: true,
    borrows: true,
    endOf,
    meter: (_perMinute, capacity, now) => new CalendarWindow(capacity, now, endOf),
    reservedMeter: (shares, _perMinute, capacity, now) =>
      new ReservedDay(shares, DAY_MS, new CalendarWindow(capacity, now, endOf), endOf, now),
  });
}

/** @throws FlowConfigError */
export function dayStartOption(operator: string, option: string, startsAt: DayStart): DayStart {
  dayEnds(operator, option, `${option}.`, startsAt);
  return startsAt;
}

/** Answers when the day ends that contains a time. @throws FlowConfigError */
function dayEnds(operator: string, what: string, within: string, startsAt: DayStart): (at: number) => number {
  onlyKnown(operator, startsAt, ['timeZone', 'hour'], what, within);
  const hour = wholeHour(operator, `${within}hour`, orDefault(startsAt.hour, 0));
  const wallTime = wallClock(operator, `${within}timeZone`, orDefault(startsAt.timeZone, 'UTC'));
  const dayOf = (at: number): number => Math.floor((wallTime(at) - hour * HOUR_MS) / DAY_MS);
  return (at) => {
    if (at < FIRST_EPOCH_MS) return (Math.floor(at / DAY_MS) + 1) * DAY_MS;
    const today = dayOf(at);
    let before = Math.floor(at);
    let after = before + LONGEST_DAY_MS;
    while (after - before > 1) {
      const middle = Math.floor((before + after) / 2);
      if (dayOf(middle) > today) after = middle;
      else before = middle;
    }
    return after;
  };
}

const wholeHour = /* @__PURE__ */ check<number>(
  'a whole number from 0 to 23',
  (hour: number) => Number.isInteger(hour) && hour >= 0 && hour < 24,
);

/** What the clocks of a time zone show at a time, in ms since 1970 as if they showed UTC. @throws FlowConfigError */
function wallClock(operator: string, option: string, timeZone: string): (at: number) => number {
  let format: Intl.DateTimeFormat;
  try {
    const numbers = { year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric', second: 'numeric' } as const;
    format = new Intl.DateTimeFormat('en-US', { timeZone, hourCycle: 'h23', ...numbers });
  } catch {
    throw new FlowConfigError(operator, option, "the name of a time zone, such as 'America/Los_Angeles'", timeZone);
  }
  return (at) => {
    const shown: Partial<Record<string, number>> = {};
    for (const { type, value } of format.formatToParts(at)) shown[type] = Number(value);
    const { year = 0, month = 1, day, hour, minute, second } = shown;
    return Date.UTC(year, month - 1, day, hour, minute, second, at % 1000);
  };
}

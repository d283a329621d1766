import type { BackoffOptions } from '../repair/backoff.js';
import { backoffDelayMs } from '../repair/backoff.js';
import type { TokenUnit } from './limit.js';
import { RefusedRate } from './refused-rate.js';

/** What a rate counts. */
export type RateUnit = 'requests' | TokenUnit;

/** What rates are learned of. */
export const RATE_UNITS: readonly RateUnit[] = ['requests', 'tokens', 'inputTokens', 'outputTokens'];

/** What a response says about one limit of the account. Whatever it does not say, or says unusably, is undefined. */
export interface RateReport {
  readonly unit: RateUnit;
  /** Most in one window, > 0. */
  readonly limit: number | undefined;
  /** What was left of it, >= 0. */
  readonly remaining: number | undefined;
  /** Time until all of it is there again (not until the next request may be sent), in ms, >= 0. */
  readonly resetMs: number | undefined;
  /** How long the window is, in ms, > 0; undefined when the headers do not say, which counts as a minute. */
  readonly windowMs: number | undefined;
}

const MINUTE_MS = 60_000;

/** Pauses after a refusal that does not say how long to wait; never near 0, because a pause is what ends an epoch. */
const BACKOFF: BackoffOptions = { delayMs: 200, maxMs: 20_000, jitter: 'equal' };

/** With fewer successes than this for each refusal, next to nothing goes through. */
const NEXT_TO_NOTHING = 0.25;

/** A probe has to come now and then: what is slower than a sixteenth is left to the pauses. */
const LEAST_SHARE = 0.0625;

/**
 * What the responses of a provider teach about the account's rates. From times and responses it computes how fast to go, how much may still be
 * spent, and how long to pause.
 *
 * - **How fast.** The limit that was reported last, up or down. A lower configured limit still holds.
 * - **A window that is used up, of a provider that reports no limit.** The requests that it let through in that window are the limit ({@link RefusedRate}).
 * - **How much.** `remaining` can only lower what is saved up, never raise it, and never brings it into debt.
 * - **Refused without a reason.** All answers to what was sent before the pause are one epoch: it halves the rates once. Successes bring them
 *   back in equal steps, within a minute. Pauses grow only while next to nothing goes through: longer pauses do not help with a provider that
 *   refuses a part of all calls, however few are sent.
 *
 * Source: additive increase, multiplicative decrease (Chiu and Jain, 1989), once per epoch as in TCP NewReno.
 */
export class RateLesson {
  readonly #perMinute: Record<RateUnit, number> = {
    requests: Infinity,
    tokens: Infinity,
    inputTokens: Infinity,
    outputTokens: Infinity,
  };
  readonly #refusals = new RefusedRate();
  /** When the request was sent whose report was taken over last. */
  #newestSentAt = -Infinity;
  #share = 1;
  /** Up to when successes have been counted. */
  #countedUntil = 0;
  /** The end of the last pause made here: what was sent before belongs to an epoch that has had its effect. */
  #epochEndsAt = -Infinity;
  #pauseMs = 0;
  /** What the length of the pause goes by: epochs in which next to nothing went through, less the others. */
  #epochs = 0;
  /** Answers since the last epoch began, not counting the refusal that began it. */
  #good = 0;
  #bad = 0;

  /** The reported limit, per minute; of a provider that reports none, what its refusals show of requests. Infinity when nothing was said. */
  perMinute(unit: RateUnit): number {
    const isSilent = unit === 'requests' && this.#newestSentAt === -Infinity;
    return isSilent ? this.#refusals.perMinute : this.#perMinute[unit];
  }

  /** The part of the rates that is to be used: 1, and less after refusals without a reason. */
  get share(): number {
    return this.#share;
  }

  /** Takes over the limits that a response reports. False when a newer request has been answered: what an older one says is out of date. */
  report(sentAt: number, reports: readonly RateReport[]): boolean {
    if (sentAt < this.#newestSentAt) return false;
    this.#newestSentAt = sentAt;
    for (const unit of RATE_UNITS) {
      const rates = reports.flatMap((report) =>
        report.unit === unit && report.limit !== undefined ? ratePerMinute(report, report.limit) : [],
      );
      if (rates.length > 0) this.#perMinute[unit] = Math.min(...rates);
    }
    return true;
  }

  /**
   * A request was refused without a time to wait. Returns the pause that is to begin now, in ms, and halves the rates; undefined when the request
   * belongs to an epoch that has had its pause. `random01` is a number from 0 to 1.
   */
  refused(sentAt: number, now: number, random01: number): number | undefined {
    if (sentAt < this.#epochEndsAt) {
      this.#bad++;
      return undefined;
    }
    this.#epochs = sentAt - this.#epochEndsAt <= this.#pauseMs ? this.#soonAgain() : 1;
    this.#good = this.#bad = 0;
    this.#pauseMs = backoffDelayMs(this.#epochs, BACKOFF, random01);
    this.#epochEndsAt = this.#countedUntil = now + this.#pauseMs;
    this.#share = Math.max(LEAST_SHARE, this.#share / 2);
    return this.#pauseMs;
  }

  /** A request was refused, and the answer says for how long and which window is used up. */
  usedUp(sentAt: number, now: number, waitMs: number, windowMs: number): void {
    this.#refusals.refused(sentAt, now, waitMs, windowMs);
  }

  /** A request has succeeded: the rates go up by the part of a minute that has passed since the last one did. */
  succeeded(sentAt: number, now: number): void {
    this.#refusals.passed(sentAt, now);
    this.#good++;
    if (sentAt < this.#epochEndsAt) return;
    this.#share = Math.min(1, this.#share + Math.max(0, now - this.#countedUntil) / MINUTE_MS);
    this.#countedUntil = now;
  }

  /** The pause was ended from outside: requests sent from now on belong to no epoch. */
  resumed(now: number): void {
    this.#refusals.resumed(now);
    this.#epochEndsAt = Math.min(this.#epochEndsAt, now);
  }

  /** Refused again soon after the pause: it was too short, unless the others went through. */
  #soonAgain(): number {
    if (this.#good === 0 || this.#good < this.#bad * NEXT_TO_NOTHING) return this.#epochs + 1;
    return this.#good > this.#bad ? 1 : Math.max(1, this.#epochs - 1);
  }
}

/**
 * The most that may be saved up of a unit, according to reports just taken over; Infinity when they do not say. `spent` is what was spent
 * since the request that was answered was sent, itself not included, and `refilled` what has come in since at our own rate.
 *
 * The provider counts a request when it comes in. Requests sent before this one are in its number, answered or not; one that was sent after
 * may be or not, and is taken as not yet counted. So while it is on its way it may be taken off twice, which errs on the safe
 * side. The answer is never below 0: the next request is one interval of the rate away at most, however often this happens, and nothing
 * ever waits for a debt that only exists on paper.
 */
export function mostLeft(reports: readonly RateReport[], unit: RateUnit, spent: number, refilled: number): number {
  let remaining = Infinity;
  for (const report of reports) if (report.unit === unit) remaining = Math.min(remaining, report.remaining ?? Infinity);
  return Math.max(0, remaining - spent + refilled);
}

/**
 * What a report allows per minute, more than 0.
 *
 * What comes back per minute is what was used divided by the time until all of it is back. Taken alone that would be wrong by orders of
 * magnitude where the reset is rounded to whole seconds (1 of 20,000 used, back in 3 s) or is the end of a fixed window. So what remains may be
 * spent within the minute as well, up to the limit: with a window of a minute that is the limit, however coarse the numbers. Only
 * the quota of a longer window becomes a lower rate, and only when little of it is left.
 */
function ratePerMinute({ remaining, resetMs, windowMs }: RateReport, limit: number): number {
  if (windowMs !== undefined) {
    const comesBack = (limit / windowMs) * MINUTE_MS;
    return Math.min(Math.max(limit, comesBack), (remaining ?? 0) + comesBack);
  }
  if (remaining === undefined || remaining >= limit || resetMs === undefined) return limit;
  return Math.min(limit, remaining + ((limit - remaining) / resetMs) * MINUTE_MS);
}

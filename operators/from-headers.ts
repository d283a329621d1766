import type { Learner, Paid as PaidLease, Rates } from './kernel/limiter/rates.js';
import { boundedHintMs, parseRetryAfterMs } from './kernel/limits/headers.js';
import type { RateSpec } from './kernel/limits/limit.js';
import { parseRateReports, parseRefusalMs, parseWindowMs } from './kernel/limits/rate-headers.js';
import type { RateReport, RateUnit } from './kernel/limits/rate-lesson.js';
import { mostLeft, RATE_UNITS, RateLesson } from './kernel/limits/rate-lesson.js';
import type { Amounts } from './kernel/limits/usage.js';
import { drawnFrom } from './options/ask.js';
import type { LearnRule, RateRule } from './options/limiter.js';
import { checked, flag } from './options/options.js';
import type { ResponseLike } from './options/types.js';
import { perMinute } from './rates.js';
import type { RatedLimiter } from './shell/limiter/rates.js';
import { ratesOf } from './shell/limiter/rates.js';
import { NAME } from './shell/limiter/settings.js';

/**
 * What is learned from headers.
 * @stable
 */
export interface FromHeadersOptions {
  /**
   * Whether responses set the rates: the limits they report, what remains of them, and refusals without a reason. With `false` they only make the
   * pauses that are asked for, for several models with different limits under one limiter. @defaultValue true
   */
  readonly learn?: boolean;
}

/**
 * Learns from responses given to `lease.observe` (or `limiter.observe`): pauses as long as a 429, 503 or 529 asks for, keeps to the rates that
 * `x-ratelimit-*` and `anthropic-ratelimit-*` report, and goes slower for a while after a 429 that says nothing.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown.
 * @example
 * ```ts
 * import { createLimiter, fromHeaders } from 'sluice/operators';
 *
 * const limiter = createLimiter({ learn: fromHeaders() });
 * limiter.observe({ status: 200, headers: { 'x-ratelimit-limit-requests': '500', 'x-ratelimit-remaining-requests': '499' } });
 * limiter.snapshot().requestsPerMinute; // => 500
 * ```
 */
export function fromHeaders(options: FromHeadersOptions = {}): LearnRule {
  const { learn } = checked('fromHeaders', options, { learn: true }, { learn: flag });
  return {
    addTo: (known, limiter) => {
      const all = ratesOf(known, limiter as RatedLimiter);
      all.learner = new HeaderLearner(all, limiter as RatedLimiter, learn);
      return all;
    },
  };
}

/** What was paid until a lease was granted, itself included. */
type Paid = Readonly<Record<RateUnit, number>>;

class HeaderLearner implements Learner {
  private readonly rates: Rates;
  private readonly limiter: RatedLimiter;
  private readonly setsRates: boolean;
  private readonly lesson = new RateLesson();
  private paidSoFar: Paid = { requests: 0, tokens: 0, inputTokens: 0, outputTokens: 0 };

  constructor(rates: Rates, limiter: RatedLimiter, setsRates: boolean) {
    this.rates = rates;
    this.limiter = limiter;
    this.setsRates = setsRates;
  }

  paid(amounts: Amounts): Paid {
    return (this.paidSoFar = sumOf(this.paidSoFar, amounts));
  }

  corrected(mark: unknown, differences: Amounts): Paid | undefined {
    this.paid(differences);
    return mark === undefined ? undefined : sumOf(mark as Paid, differences);
  }

  resumed(now: number): void {
    this.lesson.resumed(now);
  }

  read(response: ResponseLike, lease: PaidLease | undefined, sentAt: number): void {
    const { status, headers } = Object(response) as ResponseLike;
    const isGood = status >= 200 && status < 300;
    // Those that may say when to come again.
    const isRefused = status === 429 || status === 503 || status === 529;
    if (!isGood && !isRefused) return;
    const { lesson, limiter, setsRates } = this;
    const { random, scheduler } = limiter.settings;
    const now = limiter.now();
    const epochMs = scheduler.now();
    const askedMs = isRefused ? (status === 429 ? parseRefusalMs : parseRetryAfterMs)(headers, epochMs) : undefined;
    const hintMs = askedMs === undefined ? undefined : boundedHintMs(askedMs, limiter.tell);
    let backoffMs: number | undefined;
    // The load of the provider says nothing of the rates of the account.
    if (setsRates && status !== 529) {
      const at = Math.min(lease?.grantedAt ?? sentAt, now);
      if (isGood) lesson.succeeded(at, now);
      else if (status === 429) {
        const windowMs = parseWindowMs(headers);
        if (hintMs === undefined) backoffMs = lesson.refused(at, now, drawnFrom(NAME, random));
        else if (windowMs !== undefined) lesson.usedUp(at, now, hintMs, windowMs);
      }
      this.setRates(parseRateReports(headers, epochMs), lease, at, now, backoffMs);
    }
    const pauseMs = hintMs ?? backoffMs;
    if (pauseMs) limiter.penalize(pauseMs);
  }

  private setRates(reports: readonly RateReport[], lease: PaidLease | undefined, sentAt: number, now: number, backoffMs?: number): void {
    const { lesson, limiter, paidSoFar, rates } = this;
    const isNews = reports.length > 0 && lesson.report(sentAt, reports);
    // Without a lease the amount spent since the request is unknown.
    const paidThen = (lease?.mark ?? paidSoFar) as Paid;
    const spanMs = lease ? now - sentAt : 0;
    let isChanged = false;
    for (const unit of RATE_UNITS) {
      const most = lesson.perMinute(unit);
      if (most < Infinity && rates.of(unit).length === 0) rates.set(this.newRate(unit), now);
      for (const rate of rates.of(unit)) {
        const before = rate.perMinute;
        const isNew = rate.meter === undefined;
        rate.learn(most, lesson.share, now);
        if (backoffMs !== undefined) rate.empty(backoffMs, now);
        const about = reports.filter(({ windowMs = 0 }) => rate.isAbout(windowMs));
        const left = mostLeft(about, unit, paidSoFar[unit] - paidThen[unit], rate.refillIn(spanMs));
        if (isNews) rate.lower(left, now);
        // What nothing is said of may have been spent by others.
        if (isNew && left === Infinity && rate.rule.learnedBurstMs !== undefined) rate.lower(rate.refillIn(rate.rule.burstMs), now);
        isChanged ||= rate.perMinute !== before;
      }
    }
    if (isChanged) limiter.freed(true);
  }

  /** Saves up as much as the rate of all tokens does. */
  private newRate(unit: RateUnit): RateSpec & RateRule {
    const [alike] = unit === 'requests' ? [] : this.rates.of('tokens');
    const { burstMs, learnedBurstMs } = (alike?.rule ?? {}) as Partial<RateSpec>;
    return { ...(perMinute(unit, Infinity) as RateSpec & RateRule), ...(burstMs !== undefined && { burstMs, learnedBurstMs }) };
  }
}

function sumOf(before: Paid, { requests = 0, tokens = 0, inputTokens = 0, outputTokens = 0 }: Amounts): Paid {
  return {
    requests: before.requests + requests,
    tokens: before.tokens + tokens,
    inputTokens: before.inputTokens + inputTokens,
    outputTokens: before.outputTokens + outputTokens,
  };
}

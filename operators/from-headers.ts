import { parseRetryAfterMs } from './kernel/limits/headers.js';
import type { RateSpec } from './kernel/limits/limit.js';
import { parseRateReports } from './kernel/limits/rate-headers.js';
import { mostLeft, RateLesson } from './kernel/limits/rate-lesson.js';
import { drawnFrom } from './options/ask.js';
import type { LearnRule, RateRule } from './options/limiter.js';
import { checked, flag } from './options/options.js';
import type { ResponseLike } from './options/types.js';
import { perMinute } from './rates.js';
import type { Learner, RatedLimiter } from './shell/limiter/rates.js';
import { Rates } from './shell/limiter/rates.js';
import { NAME } from './shell/limiter/settings.js';

/** What is learned from headers. */
export interface FromHeadersOptions {
  /**
   * Whether responses set the rates: the limits they report, what remains of them, and refusals without a reason. With `false` they only make the
   * pauses that are asked for, for several models with different limits under one limiter. @defaultValue true
   */
  readonly rates?: boolean;
}

const UNITS = ['requests', 'tokens'] as const;

/**
 * Learns from responses given to `lease.observe` (or `limiter.observe`): pauses as long as a 429, 503 or 529 asks for, keeps to the rates that
 * `x-ratelimit-*` and `anthropic-ratelimit-*` report, and goes slower for a while after a 429 that says nothing.
 *
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
  const { rates } = checked('fromHeaders', options, { rates: true }, { rates: flag });
  return {
    addTo: (known, limiter) => {
      const all = (known as Rates | undefined) ?? new Rates(limiter as RatedLimiter);
      all.learner = new HeaderLearner(all, limiter as RatedLimiter, rates);
      return all;
    },
  };
}

/** What was paid until a lease was granted. */
type Paid = Readonly<Record<(typeof UNITS)[number], number>>;

class HeaderLearner implements Learner {
  private readonly rates: Rates;
  private readonly limiter: RatedLimiter;
  private readonly setsRates: boolean;
  /** Made when there is something to learn. */
  private lesson: RateLesson | undefined = undefined;
  /** Everything paid so far, and since when. */
  private paidSoFar: Paid = { requests: 0, tokens: 0 };
  private paidSince = Infinity;

  constructor(rates: Rates, limiter: RatedLimiter, setsRates: boolean) {
    this.rates = rates;
    this.limiter = limiter;
    this.setsRates = setsRates;
  }

  paid(requests: number, tokens: number, now: number): void {
    this.paidSoFar = { requests: this.paidSoFar.requests + requests, tokens: this.paidSoFar.tokens + tokens };
    if (this.paidSince === Infinity) this.paidSince = now;
  }

  mark(): Paid {
    return this.paidSoFar;
  }

  resumed(now: number): void {
    this.lesson?.resumed(now);
  }

  read(response: ResponseLike, sentAt: number, mark: unknown, now: number): number | undefined {
    const { status, headers } = Object(response) as ResponseLike;
    const isGood = status >= 200 && status < 300;
    // Those that may say when to come again.
    const isRefused = status === 429 || status === 503 || status === 529;
    if (!isGood && !isRefused) return undefined;
    const epochMs = this.limiter.settings.scheduler.now();
    const hintMs = isRefused ? parseRetryAfterMs(headers, epochMs) : undefined;
    if (!this.setsRates) return hintMs;
    if (isGood) this.lesson?.succeeded(sentAt, now);
    const backoffMs = status === 429 && hintMs === undefined ? this.refused(sentAt, now) : undefined;
    const reports = parseRateReports(headers, epochMs);
    const isNews = reports.length > 0 && (this.lesson ??= new RateLesson()).report(sentAt, reports);
    const { lesson } = this;
    if (lesson === undefined) return hintMs;
    // Without a lease nobody knows what was spent since.
    const { paidSoFar } = this;
    const paidThen = (mark ?? paidSoFar) as Paid;
    const spanMs = mark === undefined ? 0 : Math.max(0, now - Math.max(sentAt, this.paidSince));
    for (const unit of UNITS) {
      for (const rate of this.rates.of(unit, unlimited)) {
        rate.learn(lesson.perMinute(unit), lesson.share, now);
        if (backoffMs !== undefined) rate.empty(backoffMs, now);
        if (isNews) rate.lower(mostLeft(reports, unit, paidSoFar[unit] - paidThen[unit], rate.refillIn(spanMs)), now);
      }
    }
    return hintMs ?? backoffMs;
  }

  private refused(sentAt: number, now: number): number | undefined {
    this.lesson ??= new RateLesson();
    return this.lesson.refused(sentAt, now, drawnFrom(NAME, this.limiter.settings.random));
  }
}

function unlimited(unit: string): RateSpec {
  return perMinute(unit, Infinity) as RateSpec & RateRule;
}

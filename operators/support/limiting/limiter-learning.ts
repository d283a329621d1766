import { isRefusal, parseRetryAfterMs } from '../../kernel/limits/headers.js';
import { parseRateReports } from '../../kernel/limits/rate-headers.js';
import { mostLeft, RateLesson } from '../../kernel/limits/rate-lesson.js';
import { drawnFrom } from '../../options/ask.js';
import type { ResponseLike } from '../../options/types.js';
import type { LimiterConfig } from './limiter-options.js';
import { NAME } from './limiter-options.js';
import type { Rates, Spending } from './limiter-rates.js';

/** What is to be done about a response. */
export interface Lesson {
  /** How long nothing may be granted. */
  readonly pauseMs: number | undefined;
  /** The rates in force are others now. */
  readonly hasChanged: boolean;
}

const UNITS = ['requests', 'tokens'] as const;

/** Reads the responses to a limiter's requests, and sets its rates by them. */
export class Learning {
  readonly #config: LimiterConfig;
  readonly #rates: Rates;
  /** Made when there is something to learn. */
  #lesson: RateLesson | undefined;

  constructor(config: LimiterConfig, rates: Rates) {
    this.#config = config;
    this.#rates = rates;
  }

  read(response: ResponseLike, since: Spending, now: number): Lesson {
    const { status, headers } = Object(response) as ResponseLike;
    const isGood = status >= 200 && status < 300;
    const isRefused = isRefusal(status);
    if (!isGood && !isRefused) return { pauseMs: undefined, hasChanged: false };
    const epochMs = this.#config.scheduler.now();
    const hintMs = isRefused ? parseRetryAfterMs(headers, epochMs) : undefined;
    if (!this.#config.learns) return { pauseMs: hintMs, hasChanged: false };
    const before = UNITS.map((unit) => this.#rates.perMinute(unit));
    if (isGood) this.#lesson?.succeeded(since.sentAt, now);
    const backoffMs = status === 429 && hintMs === undefined ? this.#refused(since.sentAt, now) : undefined;
    const reports = parseRateReports(headers, epochMs);
    const isNews = reports.length > 0 && (this.#lesson ??= new RateLesson()).report(since.sentAt, reports);
    if (this.#lesson) this.#rates.adopt(this.#lesson, now);
    if (backoffMs !== undefined) this.#rates.empty(backoffMs, now);
    if (isNews) {
      for (const unit of UNITS) {
        const most = mostLeft(reports, unit, since[unit], this.#rates.comesIn(unit, since.spanMs));
        this.#rates.lower(unit, most, now);
      }
    }
    return { pauseMs: hintMs ?? backoffMs, hasChanged: UNITS.some((unit, i) => this.#rates.perMinute(unit) !== before[i]) };
  }

  /** A pause was ended by hand. */
  resumed(now: number): void {
    this.#lesson?.resumed(now);
  }

  #refused(sentAt: number, now: number): number | undefined {
    this.#lesson ??= new RateLesson();
    return this.#lesson.refused(sentAt, now, drawnFrom(NAME, this.#config.random));
  }
}

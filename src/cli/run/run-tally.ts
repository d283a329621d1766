import type { FlowEvent } from '../../../operators/index.js';
import { AttemptStats } from '../../metrics/attempt-stats.js';
import type { CallRecord } from '../../metrics/call-record.js';
import { createMetrics, type Metrics, type MetricsSnapshot } from '../../metrics/create-metrics.js';
import type { StageSummary } from './run-summary.js';

/** Codes of one stage that are told apart. */
const MAX_CODES = 20;
const MINUTE_MS = 60_000;
/** A single call in the first moment is no rate. */
const LEAST_MS = 1000;

/** What is counted of calls in some time. */
interface Calls {
  readonly attempts: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
}

interface Pace {
  readonly callsPerMinute: number;
  readonly tokensPerMinute: number;
}

/** Counts what happens in a run: some kB, however long it is. */
export class RunTally {
  readonly #stages = new Map<string, AttemptStats>();
  readonly #metrics: Metrics;
  readonly #startedAtMs: number;
  /** Items written when they were last looked at, once a second in the last minute, oldest first. */
  readonly #looks: { readonly atMs: number; readonly written: number }[];
  readonly rows = { ok: 0, partial: 0, failed: 0, earlier: 0, earlierFailed: 0 };
  readonly items = { written: 0, failed: 0 };
  recalled = 0;
  /** Answers of equal requests. */
  cached = 0;
  retries = 0;
  expanded = 0;
  expandedInto = 0;
  /** Calls whose tokens are estimates. */
  estimatedCalls = 0;
  /** Time that rows were in progress, of all of them together. */
  busyMs = 0;

  constructor(nowMs: number) {
    this.#startedAtMs = nowMs;
    this.#looks = [{ atMs: nowMs, written: 0 }];
    this.#metrics = createMetrics({ windowMs: MINUTE_MS, maxLabels: MAX_CODES });
  }

  record(record: CallRecord): void {
    this.#metrics.record(record);
  }

  readonly observe = (event: FlowEvent): void => {
    if (event.type === 'retryScheduled') this.retries += 1;
    // Not of the records: who cuts off an attempt is the stage, and the caller knows only that it was left.
    if (event.type !== 'attemptEnded') return;
    const { lane: stage, outcome, attempt, latencyMs } = event;
    const stats = this.#stages.get(stage) ?? new AttemptStats(MAX_CODES);
    this.#stages.set(stage, stats);
    stats.add(outcome === 'ok' || outcome === 'cancelled' ? outcome : { code: outcome }, attempt, latencyMs);
  };

  /** The calls of the last minute, or of the time since the start. */
  look(nowMs: number): Pace & { readonly resultsPerMinute: number } {
    const { calls, windowMs } = this.#metrics.snapshot().window as NonNullable<MetricsSnapshot['window']>;
    const { written } = this.items;
    const looks = this.#looks;
    if (nowMs - (looks.at(-1)?.atMs ?? -Infinity) >= LEAST_MS) looks.push({ atMs: nowMs, written });
    while (nowMs - (looks[1]?.atMs ?? nowMs) >= MINUTE_MS) looks.shift();
    const { atMs, written: before } = looks[0] ?? { atMs: nowMs, written };
    return { ...perMinute(calls, windowMs), resultsPerMinute: (written - before) / minutesOf(nowMs - atMs) };
  }

  /** All calls of the run. */
  totals(nowMs: number): Calls & Pace & { readonly resultsPerMinute: number } {
    const { attempts, promptTokens, completionTokens } = this.#metrics.snapshot().calls;
    const calls = { attempts, promptTokens, completionTokens };
    const ms = nowMs - this.#startedAtMs;
    return { ...calls, ...perMinute(calls, ms), resultsPerMinute: this.items.written / minutesOf(ms) };
  }

  stages(): StageSummary[] {
    return [...this.#stages].map(([stage, stats]) => {
      const { attempts, cancelled, failures, latencyMs } = stats.snapshot();
      return { stage, calls: attempts - cancelled, failures, latencyMs };
    });
  }
}

function perMinute({ attempts, promptTokens, completionTokens }: Calls, ms: number): Pace {
  const minutes = minutesOf(ms);
  return { callsPerMinute: attempts / minutes, tokensPerMinute: (promptTokens + completionTokens) / minutes };
}

function minutesOf(ms: number): number {
  return Math.max(ms, LEAST_MS) / MINUTE_MS;
}

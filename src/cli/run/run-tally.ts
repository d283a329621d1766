import type { FlowEvent } from '../../../operators/index.js';
import { AttemptStats } from '../../metrics/attempt-stats.js';
import type { CallRecord } from '../../metrics/call-record.js';
import { createMetrics, type Metrics, type MetricsSnapshot } from '../../metrics/create-metrics.js';
import { FailureReasons } from './failure-reasons.js';
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
  readonly #looks: { readonly atMs: number; readonly written: number; readonly finished: number }[];
  readonly rows = { ok: 0, partial: 0, failed: 0, earlier: 0, earlierFailed: 0 };
  readonly items = { written: 0, failed: 0 };
  readonly reasons = new FailureReasons();
  /** Rows that came out of the stages, and had no answer of an earlier run: those the speed of a run is known by. */
  finished = 0;
  #finishedFromMs: number;
  readonly #unusable = new Map<string, number>();
  #isUnsent = false;
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
    this.#finishedFromMs = nowMs;
    this.#looks = [{ atMs: nowMs, written: 0, finished: 0 }];
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
    if (this.#isUnsent && outcome !== 'ok' && outcome !== 'cancelled') {
      this.#isUnsent = false;
      return;
    }
    const stats = this.#stages.get(stage) ?? new AttemptStats(MAX_CODES);
    this.#stages.set(stage, stats);
    stats.add(outcome === 'ok' || outcome === 'cancelled' ? outcome : { code: outcome }, attempt, latencyMs);
  };

  /** The attempt whose end is told next was never sent: the budget had no room for it. */
  unsent(): void {
    this.#isUnsent = true;
    queueMicrotask(() => {
      this.#isUnsent = false;
    });
  }

  /** An answer that came, and is of no use. */
  unusable(stage: string): void {
    this.#unusable.set(stage, (this.#unusable.get(stage) ?? 0) + 1);
  }

  /** The first row is taken up: what was before says nothing about the speed. */
  begin(nowMs: number): void {
    this.#finishedFromMs = nowMs;
    this.#looks.splice(0, Infinity, { atMs: nowMs, written: 0, finished: 0 });
  }

  /** The calls of the last minute, or of the time since the start. Rows that take longer than a minute count over the whole run. */
  look(nowMs: number): Pace & { readonly resultsPerMinute: number; readonly rowsPerMinute: number } {
    const { calls, windowMs } = this.#metrics.snapshot().window as NonNullable<MetricsSnapshot['window']>;
    const { finished } = this;
    const { written } = this.items;
    const looks = this.#looks;
    if (nowMs - (looks.at(-1)?.atMs ?? -Infinity) >= LEAST_MS) looks.push({ atMs: nowMs, written, finished });
    while (nowMs - (looks[1]?.atMs ?? nowMs) >= MINUTE_MS) looks.shift();
    const first = looks[0] ?? { atMs: nowMs, written, finished };
    const minutes = minutesOf(nowMs - first.atMs);
    return {
      ...perMinute(calls, windowMs),
      resultsPerMinute: (written - first.written) / minutes,
      rowsPerMinute: finished > first.finished ? (finished - first.finished) / minutes : finished / minutesOf(nowMs - this.#finishedFromMs),
    };
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
      const unusable = this.#unusable.get(stage) ?? 0;
      return { stage, calls: attempts - cancelled, failures: failures + unusable, unusable, latencyMs };
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

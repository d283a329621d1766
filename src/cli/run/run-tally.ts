import type { FlowEvent } from '../../../operators/types.js';
import type { CallRecord } from '../../metrics/call-record.js';
import { CallStats } from '../../metrics/call-stats.js';
import type { ModelPrices } from '../../pipelines/budget/budget-types.js';
import { priceOf, usdOf } from '../../pipelines/budget/prices.js';
import type { StageSummary } from './run-summary.js';

/** Codes of one stage that are told apart. */
const MAX_CODES = 20;
const SLICE_MS = 1000;
const SLICES = 60;

/** Counts what happens in a run: a few kB, however long it is. */
export class RunTally {
  readonly #stages = new Map<string, CallStats>();
  readonly #models = new Map<string, { calls: number; inputTokens: number; outputTokens: number }>();
  readonly #startedAtMs: number;
  readonly rows = { ok: 0, partial: 0, failed: 0, earlier: 0, earlierFailed: 0 };
  readonly items = { written: 0, failed: 0 };
  recalled = 0;
  retries = 0;
  splits = 0;
  splitInto = 0;
  /** Time that rows were in progress, of all of them together. */
  busyMs = 0;
  #calls = 0;
  #tokens = 0;
  /** Calls and tokens of the last minute, a slice a second. */
  readonly #recent = Array.from({ length: SLICES }, () => ({ slice: -1, calls: 0, tokens: 0 }));

  constructor(nowMs: number) {
    this.#startedAtMs = nowMs;
  }

  record(record: CallRecord, nowMs: number): void {
    const stats = this.#stages.get(record.name) ?? new CallStats(MAX_CODES);
    this.#stages.set(record.name, stats);
    stats.add(record);
    const tokens = (record.promptTokens ?? 0) + (record.completionTokens ?? 0);
    const model = this.#models.get(record.model) ?? { calls: 0, inputTokens: 0, outputTokens: 0 };
    this.#models.set(record.model, model);
    model.calls += 1;
    model.inputTokens += record.promptTokens ?? 0;
    model.outputTokens += record.completionTokens ?? 0;
    this.#calls += 1;
    this.#tokens += tokens;
    const slice = Math.floor(nowMs / SLICE_MS);
    const recent = this.#recent[slice % SLICES] as { slice: number; calls: number; tokens: number };
    if (recent.slice !== slice) Object.assign(recent, { slice, calls: 0, tokens: 0 });
    recent.calls += 1;
    recent.tokens += tokens;
  }

  readonly observe = (event: FlowEvent): void => {
    if (event.type === 'retryScheduled') this.retries += 1;
  };

  get calls(): number {
    return this.#calls;
  }

  /** Of the last minute, or of the time since the start. */
  pace(nowMs: number): { readonly callsPerMinute: number; readonly tokensPerMinute: number } {
    const oldest = Math.floor(nowMs / SLICE_MS) - SLICES;
    const sum = { calls: 0, tokens: 0 };
    for (const { slice, calls, tokens } of this.#recent) {
      if (slice <= oldest) continue;
      sum.calls += calls;
      sum.tokens += tokens;
    }
    return perMinute(sum.calls, sum.tokens, Math.min(nowMs - this.#startedAtMs, SLICES * SLICE_MS));
  }

  overall(nowMs: number): { readonly callsPerMinute: number; readonly tokensPerMinute: number } {
    return perMinute(this.#calls, this.#tokens, nowMs - this.#startedAtMs);
  }

  tokens(): { readonly promptTokens: number; readonly completionTokens: number } {
    const sums = { promptTokens: 0, completionTokens: 0 };
    for (const stats of this.#stages.values()) {
      const { promptTokens, completionTokens } = stats.snapshot();
      sums.promptTokens += promptTokens;
      sums.completionTokens += completionTokens;
    }
    return sums;
  }

  /** By the tokens that the provider has counted. */
  costUsd(prices: ModelPrices): number {
    let amount = 0;
    for (const [model, { calls, inputTokens, outputTokens }] of this.#models) {
      const { usdPerCall = 0, ...price } = prices[model] ?? {};
      amount += usdOf(priceOf(price, { inputTokens, outputTokens })) + calls * usdPerCall;
    }
    return amount;
  }

  stages(): StageSummary[] {
    return [...this.#stages].map(([stage, stats]) => {
      const { attempts, failures, latencyMs } = stats.snapshot();
      return { stage, calls: attempts, failures, latencyMs };
    });
  }
}

function perMinute(calls: number, tokens: number, ms: number): { readonly callsPerMinute: number; readonly tokensPerMinute: number } {
  const minutes = Math.max(ms, SLICE_MS) / 60_000;
  return { callsPerMinute: calls / minutes, tokensPerMinute: tokens / minutes };
}

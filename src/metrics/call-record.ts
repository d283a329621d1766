/** How one attempt ended. `'timeout'` is our own time limit, or the other side's; `'cancelled'` means that nobody wanted the answer any more. */
export type CallStatus = 'success' | 'error' | 'timeout' | 'cancelled';

/** One attempt to call a model, for a log or a trace. It holds no prompt, no answer and no key. */
export interface CallRecord {
  /** Given with the call, or made up: 32 hexadecimal digits. All attempts of one call have it, and all calls of one `callAll`. */
  readonly traceId: string;
  /** 16 hexadecimal digits, different for each attempt. */
  readonly spanId: string;
  /** What the call is for, as its caller says: the name of a property, for example. */
  readonly name: string;
  readonly lane: string;
  /** Whose call it was, as given in `key`; null without one. Never an API key: do not put one there. */
  readonly key: string | null;
  readonly model: string;
  /** How often the call has been sent by now, this time included; a hedge counts. */
  readonly attempt: number;
  /** From sending to the end, in ms; of a stream, to the end of the stream. */
  readonly latencyMs: number;
  /** How long this attempt waited for its permit, in ms. */
  readonly queuedMs: number;
  readonly status: CallStatus;
  /** What went wrong, as a word from a closed set (`HTTP_429`, `ECONNRESET`, `FLOW_ATTEMPT_TIMEOUT`, `PARSE_FAILED`, …); null on success. */
  readonly errorCode: string | null;
  /** All input, as the provider counted it; null when it did not say. */
  readonly promptTokens: number | null;
  /** Of the input: read from the provider's prompt cache, and written to it. */
  readonly cacheReadTokens: number | null;
  readonly cacheWriteTokens: number | null;
  /** All output. */
  readonly completionTokens: number | null;
  /** Of the output: reasoning. */
  readonly reasoningTokens: number | null;
  /** What a budget was charged, in USD; null without one, or without a price. */
  readonly costUsd: number | null;
  /** Whether tokens or cost are estimated in part: the answer broke off, was left, or did not tell its usage. */
  readonly isEstimated: boolean;
}

/** A {@link CallRecord} under the names that log pipelines usually have. */
export interface CallRecordJson {
  readonly trace_id: string;
  readonly span_id: string;
  readonly property: string;
  readonly lane: string;
  readonly key: string | null;
  readonly llm_model: string;
  readonly attempt: number;
  readonly latency_ms: number;
  readonly queued_ms: number;
  readonly status: CallStatus;
  readonly error_code: string | null;
  readonly prompt_tokens: number | null;
  readonly cache_read_tokens: number | null;
  readonly cache_write_tokens: number | null;
  readonly completion_tokens: number | null;
  readonly reasoning_tokens: number | null;
  readonly cost_usd: number | null;
  readonly is_estimated: boolean;
}

/**
 * The record as a line of a JSON log, with times in whole milliseconds.
 *
 * @example
 * ```ts
 * import { callRecordToJson } from 'sluice/metrics';
 *
 * const call = { traceId: '3f5d6c1c', spanId: '9a', name: 'approved_drug_count', lane: 'user', key: 'acme', model: 'gpt-4', attempt: 1 };
 * const outcome = { latencyMs: 2341.4, queuedMs: 0, status: 'success', errorCode: null, costUsd: 0.0327, isEstimated: false } as const;
 * const tokens = { promptTokens: 850, cacheReadTokens: 0, cacheWriteTokens: 0, completionTokens: 120, reasoningTokens: null };
 * const record = { ...call, ...outcome, ...tokens };
 * const { property, latency_ms, prompt_tokens } = callRecordToJson(record);
 * [property, latency_ms, prompt_tokens]; // => ['approved_drug_count', 2341, 850]
 * ```
 */
export function callRecordToJson(record: CallRecord): CallRecordJson {
  return {
    trace_id: record.traceId,
    span_id: record.spanId,
    property: record.name,
    lane: record.lane,
    key: record.key,
    llm_model: record.model,
    attempt: record.attempt,
    latency_ms: Math.round(record.latencyMs),
    queued_ms: Math.round(record.queuedMs),
    status: record.status,
    error_code: record.errorCode,
    prompt_tokens: record.promptTokens,
    cache_read_tokens: record.cacheReadTokens,
    cache_write_tokens: record.cacheWriteTokens,
    completion_tokens: record.completionTokens,
    reasoning_tokens: record.reasoningTokens,
    cost_usd: record.costUsd,
    is_estimated: record.isEstimated,
  };
}

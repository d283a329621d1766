import type { FlowEvent } from '../../operators/index.js';
import { readEvent } from '../inspector/read-event.js';
import type { CallRecord } from './call-record.js';

/**
 * Fields of a log line: names in `snake_case`, values without a shape of their own except lists of item numbers.
 * @beta
 */
export type LogFields = Readonly<Record<string, string | number | boolean | null | readonly number[]>>;

/**
 * An event, or the record of a call, as the fields of a structured log: flat, with stable names. Give it to a logger that takes objects
 * (`pino.info(logFields(event))`), or write `JSON.stringify(logFields(event))` as a line of a file.
 *
 * - An event has its type as `event` (`'attemptEnded'`), and every other field under its own name in `snake_case`: `operator`, `instance`, `at`, `lane`, `batch_id`, `latency_ms`.
 * - A record has `event: 'call'` and the names that log pipelines usually have: `trace_id`, `span_id`, `property`, `llm_model`, `latency_ms`, `error_code`, `prompt_tokens`. Times
 *   are whole milliseconds.
 * - Only the fields of the event's type are copied; fields that other code added are left out. Texts are cut at 200 characters. A value that is not an event is `{ event: 'unknown' }`.
 *
 * @beta
 * @example
 * ```ts
 * import { logFields } from 'sluice/metrics';
 *
 * const fields = logFields({ type: 'attemptEnded', operator: 'batchMap', lane: 'user', batchId: 'b1', size: 3, attempt: 1, outcome: 'ok', latencyMs: 12 });
 * [fields.event, fields.batch_id, fields.latency_ms]; // => ['attemptEnded', 'b1', 12]
 * ```
 */
export function logFields(told: FlowEvent | CallRecord): LogFields {
  if (!('type' in told)) return recordFields(told);
  const read = readEvent(told);
  if (!read) return { event: 'unknown' };
  const { type, ...fields } = read;
  return Object.fromEntries([['event', type], ...Object.entries(fields).map(([name, value]) => [snake(name), value] as const)]);
}

function recordFields(record: CallRecord): LogFields {
  return {
    event: 'call',
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

function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

import type { FlowEvent } from '../../operators/types.js';
import { readEvent } from '../inspector/read-event.js';
import type { CallRecord } from './call-record.js';
import { callRecordToJson } from './call-record.js';

/** What a line of a log has: names in `snake_case`, and nothing that has a shape of its own but the numbers of items. */
export type LogFields = Readonly<Record<string, string | number | boolean | null | readonly number[]>>;

/**
 * An event, or the record of a call, as the fields of a log: flat, with stable names, and only with what an event or a record has. Give it to a
 * logger that takes objects (`pino.info(logFields(event))`).
 *
 * - An event has its type as `event` (`'attemptEnded'`), and all else under its own name in `snake_case`: `operator`, `instance`, `at`, `lane`, `batch_id`, `latency_ms`.
 * - A record has `event: 'call'` and the names of {@link callRecordToJson}.
 * - **Never** carries what somebody has put beside the fields of an event. Texts are cut at 200 characters. What is no event is `{ event: 'unknown' }`.
 *
 * @example
 * ```ts
 * import { logFields } from 'sluice/metrics';
 *
 * const fields = logFields({ type: 'attemptEnded', operator: 'batchMap', lane: 'user', batchId: 'b1', size: 3, attempt: 1, outcome: 'ok', latencyMs: 12 });
 * [fields.event, fields.batch_id, fields.latency_ms]; // => ['attemptEnded', 'b1', 12]
 * ```
 */
export function logFields(told: FlowEvent | CallRecord): LogFields {
  if (!('type' in told)) return { event: 'call', ...callRecordToJson(told) };
  const read = readEvent(told);
  if (!read) return { event: 'unknown' };
  const { type, ...fields } = read;
  return Object.fromEntries([['event', type], ...Object.entries(fields).map(([name, value]) => [snake(name), value] as const)]);
}

/**
 * The same as one line of JSON, without a line break at its end. Infinity is `null` there.
 *
 * @example
 * ```ts
 * import { logLine } from 'sluice/metrics';
 *
 * logLine({ type: 'drained', operator: 'createEmbedder', instance: 'documents' }); // => '{"event":"drained","operator":"createEmbedder","instance":"documents"}'
 * ```
 */
export function logLine(told: FlowEvent | CallRecord): string {
  return JSON.stringify(logFields(told));
}

function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Whether a `finish_reason` says that the answer has ended. Some servers say an empty one, or "null", with every part. */
export function isReason(reason: unknown): reason is string {
  return typeof reason === 'string' && reason !== '' && reason !== 'null';
}

/** What may be wrong with an answer that came. */
export const ANSWER_FAULTS = ['length', 'content_filter', 'refusal', 'empty'] as const;
export type AnswerFault = (typeof ANSWER_FAULTS)[number];

/** Reasons of an end, as providers name them. */
const FAULTS: ReadonlyMap<string, AnswerFault> = /* @__PURE__ */ new Map<string, AnswerFault>([
  ...['length', 'max_tokens', 'max_output_tokens', 'model_length', 'model_context_window_exceeded'].map(
    (reason) => [reason, 'length'] as const,
  ),
  ...['content_filter', 'safety', 'recitation', 'blocklist', 'prohibited_content', 'spii'].map(
    (reason) => [reason, 'content_filter'] as const,
  ),
  ['refusal', 'refusal'],
]);

/** What the reason of an end says is wrong with the answer; undefined for one that ended by itself, or says nothing. */
export function faultOfReason(reason: unknown): AnswerFault | undefined {
  return typeof reason === 'string' ? FAULTS.get(reason.toLowerCase()) : undefined;
}

/** What everything is called: spans, instruments, attributes. */
export const FLOW_NAMES = {
  // Spans
  callSpan: 'flow.call',
  batchSpan: 'flow.batch',
  attemptSpan: 'flow.attempt',
  /** In front of the name of the model. */
  modelSpan: 'flow.model',
  // Instruments
  items: 'flow.items',
  itemDuration: 'flow.item.duration',
  batchSize: 'flow.batch.size',
  batchWait: 'flow.batch.wait',
  attemptDuration: 'flow.attempt.duration',
  retries: 'flow.retries',
  splits: 'flow.splits',
  hedges: 'flow.hedges',
  modelDuration: 'flow.model.duration',
  modelWait: 'flow.model.wait',
  modelTokens: 'flow.model.tokens',
  queued: 'flow.queued',
  heldByRate: 'flow.held_by_rate',
  heldBySlot: 'flow.held_by_slot',
  executing: 'flow.executing',
  requestsLeft: 'flow.requests_left',
  tokensLeft: 'flow.tokens_left',
  // Attributes
  operator: 'flow.operator',
  instance: 'flow.name',
  observed: 'flow.observed',
  lane: 'flow.lane',
  reason: 'flow.reason',
  outcome: 'flow.outcome',
  errorType: 'error.type',
  size: 'flow.size',
  weight: 'flow.weight',
  attempt: 'flow.attempt_number',
  splitDepth: 'flow.split_depth',
  model: 'flow.model',
  callName: 'flow.call_name',
  traceId: 'flow.trace_id',
  tokenType: 'flow.token_type',
  inputTokens: 'flow.input_tokens',
  outputTokens: 'flow.output_tokens',
} as const;

/** A name for each of {@link FLOW_NAMES}. */
export type OtelNames = Readonly<Record<keyof typeof FLOW_NAMES, string>>;

/**
 * What the conventions for generative AI have a name for, as `names`. They are in development and being renamed: what is different
 * where you look at it, put behind them, `{ ...GEN_AI_NAMES, modelDuration: 'gen_ai.client.inference.duration' }`.
 * @beta
 */
export const GEN_AI_NAMES = {
  modelSpan: 'chat',
  modelDuration: 'gen_ai.client.operation.duration',
  modelTokens: 'gen_ai.client.token.usage',
  model: 'gen_ai.request.model',
  tokenType: 'gen_ai.token.type',
  inputTokens: 'gen_ai.usage.input_tokens',
  outputTokens: 'gen_ai.usage.output_tokens',
} as const satisfies Partial<OtelNames>;

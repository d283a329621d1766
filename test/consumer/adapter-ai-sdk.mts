import type { ChatTransport, EmbeddingModelMiddleware, LanguageModelMiddleware, UIMessage } from 'ai';
import { createLimiter, type Settled } from 'sluice';
import {
  type CallRules,
  COALESCE_TEXT_DEFAULTS,
  type CoalesceTextOptions,
  coalesceText,
  createEmbeddingModelMiddleware,
  createLanguageModelMiddleware,
  type DeltaOptions,
  EMBEDDING_MODEL_MIDDLEWARE_DEFAULTS,
  type EmbeddingModelMiddlewareOptions,
  type EmbeddingRules,
  type EmbedSettledOptions,
  embedSettled,
  type FlowTransportOptions,
  flowTransport,
  type LanguageModelMiddlewareOptions,
  type LanguageModelParams,
} from 'sluice/ai-sdk';

const limiter = createLimiter({ concurrency: 2 });
const rules: CallRules = { limiter };
const options: LanguageModelMiddlewareOptions = { ...rules, cost: ({ prompt }: LanguageModelParams) => ({ tokens: prompt.length }) };
export const language: LanguageModelMiddleware = createLanguageModelMiddleware(options);

const embeddingRules: EmbeddingRules = { limiter, countTokens: (value) => value.length };
const embeddingOptions: EmbeddingModelMiddlewareOptions = { ...embeddingRules, rejected: EMBEDDING_MODEL_MIDDLEWARE_DEFAULTS.rejected };
export const embedding: EmbeddingModelMiddleware = createEmbeddingModelMiddleware(embeddingOptions);
export const settled = (model: EmbedSettledOptions['model']): Promise<Settled<string, number[]>[]> =>
  embedSettled({ model, values: ['a'], ...embeddingRules });

const coalescing: CoalesceTextOptions = { maxWaitMs: COALESCE_TEXT_DEFAULTS.maxWaitMs };
export const transform = coalesceText(coalescing);

const pace: DeltaOptions = { pace: 'frame' };
const flowing: FlowTransportOptions = { ...pace, supersede: true };
export const transport = (inner: ChatTransport<UIMessage>): ChatTransport<UIMessage> => flowTransport(inner, flowing);

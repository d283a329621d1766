import type { ChatTransport, EmbeddingModelMiddleware, ImageModelMiddleware, LanguageModelMiddleware, UIMessage } from 'ai';
import { createLimiter, type Settled } from 'sluice';
import {
  type CallRules,
  COALESCE_TEXT_DEFAULTS,
  type CoalesceTextOptions,
  coalesceText,
  createEmbeddingModelMiddleware,
  createImageModelMiddleware,
  createLanguageModelMiddleware,
  type DeltaOptions,
  EMBEDDING_MODEL_MIDDLEWARE_DEFAULTS,
  type EmbeddingModelMiddlewareOptions,
  type EmbeddingRules,
  type EmbedSettledOptions,
  embedSettled,
  type FlowTransportOptions,
  flowTransport,
  type ImageModelMiddlewareOptions,
  type ImageModelParams,
  type LanguageModelMiddlewareOptions,
  type LanguageModelParams,
  limitRerankingModel,
  limitSpeechModel,
  limitTranscriptionModel,
  type RerankingModelOptions,
  type RerankingModelParams,
  type SpeechModelOptions,
  type SpeechModelParams,
  type TranscriptionModelOptions,
  type TranscriptionModelParams,
} from 'sluice/ai-sdk';

const limiter = createLimiter({ concurrency: 2 });
const rules: CallRules = { limiter };
const options: LanguageModelMiddlewareOptions = { ...rules, job: ({ prompt }: LanguageModelParams) => ({ cost: { tokens: prompt.length } }) };
export const language: LanguageModelMiddleware = createLanguageModelMiddleware(options);

const imageOptions: ImageModelMiddlewareOptions = { ...rules, job: ({ n }: ImageModelParams) => ({ cost: { requests: n } }) };
export const image: ImageModelMiddleware = createImageModelMiddleware(imageOptions);

const ranking: RerankingModelOptions = { ...rules, job: ({ query }: RerankingModelParams) => ({ cost: { tokens: query.length } }) };
const speech: SpeechModelOptions = { ...rules, job: ({ text }: SpeechModelParams) => ({ cost: { tokens: text.length } }) };
const transcripts: TranscriptionModelOptions = { ...rules, job: ({ mediaType }: TranscriptionModelParams) => ({ lane: mediaType }) };
type Of<F extends (model: never) => unknown> = Parameters<F>[0];
export const ranked = (model: Of<typeof limitRerankingModel>): typeof model => limitRerankingModel(model, ranking);
export const spoken = (model: Of<typeof limitSpeechModel>): typeof model => limitSpeechModel(model, speech);
export const written = (model: Of<typeof limitTranscriptionModel>): typeof model => limitTranscriptionModel(model, transcripts);

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

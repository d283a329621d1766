export type { CoalesceTextOptions } from './ai-sdk/coalesce-text.js';
export { COALESCE_TEXT_DEFAULTS, coalesceText } from './ai-sdk/coalesce-text.js';
export type { EmbedSettledOptions } from './ai-sdk/embed-settled.js';
export { embedSettled } from './ai-sdk/embed-settled.js';
export type { EmbeddingModelMiddlewareOptions } from './ai-sdk/embedding-model.js';
export { createEmbeddingModelMiddleware, EMBEDDING_MODEL_MIDDLEWARE_DEFAULTS } from './ai-sdk/embedding-model.js';
export type { EmbeddingRules } from './ai-sdk/embeddings.js';
export type { FlowTransportOptions } from './ai-sdk/flow-transport.js';
export { flowTransport } from './ai-sdk/flow-transport.js';
export type { LanguageModelMiddlewareOptions, LanguageModelParams } from './ai-sdk/language-model.js';
export { createLanguageModelMiddleware } from './ai-sdk/language-model.js';
export type {
  ImageModelMiddlewareOptions,
  ImageModelParams,
  RerankingModelOptions,
  RerankingModelParams,
  SpeechModelOptions,
  SpeechModelParams,
  TranscriptionModelOptions,
  TranscriptionModelParams,
} from './ai-sdk/media-models.js';
export { createImageModelMiddleware, limitRerankingModel, limitSpeechModel, limitTranscriptionModel } from './ai-sdk/media-models.js';
export type { CallRules } from './support/call-rules.js';
export type { DeltaOptions } from './support/coalesce-deltas.js';

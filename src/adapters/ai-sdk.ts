export type { CoalesceTextOptions } from './ai-sdk/coalesce-text.js';
export { coalesceText } from './ai-sdk/coalesce-text.js';
export type { EmbedSettledOptions } from './ai-sdk/embed-settled.js';
export { embedSettled } from './ai-sdk/embed-settled.js';
export type { LimitEmbeddingModelOptions } from './ai-sdk/embedding-model.js';
export { limitEmbeddingModel } from './ai-sdk/embedding-model.js';
export type { FlowTransportOptions } from './ai-sdk/flow-transport.js';
export { flowTransport } from './ai-sdk/flow-transport.js';
export type { LimitLanguageModelOptions } from './ai-sdk/language-model.js';
export { limitLanguageModel } from './ai-sdk/language-model.js';
export type {
  LimitImageModelOptions,
  LimitRerankingModelOptions,
  LimitSpeechModelOptions,
  LimitTranscriptionModelOptions,
} from './ai-sdk/media-models.js';
export { limitImageModel, limitRerankingModel, limitSpeechModel, limitTranscriptionModel } from './ai-sdk/media-models.js';
export type { DeltaOptions } from './support/coalesce-deltas.js';

export * from '../operators/index.js';
export type { FlowTotals } from './metrics/flow-stats.js';
export type { Embedder, EmbedderOptions, EmbedderSnapshot, EmbedOptions } from './pipelines/create-embedder.js';
export { createEmbedder, EMBEDDER_DEFAULTS } from './pipelines/create-embedder.js';
export { ProviderError } from './pipelines/embeddings-api.js';
export type { TokenEstimatorOptions } from './tokenizers/estimate.js';
export { createTokenEstimator, estimateTokens } from './tokenizers/estimate.js';

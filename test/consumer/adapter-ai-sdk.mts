import type { ChatTransport, UIMessage } from 'ai';
import { type Settled } from 'sluice';
import { createLimiter } from 'sluice/operators';
import {
  type CoalesceTextOptions,
  coalesceText,
  limitEmbeddingModel,
  limitImageModel,
  limitLanguageModel,
  type DeltaOptions,
  type LimitEmbeddingModelOptions,
  type EmbedSettledOptions,
  embedSettled,
  type FlowTransportOptions,
  flowTransport,
  type LimitImageModelOptions,
  type LimitLanguageModelOptions,
  limitRerankingModel,
  limitSpeechModel,
  limitTranscriptionModel,
  type LimitRerankingModelOptions,
  type LimitSpeechModelOptions,
  type LimitTranscriptionModelOptions,
} from 'sluice/ai-sdk';

const limiter = createLimiter({ concurrency: 2 });
const options: LimitLanguageModelOptions = { limiter, job: ({ prompt }) => ({ cost: { tokens: prompt.length } }) };
type Of<F extends (model: never) => unknown> = Parameters<F>[0];
export const language = (model: Of<typeof limitLanguageModel>): typeof model => limitLanguageModel(model, options);

const imageOptions: LimitImageModelOptions = { limiter, job: ({ n }) => ({ cost: { requests: n } }) };
export const image = (model: Of<typeof limitImageModel>): typeof model => limitImageModel(model, imageOptions);

const ranking: LimitRerankingModelOptions = { limiter, job: ({ query }) => ({ cost: { tokens: query.length } }) };
const speech: LimitSpeechModelOptions = { limiter, job: ({ text }) => ({ cost: { tokens: text.length } }) };
const transcripts: LimitTranscriptionModelOptions = { limiter, job: ({ mediaType }) => ({ lane: mediaType }) };
export const ranked = (model: Of<typeof limitRerankingModel>): typeof model => limitRerankingModel(model, ranking);
export const spoken = (model: Of<typeof limitSpeechModel>): typeof model => limitSpeechModel(model, speech);
export const written = (model: Of<typeof limitTranscriptionModel>): typeof model => limitTranscriptionModel(model, transcripts);

const embeddingOptions: LimitEmbeddingModelOptions = { limiter, countTokens: (value) => value.length, rejected: 'throw' };
export const embedding = (model: Of<typeof limitEmbeddingModel>): typeof model => limitEmbeddingModel(model, embeddingOptions);
export const settled = (model: EmbedSettledOptions['model']): Promise<Settled<string, number[]>[]> =>
  embedSettled({ model, values: ['a'], limiter });

const coalescing: CoalesceTextOptions = { maxWaitMs: 16 };
export const transform = coalesceText(coalescing);

const pace: DeltaOptions = { pace: 'frame' };
const flowing: FlowTransportOptions = { ...pace, supersede: true };
export const transport = (inner: ChatTransport<UIMessage>): ChatTransport<UIMessage> => flowTransport(inner, flowing);

import type { ChatTransport, UIMessage } from 'ai';
import { type Settled } from 'sluice';
import { createLimiter } from 'sluice/operators';
import {
  type CallRules,
  type CoalesceTextOptions,
  coalesceText,
  limitEmbeddingModel,
  limitImageModel,
  limitLanguageModel,
  type DeltaOptions,
  type LimitEmbeddingModelOptions,
  type EmbeddingRules,
  type EmbedSettledOptions,
  embedSettled,
  type FlowTransportOptions,
  flowTransport,
  type LimitImageModelOptions,
  type ImageModelParams,
  type LimitLanguageModelOptions,
  type LanguageModelParams,
  limitRerankingModel,
  limitSpeechModel,
  limitTranscriptionModel,
  type LimitRerankingModelOptions,
  type RerankingModelParams,
  type LimitSpeechModelOptions,
  type SpeechModelParams,
  type LimitTranscriptionModelOptions,
  type TranscriptionModelParams,
} from 'sluice/ai-sdk';

const limiter = createLimiter({ concurrency: 2 });
const rules: CallRules = { limiter };
const options: LimitLanguageModelOptions = { ...rules, job: ({ prompt }: LanguageModelParams) => ({ cost: { tokens: prompt.length } }) };
type Of<F extends (model: never) => unknown> = Parameters<F>[0];
export const language = (model: Of<typeof limitLanguageModel>): typeof model => limitLanguageModel(model, options);

const imageOptions: LimitImageModelOptions = { ...rules, job: ({ n }: ImageModelParams) => ({ cost: { requests: n } }) };
export const image = (model: Of<typeof limitImageModel>): typeof model => limitImageModel(model, imageOptions);

const ranking: LimitRerankingModelOptions = { ...rules, job: ({ query }: RerankingModelParams) => ({ cost: { tokens: query.length } }) };
const speech: LimitSpeechModelOptions = { ...rules, job: ({ text }: SpeechModelParams) => ({ cost: { tokens: text.length } }) };
const transcripts: LimitTranscriptionModelOptions = { ...rules, job: ({ mediaType }: TranscriptionModelParams) => ({ lane: mediaType }) };
export const ranked = (model: Of<typeof limitRerankingModel>): typeof model => limitRerankingModel(model, ranking);
export const spoken = (model: Of<typeof limitSpeechModel>): typeof model => limitSpeechModel(model, speech);
export const written = (model: Of<typeof limitTranscriptionModel>): typeof model => limitTranscriptionModel(model, transcripts);

const embeddingRules: EmbeddingRules = { limiter, countTokens: (value) => value.length };
const embeddingOptions: LimitEmbeddingModelOptions = { ...embeddingRules, rejected: 'throw' };
export const embedding = (model: Of<typeof limitEmbeddingModel>): typeof model => limitEmbeddingModel(model, embeddingOptions);
export const settled = (model: EmbedSettledOptions['model']): Promise<Settled<string, number[]>[]> =>
  embedSettled({ model, values: ['a'], ...embeddingRules });

const coalescing: CoalesceTextOptions = { maxWaitMs: 16 };
export const transform = coalesceText(coalescing);

const pace: DeltaOptions = { pace: 'frame' };
const flowing: FlowTransportOptions = { ...pace, supersede: true };
export const transport = (inner: ChatTransport<UIMessage>): ChatTransport<UIMessage> => flowTransport(inner, flowing);

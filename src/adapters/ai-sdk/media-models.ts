import type { ImageModel, RerankingModel, SpeechModel, TranscriptionModel } from 'ai';
import { lastValueFrom } from 'rxjs';
import type { ResponseLike, Usage } from '../../../operators/index.js';
import { callOptionsOf } from '../support/call-job.js';
import type { EnteredAttempt } from '../support/entered-attempt.js';
import { heldCall, heldWork } from '../support/held-call.js';
import type { ConnectionRules } from '../support/held-rules.js';
import { heldRules } from '../support/held-rules.js';
import { readAhead } from '../support/read-ahead.js';
import { requestUsage } from '../support/token-counts.js';
import { dealtWith, shown } from './answers.js';
import type { Asked } from './limited-model.js';
import { limited } from './limited-model.js';

type Newest<M> = Extract<M, { readonly specificationVersion: 'v4' }>;
type Drawable = Exclude<ImageModel, string>;
type Rerankable = Exclude<RerankingModel, string>;
type Speakable = Exclude<SpeechModel, string>;
type Transcribable = Exclude<TranscriptionModel, string>;

/** A request for images as `job` sees it. */
export type ImageModelParams = Parameters<Newest<Drawable>['doGenerate']>[0];
/** A request to rank documents. */
export type RerankingModelParams = Parameters<Rerankable['doRerank']>[0];
/** A request for speech. */
export type SpeechModelParams = Parameters<Speakable['doGenerate']>[0];
/** A request for the text of a recording. */
export type TranscriptionModelParams = Parameters<Transcribable['doGenerate']>[0];

/**
 * What surrounds each request for images.
 * @beta
 */
export type LimitImageModelOptions = ConnectionRules<ImageModelParams>;
/**
 * What surrounds each request to a model that ranks documents.
 * @beta
 */
export type LimitRerankingModelOptions = ConnectionRules<RerankingModelParams>;
/**
 * What surrounds each request for speech.
 * @beta
 */
export type LimitSpeechModelOptions = ConnectionRules<SpeechModelParams>;
/**
 * What surrounds each request for the text of a recording.
 * @beta
 */
export type LimitTranscriptionModelOptions = ConnectionRules<TranscriptionModelParams>;

/** Parts of a stream of transcripts that are read ahead of the reader. */
const PARTS_AHEAD = 10_000;

interface Answer {
  readonly usage?: unknown;
  readonly response?: { readonly headers?: unknown } | undefined;
}

interface Streamed extends Answer {
  readonly stream: ReadableStream<unknown>;
}

/** Makes calls under the rules. */
interface Caller {
  readonly call: <R>(params: Asked, send: (params: never) => PromiseLike<R>) => Promise<R>;
  readonly stream: <R extends Streamed>(params: Asked, send: (params: never) => PromiseLike<R>) => Promise<R>;
}

/**
 * The same model under a limiter. Each request of `generateImage` waits for a permit of its own, which it holds until
 * the answer is here. What fails in a way that may pass is sent again, after the pause the server asks for. The limiter learns from the headers, and pays the
 * usage that the answer reports.
 *
 * - **Answers** as the model does.
 * - **Rejects** with the model's own error, the same object. `isRetryable` on it is false then: the attempts are ours, and the SDK adds none. With
 *   `retry: false` it is left alone. Also with the signal's reason, `DeadlineError`, `AttemptTimeoutError`, `BreakerOpenError`, `OverflowError`, `ClosedError`.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range, or `model` is not an image model of a provider.
 * @example
 * ```ts
 * import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
 * import { generateImage } from 'ai';
 * import { createAccount } from 'sluice';
 * import { limitImageModel } from 'sluice/ai-sdk';
 *
 * const answer = { data: [{ b64_json: 'iVBORw0KGgo=' }] };
 * const provider = createOpenAICompatible({ name: 'p', baseURL: 'http://host/v1', fetch: async () => Response.json(answer) });
 * const account = createAccount({ concurrency: 2, requestsPerMinute: 50 });
 *
 * const model = limitImageModel(provider.imageModel('m'), { limiter: account });
 * const { image } = await generateImage({ model, prompt: 'an otter' });
 * image.base64; // => 'iVBORw0KGgo='
 * ```
 */
export function limitImageModel<M extends Drawable>(model: M, options: LimitImageModelOptions = {}): M {
  const { call } = callerOf('limitImageModel', options, ({ prompt }) => requestUsage({ prompt }).inputTokens);
  return limited('limitImageModel', model, 'doGenerate', { doGenerate: call });
}

/**
 * A model for `rerank` that keeps to a limiter: the SDK has no middleware for these. The same model in all else, under the rules of
 * {@link limitImageModel}.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range, or `model` is no model of this kind.
 * @example
 * ```ts
 * import { rerank } from 'ai';
 * import { createAccount } from 'sluice';
 * import { limitRerankingModel } from 'sluice/ai-sdk';
 *
 * const own = { specificationVersion: 'v4', provider: 'p', modelId: 'm' } as const;
 * const answer = { ranking: [{ index: 1, relevanceScore: 0.9 }] };
 * const model = limitRerankingModel({ ...own, doRerank: async () => answer }, { limiter: createAccount({ concurrency: 2 }) });
 * const { rerankedDocuments } = await rerank({ model, query: 'rivers', documents: ['sand', 'water'] });
 * rerankedDocuments; // => ['water']
 * ```
 */
export function limitRerankingModel<M extends Rerankable>(model: M, options: LimitRerankingModelOptions = {}): M {
  const { call } = callerOf(
    'limitRerankingModel',
    options,
    ({ query, documents }) => requestUsage({ prompt: [query, documents.values] }).inputTokens,
  );
  return limited('limitRerankingModel', model, 'doRerank', { doRerank: call });
}

/**
 * A model for `generateSpeech` (`experimental_generateSpeech` of AI SDK 6) that keeps to a limiter, likewise.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range, or `model` is no model of this kind.
 * @example
 * ```ts
 * import { createOpenAI } from '@ai-sdk/openai';
 * import { createAccount } from 'sluice';
 * import { limitSpeechModel } from 'sluice/ai-sdk';
 *
 * const model = limitSpeechModel(createOpenAI({ apiKey: 'secret' }).speech('tts-1'), { limiter: createAccount({ concurrency: 2 }) });
 * model.modelId; // => 'tts-1'
 * ```
 */
export function limitSpeechModel<M extends Speakable>(model: M, options: LimitSpeechModelOptions = {}): M {
  const { call } = callerOf(
    'limitSpeechModel',
    options,
    ({ text, instructions }) => requestUsage({ input: text, instructions }).inputTokens,
  );
  return limited('limitSpeechModel', model, 'doGenerate', { doGenerate: call });
}

/**
 * A model for `transcribe` (`experimental_transcribe` of AI SDK 6) that keeps to a limiter, likewise; also where the provider fetches the recording itself, or
 * answers with a stream, which holds its permit until it ends.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range, or `model` is no model of this kind.
 * @example
 * ```ts
 * import { createOpenAI } from '@ai-sdk/openai';
 * import { createAccount } from 'sluice';
 * import { limitTranscriptionModel } from 'sluice/ai-sdk';
 *
 * const whisper = createOpenAI({ apiKey: 'secret' }).transcription('whisper-1');
 * const model = limitTranscriptionModel(whisper, { limiter: createAccount({ concurrency: 2 }) });
 * model.modelId; // => 'whisper-1'
 * ```
 */
export function limitTranscriptionModel<M extends Transcribable>(model: M, options: LimitTranscriptionModelOptions = {}): M {
  // How many tokens a recording has is not known.
  const { call, stream } = callerOf('limitTranscriptionModel', options, () => 0);
  return limited('limitTranscriptionModel', model, 'doGenerate', { doGenerate: call, doGenerateFromUrl: call, doStream: stream });
}

function callerOf<Q extends Asked>(name: string, options: ConnectionRules<Q>, tokensOf: (params: Q) => number): Caller {
  const held = heldRules(name, options, []);
  const optionsOf = callOptionsOf<Q>(name, options, (params) => ({
    model: undefined,
    tokens: { inputTokens: tokensOf(params), maxOutputTokens: undefined },
  }));
  const last = <R>(call: Promise<R>): Promise<R> => (options.retry === false ? call : dealtWith(call));
  const how = (params: Asked) => optionsOf(params as Q, params.abortSignal);
  const open = <R>(params: Asked, send: (params: never) => PromiseLike<R>, attempt: EnteredAttempt): Promise<R> =>
    shown(send({ ...params, abortSignal: attempt.signal } as never) as PromiseLike<R & Shown>, attempt);
  return {
    call: (params, send) => {
      const work = heldWork(held, async (attempt: EnteredAttempt) => {
        const result = await open(params, send, attempt);
        attempt.settle(usageOf(result));
        return result;
      });
      return last(lastValueFrom(held.policy(work, how(params))));
    },
    stream: <R extends Streamed>(params: Asked, send: (params: never) => PromiseLike<R>) =>
      last(
        heldCall<R>(held, how(params), {
          open: (attempt) => open(params, send, attempt),
          follow: (result, over, { settle }) => {
            const look = (part: unknown): void => {
              settle(usageOf(part));
            };
            return { ...result, stream: readAhead(result.stream, over, { most: PARTS_AHEAD, sizeOf: () => 1, look }) };
          },
          discard: ({ stream }) => void stream.cancel().catch(() => undefined),
        }),
      ),
  };
}

type Shown = { readonly response?: { readonly headers?: ResponseHeaders } } | undefined;
type ResponseHeaders = Extract<ResponseLike['headers'], Readonly<Record<string, string>>>;

/** Under the names of the SDK, or those of OpenAI, which speech and transcription have as they come. */
function usageOf(answer: unknown): Usage {
  const { usage } = Object(answer) as Answer;
  const { inputTokens, outputTokens, input_tokens, output_tokens } = Object(usage) as Readonly<Record<string, unknown>>;
  const [input, output] = [inputTokens ?? input_tokens, outputTokens ?? output_tokens];
  return { ...(typeof input === 'number' && { inputTokens: input }), ...(typeof output === 'number' && { outputTokens: output }) };
}

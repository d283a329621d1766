import type { ImageModelMiddleware, RerankingModel, SpeechModel, TranscriptionModel } from 'ai';
import { APICallError } from 'ai';

type ImageModel = Parameters<NonNullable<ImageModelMiddleware['wrapGenerate']>>[0]['model'];

type NewestOf<M> = Extract<M, { readonly specificationVersion: 'v4' }>;

const WAV = new Uint8Array([82, 73, 70, 70, 0, 0, 0, 0, 87, 65, 86, 69]);
const OWN = { specificationVersion: 'v4', provider: 'local', modelId: 'm' } as const;

/** Models of the AI SDK that make no text, each over an API of chats, which is asked for what they are given. */
export function mediaModels(url: string, fetch: typeof globalThis.fetch) {
  const ask = async (content: string, signal: AbortSignal | undefined) => {
    const body = { model: 'm', max_tokens: 50, messages: [{ role: 'user', content }] };
    const response = await fetch(url, { method: 'POST', body: JSON.stringify(body), signal: signal ?? null });
    const headers = Object.fromEntries(response.headers);
    const text = await response.text();
    if (!response.ok) {
      const { status: statusCode } = response;
      throw new APICallError({ message: text, url, requestBodyValues: body, statusCode, responseHeaders: headers, responseBody: text });
    }
    const { usage } = JSON.parse(text) as {
      readonly usage: Readonly<Record<'prompt_tokens' | 'completion_tokens' | 'total_tokens', number>>;
    };
    return {
      usage: { inputTokens: usage.prompt_tokens, outputTokens: usage.completion_tokens, totalTokens: usage.total_tokens },
      warnings: [],
      response: { timestamp: new Date(0), modelId: 'm', headers },
    };
  };
  const image: ImageModel = {
    ...{ ...OWN, maxImagesPerCall: 1 },
    doGenerate: async ({ prompt, abortSignal }) => ({ ...(await ask(prompt ?? '', abortSignal)), images: ['iVBORw0KGgo='] }),
  };
  const reranking: NewestOf<RerankingModel> = {
    ...OWN,
    doRerank: async ({ query, abortSignal }) => {
      const { warnings, response } = await ask(query, abortSignal);
      return { warnings, response, ranking: [{ index: 0, relevanceScore: 1 }] };
    },
  };
  const speech: NewestOf<SpeechModel> = {
    ...OWN,
    doGenerate: async ({ text, abortSignal }) => ({ ...(await ask(text, abortSignal)), audio: WAV }),
  };
  const transcription: NewestOf<TranscriptionModel> = {
    ...OWN,
    doGenerate: async ({ audio, abortSignal }) => ({
      ...(await ask(typeof audio === 'string' ? audio : new TextDecoder().decode(audio), abortSignal)),
      ...{ text: 'said', segments: [], language: undefined, durationInSeconds: 1 },
    }),
  };
  return { image, reranking, speech, transcription };
}

import * as sdk from 'ai';
import { generateImage, rerank } from 'ai';
import { VirtualTimeScheduler } from 'rxjs';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Limiter } from '../../operators/index.js';
import { createAccount, FlowConfigError } from '../../operators/index.js';
import { limitImageModel, limitRerankingModel, limitSpeechModel, limitTranscriptionModel } from '../../src/adapters/ai-sdk.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

type Older = Partial<Pick<typeof sdk, 'generateSpeech' | 'transcribe'>> & {
  readonly experimental_generateSpeech: typeof sdk.generateSpeech;
  readonly experimental_transcribe: typeof sdk.transcribe;
};

// Version 6 has them under another name.
const older = sdk as unknown as Older;
const generateSpeech = older.generateSpeech ?? older.experimental_generateSpeech;
const transcribe = older.transcribe ?? older.experimental_transcribe;

/** A model of a provider, whose requests are answered one after the other as it is told. */
class Backend {
  executing = 0;
  most = 0;
  readonly calls: Readonly<Record<string, unknown>>[] = [];
  readonly failures: Error[] = [];
  headers: Record<string, string> = {};
  readonly #waiting: (() => void)[] = [];
  isHeld = false;

  async answer<A extends object>(params: object, answer: A) {
    this.calls.push(params as Readonly<Record<string, unknown>>);
    this.most = Math.max(this.most, ++this.executing);
    const { abortSignal } = params as { readonly abortSignal?: AbortSignal };
    try {
      if (this.isHeld)
        await new Promise<void>((resolve, reject) => {
          this.#waiting.push(resolve);
          abortSignal?.addEventListener('abort', () => {
            reject(abortSignal.reason as Error);
          });
        });
      else await Promise.resolve();
      const failure = this.failures.shift();
      if (failure) throw failure;
      const response = { timestamp: new Date(0), modelId: 'm', headers: this.headers };
      return { warnings: [], response, usage: { inputTokens: 300, outputTokens: 100, totalTokens: 400 }, ...answer };
    } finally {
      this.executing--;
    }
  }
}

/** Nothing spent comes back. */
const STILL = new VirtualTimeScheduler();

const OWN = { specificationVersion: 'v3', provider: 'p', modelId: 'm' } as const;
const WAV = new Uint8Array([82, 73, 70, 70, 0, 0, 0, 0, 87, 65, 86, 69]);

type Make = (
  backend: Backend,
  options: { readonly limiter?: Limiter; readonly retry?: false },
) => (signal?: AbortSignal) => Promise<unknown>;

const withSignal = (signal: AbortSignal | undefined) => signal && { abortSignal: signal };

/** The functions of the SDK, over models that are limited. */
const KINDS: Readonly<Record<string, Make>> = {
  generateImage: (backend, options) => {
    const doGenerate = (params: object) => backend.answer(params, { images: ['iVBORw0KGgo='] });
    const inner = { ...OWN, maxImagesPerCall: 1, doGenerate };
    const model = limitImageModel(inner, options);
    return async (signal) => (await generateImage({ model, prompt: 'x', ...withSignal(signal) })).image.base64;
  },
  rerank: (backend, options) => {
    const doRerank = (params: object) => backend.answer(params, { ranking: [{ index: 1, relevanceScore: 0.9 }] });
    const model = limitRerankingModel({ ...OWN, doRerank } as never, options);
    return async (signal) => (await rerank({ model, query: 'x', documents: ['a', 'b'], ...withSignal(signal) })).rerankedDocuments;
  },
  generateSpeech: (backend, options) => {
    const model = limitSpeechModel({ ...OWN, doGenerate: (params: object) => backend.answer(params, { audio: WAV }) } as never, options);
    return async (signal) => (await generateSpeech({ model, text: 'x', ...withSignal(signal) })).audio.uint8Array.length;
  },
  transcribe: (backend, options) => {
    const answer = { text: 'said', segments: [], language: undefined, durationInSeconds: 1 };
    const model = limitTranscriptionModel({ ...OWN, doGenerate: (params: object) => backend.answer(params, answer) } as never, options);
    return async (signal) => (await transcribe({ model, audio: WAV, ...withSignal(signal) })).text;
  },
};

const refused = (statusCode: number): Error =>
  new sdk.APICallError({
    message: `status ${String(statusCode)}`,
    url: 'http://h',
    requestBodyValues: {},
    statusCode,
    responseHeaders: {},
  });

describe.each(Object.entries(KINDS))('%s', (_, make) => {
  expectNoUnhandledRejections();

  let backend: Backend;

  beforeEach(() => {
    backend = new Backend();
  });

  it('keeps to the limiter, which pays what the answer reports', async () => {
    const limiter = createAccount({ concurrency: 2, tokensPerMinute: 60_000, burstSeconds: 60, headroom: 1, scheduler: STILL });
    const { tokens } = limiter.snapshot();
    const call = make(backend, { limiter });
    await Promise.all([call(), call(), call(), call(), call()]);
    expect(backend.calls).toHaveLength(5);
    expect(backend.most).toBe(2);
    expect(tokens - limiter.snapshot().tokens).toBe(2000);
  });

  it('learns from the headers of the answer', async () => {
    const limiter = createAccount();
    backend.headers = {
      'x-ratelimit-limit-requests': '120',
      'x-ratelimit-remaining-requests': '119',
      'x-ratelimit-reset-requests': '500ms',
    };
    await make(backend, { limiter })();
    expect(limiter.snapshot().requestsPerMinute).toBeLessThan(Infinity);
  });

  it('makes all attempts itself, and none when it is told so', async () => {
    backend.failures.push(refused(503), refused(503));
    await make(backend, {})();
    expect(backend.calls).toHaveLength(3);
    backend.failures.push(refused(400));
    await expect(make(backend, {})()).rejects.toThrow('status 400');
    expect(backend.calls).toHaveLength(4);
  });

  it('aborts what runs, and never sends what waits', async () => {
    const limiter = createAccount({ concurrency: 1 });
    const call = make(backend, { limiter });
    backend.isHeld = true;
    const controller = new AbortController();
    const both = [call(controller.signal), call(controller.signal)].map((one) =>
      one.then(String, (error: unknown) => (error as Error).name),
    );
    await expect.poll(() => backend.calls.length).toBe(1);
    controller.abort();
    expect(await Promise.all(both)).toEqual(['AbortError', 'AbortError']);
    await limiter.whenIdle();
    expect(backend.calls).toHaveLength(1);
  });
});

describe('limitTranscriptionModel', () => {
  const part = { type: 'finish', usage: { input_tokens: 7, output_tokens: 3 } };
  class Model {
    readonly #name = 'private';
    readonly modelId = 'm';
    streams = 0;
    get name(): string {
      return this.#name;
    }
    doGenerate = () => Promise.reject(new Error('never'));
    doGenerateFromUrl = (_params: object) => Promise.resolve(undefined);
    doStream() {
      this.streams++;
      const start = (to: ReadableStreamDefaultController): void => {
        to.enqueue(part);
        to.close();
      };
      const stream = new ReadableStream({ start });
      return Promise.resolve({ stream });
    }
  }

  it('keeps what the model is, and holds the permit of a stream until it ends', async () => {
    const limiter = createAccount({ concurrency: 1, tokensPerMinute: 60_000, burstSeconds: 60, headroom: 1, scheduler: STILL });
    const { tokens } = limiter.snapshot();
    const inner = new Model();
    const model = limitTranscriptionModel(inner as never, { limiter }) as unknown as Model;
    expect([model.name, model.modelId]).toEqual(['private', 'm']);
    await model.doGenerateFromUrl({});
    const { stream } = await (model.doStream as (params: object) => ReturnType<Model['doStream']>)({});
    const parts: unknown[] = [];
    for await (const one of stream) parts.push(one);
    expect(parts).toEqual([part]);
    expect(inner.streams).toBe(1);
    await limiter.whenIdle();
    expect(tokens - limiter.snapshot().tokens).toBe(10);
  });

  it.each([
    ['limitRerankingModel', limitRerankingModel, 'doRerank'],
    ['limitSpeechModel', limitSpeechModel, 'doGenerate'],
    ['limitTranscriptionModel', limitTranscriptionModel, 'doGenerate'],
  ] as const)('%s refuses what is no model', (name, limit, method) => {
    for (const model of [undefined, null, 'm', {}]) {
      const make = () => (limit as (model: unknown) => unknown)(model);
      expect(make).toThrow(FlowConfigError);
      expect(make).toThrow(`${name}: expected \`model\` to be a model of a provider with \`${method}\``);
    }
  });
});

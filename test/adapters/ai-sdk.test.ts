import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import type { EmbeddingModelMiddleware, LanguageModelMiddleware, TextStreamPart, ToolSet, UIMessageChunk } from 'ai';
import {
  APICallError,
  embed,
  embedMany,
  generateText,
  RetryError,
  simulateReadableStream,
  streamText,
  toUIMessageStream,
  wrapEmbeddingModel,
  wrapLanguageModel,
} from 'ai';
import OpenAI from 'openai';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createAccount, createLimiter } from '../../operators/index.js';
import type { LanguageModelParams } from '../../src/adapters/ai-sdk/language-model.js';
import type { CoalesceTextOptions, LimitEmbeddingModelOptions, LimitLanguageModelOptions } from '../../src/adapters/ai-sdk.js';
import { coalesceText, embedSettled, limitEmbeddingModel, limitLanguageModel } from '../../src/adapters/ai-sdk.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import type { ModelApi } from '../fakes/model-api.js';
import { startModelApi } from '../fakes/model-api.js';
import { vectorOf } from '../fakes/model-api-embeddings.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

const LONG = { timeout: 20_000 };
const soon = { timeout: 10_000 };
const retry = { delayMs: 1, jitter: 'none' } as const;
/** An answer of many chunks. */
const LONG_TEXT = 'word '.repeat(60);

let api: ModelApi;

beforeEach(async () => {
  vi.stubGlobal('AI_SDK_LOG_WARNINGS', false);
  api = await startModelApi({ chunks: 40, chunkGapMs: 5 });
});

afterEach(async () => {
  await api.stop();
  vi.unstubAllGlobals();
});

const compatible = () => createOpenAICompatible({ name: 'local', baseURL: api.baseUrl, includeUsage: true });
const limitedModel = (options: LimitLanguageModelOptions) => limitLanguageModel(compatible()('m'), { retry, ...options });
const limitedEmbeddings = (options: LimitEmbeddingModelOptions) =>
  limitEmbeddingModel(compatible().embeddingModel('m'), { retry, ...options });
const failure = (promise: PromiseLike<unknown>): Promise<unknown> =>
  Promise.resolve(promise).then(
    () => expect.unreachable('it succeeded'),
    (error: unknown) => error,
  );
const collected = async <T>(source: AsyncIterable<T>): Promise<T[]> => {
  const all: T[] = [];
  for await (const one of source) all.push(one);
  return all;
};
/** The parts of a stream, by the name that they have in AI SDK 7 or in 6. */
const partsOf = <P>(result: { readonly stream: P }): P => {
  const either = result as { readonly stream?: P; readonly fullStream: P };
  return either.stream ?? either.fullStream;
};
/** The same for pages: a function in AI SDK 7, a method in 6. */
const uiStreamOf = (result: ReturnType<typeof streamText>): AsyncIterable<UIMessageChunk> => {
  const free = toUIMessageStream as typeof toUIMessageStream | undefined;
  return free
    ? free({ stream: result.stream })
    : (result as unknown as { toUIMessageStream(): AsyncIterable<UIMessageChunk> }).toUIMessageStream();
};
const silent = { onError: () => undefined };
const inputsAt = () => api.requests.map(({ body }) => (body as { input: string[] }).input);

describe('limitLanguageModel', LONG, () => {
  expectNoUnhandledRejections();

  it.each([
    ['@ai-sdk/openai-compatible', () => compatible()('m')],
    ['@ai-sdk/openai, chat', () => createOpenAI({ baseURL: api.baseUrl, apiKey: 'k' }).chat('m')],
    ['@ai-sdk/openai, responses', () => createOpenAI({ baseURL: api.baseUrl, apiKey: 'k' }).responses('m')],
  ])('answers as the model does: %s', async (_name, modelOf) => {
    const limiter = createAccount({ concurrency: 1, tokensPerMinute: 60_000 });
    const model = limitLanguageModel(modelOf(), { limiter });
    const { text, usage } = await generateText({ model, prompt: 'hello there' });
    expect(text).toBe('hello there');
    expect(usage).toMatchObject({ inputTokens: 3, outputTokens: 3 });
    const streamed = streamText({ model, prompt: 'hello there' });
    expect(await streamed.text).toBe('hello there');
    expect(await streamed.usage).toMatchObject({ inputTokens: 3, outputTokens: 3 });
    expect(limiter.executing).toBe(0);
    expect(api.completed).toBe(2);
  });

  it('keeps to a limiter that another client shares', async () => {
    const limiter = createLimiter({ concurrency: 2 });
    const model = limitedModel({ limiter });
    const openai = new OpenAI({ baseURL: api.baseUrl, apiKey: 'k', maxRetries: 0, fetch: limitFetch({ limiter }) });
    const asked = ['a', 'b', 'c'].flatMap((content) => [
      streamText({ model, prompt: `ai ${content}` }).text,
      openai.chat.completions.create({ model: 'm', messages: [{ role: 'user', content: `openai ${content}` }] }),
      generateText({ model, prompt: `whole ${content}` }),
    ]);
    expect(await Promise.all(asked)).toHaveLength(9);
    expect(api.completed).toBe(9);
    expect(api.maxInFlight).toBe(2);
    expect(limiter.executing).toBe(0);
  });

  describe('retries', () => {
    it('at the hint of the server, which pauses every call', async () => {
      const limiter = createAccount({ concurrency: 4 });
      api.fail({ status: 429, headers: { 'retry-after-ms': '120' }, message: 'Slow down.' });
      const { text } = await generateText({ model: limitedModel({ limiter }), prompt: 'hello' });
      expect(text).toBe('hello');
      const [first, second] = api.requests;
      expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(110);
      expect(api.requests).toHaveLength(2);
    });

    const down = Array.from({ length: 9 }, () => ({ status: 503, message: 'Overloaded.' }));
    const asks = {
      generateText: (options: LimitLanguageModelOptions, more: object) =>
        generateText({ model: limitedModel(options), prompt: 'hello', ...more }),
      streamText: (options: LimitLanguageModelOptions, more: object) => {
        let failed: unknown;
        const stream = streamText({
          model: limitedModel(options),
          prompt: 'hello',
          ...more,
          onError: ({ error }) => {
            failed = error;
          },
        });
        return (async () => {
          await stream.consumeStream();
          throw failed;
        })();
      },
    };

    it.each(Object.entries(asks))('are ours alone, though %s has retries of its own', async (_name, ask) => {
      for (const more of [{}, { maxRetries: 2 }, { maxRetries: 0 }]) {
        api.clear();
        api.fail(...down);
        const limiter = createLimiter({ concurrency: 2 });
        const error = await failure(ask({ limiter, retry: { ...retry, maxAttempts: 3, maxShare: Infinity } }, more));
        expect(api.requests).toHaveLength(3);
        expect(APICallError.isInstance(error)).toBe(true);
        expect(error).toMatchObject({ name: 'AI_APICallError', message: 'Overloaded.', statusCode: 503, isRetryable: false });
        expect(limiter.executing).toBe(0);
      }
    });

    it('are the SDK’s with `retry: false`, each with a permit of its own', async () => {
      const limiter = createAccount({ concurrency: 1, requestsPerMinute: 600 });
      api.fail({ status: 429, headers: { 'retry-after-ms': '1' }, message: 'Slow down.' });
      const { text } = await generateText({ model: limitedModel({ limiter, retry: false }), prompt: 'hello' });
      expect(text).toBe('hello');
      expect(api.requests).toHaveLength(2);
      api.fail(...down.slice(0, 1));
      const error = await failure(generateText({ model: limitedModel({ limiter, retry: false }), prompt: 'hello', maxRetries: 0 }));
      expect(error).toMatchObject({ statusCode: 503, isRetryable: true });
    });

    it('give the very error that the model threw last', async () => {
      const thrown: unknown[] = [];
      const watching: LanguageModelMiddleware = {
        specificationVersion: 'v4',
        wrapGenerate: async ({ doGenerate }) => {
          try {
            return await doGenerate();
          } catch (error) {
            thrown.push(error);
            throw error;
          }
        },
      };
      api.fail(...down);
      const inner = wrapLanguageModel({ model: compatible()('m'), middleware: watching });
      const model = limitLanguageModel(inner, { retry: { ...retry, maxAttempts: 2, maxShare: Infinity } });
      const error = await failure(generateText({ model, prompt: 'x' }));
      expect(thrown).toHaveLength(2);
      expect(error).toBe(thrown[1]);
      expect(RetryError.isInstance(error)).toBe(false);
    });

    it('do not come for what is refused, and the neighbours succeed', async () => {
      const model = limitedModel({ limiter: createLimiter({ concurrency: 4 }) });
      const prompts = ['a', 'POISON', 'c'];
      const settled = await Promise.allSettled(prompts.map((prompt) => generateText({ model, prompt })));
      expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
      expect(settled[1]).toMatchObject({
        reason: { name: 'AI_APICallError', statusCode: 400, message: 'Invalid prompt: it was refused.' },
      });
      expect(api.requests).toHaveLength(3);
    });
  });

  describe('a stream', () => {
    it('holds its permit until it has been read to its end', async () => {
      const limiter = createLimiter({ concurrency: 2 });
      const model = limitedModel({ limiter });
      const texts = Array.from({ length: 6 }, (_, i) => streamText({ model, prompt: `question ${String(i)}` }).text);
      expect(await Promise.all(texts)).toEqual(Array.from({ length: 6 }, (_, i) => `question ${String(i)}`));
      expect(api.maxInFlight).toBe(2);
      expect(limiter.executing).toBe(0);
    });

    it('gives its permit back when it is aborted: five through two permits', async () => {
      const limiter = createLimiter({ concurrency: 2 });
      const model = limitedModel({ limiter });
      const kinds = await Promise.all(
        Array.from({ length: 5 }, async () => {
          const controller = new AbortController();
          const stream = partsOf(streamText({ model, prompt: LONG_TEXT, abortSignal: controller.signal, ...silent }));
          let deltas = 0;
          let last = '';
          for await (const part of stream) {
            last = part.type;
            if (part.type === 'text-delta' && ++deltas === 5) controller.abort();
          }
          return last;
        }),
      );
      expect(kinds).toEqual(Array.from({ length: 5 }, () => 'abort'));
      await expect.poll(() => limiter.executing, soon).toBe(0);
      expect(limiter.snapshot().queued).toBe(0);
      expect(api.requests).toHaveLength(5);
      await expect.poll(() => api.aborted, soon).toBe(5);
    });

    it('gives its permit back when its reader leaves', async () => {
      const limiter = createLimiter({ concurrency: 1 });
      const { stream } = await limitedModel({ limiter }).doStream({
        prompt: [{ role: 'user', content: [{ type: 'text', text: LONG_TEXT }] }],
      });
      const reader = stream.getReader();
      await reader.read();
      expect(limiter.executing).toBe(1);
      await reader.cancel();
      await expect.poll(() => limiter.executing, soon).toBe(0);
      await expect.poll(() => api.aborted, soon).toBe(1);
    });

    it('ends at the deadline, though its model knows nothing of it', async () => {
      const limiter = createLimiter({ concurrency: 1 });
      const silent: LanguageModelMiddleware = {
        specificationVersion: 'v4',
        wrapStream: () => Promise.resolve({ stream: new ReadableStream() }),
      };
      const inner = wrapLanguageModel({ model: compatible()('m'), middleware: silent });
      const { stream } = await limitLanguageModel(inner, { limiter, deadlineMs: 20 }).doStream({ prompt: [] });
      await expect(stream.getReader().read()).rejects.toMatchObject({ code: 'FLOW_DEADLINE' });
      await expect.poll(() => limiter.executing, soon).toBe(0);
    });

    it('gives its permit back when it breaks, and is not sent again', async () => {
      const limiter = createLimiter({ concurrency: 1 });
      api.fail({ cutStream: 3 });
      const stream = streamText({ model: limitedModel({ limiter }), prompt: LONG_TEXT, ...silent });
      await stream.consumeStream();
      await expect(Promise.resolve(stream.text)).rejects.toThrow();
      await expect.poll(() => limiter.executing, soon).toBe(0);
      expect(api.requests).toHaveLength(1);
    });
  });

  describe('a signal', () => {
    it('that aborts in the queue sends nothing and costs nothing', async () => {
      const limiter = createAccount({ concurrency: 1, requestsPerMinute: 60, tokensPerMinute: 60_000 });
      const model = limitedModel({ limiter });
      const permit = await limiter.acquireAsync();
      const { requests, tokens } = limiter.snapshot();
      for (const ask of [generateText, streamText]) {
        const controller = new AbortController();
        const waiting = ask({ model, prompt: 'x', abortSignal: controller.signal, ...silent });
        const end = 'text' in waiting ? waiting.consumeStream() : failure(waiting);
        await expect.poll(() => limiter.snapshot().queued, soon).toBe(1);
        controller.abort();
        await end;
        expect(limiter.snapshot().queued).toBe(0);
      }
      expect(limiter.snapshot().requests).toBeGreaterThanOrEqual(requests);
      expect(limiter.snapshot().tokens).toBeGreaterThanOrEqual(tokens);
      permit.release();
      expect(api.requests).toHaveLength(0);
    });

    it('that aborts a running call reaches the server', async () => {
      await api.stop();
      api = await startModelApi({ latencyMs: 5000 });
      const limiter = createLimiter({ concurrency: 1 });
      const controller = new AbortController();
      const call = failure(generateText({ model: limitedModel({ limiter }), prompt: 'x', abortSignal: controller.signal }));
      await expect.poll(() => api.inFlight, soon).toBe(1);
      controller.abort();
      expect(await call).toMatchObject({ name: 'AbortError' });
      await expect.poll(() => api.aborted, soon).toBe(1);
      await expect.poll(() => limiter.executing, soon).toBe(0);
      expect(api.requests).toHaveLength(1);
    });

    it('is that of the attempt: one that takes too long is cut off and made again', async () => {
      await api.stop();
      let latencyMs = 5000;
      api = await startModelApi({ latencyMs: () => latencyMs });
      const limiter = createLimiter({ concurrency: 1 });
      const call = generateText({ model: limitedModel({ limiter, timeoutMs: 200 }), prompt: 'x' });
      await expect.poll(() => api.inFlight, soon).toBe(1);
      latencyMs = 0;
      expect((await call).text).toBe('x');
      await expect.poll(() => api.aborted, soon).toBe(1);
    });
  });

  describe('the limiter', () => {
    it('is charged the prompt and what is expected of the answer, and then what the answer says', async () => {
      const limiter = createAccount({ concurrency: 1, tokensPerMinute: 60, burstSeconds: 60_000, headroom: 1 });
      const full = limiter.snapshot().tokens;
      const model = limitedModel({ limiter });
      const spent = () => full - limiter.snapshot().tokens;
      const stream = streamText({ model, prompt: 'four', maxOutputTokens: 5000 });
      const spentAt: Partial<Record<string, number>> = {};
      for await (const { type } of partsOf(stream)) spentAt[type] = spent();
      // Of a model of which nothing is known yet, a quarter of what it may answer.
      expect(spentAt['text-delta']).toBeGreaterThan(1200);
      expect(spentAt['text-delta']).toBeLessThan(1300);
      expect(spent()).toBeLessThan(50);
      await generateText({ model, prompt: 'four', maxOutputTokens: 5000 });
      expect(spent()).toBeLessThan(100);
    });

    it('takes lane and cost from the call', async () => {
      const limiter = createAccount({ concurrency: 1, lanes: [{ name: 'chat' }, { name: 'tools' }], tokensPerMinute: 60_000 });
      const seen: LanguageModelParams[] = [];
      const lanes: unknown[] = [];
      const model = limitedModel({
        limiter,
        job: (params) => {
          seen.push(params);
          return { lane: params.temperature === 0 ? 'tools' : 'chat', cost: { tokens: params.maxOutputTokens ?? 1 } };
        },
        onEvent: (event) => {
          if (event.type === 'accepted') lanes.push(event.lane);
        },
      });
      await generateText({ model, prompt: 'a', temperature: 0, maxOutputTokens: 7 });
      await streamText({ model, prompt: 'b' }).text;
      expect(lanes).toEqual(['tools', 'chat']);
      expect(seen[0]).toMatchObject({ maxOutputTokens: 7, prompt: [{ role: 'user' }] });
    });

    it('learns from headers, of good answers and of refusals', async () => {
      await api.stop();
      api = await startModelApi({ requestsPerMinute: 120 });
      const limiter = createAccount({ concurrency: 1, requestsPerMinute: 6000 });
      await generateText({ model: limitedModel({ limiter }), prompt: 'a' });
      expect(limiter.snapshot().requestsPerMinute).toBe(120);
      const second = createAccount({ concurrency: 1, requestsPerMinute: 6000 });
      api.fail({ status: 429, headers: { 'x-ratelimit-limit-requests': '60', 'retry-after-ms': '1' }, message: 'Slow down.' });
      await failure(generateText({ model: limitedModel({ limiter: second, retry: { maxThrottledMs: 0 } }), prompt: 'a' }));
      expect(second.snapshot().requestsPerMinute).toBe(60);
    });
  });
});

describe('limitEmbeddingModel', LONG, () => {
  expectNoUnhandledRejections();

  const values = ['a', 'b', 'c', 'd', 'e', 'POISON', 'g', 'h'];
  const good = values.filter((value) => value !== 'POISON');

  it('embeds as the model does, with a limiter that others share', async () => {
    const limiter = createAccount({ concurrency: 2, tokensPerMinute: 60_000 });
    const model = limitedEmbeddings({ limiter });
    const others = limitLanguageModel(compatible()('m'), { limiter });
    const [{ embeddings, usage }, { embedding }] = await Promise.all([
      embedMany({ model, values: good }),
      embed({ model, value: 'a' }),
      ...good.map((prompt) => streamText({ model: others, prompt }).text),
    ]);
    expect(embeddings).toEqual(good.map((value) => vectorOf(value)));
    expect(embedding).toEqual(vectorOf('a'));
    expect(usage).toEqual({ tokens: good.length });
    expect(api.maxInFlight).toBe(2);
    expect(limiter.executing).toBe(0);
  });

  it.each([true, false])('gives the error of the bad value itself (named by the server: %s)', async (namePoison) => {
    await api.stop();
    api = await startModelApi({ namePoison });
    const limiter = createLimiter({ concurrency: 2 });
    const error = await failure(embedMany({ model: limitedEmbeddings({ limiter }), values }));
    expect(APICallError.isInstance(error)).toBe(true);
    expect(error).toMatchObject({ name: 'AI_APICallError', statusCode: 400 });
    await expect.poll(() => limiter.executing, soon).toBe(0);
    expect(api.requests.length).toBeLessThanOrEqual(2 * values.length);
  });

  it.each([true, false])("isolates it with `rejected: 'empty'` (named by the server: %s)", async (namePoison) => {
    await api.stop();
    api = await startModelApi({ namePoison });
    const limiter = createLimiter({ concurrency: 2 });
    const { embeddings, warnings, usage } = await embedMany({ model: limitedEmbeddings({ limiter, rejected: 'empty' }), values });
    expect(embeddings).toEqual(values.map((value) => (value === 'POISON' ? [] : vectorOf(value))));
    expect(warnings).toEqual([{ type: 'other', message: 'Value 5 of 8 was refused: its vector is empty.' }]);
    expect(usage).toEqual({ tokens: 7 });
    expect(inputsAt()[0]).toEqual(values);
    expect(api.requests).toHaveLength(namePoison ? 2 : 7);
    expect(api.maxInFlight).toBeLessThanOrEqual(2);
    expect(limiter.executing).toBe(0);
  });

  it("throws with `rejected: 'empty'` what is no fault of a value", async () => {
    const model = limitedEmbeddings({ rejected: 'empty' });
    api.fail({ status: 401, message: 'No key.' });
    expect(await failure(embedMany({ model, values: good }))).toMatchObject({ statusCode: 401, message: 'No key.' });
    expect(api.requests).toHaveLength(1);
    const allBad = ['POISON 1', 'POISON 2'];
    expect(await failure(embedMany({ model, values: allBad }))).toMatchObject({ statusCode: 400 });
    expect(await embed({ model, value: 'POISON' })).toMatchObject({ embedding: [], warnings: [{ type: 'other' }] });
  });

  it("fails with `rejected: 'empty'` for the reason of an abort, whatever that is, also in the middle of a search", async () => {
    await api.stop();
    api = await startModelApi({ namePoison: false, latencyMs: 20 });
    const controller = new AbortController();
    const reason = new Error('the user has left');
    const call = failure(
      embedMany({ model: limitedEmbeddings({ limiter: createLimiter({}), rejected: 'empty' }), values, abortSignal: controller.signal }),
    );
    await expect.poll(() => api.requests.length, soon).toBeGreaterThan(1);
    controller.abort(reason);
    expect(await call).toBe(reason);
  });

  it("throws with `rejected: 'empty'` an error that says nothing, when there was but one value", async () => {
    const error = new TypeError('x is not a function');
    const broken: EmbeddingModelMiddleware = { specificationVersion: 'v4', wrapEmbed: () => Promise.reject(error) };
    const inner = wrapEmbeddingModel({ model: compatible().embeddingModel('m'), middleware: broken });
    const model = limitEmbeddingModel(inner, { rejected: 'empty' });
    expect(await failure(embed({ model, value: 'a' }))).toBe(error);
  });

  it('makes all attempts itself, at the hint of the server', async () => {
    const limiter = createAccount({ concurrency: 2 });
    api.fail({ status: 429, headers: { 'retry-after-ms': '120' }, message: 'Slow down.' });
    const model = limitedEmbeddings({ limiter });
    expect((await embedMany({ model, values: good })).embeddings).toHaveLength(7);
    const [first, second] = api.requests;
    expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(110);
    expect(api.requests).toHaveLength(2);

    api.clear();
    api.fail(...Array.from({ length: 9 }, () => ({ status: 503, message: 'Overloaded.' })));
    const error = await failure(embedMany({ model, values: good, maxRetries: 2 }));
    expect(error).toMatchObject({ name: 'AI_APICallError', message: 'Overloaded.', isRetryable: false });
    expect(api.requests).toHaveLength(3);
  });

  it('leaves retries to the SDK with `retry: false`', async () => {
    api.fail({ status: 429, headers: { 'retry-after-ms': '1' }, message: 'Slow down.' });
    const model = limitedEmbeddings({ retry: false });
    expect((await embedMany({ model, values: good })).embeddings).toHaveLength(7);
    expect(api.requests).toHaveLength(2);
  });

  it('sends nothing for what is aborted in the queue, and aborts at the server what runs', async () => {
    await api.stop();
    api = await startModelApi({ latencyMs: 5000 });
    const limiter = createAccount({ concurrency: 1, requestsPerMinute: 600 });
    const model = limitedEmbeddings({ limiter });
    const permit = await limiter.acquireAsync();
    const { requests } = limiter.snapshot();
    const waits = new AbortController();
    const waiting = failure(embedMany({ model, values: good, abortSignal: waits.signal }));
    await expect.poll(() => limiter.snapshot().queued, soon).toBe(1);
    waits.abort();
    expect(await waiting).toMatchObject({ name: 'AbortError' });
    expect(limiter.snapshot()).toMatchObject({ queued: 0, executing: 1 });
    expect(limiter.snapshot().requests).toBeGreaterThanOrEqual(requests);
    expect(api.requests).toHaveLength(0);
    permit.release();

    const runs = new AbortController();
    const running = failure(embedMany({ model, values: good, abortSignal: runs.signal }));
    await expect.poll(() => api.inFlight, soon).toBe(1);
    const reason = new DOMException('the user has left', 'AbortError');
    runs.abort(reason);
    expect(await running).toBe(reason);
    await expect.poll(() => api.aborted, soon).toBe(1);
    await expect.poll(() => limiter.executing, soon).toBe(0);
  });

  it('pays for the tokens that the answers report', async () => {
    const limiter = createAccount({ concurrency: 1, tokensPerMinute: 60_000, burstSeconds: 60, headroom: 1 });
    const full = limiter.snapshot().tokens;
    await embedMany({ model: limitedEmbeddings({ limiter, countTokens: () => 100 }), values: good });
    expect(full - limiter.snapshot().tokens).toBeLessThan(50);
  });
});

describe('embedSettled', LONG, () => {
  expectNoUnhandledRejections();

  /** A model that takes few values in one request. */
  const model = (middleware: Partial<EmbeddingModelMiddleware> = {}) =>
    wrapEmbeddingModel({
      model: compatible().embeddingModel('m'),
      middleware: { specificationVersion: 'v4', overrideMaxEmbeddingsPerCall: () => 4, ...middleware },
    });
  const values = Array.from({ length: 20 }, (_, i) => (i === 7 || i === 13 ? `POISON ${String(i)}` : `text ${String(i)}`));

  it.each([true, false])('loses no vector because of others (named by the server: %s)', async (namePoison) => {
    await api.stop();
    api = await startModelApi({ namePoison, latencyMs: 5 });
    const limiter = createLimiter({ concurrency: 3 });
    const settled = await embedSettled({ model: model(), values, limiter, retry });
    expect(settled).toHaveLength(20);
    for (const [index, one] of settled.entries()) {
      expect(one).toMatchObject({ input: values[index], index, id: String(index) });
      if (one.status === 'fulfilled') expect(one.value).toEqual(vectorOf(one.input));
      else expect(one.reason).toMatchObject({ name: 'AI_APICallError', statusCode: 400 });
    }
    expect(settled.flatMap(({ status }, index) => (status === 'rejected' ? [index] : []))).toEqual([7, 13]);
    expect(Math.max(...inputsAt().map(({ length }) => length))).toBe(4);
    expect(api.maxInFlight).toBeLessThanOrEqual(3);
    expect(limiter.executing).toBe(0);
  });

  it('answers for no values without a request', async () => {
    expect(await embedSettled({ model: model(), values: [] })).toEqual([]);
    expect(api.requests).toHaveLength(0);
  });

  it('keeps what it has when it is aborted', async () => {
    await api.stop();
    let latencyMs = 0;
    api = await startModelApi({ latencyMs: () => latencyMs });
    const controller = new AbortController();
    const limiter = createLimiter({ concurrency: 1 });
    const all = embedSettled({
      model: model(),
      values: values.slice(0, 7),
      limiter,
      signal: controller.signal,
      onEvent: (event) => {
        if (event.type === 'settled') latencyMs = 5000;
      },
    });
    await expect.poll(() => api.completed === 1 && api.inFlight === 1, soon).toBe(true);
    controller.abort();
    const settled = await all;
    expect(settled.map(({ status }) => status)).toEqual([...Array<string>(4).fill('fulfilled'), ...Array<string>(3).fill('rejected')]);
    expect(settled[6]).toMatchObject({ reason: { name: 'AbortError' }, index: 6 });
    await expect.poll(() => api.aborted, soon).toBe(1);
    await expect.poll(() => limiter.executing, soon).toBe(0);
    const late = await embedSettled({ model: model(), values: ['a'], signal: controller.signal });
    expect(late).toMatchObject([{ status: 'rejected', reason: { name: 'AbortError' }, index: 0 }]);
    expect(api.requests).toHaveLength(2);
  });

  it('sends one request at a time to a model that takes no more, unless told otherwise', async () => {
    await api.stop();
    api = await startModelApi({ latencyMs: 20 });
    const serial = model({ overrideMaxEmbeddingsPerCall: () => 2, overrideSupportsParallelCalls: () => false });
    expect(await embedSettled({ model: serial, values: values.slice(0, 7) })).toHaveLength(7);
    expect(api.maxInFlight).toBe(1);
    expect(await embedSettled({ model: serial, values: values.slice(0, 7), concurrency: 2 })).toHaveLength(7);
    expect(api.maxInFlight).toBe(2);
  });

  it('hands on dimensions and headers', async () => {
    const [one] = await embedSettled({
      model: model(),
      values: ['a'],
      dimensions: 3,
      headers: { 'x-mine': 'yes' },
      providerOptions: { openaiCompatible: { dimensions: 3 } },
    });
    expect(one).toMatchObject({ status: 'fulfilled' });
    expect(api.requests[0]?.headers['x-mine']).toBe('yes');
    expect(api.requests[0]?.body).toMatchObject({ dimensions: 3 });
  });
});

describe('coalesceText', LONG, () => {
  expectNoUnhandledRejections();

  type Part = TextStreamPart<ToolSet>;
  const text = (delta: string, more: object = {}): Part => ({ type: 'text-delta', id: 't1', text: delta, ...more });
  const transform = (options?: CoalesceTextOptions) => coalesceText(options)({ tools: {}, stopStream: () => undefined });
  const merged = (parts: readonly Part[], options?: CoalesceTextOptions): Promise<Part[]> =>
    collected(simulateReadableStream({ chunks: [...parts], chunkDelayInMs: null, initialDelayInMs: null }).pipeThrough(transform(options)));

  it('makes few deltas of 300, with the same text, as parts and as a UI message stream', async () => {
    await api.stop();
    api = await startModelApi({ chunks: 300, chunkGapMs: 1 });
    const asked = 'token '.repeat(300);
    const model = compatible()('m');
    const plain = streamText({ model, prompt: asked });
    const before = (await collected(partsOf(plain))).filter(({ type }) => type === 'text-delta');
    expect(before).toHaveLength(300);

    const stream = partsOf(streamText({ model, prompt: asked, experimental_transform: coalesceText({ maxWaitMs: 50 }) }));
    const parts = await collected(stream);
    const deltas = parts.flatMap((part) => (part.type === 'text-delta' ? [part.text] : []));
    expect(deltas.join('')).toBe(asked);
    expect(deltas.length).toBeLessThan(100);
    expect(parts.map(({ type }) => type).filter((type) => type !== 'text-delta')).toEqual([
      ...['start', 'start-step', 'text-start', 'text-end', 'finish-step', 'finish'],
    ]);

    const ui = streamText({ model, prompt: asked, experimental_transform: coalesceText({ maxWaitMs: 50 }) });
    const chunks: UIMessageChunk[] = await collected(uiStreamOf(ui));
    const shown = chunks.flatMap((chunk) => (chunk.type === 'text-delta' ? [chunk.delta] : []));
    expect(shown.join('')).toBe(asked);
    expect(shown.length).toBeLessThan(100);
  });

  it('merges what is of one kind and id, and keeps the order of all parts', async () => {
    const reasoning = (delta: string) => ({ type: 'reasoning-delta', id: 'r1', text: delta }) as Part;
    const tool = (delta: string, id = 'c1') => ({ type: 'tool-input-delta', id, delta }) as Part;
    const start = { type: 'text-start', id: 't1' } as Part;
    const ping = { type: 'ping' } as Part;
    expect(
      await merged([
        reasoning('a'),
        reasoning('b'),
        start,
        text('c'),
        text('d'),
        ping,
        text('e'),
        tool('{"x'),
        tool('":1}'),
        tool('{}', 'c2'),
        text('f', { id: 't2' }),
        text('g'),
      ]),
    ).toEqual([reasoning('ab'), start, text('cd'), ping, text('e'), tool('{"x":1}'), tool('{}', 'c2'), text('f', { id: 't2' }), text('g')]);
  });

  it('never merges a delta that has metadata of its provider', async () => {
    const signed = text('b', { providerMetadata: { p: { signature: 's' } } });
    expect(await merged([text('a'), signed, text('c'), text('d')])).toEqual([text('a'), signed, text('cd')]);
  });

  it('lets no delta be longer than `maxChars`, but for one that came so', async () => {
    const parts = [text('aaaa'), text('bbbb'), text('cccc'), text('d'.repeat(20)), text('e')];
    expect(await merged(parts, { maxChars: 8 })).toEqual([text('aaaabbbb'), text('cccc'), text('d'.repeat(20)), text('e')]);
  });

  it('lets what waits go after `maxWaitMs`', async () => {
    const slow = simulateReadableStream({ chunks: [text('a'), text('b')], chunkDelayInMs: 150, initialDelayInMs: 0 });
    expect(await collected(slow.pipeThrough(transform({ maxWaitMs: 5 })))).toEqual([text('a'), text('b')]);
  });

  it('gives what waits before the error of a stream that breaks', async () => {
    const reason = new Error('broken');
    const source = new ReadableStream<Part>({
      async start(controller) {
        controller.enqueue(text('a'));
        controller.enqueue(text('b'));
        await new Promise((resolve) => setTimeout(resolve, 20));
        controller.error(reason);
      },
    });
    const reader = source.pipeThrough(transform({ maxWaitMs: Infinity })).getReader();
    expect(await reader.read()).toEqual({ done: false, value: text('ab') });
    await expect(reader.read()).rejects.toBe(reason);
  });

  it('reads on only while its reader waits', async () => {
    let given = 0;
    const endless = new ReadableStream<Part>({
      pull: (controller) => {
        given++;
        controller.enqueue(text('abcd'));
      },
    });
    const reader = endless.pipeThrough(transform({ maxChars: 40 })).getReader();
    expect(await reader.read()).toEqual({ done: false, value: text('abcd'.repeat(10)) });
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(given).toBeLessThan(20);
    await reader.cancel();
    const after = given;
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(given).toBeLessThanOrEqual(after + 1);
  });

  it('cancels its source when its reader leaves, and its timer with it', async () => {
    let reason: unknown;
    const source = new ReadableStream<Part>({
      start: (controller) => {
        controller.enqueue(text('a'));
        controller.enqueue({ type: 'ping' });
        controller.enqueue(text('b'));
      },
      cancel: (given) => {
        reason = given;
      },
    });
    const reader = source.pipeThrough(transform({ maxWaitMs: 20 })).getReader();
    expect(await reader.read()).toEqual({ done: false, value: text('a') });
    await reader.cancel('enough');
    await expect.poll(() => reason, soon).toBe('enough');
  });

  it('may be left while it waits for its source', async () => {
    const source = new ReadableStream<Part>({
      start: (controller) => {
        controller.enqueue({ type: 'ping' } as never);
      },
    });
    const reader = source.pipeThrough(transform()).getReader();
    await reader.read();
    const read = reader.read();
    await new Promise((resolve) => setTimeout(resolve, 5));
    await reader.cancel();
    expect(await read).toEqual({ done: true, value: undefined });
    // It would never come to this, if the source were asked on and on.
    await new Promise((resolve) => setTimeout(resolve, 5));
  });

  it('shows the text that came before a connection broke', async () => {
    api.fail({ cutStream: 20 });
    const stream = partsOf(
      streamText({ model: compatible()('m'), prompt: LONG_TEXT, experimental_transform: coalesceText({ maxWaitMs: 5000 }), ...silent }),
    );
    let shown = '';
    const reading = (async () => {
      for await (const part of stream) if (part.type === 'text-delta') shown += part.text;
    })();
    expect(await failure(reading)).toMatchObject({ name: 'AI_APICallError' });
    expect(shown.length).toBeGreaterThan(50);
  });
});

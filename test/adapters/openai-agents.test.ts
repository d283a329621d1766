import type { Model, ModelRequest, StreamEvent } from '@openai/agents';
import {
  Agent,
  getCurrentTrace,
  OpenAIChatCompletionsModel,
  OpenAIProvider,
  OpenAIResponsesModel,
  Runner,
  retryPolicies,
  setTraceProcessors,
  setTracingDisabled,
  tool,
  Usage,
  withTrace,
} from '@openai/agents';
import OpenAI, { BadRequestError, InternalServerError, RateLimitError } from 'openai';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import type { FlowEvent } from '../../operators/index.js';
import { classifyError, createAccount, createBreaker, createLimiter } from '../../operators/index.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import type { ModelRules } from '../../src/adapters/openai-agents.js';
import { limitModel, limitModelProvider } from '../../src/adapters/openai-agents.js';
import type { ModelApi } from '../fakes/model-api.js';
import { startModelApi } from '../fakes/model-api.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

const LONG = { timeout: 20_000 };
const soon = { timeout: 10_000 };
const retry = { delayMs: 1, jitter: 'none' } as const;
/** An answer of many chunks. */
const LONG_TEXT = 'word '.repeat(60);
const throttled = { status: 429, message: 'Slow down', code: 'rate_limit_exceeded' };

let api: ModelApi;

beforeAll(() => {
  setTracingDisabled(true);
});

beforeEach(async () => {
  api = await startModelApi({ chunks: 40, chunkGapMs: 5 });
});

afterEach(async () => {
  await api.stop();
});

/** With the SDK's default retries. */
const openai = (baseURL = api.baseUrl) => new OpenAI({ apiKey: 'none', baseURL });
const model = (rules: ModelRules = {}) => limitModel(new OpenAIResponsesModel(openai(), 'm'), { retry, ...rules });
const runner = new Runner({ tracingDisabled: true });
const agentOf = (limited: Model) => new Agent({ name: 'Echo', model: limited });

/** A request as the runner makes it. */
const request = (input: string, more: Partial<ModelRequest> = {}): ModelRequest => ({
  input,
  modelSettings: {},
  tools: [],
  outputType: 'text',
  handoffs: [],
  tracing: false,
  ...more,
});

/** A model that counts how often it is asked for something. */
function scripted(...events: readonly StreamEvent[]) {
  const seen = { asked: 0, left: 0, signals: [] as (AbortSignal | undefined)[] };
  const fake: Model = {
    getResponse: () => Promise.resolve({ usage: new Usage(), output: [] }),
    async *getStreamedResponse({ signal }) {
      seen.signals.push(signal);
      try {
        for (const event of events) {
          seen.asked++;
          yield await Promise.resolve(event);
        }
      } finally {
        seen.left++;
      }
    },
  };
  return { fake, seen };
}

const delta = (text: string): StreamEvent => ({ type: 'output_text_delta', delta: text });

describe('limitModel', LONG, () => {
  expectNoUnhandledRejections();

  it('makes an agent with a tool keep to the limits, turn by turn', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const adder = tool({
      name: 'add',
      description: 'Adds two numbers.',
      parameters: z.object({ a: z.number(), b: z.number() }),
      execute: ({ a, b }) => {
        // The model has answered, so its permit is free.
        expect(limiter.executing).toBe(0);
        return String(a + b);
      },
    });
    const agent = new Agent({ name: 'Adder', instructions: 'Add.', tools: [adder], model: model({ limiter }) });
    const result = await runner.run(agent, 'CALL add {"a":2,"b":3}');
    expect(result.finalOutput).toBe('5');
    expect(api.requests.map(({ path }) => path)).toEqual(['/v1/responses', '/v1/responses']);
    expect(limiter.executing).toBe(0);
  });

  it.each([false, true])('lets two of eight runs be under way at a time (streamed: %s)', async (stream) => {
    const slow = await startModelApi({ latencyMs: 100, chunks: 10, chunkGapMs: 5 });
    try {
      const limiter = createLimiter({ concurrency: 2 });
      const agent = agentOf(limitModel(new OpenAIResponsesModel(openai(slow.baseUrl), 'm'), { limiter }));
      const questions = Array.from({ length: 8 }, (_, i) => `question ${String(i)}`);
      const outputs = await Promise.all(
        questions.map(async (question) => {
          if (!stream) return (await runner.run(agent, question)).finalOutput;
          const result = await runner.run(agent, question, { stream });
          for await (const event of result) expect(event.type).toBeTypeOf('string');
          return result.finalOutput;
        }),
      );
      expect(outputs).toEqual(questions);
      expect(slow.maxInFlight).toBe(2);
      expect(slow.completed).toBe(8);
      expect(limiter.executing).toBe(0);
    } finally {
      await slow.stop();
    }
  });

  it('shares a limiter with another client', async () => {
    const limiter = createLimiter({ concurrency: 2 });
    const agent = agentOf(model({ limiter }));
    const limited = new OpenAI({ apiKey: 'none', baseURL: api.baseUrl, maxRetries: 0, fetch: limitFetch({ limiter }) });
    await Promise.all(
      Array.from({ length: 4 }, async () => {
        const { completed } = await runner.run(agent, LONG_TEXT, { stream: true });
        const stream = limited.chat.completions.create({ model: 'm', messages: [{ role: 'user', content: LONG_TEXT }], stream: true });
        for await (const chunk of await stream) expect(chunk.object).toBe('chat.completion.chunk');
        await completed;
      }),
    );
    expect(api.maxInFlight).toBe(2);
    expect(api.completed).toBe(8);
  });

  it('holds the permit of a streamed run as long as the server sends: the runner reads on by itself', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const result = await runner.run(agentOf(model({ limiter })), LONG_TEXT, { stream: true });
    await expect.poll(() => limiter.executing, soon).toBe(1);
    await expect.poll(() => api.completed, soon).toBe(1);
    await expect.poll(() => limiter.executing, soon).toBe(0);
    await result.completed;
    expect(result.finalOutput).toBe(LONG_TEXT);
  });

  describe('a run that is left', () => {
    it('frees the permit of its stream, and the server sees the connection close', async () => {
      const limiter = createLimiter({ concurrency: 1 });
      const agent = agentOf(model({ limiter }));
      const result = await runner.run(agent, LONG_TEXT, { stream: true });
      for await (const event of result) if (event.type === 'raw_model_stream_event' && event.data.type === 'output_text_delta') break;
      await expect.poll(() => limiter.executing, soon).toBe(0);
      await expect.poll(() => api.aborted, soon).toBe(1);
      expect((await runner.run(agent, 'next')).finalOutput).toBe('next');
    });

    it('is aborted at the server', async () => {
      const slow = await startModelApi({ latencyMs: 60_000 });
      try {
        const limiter = createLimiter({ concurrency: 1 });
        const limited = limitModel(new OpenAIResponsesModel(openai(slow.baseUrl), 'm'), { limiter, retry });
        const controller = new AbortController();
        const answer = runner.run(agentOf(limited), 'slow', { signal: controller.signal });
        await expect.poll(() => slow.inFlight, soon).toBe(1);
        const reason = new DOMException('the user has left', 'AbortError');
        controller.abort(reason);
        await expect(answer).rejects.toBe(reason);
        await expect.poll(() => slow.aborted, soon).toBe(1);
        await expect.poll(() => limiter.executing, soon).toBe(0);
        expect(slow.requests).toHaveLength(1);
      } finally {
        await slow.stop();
      }
    });

    it.each([false, true])('in the queue has sent nothing, and cost nothing (streamed: %s)', async (stream) => {
      const limiter = createAccount({ concurrency: 1, requestsPerMinute: 60, tokensPerMinute: 60_000 });
      const lease = limiter.tryAcquire();
      const { requests, tokens } = limiter.snapshot();
      const controller = new AbortController();
      const { signal } = controller;
      const agent = agentOf(model({ limiter }));
      const run = stream
        ? runner.run(agent, 'waits', { signal, stream }).then((result) => result.completed)
        : runner.run(agent, 'waits', { signal });
      await expect.poll(() => limiter.snapshot().queued, soon).toBe(1);
      controller.abort();
      await run.catch((error: unknown) => {
        expect(error).toMatchObject({ name: 'AbortError' });
      });
      await expect.poll(() => limiter.snapshot().queued, soon).toBe(0);
      expect(limiter.snapshot().requests).toBeGreaterThanOrEqual(requests);
      expect(limiter.snapshot().tokens).toBeGreaterThanOrEqual(tokens);
      expect(api.requests).toHaveLength(0);
      lease?.release();
    });
  });

  describe('what fails', () => {
    it('is sent again after the pause the server asks for', async () => {
      api.fail({ ...throttled, headers: { 'retry-after-ms': '150' } });
      const { finalOutput } = await runner.run(agentOf(model({ limiter: createAccount({ concurrency: 4 }) })), 'again');
      expect(finalOutput).toBe('again');
      const [first, second, third] = api.requests;
      expect(third).toBeUndefined();
      expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(140);
    });

    it.each([
      ['responses', () => new OpenAIResponsesModel(openai(), 'm'), false],
      ['responses, streamed', () => new OpenAIResponsesModel(openai(), 'm'), true],
      ['chat completions', () => new OpenAIChatCompletionsModel(openai(), 'm'), false],
      ['chat completions, streamed', () => new OpenAIChatCompletionsModel(openai(), 'm'), true],
    ] as const)('is sent three times, whatever the client of the model would do: %s', async (_, make, stream) => {
      api.fail(...Array.from({ length: 20 }, () => ({ status: 500, message: 'Oh no' })));
      const agent = agentOf(limitModel(make(), { limiter: createAccount({ concurrency: 1 }), retry }));
      const error: unknown = await (stream
        ? runner.run(agent, 'x', { stream }).then((result) => result.completed)
        : runner.run(agent, 'x')
      ).catch((caught: unknown) => caught);
      expect(error).toBeInstanceOf(InternalServerError);
      expect(error).toMatchObject({ status: 500, message: '500 Oh no' });
      expect(api.requests).toHaveLength(3);
    });

    it('is not sent anew by a runner that goes by the advice of its model', async () => {
      const policy = retryPolicies.any(retryPolicies.providerSuggested(), retryPolicies.httpStatus([429]));
      const modelSettings = { retry: { maxRetries: 3, policy, backoff: { initialDelayMs: 1 } } };
      api.fail(...Array.from({ length: 20 }, () => throttled));
      const agent = new Agent({ name: 'Echo', model: model({ retry: { maxThrottledMs: 0 } }), modelSettings });
      await expect(runner.run(agent, 'x')).rejects.toBeInstanceOf(RateLimitError);
      expect(api.requests).toHaveLength(1);
      api.clear();
      api.fail(throttled);
      const theirs = new Agent({ name: 'Echo', model: model({ retry: false }), modelSettings });
      expect((await runner.run(theirs, 'x')).finalOutput).toBe('x');
      expect(api.requests).toHaveLength(2);
    });

    it('is the refused one alone, with the error of the client: its neighbours have their answers', async () => {
      const limiter = createLimiter({ concurrency: 2 });
      const agent = agentOf(model({ limiter }));
      const [before, refused, after] = await Promise.allSettled(
        ['before', 'POISON', 'after'].map(async (text) => (await runner.run(agent, text)).finalOutput),
      );
      expect([before, after]).toMatchObject([{ value: 'before' }, { value: 'after' }]);
      const error: unknown = refused?.status === 'rejected' ? refused.reason : undefined;
      expect(error).toBeInstanceOf(BadRequestError);
      expect(error).toMatchObject({ message: '400 Invalid prompt: it was refused.', code: 'invalid_prompt' });
      expect(api.requests).toHaveLength(3);
    });

    it('rejects with what the model failed with, as the same object', async () => {
      const failure = Object.assign(new Error('x'), { status: 400 });
      const { fake } = scripted();
      const limited = limitModel({ ...fake, getResponse: () => Promise.reject(failure) }, { retry });
      await expect(limited.getResponse(request('x'))).rejects.toBe(failure);
    });

    it('once a stream has begun is not sent again', async () => {
      const limiter = createLimiter({ concurrency: 1 });
      api.fail({ cutStream: 2 });
      const result = await runner.run(agentOf(model({ limiter })), LONG_TEXT, { stream: true });
      await expect(result.completed).rejects.toThrow('terminated');
      await expect.poll(() => limiter.executing, soon).toBe(0);
      expect(api.requests).toHaveLength(1);
    });

    it('is our own error when we end the call, also in the middle of a stream', async () => {
      const limiter = createLimiter({ concurrency: 1 });
      const slow = model({ limiter, timeoutMs: 60 }).getStreamedResponse(request(LONG_TEXT));
      await expect(
        (async () => {
          for await (const event of slow) expect(event.type).not.toBe('response_done');
        })(),
      ).rejects.toMatchObject({ name: 'AttemptTimeoutError' });
      await expect.poll(() => api.aborted, soon).toBe(1);
      await expect.poll(() => limiter.executing, soon).toBe(0);

      const lease = limiter.tryAcquire();
      await expect(model({ limiter, deadlineMs: 20 }).getResponse(request('x'))).rejects.toMatchObject({ code: 'FLOW_DEADLINE' });
      lease?.release();
      const breaker = createBreaker({ classify: classifyError, opens: { minCalls: 1, share: 0.5 } });
      const broken = agentOf(model({ breaker, retry: false }));
      api.fail({ status: 500, message: 'down' });
      await expect(runner.run(broken, 'x')).rejects.toBeInstanceOf(InternalServerError);
      await expect(runner.run(broken, 'x')).rejects.toMatchObject({ code: 'FLOW_BREAKER_OPEN' });
    });
  });

  it.each([
    ['an event to come', () => new Promise<void>(() => undefined)],
    ['its reader', () => Promise.resolve()],
  ])('ends a stream that waits for %s when its time is over, though the model knows nothing of it', async (waitsFor, until) => {
    const limiter = createLimiter({ concurrency: 1 });
    const { fake } = scripted();
    const deaf: Model = {
      ...fake,
      async *getStreamedResponse() {
        yield delta('a');
        await until();
        yield delta('b');
      },
    };
    const events = limitModel(deaf, { limiter, retry, timeoutMs: 30 }).getStreamedResponse(request('x'))[Symbol.asyncIterator]();
    expect(await events.next()).toMatchObject({ done: false });
    if (waitsFor === 'its reader') await expect.poll(() => limiter.executing, soon).toBe(0);
    await expect(events.next()).rejects.toMatchObject({ name: 'AttemptTimeoutError' });
    await expect.poll(() => limiter.executing, soon).toBe(0);
  });

  it('sends each request in the trace of its own run, also when another run released the permit', async () => {
    setTracingDisabled(false);
    setTraceProcessors([]);
    try {
      const limiter = createLimiter({ concurrency: 1 });
      const seen: [input: unknown, trace: string | undefined][] = [];
      const note = ({ input }: ModelRequest) => {
        seen.push([input, getCurrentTrace()?.name]);
      };
      let failures = 2;
      const traced: Model = {
        getResponse: async (asked) => {
          note(asked);
          await new Promise((done) => setTimeout(done, 5));
          if (failures-- > 0) throw Object.assign(new Error('down'), { status: 500 });
          return { usage: new Usage(), output: [] };
        },
        async *getStreamedResponse(asked) {
          note(asked);
          await new Promise((done) => setTimeout(done, 5));
          yield delta('x');
        },
      };
      const limited = limitModel(traced, { limiter, retry });
      const names = ['a', 'b', 'c'];
      const ask = async (name: string) => {
        await limited.getResponse(request(name));
        for await (const event of limited.getStreamedResponse(request(name))) expect(event).toEqual(delta('x'));
      };
      await Promise.all(names.map(async (name) => withTrace(name, async () => ask(name))));
      expect(seen).toHaveLength(8);
      expect(seen.filter(([input, trace]) => input !== trace)).toEqual([]);
    } finally {
      setTracingDisabled(true);
    }
  });

  describe('a stream', () => {
    it('is asked for no more than its reader asks for, and not before', async () => {
      const { fake, seen } = scripted(...Array.from({ length: 100 }, (_, i) => delta(String(i))));
      const limiter = createLimiter({ concurrency: 1 });
      const events = limitModel(fake, { limiter }).getStreamedResponse(request('x'))[Symbol.asyncIterator]();
      expect(seen.signals).toHaveLength(0);
      expect((await events.next()).value).toEqual(delta('0'));
      expect((await events.next()).value).toEqual(delta('1'));
      expect(seen.asked).toBe(2);
      expect(limiter.executing).toBe(1);
      await events.return?.();
      expect(seen).toMatchObject({ asked: 2, left: 1, signals: [{ aborted: true }] });
      await expect.poll(() => limiter.executing, soon).toBe(0);
    });

    it('that has ended before it began gives its permit back', async () => {
      const { fake, seen } = scripted();
      const limiter = createLimiter({ concurrency: 1 });
      for await (const event of limitModel(fake, { limiter }).getStreamedResponse(request('x'))) expect(event).toBeUndefined();
      expect(seen.left).toBe(1);
      expect(limiter.executing).toBe(0);
    });

    it('that opens after its caller aborted is closed', async () => {
      const { fake, seen } = scripted(delta('late'));
      let open = (): void => undefined;
      const late: Model = {
        ...fake,
        async *getStreamedResponse(asked) {
          await new Promise<void>((opened) => {
            open = opened;
          });
          yield* fake.getStreamedResponse(asked);
        },
      };
      const controller = new AbortController();
      const limiter = createLimiter({ concurrency: 1 });
      const events = limitModel(late, { limiter }).getStreamedResponse(request('x', { signal: controller.signal }));
      const first = events[Symbol.asyncIterator]().next();
      await vi.waitFor(() => {
        expect(limiter.executing).toBe(1);
      });
      controller.abort();
      await expect(first).rejects.toMatchObject({ name: 'AbortError' });
      open();
      await expect.poll(() => seen.left, soon).toBe(1);
      expect(limiter.executing).toBe(0);
    });

    it('ends with the reason of the signal, also when the model ends it as if it were whole', async () => {
      const controller = new AbortController();
      const limiter = createLimiter({ concurrency: 1 });
      const events = model({ limiter }).getStreamedResponse(request(LONG_TEXT, { signal: controller.signal }));
      const reason = new Error('enough');
      await expect(
        (async () => {
          for await (const { type } of events) if (type === 'output_text_delta') controller.abort(reason);
        })(),
      ).rejects.toBe(reason);
      await expect.poll(() => api.aborted, soon).toBe(1);
      expect(limiter.executing).toBe(0);
    });
  });

  it('tells the limiter what a request asks for, and pays what it has cost', async () => {
    const lanes = [{ name: 'user' }, { name: 'batch' }];
    const limiter = createAccount({ concurrency: 1, tokensPerMinute: 6000, burstSeconds: 60, headroom: 1, learn: false, lanes });
    const events: FlowEvent[] = [];
    const full = limiter.snapshot().tokens;
    const spent = () => full - limiter.snapshot().tokens;
    const limited = model({
      limiter,
      job: ({ systemInstructions, input }) => ({
        lane: systemInstructions === 'user' ? 'user' : 'batch',
        cost: { tokens: input.length * 1000 },
      }),
      onEvent: (event) => events.push(event),
    });
    const stream = limited.getStreamedResponse(request('hello', { systemInstructions: 'user' }))[Symbol.asyncIterator]();
    await stream.next();
    expect(spent()).toBeGreaterThan(4000);
    while ((await stream.next()).done !== true);
    expect(spent()).toBeLessThanOrEqual(api.tokensCharged);
    await runner.run(agentOf(limited), 'hello');
    expect(spent()).toBeLessThanOrEqual(api.tokensCharged);
    expect(events.filter(({ type }) => type === 'accepted')).toMatchObject([
      { operator: 'limitModel', lane: 'user' },
      { operator: 'limitModel', lane: 'batch' },
    ]);
  });

  it('estimates instructions, input, tools and the answer, and no letters of a picture', async () => {
    const limiter = createAccount({ concurrency: 1, tokensPerMinute: 6000, burstSeconds: 60, headroom: 1 });
    const full = limiter.snapshot().tokens;
    const { fake } = scripted();
    const cost = async (more: Partial<ModelRequest>): Promise<number> => {
      let spent = 0;
      const getResponse: Model['getResponse'] = () => {
        spent = full - limiter.snapshot().tokens;
        return Promise.resolve({ usage: new Usage({ inputTokens: 0, outputTokens: 0 }), output: [] });
      };
      await limitModel({ ...fake, getResponse }, { limiter }).getResponse(request('', more));
      await expect.poll(() => limiter.snapshot().tokens, soon).toBe(full);
      return spent;
    };
    const words = 'some words '.repeat(100);
    const parameters = { type: 'object', properties: {}, required: [] as string[], additionalProperties: false } as const;
    const picture = { type: 'input_image', image: `data:image/png;base64,${'A'.repeat(100_000)}` } as const;
    expect(await cost({ modelSettings: { maxTokens: 5000 } })).toBeGreaterThan(1200);
    expect(await cost({ systemInstructions: words })).toBeGreaterThan(200);
    expect(await cost({ input: [{ role: 'user', content: words }] })).toBeGreaterThan(200);
    expect(await cost({ tools: [{ type: 'function', name: 'f', description: words, parameters, strict: true }] })).toBeGreaterThan(100);
    const seen = await cost({ input: [{ role: 'user', content: [picture] }] });
    expect(seen).toBeGreaterThan(1600);
    expect(seen).toBeLessThan(1650);
  });

  it('is what the model is in all else', async () => {
    const { fake } = scripted();
    const getRetryAdvice = vi.fn(() => ({ suggested: true, reason: 'why', replaySafety: 'safe' as const }));
    const advised: Model = { ...fake, supportsPromptModelSelection: true, getRetryAdvice };
    const failed = { request: request('x'), error: new Error('x'), stream: false, attempt: 1 };
    expect(limitModel(advised).supportsPromptModelSelection).toBe(true);
    expect(limitModel(fake)).not.toHaveProperty('supportsPromptModelSelection');
    expect(await limitModel(advised).getRetryAdvice?.(failed)).toEqual({ suggested: false, reason: 'why', replaySafety: 'safe' });
    expect(await limitModel(advised, { retry: false }).getRetryAdvice?.(failed)).toMatchObject({ suggested: true });
    expect(await limitModel(fake, { retry: false }).getRetryAdvice?.(failed)).toBeUndefined();
    expect(getRetryAdvice).toHaveBeenCalledWith(failed);
  });
});

describe('limitModelProvider', LONG, () => {
  expectNoUnhandledRejections();

  it('holds all models of a provider to the same limits', async () => {
    const limiter = createLimiter({ concurrency: 2 });
    const provider = new OpenAIProvider({ openAIClient: openai() });
    const limited = new Runner({ modelProvider: limitModelProvider(provider, { limiter, retry }), tracingDisabled: true });
    api.fail({ status: 500, message: 'once' });
    const outputs = await Promise.all(
      Array.from({ length: 8 }, async (_, i) => {
        const agent = new Agent({ name: 'Echo', model: `model-${String(i % 2)}` });
        const result = await limited.run(agent, LONG_TEXT, { stream: true });
        await result.completed;
        return result.finalOutput;
      }),
    );
    expect(outputs).toEqual(Array(8).fill(LONG_TEXT));
    expect(api.maxInFlight).toBe(2);
    expect(api.requests).toHaveLength(9);
    expect(new Set(api.requests.map(({ body }) => (body as { readonly model: string }).model))).toEqual(new Set(['model-0', 'model-1']));
  });
});

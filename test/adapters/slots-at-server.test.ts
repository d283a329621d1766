import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import Anthropic from '@anthropic-ai/sdk';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import { OpenAIResponsesModel } from '@openai/agents';
import { embed, generateText } from 'ai';
import { createAgent } from 'langchain';
import OpenAI from 'openai';
import { lastValueFrom } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { Limiter } from '../../operators/index.js';
import { createLimiter } from '../../operators/index.js';
import { embedSettled, limitEmbeddingModel, limitLanguageModel } from '../../src/adapters/ai-sdk.js';
import { anthropicChat, limitAnthropic } from '../../src/adapters/anthropic.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import { limitEmbeddings } from '../../src/adapters/langchain.js';
import { createModelMiddleware } from '../../src/adapters/langchain-agents.js';
import { limitOpenAI, openAIChat, openAIEmbeddings } from '../../src/adapters/openai.js';
import { limitModel } from '../../src/adapters/openai-agents.js';
import { chatCompletions, createEmbedder, createModelCaller, embeddings } from '../../src/index.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

const LONG = { timeout: 20_000 };
/** The server sees a connection close so much later than it is closed here. */
const SEEN_AFTER_MS = 20;
const CONCURRENCY = 2;

/** A server that never answers, or never to the end. */
class StuckServer {
  inFlight = 0;
  most = 0;
  seen = 0;
  aborted = 0;
  readonly #begins: boolean;

  constructor(begins: boolean) {
    this.#begins = begins;
  }

  readonly fetch: typeof fetch = (_input, init) => {
    this.seen++;
    this.inFlight++;
    this.most = Math.max(this.most, this.inFlight);
    const signal = init?.signal as AbortSignal;
    const cutOff = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => {
        this.aborted++;
        setTimeout(() => this.inFlight--, SEEN_AFTER_MS);
        reject(signal.reason as Error);
      });
    });
    if (!this.#begins) return cutOff;
    const start = (controller: ReadableStreamDefaultController): void => {
      controller.enqueue(new TextEncoder().encode(' '));
      cutOff.catch((reason: unknown) => {
        controller.error(reason);
      });
    };
    return Promise.resolve(new Response(new ReadableStream({ start }), { headers: { 'content-type': 'application/json' } }));
  };
}

interface Account {
  readonly limiter: Limiter;
  readonly fetch: typeof fetch;
  readonly timeoutMs?: number;
}

type Ask = (signal: AbortSignal) => Promise<unknown>;

const baseUrl = 'http://host/v1';
const messages = [{ role: 'user' as const, content: 'hello' }];
const whole = { model: 'm', max_tokens: 9, messages };
const once = { retry: false } as const;
let texts = 0;
/** Equal ones would share a call. */
const text = (): string => `text ${String(texts++)}`;

const openai = (fetch: typeof globalThis.fetch): OpenAI => new OpenAI({ apiKey: 'k', baseURL: baseUrl, fetch, maxRetries: 0 });
const anthropic = (fetch: typeof globalThis.fetch): Anthropic => new Anthropic({ apiKey: 'k', fetch, maxRetries: 0 });
const provider = (fetch: typeof globalThis.fetch) => createOpenAICompatible({ name: 'p', baseURL: baseUrl, fetch });

/** Clients under a limiter, which is the only handle they have. */
const CLIENTS: Readonly<Record<string, (account: Account) => Ask>> = {
  limitFetch: (account) => {
    const limited = limitFetch({ ...account, ...once });
    return async (signal) => (await limited(baseUrl, { method: 'POST', body: '{}', signal })).text();
  },
  limitOpenAI: ({ fetch, ...rules }) => {
    const client = limitOpenAI(openai(fetch), { ...rules, ...once });
    return async (signal) => client.chat.completions.create(whole, { signal });
  },
  limitAnthropic: ({ fetch, ...rules }) => {
    const client = limitAnthropic(anthropic(fetch), { ...rules, ...once });
    return async (signal) => client.messages.create(whole, { signal });
  },
  limitLanguageModel: ({ fetch, ...rules }) => {
    const model = limitLanguageModel(provider(fetch)('m'), { ...rules, ...once });
    return (signal) => generateText({ model, prompt: 'hello', abortSignal: signal, maxRetries: 0 });
  },
  limitEmbeddingModel: ({ fetch, ...rules }) => {
    const model = limitEmbeddingModel(provider(fetch).embeddingModel('m'), { ...rules, ...once });
    return (signal) => embed({ model, value: text(), abortSignal: signal, maxRetries: 0 });
  },
  embedSettled: ({ fetch, ...rules }) => {
    const model = provider(fetch).embeddingModel('m');
    return async (signal) => {
      const [settled] = await embedSettled({ model, values: [text()], signal, ...rules, ...once });
      if (settled?.status === 'rejected') throw settled.reason;
    };
  },
  'limitModel, a stream': ({ fetch, ...rules }) => {
    const model = limitModel(new OpenAIResponsesModel(openai(fetch), 'm'), { ...rules, ...once });
    const request = {
      input: 'hello',
      modelSettings: {},
      tools: [],
      handoffs: [],
      outputType: 'text' as const,
      tracing: false,
    };
    return async (signal) => {
      for await (const event of model.getStreamedResponse({ ...request, signal })) expect(event).toBeDefined();
    };
  },
  'createModelMiddleware of LangChain': ({ fetch, ...rules }) => {
    const model = new ChatOpenAI({ apiKey: 'k', model: 'm', maxRetries: 0, configuration: { baseURL: baseUrl, fetch } });
    const agent = createAgent({ model, tools: [], middleware: [createModelMiddleware({ ...rules, ...once })] });
    return (signal) => agent.invoke({ messages }, { signal });
  },
};

/** Handles over clients. */
const HANDLES: Readonly<Record<string, (account: Account) => Ask>> = {
  'createModelCaller over an address': ({ fetch, ...account }) => {
    const models = createModelCaller({ call: chatCompletions({ baseUrl, model: 'm', fetch }), ...account, ...once });
    return (signal) => models.callAsync(whole, { signal });
  },
  'createModelCaller over an address, a stream': ({ timeoutMs, fetch, ...account }) => {
    const models = createModelCaller({
      call: chatCompletions({ baseUrl, model: 'm', fetch }),
      ...account,
      ...(timeoutMs && { timeoutMs }),
      ...once,
    });
    return (signal) => lastValueFrom(models.stream(whole, { signal }));
  },
  openAIChat: ({ fetch, ...rules }) => {
    const models = createModelCaller({ call: openAIChat(openai(fetch)), ...rules, ...once });
    return (signal) => models.callAsync(whole, { signal });
  },
  'openAIChat, a stream': ({ fetch, ...rules }) => {
    const models = createModelCaller({ call: openAIChat(openai(fetch)), ...rules, ...once });
    return (signal) => lastValueFrom(models.stream(whole, { signal }));
  },
  anthropicChat: ({ fetch, ...rules }) => {
    const models = createModelCaller({ call: anthropicChat(anthropic(fetch)), ...rules, ...once });
    return (signal) => models.callAsync(whole, { signal });
  },
  'anthropicChat, a stream': ({ fetch, ...rules }) => {
    const models = createModelCaller({ call: anthropicChat(anthropic(fetch)), ...rules, ...once });
    return (signal) => lastValueFrom(models.stream(whole, { signal }));
  },
  'createEmbedder over an address': ({ fetch, ...rules }) => {
    const embedder = createEmbedder({ call: embeddings({ baseUrl, model: 'm', fetch }), maxSize: 1, repair: [], ...rules });
    return (signal) => embedder.embedAsync(text(), { signal });
  },
  openAIEmbeddings: ({ fetch, ...rules }) => {
    const embedder = createEmbedder({ call: openAIEmbeddings(openai(fetch), { model: 'm' }), maxSize: 1, repair: [], ...rules });
    return (signal) => embedder.embedAsync(text(), { signal });
  },
  'limitEmbeddings around a fetch': (account) => {
    const embeddings = (fetch: typeof globalThis.fetch) =>
      new OpenAIEmbeddings({ apiKey: 'k', configuration: { baseURL: baseUrl, fetch } });
    const flow = limitEmbeddings(embeddings, { repair: [], ...account });
    return (signal) => flow.embedQuery(text(), { signal });
  },
};

/** What became of four calls at a time: two, and two that wait until those are over. */
const rejections = async (asked: readonly Promise<unknown>[]): Promise<unknown[]> =>
  (await Promise.allSettled(asked)).flatMap((one) => (one.status === 'rejected' ? [one.reason as unknown] : []));

const SERVERS = [
  ['that says nothing', false],
  ['that stops in the middle', true],
] as const;

describe.each(SERVERS)('a server %s', LONG, (_, begins) => {
  expectNoUnhandledRejections();

  describe.each(Object.entries({ ...CLIENTS, ...HANDLES }))('%s', (_name, open) => {
    it('never sees more calls than the limit when they are aborted', async () => {
      const server = new StuckServer(begins);
      const limiter = createLimiter({ concurrency: CONCURRENCY });
      const ask = open({ limiter, fetch: server.fetch });
      const [first, second] = [new AbortController(), new AbortController()];
      const asked = rejections([first, first, second, second].map(({ signal }) => ask(signal)));
      await expect.poll(() => server.seen).toBe(2);
      first.abort();
      await expect.poll(() => server.seen).toBe(4);
      second.abort();
      expect(await asked).toHaveLength(4);
      await expect.poll(() => limiter.executing).toBe(0);
      expect(server).toMatchObject({ most: CONCURRENCY, aborted: 4, inFlight: 0 });
    });

    it('never sees more calls than the limit when their time is over', async () => {
      const server = new StuckServer(begins);
      const limiter = createLimiter({ concurrency: CONCURRENCY });
      const ask = open({ limiter, fetch: server.fetch, timeoutMs: 40 });
      const { signal } = new AbortController();
      expect(await rejections([1, 2, 3, 4].map(() => ask(signal)))).toHaveLength(4);
      await expect.poll(() => limiter.executing).toBe(0);
      expect(server).toMatchObject({ most: CONCURRENCY, aborted: 4, inFlight: 0 });
    });
  });

  describe.each(Object.entries(CLIENTS))('%s', (_name, open) => {
    it.each(['close', 'drain'] as const)('ends with its limiter: %s', async (how) => {
      const server = new StuckServer(begins);
      const limiter = createLimiter({ concurrency: CONCURRENCY });
      const ask = open({ limiter, fetch: server.fetch });
      const { signal } = new AbortController();
      const asked = rejections([1, 2, 3].map(() => ask(signal)));
      await expect.poll(() => server.seen).toBe(CONCURRENCY);
      if (how === 'close') limiter.close();
      expect(await limiter.drain({ timeoutMs: 10 })).toMatchObject({ done: 0, aborted: 2 });
      expect(await asked).toHaveLength(3);
      await expect.poll(() => server).toMatchObject({ aborted: 2, inFlight: 0 });
      await expect.poll(() => limiter.executing).toBe(0);
    });
  });
});

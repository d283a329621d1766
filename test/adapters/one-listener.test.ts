import { getEventListeners } from 'node:events';
import Anthropic from '@anthropic-ai/sdk';
import { Client, InMemoryTransport } from '@modelcontextprotocol/client';
import { McpServer } from '@modelcontextprotocol/server';
import { Usage } from '@openai/agents';
import { lastValueFrom } from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import * as z from 'zod';
import { createAccount, createBatcher, policy } from '../../operators/index.js';
import { embedSettled, limitEmbeddingModel, limitImageModel, limitLanguageModel, limitRerankingModel } from '../../src/adapters/ai-sdk.js';
import { createAnthropicMiddleware } from '../../src/adapters/anthropic.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import { limitEmbeddings } from '../../src/adapters/langchain.js';
import { limitMcp } from '../../src/adapters/mcp.js';
import { limitModel } from '../../src/adapters/openai-agents.js';
import { createEmbedder, createModelCaller, createToolRunner, defineTool } from '../../src/index.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

type Call = (signal: AbortSignal) => PromiseLike<unknown>;

/** Answers when it is opened, or never when it is left. */
class Door {
  #open: () => void = () => undefined;
  readonly opened = new Promise<void>((resolve) => (this.#open = resolve));
  open(): void {
    this.#open();
  }
}

const limiter = () => createAccount({ concurrency: 8 });
const vectors = (values: readonly unknown[]) => values.map(() => [1, 0]);

/** Calls that take a signal; what is behind them does not listen to it. */
const own = { specificationVersion: 'v4', provider: 'p', modelId: 'm' } as const;
const unused = () => Promise.reject(new Error('never'));
/** What the tests call of a model. */
declare const language: {
  readonly doGenerate: (params: object) => Promise<unknown>;
  readonly doStream: (params: object) => Promise<{ readonly stream: ReadableStream<unknown> }>;
};

const CALLS: Readonly<Record<string, (door: Door) => Call>> = {
  limitFetch: (door) => {
    const fetch = limitFetch({ limiter: limiter(), fetch: () => door.opened.then(() => Response.json({})) });
    return async (signal) => (await fetch('http://h/', { signal })).text();
  },
  createAnthropicMiddleware: (door) => {
    const middleware = createAnthropicMiddleware({ limiter: limiter() });
    const next = () => door.opened.then(() => Response.json({}));
    const options = { method: 'post', path: '/v1/messages' } as const;
    const client = new Anthropic({ apiKey: 'k' });
    return async (signal) => {
      const request = { url: 'http://h/', method: 'POST', headers: new Headers(), body: '{}', signal };
      return (await middleware(request, next, { options: { ...options }, client } as never)).text();
    };
  },
  'limitLanguageModel, whole': (door) => {
    const answer = { content: [], usage: { inputTokens: {}, outputTokens: {} } };
    const model = { ...own, doGenerate: () => door.opened.then(() => answer) };
    const { doGenerate } = limitLanguageModel(model as never, { limiter: limiter() }) as unknown as typeof language;
    return async (abortSignal) => doGenerate({ prompt: [], abortSignal });
  },
  'limitLanguageModel, stream': (door) => {
    const stream = () =>
      new ReadableStream({
        start: (to) => {
          to.close();
        },
      });
    const model = { ...own, doGenerate: unused, doStream: () => door.opened.then(() => ({ stream: stream() })) };
    const { doStream } = limitLanguageModel(model as never, { limiter: limiter() }) as unknown as typeof language;
    return async (abortSignal) => {
      const result = await doStream({ prompt: [], abortSignal });
      for await (const part of result.stream) expect(part).toBeDefined();
    };
  },
  limitEmbeddingModel: (door) => {
    const doEmbed = ({ values }: { readonly values: readonly string[] }) =>
      door.opened.then(() => ({ embeddings: vectors(values), warnings: [] }));
    const model = { ...own, maxEmbeddingsPerCall: 9, supportsParallelCalls: true, doEmbed };
    const limited = limitEmbeddingModel(model as never, { limiter: limiter() }) as unknown as {
      readonly doEmbed: (params: object) => Promise<unknown>;
    };
    return (abortSignal) => limited.doEmbed({ values: ['a', 'b'], abortSignal });
  },
  embedSettled: (door) => {
    const doEmbed = ({ values }: { readonly values: readonly string[] }) =>
      door.opened.then(() => ({ embeddings: vectors(values), warnings: [] }));
    const model = { ...own, maxEmbeddingsPerCall: 9, supportsParallelCalls: true, doEmbed };
    const shared = limiter();
    return (signal) => embedSettled({ model: model, values: ['a', 'b'], limiter: shared, signal });
  },
  limitImageModel: (door) => {
    const model = { ...own, doGenerate: () => door.opened.then(() => ({ images: [] })) };
    const { doGenerate } = limitImageModel(model as never, { limiter: limiter() }) as unknown as typeof language;
    return (abortSignal) => doGenerate({ abortSignal });
  },
  limitRerankingModel: (door) => {
    const model = limitRerankingModel({ doRerank: () => door.opened.then(() => ({ ranking: [] })) } as never, { limiter: limiter() });
    const { doRerank } = model as { readonly doRerank: (params: object) => PromiseLike<unknown> };
    return (abortSignal) => doRerank({ query: 'x', documents: { type: 'text', values: [] }, abortSignal });
  },
  'limitModel, whole': (door) => {
    const getResponse = () => door.opened.then(() => ({ usage: new Usage(), output: [] }));
    const model = limitModel({ getResponse } as never, { limiter: limiter() });
    return (signal) => model.getResponse({ input: 'x', modelSettings: {}, tools: [], handoffs: [], signal } as never);
  },
  'limitModel, stream': (door) => {
    async function* getStreamedResponse() {
      await door.opened;
      yield { type: 'output_text_delta', delta: 'x' };
    }
    const model = limitModel({ getResponse: () => undefined, getStreamedResponse } as never, { limiter: limiter() });
    return async (signal) => {
      const request = { input: 'x', modelSettings: {}, tools: [], handoffs: [], signal };
      for await (const event of model.getStreamedResponse(request as never)) expect(event).toBeDefined();
    };
  },
  limitEmbeddings: (door) => {
    const embeddings = {
      embedDocuments: (texts: string[]) => door.opened.then(() => vectors(texts)),
      embedQuery: () => Promise.resolve([1, 0]),
    };
    const flow = limitEmbeddings(embeddings, { limiter: limiter() });
    let n = 0;
    return (signal) => flow.embedDocuments([`text ${String(n++)}`, 'x'], { signal });
  },
  createEmbedder: (door) => {
    const embedder = createEmbedder({ limiter: limiter(), model: 'm', call: (texts) => door.opened.then(() => vectors(texts)) });
    let n = 0;
    return (signal) => embedder.embedAsync(`text ${String(n++)}`, { signal });
  },
  createModelCaller: (door) => {
    const models = createModelCaller({ limiter: limiter(), call: (_: string) => door.opened });
    return (signal) => models.callAsync('x', { signal });
  },
  createToolRunner: (door) => {
    const parameters = z.object({});
    const wait = defineTool({ name: 'wait', description: 'x', readOnly: true, parameters, execute: () => door.opened });
    const runner = createToolRunner({ tools: [wait], limiter: limiter() });
    return (signal) => runner.runAllAsync([{ id: 'a', name: 'wait', input: {} }], { signal });
  },
  limitMcp: (door) => {
    const [here, there] = InMemoryTransport.createLinkedPair();
    const server = new McpServer({ name: 's', version: '1' });
    server.registerTool('wait', { annotations: { readOnlyHint: true } }, async () => {
      await door.opened;
      return { content: [] };
    });
    const client = new Client({ name: 'c', version: '1' });
    const connected = Promise.all([server.connect(there), client.connect(here)]);
    const caller = limitMcp(client, { limiter: limiter() });
    return async (signal) => {
      await connected;
      return caller.callToolAsync({ name: 'wait' }, { signal });
    };
  },
  limiter: (door) => {
    const shared = limiter();
    return (signal) => shared.runAsync(() => door.opened, { signal });
  },
  policy: (door) => {
    const careful = policy({ limiter: limiter() });
    return (signal) => lastValueFrom(careful(() => door.opened, { signal }));
  },
  createBatcher: (door) => {
    const batcher = createBatcher((items: readonly number[]) => door.opened.then(() => [...items]), { limiter: limiter() });
    let n = 0;
    return (signal) => batcher.loadAsync(n++, { signal });
  },
};

const CALLERS = 50;

describe('the signal of many calls at a time', { timeout: 20_000 }, () => {
  expectNoUnhandledRejections();

  it.each(Object.entries(CALLS))('has few listeners, and none after the end: %s', async (_, make) => {
    const door = new Door();
    const call = make(door);
    const { signal } = new AbortController();
    const all = Promise.all(Array.from({ length: CALLERS }, () => call(signal)));
    await new Promise((resolve) => setTimeout(resolve, 20));
    // Each limiter, policy and batcher of one entry may have one.
    expect(getEventListeners(signal, 'abort').length).toBeLessThanOrEqual(4);
    door.open();
    await all;
    await vi.waitFor(() => {
      expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    });
  });

  it.each(Object.entries(CALLS))('ends all of them, and is listened to no more: %s', async (_, make) => {
    const door = new Door();
    const call = make(door);
    const controller = new AbortController();
    const all = Array.from({ length: CALLERS }, () => Promise.resolve(call(controller.signal)).then(String, () => 'left'));
    await new Promise((resolve) => setTimeout(resolve, 20));
    controller.abort();
    door.open();
    await Promise.all(all);
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0);
  });
});

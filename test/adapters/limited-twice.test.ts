import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import Anthropic from '@anthropic-ai/sdk';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import { Agent, OpenAIChatCompletionsModel, run, setTracingDisabled } from '@openai/agents';
import { embedMany, generateText, stepCountIs, streamText, tool } from 'ai';
import { AIMessage, createAgent, fakeModel, tool as langchainTool } from 'langchain';
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import type { Limiter } from '../../operators/index.js';
import { childOf, createAccount } from '../../operators/index.js';
import { embedSettled, limitEmbeddingModel, limitLanguageModel } from '../../src/adapters/ai-sdk.js';
import { createAnthropicMiddleware, limitAnthropic } from '../../src/adapters/anthropic.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import { limitEmbeddings } from '../../src/adapters/langchain.js';
import { createModelMiddleware, createToolMiddleware } from '../../src/adapters/langchain-agents.js';
import { limitOpenAI } from '../../src/adapters/openai.js';
import { limitModel } from '../../src/adapters/openai-agents.js';
import { createEmbedder, createModelCaller, createToolRunner, defineTool } from '../../src/index.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

setTracingDisabled(true);

type Fetch = typeof globalThis.fetch;

const LONG = { timeout: 20_000 };
const message = { role: 'assistant', content: 'four' };
const CHAT = { id: 'x', object: 'chat.completion', created: 1, model: 'm', choices: [{ index: 0, message, finish_reason: 'stop' }] };
const VECTORS = { object: 'list', model: 'm', data: [{ object: 'embedding', index: 0, embedding: [1, 0] }] };
const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2, input_tokens: 1, output_tokens: 1 };
const CLAUDE = {
  id: 'x',
  type: 'message',
  role: 'assistant',
  model: 'm',
  content: [{ type: 'text', text: 'four' }],
  stop_reason: 'end_turn',
};

const server: Fetch = async (input) => {
  const url = input instanceof Request ? input.url : input.toString();
  const answer = url.endsWith('/embeddings') ? VECTORS : url.endsWith('/messages') ? CLAUDE : CHAT;
  return Response.json({ ...answer, usage });
};

const openai = (fetch: Fetch): OpenAI => new OpenAI({ apiKey: 'k', baseURL: 'http://h/v1', fetch });
const provider = (fetch: Fetch) => createOpenAICompatible({ name: 'p', baseURL: 'http://h/v1', fetch });
const asked = { model: 'm', messages: [{ role: 'user' as const, content: 'x' }] };
const viaOpenAI =
  (client: OpenAI) =>
  async (fetched?: unknown): Promise<unknown> =>
    fetched ?? client.chat.completions.create(asked);

/** What sends requests, limited: those inside. */
const INSIDE: Readonly<Record<string, (limiter: Limiter) => Fetch>> = {
  limitFetch: (limiter) => limitFetch({ limiter, fetch: server }),
  // A function around it hides what it is.
  'limitFetch, hidden': (limiter) => {
    const limited = limitFetch({ limiter, fetch: server });
    return (input, init) => limited(input, init);
  },
  limitOpenAI: (limiter) => {
    const client = limitOpenAI(openai(server), { limiter }) as unknown as { readonly fetch: Fetch };
    return (input, init) => client.fetch(input, init);
  },
  limitAnthropic: (limiter) => {
    const client = limitAnthropic(new Anthropic({ apiKey: 'k', fetch: server }), { limiter });
    return async (input) => {
      await client.messages.create({ ...asked, max_tokens: 9 });
      return server(input);
    };
  },
};

/** What is limited around a `fetch`; each makes one call. */
const AROUND: Readonly<Record<string, (limiter: Limiter, fetch: Fetch) => () => PromiseLike<unknown>>> = {
  limitFetch: (limiter, fetch) => {
    const outer = limitFetch({ limiter, fetch });
    return () => outer('http://h/v1/chat/completions', { method: 'POST', body: JSON.stringify(asked) });
  },
  limitOpenAI: (limiter, fetch) =>
    viaOpenAI(
      limitOpenAI(
        openai((input, init) => fetch(input, init)),
        { limiter },
      ),
    ),
  createAnthropicMiddleware: (limiter, fetch) => {
    const client = new Anthropic({
      apiKey: 'k',
      fetch: (input, init) => fetch(input, init),
      middleware: [createAnthropicMiddleware({ limiter })],
    });
    return () => client.messages.create({ ...asked, max_tokens: 9 });
  },
  limitLanguageModel: (limiter, fetch) => {
    const model = limitLanguageModel(provider(fetch)('m'), { limiter });
    return () => generateText({ model, prompt: 'x' });
  },
  limitEmbeddingModel: (limiter, fetch) => {
    const model = limitEmbeddingModel(provider(fetch).embeddingModel('m'), { limiter });
    return () => embedMany({ model, values: ['x'] });
  },
  embedSettled: (limiter, fetch) => async () => {
    const [settled] = await embedSettled({ model: provider(fetch).embeddingModel('m'), values: ['x'], limiter });
    if (settled?.status === 'rejected') throw settled.reason;
  },
  limitModel: (limiter, fetch) => {
    const model = limitModel(new OpenAIChatCompletionsModel(openai(fetch), 'm'), { limiter });
    return () => run(new Agent({ name: 'A', model }), 'x');
  },
  createModelMiddleware: (limiter, fetch) => {
    const model = new ChatOpenAI({ model: 'm', apiKey: 'k', configuration: { baseURL: 'http://h/v1', fetch } });
    const agent = createAgent({ model, tools: [], middleware: [createModelMiddleware({ limiter })] });
    return () => agent.invoke({ messages: 'x' });
  },
  limitEmbeddings: (limiter, fetch) => {
    const embeddings = new OpenAIEmbeddings({ apiKey: 'k', configuration: { baseURL: 'http://h/v1', fetch } });
    const flow = limitEmbeddings(embeddings, { limiter });
    return () => flow.embedDocuments(['x']);
  },
  createEmbedder: (limiter, fetch) => {
    const embedder = createEmbedder({ limiter, call: async () => [await fetch('http://h/v1/embeddings').then(() => [1, 0])], model: 'm' });
    return () => embedder.embedAsync('x');
  },
  createModelCaller: (limiter, fetch) => {
    const models = createModelCaller({ limiter, call: async (_: string) => fetch('http://h/v1/chat/completions') });
    return () => models.callAsync('x');
  },
};

/** The errors of clients have ours as their cause, LangChain's in a wrapper of the same name. */
function messages(error: unknown): string {
  const { message: own = '', cause } = Object(error) as Partial<Error>;
  return cause === undefined ? own : `${own} ${messages(cause)}`;
}

const failureOf = (call: () => PromiseLike<unknown>): Promise<unknown> =>
  Promise.resolve(call()).then(
    () => expect.unreachable('was answered'),
    (error: unknown) => error,
  );

const pairs = Object.keys(AROUND).flatMap((outer) => Object.keys(INSIDE).map((inner) => [outer, inner] as const));

describe('limited twice by one limiter', LONG, () => {
  expectNoUnhandledRejections();

  it.each(pairs)('is refused with a sentence: %s around %s', async (outer, inner) => {
    // One slot would make it wait for ever; with room it would pay twice.
    for (const concurrency of [1, 8]) {
      const limiter = createAccount({ concurrency });
      const call = () => (AROUND[outer] as (typeof AROUND)[string])(limiter, (INSIDE[inner] as (typeof INSIDE)[string])(limiter))();
      const errors = await Promise.all(Array.from({ length: concurrency }, () => failureOf(call)));
      for (const error of errors)
        expect(messages(error)).toMatch(/`\w+` already holds a permit of the same limiter for this request\. Limit each request once/);
      await limiter.whenIdle();
      expect(limiter.executing).toBe(0);
    }
  });

  it.each(pairs)('works with two accounts: %s around %s', async (outer, inner) => {
    const inside = createAccount({ concurrency: 1 });
    const call = (AROUND[outer] as (typeof AROUND)[string])(
      createAccount({ concurrency: 1 }),
      (INSIDE[inner] as (typeof INSIDE)[string])(inside),
    );
    await Promise.all([call(), call(), call()]);
    expect(inside.executing).toBe(0);
  });

  it('is refused as well below the same parent', async () => {
    const account = createAccount({ concurrency: 8 });
    const inner = limitFetch({ limiter: childOf(account, { concurrency: 4 }), fetch: server });
    const outer = limitFetch({ limiter: childOf(account, { concurrency: 4 }), fetch: inner });
    await expect(outer('http://h/')).rejects.toThrow('Limit each request once');
  });

  it('is no matter where one of the two takes no slot', async () => {
    const limiter = createAccount({ concurrency: 1, tokensPerMinute: 1000 });
    const inner = limitFetch({ limiter, fetch: server, job: { cost: { tokens: 0 } } });
    const outer = limitFetch({ limiter, fetch: inner, job: { cost: { slots: 0, requests: 0, tokens: 9 } } });
    expect((await outer('http://h/')).status).toBe(200);
  });
});

const EVENTS = (choices: readonly object[]): string =>
  [
    ...choices.map((choice) => `data: ${JSON.stringify({ ...CHAT, object: 'chat.completion.chunk', choices: [choice] })}\n\n`),
    'data: [DONE]\n\n',
  ].join('');

describe('a tool that makes calls of its own on the same account', LONG, () => {
  expectNoUnhandledRejections();

  const chat = (limiter: Limiter) => limitFetch({ limiter, fetch: server });
  const ask = async (fetch: Fetch): Promise<string> => (await fetch('http://h/v1/chat/completions')).text();

  it('works in a tool runner while there is room, and is refused when there never will be', async () => {
    const limiter = createAccount({ concurrency: 2 });
    const fetch = chat(limiter);
    const parameters = z.object({});
    const tools = [
      defineTool({ name: 'ask', description: 'x', readOnly: true, parameters, execute: () => Promise.resolve().then(() => ask(fetch)) }),
    ];
    const runner = createToolRunner({ tools, limiter, retry: false });
    const call = (id: string) => ({ id, name: 'ask', input: {} });
    const one = await runner.runAllAsync([call('a')]);
    expect(one.results[0]?.is_error).toBe(false);
    const both = await runner.runAllAsync([call('a'), call('b')]);
    const failures = both.results.filter(({ is_error }) => is_error);
    expect(failures).toHaveLength(1);
    expect(failures.map((failure) => failure.is_error && messages(failure.cause))).toEqual([
      expect.stringContaining('held by work that waits'),
    ]);
  });

  it('works in the tools of a LangChain agent, likewise', async () => {
    const limiter = createAccount({ concurrency: 2 });
    const fetch = chat(limiter);
    const search = langchainTool(() => ask(fetch), { name: 'search', schema: { type: 'object' } });
    const told = async (ids: readonly string[]): Promise<readonly string[]> => {
      const model = fakeModel()
        .respondWithTools(ids.map((id) => ({ name: 'search', args: {}, id })))
        .respond(new AIMessage('done'));
      const middleware = [createToolMiddleware({ limiter })];
      const { messages: all } = await createAgent({ model, tools: [search], middleware }).invoke({ messages: 'x' });
      return all.slice(2, 2 + ids.length).map(({ text }) => text);
    };
    expect((await told(['a']))[0]).toContain('four');
    const both = await told(['a', 'b']);
    expect(both.filter((text) => text.includes('four'))).toHaveLength(1);
    expect(both.filter((text) => text.includes('held by work that waits'))).toHaveLength(1);
  });

  it.each([1, 4])('works in a stream of the AI SDK that goes on meanwhile, with %i slots', async (concurrency) => {
    const limiter = createAccount({ concurrency });
    let asks = 0;
    const streaming: Fetch = async (_input, init) => {
      if (!(typeof init?.body === 'string' ? init.body : '').includes('"stream":true')) return server('http://h/v1/chat/completions');
      const call = { index: 0, id: 'c', type: 'function', function: { name: 'ask', arguments: '{}' } };
      const choices =
        asks++ === 0
          ? [{ delta: { role: 'assistant', tool_calls: [call] } }, { delta: {}, finish_reason: 'tool_calls' }]
          : [{ delta: { content: 'done' } }, { delta: {}, finish_reason: 'stop' }];
      return new Response(EVENTS(choices), { headers: { 'content-type': 'text/event-stream' } });
    };
    const model = limitLanguageModel(provider(streaming)('m'), { limiter });
    const tools = { ask: tool({ inputSchema: z.object({}), execute: async () => (await generateText({ model, prompt: 'x' })).text }) };
    const { text, steps } = streamText({ model, prompt: 'x', tools, stopWhen: stepCountIs(3) });
    expect(await text).toBe('done');
    expect((await steps)[0]?.toolResults[0]?.output).toBe('four');
  });
});

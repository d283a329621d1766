import type { Embeddings, EmbeddingsInterface } from '@langchain/core/embeddings';
import { OpenAIEmbeddings } from '@langchain/openai';
import { createAgent, fakeModel, tool } from 'langchain';
import { describe, expectTypeOf, it } from 'vitest';
import type { Handle, Settled } from '../../operators/index.js';
import { createAccount, createLimiter } from '../../operators/index.js';
import type { Drained } from '../../operators/options/types.js';
import type { LimitEmbeddingsOptions } from '../../src/adapters/langchain.js';
import { limitEmbeddings } from '../../src/adapters/langchain.js';
import { createModelMiddleware, createToolMiddleware } from '../../src/adapters/langchain-agents.js';
import type { EmbedderRules } from '../../src/pipelines/create-embedder.js';

describe('limitEmbeddings', () => {
  const inner = new OpenAIEmbeddings({ apiKey: 'k' });

  it('is what LangChain takes for embeddings, and a handle', () => {
    const embeddings = limitEmbeddings(inner);
    expectTypeOf(embeddings).toExtend<Embeddings>();
    expectTypeOf(embeddings).toExtend<EmbeddingsInterface>();
    expectTypeOf(embeddings).toExtend<Handle>();
    expectTypeOf(embeddings.embedDocuments(['a'])).toEqualTypeOf<Promise<number[][]>>();
    expectTypeOf(embeddings.embedQuery('a', { lane: 'normal', deadlineMs: 5 })).toEqualTypeOf<Promise<number[]>>();
    expectTypeOf(embeddings.embedSettled(['a'])).toEqualTypeOf<Promise<Settled<string, number[]>[]>>();
    expectTypeOf(embeddings.drain()).toEqualTypeOf<Promise<Drained>>();
  });

  it('takes embeddings, or what makes some around a fetch', () => {
    limitEmbeddings((fetch) => new OpenAIEmbeddings({ configuration: { fetch } }), { queries: 'alone' });
    limitEmbeddings(inner, { limiter: createAccount({ requestsPerMinute: 60, tokensPerMinute: 6000, burstSeconds: 5 }) });
    expectTypeOf<LimitEmbeddingsOptions>().toExtend<EmbedderRules>();
    // @ts-expect-error -- no embeddings
    limitEmbeddings(undefined);
    // @ts-expect-error -- not a word it knows
    limitEmbeddings(inner, { queries: 'apart' });
    // @ts-expect-error -- a rate is one of its limiter
    limitEmbeddings(inner, { requestsPerMinute: 60 });
    // @ts-expect-error -- an option of LangChain's own
    limitEmbeddings(inner, { maxRetries: 2 });
    const limited = limitEmbeddings(inner);
    // @ts-expect-error -- not an option of one call
    void limited.embedQuery('a', { maxSize: 5 });
  });
});

describe('the middleware', () => {
  it('is what an agent takes, and changes nothing about its types', async () => {
    const limiter = createLimiter({ concurrency: 2 });
    const search = tool(() => 'found', { name: 'search', schema: { type: 'object' } });
    const middleware = [
      createModelMiddleware({ limiter, job: ({ messages }) => ({ lane: messages.length > 9 ? 'normal' : 'user', cost: { tokens: 5 } }) }),
      createToolMiddleware({ toolConcurrency: { search: 2 }, timeoutMs: 500, job: (name) => ({ lane: name }) }),
    ] as const;
    const agent = createAgent({ model: fakeModel(), tools: [search], middleware });
    const { messages } = await agent.invoke({ messages: 'hello' });
    const plain = await createAgent({ model: fakeModel(), tools: [search] }).invoke({ messages: 'hello' });
    expectTypeOf(messages).toEqualTypeOf(plain.messages);
  });

  it('knows its options', () => {
    // @ts-expect-error -- tools are never called twice
    void createToolMiddleware({ retry: { maxAttempts: 2 } });
    // @ts-expect-error -- a limit is a number
    void createToolMiddleware({ toolConcurrency: { search: '2' } });
    // @ts-expect-error -- not an option of a model
    void createModelMiddleware({ toolConcurrency: 2 });
  });
});

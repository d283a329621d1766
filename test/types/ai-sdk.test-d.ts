import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import type { EmbeddingModelMiddleware, LanguageModelMiddleware, StreamTextTransform, ToolSet } from 'ai';
import { generateText, streamText, tool, wrapEmbeddingModel, wrapLanguageModel } from 'ai';
import { describe, expectTypeOf, it } from 'vitest';
import { z } from 'zod';
import type { Settled } from '../../operators/index.js';
import { createLimiter } from '../../operators/index.js';
import type { CallRules, EmbeddingModelMiddlewareOptions, LanguageModelMiddlewareOptions } from '../../src/adapters/ai-sdk.js';
import { coalesceText, createEmbeddingModelMiddleware, createLanguageModelMiddleware, embedSettled } from '../../src/adapters/ai-sdk.js';

const provider = createOpenAICompatible({ name: 'local', baseURL: 'http://host/v1' });
const limiter = createLimiter();

describe('createLanguageModelMiddleware', () => {
  it('is a middleware of the SDK, for the models of any provider', () => {
    const middleware = createLanguageModelMiddleware({ limiter, retry: false });
    expectTypeOf(middleware).toEqualTypeOf<LanguageModelMiddleware>();
    const model = wrapLanguageModel({ model: provider('m'), middleware: [middleware] });
    void generateText({ model, prompt: 'x' });
    void wrapLanguageModel({ model: createOpenAI()('m'), middleware });
  });

  it('shows a call to `job`', () => {
    void createLanguageModelMiddleware({
      limiter,
      job: ({ maxOutputTokens, prompt, tools = [] }) => {
        expectTypeOf(maxOutputTokens).toEqualTypeOf<number | undefined>();
        expectTypeOf(prompt[0]!.role).toEqualTypeOf<'system' | 'user' | 'assistant' | 'tool'>();
        return { lane: 'chat', cost: { tokens: tools.length } };
      },
    });
    expectTypeOf<LanguageModelMiddlewareOptions>().toExtend<CallRules>();
  });

  it('refuses what is no option', () => {
    // @ts-expect-error the attempts are those of `retry`
    void createLanguageModelMiddleware({ maxRetries: 2 });
    // @ts-expect-error a cost is an object
    void createLanguageModelMiddleware({ limiter, cost: () => 5 });
  });
});

describe('createEmbeddingModelMiddleware', () => {
  it('is a middleware of the SDK', () => {
    const middleware = createEmbeddingModelMiddleware({
      limiter,
      rejected: 'empty',
      job: { lane: 'p2' },
      countTokens: (value) => value.length,
    });
    expectTypeOf(middleware).toEqualTypeOf<EmbeddingModelMiddleware>();
    void wrapEmbeddingModel({ model: provider.embeddingModel('m'), middleware });
    expectTypeOf<EmbeddingModelMiddlewareOptions['rejected']>().toEqualTypeOf<'throw' | 'empty' | undefined>();
  });

  it('refuses what is no option', () => {
    // @ts-expect-error one of two words
    void createEmbeddingModelMiddleware({ rejected: 'skip' });
    // @ts-expect-error the lane of all requests
    void createEmbeddingModelMiddleware({ lane: () => 'p2' });
  });
});

describe('embedSettled', () => {
  it('settles each value', () => {
    const model = provider.embeddingModel('m');
    const settled = embedSettled({ model, values: ['a'], limiter, signal: new AbortController().signal, dimensions: 3 });
    expectTypeOf(settled).toEqualTypeOf<Promise<Settled<string, number[]>[]>>();
    void embedSettled({ model: createOpenAI().embeddingModel('m'), values: ['a'] as readonly string[] });
    void embedSettled({ model: wrapEmbeddingModel({ model, middleware: [] }), values: [] });
    // @ts-expect-error a model, not its name
    void embedSettled({ model: 'm', values: [] });
    // @ts-expect-error the values are texts
    void embedSettled({ model, values: [1] });
  });
});

describe('coalesceText', () => {
  it('is a transform of any tools', () => {
    expectTypeOf(coalesceText()).toEqualTypeOf<StreamTextTransform<ToolSet>>();
    const sum = tool({ inputSchema: z.object({ a: z.number() }), execute: ({ a }) => a });
    void streamText({ model: provider('m'), prompt: 'x', tools: { sum }, experimental_transform: coalesceText({ maxWaitMs: 16 }) });
    void streamText({ model: provider('m'), prompt: 'x', experimental_transform: [coalesceText(), coalesceText()] });
    // @ts-expect-error the name says the unit
    void coalesceText({ maxWait: 16 });
  });
});

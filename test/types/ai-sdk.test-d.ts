import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import type { StreamTextTransform, ToolSet } from 'ai';
import { generateText, streamText, tool, wrapEmbeddingModel, wrapLanguageModel } from 'ai';
import { describe, expectTypeOf, it } from 'vitest';
import { z } from 'zod';
import type { Settled } from '../../operators/index.js';
import { createLimiter } from '../../operators/index.js';
import type { LimitEmbeddingModelOptions, LimitLanguageModelOptions } from '../../src/adapters/ai-sdk.js';
import { coalesceText, embedSettled, limitEmbeddingModel, limitLanguageModel } from '../../src/adapters/ai-sdk.js';
import type { CallRules } from '../../src/adapters/support/call-rules.js';

const provider = createOpenAICompatible({ name: 'local', baseURL: 'http://host/v1' });
const limiter = createLimiter();

describe('limitLanguageModel', () => {
  it('answers a model of the same type, of any provider', () => {
    const inner = provider('m');
    const model = limitLanguageModel(inner, { limiter, retry: false });
    expectTypeOf(model).toEqualTypeOf(inner);
    void generateText({ model, prompt: 'x' });
    void wrapLanguageModel({ model: limitLanguageModel(createOpenAI()('m')), middleware: [] });
  });

  it('shows a call to `job`', () => {
    void limitLanguageModel(provider('m'), {
      limiter,
      job: ({ maxOutputTokens, prompt, tools = [] }) => {
        expectTypeOf(maxOutputTokens).toEqualTypeOf<number | undefined>();
        expectTypeOf(prompt[0]!.role).toEqualTypeOf<'system' | 'user' | 'assistant' | 'tool'>();
        return { lane: 'chat', cost: { tokens: tools.length } };
      },
    });
    expectTypeOf<LimitLanguageModelOptions>().toExtend<CallRules>();
  });

  it('rejects unknown options', () => {
    // @ts-expect-error the attempts are those of `retry`
    void limitLanguageModel(provider('m'), { maxRetries: 2 });
    // @ts-expect-error a cost is an object
    void limitLanguageModel(provider('m'), { limiter, cost: () => 5 });
  });
});

describe('limitEmbeddingModel', () => {
  it('answers a model of the same type', () => {
    const inner = provider.embeddingModel('m');
    const model = limitEmbeddingModel(inner, {
      limiter,
      rejected: 'empty',
      job: { lane: 'p2' },
      countTokens: (value) => value.length,
    });
    expectTypeOf(model).toEqualTypeOf(inner);
    expectTypeOf<LimitEmbeddingModelOptions['rejected']>().toEqualTypeOf<'throw' | 'empty' | undefined>();
  });

  it('rejects unknown options', () => {
    // @ts-expect-error one of two words
    void limitEmbeddingModel(provider.embeddingModel('m'), { rejected: 'skip' });
    // @ts-expect-error the lane of all requests
    void limitEmbeddingModel(provider.embeddingModel('m'), { lane: () => 'p2' });
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

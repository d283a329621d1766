import Anthropic from '@anthropic-ai/sdk';
import { Client } from '@modelcontextprotocol/client';
import { OpenAIChatCompletionsModel } from '@openai/agents';
import OpenAI from 'openai';
import { of } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { Limiter, Permits } from '../../operators/index.js';
import {
  adaptiveLimit,
  batchMap,
  bulkheadMap,
  childOf,
  createBatcher,
  FlowConfigError,
  hedge,
  keyedLimiter,
  policy,
  rateLimit,
} from '../../operators/index.js';
import { aguiFlow } from '../../src/adapters/ag-ui.js';
import { embedSettled, limitEmbeddingModel, limitImageModel, limitLanguageModel, limitRerankingModel } from '../../src/adapters/ai-sdk.js';
import { createAnthropicMiddleware, limitAnthropic } from '../../src/adapters/anthropic.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import { limitEmbeddings } from '../../src/adapters/langchain.js';
import { createModelMiddleware, createToolMiddleware } from '../../src/adapters/langchain-agents.js';
import { limitMcp } from '../../src/adapters/mcp.js';
import { limitOpenAI } from '../../src/adapters/openai.js';
import { limitModel, limitModelProvider } from '../../src/adapters/openai-agents.js';
import { chatCompletions, createEmbedder, createModelCaller, createToolRunner } from '../../src/index.js';

/** All that `Permits` has, and nothing else: what a store over the network could be. */
const permits: Required<Permits> = {
  concurrency: 4,
  executing: 0,
  load: 0,
  tokenCapacity: Infinity,
  borrows: true,
  lanes: ['user'],
  take: () => undefined,
  enlist: () => ({ poke: () => undefined, withdraw: () => undefined }),
  penalize: () => undefined,
  watch: () => () => undefined,
};
// What a program without types, or with a cast, gives.
const limiter = permits as unknown as Limiter;
const openai = new OpenAI({ apiKey: 'k' });
const model = new OpenAIChatCompletionsModel(openai, 'm');
const embeddings = { embedDocuments: () => Promise.resolve([]), embedQuery: () => Promise.resolve([]) };
const reranking = { specificationVersion: 'v4', provider: 'p', modelId: 'm', doRerank: () => Promise.reject(new Error('never')) } as const;
const image = {
  specificationVersion: 'v4',
  provider: 'p',
  modelId: 'm',
  maxImagesPerCall: 1,
  doGenerate: () => Promise.reject(new Error('never')),
} as const;
const language = { ...image, doStream: image.doGenerate };
const embedding = { specificationVersion: 'v4', provider: 'p', modelId: 'm', doEmbed: () => Promise.reject(new Error('never')) };

const JOBS: Readonly<Record<string, () => unknown>> = {
  adaptiveLimit: () => adaptiveLimit(limiter),
  childOf: () => childOf(limiter),
  hedge: () => hedge(() => of(1), { limiter, delayMs: 1 }),
  keyedLimiter: () => keyedLimiter(limiter),
  policy: () => policy({ limiter }),
  rateLimit: () => rateLimit(limiter),
  aguiFlow: () => aguiFlow({ limiter }),
  limitEmbeddingModel: () => limitEmbeddingModel(embedding as never, { limiter }),
  limitImageModel: () => limitImageModel(image, { limiter }),
  limitLanguageModel: () => limitLanguageModel(language as never, { limiter }),
  embedSettled: () => embedSettled({ model: embedding as never, values: [], limiter }),
  limitRerankingModel: () => limitRerankingModel(reranking, { limiter }),
  createAnthropicMiddleware: () => createAnthropicMiddleware({ limiter }),
  limitAnthropic: () => limitAnthropic(new Anthropic({ apiKey: 'k' }), { limiter }),
  limitFetch: () => limitFetch({ limiter }),
  limitEmbeddings: () => limitEmbeddings(embeddings, { limiter }),
  createModelMiddleware: () => createModelMiddleware({ limiter }),
  createToolMiddleware: () => createToolMiddleware({ limiter }),
  limitMcp: () => limitMcp(new Client({ name: 'c', version: '1' }), { limiter }),
  limitOpenAI: () => limitOpenAI(openai, { limiter }),
  limitModel: () => limitModel(model, { limiter }),
  limitModelProvider: () => limitModelProvider({ getModel: () => model }, { limiter }),
  createEmbedder: () => createEmbedder({ call: () => of([]), limiter }),
  createModelCaller: () => createModelCaller({ call: chatCompletions({ baseUrl: 'http://h/v1', model: 'm' }), limiter }),
  'createModelCaller, a share': () =>
    createModelCaller({ call: chatCompletions({ baseUrl: 'http://h/v1', model: 'm' }), limiter, concurrency: 2 }),
  createToolRunner: () => createToolRunner({ tools: [], limiter }),
};

/** What only bids takes any permits. */
const BIDS: Readonly<Record<string, () => unknown>> = {
  batchMap: () => batchMap((items: readonly number[]) => of([...items]), { limiter: permits }),
  bulkheadMap: () => bulkheadMap((item: number) => of(item), { limiter: permits }),
  createBatcher: () => createBatcher((items: readonly number[]) => of([...items]), { limiter: permits }),
};

describe('permits that are no limiter', () => {
  it.each(Object.entries(JOBS))('are refused at creation by %s', (_, make) => {
    expect(make).toThrow(FlowConfigError);
    expect(make).toThrow(/expected `limiter` to be a limiter made by createLimiter or createAccount/);
  });

  it.each(Object.entries(BIDS))('are enough for %s', (_, make) => {
    expect(make).not.toThrow();
  });
});

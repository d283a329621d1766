import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import Anthropic from '@anthropic-ai/sdk';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import { Agent, OpenAIChatCompletionsModel, run, setTracingDisabled } from '@openai/agents';
import { embed, generateText, wrapEmbeddingModel, wrapLanguageModel } from 'ai';
import { createAgent } from 'langchain';
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { fakeProvider } from '../../marbles/fake-provider.js';
import { anthropic } from '../../marbles/providers/anthropic.js';
import { openai } from '../../marbles/providers/openai.js';
import type { Limiter } from '../../operators/index.js';
import { ledgerOf } from '../../src/account/ledger.js';
import { createEmbeddingModelMiddleware, createLanguageModelMiddleware } from '../../src/adapters/ai-sdk.js';
import { limitAnthropic } from '../../src/adapters/anthropic.js';
import { createFetch } from '../../src/adapters/fetch.js';
import { FlowEmbeddings } from '../../src/adapters/langchain.js';
import { createModelMiddleware } from '../../src/adapters/langchain-agents.js';
import { limitOpenAI } from '../../src/adapters/openai.js';
import { limitModel } from '../../src/adapters/openai-agents.js';
import type { AccountOptions, CallRecord } from '../../src/index.js';
import { createAccount, createBudget, createEmbedder, createModelCaller, withJob } from '../../src/index.js';
import { PatientClock } from '../support/patient-clock.js';
import { fetchOf } from '../support/provider-fetch.js';

setTracingDisabled(true);

const BASE = 'https://api.openai.com/v1';
const LATENCY_MS = 100;

interface Given {
  readonly limiter: Limiter;
  readonly clock: PatientClock;
  readonly fetch: typeof globalThis.fetch;
  readonly job: { readonly key?: string; readonly lane?: string } | undefined;
}

/** Makes one call, with a text of its own. */
type Ask = (text: string) => PromiseLike<unknown>;

const rulesOf = ({ limiter, clock, job }: Given) => ({ limiter, scheduler: clock, random: () => 0.5, ...(job && { job }) });
const jsonOf = (response: Response): Promise<unknown> => response.json();
const chatOf = (text: string) => ({ model: 'm', max_tokens: 50, messages: [{ role: 'user' as const, content: text }] });
const client = (fetch: typeof globalThis.fetch) => new OpenAI({ apiKey: 'k', baseURL: BASE, fetch, maxRetries: 0 });
const compatible = (fetch: typeof globalThis.fetch) => createOpenAICompatible({ name: 'local', baseURL: BASE, fetch });

const ADAPTERS: Readonly<Record<string, (given: Given) => Ask>> = {
  createFetch: (given) => {
    const limited = createFetch({ ...rulesOf(given), fetch: given.fetch });
    return async (text) => jsonOf(await limited(`${BASE}/chat/completions`, { method: 'POST', body: JSON.stringify(chatOf(text)) }));
  },
  limitOpenAI: (given) => {
    const { chat } = limitOpenAI(client(given.fetch), rulesOf(given));
    return (text) => chat.completions.create(chatOf(text));
  },
  limitAnthropic: (given) => {
    const { messages } = limitAnthropic(new Anthropic({ apiKey: 'k', fetch: given.fetch, maxRetries: 0 }), rulesOf(given));
    return (text) => messages.create(chatOf(text));
  },
  createLanguageModelMiddleware: (given) => {
    const model = wrapLanguageModel({ model: compatible(given.fetch)('m'), middleware: createLanguageModelMiddleware(rulesOf(given)) });
    return (prompt) => generateText({ model, prompt, maxOutputTokens: 50 });
  },
  createEmbeddingModelMiddleware: (given) => {
    const middleware = createEmbeddingModelMiddleware(rulesOf(given));
    const model = wrapEmbeddingModel({ model: compatible(given.fetch).embeddingModel('m'), middleware });
    return (value) => embed({ model, value });
  },
  limitModel: (given) => {
    const model = limitModel(new OpenAIChatCompletionsModel(client(given.fetch), 'm'), {
      ...rulesOf(given),
      // The model does not say its name.
      job: { ...given.job, model: 'm' },
    });
    const agent = new Agent({ name: 'A', model, modelSettings: { maxTokens: 50 } });
    return (text) => run(agent, text);
  },
  createModelMiddleware: (given) => {
    const configuration = { baseURL: BASE, fetch: given.fetch };
    const model = new ChatOpenAI({ model: 'm', apiKey: 'k', maxRetries: 0, maxTokens: 50, configuration });
    const agent = createAgent({ model, tools: [], middleware: [createModelMiddleware(rulesOf(given))] });
    return (text) => agent.invoke({ messages: text });
  },
  FlowEmbeddings: ({ limiter, clock, fetch, job }) => {
    const inner = new OpenAIEmbeddings({ model: 'm', apiKey: 'k', maxRetries: 0, configuration: { baseURL: BASE, fetch } });
    const embeddings = new FlowEmbeddings({ embeddings: inner, limiter, scheduler: clock, maxSize: 1 });
    return (text) => embeddings.embedDocuments([text], job);
  },
  createModelCaller: ({ limiter, clock, fetch, job }) => {
    const models = createModelCaller({
      baseUrl: BASE,
      model: 'm',
      fetch,
      limiter,
      scheduler: clock,
      random: () => 0.5,
      timeoutMs: Infinity,
    });
    return (text) => models.callAsync({ max_tokens: 50, messages: [{ role: 'user', content: text }] }, job);
  },
  createEmbedder: ({ limiter, clock, fetch, job }) => {
    const embedder = createEmbedder({ baseUrl: BASE, model: 'm', fetch, limiter, scheduler: clock, maxSize: 1 });
    return (text) => embedder.embedAsync(text, job);
  },
};

/** Batches are made of the texts of several: they have lanes and no key. */
const BATCHES = new Set(['FlowEmbeddings', 'createEmbedder']);
/** Whose models make no text. */
const EMBEDDINGS = new Set(['createEmbeddingModelMiddleware', 'FlowEmbeddings', 'createEmbedder']);

function worldOf(adapter: string, options: AccountOptions = {}) {
  const clock = new PatientClock();
  const provider = fakeProvider({
    provider: adapter === 'limitAnthropic' ? anthropic({}) : openai({}),
    answer: () => ({ text: 'yes', outputTokens: 7 }),
    latencyMs: LATENCY_MS,
    scheduler: clock,
  });
  const limiter = createAccount({ concurrency: 2, scheduler: clock, ...options });
  const records: CallRecord[] = [];
  ledgerOf(limiter).watch((record) => records.push(record));
  const make = ADAPTERS[adapter] as (typeof ADAPTERS)[string];
  const askOf = (job?: Given['job']): Ask => make({ limiter, clock, fetch: fetchOf(provider), job });
  const end = async (): Promise<void> => {
    limiter.close();
    await clock.drain();
  };
  /** How many requests reached the provider before the one with that text. */
  const before = (text: string): number => provider.calls.findIndex(({ input }) => JSON.stringify(input.body).includes(text));
  return { clock, provider, limiter, records, askOf, before, end };
}

describe.each(Object.keys(ADAPTERS))('calls by %s', (adapter) => {
  it.runIf(adapter !== 'createEmbeddingModelMiddleware' && !BATCHES.has(adapter)).each(['job', 'withJob'] as const)(
    'take turns by the key of their %s',
    async (way) => {
      const { clock, askOf, before, end, records } = worldOf(adapter);
      const [a, b] = way === 'job' ? [askOf({ key: 'A' }), askOf({ key: 'B' })] : [askOf(), askOf()];
      const as = (key: string, ask: Ask, text: string): PromiseLike<unknown> =>
        way === 'job' ? ask(text) : withJob({ key }, () => ask(text));
      const all = Array.from({ length: 60 }, (_, index) => as('A', a, `first ${String(index)}`));
      await clock.pass(0);
      all.push(as('B', b, 'the other'));
      await clock.until(Promise.all(all));
      // Those that had their permits, and one more of A.
      expect(before('the other')).toBeLessThanOrEqual(4);
      expect(before('the other')).toBeGreaterThan(0);
      expect(records.filter(({ key }) => key === 'A')).toHaveLength(60);
      expect(records.filter(({ key }) => key === 'B')).toHaveLength(1);
      await end();
    },
  );

  it('have records with model, key, lane and tokens', async () => {
    const { clock, askOf, records, end } = worldOf(adapter);
    const key = BATCHES.has(adapter) ? null : 'A';
    await clock.until(Promise.resolve(askOf({ ...(key !== null && { key }), lane: 'P0' })('How many are there?')));
    // LangChain's embeddings say neither their model nor their usage.
    const isEstimated = adapter === 'FlowEmbeddings';
    const promptTokens = (isEstimated ? null : expect.toSatisfy((tokens: unknown) => Number(tokens) > 0)) as unknown;
    const noTokens = expect.toSatisfy((tokens: unknown) => tokens === null || tokens === 0) as unknown;
    const completionTokens = EMBEDDINGS.has(adapter) ? noTokens : 7;
    expect(records).toMatchObject([
      {
        model: adapter === 'FlowEmbeddings' ? 'default' : 'm',
        key,
        lane: 'P0',
        attempt: 1,
        status: 'success',
        errorCode: null,
        promptTokens,
        completionTokens,
        isEstimated,
      },
    ]);
    await end();
  });

  it('go by lanes', async () => {
    const { clock, askOf, before, end } = worldOf(adapter);
    const [later, first] = [askOf({ lane: 'P2' }), askOf({ lane: 'P0' })];
    const all = Array.from({ length: 10 }, (_, index) => later(`later ${String(index)}`));
    await clock.pass(0);
    all.push(first('urgent'));
    await clock.until(Promise.all(all));
    expect(before('urgent')).toBe(2);
    await end();
  });

  it('are charged to the budget of the account, and refused unsent without room', async () => {
    const price = { inputUsdPerMillion: 1, outputUsdPerMillion: 1 };
    const prices = { m: price, default: price };
    const budget = createBudget({ prices, limits: [{ usd: 0.001 }] });
    const { clock, askOf, end } = worldOf(adapter, { budget });
    await clock.until(Promise.resolve(askOf()('How many are there?')));
    expect(budget.snapshot().limits[0]?.spent).toBeGreaterThan(0);
    expect(budget.snapshot().limits[0]?.spent).toBeLessThan(0.0001);
    await end();
    const none = worldOf(adapter, { budget: createBudget({ prices, limits: [{ usd: 0.000_001 }] }) });
    const [refused] = await none.clock.until(Promise.allSettled([none.askOf()('How many are there, all in all?')]));
    expect(refused.status).toBe('rejected');
    expect(none.provider.calls).toHaveLength(0);
    expect(none.limiter.snapshot().executing).toBe(0);
    await none.end();
  });
});

import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import Anthropic from '@anthropic-ai/sdk';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import { Agent, OpenAIChatCompletionsModel, run, setTracingDisabled } from '@openai/agents';
import { embed, generateImage, generateSpeech, generateText, rerank, transcribe } from 'ai';
import { createAgent } from 'langchain';
import OpenAI from 'openai';
import { lastValueFrom } from 'rxjs';
import { z } from 'zod';
import { anthropic } from '../../marbles/providers/anthropic.js';
import { openai } from '../../marbles/providers/openai.js';
import type { ProviderPreset } from '../../marbles/providers/types.js';
import type { Limiter } from '../../operators/index.js';
import {
  limitEmbeddingModel,
  limitImageModel,
  limitLanguageModel,
  limitRerankingModel,
  limitSpeechModel,
  limitTranscriptionModel,
} from '../../src/adapters/ai-sdk.js';
import { anthropicChat, limitAnthropic } from '../../src/adapters/anthropic.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import { limitEmbeddings } from '../../src/adapters/langchain.js';
import { createModelMiddleware } from '../../src/adapters/langchain-agents.js';
import { limitMcp } from '../../src/adapters/mcp.js';
import { limitOpenAI, openAIChat, openAIEmbeddings } from '../../src/adapters/openai.js';
import { limitModel } from '../../src/adapters/openai-agents.js';
import type { CallJob } from '../../src/adapters/support/call-job.js';
import {
  chatCompletions,
  createAgentTurn,
  createEmbedder,
  createModelCaller,
  createStages,
  createToolRunner,
  defineTool,
  embeddings,
  toMessages,
} from '../../src/index.js';
import { clientBehind } from './mcp-asking-models.js';
import { mediaModels } from './media-models.js';
import type { PatientClock } from './patient-clock.js';

setTracingDisabled(true);

const BASE = 'https://api.openai.com/v1';

export interface Given {
  readonly limiter: Limiter;
  readonly clock: PatientClock;
  readonly fetch: Fetch;
  readonly job: { readonly key?: string; readonly lane?: string } | undefined;
}

export type Fetch = typeof globalThis.fetch;

/** Makes one call, with a text of its own. */
export type Ask = (text: string) => PromiseLike<unknown>;

/** Of a client; without `maxRetries` its own default. */
type Retries = { readonly maxRetries?: number };

const rulesOf = ({ limiter, clock, job }: Given) => ({ limiter, scheduler: clock, random: () => 0.5, ...(job && { job }) });
/** For models that do not say their name. */
const withModel = (given: Given, job: CallJob = {}) => ({ ...rulesOf(given), job: { ...given.job, model: 'm', ...job } });
const jsonOf = (response: Response): Promise<unknown> => response.json();
const chatOf = (text: string) => ({ model: 'm', max_tokens: 50, messages: [{ role: 'user' as const, content: text }] });
const client = (fetch: Fetch, retries: Retries = { maxRetries: 0 }) => new OpenAI({ apiKey: 'k', baseURL: BASE, fetch, ...retries });
const claude = (fetch: Fetch, retries: Retries = { maxRetries: 0 }) => new Anthropic({ apiKey: 'k', fetch, ...retries });
const media = (fetch: Fetch) => mediaModels(`${BASE}/chat/completions`, fetch);
const recordingOf = (text: string): Uint8Array => new TextEncoder().encode(text);
const compatible = (fetch: Fetch) => createOpenAICompatible({ name: 'local', baseURL: BASE, fetch });

/** One of each kind, whose calls have a job and a record. */
export const ADAPTERS: Readonly<Record<string, (given: Given) => Ask>> = {
  limitFetch: (given) => {
    const limited = limitFetch({ ...rulesOf(given), fetch: given.fetch });
    return async (text) => jsonOf(await limited(`${BASE}/chat/completions`, { method: 'POST', body: JSON.stringify(chatOf(text)) }));
  },
  limitOpenAI: (given) => {
    const { chat } = limitOpenAI(client(given.fetch), rulesOf(given));
    return (text) => chat.completions.create(chatOf(text));
  },
  limitAnthropic: (given) => {
    const { messages } = limitAnthropic(claude(given.fetch), rulesOf(given));
    return (text) => messages.create(chatOf(text));
  },
  limitLanguageModel: (given) => {
    const model = limitLanguageModel(compatible(given.fetch)('m'), rulesOf(given));
    return (prompt) => generateText({ model, prompt, maxOutputTokens: 50 });
  },
  limitEmbeddingModel: (given) => {
    const model = limitEmbeddingModel(compatible(given.fetch).embeddingModel('m'), rulesOf(given));
    return (value) => embed({ model, value });
  },
  limitImageModel: (given) => {
    const { image } = media(given.fetch);
    const model = limitImageModel(image, withModel(given));
    return (prompt) => generateImage({ model, prompt });
  },
  limitRerankingModel: (given) => {
    const model = limitRerankingModel(media(given.fetch).reranking, withModel(given));
    return (query) => rerank({ model, query, documents: ['a'] });
  },
  limitSpeechModel: (given) => {
    const model = limitSpeechModel(media(given.fetch).speech, withModel(given));
    return (text) => generateSpeech({ model, text });
  },
  limitTranscriptionModel: (given) => {
    // How many tokens a recording has is not known before.
    const model = limitTranscriptionModel(media(given.fetch).transcription, withModel(given, { cost: { inputTokens: 20 } }));
    return (text) => transcribe({ model, audio: recordingOf(text) });
  },
  limitModel: (given) => {
    const model = limitModel(new OpenAIChatCompletionsModel(client(given.fetch), 'm'), withModel(given));
    const agent = new Agent({ name: 'A', model, modelSettings: { maxTokens: 50 } });
    return (text) => run(agent, text);
  },
  createModelMiddleware: (given) => {
    const configuration = { baseURL: BASE, fetch: given.fetch };
    const model = new ChatOpenAI({ model: 'm', apiKey: 'k', maxRetries: 0, maxTokens: 50, configuration });
    const agent = createAgent({ model, tools: [], middleware: [createModelMiddleware(rulesOf(given))] });
    return (text) => agent.invoke({ messages: text });
  },
  limitEmbeddings: ({ limiter, clock, fetch, job }) => {
    const inner = new OpenAIEmbeddings({ model: 'm', apiKey: 'k', maxRetries: 0, configuration: { baseURL: BASE, fetch } });
    const embeddings = limitEmbeddings(inner, { limiter, scheduler: clock, maxSize: 1 });
    return (text) => embeddings.embedDocuments([text], job);
  },
  createModelCaller: ({ limiter, clock, fetch, job }) => {
    const models = createModelCaller({
      call: chatCompletions({ baseUrl: BASE, model: 'm', fetch }),
      limiter,
      scheduler: clock,
      random: () => 0.5,
      timeoutMs: Infinity,
    });
    return (text) => models.callAsync({ max_tokens: 50, messages: [{ role: 'user', content: text }] }, job);
  },
  createEmbedder: ({ limiter, clock, fetch, job }) => {
    const embedder = createEmbedder({ call: embeddings({ baseUrl: BASE, model: 'm', fetch }), limiter, scheduler: clock, maxSize: 1 });
    return (text) => embedder.embedAsync(text, job);
  },
};

/** Batches are made of the texts of several: their records have no key. */
export const BATCHES = new Set(['limitEmbeddings', 'createEmbedder']);
/** A tool pauses by itself, and its runner is of one lane. */
export const TOOLS = 'createToolRunner with a tool that asks a model';
/** The SDK has no place for what these report of their usage. */
export const UNCOUNTED = new Set(['limitEmbeddings', 'limitRerankingModel']);
/** Whose models make no text. */
export const EMBEDDINGS = new Set(['limitEmbeddingModel', 'limitEmbeddings', 'createEmbedder', 'limitRerankingModel']);

const callerRules = ({ limiter, clock }: Given) => ({ limiter, scheduler: clock, random: () => 0.5, timeoutMs: Infinity });
/** What a tool throws, as a client of the author would. */
class Refused extends Error {
  constructor(
    readonly status: number,
    readonly headers: Headers,
  ) {
    super(`status ${String(status)}`);
  }
}

/** The same kinds in other ways, and what makes its calls through one of them. */
export const MORE_CALLERS: Readonly<Record<string, (given: Given) => Ask>> = {
  'limitOpenAI, embeddings': (given) => {
    const { embeddings } = limitOpenAI(client(given.fetch), rulesOf(given));
    return (input) => embeddings.create({ model: 'm', input });
  },
  'limitOpenAI, streams': (given) => {
    const { chat } = limitOpenAI(client(given.fetch), rulesOf(given));
    return async (text) => {
      for await (const _ of await chat.completions.create({ ...chatOf(text), stream: true }));
    };
  },
  'createModelCaller with openAIChat': (given) => {
    const models = createModelCaller({ call: openAIChat(client(given.fetch)), ...callerRules(given) });
    return (text) => models.callAsync(chatOf(text), given.job);
  },
  'createModelCaller with anthropicChat': (given) => {
    const models = createModelCaller({ call: anthropicChat(claude(given.fetch)), ...callerRules(given) });
    return (text) => models.callAsync(chatOf(text), given.job);
  },
  'createEmbedder with openAIEmbeddings': ({ limiter, clock, fetch, job }) => {
    const embedder = createEmbedder({ call: openAIEmbeddings(client(fetch), { model: 'm' }), limiter, scheduler: clock, maxSize: 1 });
    return (text) => embedder.embedAsync(text, job);
  },
  'createAgentTurn over a model caller': (given) => {
    const models = createModelCaller({ call: chatCompletions({ baseUrl: BASE, model: 'm', fetch: given.fetch }), ...callerRules(given) });
    const turns = createAgentTurn({
      model: (messages, { signal }) => models.stream({ max_tokens: 50, messages: toMessages(messages, 'chat') }, { ...given.job, signal }),
      scheduler: given.clock,
    });
    let asked = 0;
    return async (text) => {
      const end = await lastValueFrom(turns.ask(text, { key: String(asked++) }));
      if (end.type !== 'finished') throw new Error(end.type, { cause: end });
    };
  },
  'createStages over fetch': ({ limiter, clock, fetch, job }) => {
    const work = async (text: string, { signal }: { readonly signal: AbortSignal }): Promise<unknown> => {
      const response = await fetch(`${BASE}/chat/completions`, { method: 'POST', body: JSON.stringify(chatOf(text)), signal });
      if (!response.ok) throw new Refused(response.status, response.headers);
      return jsonOf(response);
    };
    const stages = createStages([{ name: 'ask', timeoutMs: Infinity, work }], {
      ...{ limiter, scheduler: clock, random: () => 0.5, ...(job?.lane && { lane: job.lane }) },
      batches: { concurrency: 1000 },
    });
    return async (text) => {
      const end = await lastValueFrom(stages.run([text]));
      if (end.type !== 'document' || end.items[0]?.status !== 'fulfilled') throw new Error('the document failed', { cause: end });
    };
  },
  'limitMcp over HTTP': (given) => {
    const { limiter, clock, fetch, job } = given;
    const gate = (text: string, signal: AbortSignal | null) =>
      fetch(`${BASE}/chat/completions`, { method: 'POST', body: JSON.stringify(chatOf(text)), signal });
    const caller = clientBehind(gate, (response) => {
      limiter.observe(response);
    }).then((mcp) =>
      limitMcp(mcp, {
        limiter,
        scheduler: clock,
        random: () => 0.5,
        readConcurrency: 1000,
        timeoutMs: Infinity,
        ...(job && { job }),
      }),
    );
    return async (text) => (await caller).callToolAsync({ name: 'ask', arguments: { text } });
  },
  [TOOLS]: ({ limiter, clock, fetch, job }) => {
    const ask = defineTool({
      name: 'ask',
      description: 'Asks a model.',
      parameters: z.object({ text: z.string() }),
      readOnly: true,
      execute: async ({ text }, { signal }) => {
        const response = await fetch(`${BASE}/chat/completions`, { method: 'POST', body: JSON.stringify(chatOf(text)), signal });
        if (!response.ok) throw new Refused(response.status, response.headers);
        return jsonOf(response);
      },
    });
    const runner = createToolRunner({ tools: [ask], limiter, scheduler: clock, random: () => 0.5, ...(job?.lane && { lane: job.lane }) });
    let asked = 0;
    return async (text) => {
      const { results } = await runner.runAllAsync([{ id: String(asked++), name: 'ask', input: { text } }]);
      if (results[0]?.is_error !== false) throw new Error('the tool failed', { cause: results[0] });
    };
  },
};

/** The same clients without a limiter, with the retries that they make themselves; those of OpenAI make what a pipeline makes. */
const ALONE = {
  'openai, chats': (fetch, retries) => {
    const { chat } = client(fetch, retries);
    return (text) => chat.completions.create(chatOf(text));
  },
  'openai, embeddings': (fetch, retries) => {
    const { embeddings } = client(fetch, retries);
    return (input) => embeddings.create({ model: 'm', input });
  },
  '@anthropic-ai/sdk': (fetch, retries) => {
    const { messages } = claude(fetch, retries);
    return (text) => messages.create(chatOf(text));
  },
  'ai, texts': (fetch, retries) => {
    const model = compatible(fetch)('m');
    return (prompt) => generateText({ model, prompt, maxOutputTokens: 50, ...retries });
  },
  'ai, embeddings': (fetch, retries) => {
    const model = compatible(fetch).embeddingModel('m');
    return (value) => embed({ model, value, ...retries });
  },
  'ai, images': (fetch, retries) => {
    const { image: model } = media(fetch);
    return (prompt) => generateImage({ model, prompt, ...retries });
  },
  'ai, rankings': (fetch, retries) => {
    const { reranking: model } = media(fetch);
    return (query) => rerank({ model, query, documents: ['a'], ...retries });
  },
  'ai, speech': (fetch, retries) => {
    const { speech: model } = media(fetch);
    return (text) => generateSpeech({ model, text, ...retries });
  },
  'ai, transcripts': (fetch, retries) => {
    const { transcription: model } = media(fetch);
    return (text) => transcribe({ model, audio: recordingOf(text), ...retries });
  },
  '@openai/agents': (fetch, retries) => {
    const model = new OpenAIChatCompletionsModel(client(fetch, retries), 'm');
    const agent = new Agent({ name: 'A', model, modelSettings: { maxTokens: 50 } });
    return (text) => run(agent, text);
  },
  'langchain, agents': (fetch, retries) => {
    const model = new ChatOpenAI({ model: 'm', apiKey: 'k', maxTokens: 50, configuration: { baseURL: BASE, fetch }, ...retries });
    const agent = createAgent({ model, tools: [] });
    return (text) => agent.invoke({ messages: text });
  },
  '@langchain/openai, embeddings': (fetch, retries) => {
    const embeddings = new OpenAIEmbeddings({
      ...{ model: 'm', apiKey: 'k', configuration: { baseURL: BASE, fetch }, ...retries },
      // It has two at a time unless it is told.
      maxConcurrency: Infinity,
    });
    return (text) => embeddings.embedQuery(text);
  },
} satisfies Record<string, (fetch: Fetch, retries: Retries) => Ask>;

export type AloneName = keyof typeof ALONE;

/** The name of the client that a caller of one of the tables uses. */
export function clientOf(caller: string): AloneName {
  if (usesAnthropic(caller)) return '@anthropic-ai/sdk';
  const own: Readonly<Record<string, AloneName>> = {
    limitLanguageModel: 'ai, texts',
    limitEmbeddingModel: 'ai, embeddings',
    limitImageModel: 'ai, images',
    limitRerankingModel: 'ai, rankings',
    limitSpeechModel: 'ai, speech',
    limitTranscriptionModel: 'ai, transcripts',
    limitModel: '@openai/agents',
    createModelMiddleware: 'langchain, agents',
    limitEmbeddings: '@langchain/openai, embeddings',
  };
  return own[caller] ?? (/embed/i.test(caller) ? 'openai, embeddings' : 'openai, chats');
}

/** @param retries - empty for the client's own default */
export function aloneOf(name: AloneName, fetch: Fetch, retries: Retries): Ask {
  return ALONE[name](fetch, retries);
}

function usesAnthropic(caller: string): boolean {
  return /anthropic/i.test(caller);
}

/** Whose API a caller or a client speaks. */
export function presetOf(caller: string): ProviderPreset {
  return usesAnthropic(caller) ? anthropic({}) : openai({});
}

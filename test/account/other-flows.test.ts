import OpenAI, { AzureOpenAI } from 'openai';
import { describe, expect, it } from 'vitest';
import { fakeProvider } from '../../marbles/fake-provider.js';
import { azure } from '../../marbles/providers/azure.js';
import { gemini } from '../../marbles/providers/gemini.js';
import { openai } from '../../marbles/providers/openai.js';
import type { ProviderPreset } from '../../marbles/providers/types.js';
import type { Limiter } from '../../operators/index.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import { limitOpenAI, openAIChat } from '../../src/adapters/openai.js';
import type { AccountOptions } from '../../src/index.js';
import { createAccount, providers } from '../../src/index.js';
import { accountedCaller } from '../support/accounted-caller.js';
import { PatientClock } from '../support/patient-clock.js';
import { fetchOf } from '../support/provider-fetch.js';

const PER_MINUTE = 8000;
const CALLS = 40;
/** Of an answer, and of `max_tokens`. */
const OUTPUT = 500;
const LATENCY_MS = 2400;
const HEADROOM = 0.9;

interface Given {
  readonly limiter: Limiter;
  readonly clock: PatientClock;
  readonly fetch: typeof globalThis.fetch;
}

type Way = (given: Given) => (index: number) => PromiseLike<unknown>;

const chat = (index: number) => ({
  model: 'gpt',
  max_tokens: OUTPUT,
  messages: [{ role: 'user' as const, content: `Tell me about number ${String(index)}.` }],
});

function overFetch(url: string, bodyOf: (index: number) => object): Way {
  return ({ limiter, clock, fetch }) => {
    const limited = limitFetch({ limiter, scheduler: clock, random: () => 0.5, fetch });
    return async (index) => {
      const response = await limited(url, { method: 'POST', body: JSON.stringify(bodyOf(index)) });
      if (!response.ok) throw new Error(await response.text());
      return (await response.json()) as unknown;
    };
  };
}

const limitedClient =
  (clientOf: (fetch: typeof globalThis.fetch) => OpenAI): Way =>
  ({ limiter, clock, fetch }) => {
    const client = limitOpenAI(clientOf(fetch), { limiter, scheduler: clock, random: () => 0.5 });
    return (index) => client.chat.completions.create(chat(index));
  };

const caller =
  (clientOf: (fetch: typeof globalThis.fetch) => OpenAI, provider: keyof typeof providers): Way =>
  ({ limiter, clock, fetch }) => {
    const rules = { limiter, provider: providers[provider], scheduler: clock, random: () => 0.5, timeoutMs: Infinity };
    const models = accountedCaller({ call: openAIChat(clientOf(fetch)), ...rules });
    return (index) => models.callAsync(chat(index));
  };

const openAIClient = (fetch: typeof globalThis.fetch) => new OpenAI({ apiKey: 'k', fetch, maxRetries: 0 });
const azureClient = (fetch: typeof globalThis.fetch) =>
  new AzureOpenAI({
    apiKey: 'k',
    endpoint: 'https://mine.openai.azure.com',
    apiVersion: '2026-01-01',
    deployment: 'gpt',
    fetch,
    maxRetries: 0,
  });

const AZURE = 'https://mine.openai.azure.com/openai/deployments/gpt/chat/completions?api-version=2026-01-01';
const GEMINI = 'https://generativelanguage.googleapis.com/v1beta/models/gemini:generateContent';
/** 500 tokens of input, all that Gemini counts. */
const contents = () => ({ contents: [{ parts: [{ text: 'word'.repeat(OUTPUT) }] }] });

const askGemini: Way = ({ limiter, clock, fetch }) => {
  const models = accountedCaller({
    call: {
      send: async (request: object, context) => {
        const response = await fetch(GEMINI, { method: 'POST', body: JSON.stringify(request), signal: context.signal });
        context.observe(response);
        const answer = (await response.json()) as { readonly usageMetadata: { readonly promptTokenCount: number } };
        if (!response.ok) throw Object.assign(new Error(JSON.stringify(answer)), { status: response.status, body: answer });
        return answer;
      },
      usage: ({ usageMetadata }) => ({ inputTokens: usageMetadata.promptTokenCount, outputTokens: OUTPUT }),
      cost: () => ({ inputTokens: OUTPUT, outputTokens: 0 }),
    },
    provider: providers.gemini,
    ...{ limiter, scheduler: clock, random: () => 0.5, timeoutMs: Infinity },
  });
  return () => models.callAsync(contents());
};

interface Case {
  readonly provider: () => ProviderPreset;
  readonly declared: AccountOptions;
  readonly ways: Readonly<Record<string, Way>>;
}

const CASES: Readonly<Record<string, Case>> = {
  'OpenAI, the larger': {
    provider: () => openai({ tokensPerMinute: PER_MINUTE }),
    declared: { tokensPerMinute: PER_MINUTE },
    ways: {
      limitFetch: overFetch('https://api.openai.com/v1/chat/completions', chat),
      limitOpenAI: limitedClient(openAIClient),
      createModelCaller: caller(openAIClient, 'openai'),
    },
  },
  'OpenAI, the sum': {
    provider: () => openai({ tokensPerMinute: PER_MINUTE, charge: 'sum' }),
    declared: { tokensPerMinute: PER_MINUTE },
    ways: { limitFetch: overFetch('https://api.openai.com/v1/chat/completions', chat), limitOpenAI: limitedClient(openAIClient) },
  },
  Azure: {
    provider: () => azure({ tokensPerMinute: PER_MINUTE }),
    declared: { tokensPerMinute: PER_MINUTE },
    ways: {
      limitFetch: overFetch(AZURE, chat),
      limitOpenAI: limitedClient(azureClient),
      createModelCaller: caller(azureClient, 'azure'),
    },
  },
  Gemini: {
    provider: () => gemini({ inputTokensPerMinute: PER_MINUTE }),
    declared: { inputTokensPerMinute: PER_MINUTE },
    ways: { limitFetch: overFetch(GEMINI, contents), createModelCaller: askGemini },
  },
};

async function fortyCalls(preset: ProviderPreset, way: Way, limits: AccountOptions) {
  const clock = new PatientClock();
  const answer = () => ({ outputTokens: OUTPUT });
  const provider = fakeProvider({ provider: preset, answer, latencyMs: LATENCY_MS, scheduler: clock });
  const limiter = createAccount({ concurrency: 8, scheduler: clock, ...limits });
  const ask = way({ limiter, clock, fetch: fetchOf(provider) });
  const answers = await clock.until(Promise.allSettled(Array.from({ length: CALLS }, (_, index) => ask(index))), 600_000);
  const lastMs = Math.max(...provider.calls.map(({ endedAt }) => endedAt));
  limiter.close();
  await clock.drain();
  const lost = answers.flatMap((each) => (each.status === 'rejected' ? [String(each.reason)] : []));
  return { lost, lastMs, refused: provider.refused };
}

/** Until all is paid at the rate in use, with so much saved up. */
const leastMs = (saved: number): number => ((CALLS * OUTPUT - saved) / (PER_MINUTE * HEADROOM)) * 60_000 + LATENCY_MS;

describe.each(Object.entries(CASES))('%s: 8,000 tokens a minute', (_, { provider, declared, ways }) => {
  it.each(Object.entries(ways))('and forty calls of 500, with the limits declared, by %s: none is refused', async (_name, way) => {
    const { lost, lastMs, refused } = await fortyCalls(provider(), way, declared);
    expect(lost).toEqual([]);
    expect(refused).toBe(0);
    expect(lastMs).toBeLessThanOrEqual(1.1 * leastMs(PER_MINUTE * HEADROOM * (2 / 60)));
  });

  it.each(Object.entries(ways))('and forty calls of 500, without limits, by %s: none is lost', async (_name, way) => {
    const { lost, lastMs, refused } = await fortyCalls(provider(), way, {});
    expect(lost).toEqual([]);
    // Those that are under way when the limit is met for the first time.
    expect(refused).toBeLessThanOrEqual(8);
    expect(lastMs).toBeLessThanOrEqual(180_000);
  });
});

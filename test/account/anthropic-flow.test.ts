import Anthropic from '@anthropic-ai/sdk';
import { generateText } from 'ai';
import { describe, expect, it } from 'vitest';
import { fakeProvider } from '../../marbles/fake-provider.js';
import { anthropic } from '../../marbles/providers/anthropic.js';
import type { ProviderSimulation } from '../../marbles/providers/types.js';
import type { Limiter } from '../../operators/index.js';
import { limitLanguageModel } from '../../src/adapters/ai-sdk.js';
import { anthropicChat, limitAnthropic } from '../../src/adapters/anthropic.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import { createAccount, createModelCaller } from '../../src/index.js';
import { messagesModel } from '../support/messages-model.js';
import { PatientClock } from '../support/patient-clock.js';
import { fetchOf } from '../support/provider-fetch.js';

const HOST = 'https://api.anthropic.com';
const MOST = 500;

/** Asks once, for an answer of `max_tokens`; rejects unless it is one. */
type Ask = (index: number) => PromiseLike<unknown>;

interface Given {
  readonly limiter: Limiter;
  readonly clock: PatientClock;
  readonly fetch: typeof globalThis.fetch;
}

const question = (index: number) => ({
  model: 'claude',
  max_tokens: MOST,
  messages: [{ role: 'user' as const, content: `Tell me about number ${String(index)}.` }],
});

const clientOf = (fetch: typeof globalThis.fetch) => new Anthropic({ apiKey: 'k', baseURL: HOST, fetch, maxRetries: 0 });

const WAYS: Readonly<Record<string, (given: Given) => Ask>> = {
  limitFetch: ({ limiter, clock, fetch }) => {
    const limited = limitFetch({ limiter, scheduler: clock, random: () => 0.5, fetch });
    return async (index) => {
      const response = await limited(`${HOST}/v1/messages`, { method: 'POST', body: JSON.stringify(question(index)) });
      if (!response.ok) throw new Error(await response.text());
      return (await response.json()) as unknown;
    };
  },
  limitAnthropic: ({ limiter, clock, fetch }) => {
    const client = limitAnthropic(clientOf(fetch), { limiter, scheduler: clock, random: () => 0.5 });
    return (index) => client.messages.create(question(index));
  },
  'limitAnthropic, streams': ({ limiter, clock, fetch }) => {
    const client = limitAnthropic(clientOf(fetch), { limiter, scheduler: clock, random: () => 0.5 });
    return async (index) => {
      const stream = await client.messages.create({ ...question(index), stream: true });
      for await (const _ of stream);
    };
  },
  limitLanguageModel: ({ limiter, clock, fetch }) => {
    const model = limitLanguageModel(messagesModel('claude', `${HOST}/v1/messages`, fetch), {
      limiter,
      scheduler: clock,
      random: () => 0.5,
    });
    return (index) => generateText({ model, prompt: question(index).messages[0]?.content ?? '', maxOutputTokens: MOST, maxRetries: 0 });
  },
  'createModelCaller with anthropicChat': ({ limiter, clock, fetch }) => {
    const models = createModelCaller({
      call: anthropicChat(clientOf(fetch)),
      limiter,
      scheduler: clock,
      random: () => 0.5,
      timeoutMs: Infinity,
    });
    return (index) => models.callAsync(question(index));
  },
};

async function fortyCalls(way: (given: Given) => Ask, outputCharged: 'onArrival' | 'asGenerated') {
  const clock = new PatientClock();
  const provider: ProviderSimulation = fakeProvider({
    provider: anthropic({ inputTokensPerMinute: 2_000_000, outputTokensPerMinute: 8000, outputCharged }),
    answer: () => ({ outputTokens: MOST }),
    latencyMs: 400,
    msPerOutputToken: 4,
    scheduler: clock,
  });
  const limiter = createAccount({ concurrency: 8, scheduler: clock });
  const ask = way({ limiter, clock, fetch: fetchOf(provider) });
  const answers = await clock.until(Promise.allSettled(Array.from({ length: 40 }, (_, index) => ask(index))), 300_000);
  const lastMs = Math.max(...provider.calls.map(({ endedAt }) => endedAt));
  limiter.close();
  await clock.drain();
  return { lost: answers.filter(({ status }) => status === 'rejected'), refused: provider.refused, lastMs, provider };
}

describe.each(['asGenerated', 'onArrival'] as const)('8,000 tokens of output a minute, charged %s', (outputCharged) => {
  it.each(Object.entries(WAYS))('carry forty calls of 500 in 110 s, of which 90 are the least: %s', async (_, way) => {
    const { lost, refused, lastMs } = await fortyCalls(way, outputCharged);
    expect(lost).toEqual([]);
    expect(refused).toBeLessThanOrEqual(1);
    expect(lastMs).toBeLessThanOrEqual(110_000);
  });
});

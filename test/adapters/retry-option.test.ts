import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import Anthropic from '@anthropic-ai/sdk';
import { embed, generateText } from 'ai';
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { retryFailed } from '../../operators/index.js';
import { embedSettled, limitEmbeddingModel, limitLanguageModel } from '../../src/adapters/ai-sdk.js';
import { limitAnthropic } from '../../src/adapters/anthropic.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import { limitOpenAI } from '../../src/adapters/openai.js';
import { chatCompletions, createModelCaller } from '../../src/index.js';

let sent = 0;
const fetch = (async () => {
  sent++;
  return Response.json({ error: { message: 'overloaded' } }, { status: 503 });
}) as typeof globalThis.fetch;

type Retry = NonNullable<NonNullable<Parameters<typeof limitFetch>[0]>['retry']>;

const asked = { model: 'm', max_tokens: 9, messages: [{ role: 'user' as const, content: 'hello' }] };
const provider = createOpenAICompatible({ name: 'p', baseURL: 'http://host/v1', fetch });
const embeddings = provider.embeddingModel('m');
const WAYS: Readonly<Record<string, (retry: Retry) => unknown>> = {
  limitFetch: (retry) => limitFetch({ retry, fetch })('http://host/'),
  limitOpenAI: (retry) => limitOpenAI(new OpenAI({ apiKey: 'k', fetch }), { retry }).chat.completions.create(asked),
  limitAnthropic: (retry) => limitAnthropic(new Anthropic({ apiKey: 'k', fetch }), { retry }).messages.create(asked),
  limitLanguageModel: (retry) =>
    generateText({
      model: limitLanguageModel(provider('m'), { retry }),
      prompt: 'hello',
    }),
  limitEmbeddingModel: (retry) =>
    embed({
      model: limitEmbeddingModel(embeddings, { retry, split: false }),
      value: 'a',
    }),
  embedSettled: (retry) => embedSettled({ model: embeddings, values: ['a'], retry, split: false }),
  createModelCaller: (retry) =>
    createModelCaller({ call: chatCompletions({ baseUrl: 'http://host/v1', model: 'm', fetch }), retry }).callAsync(asked),
};
const RETRIES = [
  ['its options', { maxAttempts: 2, delayMs: 0 }, 2],
  ['the value that policy takes', retryFailed({ maxAttempts: 4, delayMs: 0 }), 4],
  ['turned off', false, 1],
] as const;

describe.each(Object.entries(WAYS))('`retry` of %s', (name, ask) => {
  it.each(RETRIES)('may be %s', async (_, retry, attempts) => {
    sent = 0;
    await Promise.resolve(ask(retry)).catch(() => undefined);
    // Turned off, the attempts are those of the SDK, where it makes some.
    if (retry !== false || !name.endsWith('Model')) expect(sent).toBe(attempts);
  });
});

import { describe, expect, it } from 'vitest';
import { createLimiter, perMinute } from '../../operators/index.js';
import { limitFetch } from '../../src/adapters/fetch.js';

function streamOf(parts: readonly Uint8Array[]): ReadableStream<Uint8Array> {
  const rest = [...parts];
  return new ReadableStream({
    pull(controller) {
      const part = rest.shift();
      if (part) controller.enqueue(part);
      else controller.close();
    },
  });
}

/** What a limiter has spent on a request, once its answer has been read; `atOnce` before that. */
interface Spending {
  readonly url?: string;
  readonly body?: object;
  readonly cuts?: number;
}

async function spent(answer: string, { url = 'https://host/v1/chat/completions', body = { messages: [] }, cuts = 1 }: Spending = {}) {
  const limiter = createLimiter({ rates: [perMinute('tokens', 60_000)], headroom: 1 });
  const full = limiter.snapshot().tokens;
  const bytes = new TextEncoder().encode(answer);
  const size = Math.ceil(bytes.length / cuts);
  const parts = Array.from({ length: cuts }, (_, i) => bytes.slice(i * size, (i + 1) * size));
  const limited = limitFetch({ limiter, fetch: () => Promise.resolve(new Response(streamOf(parts))) });
  const response = await limited(url, { method: 'POST', body: JSON.stringify(body) });
  const atOnce = full - limiter.snapshot().tokens;
  await response.text();
  const paid = full - limiter.snapshot().tokens;
  limiter.close();
  // The clock goes on: a thousand tokens a second come back.
  return { atOnce: Math.round(atOnce / 1000), paid: Math.round(paid / 1000) };
}

const sse = (...events: readonly object[]): string => events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');
const gemini = 'https://host/v1beta/models/m:generateContent';

describe('what an answer says it has cost', () => {
  it.each<[string, string]>([
    [
      'Gemini, whole',
      JSON.stringify({ usageMetadata: { promptTokenCount: 9000, candidatesTokenCount: 5000, totalTokenCount: 14_000 } }, null, 2),
    ],
    [
      'Gemini, with thoughts and results of tools',
      JSON.stringify({
        usageMetadata: {
          promptTokenCount: 7000,
          toolUsePromptTokenCount: 2000,
          candidatesTokenCount: 1000,
          thoughtsTokenCount: 4000,
          totalTokenCount: 14_000,
          inputTokensDetails: [{ modality: 'TEXT', tokenCount: 7000 }],
        },
      }),
    ],
    [
      'Gemini, streamed: each part says what it is by then',
      sse(
        { usageMetadata: { promptTokenCount: 9000, totalTokenCount: 9000 } },
        { usageMetadata: { promptTokenCount: 9000, candidatesTokenCount: 2000, thoughtsTokenCount: 1000, totalTokenCount: 12_000 } },
        { usageMetadata: { promptTokenCount: 9000, candidatesTokenCount: 4000, thoughtsTokenCount: 1000, totalTokenCount: 14_000 } },
      ),
    ],
    ['Gemini, of which only the whole is known', JSON.stringify({ usageMetadata: { totalTokenCount: 14_000 } })],
    [
      'Anthropic, streamed: its start what went in, its end what came out',
      sse(
        { type: 'message_start', message: { usage: { input_tokens: 8000, cache_creation_input_tokens: 1000, output_tokens: 1 } } },
        { type: 'message_delta', usage: { output_tokens: 5000 } },
      ),
    ],
    [
      'the same, with nothing to add at its end',
      sse({ message: { usage: { input_tokens: 9000, output_tokens: 0 } } }, { usage: { input_tokens: 0, output_tokens: 5000 } }),
    ],
    ['Ollama', `{"message":{},"done":false}\n{"done":true,"prompt_eval_count":9000,"eval_count":5000}\n`],
    [
      'OpenAI, under two names each',
      JSON.stringify({ usage: { prompt_tokens: 9000, input_tokens: 9000, completion_tokens: 5000, output_tokens: 5000 } }),
    ],
  ])('is paid: %s', async (_name, answer) => {
    expect((await spent(answer)).paid).toBe(14);
    expect((await spent(answer, { cuts: 97 })).paid).toBe(14);
  });

  it('is what the provider behind the address counts', async () => {
    const usage = { input_tokens: 9000, cache_read_input_tokens: 50_000, output_tokens: 5000 };
    const of = async (url: string): Promise<number> => (await spent(JSON.stringify({ usage }), { url })).paid;
    expect(await of('https://host/v1/messages')).toBe(64);
    expect(await of('https://api.anthropic.com/v1/messages')).toBe(14);
  });

  it('is no text of the model that looks like it', async () => {
    const text = JSON.stringify({ text: '"promptTokenCount": 50000, "eval_count": 50000', usageMetadata: { promptTokenCount: 3000 } });
    expect((await spent(text)).paid).toBe(3);
  });
});

describe('what a request to Gemini may cost', () => {
  const long = 'word '.repeat(3000);

  it.each([
    [
      'its contents and a quarter of its longest answer',
      { contents: [{ parts: [{ text: 'hi' }] }], generationConfig: { maxOutputTokens: 4000 } },
      1,
    ],
    ['what it begins with', { contents: [], systemInstruction: { parts: [{ text: long }] } }, 4],
    ['a text to embed', { content: { parts: [{ text: long }] } }, 4],
    [
      'many texts to embed',
      { requests: [{ model: 'm', content: { parts: [{ text: long }] } }, { content: { parts: [{ text: long }] } }] },
      8,
    ],
    ['a picture, and no letters of it', { contents: [{ parts: [{ inlineData: { mimeType: 'image/png', data: long } }] }] }, 2],
  ])('is %s', async (_name, body, thousands) => {
    expect((await spent('{}', { url: gemini, body })).atOnce).toBe(thousands);
  });

  it('is nothing for the question how many tokens something is', async () => {
    const { atOnce, paid } = await spent('{"totalTokens":9000}', {
      url: 'https://host/v1beta/models/m:countTokens',
      body: { contents: [long] },
    });
    expect([atOnce, paid]).toEqual([0, 0]);
  });
});

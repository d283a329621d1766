import { createOpenAI } from '@ai-sdk/openai';
import Anthropic from '@anthropic-ai/sdk';
import { ApiError, GoogleGenAI } from '@google/genai';
import { APICallError, embedMany, generateText, streamText } from 'ai';
import OpenAI, { AzureOpenAI } from 'openai';
import { afterEach, describe, expect, it } from 'vitest';
import { anthropic } from '../../marbles/providers/anthropic.js';
import { azure } from '../../marbles/providers/azure.js';
import { gemini } from '../../marbles/providers/gemini.js';
import { openai } from '../../marbles/providers/openai.js';
import type { ProviderAnswer, ProviderOptions } from '../../marbles/providers/types.js';
import type { ProviderServer } from '../support/provider-server.js';
import { startProvider } from '../support/provider-server.js';

const ANSWER: ProviderAnswer = { text: 'The answer is 42.', outputTokens: 12, reasoningTokens: 2, cacheReadTokens: 3 };
const QUESTION = 'What is six times seven?';
const ASKED = [{ role: 'user' as const, content: QUESTION }];
const INPUT_TOKENS = 6;

let server: ProviderServer | undefined;

async function start(options: ProviderOptions): Promise<ProviderServer> {
  server = await startProvider({ answer: () => ANSWER, ...options });
  return server;
}

afterEach(async () => {
  await server?.stop();
  server = undefined;
});

/** What an awaited call fails with. */
async function failure(call: PromiseLike<unknown>): Promise<unknown> {
  return call.then(
    () => undefined,
    (error: unknown) => error,
  );
}

async function all<T>(parts: AsyncIterable<T>): Promise<T[]> {
  const seen: T[] = [];
  for await (const part of parts) seen.push(part);
  return seen;
}

describe('the client of OpenAI', () => {
  const client = ({ baseUrl }: ProviderServer) => new OpenAI({ baseURL: baseUrl, apiKey: 'key', maxRetries: 0 });

  it('reads chat, responses and embeddings, whole and streamed, with their usage', async () => {
    const { provider, ...rest } = await start({ provider: openai({ tokensPerMinute: 10_000 }) });
    const api = client({ provider, ...rest });
    const asked = { model: 'gpt', messages: ASKED, max_completion_tokens: 100 };
    const { data, response } = await api.chat.completions.create(asked).withResponse();
    expect(data.choices[0]?.message.content).toBe(ANSWER.text);
    expect(data.usage).toMatchObject({ prompt_tokens: INPUT_TOKENS, completion_tokens: 12, prompt_tokens_details: { cached_tokens: 3 } });
    // The bucket fills in real time: ten tokens within 60 ms.
    const remaining = Number(response.headers.get('x-ratelimit-remaining-tokens'));
    expect(remaining).toBeGreaterThanOrEqual(9900);
    expect(remaining).toBeLessThan(10_000);
    const chunks = await all(await api.chat.completions.create({ ...asked, stream: true, stream_options: { include_usage: true } }));
    expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toBe(ANSWER.text);
    expect(chunks.at(-1)?.usage?.total_tokens).toBe(18);
    const made = await api.responses.create({ model: 'gpt', input: QUESTION });
    expect([made.output_text, made.usage?.output_tokens_details.reasoning_tokens]).toEqual([ANSWER.text, 2]);
    const streamed = await api.responses.stream({ model: 'gpt', input: QUESTION }).finalResponse();
    expect([streamed.output_text, streamed.usage?.input_tokens]).toEqual([ANSWER.text, INPUT_TOKENS]);
    const vectors = await api.embeddings.create({ model: 'e', input: ['a', 'b'] });
    expect(vectors.data.map(({ embedding }) => embedding)).toEqual([
      [0.5, 0.25],
      [0.5, 0.25],
    ]);
    expect(provider.books.charged('tokens')).toBe(100 + 100 + INPUT_TOKENS + INPUT_TOKENS + 1);
  });

  it('knows refusals, used-up quotas, overload and cut streams for what they are', async () => {
    const started = await start({ provider: openai({ requestsPerMinute: 1 }) });
    const api = client(started);
    const asked = { model: 'gpt', messages: ASKED };
    await api.chat.completions.create(asked, { headers: { 'x-client-request-id': 'mine' } });
    const refused = await failure(api.chat.completions.create(asked));
    expect(refused).toBeInstanceOf(OpenAI.RateLimitError);
    expect(refused).toMatchObject({ status: 429, code: 'rate_limit_exceeded', type: 'requests' });
    expect((refused as InstanceType<typeof OpenAI.APIError>).headers?.get('retry-after-ms')).toMatch(/^\d+$/);
    expect(started.books.chargedTo('mine')).toEqual({ requests: 1, tokens: INPUT_TOKENS });
    started.provider.setFaults({ quota: true });
    expect(await failure(api.chat.completions.create(asked))).toMatchObject({ status: 429, code: 'insufficient_quota' });
    await started.stop();
    const broken = await start({ provider: openai(), faults: { cut: 1 } });
    expect(
      await failure(
        client(broken)
          .chat.completions.create({ ...asked, stream: true })
          .then(all),
      ),
    ).toBeInstanceOf(Error);
    expect(broken.provider.calls[0]).toMatchObject({ fate: 'cut', outputTokens: 6 });
    broken.provider.setFaults({ overloaded: 1 });
    expect(await failure(client(broken).chat.completions.create(asked))).toBeInstanceOf(OpenAI.InternalServerError);
  });

  it('is admitted after waiting as told, at twenty times the speed', async () => {
    const started = await start({ provider: openai({ requestsPerMinute: 60, burstSeconds: 1 }), speed: 20 });
    const patient = new OpenAI({ baseURL: started.baseUrl, apiKey: 'key', maxRetries: 5 });
    await Promise.all([1, 2, 3].map(() => patient.chat.completions.create({ model: 'gpt', messages: ASKED })));
    expect(started.books.charged('requests')).toBeGreaterThanOrEqual(3);
    expect(started.provider.calls.filter(({ fate }) => fate === 'answered')).toHaveLength(3);
  });

  it('stops what is generated by leaving', async () => {
    const started = await start({ provider: openai(), msPerOutputToken: 20, pieces: 12 });
    const stream = await client(started).chat.completions.create({ model: 'gpt', messages: ASKED, stream: true });
    for await (const chunk of stream) if (chunk.choices[0]?.delta.content) break;
    await expect.poll(() => started.provider.calls[0]?.fate).toBe('left');
    expect(started.provider.calls[0]?.outputTokens).toBeLessThan(12);
    expect(started.provider.inFlight).toBe(0);
  });
});

describe('the client of Azure', () => {
  it('reads answers and refusals of a deployment', async () => {
    const started = await start({ provider: azure({ tokensPerMinute: 1000, requestsPerMinute: 6000 }) });
    const api = new AzureOpenAI({ endpoint: started.url, apiKey: 'key', apiVersion: '2024-10-21', deployment: 'mine', maxRetries: 0 });
    const asked = { model: 'mine', messages: ASKED, max_tokens: 900 };
    expect((await api.chat.completions.create(asked)).choices[0]?.message.content).toBe(ANSWER.text);
    expect(await failure(api.chat.completions.create(asked))).toMatchObject({ status: 429, code: '429' });
    expect(started.books.charged('tokens')).toBe(900 + INPUT_TOKENS);
  });
});

describe('the client of Anthropic', () => {
  const client = ({ url }: ProviderServer) => new Anthropic({ baseURL: url, apiKey: 'key', maxRetries: 0 });
  const asked = { model: 'claude', max_tokens: 100, messages: ASKED };

  it('reads messages whole and streamed, with their usage, and batches', async () => {
    const started = await start({ provider: anthropic({ inputTokensPerMinute: 20_000, outputTokensPerMinute: 8000 }) });
    const api = client(started);
    const message = await api.messages.create(asked);
    expect(message.content).toMatchObject([{ type: 'text', text: ANSWER.text }]);
    expect(message.usage).toMatchObject({ input_tokens: 3, cache_read_input_tokens: 3, output_tokens: 12 });
    const streamed = await api.messages.stream(asked).finalMessage();
    expect(streamed).toMatchObject({ stop_reason: 'end_turn', usage: { input_tokens: 3, output_tokens: 12 } });
    expect((await api.messages.countTokens({ model: 'claude', messages: ASKED })).input_tokens).toBe(INPUT_TOKENS);
    expect((await api.messages.batches.create({ requests: [{ custom_id: 'a', params: asked }] })).request_counts.processing).toBe(1);
    expect(started.books.charged('inputTokens')).toBe(6);
    expect(started.books.charged('outputTokens')).toBe(24);
  });

  it('knows refusals, spend limits and overload, also inside a stream', async () => {
    const started = await start({ provider: anthropic({ requestsPerMinute: 1 }) });
    const api = client(started);
    await api.messages.create(asked);
    const refused = await failure(api.messages.create(asked));
    expect(refused).toBeInstanceOf(Anthropic.RateLimitError);
    expect((refused as InstanceType<typeof Anthropic.APIError>).headers?.get('retry-after')).toBe('60');
    started.provider.setFaults({ quota: true });
    expect(await failure(api.messages.create(asked))).toMatchObject({
      error: { error: { details: { error_code: 'enforced_spend_limit_reached' } } },
    });
    await started.stop();
    const overloaded = await start({ provider: anthropic(), faults: { overloaded: 1 } });
    expect(await failure(client(overloaded).messages.create(asked))).toMatchObject({ status: 529 });
    overloaded.provider.setFaults({ overloadedInStream: 1 });
    expect(String(await failure(client(overloaded).messages.stream(asked).finalMessage()))).toContain('overloaded_error');
  });
});

describe('the client of Gemini', () => {
  const client = ({ url }: ProviderServer) => new GoogleGenAI({ apiKey: 'key', httpOptions: { baseUrl: url } });

  it('reads answers whole and streamed, with their usage, and embeddings', async () => {
    const started = await start({ provider: gemini({ inputTokensPerMinute: 1000 }) });
    const { models } = client(started);
    const asked = { model: 'gemini-3-flash', contents: QUESTION };
    const answer = await models.generateContent(asked);
    expect(answer.text).toBe(ANSWER.text);
    expect(answer.usageMetadata).toMatchObject({
      promptTokenCount: INPUT_TOKENS,
      candidatesTokenCount: 10,
      thoughtsTokenCount: 2,
      totalTokenCount: 18,
    });
    const chunks = await all(await models.generateContentStream(asked));
    expect(chunks.map(({ text }) => text ?? '').join('')).toBe(ANSWER.text);
    expect(chunks.at(-1)?.usageMetadata?.totalTokenCount).toBe(18);
    expect((await models.countTokens(asked)).totalTokens).toBe(INPUT_TOKENS);
    expect((await models.embedContent({ model: 'e', contents: ['aaaa'] })).embeddings?.[0]?.values).toEqual([0.5, 0.25]);
    expect(started.books.charged('inputTokens')).toBe(2 * INPUT_TOKENS + 1);
  });

  it('knows refusals, and finds the wait in the body', async () => {
    const started = await start({ provider: gemini({ requestsPerMinute: 1 }) });
    const { models } = client(started);
    const asked = { model: 'gemini-3-flash', contents: QUESTION, config: { httpOptions: { retryOptions: { attempts: 1 } } } };
    await models.generateContent(asked);
    const refused = await failure(models.generateContent(asked));
    expect(refused).toBeInstanceOf(ApiError);
    expect(refused).toMatchObject({ status: 429 });
    expect((refused as ApiError).message).toMatch(/RetryInfo","retryDelay":"\d+\.\d{3}s"/);
  });
});

describe('the AI SDK', () => {
  it('reads text, streams, embeddings, usage and refusals', async () => {
    const started = await start({ provider: openai({ requestsPerMinute: 4 }) });
    const models = createOpenAI({ baseURL: started.baseUrl, apiKey: 'key' });
    const whole = await generateText({ model: models.chat('gpt'), prompt: QUESTION, maxOutputTokens: 100, maxRetries: 0 });
    expect([whole.text, whole.usage.inputTokens, whole.usage.outputTokens]).toEqual([ANSWER.text, INPUT_TOKENS, 12]);
    const streamed = streamText({ model: models.responses('gpt'), prompt: QUESTION, maxRetries: 0 });
    expect((await all(streamed.textStream)).join('')).toBe(ANSWER.text);
    expect((await streamed.usage).outputTokens).toBe(12);
    expect((await embedMany({ model: models.embeddingModel('e'), values: ['a', 'b'], maxRetries: 0 })).embeddings).toHaveLength(2);
    await generateText({ model: models.chat('gpt'), prompt: QUESTION, maxRetries: 0 });
    const refused = await failure(generateText({ model: models.chat('gpt'), prompt: QUESTION, maxRetries: 0 }));
    expect(refused).toBeInstanceOf(APICallError);
    expect(refused).toMatchObject({ statusCode: 429, isRetryable: true });
    expect(started.books.fullest('requests').share).toBeLessThanOrEqual(1);
  });
});

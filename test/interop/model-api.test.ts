import { setTimeout as sleep } from 'node:timers/promises';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import Anthropic from '@anthropic-ai/sdk';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, tool } from '@openai/agents';
import { embedMany, generateText, isStepCount, jsonSchema, streamText, tool as toolOfAi } from 'ai';
import OpenAI, { APIConnectionError, BadRequestError, InternalServerError, RateLimitError } from 'openai';
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { ModelApi, ModelApiOptions } from '../fakes/model-api.js';
import { startModelApi } from '../fakes/model-api.js';
import { vectorOf } from '../fakes/model-api-embeddings.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

const TIMEOUT_MS = 20_000;
const POLL = { timeout: 10_000 };
const TEXTS = ['one', 'two', 'three'];
const CALL = 'CALL weather {"city":"Oslo"}';
const model = 'm';

let api: ModelApi;

async function start(options?: ModelApiOptions): Promise<ModelApi> {
  api = await startModelApi(options);
  return api;
}

afterEach(async () => {
  await api.stop();
});

const openai = () => new OpenAI({ apiKey: 'key', baseURL: api.baseUrl, maxRetries: 0 });
const anthropic = () => new Anthropic({ apiKey: 'key', baseURL: api.url, maxRetries: 0 });
const ask = (content: string) => [{ role: 'user' as const, content }];

const complete = (content: string, more: { max_completion_tokens?: number } = {}, signal?: AbortSignal) =>
  openai().chat.completions.create({ model, messages: ask(content), ...more }, { signal });

async function all<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of stream) items.push(item);
  return items;
}

/** What a promise is rejected with. */
async function failureOf(call: PromiseLike<unknown>): Promise<unknown> {
  const result = await Promise.allSettled([call]);
  expect(result[0].status).toBe('rejected');
  return (result[0] as PromiseRejectedResult).reason;
}

/** Calls until one is refused. */
async function firstRefusal(call: () => PromiseLike<unknown>): Promise<unknown> {
  for (let calls = 0; calls < 200; calls++) {
    const [result] = await Promise.allSettled([call()]);
    if (result.status === 'rejected') return result.reason;
  }
  throw new Error('no call was refused');
}

const headerOf = (error: unknown, name: string) => (error as { headers: Headers }).headers.get(name);

describe('the client of OpenAI', { timeout: TIMEOUT_MS }, () => {
  expectNoUnhandledRejections();

  it('reads vectors, sent as base64 by default or as numbers', async () => {
    await start();
    const vectors = TEXTS.map((text) => vectorOf(text));
    const { data, usage } = await openai().embeddings.create({ model, input: TEXTS });
    expect(api.requests[0]?.body).toMatchObject({ encoding_format: 'base64' });
    expect(data.map(({ embedding }) => embedding)).toEqual(vectors);
    const { data: numbers } = await openai().embeddings.create({ model, input: TEXTS, encoding_format: 'float' });
    expect(numbers.map(({ embedding }) => embedding)).toEqual(vectors);
    expect(usage).toEqual({ prompt_tokens: 4, total_tokens: 4 });
    const { data: alone } = await openai().embeddings.create({ model, input: 'one', dimensions: 3 });
    expect(alone[0]?.embedding).toEqual(vectorOf('one', 3));
  });

  it('gets another vector for each text', () => {
    const texts = Array.from({ length: 20_000 }, (_, i) => `item ${i}`);
    expect(new Set(texts.map((text) => vectorOf(text).join())).size).toBe(texts.length);
  });

  it('reads a whole chat answer and a tool call', async () => {
    await start();
    const { choices, usage } = await complete('hello there');
    expect(choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: 'hello there' } });
    expect(usage).toMatchObject({ prompt_tokens: 3, completion_tokens: 3, total_tokens: 6 });
    const called = await complete(CALL);
    expect(called.choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      message: { tool_calls: [{ function: { name: 'weather', arguments: '{"city":"Oslo"}' } }] },
    });
  });

  it('reads a streamed chat answer, with and without usage', async () => {
    await start({ chunks: 4 });
    const plain = await all(await openai().chat.completions.create({ model, messages: ask('hello there'), stream: true }));
    expect(plain.map(({ choices }) => choices[0]?.delta.content ?? '').filter(Boolean)).toEqual(['hel', 'lo ', 'the', 're']);
    expect(plain.every(({ usage }) => usage === undefined)).toBe(true);
    const streamed = openai().chat.completions.stream({ model, messages: ask(CALL), stream_options: { include_usage: true } });
    const { choices, usage } = await streamed.finalChatCompletion();
    expect(choices[0]?.message.tool_calls).toMatchObject([{ function: { name: 'weather', arguments: '{"city":"Oslo"}' } }]);
    expect(usage?.total_tokens).toBe(13);
  });

  it('reads responses, whole and streamed, with text and tool calls', async () => {
    await start();
    const whole = await openai().responses.create({ model, input: 'hello there', instructions: 'Be kind' });
    expect(whole.output_text).toBe('hello there');
    expect(whole.usage).toMatchObject({ input_tokens: 5, output_tokens: 3, total_tokens: 8 });
    for (const [input, item] of [
      ['hello there', { type: 'message', content: [{ text: 'hello there' }] }],
      [CALL, { type: 'function_call', name: 'weather', arguments: '{"city":"Oslo"}' }],
    ] as const) {
      const streamed = openai().responses.stream({ model, input });
      const events = await all(streamed);
      expect(events.filter(({ type }) => type.endsWith('.delta'))).toHaveLength(3);
      expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, i) => i));
      expect((await streamed.finalResponse()).output).toMatchObject([item]);
      expect((await openai().responses.create({ model, input })).output).toMatchObject([item]);
    }
  });
});

describe('the client of Anthropic', { timeout: TIMEOUT_MS }, () => {
  expectNoUnhandledRejections();

  it('reads messages, whole and streamed, with text and tool calls', async () => {
    await start({ requestsPerMinute: 60, tokensPerMinute: 6000 });
    for (const [content, block] of [
      ['hello there', { type: 'text', text: 'hello there' }],
      [CALL, { type: 'tool_use', name: 'weather', input: { city: 'Oslo' } }],
    ] as const) {
      const body = { model, max_tokens: 9, messages: ask(content), system: 'Be kind' };
      const { data: whole, response } = await anthropic().messages.create(body).withResponse();
      expect(whole.content).toMatchObject([block]);
      expect(response.headers.get('anthropic-ratelimit-requests-limit')).toBe('60');
      expect(Number(response.headers.get('anthropic-ratelimit-tokens-remaining'))).toBeLessThan(6000);
      expect(Date.parse(response.headers.get('anthropic-ratelimit-tokens-reset')!)).toBeGreaterThan(0);
      const streamed = anthropic().messages.stream(body);
      const final = await streamed.finalMessage();
      expect(final.content).toMatchObject([block]);
      expect(final).toMatchObject({ stop_reason: whole.stop_reason, usage: whole.usage });
    }
    const result = { type: 'tool_result' as const, tool_use_id: 'toolu_1', content: [{ type: 'text' as const, text: 'rain' }] };
    const answered = await anthropic().messages.create({ model, max_tokens: 9, messages: [{ role: 'user', content: [result] }] });
    expect(answered.content).toMatchObject([{ type: 'text', text: 'rain' }]);
    const types = (await all(await anthropic().messages.create({ model, max_tokens: 9, messages: ask('hi'), stream: true }))).map(
      ({ type }) => type,
    );
    const deltas = ['content_block_delta', 'content_block_delta'];
    expect(types).toEqual(['message_start', 'content_block_start', ...deltas, 'content_block_stop', 'message_delta', 'message_stop']);
  });

  it('gets errors in its own shape', async () => {
    await start();
    api.fail({ status: 529, message: 'Overloaded', type: 'overloaded_error' });
    const error = await failureOf(anthropic().messages.create({ model, max_tokens: 9, messages: ask('hi') }));
    expect(error).toBeInstanceOf(Anthropic.APIError);
    expect(error).toMatchObject({ status: 529, type: 'overloaded_error' });
  });
});

describe('the AI SDK', { timeout: TIMEOUT_MS }, () => {
  expectNoUnhandledRejections();

  const chatModels = {
    'the responses model of OpenAI': () => createOpenAI({ apiKey: 'key', baseURL: api.baseUrl })(model),
    'the chat model of OpenAI': () => createOpenAI({ apiKey: 'key', baseURL: api.baseUrl }).chat(model),
    'a compatible model': () => createOpenAICompatible({ name: 'local', baseURL: api.baseUrl, includeUsage: true })(model),
  };

  it.each(Object.entries(chatModels))('talks to %s', async (_name, chatModel) => {
    await start();
    const whole = await generateText({ model: chatModel(), prompt: 'hello there' });
    expect(whole.text).toBe('hello there');
    expect(whole.usage).toMatchObject({ inputTokens: 3, outputTokens: 3 });
    const streamed = streamText({ model: chatModel(), prompt: 'hello there' });
    expect((await all(streamed.textStream)).join('')).toBe('hello there');
    expect(await streamed.usage).toMatchObject({ inputTokens: 3, outputTokens: 3 });
    const weather = toolOfAi({ inputSchema: jsonSchema<{ city: string }>({ type: 'object' }), execute: ({ city }) => `rain in ${city}` });
    const called = await generateText({ model: chatModel(), prompt: CALL, tools: { weather }, stopWhen: isStepCount(5) });
    expect(called.steps.map(({ toolResults }) => toolResults)).toMatchObject([[{ toolName: 'weather', output: 'rain in Oslo' }], []]);
    expect(called.text).toBe('rain in Oslo');
    const calls = await all(streamText({ model: chatModel(), prompt: CALL, tools: { weather } }).stream);
    expect(calls).toContainEqual(expect.objectContaining({ type: 'tool-result', output: 'rain in Oslo' }));
  });

  it('embeds with both providers', async () => {
    await start();
    const embedders = [
      createOpenAI({ apiKey: 'key', baseURL: api.baseUrl }).embeddingModel(model),
      createOpenAICompatible({ name: 'local', baseURL: api.baseUrl }).embeddingModel(model),
    ];
    for (const embedder of embedders) {
      const { embeddings, usage } = await embedMany({ model: embedder, values: TEXTS });
      expect(embeddings).toEqual(TEXTS.map((text) => vectorOf(text)));
      expect(usage.tokens).toBe(4);
    }
  });
});

describe('LangChain', { timeout: TIMEOUT_MS }, () => {
  expectNoUnhandledRejections();

  it('invokes, streams and embeds', async () => {
    await start();
    const configuration = { baseURL: api.baseUrl };
    for (const useResponsesApi of [false, true]) {
      const llm = new ChatOpenAI({ model, apiKey: 'key', configuration, useResponsesApi });
      const whole = await llm.invoke('hello there');
      expect(whole.text).toBe('hello there');
      expect(whole.usage_metadata).toMatchObject({ input_tokens: 3, output_tokens: 3 });
      expect((await llm.invoke(CALL)).tool_calls).toMatchObject([{ name: 'weather', args: { city: 'Oslo' } }]);
      const parts = await all(await llm.stream('hello there'));
      expect(parts.map(({ text }) => text).join('')).toBe('hello there');
    }
    const embedder = new OpenAIEmbeddings({ model, apiKey: 'key', configuration });
    expect(await embedder.embedDocuments(TEXTS)).toEqual(TEXTS.map((text) => vectorOf(text)));
  });
});

describe('an agent of OpenAI', { timeout: TIMEOUT_MS }, () => {
  expectNoUnhandledRejections();

  const models = {
    'the responses model': () => new OpenAIResponsesModel(openai(), model),
    'the chat completions model': () => new OpenAIChatCompletionsModel(openai(), model),
  };

  it.each(Object.entries(models))('runs with %s, whole and streamed, with a tool', async (_name, modelOf) => {
    await start();
    const weather = tool({
      name: 'weather',
      description: 'The weather in a city',
      parameters: z.object({ city: z.string() }),
      execute: ({ city }) => `rain in ${city}`,
    });
    const agent = new Agent({ name: 'helper', model: modelOf(), tools: [weather] });
    const runner = new Runner({ tracingDisabled: true });
    expect((await runner.run(agent, 'hello there')).finalOutput).toBe('hello there');
    expect((await runner.run(agent, CALL)).finalOutput).toBe('rain in Oslo');
    const streamed = await runner.run(agent, CALL, { stream: true });
    expect(await all(streamed.toTextStream())).not.toEqual([]);
    await streamed.completed;
    expect(streamed.finalOutput).toBe('rain in Oslo');
    expect(api.requests.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
  });
});

describe('a failure of the model API', { timeout: TIMEOUT_MS }, () => {
  expectNoUnhandledRejections();

  it('lasts for one request, in the order it was given', async () => {
    await start();
    api.fail({ status: 429, message: 'Slow down', code: 'rate_limit_exceeded', headers: { 'retry-after-ms': '40' } });
    api.fail({ status: 503, message: 'Later' });
    const limited = await failureOf(complete('a'));
    expect(limited).toBeInstanceOf(RateLimitError);
    expect(headerOf(limited, 'retry-after-ms')).toBe('40');
    expect(await failureOf(complete('b'))).toBeInstanceOf(InternalServerError);
    expect((await complete('c')).choices[0]?.message.content).toBe('c');
    await expect.poll(() => api.requests.map(({ status }) => status), POLL).toEqual([429, 503, 200]);
    expect(api).toMatchObject({ refused: 1, completed: 1, aborted: 0, inFlight: 0, tokensCharged: 2 });
  });

  it.each(['cutSocket', 'brokenBody'] as const)('cuts the connection: %s', async (failure) => {
    await start();
    api.fail(failure);
    expect(String(await failureOf(complete('a')))).toMatch(/connection|terminated|premature/i);
    await expect.poll(() => api.inFlight, POLL).toBe(0);
    expect(api).toMatchObject({ aborted: 0, completed: 0 });
    expect(api.requests[0]?.status).toBe(failure === 'cutSocket' ? undefined : 200);
  });

  it('is no JSON', async () => {
    await start();
    api.fail('notJson');
    const { data } = await openai().chat.completions.create({ model, messages: [] }).withResponse();
    expect(data).toContain('<html>');
    expect(api.completed).toBe(0);
  });

  it('is silence until the client leaves', async () => {
    await start();
    api.fail('silent');
    const error = await failureOf(openai().chat.completions.create({ model, messages: ask('a') }, { timeout: 50 }));
    expect(error).toBeInstanceOf(APIConnectionError);
    await expect.poll(() => api.aborted, POLL).toBe(1);
    expect(api).toMatchObject({ inFlight: 0, completed: 0 });
    expect(api.requests[0]?.status).toBeUndefined();
  });

  it.each([
    [0, ''],
    [2, 'hello th'],
    [9, 'hello there!'],
  ])('cuts a stream after %i chunks', async (cutStream, expected) => {
    await start();
    api.fail({ cutStream });
    let text = '';
    const read = async () => {
      const stream = await openai().chat.completions.create({ model, messages: ask('hello there!'), stream: true });
      for await (const { choices } of stream) text += choices[0]?.delta.content ?? '';
    };
    await failureOf(read());
    expect(text).toBe(expected);
    await expect.poll(() => api.inFlight, POLL).toBe(0);
    expect(api).toMatchObject({ aborted: 0, completed: 0 });
  });

  it('cuts a whole answer when that is to be a cut stream', async () => {
    await start();
    api.fail({ cutStream: 1 });
    expect(await failureOf(complete('a'))).toBeInstanceOf(Error);
    expect((await complete('b')).choices[0]?.message.content).toBe('b');
  });

  it('comes from poison in one of the texts, and names it unless told not to', async () => {
    await start();
    const named = await failureOf(openai().embeddings.create({ model, input: ['a', 'b', 'so POISONed'] }));
    expect(named).toBeInstanceOf(BadRequestError);
    expect(named).toMatchObject({ param: 'input[2]', message: expect.stringContaining("'input[2]'") as string });
    expect(api.tokensCharged).toBe(0);
    await api.stop();
    await start({ namePoison: false });
    const unnamed = await failureOf(openai().embeddings.create({ model, input: ['a', 'POISON'] }));
    expect(unnamed).toMatchObject({ status: 400, param: null, message: expect.not.stringContaining('[') as string });
  });

  it('comes from poison in the last message, in every API', async () => {
    await start();
    expect(await failureOf(complete('POISON'))).toBeInstanceOf(BadRequestError);
    expect(await failureOf(openai().responses.create({ model, input: 'POISON', stream: true }))).toBeInstanceOf(BadRequestError);
    const sent = anthropic().messages.create({ model, max_tokens: 9, messages: ask('POISON') });
    expect(await failureOf(sent)).toBeInstanceOf(Anthropic.BadRequestError);
    const past = [...ask('POISON'), { role: 'assistant' as const, content: 'no' }, ...ask('sorry')];
    expect((await openai().chat.completions.create({ model, messages: past })).choices[0]?.message.content).toBe('sorry');
  });

  it('is 404 for a path it does not know, and 400 for invalid JSON', async () => {
    await start();
    expect(await failureOf(openai().models.retrieve('m'))).toMatchObject({ status: 404 });
    expect(await failureOf(openai().moderations.create({ input: 'a' }))).toMatchObject({ status: 404 });
    const broken = await fetch(`${api.baseUrl}/embeddings`, { method: 'POST', body: '{' });
    expect(broken.status).toBe(400);
  });
});

describe('the limits of the model API', { timeout: TIMEOUT_MS }, () => {
  expectNoUnhandledRejections();

  it('refuse requests above the rate, say how long to wait, and keep their word', async () => {
    await start({ requestsPerMinute: 240, burstSeconds: 0.5 });
    const { response } = await complete('a').withResponse();
    expect(response.headers.get('x-ratelimit-limit-requests')).toBe('240');
    expect(response.headers.get('x-ratelimit-remaining-requests')).toBe('1');
    expect(response.headers.get('x-ratelimit-reset-requests')).toMatch(/^\d+ms$/);
    expect(response.headers.has('x-ratelimit-limit-tokens')).toBe(false);
    const results = await Promise.allSettled(Array.from({ length: 20 }, () => complete('b')));
    const refused = results.filter(({ status }) => status === 'rejected');
    expect(refused.length).toBeGreaterThan(0);
    await expect.poll(() => api.refused, POLL).toBe(refused.length);

    const error = await firstRefusal(() => complete('c'));
    expect(error).toMatchObject({ status: 429, code: 'rate_limit_exceeded' });
    expect(headerOf(error, 'retry-after')).toBe('1');
    expect(headerOf(error, 'x-ratelimit-remaining-requests')).toBe('0');
    const waitMs = Number(headerOf(error, 'retry-after-ms'));
    expect(waitMs).toBeGreaterThan(0);
    expect(waitMs).toBeLessThanOrEqual(251);
    await sleep(waitMs);
    expect((await complete('d')).choices[0]?.message.content).toBe('d');
  });

  it('refuse tokens above the rate, counted as usage reports them', async () => {
    await start({ tokensPerMinute: 20, requestsPerMinute: 1000 });
    const { data, response } = await complete('x'.repeat(32), { max_completion_tokens: 1000 }).withResponse();
    expect(data.usage?.total_tokens).toBe(16);
    expect(api.tokensCharged).toBe(16);
    expect(response.headers.get('x-ratelimit-limit-tokens')).toBe('20');
    expect(response.headers.get('x-ratelimit-remaining-tokens')).toBe('4');
    expect(response.headers.get('x-ratelimit-reset-tokens')).toMatch(/^4\d(\.\d+)?s$/);
    const refused = await failureOf(complete('x'.repeat(32)));
    expect(refused).toMatchObject({ status: 429, message: expect.stringContaining('tokens per min') as string });
    expect(Number(headerOf(refused, 'retry-after-ms'))).toBeGreaterThan(20_000);
    expect((await complete('four')).usage?.total_tokens).toBe(2);
    expect(api.tokensCharged).toBe(18);
    api.clear();
    expect(api).toMatchObject({ requests: [], tokensCharged: 0, refused: 0, completed: 0 });
    expect((await complete('x'.repeat(32))).usage?.total_tokens).toBe(16);
  });

  it('charge what a request allows, when told so', async () => {
    await start({ tokensPerMinute: 100, charges: 'allowed' });
    await complete('four', { max_completion_tokens: 60 });
    expect(api.tokensCharged).toBe(61);
    await complete('four');
    expect(api.tokensCharged).toBe(63);
    expect(await failureOf(complete('four', { max_completion_tokens: 60 }))).toBeInstanceOf(RateLimitError);
  });

  it('are told with a failure, too, which costs nothing', async () => {
    await start({ requestsPerMinute: 60, tokensPerMinute: 60 });
    api.fail({ status: 500, message: 'Broken' });
    const error = await failureOf(complete('a'));
    expect(headerOf(error, 'x-ratelimit-remaining-requests')).toBe('60');
    expect(headerOf(error, 'x-ratelimit-remaining-tokens')).toBe('60');
  });

  it('name no wait for what can never pass', async () => {
    await start({ tokensPerMinute: 20 });
    const error = await failureOf(complete('x'.repeat(100)));
    expect(error).toMatchObject({ status: 429, message: expect.stringContaining('Limit 20, Requested 50') as string });
    expect(headerOf(error, 'retry-after')).toBeNull();
  });

  it('answer Anthropic in its own words', async () => {
    await start({ requestsPerMinute: 1 });
    const send = () => anthropic().messages.create({ model, max_tokens: 9, messages: ask('a') });
    await send();
    const error = await failureOf(send());
    expect(error).toBeInstanceOf(Anthropic.RateLimitError);
    expect(error).toMatchObject({ type: 'rate_limit_error' });
    expect(headerOf(error, 'anthropic-ratelimit-requests-remaining')).toBe('0');
  });
});

describe('what the model API tells', { timeout: TIMEOUT_MS }, () => {
  expectNoUnhandledRejections();

  it('counts what is under way, and what was left', async () => {
    await start({ latencyMs: 5000 });
    const leaving = new AbortController();
    const calls = [1, 2, 3].map((i) => failureOf(complete(`call ${i}`, {}, leaving.signal)));
    await expect.poll(() => api.inFlight, POLL).toBe(3);
    leaving.abort();
    await Promise.all(calls);
    await expect.poll(() => api.aborted, POLL).toBe(3);
    expect(api).toMatchObject({ inFlight: 0, maxInFlight: 3, completed: 0 });
  });

  it('counts a stream as under way until its end, and as left when the client stops reading', async () => {
    await start({ chunks: 50, chunkGapMs: 20 });
    const stream = await openai().chat.completions.create({ model, messages: ask('x'.repeat(50)), stream: true });
    for await (const { choices } of stream) {
      if (choices[0]?.delta.content !== 'x') continue;
      expect(api.inFlight).toBe(1);
      break;
    }
    await expect.poll(() => api.aborted, POLL).toBe(1);
    expect(api).toMatchObject({ inFlight: 0, completed: 0 });
  });

  it('lists requests as they came', async () => {
    await start({ latencyMs: () => 5 });
    const before = performance.now();
    await complete('first');
    await openai().embeddings.create({ model, input: 'second' });
    await expect.poll(() => api.completed, POLL).toBe(2);
    expect(api.requests).toMatchObject([
      { path: '/v1/chat/completions', body: { messages: ask('first') }, status: 200, headers: { authorization: 'Bearer key' } },
      { path: '/v1/embeddings', body: { input: 'second' }, status: 200 },
    ]);
    const [first, second] = api.requests;
    expect(first!.at).toBeGreaterThanOrEqual(before);
    expect(second!.at).toBeGreaterThan(first!.at);
  });

  it('closes what is open when it stops', async () => {
    await start();
    api.fail('silent');
    const call = failureOf(complete('a'));
    await expect.poll(() => api.inFlight, POLL).toBe(1);
    await api.stop();
    expect(await call).toBeInstanceOf(APIConnectionError);
    await expect.poll(() => api.inFlight, POLL).toBe(0);
    expect(api.aborted).toBe(0);
  });
});

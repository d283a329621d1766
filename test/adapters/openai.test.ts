import OpenAI, { AzureOpenAI } from 'openai';
import type { Observable } from 'rxjs';
import { firstValueFrom, lastValueFrom, toArray } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Limiter, Usage } from '../../operators/index.js';
import { createLimiter, isFlowError, robust } from '../../operators/index.js';
import { createAccount } from '../../src/account/create-account.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import type { LimitOpenAIOptions } from '../../src/adapters/openai.js';
import { limitOpenAI, openAIChat, openAIEmbeddings } from '../../src/adapters/openai.js';
import type { CallRecord } from '../../src/metrics/call-record.js';
import { createBudget } from '../../src/pipelines/create-budget.js';
import { createEmbedder } from '../../src/pipelines/create-embedder.js';
import { createModelCaller } from '../../src/pipelines/create-model-caller.js';
import type { ModelApi, ModelApiOptions } from '../fakes/model-api.js';
import { startModelApi } from '../fakes/model-api.js';
import { vectorOf } from '../fakes/model-api-embeddings.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

const LONG = { timeout: 20_000 };
const soon = { timeout: 10_000 };
const retry = { delayMs: 1, jitter: 'none' } as const;
/** An answer of many chunks. */
const LONG_TEXT = 'word '.repeat(60);

const messages = (content: string) => [{ role: 'user' as const, content }];
const refusal = (status: number, message: string) => ({ status, message });
const slowDown = { status: 429, code: 'rate_limit_exceeded', message: 'Slow down', headers: { 'retry-after-ms': '150' } };

async function* textOf(chunks: AsyncIterable<OpenAI.ChatCompletionChunk>): AsyncGenerator<string, void, undefined> {
  for await (const { choices } of chunks) yield choices[0]?.delta.content ?? '';
}

async function textIn(chunks: AsyncIterable<OpenAI.ChatCompletionChunk>): Promise<string> {
  let text = '';
  for await (const part of textOf(chunks)) text += part;
  return text;
}

const allOf = async (chunks: Observable<OpenAI.ChatCompletionChunk>): Promise<string> =>
  (await lastValueFrom(chunks.pipe(toArray()))).map(({ choices }) => choices[0]?.delta.content ?? '').join('');

/** A client that would try again five times by itself. */
function clientOf({ baseUrl }: ModelApi): OpenAI {
  return new OpenAI({ apiKey: 'secret', baseURL: baseUrl, maxRetries: 5 });
}

let api: ModelApi;
const others: ModelApi[] = [];

beforeEach(async () => {
  api = await startModelApi({ chunks: 30, chunkGapMs: 5 });
});

afterEach(async () => {
  await Promise.all([api, ...others.splice(0)].map((one) => one.stop()));
});

async function another(options: ModelApiOptions): Promise<ModelApi> {
  const started = await startModelApi(options);
  others.push(started);
  return started;
}

const reasonOf = (settled: PromiseSettledResult<unknown> | undefined): unknown => (settled as PromiseRejectedResult).reason;
const heldBack = (limiter: Limiter) => expect.poll(() => limiter.snapshot().queued, soon).toBe(1);

describe('limitOpenAI', LONG, () => {
  expectNoUnhandledRejections();

  const limit = (options: LimitOpenAIOptions): OpenAI => limitOpenAI(clientOf(api), { retry, ...options });
  const ask = (client: OpenAI, content: string, options?: OpenAI.RequestOptions) =>
    client.chat.completions.create({ model: 'm', messages: messages(content) }, options);
  const stream = (client: OpenAI, content: string, options?: OpenAI.RequestOptions) =>
    client.chat.completions.create({ model: 'm', messages: messages(content), stream: true }, options);

  it('lets no more streams flow at a time than there are permits', async () => {
    const limiter = createLimiter({ concurrency: 2 });
    const client = limit({ limiter });
    const texts = Array.from({ length: 6 }, (_, i) => `question number ${String(i)}`);
    expect(await Promise.all(texts.map(async (text) => textIn(await stream(client, text))))).toEqual(texts);
    expect(api.maxInFlight).toBe(2);
    expect(api.completed).toBe(6);
    await expect.poll(() => limiter.executing, soon).toBe(0);
  });

  it('has its permit back when the reader breaks out of a stream', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const client = limit({ limiter });
    for await (const text of textOf(await stream(client, LONG_TEXT))) if (text !== '') break;
    await expect.poll(() => limiter.executing, soon).toBe(0);
    await expect.poll(() => api.aborted, soon).toBe(1);
    expect((await ask(client, 'next')).choices[0]?.message.content).toBe('next');
  });

  it('sends nothing for a queued call that is aborted, which costs nothing', async () => {
    const limiter = createAccount({ concurrency: 1, requestsPerMinute: 60, tokensPerMinute: 60_000 });
    const client = limit({ limiter });
    const busy = await stream(client, LONG_TEXT);
    const { requests, tokens } = limiter.snapshot();
    const controller = new AbortController();
    const waiting = ask(client, 'second', { signal: controller.signal });
    const failed = expect(waiting).rejects.toBeInstanceOf(OpenAI.APIUserAbortError);
    await heldBack(limiter);
    controller.abort();
    await failed;
    expect(limiter.snapshot().queued).toBe(0);
    expect(limiter.snapshot().requests).toBeGreaterThanOrEqual(requests);
    expect(limiter.snapshot().tokens).toBeGreaterThanOrEqual(tokens);
    busy.controller.abort();
    expect(api.requests).toHaveLength(1);
  });

  it('closes the connection of a call that is aborted', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    api.fail('silent');
    const controller = new AbortController();
    const failed = expect(ask(limit({ limiter }), 'x', { signal: controller.signal })).rejects.toBeInstanceOf(OpenAI.APIUserAbortError);
    await expect.poll(() => api.inFlight, soon).toBe(1);
    controller.abort();
    await failed;
    await expect.poll(() => api.aborted, soon).toBe(1);
    expect(limiter.executing).toBe(0);
    expect(api.requests).toHaveLength(1);
  });

  it('tries again after the pause that the server asks for', async () => {
    api.fail(slowDown);
    const { choices } = await ask(limit({ limiter: createAccount({ concurrency: 4 }) }), 'again');
    expect(choices[0]?.message.content).toBe('again');
    const [first, second] = api.requests;
    expect(api.requests).toHaveLength(2);
    expect(second!.at - first!.at).toBeGreaterThanOrEqual(140);
  });

  it.each([
    [503, OpenAI.InternalServerError, undefined],
    // Asked for with the call itself.
    [503, OpenAI.InternalServerError, { maxRetries: 5 }],
  ] as const)('makes three attempts at a %i in all, whatever the retries of the client', async (status, error, options) => {
    api.fail(
      ...Array.from({ length: 9 }, (_, i) => ({ ...refusal(status, `refusal ${String(i + 1)}`), headers: { 'retry-after-ms': '5' } })),
    );
    const failed: unknown = await ask(limit({ limiter: createAccount() }), 'x', options).catch((reason: unknown) => reason);
    expect(failed).toBeInstanceOf(error);
    expect(failed).toMatchObject({ status, message: `${String(status)} refusal 3` });
    expect(api.requests.map(({ headers }) => headers['x-stainless-retry-count'])).toEqual(['0', '0', '0']);
  });

  it.each([undefined, { maxRetries: 5 }])('waits refusals out, without counting them: %j', async (options) => {
    api.fail(...Array.from({ length: 9 }, () => ({ ...refusal(429, 'slow down'), headers: { 'retry-after-ms': '5' } })));
    await ask(limit({ limiter: createAccount() }), 'x', options);
    expect(api.requests).toHaveLength(10);
  });

  it('does not retry when the server forbids it', async () => {
    api.fail({ ...refusal(503, 'Not today'), headers: { 'x-should-retry': 'false' } });
    await expect(ask(limit({ limiter: createLimiter() }), 'x')).rejects.toBeInstanceOf(OpenAI.InternalServerError);
    expect(api.requests).toHaveLength(1);
  });

  it('copies what it is given: changing it later changes no request', async () => {
    const client = new OpenAI({ apiKey: 'secret', baseURL: api.baseUrl });
    const defaults = { model: 'first' };
    const models = createModelCaller({ call: openAIChat(client, defaults) });
    const embedder = createEmbedder({ call: openAIEmbeddings(client, defaults) });
    defaults.model = 'second';
    await models.callAsync({ messages: [{ role: 'user', content: 'x' }] });
    await embedder.embedAsync('x');
    expect(api.requests.map(({ body }) => (body as { model: string }).model)).toEqual(['first', 'first']);
  });

  it('tries again what the server asks to try again', async () => {
    api.fail({ ...refusal(400, 'Not yet'), headers: { 'x-should-retry': 'true' } });
    expect((await ask(limit({ limiter: createLimiter() }), 'x')).choices[0]?.message.content).toBe('x');
    expect(api.requests).toHaveLength(2);
  });

  it('sends again what a broken connection took away, and says what broke after the last attempt', async () => {
    const client = limit({});
    api.fail('cutSocket', 'cutSocket');
    expect((await ask(client, 'x')).choices[0]?.message.content).toBe('x');
    expect(api.requests).toHaveLength(3);
    api.fail('cutSocket', 'cutSocket', 'cutSocket');
    await expect(ask(client, 'x')).rejects.toBeInstanceOf(OpenAI.APIConnectionError);
    expect(api.requests).toHaveLength(6);
  });

  it('fails a refused call at once with the error of the client, and no other', async () => {
    const client = limit({ limiter: createLimiter({ concurrency: 4 }) });
    const settled = await Promise.allSettled(['a', 'POISON', 'c'].map((text) => ask(client, text)));
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    const reason = reasonOf(settled[1]);
    expect(reason).toBeInstanceOf(OpenAI.BadRequestError);
    expect(reason).toMatchObject({ status: 400, code: 'invalid_prompt', message: '400 Invalid prompt: it was refused.' });
    expect(api.requests).toHaveLength(3);
  });

  it('gives the errors of this package as the cause', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const lease = limiter.tryAcquire();
    const failed: unknown = await ask(limit({ limiter, deadlineMs: 20 }), 'x').catch((reason: unknown) => reason);
    lease?.release();
    expect(failed).toBeInstanceOf(OpenAI.APIConnectionError);
    expect(isFlowError((failed as Error).cause, 'FLOW_DEADLINE')).toBe(true);
    expect(api.requests).toHaveLength(0);
  });

  it('keeps to the limiter with all that the client can do, and pays what it costs', async () => {
    const limiter = createAccount({ concurrency: 1, tokensPerMinute: 60_000, burstSeconds: 60, headroom: 1, learn: false });
    const full = limiter.snapshot().tokens;
    const client = limit({ limiter });
    const answers = [
      client.responses.create({ model: 'm', input: 'hello' }),
      client.embeddings.create({ model: 'm', input: ['hello', 'world'] }),
      client.responses.create({ model: 'm', input: 'hello', stream: true, max_output_tokens: 9000 }).then(async (events) => {
        let text = '';
        for await (const event of events) if (event.type === 'response.output_text.delta') text += event.delta;
        return text;
      }),
    ] as const;
    const [whole, vectors, text] = await Promise.all(answers);
    expect(whole.output_text).toBe('hello');
    expect(vectors.data.map(({ embedding }) => embedding)).toEqual([vectorOf('hello'), vectorOf('world')]);
    expect(text).toBe('hello');
    expect(api.maxInFlight).toBe(1);
    // The last one alone has taken more than 9000 until its answer was there.
    expect(full - limiter.snapshot().tokens).toBeLessThan(api.tokensCharged + 1);
  });

  it('pays for a streamed chat what its last chunk says, though the client reads no further', async () => {
    const limiter = createAccount({ tokensPerMinute: 60_000, burstSeconds: 60, headroom: 1, learn: false });
    const outcomes: string[] = [];
    const client = limit({ limiter, onEvent: (event) => event.type === 'attemptEnded' && outcomes.push(event.outcome) });
    const full = limiter.snapshot().tokens;
    const chat = { model: 'm', messages: messages('hello world'), max_completion_tokens: 9000 };
    await textIn(await client.chat.completions.create({ ...chat, stream: true, stream_options: { include_usage: true } }));
    expect(full - limiter.snapshot().tokens).toBeLessThan(1000);
    await expect.poll(() => outcomes, soon).toEqual(['ok']);
  });

  it('has its permit back after an answer that is said to be empty, which the client does not read', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const headers = { 'content-type': 'application/json', 'content-length': '0' };
    const client = limit({ limiter, fetch: () => Promise.resolve(new Response('', { headers })) });
    // OpenAI 6.0 reads it all the same.
    await client.responses.delete('r').catch(() => undefined);
    expect(limiter.executing).toBe(0);
  });

  it('pays nothing for tokens of others that it reads about', async () => {
    const limiter = createAccount({ tokensPerMinute: 60_000 });
    const full = limiter.snapshot().tokens;
    const report = { data: [{ results: [{ input_tokens: 50_000_000, output_tokens: 1 }] }] };
    const client = limit({ limiter, fetch: () => Promise.resolve(Response.json(report)) });
    expect(await client.get('/organization/usage/completions')).toEqual(report);
    expect(limiter.snapshot().tokens).toBe(full);
  });

  it('shares its limiter with another client', async () => {
    const limiter = createLimiter({ concurrency: 2 });
    const client = limit({ limiter });
    const plain = limitFetch({ limiter });
    const body = JSON.stringify({ model: 'm', messages: messages('plain'), stream: true });
    await Promise.all(
      Array.from({ length: 3 }, (_, i) => [
        stream(client, `number ${String(i)}`).then(textIn),
        plain(`${api.baseUrl}/chat/completions`, { method: 'POST', body }).then((response) => response.text()),
      ]).flat(),
    );
    expect(api.maxInFlight).toBe(2);
    expect(api.completed).toBe(6);
  });

  it('learns what the server says in its headers', async () => {
    const strict = await another({ requestsPerMinute: 90 });
    const limiter = createAccount({ requestsPerMinute: 6000 });
    await ask(limitOpenAI(clientOf(strict), { limiter }), 'x');
    expect(limiter.snapshot().requestsPerMinute).toBe(90);
  });

  it('keeps the class, the key and the own `fetch` of the client', async () => {
    const urls: string[] = [];
    const azure = new AzureOpenAI({
      apiKey: 'azure key',
      apiVersion: '2026-01-01',
      baseURL: `${api.url}/openai`,
      deployment: 'small',
      fetch: (input, init) => {
        urls.push(input instanceof Request ? input.url : String(input));
        expect(new Headers(init?.headers).get('api-key')).toBe('azure key');
        return fetch(`${api.baseUrl}/chat/completions`, init);
      },
    });
    const limiter = createLimiter({ concurrency: 1 });
    const limited: AzureOpenAI = limitOpenAI(azure, { limiter });
    expect(limited).toBeInstanceOf(AzureOpenAI);
    expect(await textIn(await stream(limited, 'to azure'))).toBe('to azure');
    expect(urls).toEqual([`${api.url}/openai/deployments/small/chat/completions?api-version=2026-01-01`]);
    expect(limited.maxRetries).toBe(0);
    expect(azure.maxRetries).toBe(2);
  });

  it.each([
    ['an endpoint, the deployment for the model', {}],
    ['a deployment of its own', { deployment: 'small' }],
    ['tokens of Entra', { apiKey: undefined, azureADTokenProvider: () => Promise.resolve('entra token') }],
  ])('keeps all of a client of Azure: %s', async (_name, options) => {
    const seen: [url: string, key: string | null][] = [];
    const azure = new AzureOpenAI({
      endpoint: api.url,
      apiVersion: '2026-01-01',
      apiKey: 'azure key',
      ...options,
      fetch: (input, init) => {
        const { headers } = new Request(input, init);
        seen.push([input instanceof Request ? input.url : String(input), headers.get('api-key') ?? headers.get('authorization')]);
        return fetch(`${api.baseUrl}/chat/completions`, init);
      },
    });
    const limited = limitOpenAI(azure, { limiter: createLimiter({ concurrency: 1 }) });
    expect(await textIn(await stream(limited, 'to azure'))).toBe('to azure');
    const key = 'azureADTokenProvider' in options ? 'Bearer entra token' : 'azure key';
    const model = 'deployment' in options ? 'small' : 'm';
    expect(seen).toEqual([[`${api.url}/openai/deployments/${model}/chat/completions?api-version=2026-01-01`, key]]);
  });

  it('sends with the `fetch` that it is given', async () => {
    const answer = { choices: [{ index: 0, message: { role: 'assistant', content: 'given' }, finish_reason: 'stop' }] };
    const client = limitOpenAI(clientOf(api), { fetch: () => Promise.resolve(Response.json(answer)) });
    expect((await ask(client, 'x')).choices[0]?.message.content).toBe('given');
    expect(api.requests).toHaveLength(0);
  });

  it('says so when the client does not show its own `fetch`', () => {
    const client = Object.assign(clientOf(api), { fetch: undefined });
    expect(() => limitOpenAI(client)).toThrow('limitOpenAI: expected `fetch` to be a function, got `undefined`');
    expect(limitOpenAI(client, { fetch })).toBeInstanceOf(OpenAI);
  });

  it.each([
    ['limitOpenAI', (client: OpenAI) => limitOpenAI(client)],
    ['openAIChat', (client: OpenAI) => openAIChat(client)],
    ['openAIEmbeddings', (client: OpenAI) => openAIEmbeddings(client, { model: 'm' })],
  ])('is once enough: %s refuses a client that is limited', (name, use) => {
    const limited = limit({});
    const message = `${name}: \`client\` has a limiter already. Pass the original client.`;
    expect(() => use(limited)).toThrow(message);
    expect(() => use(limited.withOptions({ timeout: 1000 }))).toThrow(message);
  });
});

describe('openAIChat', LONG, () => {
  expectNoUnhandledRejections();

  const caller = (limiter: Limiter, records: CallRecord[] = []) =>
    createModelCaller({
      call: openAIChat(clientOf(api), { model: 'm' }),
      limiter,
      retry,
      onRecord: (record) => records.push(record),
    });

  it('answers as the client does, and knows what it has cost', async () => {
    const records: CallRecord[] = [];
    const models = caller(createAccount({ concurrency: 2 }), records);
    const [whole, streamed] = await Promise.all([
      models.callAsync({ messages: messages('hello world') }),
      allOf(models.stream({ model: 'other', messages: messages('hello world'), max_completion_tokens: 50 })),
    ]);
    expect(whole.choices[0]?.message.content).toBe('hello world');
    expect(streamed).toBe('hello world');
    expect(api.requests.map(({ body }) => body)).toMatchObject([
      { model: 'm', stream: false },
      { model: 'other', stream: true, stream_options: { include_usage: true }, max_completion_tokens: 50 },
    ]);
    expect(records.map(({ model, promptTokens, completionTokens }) => ({ model, promptTokens, completionTokens }))).toEqual(
      expect.arrayContaining([
        { model: 'm', promptTokens: 3, completionTokens: 3 },
        { model: 'other', promptTokens: 3, completionTokens: 3 },
      ]),
    );
  });

  it('sends the settings of streams with streams alone', async () => {
    const settings = { include_usage: false };
    const models = createModelCaller({ call: openAIChat(clientOf(api), { model: 'm', stream_options: settings }) });
    await models.callAsync({ messages: messages('a') });
    await allOf(models.stream({ messages: messages('a') }));
    expect(api.requests[0]?.body).not.toHaveProperty('stream_options');
    expect(api.requests[1]?.body).toMatchObject({ stream_options: settings });
  });

  it('reckons the texts and the longest answer of a request', () => {
    const { cost } = openAIChat(clientOf(api), { model: 'm', max_completion_tokens: 1000 });
    const { inputTokens, outputTokens } = cost?.({ messages: messages('hello world') }) as Required<Usage>;
    expect([inputTokens > 0 && inputTokens < 10, outputTokens]).toEqual([true, 1000]);
    expect(cost?.({ messages: messages('hello world'), max_completion_tokens: 10 })).toEqual({ inputTokens, outputTokens: 10 });
  });

  it('holds the permit of a stream to its end', async () => {
    const limiter = createAccount({ concurrency: 2 });
    const models = caller(limiter);
    const texts = Array.from({ length: 6 }, (_, i) => `question number ${String(i)}`);
    expect(await Promise.all(texts.map((text) => allOf(models.stream({ messages: messages(text) }))))).toEqual(texts);
    expect(api.maxInFlight).toBe(2);
    expect(limiter.executing).toBe(0);
  });

  it('closes the connection of a stream that is left', async () => {
    const limiter = createAccount({ concurrency: 1 });
    await firstValueFrom(caller(limiter).stream({ messages: messages(LONG_TEXT) }));
    // When the server has seen it.
    await expect.poll(() => limiter.executing, soon).toBe(0);
    await expect.poll(() => api.aborted, soon).toBe(1);
  });

  it('sends nothing for a queued call that is aborted, and closes the connection of one that runs', async () => {
    const limiter = createAccount({ concurrency: 1, requestsPerMinute: 60 });
    const models = caller(limiter);
    api.fail('silent');
    const [first, second] = [new AbortController(), new AbortController()];
    const running = models.callAsync({ messages: messages('a') }, { signal: first.signal });
    await expect.poll(() => api.inFlight, soon).toBe(1);
    const { requests } = limiter.snapshot();
    const queued = models.callAsync({ messages: messages('b') }, { signal: second.signal });
    await heldBack(limiter);
    second.abort();
    await expect(queued).rejects.toMatchObject({ name: 'AbortError' });
    expect(limiter.snapshot().requests).toBeGreaterThanOrEqual(requests);
    first.abort();
    await expect(running).rejects.toMatchObject({ name: 'AbortError' });
    await expect.poll(() => api.aborted, soon).toBe(1);
    await expect.poll(() => limiter.executing, soon).toBe(0);
    expect(api.requests).toHaveLength(1);
  });

  it.each(['call', 'stream'] as const)('tries again after the pause that the server asks for: %s', async (kind) => {
    api.fail(slowDown);
    const models = caller(createAccount());
    await lastValueFrom<unknown>(models[kind]({ messages: messages('again') }));
    const [first, second] = api.requests;
    expect(api.requests).toHaveLength(2);
    expect(second!.at - first!.at).toBeGreaterThanOrEqual(140);
  });

  it.each(['call', 'stream'] as const)('makes three attempts in all, and fails with the error of the client: %s', async (kind) => {
    api.fail(...Array.from({ length: 9 }, (_, i) => refusal(503, `refusal ${String(i + 1)}`)));
    const failed: unknown = await lastValueFrom<unknown>(caller(createAccount())[kind]({ messages: messages('x') })).catch(
      (reason: unknown) => reason,
    );
    expect(failed).toBeInstanceOf(OpenAI.InternalServerError);
    expect(failed).toMatchObject({ status: 503, message: '503 refusal 3' });
    expect(api.requests).toHaveLength(3);
  });

  it('fails a refused call at once, and no other', async () => {
    const models = caller(createAccount({ concurrency: 4 }));
    const settled = await Promise.allSettled(['a', 'POISON', 'c'].map((text) => models.callAsync({ messages: messages(text) })));
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    const reason = reasonOf(settled[1]);
    expect(reason).toBeInstanceOf(OpenAI.BadRequestError);
    expect(reason).toMatchObject({ message: '400 Invalid prompt: it was refused.' });
    expect(api.requests).toHaveLength(3);
  });

  it.each(['call', 'stream'] as const)('learns from answers and from refusals: %s', async (kind) => {
    for (const answer of ['good', 'refused']) {
      const strict = await another({ requestsPerMinute: 90 });
      if (answer === 'refused') strict.fail(slowDown);
      const limiter = createAccount({ requestsPerMinute: 6000 });
      const models = createModelCaller({ call: openAIChat(clientOf(strict), { model: 'm' }), limiter, retry: false });
      await lastValueFrom<unknown>(models[kind]({ messages: messages('x') })).catch(() => undefined);
      expect(limiter.snapshot().requestsPerMinute, answer).toBe(90);
    }
  });

  it('shares its limiter with another client', async () => {
    const limiter = createAccount({ concurrency: 2 });
    const models = caller(limiter);
    const limited = limitOpenAI(clientOf(api), { limiter });
    await Promise.all(
      ['a', 'b', 'c'].flatMap((text) => [
        allOf(models.stream({ messages: messages(text) })),
        limited.chat.completions.create({ model: 'm', messages: messages(text), stream: true }).then(textIn),
      ]),
    );
    expect(api.maxInFlight).toBe(2);
    expect(api.completed).toBe(6);
  });
});

describe('openAIEmbeddings', LONG, () => {
  expectNoUnhandledRejections();

  const embedder = (limiter: Limiter, server = api) =>
    createEmbedder({ call: openAIEmbeddings(clientOf(server), { model: 'm' }), limiter, repair: robust({ retry }) });
  const rounded = (text: string, dimensions?: number) => Float32Array.from(vectorOf(text, dimensions));
  const texts = Array.from({ length: 16 }, (_, i) => `text number ${String(i)}`);
  const sent = (server = api) => server.requests.map(({ body }) => (body as { input: string[] }).input);

  it('gives each text its own vector, of the length that is asked for', async () => {
    const client = clientOf(api);
    const made = createEmbedder({ call: openAIEmbeddings(client, { model: 'm', dimensions: 3, user: 'u' }), concurrency: 2, maxSize: 4 });
    expect(await Promise.all(texts.map((text) => made.embedAsync(text)))).toEqual(texts.map((text) => rounded(text, 3)));
    expect(api.requests[0]?.body).toMatchObject({ model: 'm', dimensions: 3, user: 'u', encoding_format: 'base64' });
    await made.drain();
  });

  it('is charged by the price of its model', async () => {
    const budget = createBudget({ limits: [{ usd: 1 }], prices: { m: { inputUsdPerMillion: 10 } } });
    const made = createEmbedder({ call: openAIEmbeddings(clientOf(api), { model: 'm' }), limiter: createAccount({ budget }) });
    await made.embedAsync('hello');
    expect(budget.snapshot().spentUsd).toBeGreaterThan(0);
  });

  it.each([true, false])('isolates the refused text, whether the server names it (%s) or not', async (namePoison) => {
    const server = await another({ namePoison });
    const made = embedder(createAccount({ concurrency: 4 }), server);
    const settled = await Promise.allSettled([...texts, 'POISON'].map((text) => made.embedAsync(text)));
    const values = settled.map((result) => (result.status === 'fulfilled' ? result.value : undefined));
    expect(values).toEqual([...texts.map((text) => rounded(text)), undefined]);
    const reason = reasonOf(settled[16]);
    expect(reason).toBeInstanceOf(OpenAI.BadRequestError);
    expect(reason).toMatchObject({ status: 400, message: expect.stringContaining('Invalid') as string });
    expect(sent(server)[0]).toHaveLength(17);
  });

  it.each([
    ['nothing', null],
    ['no list', { data: {} }],
    ['invalid entries', { data: [null, null] }],
    ['vectors that are no base64', { data: [0, 1].map((index) => ({ index, embedding: '*' })) }],
    ['vectors that are cut off', { data: [0, 1].map((index) => ({ index, embedding: 'AAAA' })) }],
  ])('fails both texts at once on an answer with %s: smaller batches would not help', async (_, answer) => {
    let calls = 0;
    const client = new OpenAI({
      apiKey: 'secret',
      fetch: () => {
        calls++;
        return Promise.resolve(Response.json(answer));
      },
    });
    const made = createEmbedder({ call: openAIEmbeddings(client, { model: 'm' }), repair: robust({ retry }) });
    const settled = await Promise.allSettled(['a', 'b'].map((text) => made.embedAsync(text)));
    expect(settled.map((result) => isFlowError(reasonOf(result), 'FLOW_BATCH_SHAPE'))).toEqual([true, true]);
    expect(calls).toBe(1);
  });

  it('sends equal texts that are under way once', async () => {
    const made = embedder(createAccount());
    const [one, two] = await Promise.all([made.embedAsync('same'), made.embedAsync('same')]);
    expect(one).toEqual(two);
    expect(sent()).toEqual([['same']]);
  });

  it('closes the connection when all texts of a call are given up, and sends none that left before', async () => {
    const limiter = createAccount({ concurrency: 1, requestsPerMinute: 60 });
    const made = embedder(limiter);
    api.fail('silent');
    const [first, second] = [new AbortController(), new AbortController()];
    const running = made.embedAsync('running', { signal: first.signal });
    await expect.poll(() => api.inFlight, soon).toBe(1);
    const { requests } = limiter.snapshot();
    const queued = made.embedAsync('queued', { signal: second.signal });
    second.abort();
    await expect(queued).rejects.toMatchObject({ name: 'AbortError' });
    expect(limiter.snapshot().requests).toBeGreaterThanOrEqual(requests);
    first.abort();
    await expect(running).rejects.toMatchObject({ name: 'AbortError' });
    await expect.poll(() => api.aborted, soon).toBe(1);
    await made.drain();
    expect(sent()).toEqual([['running']]);
  });

  it('tries again after the pause that the server asks for, three times in all', async () => {
    const made = embedder(createAccount());
    api.fail(slowDown);
    expect(await made.embedAsync('again')).toEqual(rounded('again'));
    const [first, second] = api.requests;
    expect(second!.at - first!.at).toBeGreaterThanOrEqual(140);

    api.clear();
    api.fail(...Array.from({ length: 9 }, () => refusal(500, 'broken')));
    await expect(made.embedAsync('x')).rejects.toBeInstanceOf(OpenAI.InternalServerError);
    expect(api.requests).toHaveLength(3);
  });

  it('pays what the server says, and nothing for a refusal when that is free', async () => {
    const limiter = createAccount({ tokensPerMinute: 6000, burstSeconds: 60, headroom: 1, learn: false });
    const full = limiter.snapshot().tokens;
    const made = embedder(limiter);
    await expect(made.embedAsync('POISON '.repeat(400))).rejects.toBeInstanceOf(OpenAI.BadRequestError);
    await made.embedAsync('word '.repeat(400));
    expect(api.tokensCharged).toBe(500);
    // Some have come back since.
    const paid = full - limiter.snapshot().tokens;
    expect(paid).toBeLessThanOrEqual(500);
    expect(paid).toBeGreaterThan(100);
  });

  it('shares its limiter with another client', async () => {
    const limiter = createAccount({ concurrency: 1 });
    const server = await another({ latencyMs: 20 });
    const made = createEmbedder({ call: openAIEmbeddings(clientOf(server), { model: 'm' }), limiter, maxSize: 4 });
    const plain = limitFetch({ limiter });
    const body = JSON.stringify({ model: 'm', messages: messages('plain') });
    await Promise.all([
      ...texts.map((text) => made.embedAsync(text)),
      ...texts.slice(0, 3).map(async () => (await plain(`${server.baseUrl}/chat/completions`, { method: 'POST', body })).text()),
    ]);
    expect(server.maxInFlight).toBe(1);
    expect(server.completed).toBe(7);
  });
});

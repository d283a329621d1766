import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ClientOptions } from '@anthropic-ai/sdk';
import Anthropic from '@anthropic-ai/sdk';
import { lastValueFrom, toArray } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { FlowEvent } from '../../operators/index.js';
import { classifyError, createBreaker, createLimiter } from '../../operators/index.js';
import { createAccount } from '../../src/account/create-account.js';
import { anthropicChat, createAnthropicMiddleware, limitAnthropic } from '../../src/adapters/anthropic.js';
import type { HttpRequest } from '../../src/adapters/fetch.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import type { CallRecord } from '../../src/metrics/call-record.js';
import { createModelCaller } from '../../src/pipelines/create-model-caller.js';
import type { ModelApi } from '../fakes/model-api.js';
import { startModelApi } from '../fakes/model-api.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

const LONG = { timeout: 20_000 };
const soon = { timeout: 10_000 };
const retry = { delayMs: 1, jitter: 'none' } as const;
const overloaded = { status: 529, type: 'overloaded_error', message: 'Overloaded' };
const throttled = { status: 429, type: 'rate_limit_error', message: 'Slow down' };
/** An answer of many chunks. */
const LONG_TEXT = 'word '.repeat(60);

let api: ModelApi;

beforeEach(async () => {
  api = await startModelApi({ chunks: 40, chunkGapMs: 5 });
});

afterEach(async () => {
  await api.stop();
});

const ask = (content: string) => ({ model: 'm', max_tokens: 100, messages: [{ role: 'user' as const, content }] });
const clientWith = (options: ClientOptions = {}) => new Anthropic({ apiKey: 'none', baseURL: api.url, ...options });
const textOf = ({ content: [block] }: Anthropic.Message): string | undefined => (block?.type === 'text' ? block.text : undefined);

async function readAll(stream: AsyncIterable<Anthropic.MessageStreamEvent>): Promise<string> {
  let text = '';
  for await (const event of stream) if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') text += event.delta.text;
  return text;
}

describe('limitAnthropic', LONG, () => {
  expectNoUnhandledRejections();

  describe('a permit', () => {
    it('is held to the end of a stream: six streams through two permits are two at a time', async () => {
      const limiter = createLimiter({ concurrency: 2 });
      const client = limitAnthropic(clientWith(), { limiter });
      const texts = await Promise.all(
        Array.from({ length: 6 }, async (_, i) => readAll(await client.messages.create({ ...ask(`question ${String(i)}`), stream: true }))),
      );
      expect(texts).toEqual(Array.from({ length: 6 }, (_, i) => `question ${String(i)}`));
      expect(api.maxInFlight).toBe(2);
      expect(limiter.executing).toBe(0);
    });

    it.each([
      ['leaves the loop', false],
      ['aborts the stream', true],
    ])('comes back when the reader %s, and the server sees the connection close', async (_, aborts) => {
      const limiter = createLimiter({ concurrency: 1 });
      const client = limitAnthropic(clientWith(), { limiter });
      const stream = await client.messages.create({ ...ask(LONG_TEXT), stream: true });
      expect(limiter.executing).toBe(1);
      for await (const event of stream) {
        if (event.type !== 'content_block_delta') continue;
        if (aborts) stream.controller.abort();
        else break;
      }
      await expect.poll(() => limiter.executing, soon).toBe(0);
      await expect.poll(() => api.aborted, soon).toBe(1);
      expect(textOf(await client.messages.create(ask('next')))).toBe('next');
    });

    it('is held by the helper for streams, too, until that has ended or was aborted', async () => {
      const limiter = createLimiter({ concurrency: 1 });
      const client = limitAnthropic(clientWith(), { limiter });
      expect(await client.messages.stream(ask('whole')).finalText()).toBe('whole');
      const stream = client.messages.stream(ask(LONG_TEXT));
      stream.once('text', () => {
        stream.abort();
      });
      await expect(stream.done()).rejects.toBeInstanceOf(Anthropic.APIUserAbortError);
      await expect.poll(() => limiter.executing, soon).toBe(0);
      await expect.poll(() => api.aborted, soon).toBe(1);
    });

    it('comes back when the stream breaks off, and nothing is sent again', async () => {
      const limiter = createLimiter({ concurrency: 1 });
      api.fail({ cutStream: 2 });
      const stream = await limitAnthropic(clientWith(), { limiter, retry }).messages.create({ ...ask(LONG_TEXT), stream: true });
      await expect(readAll(stream)).rejects.toThrow('terminated');
      await expect.poll(() => limiter.executing, soon).toBe(0);
      expect(api.requests).toHaveLength(1);
    });
  });

  it('shares a limiter with another client', async () => {
    const limiter = createLimiter({ concurrency: 2 });
    const client = limitAnthropic(clientWith(), { limiter });
    const limited = limitFetch({ limiter });
    const chat = { method: 'POST', body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: LONG_TEXT }], stream: true }) };
    await Promise.all(
      Array.from({ length: 4 }, async () => [
        readAll(await client.messages.create({ ...ask(LONG_TEXT), stream: true })),
        (await limited(`${api.baseUrl}/chat/completions`, chat)).text(),
      ]).map(async (pair) => Promise.all(await pair)),
    );
    expect(api.maxInFlight).toBe(2);
    expect(api.completed).toBe(8);
  });

  describe('the time a request waits', () => {
    it('does not count towards the timeout of the client', async () => {
      const limiter = createLimiter({ concurrency: 1 });
      const client = limitAnthropic(clientWith({ timeout: 300 }), { limiter });
      const lease = limiter.tryAcquire();
      const startedAt = performance.now();
      const answer = client.messages.create(ask('patience'));
      await expect.poll(() => limiter.snapshot().queued, soon).toBe(1);
      setTimeout(() => lease?.release(), 600);
      expect(textOf(await answer)).toBe('patience');
      expect(performance.now() - startedAt).toBeGreaterThan(500);
      expect(api.requests).toHaveLength(1);
    });

    it('is at an end when its signal aborts: nothing was sent, and it cost nothing', async () => {
      const limiter = createAccount({ concurrency: 1, requestsPerMinute: 60, tokensPerMinute: 60_000 });
      const client = limitAnthropic(clientWith(), { limiter });
      const lease = limiter.tryAcquire();
      const { requests, tokens } = limiter.snapshot();
      const controller = new AbortController();
      const answer = client.messages.create(ask('second'), { signal: controller.signal });
      await expect.poll(() => limiter.snapshot().queued, soon).toBe(1);
      controller.abort();
      await expect(answer).rejects.toBeInstanceOf(Anthropic.APIUserAbortError);
      expect(limiter.snapshot().queued).toBe(0);
      expect(limiter.snapshot().requests).toBeGreaterThanOrEqual(requests);
      expect(limiter.snapshot().tokens).toBeGreaterThanOrEqual(tokens);
      expect(api.requests).toHaveLength(0);
      lease?.release();
    });

    it('is what the server asks for, in milliseconds if it says so', async () => {
      const client = limitAnthropic(clientWith(), { limiter: createAccount({ concurrency: 4 }), retry });
      api.fail({ ...throttled, headers: { 'retry-after-ms': '150', 'retry-after': '1' } });
      expect(textOf(await client.messages.create(ask('again')))).toBe('again');
      const [first, second, third] = api.requests;
      expect(third).toBeUndefined();
      expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(140);
    });

    it('is not waited for beyond the deadline: the call fails at once, and others are not sent', async () => {
      const limiter = createAccount({ concurrency: 4 });
      const client = limitAnthropic(clientWith(), { limiter, deadlineMs: 60_000 });
      api.fail({ ...throttled, headers: { 'retry-after': '7200' } });
      const startedAt = performance.now();
      const refused = client.messages.create(ask('later'));
      await expect(refused).rejects.toMatchObject({ code: 'FLOW_DEADLINE' });
      await expect(client.messages.create(ask('much later'), { signal: AbortSignal.timeout(50) })).rejects.toBeInstanceOf(
        Anthropic.APIUserAbortError,
      );
      expect(performance.now() - startedAt).toBeLessThan(5000);
      expect(api.requests).toHaveLength(1);
    });
  });

  it('aborts what is under way at the server', async () => {
    const slow = await startModelApi({ latencyMs: 60_000 });
    try {
      const limiter = createLimiter({ concurrency: 1 });
      const client = limitAnthropic(clientWith({ baseURL: slow.url }), { limiter, retry });
      const controller = new AbortController();
      const answer = client.messages.create(ask('slow'), { signal: controller.signal });
      await expect.poll(() => slow.inFlight, soon).toBe(1);
      controller.abort();
      await expect(answer).rejects.toBeInstanceOf(Anthropic.APIUserAbortError);
      await expect.poll(() => slow.aborted, soon).toBe(1);
      expect(limiter.executing).toBe(0);
      expect(slow.requests).toHaveLength(1);
    } finally {
      await slow.stop();
    }
  });

  it('sends again what failed in a way that may pass', async () => {
    const client = limitAnthropic(clientWith(), { limiter: createLimiter({ concurrency: 1 }), retry });
    api.fail(overloaded, 'cutSocket');
    expect(textOf(await client.messages.create(ask('third time')))).toBe('third time');
    expect(api.requests).toHaveLength(3);
  });

  it('does not retry when the server forbids it', async () => {
    const client = limitAnthropic(clientWith(), { limiter: createLimiter({ concurrency: 1 }), retry });
    api.fail({ ...throttled, headers: { 'x-should-retry': 'false' } });
    await expect(client.messages.create(ask('x'))).rejects.toBeInstanceOf(Anthropic.RateLimitError);
    expect(api.requests).toHaveLength(1);
  });

  describe('the error of a call', () => {
    it.each([
      // Version 0 has no class of its own for it.
      ['error for a status of 529', (Anthropic as Partial<typeof Anthropic>).OverloadedError ?? Anthropic.APIError, overloaded],
      ['InternalServerError', Anthropic.InternalServerError, { status: 500, type: 'api_error', message: 'Oh no' }],
    ] as const)('is the %s of the client after the third attempt', async (_, kind, failure) => {
      const client = limitAnthropic(clientWith(), { limiter: createLimiter({ concurrency: 1 }), retry });
      api.fail(...Array.from({ length: 6 }, () => failure));
      const error: unknown = await client.messages.create(ask('x')).catch((caught: unknown) => caught);
      expect(error).toBeInstanceOf(kind);
      expect(error).toMatchObject({ status: failure.status, type: failure.type, error: { error: { message: failure.message } } });
      expect(api.requests).toHaveLength(3);
    });

    it('is the RateLimitError of the client once a refusal is not waited out any more', async () => {
      const client = limitAnthropic(clientWith(), { limiter: createLimiter({ concurrency: 1 }), retry: { ...retry, maxThrottledMs: 0 } });
      api.fail(throttled);
      await expect(client.messages.create(ask('x'))).rejects.toBeInstanceOf(Anthropic.RateLimitError);
      expect(api.requests).toHaveLength(1);
    });

    it('is that of the refused one: its neighbours have their answers', async () => {
      const client = limitAnthropic(clientWith(), { limiter: createLimiter({ concurrency: 2 }), retry });
      const [before, refused, after] = await Promise.allSettled(
        ['before', 'POISON', 'after'].map(async (text) => textOf(await client.messages.create(ask(text)))),
      );
      expect([before, after]).toMatchObject([{ value: 'before' }, { value: 'after' }]);
      const error: unknown = refused?.status === 'rejected' ? refused.reason : undefined;
      expect(error).toBeInstanceOf(Anthropic.BadRequestError);
      expect(error).toMatchObject({ error: { error: { type: 'invalid_request_error', message: 'Invalid prompt: it was refused.' } } });
      expect(api.requests).toHaveLength(3);
    });

    it('is an APIConnectionError with its cause when the connection fails', async () => {
      const client = limitAnthropic(clientWith({ fetch: () => Promise.reject(new TypeError('fetch failed')) }), { retry });
      const error: unknown = await client.messages.create(ask('x')).catch((caught: unknown) => caught);
      expect(error).toBeInstanceOf(Anthropic.APIConnectionError);
      expect(error).toMatchObject({ cause: { message: 'fetch failed' } });
    });

    it('is an APIConnectionTimeoutError when the time of the client is over: once, and the permit is free', async () => {
      const limiter = createLimiter({ concurrency: 1 });
      api.fail('silent', 'silent');
      const answer = limitAnthropic(clientWith({ timeout: 100 }), { limiter, retry }).messages.create(ask('x'));
      await expect(answer).rejects.toBeInstanceOf(Anthropic.APIConnectionTimeoutError);
      await expect.poll(() => limiter.executing, soon).toBe(0);
      expect(api.requests).toHaveLength(1);
    });

    it('is the same after `timeoutMs`, but that is tried again', async () => {
      const limiter = createLimiter({ concurrency: 1 });
      const client = limitAnthropic(clientWith(), { limiter, retry, timeoutMs: 100 });
      api.fail('silent');
      expect(textOf(await client.messages.create(ask('second time')))).toBe('second time');
      api.fail('silent', 'silent', 'silent');
      await expect(client.messages.create(ask('x'))).rejects.toBeInstanceOf(Anthropic.APIConnectionTimeoutError);
      expect(api.requests).toHaveLength(5);
      await expect.poll(() => limiter.executing, soon).toBe(0);
    });

    it('is our own when we end the call', async () => {
      const limiter = createLimiter({ concurrency: 1 });
      const lease = limiter.tryAcquire();
      const late = limitAnthropic(clientWith(), { limiter, deadlineMs: 20 }).messages.create(ask('x'));
      await expect(late).rejects.toMatchObject({ code: 'FLOW_DEADLINE' });
      lease?.release();
      const breaker = createBreaker({ classify: classifyError, opens: { minCalls: 2, share: 0.5 } });
      const client = limitAnthropic(clientWith(), { breaker, retry: false });
      api.fail(overloaded, overloaded);
      for (let i = 0; i < 2; i++) await expect(client.messages.create(ask('x'))).rejects.toMatchObject({ status: 529 });
      await expect(client.messages.create(ask('x'))).rejects.toMatchObject({ code: 'FLOW_BREAKER_OPEN' });
      limiter.close();
      await expect(limitAnthropic(clientWith(), { limiter }).messages.create(ask('x'))).rejects.toMatchObject({ code: 'FLOW_CLOSED' });
      expect(api.requests).toHaveLength(2);
    });
  });

  it('keeps what the client is, behind its own middleware', async () => {
    const seen: number[] = [];
    const own = clientWith({
      timeout: 1234,
      middleware: [
        async (request, next) => {
          const response = await next(request);
          seen.push(response.status);
          return response;
        },
      ],
    });
    const client = limitAnthropic(own, { retry });
    expect(client).toBeInstanceOf(Anthropic);
    expect(client).toMatchObject({ timeout: 1234, maxRetries: 0, baseURL: api.url });
    expect(own).toMatchObject({ maxRetries: 2, middleware: { length: 1 } });
    api.fail(overloaded);
    await client.messages.create(ask('x'));
    expect(seen).toEqual([200]);
    expect(api.requests).toHaveLength(2);
  });

  it('tells the limiter what a request asks for, and pays what it has cost', async () => {
    const lanes = [{ name: 'user' }, { name: 'batch' }];
    const limiter = createAccount({ concurrency: 1, tokensPerMinute: 6000, burstSeconds: 60, headroom: 1, learn: false, lanes });
    const seen: HttpRequest[] = [];
    const events: FlowEvent[] = [];
    const full = limiter.snapshot().tokens;
    const client = limitAnthropic(clientWith(), {
      limiter,
      job: (request) => {
        seen.push(request);
        return { lane: request.headers.get('x-lane') ?? 'batch', cost: { tokens: 5000 } };
      },
      onEvent: (event) => events.push(event),
    });
    const stream = await client.messages.create({ ...ask('hello world'), stream: true }, { headers: { 'x-lane': 'user' } });
    expect(full - limiter.snapshot().tokens).toBeGreaterThan(4000);
    await readAll(stream);
    expect(seen).toMatchObject([{ url: `${api.url}/v1/messages`, method: 'POST', json: { messages: [{ content: 'hello world' }] } }]);
    expect(events.find(({ type }) => type === 'accepted')).toMatchObject({ operator: 'limitAnthropic', lane: 'user' });
    expect(full - limiter.snapshot().tokens).toBeLessThan(api.tokensCharged + 1);
  });
});

describe('createAnthropicMiddleware', LONG, () => {
  expectNoUnhandledRejections();

  it.each([
    ['529', overloaded, 3],
    ['400', { status: 400, message: 'No' }, 1],
  ])('sends no more than its own attempts when the client would try five times more: %s', async (_, failure, attempts) => {
    const limiter = createAccount({ concurrency: 1 });
    const client = clientWith({ maxRetries: 5, middleware: [createAnthropicMiddleware({ limiter, retry })] });
    api.fail(...Array.from({ length: 20 }, () => failure));
    await expect(client.messages.create(ask('x'))).rejects.toMatchObject({
      status: failure.status,
      error: { error: { message: failure.message } },
    });
    expect(api.requests).toHaveLength(attempts);
  });

  it('sends no more than that either when the connection breaks', async () => {
    const client = clientWith({ maxRetries: 1, middleware: [createAnthropicMiddleware({ retry })] });
    api.fail(...Array.from({ length: 20 }, () => 'cutSocket' as const));
    await expect(client.messages.create(ask('x'))).rejects.toBeInstanceOf(Anthropic.APIConnectionError);
    expect(api.requests).toHaveLength(3);
    api.clear();
    expect(textOf(await client.messages.create(ask('all is well')))).toBe('all is well');
  });

  it('leaves trying again to the client with `retry: false`, each time with a permit of its own', async () => {
    const limiter = createAccount({ concurrency: 1, requestsPerMinute: 60, headroom: 1 });
    const client = clientWith({ maxRetries: 1, middleware: [createAnthropicMiddleware({ limiter, retry: false })] });
    const { requests } = limiter.snapshot();
    api.fail('cutSocket');
    expect(textOf(await client.messages.create(ask('x')))).toBe('x');
    expect(api.requests).toHaveLength(2);
    expect(limiter.snapshot().requests).toBeLessThan(requests);
  });

  it('leaves its `timeout` to the client, and what comes after it', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const client = clientWith({ maxRetries: 1, timeout: 100, middleware: [createAnthropicMiddleware({ limiter, retry })] });
    api.fail('silent', 'silent');
    await expect(client.messages.create(ask('x'))).rejects.toBeInstanceOf(Anthropic.APIConnectionTimeoutError);
    expect(api.requests).toHaveLength(2);
    await expect.poll(() => limiter.executing, soon).toBe(0);
  });

  describe('with a credential', () => {
    let folder: string;

    beforeEach(async () => {
      folder = await mkdtemp(join(tmpdir(), 'sluice-'));
      await writeFile(join(folder, 'identity'), 'a.b.c');
    });

    afterEach(async () => {
      await rm(folder, { recursive: true });
    });

    const withToken = (options: Pick<ClientOptions, 'middleware' | 'maxRetries'>, saw: (path: string) => void) =>
      new Anthropic({
        ...options,
        apiKey: null,
        authToken: null,
        config: {
          base_url: api.url,
          organization_id: 'org',
          authentication: {
            type: 'oidc_federation',
            federation_rule_id: 'fdrl_1',
            identity_token: { source: 'file', path: join(folder, 'identity') },
          },
        },
        fetch: (input, init) => {
          const { pathname, href } = new URL((input as string | URL).toString());
          saw(pathname);
          return pathname === '/v1/oauth/token'
            ? Promise.resolve(Response.json({ access_token: 'token', token_type: 'Bearer', expires_in: 3600 }))
            : fetch(href, init);
        },
      });

    it('lets the request for its token pass without a permit', async () => {
      const limiter = createLimiter({ concurrency: 1 });
      const executing: [path: string, count: number][] = [];
      const client = withToken({ middleware: [createAnthropicMiddleware({ limiter })] }, (path) =>
        executing.push([path, limiter.executing]),
      );
      expect(textOf(await client.messages.create(ask('with a token')))).toBe('with a token');
      expect(executing).toEqual([
        ['/v1/oauth/token', 0],
        ['/v1/messages', 1],
      ]);
      expect(limiter.executing).toBe(0);
    });

    it('needs a retry of the client to use a new token in the same call', async () => {
      const limiter = createLimiter({ concurrency: 1 });
      const expired = { status: 401, type: 'authentication_error', message: 'Expired' };
      const paths: string[] = [];
      const client = withToken({ maxRetries: 1, middleware: [createAnthropicMiddleware({ limiter, retry })] }, (path) => paths.push(path));
      api.fail(expired);
      expect(textOf(await client.messages.create(ask('renewed')))).toBe('renewed');
      expect(paths).toEqual(['/v1/oauth/token', '/v1/messages', '/v1/oauth/token', '/v1/messages']);

      const without = limitAnthropic(
        withToken({}, () => undefined),
        { limiter, retry },
      );
      api.fail(expired);
      await expect(without.messages.create(ask('x'))).rejects.toBeInstanceOf(Anthropic.AuthenticationError);
      expect(textOf(await without.messages.create(ask('the next one')))).toBe('the next one');
    });
  });
});

describe('anthropicChat', LONG, () => {
  expectNoUnhandledRejections();

  it('makes the calls of a caller, and counts their tokens', async () => {
    const records: CallRecord[] = [];
    const models = createModelCaller({
      call: anthropicChat(clientWith()),
      retry,
      onRecord: (record) => records.push(record),
      limiter: createAccount({ concurrency: 4 }),
    });
    api.fail(overloaded);
    expect(textOf(await models.callAsync(ask('hello world'), { lane: 'user' }))).toBe('hello world');
    expect(api.requests).toHaveLength(2);
    const events = await lastValueFrom(models.stream(ask('hello again')).pipe(toArray()));
    expect(events.map(({ type }) => type)).toContain('content_block_delta');
    expect(records).toMatchObject([
      { model: 'm', attempt: 1, status: 'error', errorCode: 'HTTP_529', promptTokens: null },
      { model: 'm', attempt: 2, status: 'success', promptTokens: 3, completionTokens: 3 },
      { model: 'm', attempt: 1, status: 'success', promptTokens: 3, completionTokens: 3 },
    ]);
  });

  it('makes all attempts, and gives the error of the client', async () => {
    const models = createModelCaller({ call: anthropicChat(clientWith({ maxRetries: 5 })), retry });
    api.fail(...Array.from({ length: 20 }, () => overloaded));
    await expect(models.callAsync(ask('x'))).rejects.toMatchObject({ status: 529 });
    expect(api.requests).toHaveLength(3);
  });

  it('charges a quarter of the longest answer to begin with, and shows the limiter the headers', async () => {
    const strict = await startModelApi({ requestsPerMinute: 60, burstSeconds: 60 });
    try {
      const limiter = createAccount({ concurrency: 1, requestsPerMinute: 6000, tokensPerMinute: 6000, burstSeconds: 60, headroom: 1 });
      const full = limiter.snapshot().tokens;
      const spent: number[] = [];
      const client = clientWith({
        baseURL: strict.url,
        fetch: (input, init) => {
          spent.push(full - limiter.snapshot().tokens);
          return fetch(input, init);
        },
      });
      const models = createModelCaller({ call: anthropicChat(client), limiter });
      await models.callAsync({ ...ask('hello world'), max_tokens: 4000 });
      expect(spent[0]).toBeGreaterThan(990);
      expect(spent[0]).toBeLessThan(1050);
      expect(limiter.snapshot().requestsPerMinute).toBe(60);
    } finally {
      await strict.stop();
    }
  });

  it('aborts a call when its subscriber leaves', async () => {
    const models = createModelCaller({ call: anthropicChat(clientWith()), concurrency: 1 });
    const subscription = models.stream(ask(LONG_TEXT)).subscribe((event) => {
      if (event.type === 'content_block_delta') subscription.unsubscribe();
    });
    await expect.poll(() => api.aborted, soon).toBe(1);
    expect(models.snapshot().executing).toBe(0);
  });

  it('pays a stream at its end, what went in as its start has said, and gives nothing back before', async () => {
    const limiter = createAccount({ concurrency: 1, tokensPerMinute: 6000, burstSeconds: 60, headroom: 1 });
    const models = createModelCaller({ call: anthropicChat(clientWith()), limiter });
    const full = limiter.snapshot().tokens;
    const spent: [string, number][] = [];
    await models.stream({ ...ask('hello again'), max_tokens: 4000 }).forEach(({ type }) => {
      spent.push([type, Math.round((full - limiter.snapshot().tokens) / 1000)]);
    });
    expect(spent.at(0)).toEqual(['message_start', 1]);
    expect(spent.filter(([type]) => type === 'content_block_delta').every(([, tokens]) => tokens === 1)).toBe(true);
    expect(spent.at(-1)).toEqual(['message_stop', 1]);
    expect(Math.round((full - limiter.snapshot().tokens) / 1000)).toBe(0);
  });
});

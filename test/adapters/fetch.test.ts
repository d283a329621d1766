import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { watchHost } from '../../marbles/host-watch.js';
import type { FlowEvent } from '../../operators/index.js';
import { classifyError, createAccount, createBreaker, createLimiter } from '../../operators/index.js';
import type { HttpRequest } from '../../src/adapters/fetch.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import type { ModelApi } from '../fakes/model-api.js';
import { startModelApi } from '../fakes/model-api.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

const LONG = { timeout: 20_000 };
const soon = { timeout: 10_000 };
const retry = { delayMs: 1, jitter: 'none' } as const;

let api: ModelApi;

beforeEach(async () => {
  api = await startModelApi({ chunks: 40, chunkGapMs: 5 });
});

afterEach(async () => {
  await api.stop();
});

const ask = (content: string, body: object = {}) => ({
  method: 'POST',
  body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content }], ...body }),
});
const chat = () => `${api.baseUrl}/chat/completions`;
const stream = { stream: true };
/** An answer of many chunks. */
const LONG_TEXT = 'word '.repeat(60);

describe('limitFetch', LONG, () => {
  expectNoUnhandledRejections();

  describe('a permit', () => {
    it('is held until the body has been read, also of a stream', async () => {
      const limiter = createLimiter({ concurrency: 2 });
      const limited = limitFetch({ limiter });
      const texts = await Promise.all(
        Array.from({ length: 6 }, async (_, i) => (await limited(chat(), ask(`question ${String(i)}`, stream))).text()),
      );
      for (const [i, text] of texts.entries()) expect(text).toContain(String(i));
      expect(api.maxInFlight).toBe(2);
      expect(api.completed).toBe(6);
      expect(limiter.executing).toBe(0);
    });

    it('comes back when the reader leaves, and the server sees the connection close', async () => {
      const limiter = createLimiter({ concurrency: 1 });
      const limited = limitFetch({ limiter });
      const first = await limited(chat(), ask(LONG_TEXT, stream));
      const reader = (first.body as ReadableStream<Uint8Array>).getReader();
      await reader.read();
      expect(limiter.executing).toBe(1);
      await reader.cancel();
      await expect.poll(() => limiter.executing, soon).toBe(0);
      await expect.poll(() => api.aborted, soon).toBe(1);
      const next = await limited(chat(), ask('next'));
      expect(await next.json()).toMatchObject({ choices: [{ message: { role: 'assistant' } }] });
    });

    it('comes back when the body breaks off, and the reader sees what broke', async () => {
      const limiter = createLimiter({ concurrency: 1 });
      const limited = limitFetch({ limiter });
      api.fail({ cutStream: 2 });
      const response = await limited(chat(), ask(LONG_TEXT, stream));
      await expect(response.text()).rejects.toThrow(/terminated/);
      await expect.poll(() => limiter.executing, soon).toBe(0);
      expect(api.requests).toHaveLength(1);
    });

    it('comes back at once for a response without a body, also where bodies are no streams', async () => {
      const limiter = createLimiter({ concurrency: 1 });
      const limited = limitFetch({ limiter, fetch: () => Promise.resolve(new Response(null, { status: 204 })) });
      expect((await limited(chat())).status).toBe(204);
      expect(limiter.executing).toBe(0);
      const plain = { status: 200, headers: new Headers(), json: () => Promise.resolve({ a: 1 }) };
      const strange = limitFetch({ limiter, fetch: () => Promise.resolve(plain as Response) });
      expect(await (await strange(chat())).json()).toEqual({ a: 1 });
      expect(limiter.executing).toBe(0);
    });

    it('comes back when the reader leaves in the middle of a read, as cancelled, though the source never says that it has stopped', async () => {
      const limiter = createLimiter({ concurrency: 1 });
      const events: FlowEvent[] = [];
      let signal: AbortSignal | null | undefined;
      const body = new ReadableStream<Uint8Array>({ cancel: () => new Promise(() => undefined) });
      const limited = limitFetch({
        limiter,
        onEvent: (event) => events.push(event),
        fetch: (_url, init) => {
          signal = init?.signal;
          return Promise.resolve(new Response(body));
        },
      });
      const reader = ((await limited(chat())).body as ReadableStream<Uint8Array>).getReader();
      const read = reader.read();
      void reader.cancel();
      expect(await read).toMatchObject({ done: true });
      await expect.poll(() => limiter.executing, soon).toBe(0);
      expect(signal?.aborted).toBe(true);
      expect(events.at(-2)).toMatchObject({ type: 'attemptEnded', outcome: 'cancelled' });
    });
  });

  describe('a signal', () => {
    it('that aborts in the queue sends nothing and costs nothing', async () => {
      const limiter = createAccount({ concurrency: 1, requestsPerMinute: 60, tokensPerMinute: 60_000 });
      const limited = limitFetch({ limiter });
      const busy = await limited(chat(), ask(LONG_TEXT, stream));
      const { requests, tokens } = limiter.snapshot();
      const controller = new AbortController();
      const waiting = limited(chat(), { ...ask('second'), signal: controller.signal });
      await expect.poll(() => limiter.snapshot().queued, soon).toBe(1);
      controller.abort();
      await expect(waiting).rejects.toMatchObject({ name: 'AbortError' });
      expect(limiter.snapshot().queued).toBe(0);
      expect(limiter.snapshot().requests).toBeGreaterThanOrEqual(requests);
      expect(limiter.snapshot().tokens).toBeGreaterThanOrEqual(tokens);
      await busy.body?.cancel();
      expect(api.requests).toHaveLength(1);
    });

    it('that has aborted already asks for nothing', async () => {
      const limiter = createLimiter({ concurrency: 1 });
      const reason = new Error('too late');
      await expect(limitFetch({ limiter })(chat(), { ...ask('x'), signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
      expect(api.requests).toHaveLength(0);
    });

    it('that aborts in the middle of a body reaches the server, and its reason the reader', async () => {
      const limiter = createLimiter({ concurrency: 1 });
      const controller = new AbortController();
      const response = await limitFetch({ limiter })(chat(), { ...ask(LONG_TEXT, stream), signal: controller.signal });
      const reader = (response.body as ReadableStream<Uint8Array>).getReader();
      await reader.read();
      const reason = new DOMException('the user has left', 'AbortError');
      controller.abort(reason);
      await expect(
        (async () => {
          while (!(await reader.read()).done);
        })(),
      ).rejects.toBe(reason);
      await expect.poll(() => api.aborted, soon).toBe(1);
      expect(limiter.executing).toBe(0);
    });

    it('that aborts just before a response comes leaves no rejection behind', async () => {
      const controller = new AbortController();
      const limited = limitFetch({
        fetch: async (_url, init) => {
          const body = new ReadableStream({
            start: (source) => {
              init?.signal?.addEventListener('abort', () => {
                source.error(init.signal?.reason);
              });
            },
          });
          await new Promise((resolve) => setTimeout(resolve, 20));
          return new Response(body);
        },
      });
      const call = limited(chat(), { signal: controller.signal });
      setTimeout(() => {
        controller.abort();
      }, 5);
      await expect(call).rejects.toMatchObject({ name: 'AbortError' });
      await new Promise((resolve) => setTimeout(resolve, 30));
    });

    it('ends a body that knows nothing of it, and so do the time limits', async () => {
      const limiter = createLimiter({ concurrency: 3 });
      const silent = () => Promise.resolve(new Response(new ReadableStream()));
      const controller = new AbortController();
      const reason = new Error('the user has left');
      const response = await limitFetch({ limiter, fetch: silent })(chat(), { signal: controller.signal });
      const text = response.text();
      controller.abort(reason);
      await expect(text).rejects.toBe(reason);
      const slow = await limitFetch({ limiter, fetch: silent, timeoutMs: 10 })(chat());
      await expect(slow.text()).rejects.toMatchObject({ name: 'AttemptTimeoutError' });
      const late = await limitFetch({ limiter, fetch: silent, deadlineMs: 10 })(chat());
      await expect(late.text()).rejects.toMatchObject({ code: 'FLOW_DEADLINE' });
      await expect.poll(() => limiter.executing, soon).toBe(0);
    });

    it('of null means none, also for a Request that has one', async () => {
      const limited = limitFetch({ fetch: () => Promise.resolve(new Response('ok')) });
      const request = new Request(chat(), { signal: AbortSignal.abort() });
      expect(await (await limited(request, { signal: null })).text()).toBe('ok');
      expect(await (await limited(chat(), null as never)).text()).toBe('ok');
    });

    it('has no listener left afterwards', async () => {
      const controller = new AbortController();
      const added = vi.spyOn(controller.signal, 'addEventListener');
      const removed = vi.spyOn(controller.signal, 'removeEventListener');
      const limited = limitFetch({ limiter: createLimiter({ concurrency: 8 }) });
      await Promise.all(Array.from({ length: 20 }, async () => (await limited(chat(), { ...ask('x'), signal: controller.signal })).text()));
      expect(added.mock.calls.length).toBeGreaterThan(0);
      expect(removed.mock.calls.length).toBeGreaterThanOrEqual(added.mock.calls.length);
    });
  });

  describe('a refusal', () => {
    it('that is transient is retried after the pause the server asks for, and every other call waits with it', async () => {
      const limiter = createAccount({ concurrency: 4 });
      const limited = limitFetch({ limiter, retry });
      api.fail({ status: 429, headers: { 'retry-after-ms': '150' }, message: 'slow down' });
      const response = await limited(chat(), ask('again'));
      expect(response.status).toBe(200);
      await response.text();
      const [first, second] = api.requests;
      expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(140);
      expect(api.requests).toHaveLength(2);
    });

    it.each([529, 503, 500])('%i is tried three times, and the last answer is the answer', async (status) => {
      const limited = limitFetch({ limiter: createLimiter({ concurrency: 1 }), retry });
      api.fail(...Array.from({ length: 5 }, (_, i) => ({ status, message: `refusal ${String(i + 1)}` })));
      const response = await limited(chat(), ask('x'));
      expect(response.status).toBe(status);
      expect(response.url).toBe(chat());
      expect(response.headers.get('x-should-retry')).toBe('false');
      expect(await response.json()).toMatchObject({ error: { message: 'refusal 3' } });
      expect(api.requests).toHaveLength(3);
    });

    it('for good is the answer at once, as it came', async () => {
      const limited = limitFetch({ limiter: createLimiter({ concurrency: 1 }), retry });
      api.fail({ status: 429, code: 'insufficient_quota', message: 'You exceeded your quota' });
      const response = await limited(chat(), ask('x'));
      expect(response.status).toBe(429);
      expect(await response.json()).toMatchObject({ error: { code: 'insufficient_quota' } });
      expect(api.requests).toHaveLength(1);
    });

    it('that breaks off is what its status says, and one that no constructor takes comes all the same', async () => {
      let cut = 0;
      const server = createServer(({ url, socket }, response) => {
        if (url === '/cut') socket.end(`HTTP/1.1 400 Bad Request\r\ncontent-length: 9\r\n\r\nno${String(++cut)}`);
        else if (url === '/status') response.writeHead(999).end('odd');
        else socket.end('HTTP/1.1 200 成功\r\ncontent-length: 2\r\n\r\nok');
      });
      await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
      const url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
      const limited = limitFetch({ limiter: createLimiter({ concurrency: 1 }) });
      expect((await limited(`${url}/cut`)).status).toBe(400);
      expect(cut).toBe(1);
      const odd = await limited(`${url}/status`);
      expect([odd.status, odd.ok, await odd.text()]).toEqual([999, false, 'odd']);
      const strange = await limited(`${url}/reason`);
      const copy = strange.clone();
      expect([strange.statusText, copy.statusText, copy.url]).toEqual(['成功', '成功', `${url}/reason`]);
      expect([await strange.text(), await copy.text()]).toEqual(['ok', 'ok']);
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    });

    it('is tried again when the server asks for it, whatever its status', async () => {
      const limited = limitFetch({ retry });
      api.fail({ status: 400, message: 'Not yet', headers: { 'x-should-retry': 'true' } });
      const response = await limited(chat(), ask('x'));
      expect(response.status).toBe(200);
      await response.text();
      expect(api.requests).toHaveLength(2);
    });

    it('says nothing about trying again when that is the business of the client', async () => {
      const limited = limitFetch({ retry: false });
      api.fail({ status: 500, message: 'x' });
      const response = await limited(chat(), ask('x'));
      expect(response.headers.get('x-should-retry')).toBeNull();
      expect(api.requests).toHaveLength(1);
    });
  });

  it('sends again what a broken connection took away', async () => {
    api.fail('cutSocket', 'cutSocket');
    const response = await limitFetch({ retry })(chat(), ask('x'));
    expect(response.status).toBe(200);
    await response.text();
    expect(api.requests).toHaveLength(3);
  });

  it('rejects with what fetch failed with, as the same object', async () => {
    const failure = new TypeError('fetch failed');
    const limited = limitFetch({ retry: { ...retry, maxAttempts: 2 }, fetch: () => Promise.reject(failure) });
    await expect(limited(chat())).rejects.toBe(failure);
  });

  it('cuts off a body that takes longer than an attempt may, and says so to its reader', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const response = await limitFetch({ limiter, retry, timeoutMs: 120 })(chat(), ask(LONG_TEXT, stream));
    await expect(response.text()).rejects.toMatchObject({ name: 'AttemptTimeoutError' });
    await expect.poll(() => api.aborted, soon).toBe(1);
    expect(limiter.executing).toBe(0);
  });

  it('ends a call at its deadline, also in the queue', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const lease = limiter.tryAcquire();
    await expect(limitFetch({ limiter, deadlineMs: 20 })(chat(), ask('x'))).rejects.toMatchObject({ code: 'FLOW_DEADLINE' });
    lease?.release();
    expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
    expect(api.requests).toHaveLength(0);
  });

  it('keeps out of the way of a server that is down', async () => {
    const breaker = createBreaker({ classify: classifyError, opens: { minCalls: 2, share: 0.5 } });
    const limited = limitFetch({ breaker, retry: false });
    api.fail(...Array.from({ length: 4 }, () => ({ status: 500, message: 'down' })));
    for (let i = 0; i < 2; i++) await (await limited(chat(), ask('x'))).text();
    await expect(limited(chat(), ask('x'))).rejects.toMatchObject({ code: 'FLOW_BREAKER_OPEN' });
    expect(api.requests).toHaveLength(2);
  });

  describe('the limiter', () => {
    it('is told what a request asks for', async () => {
      const lanes = [{ name: 'user' }, { name: 'batch' }];
      const limiter = createAccount({ concurrency: 1, tokensPerMinute: 60, burstSeconds: 60_000, lanes });
      const seen: HttpRequest[] = [];
      const events: FlowEvent[] = [];
      const limited = limitFetch({
        limiter,
        job: (request) => {
          seen.push(request);
          return { lane: request.headers.get('x-lane') ?? 'batch', cost: { tokens: 500 } };
        },
        onEvent: (event) => events.push(event),
      });
      const before = limiter.snapshot().tokens;
      const response = await limited(new URL(chat()), { ...ask('hello'), headers: { 'x-lane': 'user' } });
      expect(limiter.snapshot().tokens).toBeCloseTo(before - 500, -2);
      await response.text();
      expect(seen).toMatchObject([{ url: chat(), method: 'POST', json: { messages: [{ content: 'hello' }] } }]);
      expect(events.find(({ type }) => type === 'accepted')).toMatchObject({ operator: 'limitFetch', lane: 'user' });
    });

    it('pays what the answer says, whole and streamed, and what was estimated until then', async () => {
      const limiter = createAccount({ concurrency: 1, tokensPerMinute: 60, burstSeconds: 60_000, headroom: 1, learn: false });
      const limited = limitFetch({ limiter });
      const full = limiter.snapshot().tokens;
      const response = await limited(chat(), ask('hello world', { max_tokens: 4000 }));
      expect(full - limiter.snapshot().tokens).toBeGreaterThan(990);
      await response.text();
      const usage = api.tokensCharged;
      expect(usage).toBeGreaterThan(0);
      await expect.poll(() => full - limiter.snapshot().tokens, soon).toBeLessThan(usage + 1);

      const streamed = await limited(
        chat(),
        ask('hello world', { max_tokens: 4000, stream: true, stream_options: { include_usage: true } }),
      );
      await streamed.text();
      await expect.poll(() => full - limiter.snapshot().tokens, soon).toBeLessThan(api.tokensCharged - usage + 1);
    });

    it('pays nothing for a question how many tokens something would be, and goes by the last numbers of an answer', async () => {
      const limiter = createAccount({ concurrency: 1, tokensPerMinute: 60, burstSeconds: 60_000, headroom: 1, learn: false });
      const full = limiter.snapshot().tokens;
      const answers = [
        { input_tokens: 9000 },
        { content: [{ input: { prompt_tokens: 5 } }], usage: { input_tokens: 300, output_tokens: 20 } },
      ];
      const limited = limitFetch({ limiter, fetch: () => Promise.resolve(Response.json(answers.shift())) });
      await (await limited('https://host/v1/messages/count_tokens', ask('how long is this?'))).text();
      expect(limiter.snapshot().tokens).toBe(full);
      await (await limited('https://host/v1/messages', ask('do it'))).text();
      expect(full - limiter.snapshot().tokens).toBeGreaterThan(300);
      expect(full - limiter.snapshot().tokens).toBeLessThanOrEqual(320);
    });

    it('gets its permit back with the headers when the body is no web stream', async () => {
      const limiter = createLimiter({ concurrency: 1 });
      const body = { pipe: () => undefined };
      const response = { status: 200, headers: new Headers(), body, ok: true } as unknown as Response;
      expect(await limitFetch({ limiter, fetch: () => Promise.resolve(response) })('https://host')).toBe(response);
      expect(limiter.executing).toBe(0);
    });

    it('learns what the server says in its headers', async () => {
      const strict = await startModelApi({ requestsPerMinute: 60, burstSeconds: 60 });
      try {
        const limiter = createAccount({ concurrency: 1, requestsPerMinute: 6000 });
        await (await limitFetch({ limiter })(`${strict.baseUrl}/chat/completions`, ask('x'))).text();
        expect(limiter.snapshot().requestsPerMinute).toBe(60);
      } finally {
        await strict.stop();
      }
    });
  });

  describe('a request', () => {
    it('may be a Request, sent as often as it takes', async () => {
      api.fail({ status: 500, message: 'once' });
      const request = new Request(chat(), { ...ask('from a Request'), headers: { 'content-type': 'application/json' } });
      const seen: HttpRequest[] = [];
      const limiter = createLimiter({ concurrency: 1 });
      const job = (one: HttpRequest) => {
        seen.push(one);
        return {};
      };
      const response = await limitFetch({ retry, limiter, job })(request);
      expect(await response.text()).toContain('from a Request');
      expect(api.requests).toHaveLength(2);
      expect(seen).toMatchObject([{ url: chat(), method: 'POST', json: { model: 'm' } }]);
    });

    it('may be given as the options', async () => {
      const given = new Request('http://else', { ...ask('from the options'), headers: { 'content-type': 'application/json' } });
      const response = await limitFetch()(chat(), given);
      expect(await response.text()).toContain('from the options');
    });

    it('whose body never ends can be aborted', async () => {
      const controller = new AbortController();
      const init = { method: 'POST', body: new ReadableStream(), duplex: 'half', signal: controller.signal };
      const call = limitFetch()(new Request(chat(), init));
      controller.abort();
      await expect(call).rejects.toMatchObject({ name: 'AbortError' });
      expect(api.requests).toHaveLength(0);
    });

    it('may be as deep and as long as JSON can be', async () => {
      const limiter = createLimiter({ concurrency: 1 });
      const limited = limitFetch({ limiter, fetch: () => Promise.resolve(new Response('ok')) });
      const deep = `{"messages":${'['.repeat(20_000)}"x"${']'.repeat(20_000)}}`;
      expect(await (await limited(chat(), { method: 'POST', body: deep })).text()).toBe('ok');
    });

    it('with a stream for a body is sent once', async () => {
      const bodies: string[] = [];
      const server = createServer((request, response) => {
        request.setEncoding('utf8').on('data', (text: string) => bodies.push(text));
        request.on('end', () => response.writeHead(503).end('down'));
      });
      await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
      const url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
      const body = new Blob(['once']).stream();
      const response = await limitFetch({ retry })(url, { method: 'POST', body, duplex: 'half' } as RequestInit);
      expect(response.status).toBe(503);
      expect(bodies).toEqual(['once']);
      await new Promise((closed) => server.close(closed));
    });
  });

  it('looks the global fetch up when it is called', async () => {
    const limited = limitFetch();
    vi.stubGlobal('fetch', () => Promise.resolve(new Response('stubbed')));
    try {
      expect(await (await limited('https://host')).text()).toBe('stubbed');
    } finally {
      vi.unstubAllGlobals();
    }
  });

  it('leaves nothing running', async () => {
    const { signal } = new AbortController();
    const answers = [500, 200, 429, 200];
    const base = () => Promise.resolve(new Response('x', { status: answers.shift() ?? 200 }));
    const watch = watchHost();
    try {
      const limiter = createAccount({ concurrency: 2, requestsPerMinute: 600_000 });
      const limited = limitFetch({ limiter, retry, deadlineMs: 60_000, timeoutMs: 30_000, fetch: base });
      const texts = Array.from({ length: 10 }, async () => (await limited('https://host', { signal })).text());
      expect(watch.left()).not.toEqual([]);
      await Promise.all(texts);
      await limiter.drain();
      expect(watch.left()).toEqual([]);
    } finally {
      watch.stop();
    }
  });
});

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, streamText } from 'ai';
import OpenAI, { toFile } from 'openai';
import OpenAI6, { toFile as toFile6 } from 'openai6';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { FlowEvent } from '../../operators/index.js';
import { createLimiter } from '../../operators/index.js';
import { limitLanguageModel } from '../../src/adapters/ai-sdk.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import { limitOpenAI } from '../../src/adapters/openai.js';
import { chatCompletions, createModelCaller } from '../../src/pipelines/create-model-caller.js';
import type { StreamPlan } from '../fakes/stream-plan.js';
import type { StreamServer } from '../fakes/stream-server.js';
import { question, startStreamServer } from '../fakes/stream-server.js';
import { collectGarbage } from '../support/garbage.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

const soon = { timeout: 5000 };
const LONG = { timeout: 30_000 };

let server: StreamServer;
let ids = 0;
const stops: (() => Promise<void>)[] = [];

beforeAll(async () => {
  server = await startStreamServer();
});

afterAll(async () => {
  await server.stop();
});

afterEach(async () => {
  await expect.poll(() => server.inFlight, soon).toBe(0);
  server.clear();
  for (const stop of stops.splice(0)) await stop();
});

const planned = (plan: Partial<StreamPlan> = {}): StreamPlan => ({
  id: `r${String(ids++)}`,
  chunks: 5,
  gapMs: 2,
  then: 'end',
  tailMs: 0,
  ...plan,
});
const asked = (plan: Partial<StreamPlan> = {}): [string, RequestInit] => [
  `${server.url}/v1/chat/completions`,
  { method: 'POST', body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: question(planned(plan)) }], stream: true }) },
];

/** A server of this process, for what the other one does not do. */
async function serving(handle: Parameters<typeof createServer>[1]): Promise<string> {
  const own = createServer(handle);
  await new Promise<void>((listening) => own.listen(0, '127.0.0.1', listening));
  stops.push(async () => {
    own.closeAllConnections();
    await new Promise((closed) => own.close(closed));
  });
  return `http://127.0.0.1:${String((own.address() as AddressInfo).port)}`;
}

const read = async (response: Response): Promise<ReadableStreamDefaultReader<Uint8Array>> => {
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  await reader.read();
  return reader;
};

describe('a URL without a server', LONG, () => {
  expectNoUnhandledRejections();

  it.each(['data:,', 'data:text/plain,hello', ' DATA:,x'])('takes no permit: %j', async (url) => {
    const limiter = createLimiter({ concurrency: 1 });
    const limited = limitFetch({ limiter });
    for (const input of [url, new URL(url), new Request(url)]) expect((await limited(input)).status).toBe(200);
    expect(limiter.executing).toBe(0);
  });

  it('takes no permit as a blob, and its address stands for nothing else', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const url = URL.createObjectURL(new Blob(['hello']));
    expect(await (await limitFetch({ limiter })(url)).text()).toBe('hello');
    URL.revokeObjectURL(url);
    expect(limiter.executing).toBe(0);
    await limitFetch({ limiter, fetch: () => Promise.resolve(new Response(new ReadableStream())) })('/v1/models');
    expect(limiter.executing).toBe(1);
  });

  it.each([
    ['openai 7', () => new OpenAI({ apiKey: 'k', maxRetries: 0 }), toFile],
    ['openai 6', () => new OpenAI6({ apiKey: 'k', maxRetries: 0 }) as unknown as OpenAI, toFile6 as typeof toFile],
  ])('does not hang the first upload of %s', async (_name, client, file) => {
    const url = await serving((request, response) => {
      request.resume().on('end', () => {
        response.setHeader('content-type', 'application/json').end('{"id":"file-1"}');
      });
    });
    const limiter = createLimiter({ concurrency: 1 });
    const limited = limitOpenAI(client().withOptions({ baseURL: url }), { limiter });
    const uploaded = await limited.files.create({ file: await file(Buffer.from('x'), 'a.txt'), purpose: 'assistants' });
    expect(uploaded.id).toBe('file-1');
    await expect.poll(() => limiter.executing, soon).toBe(0);
  });
});

describe('a stream whose reader is gone', LONG, () => {
  expectNoUnhandledRejections();

  it('returns its permit when the server has ended it, before the reader asks for the end', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const response = await limitFetch({ limiter })(...asked({ chunks: 40, gapMs: 1 }));
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    let text = new TextDecoder().decode((await reader.read()).value);
    await expect.poll(() => limiter.executing, soon).toBe(0);
    for (let step = await reader.read(); !step.done; step = await reader.read()) text += new TextDecoder().decode(step.value);
    expect(text).toContain('word39');
  });

  it.each(['break', 'cancel'])('gives its permit back with the AI SDK, which splits it and never cancels: %s', async (way) => {
    const limiter = createLimiter({ concurrency: 2 });
    const provider = createOpenAICompatible({ name: 'p', baseURL: `${server.url}/v1`, apiKey: 'k' });
    const model = limitLanguageModel(provider('m'), { limiter });
    for (let i = 0; i < 2; i++) {
      const { textStream } = streamText({ model, prompt: question(planned({ chunks: 30 })) });
      if (way === 'break') {
        for await (const text of textStream) if (text !== '') break;
      } else {
        const reader = textStream.getReader();
        await reader.read();
        await reader.cancel();
      }
    }
    await expect.poll(() => [limiter.executing, server.inFlight], soon).toEqual([0, 0]);
  });

  it('gives its permit back when a call is made and never awaited', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    let requests = 0;
    const url = await serving((_request, response) => {
      requests++;
      response.setHeader('content-type', 'application/json').end('{"choices":[]}');
    });
    const client = limitOpenAI(new OpenAI({ apiKey: 'k', baseURL: url }), { limiter });
    void client.chat.completions.create({ model: 'm', messages: [] });
    await expect.poll(() => requests, soon).toBe(1);
    await expect.poll(() => limiter.executing, soon).toBe(0);
  });

  it.each([
    ['unread', (response: Response) => response.status],
    ['half read', (response: Response) => read(response).then(() => 1)],
    ['copied', (response: Response) => read(response.clone()).then(() => 1)],
    ['split', (response: Response) => read(new Response(response.body?.tee()[0])).then(() => 1)],
  ])('is given up when it is collected, and says so: %s', async (_name, use) => {
    const limiter = createLimiter({ concurrency: 1 });
    const events: FlowEvent[] = [];
    const plan = planned({ then: 'more', gapMs: 5 });
    await limitFetch({ limiter, onEvent: (event) => events.push(event) })(...asked(plan)).then(use);
    expect(limiter.executing).toBe(1);
    await collectGarbage(() => limiter.executing === 0);
    expect(events).toContainEqual({ type: 'abandoned', operator: 'limitFetch', lane: 'default' });
    await expect.poll(() => server.ends.has(plan.id), soon).toBe(true);
  });

  it('is not abandoned while a reader waits for its next chunk', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    let text = '';
    void (async () => {
      const response = await limitFetch({ limiter })(...asked({ chunks: 10, gapMs: 40 }));
      for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) text += new TextDecoder().decode(chunk);
    })();
    const garbage = setInterval(() => void collectGarbage(() => true), 15);
    await expect.poll(() => text, soon).toContain('[DONE]');
    clearInterval(garbage);
    expect(text).toContain('word9');
  });
});

describe('a connection that is being closed', LONG, () => {
  expectNoUnhandledRejections();

  it.each(['cancel', 'abort', 'timeout'])('keeps its permit until the server has seen it: %s', async (way) => {
    const limiter = createLimiter({ concurrency: 2 });
    const limited = limitFetch({ limiter, retry: false, timeoutMs: way === 'timeout' ? 60 : Infinity });
    await Promise.all(
      Array.from({ length: 30 }, async () => {
        const controller = new AbortController();
        const [url, init] = asked({ then: 'more' });
        const reader = await limited(url, { ...init, signal: controller.signal }).then(read, () => undefined);
        // On a busy machine its time was over before.
        if (reader === undefined) return;
        if (way === 'cancel') await reader.cancel();
        else if (way === 'abort') controller.abort();
        else
          while (
            await reader.read().then(
              ({ done }) => !done,
              () => false,
            )
          );
      }),
    );
    expect(server.begun).toBeGreaterThanOrEqual(25);
    expect(server.maxInFlight).toBeLessThanOrEqual(2);
    await expect.poll(() => limiter.executing, soon).toBe(0);
  });

  it('keeps its permit until the server has ended a stream that has said its last word', async () => {
    const limiter = createLimiter({ concurrency: 2 });
    const client = limitOpenAI(new OpenAI({ apiKey: 'k', baseURL: `${server.url}/v1` }), { limiter });
    await Promise.all(
      Array.from({ length: 12 }, async () => {
        const messages = [{ role: 'user' as const, content: question(planned({ tailMs: 20 })) }];
        for await (const chunk of await client.chat.completions.create({ model: 'm', stream: true, messages })) expect(chunk.id).toBe('c');
      }),
    );
    expect(server.maxInFlight).toBeLessThanOrEqual(2);
    await expect.poll(() => limiter.executing, soon).toBe(0);
  });

  it('keeps its permit no longer than closeGraceMs, though nothing says that it has closed', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const stuck = () => Promise.resolve(new Response(new ReadableStream({ cancel: () => new Promise(() => undefined) })));
    const leave = async (closeGraceMs: number) => {
      const reader = ((await limitFetch({ limiter, fetch: stuck, closeGraceMs })('http://host')).body as ReadableStream).getReader();
      void reader.cancel();
    };
    await leave(30);
    expect(limiter.executing).toBe(1);
    await expect.poll(() => limiter.executing, soon).toBe(0);
    await leave(0);
    expect(limiter.executing).toBe(0);
  });
});

describe('an adapter under a limiter that closes', LONG, () => {
  expectNoUnhandledRejections();

  it('drains: streams under way go on to their end, and so does what waits; what is new is refused', async () => {
    const limiter = createLimiter({ concurrency: 2 });
    const limited = limitFetch({ limiter });
    const [one, other] = await Promise.all([limited(...asked({ chunks: 20 })), limited(...asked({ chunks: 20 }))]);
    const waiting = limited(...asked());
    await expect.poll(() => limiter.snapshot().queued, soon).toBe(1);
    const drained = limiter.drain();
    await expect(limited(...asked())).rejects.toMatchObject({ code: 'FLOW_CLOSED' });
    expect(await one.text()).toContain('[DONE]');
    expect(await other.text()).toContain('[DONE]');
    expect(await (await waiting).text()).toContain('[DONE]');
    expect(await drained).toMatchObject({ aborted: 0, dropped: 0 });
    expect(limiter.executing).toBe(0);
  });

  it('closes: streams under way fail, what waits and what is new is refused', async () => {
    const limiter = createLimiter({ concurrency: 2 });
    const limited = limitFetch({ limiter });
    const streams = await Promise.all([limited(...asked({ chunks: 200 })), limited(...asked({ chunks: 200 }))]);
    const waiting = limited(...asked());
    await expect.poll(() => limiter.snapshot().queued, soon).toBe(1);
    limiter.close();
    for (const given of [waiting, limited(...asked()), ...streams.map((stream) => stream.text())])
      await expect(given).rejects.toMatchObject({ code: 'FLOW_CLOSED' });
    await expect.poll(() => limiter.executing, soon).toBe(0);
  });
});

describe('a refusal without bounds', LONG, () => {
  expectNoUnhandledRejections();

  it('is read up to its bound, and its message is short', async () => {
    let sent = 0;
    const url = await serving((_request, response) => {
      response.writeHead(400, { 'content-type': 'application/json' });
      response.write('{"error":{"message":"');
      const more = (): void => {
        while (!response.destroyed && sent < 60_000_000) {
          sent += 65_536;
          if (!response.write('x'.repeat(65_536))) {
            response.once('drain', more);
            return;
          }
        }
      };
      more();
    });
    const limiter = createLimiter({ concurrency: 1 });
    const response = await limitFetch({ limiter })(url);
    expect(response.status).toBe(400);
    expect((await response.text()).length).toBeLessThan(2_000_000);
    await expect.poll(() => limiter.executing, soon).toBe(0);
    expect(sent).toBeLessThan(30_000_000);
    const models = createModelCaller({ call: chatCompletions({ baseUrl: url, model: 'm' }), retry: false });
    const error = await models.callAsync({ messages: [] }).catch((failure: unknown) => failure as Error);
    expect((error as Error).message.length).toBeLessThan(3000);
    models.close();
  });

  it('that never ends gives its permit back, and is an answer all the same', async () => {
    const url = await serving((_request, response) => {
      response.writeHead(404, { 'content-type': 'text/plain' }).write('no such thing');
    });
    const limiter = createLimiter({ concurrency: 1 });
    const response = await limitFetch({ limiter })(url);
    expect([response.status, await response.text()]).toEqual([404, 'no such thing']);
    await expect.poll(() => limiter.executing, soon).toBe(0);
  });

  it('of a server that sends its clients round in circles ends at once, with an error', async () => {
    let requests = 0;
    const url = await serving((_request, response) => {
      requests++;
      response.writeHead(302, { location: `/${String(requests)}` }).end();
    });
    const limiter = createLimiter({ concurrency: 1 });
    await expect(limitFetch({ limiter })(url)).rejects.toThrow('fetch failed');
    expect(requests).toBeLessThan(25);
    await expect.poll(() => limiter.executing, soon).toBe(0);
  });
});

it('an abort in the queue sends nothing', LONG, async () => {
  const limiter = createLimiter({ concurrency: 1 });
  const provider = createOpenAICompatible({ name: 'p', baseURL: `${server.url}/v1`, apiKey: 'k', fetch: limitFetch({ limiter }) });
  const lease = limiter.tryAcquire();
  const abortSignal = AbortSignal.timeout(20);
  await expect(generateText({ model: provider('m'), prompt: question(planned()), abortSignal, maxRetries: 0 })).rejects.toThrow();
  lease?.release();
  await sleep(50);
  expect(server.begun).toBe(0);
  expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
});

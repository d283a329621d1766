import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Limiter } from '../../operators/index.js';
import { createLimiter } from '../../operators/index.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

const soon = { timeout: 5000 };
const TEXT = 'word '.repeat(2000);

const server = createServer((request, response) => {
  if (request.url === '/gzip') response.setHeader('content-encoding', 'gzip').end(gzipSync(TEXT));
  else if (request.url === '/bad-gzip') response.setHeader('content-encoding', 'gzip').end('no gzip');
  else if (request.url === '/204') response.writeHead(204).end();
  else if (request.url === '/304') response.writeHead(304).end();
  else if (request.url === '/trailers') {
    response.writeHead(200, { trailer: 'x-end' });
    response.write(TEXT);
    response.addTrailers({ 'x-end': 'yes' });
    response.end();
  } else if (request.url === '/silent') response.writeHead(200).write('word');
  else response.end(TEXT);
});
let url = '';

beforeAll(async () => {
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
});

afterAll(async () => {
  server.closeAllConnections();
  await new Promise((closed) => server.close(closed));
});

async function* nested(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const inner = async function* () {
    yield* body;
  };
  for await (const chunk of inner()) yield chunk;
}

/** What people do with a response, and what they get. */
const uses: Readonly<Record<string, (limited: typeof fetch) => Promise<unknown>>> = {
  'gzip, read': async (limited) => {
    expect(await (await limited(`${url}/gzip`)).text()).toBe(TEXT);
  },
  'invalid gzip': async (limited) => expect((await limited(`${url}/bad-gzip`)).text()).rejects.toThrow(),
  '204': async (limited) => {
    expect((await limited(`${url}/204`)).body).toBeNull();
  },
  '304': async (limited) => {
    expect((await limited(`${url}/304`)).status).toBe(304);
  },
  HEAD: async (limited) => {
    expect(await (await limited(url, { method: 'HEAD' })).text()).toBe('');
  },
  trailers: async (limited) => {
    expect(await (await limited(`${url}/trailers`)).text()).toBe(TEXT);
  },
  'only the status': async (limited) => {
    expect((await limited(url)).status).toBe(200);
  },
  'a copy, both read': async (limited) => {
    const response = await limited(url);
    const copy = response.clone();
    expect([await copy.text(), await response.text()]).toEqual([TEXT, TEXT]);
  },
  'both halves of a tee cancelled': async (limited) => {
    const halves = ((await limited(`${url}/silent`)).body as ReadableStream).tee();
    await Promise.all(halves.map((half) => half.cancel()));
  },
  'one half of a tee read': async (limited) => {
    const [half] = ((await limited(url)).body as ReadableStream<Uint8Array>).tee();
    expect(await new Response(half).text()).toBe(TEXT);
  },
  'an early return through nested generators': async (limited) => {
    const body = (await limited(`${url}/silent`)).body as unknown as AsyncIterable<Uint8Array>;
    for await (const chunk of nested(body)) if (chunk.length > 0) break;
  },
  'a time limit of the platform': async (limited) => {
    const response = await limited(`${url}/silent`, { signal: AbortSignal.timeout(100) });
    await expect(response.text()).rejects.toMatchObject({ name: 'TimeoutError' });
  },
  'an abort after the end, before it is read': async (limited) => {
    const controller = new AbortController();
    const response = await limited(new Request(url, { signal: controller.signal }));
    await new Promise((resolve) => setTimeout(resolve, 100));
    controller.abort();
    await expect(response.text()).rejects.toMatchObject({ name: 'AbortError' });
  },
  'a lock let go in the middle of a read': async (limited) => {
    const body = (await limited(url)).body as ReadableStream<Uint8Array>;
    const reader = body.getReader();
    const read = reader.read();
    reader.releaseLock();
    const first = await read.catch(() => undefined);
    let text = new TextDecoder().decode(first?.value);
    for await (const chunk of body as unknown as AsyncIterable<Uint8Array>) text += new TextDecoder().decode(chunk);
    expect(text).toBe(TEXT);
  },
};

describe('limitFetch', () => {
  expectNoUnhandledRejections();

  it.each(Object.entries(uses))('has its permit back after %s, again and again', async (_name, use) => {
    const limiter: Limiter = createLimiter({ concurrency: 1 });
    const limited = limitFetch({ limiter, retry: false });
    for (let i = 0; i < 5; i++) await use(limited);
    await expect.poll(() => limiter.executing, soon).toBe(0);
  });
});

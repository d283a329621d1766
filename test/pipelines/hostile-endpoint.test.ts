import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { robust } from '../../operators/index.js';
import { boundedText } from '../../src/pipelines/bounded-text.js';
import { createEmbedder } from '../../src/pipelines/create-embedder.js';
import { chatCompletions, createModelCaller } from '../../src/pipelines/create-model-caller.js';
import { embeddings } from '../../src/pipelines/embeddings-api.js';
import type { ProviderError } from '../../src/pipelines/provider-error.js';
import { serverEvents } from '../../src/pipelines/server-events.js';

const open: (() => void)[] = [];
afterEach(() => {
  for (const close of open.splice(0).reverse()) close();
});

const MEGABYTE = 1 << 20;

/** A server that does what it likes, on a free port. */
async function hostile(answer: (response: ServerResponse, request: IncomingMessage) => void) {
  let requests = 0;
  let bytes = 0;
  let left = 0;
  const server = createServer((request, response) => {
    requests++;
    request.resume();
    response.on('close', () => {
      bytes += response.socket?.bytesWritten ?? 0;
      if (!response.writableFinished) left++;
    });
    answer(response, request);
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  open.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    baseUrl: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/v1`,
    seen: () => ({ requests, bytes, left }),
  };
}

/** Writes as much as the other side takes, until it has gone. */
function flood(response: ServerResponse, most = Infinity): void {
  const chunk = Buffer.alloc(MEGABYTE, 'x');
  let written = 0;
  const more = (): void => {
    while (!response.destroyed && written < most) {
      written += chunk.length;
      if (!response.write(chunk)) return;
    }
    if (!response.destroyed) response.end('"}}');
  };
  response.on('drain', more);
  more();
}

const json = { 'content-type': 'application/json' };

function caller(baseUrl: string) {
  const models = createModelCaller({ call: chatCompletions({ baseUrl, model: 'm' }), retry: { delayMs: 1, maxAttempts: 3 } });
  open.push(() => {
    models.close();
  });
  return { ask: () => models.callAsync({ messages: [] }).catch((error: unknown) => error as ProviderError) };
}

describe.each(['createModelCaller', 'createEmbedder'] as const)('%s over a server that means harm', (name) => {
  const ask = async (baseUrl: string): Promise<ProviderError> => {
    if (name === 'createModelCaller') return (await caller(baseUrl).ask()) as ProviderError;
    const embedder = createEmbedder({
      call: embeddings({ baseUrl, model: 'm' }),
      repair: robust({ retry: { delayMs: 1, maxAttempts: 3 } }),
    });
    open.push(() => {
      embedder.close();
    });
    return embedder.embedAsync('text').then(
      () => {
        throw new Error('it was answered');
      },
      (error: unknown) => error as ProviderError,
    );
  };

  it('reads the start of a refusal of 50 MB, and leaves the rest', async () => {
    const { baseUrl, seen } = await hostile((response) => {
      response.writeHead(400, json).write('{"error":{"message":"');
      flood(response, 50 * MEGABYTE);
    });
    const error = await ask(baseUrl);
    expect(error).toMatchObject({ name: 'ProviderError', status: 400 });
    expect(error.message.length).toBeLessThan(2100);
    await expect.poll(() => seen().left).toBe(seen().requests);
    expect(seen().bytes).toBeLessThan(20 * MEGABYTE);
  });

  it('bounds a message, a code and a type that the provider says at length', async () => {
    const long = 'y'.repeat(50_000);
    const { baseUrl } = await hostile((response) => {
      response.writeHead(400, json).end(JSON.stringify({ error: { message: long, code: long, type: long, param: long } }));
    });
    const { message, code, type, param } = await ask(baseUrl);
    expect(message).toBe(`400 ${long.slice(0, 2000)}…`);
    expect([code, type, param].map((word) => word?.length)).toEqual([201, 201, 201]);
  });

  it('does not wait for the end of a refusal that never comes', async () => {
    const { baseUrl, seen } = await hostile((response) => {
      response.writeHead(400, json).write('{"error":{"message":"no"');
    });
    expect(await ask(baseUrl)).toMatchObject({ name: 'ProviderError', status: 400, message: '400 {"error":{"message":"no"' });
    expect(seen().requests).toBe(1);
  });

  it('believes the status of a refusal that breaks off', async () => {
    const { baseUrl, seen } = await hostile((response) => {
      response.writeHead(401, { ...json, 'content-length': '100' }).write('{"error":', () => response.destroy());
    });
    expect(await ask(baseUrl)).toMatchObject({ name: 'ProviderError', status: 401 });
    expect(seen().requests).toBe(1);
  });

  it('goes round a loop of redirects once, and not again with each attempt', async () => {
    const { baseUrl, seen } = await hostile((response, { url = '' }) => {
      response.writeHead(307, { location: url }).end();
    });
    expect(await ask(baseUrl)).toBeInstanceOf(TypeError);
    // The platform gives up after 20.
    expect(seen().requests).toBe(21);
  });
});

describe('boundedText', () => {
  it('reads so many bytes and no more, and says that there was more', async () => {
    const read = await boundedText(new Response('abcdef'), { maxBytes: 4 });
    expect(read).toEqual({ text: 'abcd', isWhole: false });
    expect(await boundedText(new Response('abcd'), { maxBytes: 4 })).toEqual({ text: 'abcd', isWhole: true });
    expect(await boundedText(new Response(null), { maxBytes: 4 })).toEqual({ text: '', isWhole: true });
  });

  it('gives what came before the body broke off, with the error', async () => {
    const broken = new Error('cut');
    const body = new ReadableStream({
      pull(controller) {
        controller.enqueue(new TextEncoder().encode('half'));
        controller.error(broken);
      },
    });
    const { text, isWhole, error } = await boundedText(new Response(body), { maxBytes: 100 });
    expect({ isWhole, error }).toEqual({ isWhole: false, error: broken });
    expect('half').toContain(text);
  });
});

it('gives a stream up whose line does not end', async () => {
  let left = false;
  let chunks = 0;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (++chunks > 20) controller.close();
      else controller.enqueue(new Uint8Array(MEGABYTE).fill(120));
    },
    cancel() {
      left = true;
    },
  });
  const events = serverEvents(body);
  await expect(events.next()).rejects.toThrow('an event is longer than 16777216 characters');
  expect(left).toBe(true);
});

import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { firstValueFrom } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { classifyError } from '../../operators/index.js';
import { limitAnthropic } from '../../src/adapters/anthropic.js';
import { fromEventStream, limitFetch } from '../../src/adapters/fetch.js';
import { limitOpenAI } from '../../src/adapters/openai.js';
import { chatCompletions, createEmbedder, createModelCaller, embeddings } from '../../src/index.js';
import { keepOrigin } from '../../src/pipelines/keep-origin.js';

interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

interface TestServer {
  readonly origin: string;
  readonly seen: Seen[];
  close(): void;
}

let thief: TestServer;
let front: TestServer;
/** Where and how the server in front sends requests that do not come from itself. */
let status = 307;
let target = '';

async function serve(answer: (seen: Seen) => readonly [number, Readonly<Record<string, string>>, string]): Promise<TestServer> {
  const seen: Seen[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (piece: Buffer) => (body += piece.toString()));
    request.on('end', () => {
      const one = { method: request.method ?? '', url: request.url ?? '', headers: request.headers, body };
      seen.push(one);
      const [code, headers, text] = answer(one);
      response.writeHead(code, headers).end(text);
    });
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  return {
    origin: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`,
    seen,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

const ANSWER = JSON.stringify({
  choices: [{ index: 0, message: { role: 'assistant', content: 'x' }, finish_reason: 'stop' }],
  data: [{ index: 0, embedding: [1, 2] }],
  content: [{ type: 'text', text: 'x' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, input_tokens: 1, output_tokens: 1 },
});

beforeEach(async () => {
  thief = await serve(() => [200, { 'content-type': 'application/json' }, ANSWER]);
  front = await serve(({ url }) =>
    url.startsWith('/end') ? [200, { 'content-type': 'application/json' }, ANSWER] : [status, { location: target }, 'moved'],
  );
  status = 307;
  target = `${thief.origin}/v1/x?token=SECRET-QUERY`;
});

afterEach(() => {
  thief.close();
  front.close();
});

const KEY = { 'x-api-key': 'SECRET-KEY' };
const prompt = { model: 'm', messages: [{ role: 'user' as const, content: 'SECRET-PROMPT' }] };

/** Whatever of ours sends a request with a key or a prompt. */
const senders: readonly (readonly [string, (baseUrl: string) => Promise<unknown>])[] = [
  [
    'createEmbedder',
    (baseUrl) =>
      createEmbedder({ call: embeddings({ baseUrl, model: 'm', apiKey: 'SECRET-KEY', headers: KEY }) }).embedAsync('SECRET-PROMPT'),
  ],
  [
    'createModelCaller',
    (baseUrl) =>
      createModelCaller({ call: chatCompletions({ baseUrl, model: 'm', apiKey: 'SECRET-KEY', headers: KEY }) }).callAsync({
        messages: prompt.messages,
      }),
  ],
  ['limitFetch, POST', (baseUrl) => limitFetch()(`${baseUrl}/x`, { method: 'POST', body: 'SECRET-PROMPT' })],
  ['limitFetch, GET with a key', (baseUrl) => limitFetch()(`${baseUrl}/x`, { headers: KEY })],
  [
    'limitFetch, a Request',
    (baseUrl) => limitFetch()(new Request(`${baseUrl}/x`, { method: 'POST', body: 'SECRET-PROMPT', headers: KEY })),
  ],
  [
    'fromEventStream',
    (baseUrl) => firstValueFrom(fromEventStream(new Request(`${baseUrl}/x`, { method: 'POST', body: 'SECRET-PROMPT', headers: KEY }))),
  ],
  ['limitOpenAI', (baseURL) => limitOpenAI(new OpenAI({ baseURL, apiKey: 'SECRET-KEY' })).chat.completions.create(prompt)],
  [
    'limitAnthropic',
    (baseURL) => limitAnthropic(new Anthropic({ baseURL, apiKey: 'SECRET-KEY' })).messages.create({ ...prompt, max_tokens: 9 }),
  ],
];

describe.each(senders)('%s', (_, send) => {
  it.each([301, 302, 303, 307, 308])('sends nothing to another origin: %i', async (code) => {
    status = code;
    const error = await send(`${front.origin}/v1`).then(
      () => undefined,
      (reason: unknown) => reason as Error,
    );
    expect(thief.seen).toEqual([]);
    const said = messagesOf(error);
    expect(said).toContain(front.origin);
    expect(said).toContain(thief.origin);
    expect(said).not.toContain('SECRET');
    expect(front.seen).toHaveLength(1);
  });
});

function messagesOf(error: unknown): string {
  const messages: string[] = [];
  for (let link = error; link instanceof Error; link = link.cause) messages.push(link.message);
  return messages.join('\n');
}

describe('a redirect to the same origin', () => {
  const post = { method: 'POST', body: '{"a":1}', headers: { ...KEY, 'content-type': 'application/json' } };
  it.each([
    [307, 'POST', '{"a":1}'],
    [308, 'POST', '{"a":1}'],
    [301, 'GET', ''],
    [302, 'GET', ''],
    [303, 'GET', ''],
  ] as const)('%i is followed as fetch does it, with %s', async (code, method, body) => {
    status = code;
    target = '/end/x';
    for (const [input, init] of [[`${front.origin}/v1`, post] as const, [new Request(`${front.origin}/v1`, post), undefined] as const]) {
      front.seen.length = 0;
      const response = await keepOrigin(fetch)(input, init);
      expect(response.status).toBe(200);
      expect(front.seen.map((seen) => [seen.method, seen.body, seen.headers['x-api-key']])).toEqual([
        ['POST', '{"a":1}', 'SECRET-KEY'],
        [method, body, 'SECRET-KEY'],
      ]);
      expect(front.seen[1]?.headers['content-type']).toBe(method === 'POST' ? 'application/json' : undefined);
    }
  });

  it('without end is one that ends', async () => {
    target = '/v1/again';
    const error = await keepOrigin(fetch)(`${front.origin}/v1`, post).catch((reason: unknown) => reason);
    expect(error).toEqual(new TypeError(`\`${front.origin}\` redirects without end`));
    expect(front.seen).toHaveLength(21);
  });

  it('cannot repeat a stream', async () => {
    target = '/end';
    const body = new Blob(['x']).stream();
    await expect(keepOrigin(fetch)(`${front.origin}/v1`, { method: 'POST', body, duplex: 'half' } as RequestInit)).rejects.toThrow(
      'a stream body cannot be sent again',
    );
  });
});

describe('without a server', () => {
  const moved = (location: string) => {
    const urls: string[] = [];
    const base: typeof fetch = async (input) => {
      urls.push(input instanceof Request ? input.url : input.toString());
      return urls.length > 1 ? new Response('there') : new Response(null, { status: 307, headers: { location } });
    };
    return { urls, send: (url: string, init: RequestInit = { method: 'POST', body: 'x' }) => keepOrigin(base)(url, init) };
  };

  it.each([
    ['http://h/a', 'https://h/a', true],
    ['http://h:8080/a', 'https://h:8080/a', true],
    ['http://h/a', 'https://h:444/a', false],
    ['http://h/a', 'https://other/a', false],
    ['https://h/a', 'http://h/a', false],
    ['https://h/a', 'https://sub.h/a', false],
    ['https://h/a', '//other/a', false],
    ['https://h/a', 'data:,x', false],
    ['https://h/a', 'https://', false],
    ['https://h/a', '../b?c', true],
  ])('from %s to %s: %s', async (from, to, isFollowed) => {
    const { urls, send } = moved(to);
    await (isFollowed ? expect(send(from)).resolves.toBeDefined() : expect(send(from)).rejects.toThrow(TypeError));
    expect(urls).toHaveLength(isFollowed ? 2 : 1);
  });

  it('a page does not learn where a redirect goes', async () => {
    const opaque = Object.defineProperties(new Response(), { type: { value: 'opaqueredirect' }, status: { value: 0 } });
    const error = await keepOrigin(async () => opaque)('https://h/a', { method: 'POST' }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(TypeError);
    expect((error as Error).message).toContain('https://h');
    expect(classifyError(error, { aborted: false, size: 1, attempt: 1 }).class).toBe('fatal');
  });

  it('what a caller says about redirects is what happens', async () => {
    const { urls, send } = moved('https://other/');
    expect((await send('https://h/', { method: 'POST', redirect: 'manual' })).status).toBe(307);
    expect(urls).toHaveLength(1);
  });

  it('what carries nothing is left to fetch', async () => {
    const inits: (RequestInit | undefined)[] = [];
    const send = keepOrigin(async (_, init) => {
      inits.push(init);
      return new Response();
    });
    await send('https://h/');
    await send('https://h/', { headers: { accept: 'text/event-stream' } });
    expect(inits.map((init) => init?.redirect)).toEqual([undefined, undefined]);
  });
});

import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { inspect } from 'node:util';
import Anthropic from '@anthropic-ai/sdk';
import fc from 'fast-check';
import OpenAI from 'openai';
import type { Observable } from 'rxjs';
import { lastValueFrom, toArray } from 'rxjs';
import { afterEach, describe, expect, it } from 'vitest';
import { anthropicChat } from '../../src/adapters/anthropic.js';
import { openAIChat, openAIEmbeddings } from '../../src/adapters/openai.js';
import { chatCompletions, createEmbedder, createModelCaller, embeddings, isFlowError } from '../../src/index.js';
import { sized } from '../support/deep.js';

const open: (() => void)[] = [];
afterEach(() => {
  for (const close of open.splice(0).reverse()) close();
});

async function serve(answer: (response: ServerResponse, times: number) => void) {
  let times = 0;
  const server = createServer((request, response) => {
    request.resume();
    answer(response, ++times);
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  open.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`, times: () => times };
}

const retry = { delayMs: 1, maxAttempts: 3, maxShare: 1 } as const;
const asked = { model: 'm', max_tokens: 9, messages: [{ role: 'user' as const, content: 'hello' }] };
const CALLERS = {
  'an address': (url: string) => createModelCaller({ call: chatCompletions({ baseUrl: `${url}/v1`, model: 'm' }), retry }),
  openAIChat: (url: string) => createModelCaller({ call: openAIChat(new OpenAI({ apiKey: 'k', baseURL: `${url}/v1` })), retry }),
  anthropicChat: (url: string) => createModelCaller({ call: anthropicChat(new Anthropic({ apiKey: 'k', baseURL: url })), retry }),
} as const;
type Over = keyof typeof CALLERS;

const all = (over: Over, url: string): Promise<unknown[]> =>
  lastValueFrom((CALLERS[over](url).stream(asked) as Observable<unknown>).pipe(toArray()));
const errorOf = (answered: Promise<unknown>): Promise<Error> =>
  answered.then(
    (value: unknown) => expect.unreachable(`answered ${JSON.stringify(value)}`),
    (thrown: unknown) => thrown as Error,
  );

describe('a stream is whole with its finish alone', () => {
  const data = (event: object | string): string => `data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`;
  const named = (event: { readonly type: string }): string => `event: ${event.type}\n${data(event)}`;
  const chunk = (content: string, finish_reason: string | null = null): string =>
    data({ choices: [{ index: 0, delta: { content }, finish_reason }] });
  const chat = { begin: chunk('to '), plain: chunk('be'), finish: chunk('', 'stop'), done: data('[DONE]') };
  const usage = { input_tokens: 1, output_tokens: 1 };
  const message = {
    begin:
      named({ type: 'message_start', message: { id: 'x', type: 'message', role: 'assistant', content: [], model: 'm', usage } } as {
        type: string;
      }) + named({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } } as { type: string }),
    plain: named({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'be' } } as { type: string }),
    finish: named({ type: 'message_stop' }),
  };
  const body = (text: string) => (response: ServerResponse) => response.writeHead(200, { 'content-type': 'text/event-stream' }).end(text);

  it.each<[Over, string, string]>([
    ['an address', 'a reason and the mark', chat.begin + chat.finish + chat.done],
    ['an address', 'a reason', chat.begin + chat.finish],
    ['an address', 'the mark', chat.begin + chat.done],
    ['openAIChat', 'a reason and the mark', chat.begin + chat.finish + chat.done],
    ['openAIChat', 'a reason', chat.begin + chat.finish],
    ['openAIChat', 'the mark', chat.begin + chat.done],
    ['anthropicChat', '`message_stop`', message.begin + message.plain + message.finish],
  ])('over %s: with %s', async (over, _what, text) => {
    const { url } = await serve(body(text));
    expect((await all(over, url)).length).toBeGreaterThan(0);
  });

  it.each<[Over, string, string]>([
    ['an address', chat.begin + chat.plain, '`finish_reason` or `[DONE]`'],
    ['an address', chunk('to ', '') + chunk('be', 'null'), '`finish_reason` or `[DONE]`'],
    ['openAIChat', chat.begin + chat.plain, '`finish_reason` or `[DONE]`'],
    ['anthropicChat', message.begin + message.plain, '`message_stop`'],
  ])('over %s: a cut one fails, and is not opened again', async (over, text, finish) => {
    const { url, times } = await serve(body(text));
    const error = await errorOf(all(over, url));
    expect(error).toMatchObject({
      name: 'ProviderError',
      code: 'ERR_STREAM_PREMATURE_CLOSE',
      message: `the stream was cut off: it ended without ${finish}`,
    });
    expect(times()).toBe(1);
  });

  it.each<[Over, string]>([
    ['an address', chat.begin + chat.finish],
    ['openAIChat', chat.begin + chat.finish],
    ['anthropicChat', message.begin + message.plain + message.finish],
  ])('over %s: one that was cut before its first part is opened again', async (over, text) => {
    const { url, times } = await serve((response, count) => body(count < 3 ? '' : text)(response));
    expect((await all(over, url)).length).toBeGreaterThan(0);
    expect(times()).toBe(3);
  });
});

describe('a page in the place of an answer', () => {
  const PAGE = '<html>\r\n<title>secret\u2028portal</title>\n</html>\n';
  const CASES: Readonly<Record<string, [status: number, type: string | undefined, body: string, says: string]>> = {
    'a page with 502': [502, 'text/html; charset=utf-8', PAGE, '(text/html)'],
    'a page that says it is JSON': [503, 'application/json', PAGE, '(application/json)'],
    'a page without a type': [500, undefined, PAGE, '(no content type)'],
    'the XML of a gateway': [403, 'application/xml', '<?xml version="1.0"?>\n<Error>secret</Error>', '(application/xml)'],
    'nothing with 500': [500, 'text/plain', '', '(text/plain)'],
    'a page in a message': [400, 'application/json', JSON.stringify({ error: { message: PAGE } }), '400 '],
    'a message of several lines': [400, 'application/json', JSON.stringify({ error: { message: 'no\nsuch\r\nmodel' } }), 'no such model'],
    'a plain text': [400, 'text/plain', 'no\nsuch\n\nmodel\n', 'no such model'],
  };

  describe.each(Object.entries(CASES))('%s', (_what, [status, type, body, says]) => {
    const answer = (response: ServerResponse): unknown =>
      response.writeHead(status, type === undefined ? {} : { 'content-type': type }).end(body);

    it.each([
      ...(Object.keys(CALLERS) as Over[]).flatMap((over) => [
        [`${over}, a call`, (url: string) => CALLERS[over](url).callAsync(asked)] as const,
        [`${over}, a stream`, (url: string) => all(over, url)] as const,
      ]),
      [
        'embeddings of an address',
        (url: string) => createEmbedder({ call: embeddings({ baseUrl: `${url}/v1`, model: 'm' }), repair: [] }).embedAsync('a'),
      ] as const,
      [
        'openAIEmbeddings',
        (url: string) =>
          createEmbedder({ call: openAIEmbeddings(new OpenAI({ apiKey: 'k', baseURL: url }), { model: 'm' }), repair: [] }).embedAsync('a'),
      ] as const,
    ])('over %s: status and type are told in one line, and nothing of a page', async (over, ask) => {
      const { url } = await serve(answer);
      const error = await errorOf(ask(url));
      expect(error).toMatchObject({ status });
      expect(error.message.startsWith(`${String(status)} `)).toBe(true);
      // The client makes a JSON text of a body of its provider that has another shape.
      if (!over.startsWith('anthropic') || !type?.includes('json') || body === PAGE) expect(error.message).toContain(says);
      expect(error.message).not.toMatch(/[\r\n\u2028\u2029]/);
      expect(inspect(error.stack)).not.toContain('secret');
      expect(error.message).not.toContain('secret');
    });
  });
});

describe('embeddings go to their texts by index, or by position where there is none', () => {
  interface Entry {
    readonly index?: unknown;
    readonly embedding: readonly number[];
  }
  const KINDS: Readonly<Record<string, (data: Entry[], at: number) => Entry[]>> = {
    'an index each': (data) => data,
    'no index': (data) => data.map(({ embedding }) => ({ embedding })),
    'a null each': (data) => data.map(({ embedding }) => ({ index: null, embedding })),
    'no index where it is 0': (data) => data.map((entry) => (entry.index === 0 ? { embedding: entry.embedding } : entry)),
    'no index where it is another': (data, at) =>
      data.map((entry, i) => (i === 1 + (at % (data.length - 1)) ? { embedding: entry.embedding } : entry)),
    'one missing': (data, at) => data.filter((_, i) => i !== at % data.length),
    'one missing, no index': (data, at) => data.filter((_, i) => i !== at % data.length).map(({ embedding }) => ({ embedding })),
    'one too many, no index': (data) => [...data, ...data.slice(0, 1)].map(({ embedding }) => ({ embedding })),
    'one twice': (data, at) =>
      data.map((entry, i) => (i === at % data.length ? { ...entry, index: data[(i + 1) % data.length]?.index } : entry)),
    'counted from 1': (data) => data.map((entry) => ({ ...entry, index: Number(entry.index) + 1 })),
    'all 0': (data) => data.map((entry) => ({ ...entry, index: 0 })),
    'texts for indices': (data) => data.map((entry) => ({ ...entry, index: String(entry.index) })),
  };
  const right = new Set(['an index each', 'no index', 'a null each', 'no index where it is 0']);
  const needsOrder = new Set(['no index', 'a null each']);
  const MAKERS = {
    'an address': (fetch: typeof globalThis.fetch) =>
      createEmbedder({ call: embeddings({ baseUrl: 'http://host/v1', model: 'm', fetch }), repair: [] }),
    openAIEmbeddings: (fetch: typeof globalThis.fetch) =>
      createEmbedder({ call: openAIEmbeddings(new OpenAI({ apiKey: 'k', fetch }), { model: 'm' }), repair: [] }),
  };

  it.each(Object.keys(KINDS))('%s', async (kind) => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 2, max: 8 }),
        fc.nat(),
        fc.boolean(),
        fc.constantFrom(...Object.values(MAKERS)),
        async (count, at, isTurned, make) => {
          const data = (KINDS[kind] as (typeof KINDS)[string])(
            Array.from({ length: count }, (_, index) => ({ index, embedding: [index, 1] })),
            at,
          );
          const isShuffled = isTurned && !needsOrder.has(kind);
          const embedder = make(async () => Response.json({ data: isShuffled ? data.toReversed() : data }));
          const settled = await Promise.allSettled(Array.from({ length: count }, (_, i) => embedder.embedAsync(`text ${String(i)}`)));
          for (const [i, result] of settled.entries()) {
            if (right.has(kind)) expect(result).toMatchObject({ status: 'fulfilled', value: Float32Array.from([i, 1]) });
            else expect(result.status === 'rejected' && isFlowError(result.reason, 'FLOW_BATCH_SHAPE')).toBe(true);
          }
        },
      ),
      { numRuns: sized(15, 100) },
    );
  });

  it.each(Object.entries(MAKERS))('over %s: a page is told by status and type, and an error by what it says', async (_over, make) => {
    const page = make(async () => new Response('<html>secret</html>', { headers: { 'content-type': 'text/html' } }));
    const shape = await errorOf(page.embedAsync('a'));
    expect(isFlowError(shape, 'FLOW_BATCH_SHAPE')).toBe(true);
    expect(shape.message).toContain('(status 200, text/html)');
    const late = make(async () => Response.json({ error: { message: 'overloaded', code: 529 } }));
    expect(await errorOf(late.embedAsync('a'))).toMatchObject({ name: 'ProviderError', status: 529, message: 'overloaded' });
  });
});

import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { GoogleGenAI } from '@google/genai';
import { ChatAnthropic } from '@langchain/anthropic';
import Groq from 'groq-sdk';
import { Ollama } from 'ollama';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Limiter } from '../../operators/index.js';
import { createLimiter, perMinute } from '../../operators/index.js';
import { limitFetch } from '../../src/adapters/fetch.js';

const soon = { timeout: 10_000 };

/** What its model says, part by part, and what it has cost: 9,000 tokens in, 5,000 out. */
const PARTS = ['o', 'ne', ' two', ' three'];
const WORDS = PARTS.join('');

interface Wire {
  readonly contentType: string;
  /** All of an answer at once. */
  readonly whole: object;
  /** A part of a stream, the last one with what it has cost. */
  part(words: string, isLast: boolean): string;
}

const event = (data: object | string, name?: string): string =>
  `${name === undefined ? '' : `event: ${name}\n`}data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;

const openAIUsage = { prompt_tokens: 9000, completion_tokens: 5000, total_tokens: 14_000 };
const claude = { id: 'msg_1', type: 'message', role: 'assistant', model: 'm', stop_reason: 'end_turn', stop_sequence: null };
const gemini = (words: string) => ({
  candidates: [{ content: { role: 'model', parts: [{ text: words }] }, finishReason: 'STOP' }],
  usageMetadata: { promptTokenCount: 9000, candidatesTokenCount: 4000, thoughtsTokenCount: 1000, totalTokenCount: 14_000 },
});
let begun = false;

const WIRES: readonly (readonly [RegExp, Wire])[] = [
  [
    /\/openai\/v1\/chat\/completions$/,
    {
      contentType: 'text/event-stream',
      whole: { choices: [{ index: 0, message: { role: 'assistant', content: WORDS }, finish_reason: 'stop' }], usage: openAIUsage },
      part: (content, isLast) =>
        event({ choices: [{ index: 0, delta: { content } }], ...(isLast && { x_groq: { usage: openAIUsage } }) }) +
        (isLast ? event('[DONE]') : ''),
    },
  ],
  [
    /\/api\/chat$/,
    {
      contentType: 'application/x-ndjson',
      whole: { message: { role: 'assistant', content: WORDS }, done: true, prompt_eval_count: 9000, eval_count: 5000 },
      part: (content, done) =>
        `${JSON.stringify({ message: { role: 'assistant', content }, done, ...(done && { prompt_eval_count: 9000, eval_count: 5000 }) })}\n`,
    },
  ],
  [
    /\/v1beta\/models\/m:(?:stream)?[gG]enerateContent$/,
    { contentType: 'text/event-stream', whole: gemini(WORDS), part: (words) => event(gemini(words)) },
  ],
  [
    /\/v1\/messages$/,
    {
      contentType: 'text/event-stream',
      whole: { ...claude, content: [{ type: 'text', text: WORDS }], usage: { input_tokens: 9000, output_tokens: 5000 } },
      part: (words, isLast) => {
        const start = [
          event(
            { type: 'message_start', message: { ...claude, content: [], usage: { input_tokens: 9000, output_tokens: 1 } } },
            'message_start',
          ),
          event({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }, 'content_block_start'),
        ];
        const end = [
          event({ type: 'content_block_stop', index: 0 }, 'content_block_stop'),
          event({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 5000 } }, 'message_delta'),
          event({ type: 'message_stop' }, 'message_stop'),
        ];
        const delta = event({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: words } }, 'content_block_delta');
        const isFirst = !begun;
        begun = !isLast;
        return [...(isFirst ? start : []), delta, ...(isLast ? end : [])].join('');
      },
    },
  ],
];

let url = '';
let seen = { requests: 0, inFlight: 0, most: 0, left: 0 };
let failures: number[] = [];
/** Whether streams stop before their last part. */
let isHeld = false;
let stop = (): void => undefined;

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  seen.requests++;
  seen.most = Math.max(seen.most, ++seen.inFlight);
  response.once('close', () => {
    seen.inFlight--;
    if (!response.writableFinished) seen.left++;
  });
  const body = JSON.parse(await text(request)) as { stream?: boolean };
  const path = new URL(request.url ?? '', 'http://host').pathname;
  const wire = WIRES.find(([pattern]) => pattern.test(path))?.[1];
  const failure = failures.shift();
  if (wire === undefined || failure !== undefined) {
    response.writeHead(failure ?? 404, { 'content-type': 'application/json' }).end('{"error":{"message":"no"}}');
    return;
  }
  if (!body.stream && !path.includes('stream')) {
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(wire.whole));
    return;
  }
  response.writeHead(200, { 'content-type': wire.contentType });
  for (const [i, words] of PARTS.entries()) {
    const isLast = i === PARTS.length - 1;
    if (isLast && isHeld) return;
    response.write(wire.part(words, isLast));
    await sleep(2);
  }
  response.end();
}

beforeEach(async () => {
  seen = { requests: 0, inFlight: 0, most: 0, left: 0 };
  failures = [];
  isHeld = false;
  begun = false;
  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
  stop = () => {
    server.closeAllConnections();
    server.close();
  };
});

afterEach(() => {
  stop();
});

interface Client {
  ask(content: string): Promise<string>;
  stream(content: string, signal?: AbortSignal): Promise<AsyncIterable<string>>;
  /** Whether its streams are left at once with `break`; else, its own way to leave one. */
  readonly hearsBreak: boolean;
}

async function* mapped<T>(source: AsyncIterable<T>, words: (part: T) => string | null | undefined): AsyncGenerator<string> {
  for await (const part of source) yield words(part) ?? '';
}

const CLIENTS: Readonly<Record<string, (limited: typeof fetch) => Client>> = {
  'groq-sdk': (limited) => {
    const groq = new Groq({ apiKey: 'secret', baseURL: url, maxRetries: 0, fetch: limited });
    const asked = (content: string) => ({ model: 'm', messages: [{ role: 'user' as const, content }] });
    return {
      ask: async (content) => (await groq.chat.completions.create(asked(content))).choices[0]?.message.content ?? '',
      hearsBreak: true,
      stream: async (content) =>
        mapped(await groq.chat.completions.create({ ...asked(content), stream: true }), ({ choices }) => choices[0]?.delta.content),
    };
  },
  ollama: (limited) => {
    const ollama = new Ollama({ host: url, fetch: limited });
    const asked = (content: string) => ({ model: 'm', messages: [{ role: 'user', content }] });
    return {
      ask: async (content) => (await ollama.chat(asked(content))).message.content,
      hearsBreak: false,
      stream: async (content, signal) => {
        const parts = await ollama.chat({ ...asked(content), stream: true });
        signal?.addEventListener('abort', () => {
          parts.abort();
        });
        return mapped(parts, ({ message }) => message.content);
      },
    };
  },
  '@google/genai': (limited) => {
    const { models } = new GoogleGenAI({ apiKey: 'secret', httpOptions: { baseUrl: url, fetch: limited } });
    return {
      ask: async (contents) => (await models.generateContent({ model: 'm', contents })).text ?? '',
      hearsBreak: false,
      stream: async (contents, signal) => {
        const config = signal && { abortSignal: signal };
        return mapped(await models.generateContentStream({ model: 'm', contents, ...(config && { config }) }), (part) => part.text);
      },
    };
  },
  '@langchain/anthropic': (limited) => {
    const model = new ChatAnthropic({
      model: 'm',
      apiKey: 'secret',
      anthropicApiUrl: url,
      maxRetries: 0,
      clientOptions: { fetch: limited },
    });
    return {
      ask: async (content) => (await model.invoke(content)).text,
      hearsBreak: true,
      stream: async (content) => mapped(await model.stream(content), (part) => part.text),
    };
  },
};

const collected = async (parts: AsyncIterable<string>): Promise<string> => {
  let all = '';
  for await (const part of parts) all += part;
  return all;
};
const free = (limiter: Limiter) => expect.poll(() => limiter.executing, soon).toBe(0);

describe.each(Object.entries(CLIENTS))('%s over limitFetch', (_name, clientOf) => {
  it('gets its answers, whole and streamed, and pays what they say', async () => {
    const limiter = createLimiter({ concurrency: 1, rates: [perMinute('tokens', 60_000, { burst: 60_000 })], headroom: 1 });
    const client = clientOf(limitFetch({ limiter }));
    const full = limiter.snapshot().tokens;
    const spent = () => Math.round((full - limiter.snapshot().tokens) / 1000);
    expect(await client.ask('hi')).toBe(WORDS);
    await free(limiter);
    expect(spent()).toBe(14);
    expect(await collected(await client.stream('hi'))).toBe(WORDS);
    await free(limiter);
    expect(spent()).toBe(28);
  });

  it('sends no more streams at a time than there are permits', async () => {
    const limiter = createLimiter({ concurrency: 2 });
    const client = clientOf(limitFetch({ limiter }));
    // One after the other begins: what the answers of Anthropic begin with is written once.
    const answers: string[] = [];
    for (let i = 0; i < 3; i++) answers.push(await collected(await client.stream('hi')));
    const whole = await Promise.all(Array.from({ length: 6 }, () => client.ask('hi')));
    expect([...answers, ...whole]).toEqual(Array.from({ length: 9 }, () => WORDS));
    expect(seen.most).toBeLessThanOrEqual(2);
    await free(limiter);
  });

  it('is sent again what may pass, once the server can', async () => {
    failures = [503, 429];
    const client = clientOf(limitFetch({ limiter: createLimiter({ concurrency: 1 }), retry: { delayMs: 1 } }));
    expect(await client.ask('hi')).toBe(WORDS);
    expect(seen.requests).toBe(3);
  });

  it('gives its permit back when it leaves a stream', async () => {
    isHeld = true;
    const limiter = createLimiter({ concurrency: 1 });
    const client = clientOf(limitFetch({ limiter }));
    const leaving = new AbortController();
    for await (const part of await client.stream('hi', leaving.signal)) if (part !== '') break;
    if (!client.hearsBreak) leaving.abort();
    await free(limiter);
    await expect.poll(() => seen.left, soon).toBe(1);
  });
});

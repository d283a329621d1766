import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { inspect } from 'node:util';
import fc from 'fast-check';
import { lastValueFrom, take, toArray } from 'rxjs';
import { afterEach, describe, expect, it } from 'vitest';
import { createAccount } from '../../src/account/create-account.js';
import type { CallRecord } from '../../src/metrics/call-record.js';
import type { ChatChunk, ChatCompletion, ChatRequest, ModelCaller, ModelCallerOptions } from '../../src/pipelines/create-model-caller.js';
import { chatCompletions, createModelCaller } from '../../src/pipelines/create-model-caller.js';
import { estimateChat } from '../../src/pipelines/models/chat-api.js';
import { ProviderError } from '../../src/pipelines/provider-error.js';
import { serverEvents } from '../../src/pipelines/server-events.js';
import { accountedCaller } from '../support/accounted-caller.js';
import { sized } from '../support/deep.js';

const open: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

interface Seen {
  readonly url: string | undefined;
  readonly authorization: string | undefined;
  readonly body: Record<string, unknown>;
}

/** A server that answers as it is told, on a free port. */
async function serve(answer: (response: ServerResponse, seen: Seen, times: number) => void | Promise<void>) {
  const calls: Seen[] = [];
  let closed = 0;
  const server = createServer((request, response) => {
    void read(request).then((body) => {
      const seen = { url: request.url, authorization: request.headers.authorization, body: JSON.parse(body) as Record<string, unknown> };
      response.on('close', () => {
        if (!response.writableEnded) closed++;
      });
      return answer(response, seen, calls.push(seen));
    });
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  open.push(() => {
    server.closeAllConnections();
    return new Promise<void>((done) =>
      server.close(() => {
        done();
      }),
    );
  });
  const { port } = server.address() as AddressInfo;
  return { baseUrl: `http://127.0.0.1:${port}/v1/`, calls, left: () => closed };
}

async function read(request: IncomingMessage): Promise<string> {
  let body = '';
  for await (const part of request) body += String(part);
  return body;
}

function thrownBy(act: () => unknown): unknown {
  try {
    act();
    return undefined;
  } catch (error) {
    return error;
  }
}

const completion = (content: string): ChatCompletion => ({
  choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 11, completion_tokens: 2 },
});

const json = (response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void => {
  response
    .writeHead(status, { 'content-type': 'application/json', ...headers })
    .end(typeof body === 'string' ? body : JSON.stringify(body));
};

const part = (content: string | undefined, more: object = {}): string =>
  `data: ${JSON.stringify({ choices: content === undefined ? [] : [{ index: 0, delta: { content } }], ...more })}\n\n`;

function caller(
  baseUrl: string,
  options: Partial<ModelCallerOptions<ChatRequest, ChatCompletion, ChatChunk>> = {},
): { readonly models: ModelCaller<ChatRequest, ChatCompletion, ChatChunk>; readonly records: CallRecord[] } {
  const records: CallRecord[] = [];
  const models = accountedCaller<ChatRequest, ChatCompletion, ChatChunk>({
    call: chatCompletions({ baseUrl, model: 'small', apiKey: 'key' }),
    retry: { delayMs: 1 },
    onRecord: (record) => records.push(record),
    ...options,
  });
  open.push(() => {
    models.close();
  });
  return { models, records };
}

const hello = { messages: [{ role: 'user', content: 'hello' }] };
const contents = (chunks: readonly ChatChunk[]): string => chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('');

describe('a key or a header that cannot be sent', () => {
  it('is refused at once, and quoted in no error', async () => {
    const parts = fc.constantFrom('\n', '\r\n', '\0', '\x7f', '…', 'é', ' ', '\t', 'sk-geheim');
    const text = fc.array(parts, { minLength: 1, maxLength: 5 }).map((all) => `sk-geheim${all.join('')}sk-geheim`);
    const tally = { refused: 0, sent: 0 };
    const isSendable = (value: string): boolean => {
      try {
        new Headers({ value });
        return true;
      } catch {
        return false;
      }
    };
    const fetch = (_url: unknown, { headers }: RequestInit = {}) =>
      Promise.resolve(Response.json({ ...completion('yes'), sent: [...new Headers(headers)] }));
    const options = fc.oneof(
      text.map((apiKey) => [apiKey, { apiKey }] as const),
      text.map((value) => [value, { headers: { 'x-tenant': value } }] as const),
    );
    await fc.assert(
      fc.asyncProperty(options, async ([value, given]) => {
        const make = () => createModelCaller({ call: chatCompletions({ baseUrl: 'https://host/v1', model: 'm', ...given, fetch }) });
        if (isSendable(value)) {
          await make().callAsync({ messages: [] });
          tally.sent++;
          return;
        }
        tally.refused++;
        const thrown = thrownBy(make);
        expect(thrown).toMatchObject({ code: 'FLOW_CONFIG_INVALID', option: Object.keys(given)[0], got: undefined });
        expect(inspect(thrown)).not.toContain('geheim');
      }),
    );
    expect(Math.min(tally.refused, tally.sent)).toBeGreaterThan(5);
  });
});

describe('a chat over HTTP', () => {
  it('is sent with model and key, and answered with usage', async () => {
    const { baseUrl, calls } = await serve((response) => {
      json(response, 200, completion('hi'));
    });
    const { models, records } = caller(baseUrl);
    const { choices } = await models.callAsync({ ...hello, temperature: 0 }, { lane: 'user', name: 'greeting' });
    expect(choices[0]?.message.content).toBe('hi');
    expect(calls).toEqual([
      { url: '/v1/chat/completions', authorization: 'Bearer key', body: { model: 'small', ...hello, temperature: 0, stream: false } },
    ]);
    expect(records).toMatchObject([
      { model: 'small', name: 'greeting', lane: 'user', status: 'success', promptTokens: 11, completionTokens: 2 },
    ]);
  });

  it('may be to another model, which the record names', async () => {
    const { baseUrl, calls } = await serve((response) => {
      json(response, 200, completion('hi'));
    });
    const { models, records } = caller(baseUrl);
    await models.callAsync({ ...hello, model: 'large' });
    expect([calls[0]?.body['model'], records[0]?.model]).toEqual(['large', 'large']);
  });

  it('is tried again after 429 and 503, and not after 400', async () => {
    const { baseUrl, calls } = await serve((response, _seen, times) => {
      if (times === 1) json(response, 429, { error: { message: 'slow down', type: 'rate_limit_error' } }, { 'retry-after-ms': '5' });
      else if (times === 2) json(response, 503, 'busy');
      else if (times === 3) json(response, 200, completion('hi'));
      else json(response, 400, { error: { message: 'no such option', code: 'invalid', param: 'temperature' } });
    });
    const { models, records } = caller(baseUrl);
    await models.callAsync(hello);
    const refused = models.callAsync(hello);
    await expect(refused).rejects.toBeInstanceOf(ProviderError);
    await expect(refused).rejects.toMatchObject({ status: 400, message: '400 no such option', code: 'invalid', param: 'temperature' });
    expect(calls.length).toBe(4);
    expect(records.map(({ errorCode }) => errorCode)).toEqual(['HTTP_429', 'HTTP_503', null, 'HTTP_400']);
  });

  it.each<[string, number, string, object | string]>([
    ['a page', 2, 'PARSE_FAILED', '<h1>Welcome to the proxy</h1>'],
    ['nothing', 2, 'PARSE_FAILED', ''],
    ['half an answer', 2, 'PARSE_FAILED', '{"choices": [{"message": {"content": "tru'],
    ['an error', 2, 'TRANSIENT', { error: { message: 'upstream is gone' } }],
    ['an error with the code of a status', 2, 'HTTP_529', { error: { message: 'overloaded', code: 529 } }],
    ['an error about the request', 1, 'ITEM_FAULT', { error: { message: 'no', type: 'invalid_request_error' } }],
    ['an error about the key', 1, 'FATAL', { error: { message: 'no', code: 'invalid_api_key' } }],
  ])('whose answer is %s with status 200 is sent %i times', async (_what, sent, errorCode, body) => {
    let isWell = false;
    const { baseUrl, calls } = await serve((response) => {
      json(response, 200, isWell ? completion('hi') : body);
      isWell = sent > 1;
    });
    const { models, records } = caller(baseUrl);
    const answered = models.callAsync(hello);
    if (sent === 1) await expect(answered).rejects.toBeInstanceOf(ProviderError);
    else expect(await answered).toMatchObject(completion('hi'));
    expect([calls.length, records[0]?.errorCode]).toEqual([sent, errorCode]);
  });

  it('that is left ends the request', async () => {
    const { baseUrl, calls, left } = await serve(() => undefined);
    const { models } = caller(baseUrl);
    const leave = new AbortController();
    const answer = models.callAsync(hello, { signal: leave.signal });
    await expect.poll(() => calls.length).toBe(1);
    leave.abort();
    await expect(answer).rejects.toMatchObject({ name: 'AbortError' });
    await expect.poll(left).toBe(1);
  });

  it('is estimated by its texts and the longest answer it allows', () => {
    const { inputTokens: plain } = estimateChat(hello);
    expect(plain).toBeGreaterThan(0);
    expect(estimateChat({ ...hello, max_tokens: 100 })).toEqual({ inputTokens: plain, outputTokens: 100 });
    expect(estimateChat({ ...hello, max_tokens: 100, max_completion_tokens: 50 })).toEqual({ inputTokens: plain, outputTokens: 50 });
    const parts = [
      { type: 'text', text: 'hello' },
      { type: 'image_url', image_url: { url: 'data:' } },
    ];
    // The words that name the parts are few.
    const seen = estimateChat({ messages: [{ role: 'user', content: parts }] }).inputTokens - plain;
    expect(seen).toBeGreaterThanOrEqual(1600);
    expect(seen).toBeLessThan(1620);
    expect(estimateChat({ ...hello, max_tokens: 100, n: 8 })).toEqual({ inputTokens: plain, outputTokens: 800 });
    expect(estimateChat({ ...hello, tools: [{ type: 'function' }] }).inputTokens).toBeGreaterThan(plain);
    const georgian = { messages: [{ role: 'user', content: 'დამოუკიდებლად '.repeat(20) }] } as const;
    expect(estimateChat({ ...georgian, model: 'gpt-3.5-turbo' }).inputTokens).toBeGreaterThan(
      3 * estimateChat(georgian, 'gpt-4o').inputTokens,
    );
    expect(estimateChat({ messages: [{ role: 'assistant', content: null }] })).toEqual({ inputTokens: 4 });
  });
});

describe('a streamed chat', () => {
  it('comes part by part, with its usage at the end', async () => {
    const { baseUrl, calls } = await serve((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(': keep-alive\n\n');
      response.write(part('to '));
      response.write(part('be'));
      response.write(part(undefined, { usage: { prompt_tokens: 9, completion_tokens: 4 } }));
      response.end('data: [DONE]\n\n');
    });
    const { models, records } = caller(baseUrl);
    const chunks = await lastValueFrom(models.stream(hello).pipe(toArray()));
    expect(contents(chunks)).toBe('to be');
    expect(calls[0]?.body).toEqual({ model: 'small', stream_options: { include_usage: true }, ...hello, stream: true });
    expect(records).toMatchObject([{ status: 'success', promptTokens: 9, completionTokens: 4 }]);
  });

  it('that is left ends the request, and gives the permit back', async () => {
    const { baseUrl, left } = await serve((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(part('to '));
    });
    const { models, records } = caller(baseUrl, { concurrency: 1 });
    const chunks = await lastValueFrom(models.stream(hello).pipe(take(1), toArray()));
    expect(contents(chunks)).toBe('to ');
    expect(models.snapshot().executing).toBe(0);
    await expect.poll(left).toBe(1);
    expect(records).toMatchObject([{ status: 'cancelled' }]);
  });

  it('that is refused, or breaks before its first part, is opened again', async () => {
    const { baseUrl, calls } = await serve((response, _seen, times) => {
      if (times === 1) json(response, 503, 'busy');
      else if (times === 2) response.writeHead(200, { 'content-type': 'text/event-stream' }).end();
      else response.writeHead(200, { 'content-type': 'text/event-stream' }).end(`${part('hi')}data: [DONE]\n\n`);
    });
    const { models, records } = caller(baseUrl);
    expect(contents(await lastValueFrom(models.stream(hello).pipe(toArray())))).toBe('hi');
    expect(calls.length).toBe(3);
    expect(records.map(({ errorCode }) => errorCode)).toEqual(['HTTP_503', 'ERR_STREAM_PREMATURE_CLOSE', null]);
  });

  it('that is cut off in the middle fails, and is not opened again; one that says why it ends needs no mark of the end', async () => {
    const { baseUrl, calls } = await serve((response, _seen, times) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      if (times === 1) response.end(part('to '));
      else response.end(part('hi') + part(undefined, { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }));
    });
    const { models } = caller(baseUrl);
    await expect(lastValueFrom(models.stream(hello))).rejects.toMatchObject({ code: 'ERR_STREAM_PREMATURE_CLOSE' });
    expect(contents(await lastValueFrom(models.stream(hello).pipe(toArray())))).toBe('hi');
    expect(calls.length).toBe(2);
  });

  it('may tell of an error in the middle', async () => {
    const { baseUrl } = await serve((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(`${part('to ')}data: {"error":{"message":"the model is overloaded","type":"overloaded_error"}}\n\n`);
    });
    const { models } = caller(baseUrl);
    await expect(lastValueFrom(models.stream(hello))).rejects.toMatchObject({
      message: 'the model is overloaded',
      type: 'overloaded_error',
      status: undefined,
    });
  });
});

describe('an event stream', () => {
  const body = (chunks: readonly Uint8Array[]): ReadableStream<Uint8Array> =>
    new ReadableStream({
      start: (controller) => {
        for (const chunk of chunks) controller.enqueue(chunk);
        controller.close();
      },
    });
  const events = async (chunks: readonly Uint8Array[]): Promise<string[]> => {
    const all: string[] = [];
    for await (const data of serverEvents(body(chunks))) all.push(data);
    return all;
  };
  const encode = (text: string): Uint8Array => new TextEncoder().encode(text);

  it.each([
    ['lines that end in any way', 'data: a\r\n\r\ndata: b\n\ndata: c\r\rdata: d\n\n', ['a', 'b', 'c', 'd']],
    ['several lines of data', 'data: a\ndata: b\n\n', ['a\nb']],
    ['no blank before the data', 'data:a\n\ndata:  b\n\n', ['a', ' b']],
    ['comments, other fields and names that only begin alike', ': hello\nid: 1\nevent: x\ndatabase: y\ndata: a\n\n', ['a']],
    ['data without a value', 'data\n\ndata:\n\n', ['', '']],
    ['an event without data', 'id: 1\n\ndata: a\n\n', ['a']],
    ['a last event without its blank line', 'data: a\n\ndata: b', ['a']],
  ])('is read with %s', async (_what, text, expected) => {
    expect(await events([encode(text)])).toEqual(expected);
  });

  it('is the same wherever its bytes are cut', async () => {
    const text = 'data: Zürich\r\n\r\ndata: 東京\n: x\ndata: 🎉\n\ndata: [DONE]\r\r';
    const bytes = encode(text);
    const expected = ['Zürich', '東京\n🎉', '[DONE]'];
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(fc.integer({ min: 1, max: bytes.length - 1 }), { maxLength: 20 }), async (cuts) => {
        const at = [0, ...cuts.sort((a, b) => a - b), bytes.length];
        const chunks = at.slice(1).map((end, i) => bytes.slice(at[i], end));
        expect(await events(chunks)).toEqual(expected);
      }),
      { numRuns: sized(100, 300) },
    );
  });
});

describe('the built-in client', () => {
  const open: (() => void)[] = [];
  afterEach(() => {
    for (const close of open.splice(0)) close();
  });

  /** A caller of a server on this machine that answers everything with one body. */
  async function served(body: string) {
    const bodies: Record<string, unknown>[] = [];
    const server = createServer((request, response) => {
      let text = '';
      request.on('data', (part: Buffer) => (text += part.toString()));
      request.on('end', () => {
        bodies.push(JSON.parse(text) as Record<string, unknown>);
        response.end(body);
      });
    });
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    open.push(() => {
      server.closeAllConnections();
      server.close();
    });
    const { port } = server.address() as AddressInfo;
    const records: CallRecord[] = [];
    const retry = { delayMs: 1, maxAttempts: 2 };
    const onRecord = (record: CallRecord): number => records.push(record);
    return {
      models: createModelCaller({
        call: chatCompletions({ baseUrl: `http://127.0.0.1:${port}`, model: 'small' }),
        retry,
        onRecord,
        limiter: createAccount({ concurrency: 4 }),
      }),
      records,
      bodies,
    };
  }
  const hello = { messages: [{ role: 'user', content: 'hello' }] };
  const codes = (records: readonly CallRecord[]) => records.map((record) => record.errorCode);

  it('reads an error after a status of success, with the status that some put there', async () => {
    const { models, records } = await served('{"error":{"message":"overloaded","code":502}}');
    await expect(models.callAsync(hello)).rejects.toThrow('overloaded');
    expect(codes(records)).toEqual(['HTTP_502', 'HTTP_502']);
  });

  it('refuses an answer that is no object', async () => {
    const { models, records } = await served('null');
    await expect(models.callAsync(hello)).rejects.toThrow('the answer is no JSON object');
    expect(codes(records)).toEqual(['PARSE_FAILED', 'PARSE_FAILED']);
  });

  it('rejects for an error in a stream that is plain text, and for a part that is no JSON object', async () => {
    const text = await served('data: {"error":"boom"}\n\n');
    await expect(lastValueFrom(text.models.stream(hello))).rejects.toThrow('boom');
    const bare = await served('data: {"choices":null}\n\ndata: [DONE]\n\n');
    expect(await lastValueFrom(bare.models.stream(hello))).toEqual({ choices: null });
    const nothing = await served('data: null\n\n');
    await expect(lastValueFrom(nothing.models.stream(hello))).rejects.toThrow('the answer is no JSON object');
  });

  it('says what is wrong with a request that has no messages, and sends the model of the caller when the request has none', async () => {
    const { models, bodies } = await served('{"choices":[]}');
    for (const wrong of ['hello', null, { prompt: 'hello' }])
      await expect(models.callAsync(wrong as never)).rejects.toThrow('expected `request.messages` to be an array of messages');
    await models.callAsync({ ...hello, model: undefined } as never);
    expect(bodies).toMatchObject([{ model: 'small', stream: false }]);
  });
});

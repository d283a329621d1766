import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { lastValueFrom, take, toArray } from 'rxjs';
import { afterEach, describe, expect, it } from 'vitest';
import { createAccount } from '../../src/account/create-account.js';
import type { CallRecord } from '../../src/metrics/call-record.js';
import { createModelCaller } from '../../src/pipelines/create-model-caller.js';

const open: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

/** A server on a free port; `left` counts answers that the client did not wait for. */
async function serve(answer: (response: ServerResponse, times: number) => void) {
  let times = 0;
  let left = 0;
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      answer(response, ++times);
    });
    response.on('close', () => {
      if (!response.writableEnded) left++;
    });
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  open.push(() => {
    server.closeAllConnections();
    return new Promise((done) => server.close(done));
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, times: () => times, left: () => left };
}

const json = (response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void => {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
};
const completion = {
  id: 'c',
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 7, completion_tokens: 1, total_tokens: 8 },
};
const chunk = (content: string): string =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content } }] })}\n\n`;

function openai(url: string) {
  const client = new OpenAI({ baseURL: url, apiKey: 'key', maxRetries: 0 });
  const records: CallRecord[] = [];
  const models = createModelCaller({
    call: {
      send: (body: OpenAI.ChatCompletionCreateParamsNonStreaming, { signal }) => client.chat.completions.create(body, { signal }),
      stream: (body: OpenAI.ChatCompletionCreateParamsNonStreaming, { signal }) =>
        client.chat.completions.create({ ...body, stream: true }, { signal }),
      model: (body) => body.model,
      usage: ({ usage }) => (usage ? { inputTokens: usage.prompt_tokens, outputTokens: usage.completion_tokens } : undefined),
    },
    retry: { delayMs: 1 },
    onRecord: (record) => records.push(record),
    limiter: createAccount({ concurrency: 1 }),
  });
  open.push(() => models.drain({ timeoutMs: 0 }));
  return { models, records };
}

const body = { model: 'small', messages: [{ role: 'user' as const, content: 'hello' }] };

describe('a caller over the client of OpenAI', () => {
  it('tries again what is worth it, waits as long as it is asked to, and reads usage', async () => {
    const { url } = await serve((response, times) => {
      if (times === 1) json(response, 429, { error: { message: 'slow down', type: 'rate_limit_error' } }, { 'retry-after-ms': '30' });
      else if (times === 2) json(response, 503, { error: { message: 'busy' } });
      else json(response, 200, completion);
    });
    const { models, records } = openai(url);
    const startedAt = performance.now();
    const { choices } = await models.callAsync(body, { lane: 'user' });
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(29);
    expect(choices[0]?.message.content).toBe('hi');
    expect(
      records.map(({ errorCode, model, promptTokens, completionTokens }) => [errorCode, model, promptTokens, completionTokens]),
    ).toEqual([
      ['HTTP_429', 'small', null, null],
      ['HTTP_503', 'small', null, null],
      [null, 'small', 7, 1],
    ]);
  });

  it('does not try again what is refused', async () => {
    const { url, times } = await serve((response) => {
      json(response, 401, { error: { message: 'wrong key' } });
    });
    await expect(openai(url).models.callAsync(body)).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
    expect(times()).toBe(1);
  });

  it('streams, and ends the request when the stream is left', async () => {
    const { url, left } = await serve((response, times) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(chunk('to ') + chunk('be'));
      if (times === 1) response.end('data: [DONE]\n\n');
    });
    const { models, records } = openai(url);
    const all = await lastValueFrom(models.stream(body).pipe(toArray()));
    expect(all.map(({ choices }) => choices[0]?.delta.content)).toEqual(['to ', 'be']);
    const first = await lastValueFrom(models.stream(body).pipe(take(1), toArray()));
    expect(first.length).toBe(1);
    await expect.poll(left).toBe(1);
    expect(models.snapshot()).toMatchObject({ executing: 0, queued: 0 });
    expect(records.map(({ status }) => status)).toEqual(['success', 'cancelled']);
  });

  it('ends the request when its signal aborts, which is no failure and is not tried again', async () => {
    const { url, times, left } = await serve(() => undefined);
    const { models, records } = openai(url);
    const leave = new AbortController();
    const answer = models.callAsync(body, { signal: leave.signal });
    await expect.poll(times).toBe(1);
    leave.abort();
    await expect(answer).rejects.toMatchObject({ name: 'AbortError' });
    await expect.poll(left).toBe(1);
    expect(records.map(({ status }) => status)).toEqual(['cancelled']);
    expect(models.snapshot()).toMatchObject({ executing: 0, queued: 0 });
  });
});

describe('a caller over the client of Anthropic', () => {
  it('tries again after 529, and reads usage', async () => {
    const { url } = await serve((response, times) => {
      if (times === 1) json(response, 529, { type: 'error', error: { type: 'overloaded_error', message: 'overloaded' } });
      else
        json(response, 200, {
          id: 'm',
          type: 'message',
          role: 'assistant',
          model: 'm',
          content: [{ type: 'text', text: 'hi' }],
          usage: { input_tokens: 5, output_tokens: 2 },
        });
    });
    const client = new Anthropic({ baseURL: url, apiKey: 'key', maxRetries: 0 });
    const records: CallRecord[] = [];
    const models = createModelCaller({
      call: {
        send: (params: Anthropic.MessageCreateParamsNonStreaming, { signal }) => client.messages.create(params, { signal }),
        usage: ({ usage }) => ({ inputTokens: usage.input_tokens, outputTokens: usage.output_tokens }),
      },
      retry: { delayMs: 1 },
      onRecord: (record) => records.push(record),
      limiter: createAccount({ concurrency: 4 }),
    });
    const { content } = await models.callAsync({ model: 'm', max_tokens: 10, messages: [{ role: 'user', content: 'hello' }] });
    expect(content).toMatchObject([{ text: 'hi' }]);
    expect(records.map(({ errorCode, promptTokens }) => [errorCode, promptTokens])).toEqual([
      ['HTTP_529', null],
      [null, 5],
    ]);
    await models.drain();
  });
});

import type { ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import OpenAI from 'openai';
import { filter, firstValueFrom, map, Subject, switchMap, take } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fromStream } from '../../operators/index.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

/** A server that says one word of each answer, and then nothing more. */
async function stallingServer() {
  const closed = new Subject<string>();
  const server = createServer((request, response: ServerResponse) => {
    let body = '';
    request.setEncoding('utf8');
    request.on('data', (part: string) => {
      body += part;
    });
    request.on('end', () => {
      const { model } = JSON.parse(body) as { model: string };
      response.on('close', () => {
        closed.next(model);
      });
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const chunk = {
        id: '1',
        object: 'chat.completion.chunk',
        created: 0,
        model,
        choices: [{ index: 0, delta: { content: `hello from ${model}` } }],
      };
      response.write(`data: ${JSON.stringify(chunk)}\n\n`);
    });
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const baseURL = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/v1`;
  const stop = async () => {
    server.closeAllConnections();
    await new Promise((done) => server.close(done));
  };
  return { baseURL, closed, stop };
}

describe('fromStream over a stream of the openai client', () => {
  expectNoUnhandledRejections();

  let server: Awaited<ReturnType<typeof stallingServer>>;
  let client: OpenAI;

  beforeEach(async () => {
    server = await stallingServer();
    client = new OpenAI({ apiKey: 'none', baseURL: server.baseURL, maxRetries: 0 });
  });

  afterEach(async () => {
    await server.stop();
  });

  const words = (model: string) =>
    fromStream((signal) => client.chat.completions.create({ model, messages: [], stream: true }, { signal })).pipe(
      map(({ choices }) => choices[0]?.delta.content),
    );

  it('closes the connection of a stalled answer in the moment the consumer has enough', async () => {
    const closed = firstValueFrom(server.closed);
    expect(await firstValueFrom(words('a').pipe(take(1)))).toBe('hello from a');
    // The server never ends the answer by itself.
    expect(await closed).toBe('a');
  });

  it('closes the connection of the older of two questions, and leaves the newer one open', async () => {
    const models = new Subject<string>();
    const heard = new Subject<string | null | undefined>();
    const closings: string[] = [];
    server.closed.subscribe((model) => closings.push(model));
    const subscription = models.pipe(switchMap(words)).subscribe(heard);
    const next = (word: string) => firstValueFrom(heard.pipe(filter((other) => other === word)));

    const first = next('hello from old');
    models.next('old');
    await first;
    const oldClosed = firstValueFrom(server.closed);
    const second = next('hello from new');
    models.next('new');
    expect(await oldClosed).toBe('old');
    await second;
    expect(closings).toEqual(['old']);

    const newClosed = firstValueFrom(server.closed);
    subscription.unsubscribe();
    expect(await newClosed).toBe('new');
  });
});

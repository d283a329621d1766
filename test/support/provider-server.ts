import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fakeProvider } from '../../marbles/fake-provider.js';
import type { ProviderBooks } from '../../marbles/providers/books.js';
import type { ProviderOptions, ProviderSimulation } from '../../marbles/providers/types.js';

export interface ProviderServer {
  /** Where it listens, without a version: what the clients of Anthropic, Gemini and Azure want. */
  readonly url: string;
  /** The same with `/v1`: what the client of OpenAI wants. */
  readonly baseUrl: string;
  readonly provider: ProviderSimulation;
  readonly books: ProviderBooks;
  /** Closes all connections. */
  stop(): Promise<void>;
}

/**
 * A provider with books, on a free port of 127.0.0.1, for real clients. With `speed: 20` its minute lasts 3 s: a client whose rates are per 3 s has the
 * same account.
 */
export async function startProvider(options: ProviderOptions): Promise<ProviderServer> {
  const provider = fakeProvider(options);
  const server = createServer((request, response) => {
    serve(provider, request, response).catch(() => {
      // The client left before all of its request was here, or sent no JSON.
      request.socket.destroy();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
  return {
    url,
    baseUrl: `${url}/v1`,
    provider,
    books: provider.books,
    stop: async () => {
      server.closeAllConnections();
      await new Promise<void>((resolve) =>
        server.close(() => {
          resolve();
        }),
      );
    },
  };
}

async function serve(provider: ProviderSimulation, request: IncomingMessage, response: ServerResponse): Promise<void> {
  let text = '';
  request.setEncoding('utf8');
  for await (const part of request) text += part as string;
  const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)]));
  const isJson = headers['content-type']?.startsWith('application/json') === true && text !== '';
  const { url: path = '/', method = 'GET' } = request;
  const subscription = provider.request({ path, method, headers, body: isJson ? (JSON.parse(text) as unknown) : undefined }).subscribe({
    next: (event) => {
      if (event.type === 'head') response.writeHead(event.status, event.headers).flushHeaders();
      else response.write(event.text);
    },
    // The connection breaks once what was sent is out.
    error: () => {
      if (response.headersSent) response.write('', () => request.socket.destroy());
      else request.socket.destroy();
    },
    complete: () => response.end(),
  });
  response.once('close', () => {
    subscription.unsubscribe();
  });
}

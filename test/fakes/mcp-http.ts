import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import type { ReadableStream as NodeStream } from 'node:stream/web';

/** How the next request that calls a tool is to fail. */
export type HttpFailure = { readonly status: number; readonly headers?: Readonly<Record<string, string>> } | 'cutSocket';

export interface McpHttpServer {
  readonly url: string;
  /** Requests that call a tool, failed ones included, with the time of their arrival in ms. */
  readonly posts: readonly number[];
  fail(...failures: readonly HttpFailure[]): void;
  stop(): Promise<void>;
}

/** Serves what answers requests as the web has them, on a port of Node. */
export async function serveMcp(handle: (request: Request) => Promise<Response>): Promise<McpHttpServer> {
  const posts: number[] = [];
  let failures: readonly HttpFailure[] = [];

  const answer = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    const closed = new AbortController();
    outgoing.on('close', () => {
      closed.abort();
    });
    const { method = 'GET', headers } = incoming;
    const body = await text(incoming);
    if (body.includes('"tools/call"')) {
      posts.push(performance.now());
      const [failure, ...others] = failures;
      failures = others;
      if (failure === 'cutSocket') {
        incoming.socket.destroy();
        return;
      }
      if (failure) {
        outgoing.writeHead(failure.status, failure.headers).end('no');
        return;
      }
    }
    const request = new Request(`http://${String(headers.host)}/mcp`, {
      method,
      headers: Object.entries(headers).map(([name, value]): [string, string] => [name, String(value)]),
      signal: closed.signal,
      ...(body !== '' && { body }),
    });
    const response = await handle(request);
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    // A stream may have nothing to say for a long time.
    outgoing.flushHeaders();
    if (response.body === null) outgoing.end();
    else await pipeline(Readable.fromWeb(response.body as NodeStream), outgoing);
  };

  const server = createServer((incoming, outgoing) => {
    answer(incoming, outgoing).catch(() => {
      // The client has gone.
      outgoing.destroy();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/mcp`,
    posts,
    fail: (...next) => {
      failures = next;
    },
    stop: async () => {
      const stopped = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await stopped;
    },
  };
}

import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { errorCode } from '../../journal/file-error.js';
import { CliError, EXIT } from '../exit.js';
import type { Feed } from './feed.js';
import type { MadePage } from './html.js';

const HEADERS = {
  'cache-control': 'no-store',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
} as const;

/** A page that reads slower than events come is let go, and comes back for the present. */
const MAX_BEHIND_BYTES = 16 << 20;

/** How soon a page looks again when the command was stopped. */
const AGAIN_MS = 1000;

export interface Served {
  readonly url: string;
  close(): Promise<void>;
}

/** Serves the page and its events, on 127.0.0.1 alone. @throws CliError (exit code 2) when the port is taken */
export async function servePage(port: number, page: MadePage, feed: Feed): Promise<Served> {
  const server = createServer((request, response) => {
    for (const [name, value] of Object.entries(HEADERS)) response.setHeader(name, value);
    if (!isForUs(request)) refuse(response, 403, 'This server answers to 127.0.0.1 and localhost only.');
    else if (request.method !== 'GET' && request.method !== 'HEAD') refuse(response, 405, 'This server only answers GET.');
    else if (request.url === '/') sendPage(response, page);
    else if (request.url === '/events' && request.method === 'GET') sendEvents(response, feed);
    else refuse(response, 404, 'There is nothing here.');
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => {
      reject(portError(port, error));
    });
    server.listen(port, '127.0.0.1', resolve);
  });
  const { port: taken } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${taken}/`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => {
          resolve();
        });
        server.closeAllConnections();
      }),
  };
}

/** A name that somebody let point here would let their pages read what is served. */
function isForUs({ headers, socket }: IncomingMessage): boolean {
  return [`127.0.0.1:${socket.localPort ?? 0}`, `localhost:${socket.localPort ?? 0}`].includes(headers.host ?? '');
}

function refuse(response: ServerResponse, status: number, why: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(`${why}\n`);
}

function sendPage(response: ServerResponse, { html, policy }: MadePage): void {
  response.writeHead(200, {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': `${policy}; frame-ancestors 'none'`,
  });
  response.end(html);
}

function sendEvents(response: ServerResponse, feed: Feed): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' }).write(`retry: ${AGAIN_MS}\n\n`);
  const leave = feed.join((name, data) => {
    response.write(
      `event: ${name}\n${data
        .split('\n')
        .map((line) => `data: ${line}`)
        .join('\n')}\n\n`,
    );
    if (response.writableLength > MAX_BEHIND_BYTES) response.destroy();
  });
  response.on('close', leave);
}

function portError(port: number, error: Error): Error {
  const code = errorCode(error);
  if (code === 'EADDRINUSE') {
    return new CliError(EXIT.usage, `port ${port} is taken; choose another with \`--port\`, or leave it out for a free one`, error);
  }
  if (code === 'EACCES') return new CliError(EXIT.usage, `port ${port} is not for you; choose another with \`--port\``, error);
  return error;
}

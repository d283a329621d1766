import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { resolve } from 'node:path';
import { build } from 'vite';
import type { RunInput } from './agent.js';
import { questionOf, run } from './agent.js';
import type { Model } from './models.js';

/** A conversation is some kB. */
const MOST_BODY_BYTES = 1_048_576;
/** Of these the log tells; older ones are forgotten. */
const MOST_LINES = 200;
const MOST_QUESTION = 500;

const ROOT = resolve(import.meta.dirname, '../..');

/** A line of the log: what became of a run, and how many pieces of text had been sent. */
export interface LogLine {
  readonly question: string;
  end: 'running' | 'finished' | 'aborted' | 'failed';
  pieces: number;
}

export interface ChatServer {
  readonly url: string;
  readonly log: readonly LogLine[];
  close(): Promise<void>;
}

/** The page, its agent at `/agent` and the log of it at `/log`, on 127.0.0.1. The model is closed by who made it. */
export async function startChatServer({ model, port = 0 }: { readonly model: Model; readonly port?: number }): Promise<ChatServer> {
  const log: LogLine[] = [];
  const readers = new Set<ServerResponse>();
  const send = (reader: ServerResponse): void => {
    reader.write(`data: ${JSON.stringify({ model: model.name, lines: log })}\n\n`);
  };
  const tell = (): void => {
    for (const reader of readers) send(reader);
  };

  const page = await (built ??= buildPage());

  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const refused = refusalOf(request);
    if (refused !== undefined) {
      response.writeHead(403, { 'content-type': 'text/plain; charset=utf-8' }).end(refused);
      return;
    }
    const { pathname } = new URL(request.url ?? '/', 'http://localhost');
    if (pathname === '/agent' && request.method === 'POST') {
      const body = await bodyOf(request);
      if (body === undefined) response.writeHead(413, { connection: 'close' }).end(`More than ${String(MOST_BODY_BYTES)} bytes.\n`);
      else {
        const input = inputOf(body);
        if (input === undefined) response.writeHead(400).end('Not the input of a run.\n');
        else await answer(input, response);
      }
    } else if (pathname === '/log') {
      begin(response);
      readers.add(response);
      response.on('close', () => readers.delete(response));
      send(response);
    } else {
      const file = page.get(pathname === '/' ? 'index.html' : pathname.slice(1));
      response.writeHead(file === undefined ? 404 : 200, { 'content-type': file?.type ?? 'text/plain' }).end(file?.content ?? 'not here');
    }
  };

  /** A run ends when its connection does: whoever leaves does not pay for the rest. */
  const answer = async (input: RunInput, response: ServerResponse): Promise<void> => {
    const line: LogLine = { question: questionOf(input).slice(0, MOST_QUESTION), end: 'running', pieces: 0 };
    log.push(line);
    if (log.length > MOST_LINES) log.shift();
    tell();
    const aborts = new AbortController();
    response.on('close', () => {
      aborts.abort();
    });
    begin(response);
    try {
      for await (const event of run(input, model, aborts.signal)) {
        if (aborts.signal.aborted) break;
        if (event.type === 'TEXT_MESSAGE_CONTENT') line.pieces++;
        response.write(`data: ${JSON.stringify(event)}\n\n`);
      }
      line.end = aborts.signal.aborted ? 'aborted' : 'finished';
    } catch {
      line.end = aborts.signal.aborted ? 'aborted' : 'failed';
      if (!response.closed)
        response.write(`data: ${JSON.stringify({ type: 'RUN_ERROR', message: 'The model failed', code: 'model' })}\n\n`);
    }
    response.end();
    tell();
  };

  const server = createServer((request, response) => {
    serve(request, response).catch(() => {
      response.destroy();
    });
  });
  await new Promise<void>((listening) => server.listen(port, '127.0.0.1', listening));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    log,
    close: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

/** A page of another site must not ask: neither under a name that it lets point here, nor from its own address. */
function refusalOf({ headers, socket }: IncomingMessage): string | undefined {
  const hosts = ['127.0.0.1', 'localhost'].map((name) => `${name}:${String(socket.localPort ?? 0)}`);
  if (!hosts.includes(headers.host ?? '')) return 'This server answers to 127.0.0.1 and localhost only.\n';
  const isOwnPage = headers.origin === undefined || hosts.some((host) => headers.origin === `http://${host}`);
  const isOwnSite = [undefined, 'same-origin', 'none'].includes(headers['sec-fetch-site']);
  return isOwnPage && isOwnSite ? undefined : 'This server answers to its own page only.\n';
}

/** Undefined when there is too much of it. */
async function bodyOf(request: IncomingMessage): Promise<string | undefined> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of request as AsyncIterable<Buffer>) {
    bytes += piece.length;
    if (bytes > MOST_BODY_BYTES) return undefined;
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString('utf8');
}

function inputOf(body: string): RunInput | undefined {
  try {
    const input = JSON.parse(body) as Partial<RunInput> | null;
    return Array.isArray(input?.messages) ? (input as RunInput) : undefined;
  } catch {
    return undefined;
  }
}

interface PageFile {
  readonly type: string;
  readonly content: string | Uint8Array;
}

const TYPES: Readonly<Record<string, string>> = { html: 'text/html', js: 'text/javascript', css: 'text/css' };

/** The same for every server. */
let built: ReturnType<typeof buildPage> | undefined;

/** The page, built, by path. */
async function buildPage(): Promise<ReadonlyMap<string, PageFile>> {
  const built = await build({
    root: import.meta.dirname,
    configFile: false,
    logLevel: 'warn',
    // One RxJS, though @ag-ui/client brings its own along.
    resolve: { dedupe: ['rxjs'], alias: { '#async-context': resolve(ROOT, 'operators/shell/calls/async-context.ts') } },
    build: { write: false, target: 'es2022', chunkSizeWarningLimit: 1000 },
  });
  const files = [built].flat().flatMap((result) => ('output' in result ? result.output : []));
  return new Map(
    files.map((file) => [
      file.fileName,
      {
        type: TYPES[file.fileName.split('.').at(-1) ?? ''] ?? 'application/octet-stream',
        content: file.type === 'chunk' ? file.code : file.source,
      },
    ]),
  );
}

function begin(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
}

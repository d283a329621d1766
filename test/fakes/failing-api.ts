import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** How a model API fails: with a status and a body, or by saying nothing. */
export type Failure = Refusal | 'cutSocket' | 'brokenBody' | 'notJson' | 'silent';

export interface Refusal {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly message: string;
  /** OpenAI's `code`, `param` and `type`. */
  readonly code?: string;
  readonly param?: string;
  /** Anthropic's `error.type`, where it is not that of OpenAI. */
  readonly type?: string;
}

export interface FailingApi {
  /** Where it listens, without a version. */
  readonly url: string;
  /** Requests seen so far. */
  readonly requests: number;
  /** What comes next; the last one is repeated. */
  fail(...failures: readonly Failure[]): void;
  stop(): Promise<void>;
}

/** A model API on a free port of this machine that fails as told, in OpenAI's shape, or in Anthropic's below `/v1/messages`. */
export async function startFailingApi(): Promise<FailingApi> {
  let queue: readonly Failure[] = ['silent'];
  let requests = 0;
  const server = createServer((request, response) => {
    requests++;
    const failure = queue[0] ?? 'silent';
    if (queue.length > 1) queue = queue.slice(1);
    answer(failure, request, response);
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  return {
    url: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`,
    get requests() {
      return requests;
    },
    fail: (...failures) => {
      queue = failures;
    },
    stop: async () => {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}

/** Answers one request as `failure` says. Headers that were set on `response` before go along. */
export function answer(failure: Failure, request: IncomingMessage, response: ServerResponse): void {
  request.resume();
  if (failure === 'silent') return;
  if (failure === 'cutSocket') {
    request.socket.destroy();
  } else if (failure === 'brokenBody') {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': '100' });
    response.write('{"half":', () => response.socket?.destroy());
  } else if (failure === 'notJson') {
    response.writeHead(200, { 'content-type': 'text/html' }).end('<html>A proxy says hello</html>');
  } else {
    response.writeHead(failure.status, { 'content-type': 'application/json', ...failure.headers });
    response.end(JSON.stringify(bodyOf(failure, request.url ?? '')));
  }
}

function bodyOf({ message, code, param, type }: Refusal, path: string): object {
  if (path.startsWith('/v1/messages'))
    return { type: 'error', error: { type: type ?? 'invalid_request_error', message }, request_id: 'req_1' };
  return { error: { message, type: 'invalid_request_error', param: param ?? null, code: code ?? null } };
}

import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Failure, Refusal } from './failing-api.js';
import { answer } from './failing-api.js';
import { chat } from './model-api-chat.js';
import { embeddings } from './model-api-embeddings.js';
import type { Api, Exchange } from './model-api-exchange.js';
import type { RateLimits } from './model-api-limits.js';
import { AccountLimits } from './model-api-limits.js';
import { messages } from './model-api-messages.js';
import { responses } from './model-api-responses.js';
import { jsonOf, pause, stream } from './model-api-wire.js';

export interface ModelApiOptions extends RateLimits {
  /**
   * What a request takes from the tokens: `'reported'` what `usage` in its answer says; a refused one then costs none. `'allowed'` its input and
   * the most output that it allows (`max_tokens` and the like), or the output it gets when it does not say. @defaultValue 'reported'
   */
  readonly charges?: 'reported' | 'allowed';
  /** How long after its arrival a request is answered, or a stream begins; a 429 of the limits is answered at once. @defaultValue 0 */
  readonly latencyMs?: number | (() => number);
  /** How many chunks a stream has. @defaultValue 3 */
  readonly chunks?: number;
  /** Pause of a stream before each further chunk and before its end. @defaultValue 0 */
  readonly chunkGapMs?: number;
  /** Whether the refusal of a poisoned text in a batch says which one it is. @defaultValue true */
  readonly namePoison?: boolean;
}

/** As {@link Failure}, or well until the stream is cut after that many chunks; a whole answer is cut in its middle. */
export type ModelFailure = Failure | { readonly cutStream: number };

export interface ModelRequest {
  /** Without the query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** Parsed; undefined until all of it is here. */
  readonly body: unknown;
  /** When it arrived, by `performance.now()`. */
  readonly at: number;
  /** Undefined until the answer has ended, and when there was none. */
  readonly status: number | undefined;
}

export interface ModelApi {
  /** Where it listens, without a version; what Anthropic's client wants. */
  readonly url: string;
  /** The same with `/v1`; what all the others want. */
  readonly baseUrl: string;
  /** In the order of arrival. */
  readonly requests: readonly ModelRequest[];
  /** Requests that have arrived and whose answer has not ended. */
  readonly inFlight: number;
  readonly maxInFlight: number;
  /** Requests answered well and to the end. */
  readonly completed: number;
  /** Requests that the client left before the answer ended. */
  readonly aborted: number;
  /** Requests answered with 429, by the limits or by `fail`. */
  readonly refused: number;
  /** Tokens taken by requests that the limits let pass. */
  readonly tokensCharged: number;
  /** The next requests fail so, one each, before the limits are asked; then all is well again. */
  fail(...failures: readonly ModelFailure[]): void;
  /** Forgets what was counted and what is to fail, and fills the limits up. What is under way is counted when it ends. */
  clear(): void;
  /** Closes all connections. */
  stop(): Promise<void>;
}

const ANTHROPIC_PATH = '/v1/messages';

const APIS: ReadonlyMap<string, Api> = new Map([
  ['/v1/embeddings', embeddings],
  ['/v1/chat/completions', chat],
  ['/v1/responses', responses],
  [ANTHROPIC_PATH, messages],
]);

const unknownPath: Api = () => {
  const refusal = { status: 404, message: 'Unknown request URL.', code: 'unknown_url', type: 'not_found_error' };
  return { inputTokens: 0, outputTokens: 0, poison: refusal, answer: {} };
};

/** What `clear` sets back. */
const nothingYet = () => ({ requests: [] as ModelRequest[], completed: 0, aborted: 0, refused: 0, tokensCharged: 0 });

/**
 * A model API on a free port of this machine, for the real clients of OpenAI and Anthropic. It says again what it is told, keeps to rate
 * limits, fails as told and counts. Tokens are a quarter of the characters of each text, rounded up, in and out.
 */
export async function startModelApi(options: ModelApiOptions = {}): Promise<ModelApi> {
  const { charges = 'reported', latencyMs = 0, chunks = 3, chunkGapMs = 0, namePoison = true } = options;
  const limits = new AccountLimits(options);
  let failures: readonly ModelFailure[] = [];
  const told = { ...nothingYet(), inFlight: 0, maxInFlight: 0 };
  let ids = 0;
  let stopped = false;

  const server = createServer((request, response) => {
    const [failure] = failures;
    failures = failures.slice(1);
    const seen: Seen = { path: pathOf(request), headers: request.headers, body: undefined, at: performance.now(), status: undefined };
    told.requests.push(seen);
    told.maxInFlight = Math.max(told.maxInFlight, ++told.inFlight);
    const closed = new AbortController();
    response.once('close', () => {
      told.inFlight--;
      closed.abort();
      count(seen, response, failure);
    });
    serve(request, response, seen, failure, closed.signal).catch((error: unknown) => {
      if (!request.socket.destroyed)
        answer({ status: error instanceof SyntaxError ? 400 : 500, message: String(error) }, request, response);
    });
  });

  function count(seen: Seen, response: ServerResponse, failure: ModelFailure | undefined): void {
    if (response.headersSent) seen.status = response.statusCode;
    if (!response.writableFinished) told.aborted += stopped || isCutByUs(failure) ? 0 : 1;
    else if (response.statusCode === 429) told.refused++;
    else if (response.statusCode === 200 && failure === undefined) told.completed++;
  }

  async function serve(
    request: IncomingMessage,
    response: ServerResponse,
    seen: Seen,
    failure: ModelFailure | undefined,
    closed: AbortSignal,
  ): Promise<void> {
    seen.body = await jsonOf(request);
    const api = APIS.get(seen.path) ?? unknownPath;
    const exchange = api(seen.body, { id: ++ids, chunks, namePoison });
    const cutAfter = isCutStream(failure) ? failure.cutStream : undefined;
    const planned = isCutStream(failure) ? undefined : failure;
    const refusal = planned === undefined ? admit(exchange) : undefined;
    for (const [name, value] of limits.headers(seen.path === ANTHROPIC_PATH ? 'anthropic' : 'openai')) response.setHeader(name, value);
    if (refusal === undefined) await pause(typeof latencyMs === 'number' ? latencyMs : latencyMs(), closed);

    const fault = planned ?? refusal ?? exchange.poison;
    if (fault !== undefined) answer(fault, request, response);
    else if (isFrames(exchange.answer)) await stream(exchange.answer, response, { gapMs: chunkGapMs, cutAfter, closed });
    else if (cutAfter !== undefined) answer('brokenBody', request, response);
    else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(exchange.answer));
  }

  function admit(exchange: Exchange): Refusal | undefined {
    const tokens = costOf(exchange);
    const refusal = limits.admit(tokens);
    if (refusal === undefined) told.tokensCharged += tokens;
    return refusal;
  }

  function costOf({ inputTokens, outputTokens, maxOutputTokens = outputTokens, poison }: Exchange): number {
    if (charges === 'allowed') return inputTokens + maxOutputTokens;
    return poison ? 0 : inputTokens + outputTokens;
  }

  // A kept connection that the server closes in the moment it is used again would fail a request by chance.
  server.keepAliveTimeout = 0;
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return Object.assign(told, {
    url,
    baseUrl: `${url}/v1`,
    fail: (...more: readonly ModelFailure[]) => {
      failures = [...failures, ...more];
    },
    clear: () => {
      failures = [];
      Object.assign(told, nothingYet(), { maxInFlight: told.inFlight });
      limits.refill();
    },
    stop: async () => {
      stopped = true;
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  });
}

type Seen = { -readonly [Field in keyof ModelRequest]: ModelRequest[Field] };

function pathOf({ url = '' }: IncomingMessage): string {
  return url.replace(/\?.*$/, '');
}

function isCutStream(failure: ModelFailure | undefined): failure is { readonly cutStream: number } {
  return typeof failure === 'object' && 'cutStream' in failure;
}

function isCutByUs(failure: ModelFailure | undefined): boolean {
  return failure === 'cutSocket' || failure === 'brokenBody' || isCutStream(failure);
}

function isFrames(answered: object | readonly string[]): answered is readonly string[] {
  return Array.isArray(answered);
}

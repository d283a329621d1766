import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** One request as the fake provider saw it. */
export interface FakeCall {
  /** Position in the order of arrival, from 0. */
  readonly index: number;
  readonly model: string;
  readonly inputs: readonly string[];
  readonly authorization: string | undefined;
}

/** What to answer instead of vectors: an HTTP error, or `cut` to close the connection without one. */
export type FakeAnswer = 'cut' | { readonly status: number; readonly message: string; readonly retryAfterSeconds?: number };

export interface FakeProviderOptions {
  /** Refuses every other key with 401. @defaultValue any key or none will do */
  readonly apiKey?: string;
  /** Refuses every other model with 404. @defaultValue any model will do */
  readonly model?: string;
  /** @defaultValue 16 */
  readonly dimensions?: number;
  /** Time an answer takes. @defaultValue 0 */
  readonly delayMs?: number;
  /** A call is not answered before it resolves. @defaultValue at once */
  readonly until?: (call: FakeCall) => Promise<void> | undefined;
  /** Refuses more inputs in one call with 400. @defaultValue no limit */
  readonly maxInputs?: number;
  /** Requests and tokens (a quarter of the characters) taken in any `windowMs`; more is answered 429. @defaultValue no limit */
  readonly requestsPerWindow?: number;
  readonly tokensPerWindow?: number;
  /** @defaultValue 60 000 */
  readonly windowMs?: number;
  /** Texts that fail the call they are in with 400. @defaultValue none */
  readonly poison?: (text: string) => boolean;
  /** Whether that 400 says which input it was. @defaultValue true */
  readonly namePoison?: boolean;
  /** Asked first for every call; undefined lets it pass. @defaultValue none */
  readonly answer?: (call: FakeCall) => FakeAnswer | undefined;
}

export interface FakeProvider extends AsyncDisposable {
  /** Ends in `/v1`. */
  readonly baseUrl: string;
  readonly calls: readonly FakeCall[];
  /** Most calls that were open at the same time. */
  readonly maxOpen: number;
  close(): Promise<void>;
}

/** An OpenAI-compatible embeddings server for tests, on 127.0.0.1 and a free port. Equal texts always get equal vectors. */
export async function startFakeProvider(options: FakeProviderOptions = {}): Promise<FakeProvider> {
  const calls: FakeCall[] = [];
  let open = 0;
  let maxOpen = 0;
  const allow = slidingWindow(options);

  const refuse = (call: FakeCall): FakeAnswer | undefined => {
    const { apiKey, model, maxInputs = Infinity, poison, namePoison = true } = options;
    const scripted = options.answer?.(call);
    if (scripted !== undefined) return scripted;
    if (apiKey !== undefined && call.authorization !== `Bearer ${apiKey}`) return { status: 401, message: 'Incorrect API key provided' };
    if (model !== undefined && call.model !== model) return { status: 404, message: `The model \`${call.model}\` does not exist` };
    const retryAfterSeconds = allow(call.inputs);
    if (retryAfterSeconds > 0) return { status: 429, message: 'Rate limit reached', retryAfterSeconds };
    if (call.inputs.length > maxInputs) return { status: 400, message: `at most ${String(maxInputs)} inputs are allowed in one request` };
    const poisoned = poison === undefined ? -1 : call.inputs.findIndex(poison);
    if (poisoned >= 0)
      return { status: 400, message: namePoison ? `'input[${String(poisoned)}]' is invalid` : 'one of the inputs is invalid' };
    return undefined;
  };

  const embed = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = (await readJson(request)) as { model: string; input: string | string[]; encoding_format?: string };
    const inputs = typeof body.input === 'string' ? [body.input] : body.input;
    const call = { index: calls.length, model: body.model, inputs, authorization: request.headers.authorization };
    calls.push(call);
    const answer = refuse(call);
    await options.until?.(call);
    await delay(options.delayMs ?? 0);
    if (answer === 'cut') request.socket.destroy();
    else if (answer !== undefined) {
      if (answer.retryAfterSeconds !== undefined) response.setHeader('retry-after', String(answer.retryAfterSeconds));
      send(response, answer.status, { error: { message: answer.message, type: 'fake_error' } });
    } else {
      const tokens = tokensIn(inputs);
      const data = inputs.map((text, index) => {
        const vector = hashVector(text, options.dimensions ?? 16);
        const embedding = body.encoding_format === 'base64' ? Buffer.from(vector.buffer).toString('base64') : [...vector];
        return { object: 'embedding', index, embedding };
      });
      send(response, 200, { object: 'list', model: body.model, data, usage: { prompt_tokens: tokens, total_tokens: tokens } });
    }
  };

  const server = createServer((request, response) => {
    open += 1;
    maxOpen = Math.max(maxOpen, open);
    response.on('close', () => (open -= 1));
    if (request.method !== 'POST' || request.url !== '/v1/embeddings') {
      send(response, 404, { error: { message: `no route ${String(request.method)} ${String(request.url)}`, type: 'fake_error' } });
      return;
    }
    embed(request, response).catch(() => request.socket.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));

  const close = (): Promise<void> => {
    server.closeAllConnections();
    return new Promise((resolve) =>
      server.close(() => {
        resolve();
      }),
    );
  };
  return {
    baseUrl: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/v1`,
    calls,
    get maxOpen() {
      return maxOpen;
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** A normalised bag of words: texts that share words lie close together, so that a search has something to find. */
export function hashVector(text: string, dimensions: number): Float32Array<ArrayBuffer> {
  const vector = new Float32Array(dimensions);
  for (const word of text.toLowerCase().match(/\p{L}+/gu) ?? ['']) {
    let hash = 2166136261;
    for (let i = 0; i < word.length; i += 1) hash = Math.imul(hash ^ word.charCodeAt(i), 16777619) >>> 0;
    const at = hash % dimensions;
    vector[at] = (vector[at] ?? 0) + 1;
  }
  const length = Math.hypot(...vector);
  return vector.map((value) => value / length);
}

/** Seconds until the call may be tried again, 0 when it may pass now. */
function slidingWindow(options: FakeProviderOptions): (inputs: readonly string[]) => number {
  const { requestsPerWindow = Infinity, tokensPerWindow = Infinity, windowMs = 60_000 } = options;
  let taken: { readonly atMs: number; readonly tokens: number }[] = [];
  return (inputs) => {
    const nowMs = performance.now();
    const tokens = tokensIn(inputs);
    taken = taken.filter((call) => call.atMs > nowMs - windowMs);
    const used = taken.reduce((sum, call) => sum + call.tokens, 0);
    const [oldest] = taken;
    if (oldest !== undefined && (taken.length >= requestsPerWindow || used + tokens > tokensPerWindow)) {
      return (oldest.atMs + windowMs - nowMs) / 1000;
    }
    taken.push({ atMs: nowMs, tokens });
    return 0;
  };
}

function tokensIn(inputs: readonly string[]): number {
  return inputs.reduce((sum, text) => sum + Math.ceil(text.length / 4), 0);
}

function delay(ms: number): Promise<void> {
  return ms === 0 ? Promise.resolve() : new Promise((resolve) => setTimeout(resolve, ms));
}

async function readJson(request: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return JSON.parse(Buffer.concat(parts).toString('utf8'));
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

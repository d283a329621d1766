import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { countTokens, REFUSED } from './texts.js';

/** What the provider allows an account. */
export const LIMITS = {
  textsPerRequest: 100,
  tokensPerRequest: 8192,
  requestsPerSecond: 100,
  tokensPerSecond: 70_000,
  /** Seconds of both rates that can be spent at once. */
  burstSeconds: 1,
  /** Requests it works on at a time; more wait. */
  slots: 8,
} as const;

/** Time one request takes: refusals take the base. */
const LATENCY_MS = { base: 20, perText: 3 } as const;

/** The answer to one request; without an error it is 200. */
export interface Ruling {
  readonly status: 200 | 400 | 429;
  readonly error?: string;
  readonly retryAfterMs?: number;
  readonly latencyMs: number;
  readonly tokens: number;
}

/** The rules of the provider, told the time in ms. What it refuses costs no tokens. */
export class Rules {
  calls = 0;
  throttled = 0;
  #requests: number = LIMITS.requestsPerSecond * LIMITS.burstSeconds;
  #tokens: number = LIMITS.tokensPerSecond * LIMITS.burstSeconds;
  #atMs: number;

  constructor(nowMs: number) {
    this.#atMs = nowMs;
  }

  judge(texts: readonly string[], nowMs: number): Ruling {
    this.calls++;
    this.#refill(nowMs);
    const tokens = texts.reduce((sum, text) => sum + countTokens(text), 0);
    const refusal = (status: 400 | 429, error: string): Ruling => ({ status, error, latencyMs: LATENCY_MS.base, tokens });
    if (texts.length > LIMITS.textsPerRequest) return refusal(400, `at most ${String(LIMITS.textsPerRequest)} texts in a request`);
    if (tokens > LIMITS.tokensPerRequest)
      return refusal(400, `Requested ${String(tokens)} tokens, max ${String(LIMITS.tokensPerRequest)} tokens per request`);
    const waitMs = Math.max((1 - this.#requests) / LIMITS.requestsPerSecond, (tokens - this.#tokens) / LIMITS.tokensPerSecond) * 1000;
    if (waitMs > 0) {
      this.throttled++;
      return { ...refusal(429, 'Rate limit reached'), retryAfterMs: Math.ceil(waitMs) };
    }
    this.#requests--;
    if (texts.some((text) => text.includes(REFUSED))) return refusal(400, 'One of the inputs is invalid');
    this.#tokens -= tokens;
    return { status: 200, latencyMs: LATENCY_MS.base + LATENCY_MS.perText * texts.length, tokens };
  }

  #refill(nowMs: number): void {
    const seconds = LIMITS.burstSeconds;
    const passed = (nowMs - this.#atMs) / 1000;
    this.#atMs = nowMs;
    this.#requests = Math.min(LIMITS.requestsPerSecond * seconds, this.#requests + passed * LIMITS.requestsPerSecond);
    this.#tokens = Math.min(LIMITS.tokensPerSecond * seconds, this.#tokens + passed * LIMITS.tokensPerSecond);
  }
}

export interface Provider {
  /** Ends in `/v1`. */
  readonly baseUrl: string;
  /** Requests so far, and those of them that were answered 429. */
  readonly counts: { readonly calls: number; readonly throttled: number };
  stop(): Promise<void>;
}

/**
 * An OpenAI-compatible server on a free port of this machine that keeps to the rules: `/v1/embeddings`, and an empty `/v1/models` to see
 * whether it is there. The caller stops it.
 */
export async function startProvider(): Promise<Provider> {
  const rules = new Rules(performance.now());
  const slots = new Slots();
  const server = createServer((request, response) => {
    answer(request, response, rules, slots).catch(() => request.socket.destroy());
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  return {
    baseUrl: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/v1`,
    counts: rules,
    stop: async () => {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}

async function answer(request: IncomingMessage, response: ServerResponse, rules: Rules, slots: Slots): Promise<void> {
  if (request.method === 'GET') {
    response.writeHead(200, { 'content-type': 'application/json' }).end('{"object":"list","data":[]}');
    return;
  }
  let body = '';
  for await (const part of request.setEncoding('utf8')) body += part as string;
  const { input, encoding_format } = JSON.parse(body) as { input: string | string[]; encoding_format?: string };
  const texts = typeof input === 'string' ? [input] : input;
  const { status, error, retryAfterMs, latencyMs, tokens } = rules.judge(texts, performance.now());
  await slots.work(latencyMs);
  if (retryAfterMs !== undefined)
    response.setHeader('retry-after-ms', retryAfterMs).setHeader('retry-after', Math.ceil(retryAfterMs / 1000));
  response.writeHead(status, { 'content-type': 'application/json' });
  const data = texts.map((text, index) => ({ object: 'embedding', index, embedding: encoded(vectorOf(text), encoding_format) }));
  const usage = { prompt_tokens: tokens, total_tokens: tokens };
  const type = status === 429 ? 'tokens' : 'invalid_request_error';
  response.end(JSON.stringify(status === 200 ? { object: 'list', data, usage } : { error: { message: error, type } }));
}

/** As many requests at a time as the provider has slots; the others wait in the order they came. */
class Slots {
  readonly #waiting: (() => void)[] = [];
  #free: number = LIMITS.slots;

  async work(ms: number): Promise<void> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((next) => this.#waiting.push(next));
    await new Promise((done) => setTimeout(done, ms));
    const next = this.#waiting.shift();
    if (next) next();
    else this.#free++;
  }
}

/** Every text has a vector of its own, more or less. */
export function vectorOf(text: string): number[] {
  let hash = 0;
  for (let i = 0; i < text.length; i++) hash = (Math.imul(hash, 31) + text.charCodeAt(i)) | 0;
  return [hash & 0xffff, hash >>> 16, countTokens(text)];
}

function encoded(vector: readonly number[], format: string | undefined): string | readonly number[] {
  return format === 'base64' ? Buffer.from(Float32Array.from(vector).buffer).toString('base64') : vector;
}

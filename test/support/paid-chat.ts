import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What becomes of a call: `gateway` is lost behind one after the model has answered. */
export type PaidEnd = 'answers' | 'noUsage' | 'fails' | 'gateway' | 'cut' | 'silent';

/** Prices of a million tokens, in USD. */
export interface PaidPrices {
  readonly input: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
  readonly output: number;
}

export interface PaidChatOptions {
  readonly prices: PaidPrices;
  /** Tokens of the longest answer of a request that sets none. */
  readonly maxOutputTokens: number;
  readonly random: () => number;
  readonly endOf: () => PaidEnd;
  /** Tokens an answer would like to have. */
  readonly length: () => number;
  /** Bytes of a prompt in one of its tokens. */
  readonly bytesPerToken: number;
  /** Whether it counts a prompt cache. */
  readonly caches: boolean;
  readonly delayMs: number;
  /** What an answer says in place of its usage. @defaultValue nothing else */
  readonly reports?: () => object | undefined;
}

export interface PaidChat {
  readonly baseUrl: string;
  /** What the provider charges, in USD, including answers that were never received. */
  readonly billedUsd: number;
  /** Requests that came. */
  readonly calls: number;
  close(): Promise<void>;
}

/** A provider that keeps a bill. */
export async function startPaidChat(options: PaidChatOptions): Promise<PaidChat> {
  const { bytesPerToken, caches, delayMs, endOf, length, maxOutputTokens, prices, random } = options;
  let micro = 0;
  let calls = 0;
  const usageOf = (prompt: number, completion: number) => {
    const read = caches && random() < 0.5 ? Math.floor(prompt * random()) : 0;
    const written = caches && random() < 0.5 ? prompt - read : 0;
    micro += (prompt - read - written) * prices.input + read * prices.cacheRead + written * prices.cacheWrite + completion * prices.output;
    const details = { cached_tokens: read, ...(written > 0 && { cache_write_tokens: written }) };
    return { prompt_tokens: prompt, completion_tokens: completion, ...(caches && { prompt_tokens_details: details }) };
  };
  const answer = (text: string, response: ServerResponse): void => {
    const body = JSON.parse(text) as { readonly max_tokens?: number; readonly messages: readonly { readonly content: string }[] };
    const end = endOf();
    calls += 1;
    if (end === 'fails') {
      response.writeHead(random() < 0.5 ? 500 : 503).end('{"error":{"message":"try again"}}');
      return;
    }
    const bytes = Buffer.byteLength(body.messages.map(({ content }) => content).join(''));
    const completion = Math.max(1, Math.min(length(), body.max_tokens ?? maxOutputTokens));
    const isWhole = completion < (body.max_tokens ?? maxOutputTokens);
    const usage = usageOf(Math.ceil(bytes / bytesPerToken) + 8, completion);
    if (end === 'silent') return;
    if (end === 'gateway') {
      response.writeHead(504).end('upstream timed out');
      return;
    }
    const choice = { index: 0, finish_reason: isWhole ? 'stop' : 'length', message: { role: 'assistant', content: 'a word '.repeat(5) } };
    const json = JSON.stringify({ choices: [choice], ...(end !== 'noUsage' && { usage: { ...usage, ...options.reports?.() } }) });
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(end === 'cut' ? json.slice(0, 40) : json);
  };
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      setTimeout(() => {
        answer(Buffer.concat(parts).toString(), response);
      }, delayMs * random());
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    baseUrl: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/v1`,
    get billedUsd() {
      return micro / 1e6;
    },
    get calls() {
      return calls;
    },
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => {
          resolve();
        });
      }),
  };
}

import { divideAndConquer, retryFailed, sequentialSearch } from '../../operators/index.js';
import type { Embedder } from '../../src/index.js';
import { createAccount, createEmbedder, embeddings } from '../../src/index.js';

/** What became of every text, by its position. */
export interface Outcome {
  readonly vectors: Map<number, Float32Array>;
  readonly refused: Map<number, unknown>;
}

const requests = { maxSize: 100, maxTokens: 8192 } as const;
const rates = { concurrency: 8, requestsPerMinute: 6000, tokensPerMinute: 4_200_000, burstSeconds: 1 } as const;

/** What the provider allows is all there is to say. A tenth of the rates is left unused, so that it never has to refuse. */
export async function embedAll(baseUrl: string, texts: Iterable<string>): Promise<Outcome> {
  await using embedder = createEmbedder({ call: embeddings({ baseUrl, model: 'any' }), ...requests, limiter: createAccount(rates) });
  return await outcome(embedder, texts);
}

/** All of the rates, and bad texts found in as few calls as possible; the limiter may be shared with others of the same account. */
export async function embedAllInFewCalls(baseUrl: string, texts: Iterable<string>, burstSeconds = 1): Promise<Outcome> {
  const limiter = createAccount({ ...rates, burstSeconds, headroom: 1 });
  const repair = [retryFailed(), divideAndConquer({ strategy: sequentialSearch() })];
  await using embedder = createEmbedder({ call: embeddings({ baseUrl, model: 'any' }), ...requests, limiter, repair });
  return await outcome(embedder, texts);
}

async function outcome(embedder: Embedder, texts: Iterable<string>): Promise<Outcome> {
  const [vectors, refused] = [new Map<number, Float32Array>(), new Map<number, unknown>()];
  await embedder.embedFrom(texts).forEach((result) => {
    if (result.status === 'fulfilled') vectors.set(result.index, result.value);
    else refused.set(result.index, result.reason);
  });
  return { vectors, refused };
}

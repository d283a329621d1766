import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { OpenAIEmbeddings } from '@langchain/openai';
import { APICallError, embedMany, RetryError, wrapEmbeddingModel } from 'ai';
import PQueue from 'p-queue';
import { embedAll, embedAllInFewCalls } from '../examples/embedding-job/job.js';
import { LIMITS, startProvider, vectorOf } from '../examples/embedding-job/provider.js';
import { countTokens, leastSeconds, makeTexts, REFUSED } from '../examples/embedding-job/texts.js';
import { median, table } from './harness.js';

type Vector = ArrayLike<number>;

/** Embeds what it can: the vectors by the position of their text. */
type Contestant = (baseUrl: string, texts: readonly string[]) => Promise<ReadonlyMap<number, Vector>>;

interface Item {
  readonly text: string;
  readonly index: number;
}

/** In the order given, as many to a call as the provider takes. */
function chunksOf(texts: readonly string[]): Item[][] {
  const chunks: Item[][] = [];
  let tokens = Infinity;
  for (const [index, text] of texts.entries()) {
    const cost = countTokens(text);
    const open = chunks.at(-1);
    if (open === undefined || open.length === LIMITS.textsPerRequest || tokens + cost > LIMITS.tokensPerRequest) {
      chunks.push([{ text, index }]);
      tokens = cost;
    } else {
      open.push({ text, index });
      tokens += cost;
    }
  }
  return chunks;
}

/** Chunks by hand, as many at a time as the provider works on; one that is refused is cut in halves, one that fails otherwise is lost. */
async function inHalves(
  texts: readonly string[],
  embed: (texts: string[]) => Promise<readonly Vector[]>,
  isRefusal: (error: unknown) => boolean,
) {
  const vectors = new Map<number, Vector>();
  const queue = new PQueue({ concurrency: LIMITS.slots });
  const send = async (items: readonly Item[]): Promise<void> => {
    try {
      const answer = await embed(items.map(({ text }) => text));
      for (const [i, { index }] of items.entries()) vectors.set(index, answer[i]!);
    } catch (error) {
      if (items.length === 1 || !isRefusal(error)) return;
      const half = items.length >> 1;
      for (const part of [items.slice(0, half), items.slice(half)]) void queue.add(() => send(part), { priority: 1 });
    }
  };
  for (const chunk of chunksOf(texts)) void queue.add(() => send(chunk));
  await queue.onIdle();
  return vectors;
}

const aiModel = (baseUrl: string) => createOpenAICompatible({ name: 'local', baseURL: baseUrl }).embeddingModel('any');

const isRefusedByAi = (error: unknown): boolean => {
  const last: unknown = RetryError.isInstance(error) ? error.lastError : error;
  return APICallError.isInstance(last) && last.statusCode === 400;
};

const withAi =
  (maxRetries: number): Contestant =>
  (baseUrl, texts) => {
    const model = aiModel(baseUrl);
    return inHalves(texts, async (values) => (await embedMany({ model, values, maxRetries })).embeddings, isRefusedByAi);
  };

class HttpError extends Error {
  constructor(readonly status: number) {
    super(`HTTP ${String(status)}`);
  }
}

/** `fetch`, waiting as long as a 429 says, up to a hundred times. */
async function embedPatiently(baseUrl: string, input: string[]): Promise<readonly Vector[]> {
  for (let attempt = 0; ; attempt++) {
    const response = await fetch(`${baseUrl}/embeddings`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'any', input }),
    });
    if (response.ok) return ((await response.json()) as { data: { embedding: number[] }[] }).data.map(({ embedding }) => embedding);
    await response.body?.cancel();
    if (response.status !== 429 || attempt === 100) throw new HttpError(response.status);
    const waitMs = Number(response.headers.get('retry-after-ms'));
    await new Promise((done) => setTimeout(done, waitMs));
  }
}

const contestants: Readonly<Record<string, Contestant>> = {
  'sluice, defaults': async (baseUrl, texts) => (await embedAll(baseUrl, texts)).vectors,
  "sluice, 'sequential', headroom 1": async (baseUrl, texts) => (await embedAllInFewCalls(baseUrl, texts)).vectors,
  'the same, 0.95 s of burst': async (baseUrl, texts) => (await embedAllInFewCalls(baseUrl, texts, 0.95)).vectors,
  'AI SDK embedMany, one call': async (baseUrl, values) => {
    const middleware = { specificationVersion: 'v4', overrideMaxEmbeddingsPerCall: () => LIMITS.textsPerRequest } as const;
    const model = wrapEmbeddingModel({ model: aiModel(baseUrl), middleware });
    // One refused call fails them all.
    const all = await embedMany({ model, values: [...values], maxParallelCalls: LIMITS.slots, maxRetries: 6 }).catch(() => undefined);
    return new Map(all?.embeddings.entries() ?? []);
  },
  'AI SDK, chunks and halves, 6 retries': withAi(6),
  'AI SDK, chunks and halves, 100 retries': withAi(100),
  'p-queue, chunks and halves, 100 retries on `retry-after`': (baseUrl, texts) =>
    inHalves(
      texts,
      (input) => embedPatiently(baseUrl, input),
      (error) => error instanceof HttpError && error.status === 400,
    ),
  'LangChain, chunks and halves, its 6 retries': (baseUrl, texts) => {
    const model = new OpenAIEmbeddings({
      apiKey: 'none',
      model: 'any',
      batchSize: LIMITS.textsPerRequest,
      maxConcurrency: LIMITS.slots,
      configuration: { baseURL: baseUrl },
    });
    return inHalves(
      texts,
      (input) => model.embedDocuments(input),
      (error) => (error as { status?: unknown }).status === 400,
    );
  },
};

interface Result {
  readonly wallMs: number;
  readonly calls: number;
  readonly throttled: number;
  readonly lost: number;
}

/** Against a provider of its own, to which a connection is open already. */
async function run(contestant: Contestant, texts: readonly string[]): Promise<Result> {
  const provider = await startProvider();
  try {
    await (await fetch(`${provider.baseUrl}/models`)).text();
    const startMs = performance.now();
    const vectors = await contestant(provider.baseUrl, texts);
    const wallMs = performance.now() - startMs;
    const good = texts.filter((text) => !text.includes(REFUSED)).length;
    for (const [index, vector] of vectors) {
      if (Array.from(vector).join() !== vectorOf(texts[index]!).join()) throw new Error(`text ${String(index)} has the vector of another`);
    }
    const { calls, throttled } = provider.counts;
    return { wallMs, calls, throttled, lost: good - vectors.size };
  } finally {
    await provider.stop();
  }
}

/** The same job by each contestant, in turn, round after round. */
export async function embeddingJobTable(rounds: number): Promise<string> {
  const texts = makeTexts();
  const tokens = texts.reduce((sum, text) => sum + countTokens(text), 0);
  const leastMs = 1000 * leastSeconds(tokens, LIMITS);
  const entries = Object.entries(contestants);
  // Compiles what all of them need.
  for (const [, contestant] of entries) await run(contestant, texts.slice(0, 200));
  const results = entries.map((): Result[] => []);
  for (let round = 0; round < rounds; round++) {
    for (const [i, [, contestant]] of entries.entries()) results[i]!.push(await run(contestant, texts));
  }
  const rows = entries.map(([name], i) => {
    const of = (field: keyof Result): number[] => results[i]!.map((result) => result[field]);
    const wall = of('wallMs').map((ms) => ms / leastMs);
    return [
      name,
      median(wall).toFixed(2),
      `${Math.min(...wall).toFixed(2)} to ${Math.max(...wall).toFixed(2)}`,
      median(of('calls')).toFixed(0),
      median(of('throttled')).toFixed(0),
      median(of('lost')).toFixed(0),
    ];
  });
  const head = `${texts.length.toLocaleString('en')} texts, ${tokens.toLocaleString('en')} tokens, 10 refused; bound ${(leastMs / 1000).toFixed(2)} s; medians of ${String(rounds)} rounds`;
  return `${head}\n\n${table(['contestant', 'wall / bound', 'least to most', 'calls', '429', 'good texts lost'], rows)}`;
}

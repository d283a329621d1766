import { setMaxListeners } from 'node:events';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import { embedMany, generateText } from 'ai';
import OpenAI from 'openai';
import { seededRandom } from '../../marbles/random.js';
import type { Limiter } from '../../operators/index.js';
import { limitEmbeddingModel, limitLanguageModel } from '../../src/adapters/ai-sdk.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import { limitEmbeddings } from '../../src/adapters/langchain.js';
import { limitOpenAI } from '../../src/adapters/openai.js';

/** One call of an SDK: how many answers it is to give, and a promise of them. */
interface Call {
  readonly items: number;
  readonly answers: Promise<number>;
}

/** What an SDK is asked to do, one kind of call after the other. */
type Caller = (random: () => number, signal: AbortSignal) => Call;

const KEY = { apiKey: 'secret' };
const MODEL = { model: 'm' };
/** More than any answer has; a limiter sets it aside until the answer tells what it has cost. */
const MAX_TOKENS = 120;
/** The server counts a quarter of the letters, and answers with the text it was asked. */
const CHAT_LETTERS = { least: 60, most: 360 } as const;
const EMBED_LETTERS = { least: 40, most: 120 } as const;
const EMBED_TEXTS = { least: 4, most: 12 } as const;
const WORDS = 'the quick brown fox jumps over a lazy dog while seven wizards boil ';

function between(random: () => number, { least, most }: { readonly least: number; readonly most: number }): number {
  return least + Math.floor(random() * (most - least + 1));
}

/** Begins somewhere else each time, so that texts differ. */
function textOf(random: () => number, letters: { readonly least: number; readonly most: number }): string {
  const start = Math.floor(random() * WORDS.length);
  return WORDS.repeat(10).slice(start, start + between(random, letters));
}

const question = (random: () => number): string => textOf(random, CHAT_LETTERS);
const documents = (random: () => number): string[] =>
  Array.from({ length: between(random, EMBED_TEXTS) }, () => textOf(random, EMBED_LETTERS));

const one = async (call: PromiseLike<unknown>): Promise<number> => {
  await call;
  return 1;
};

/** Three SDKs against the same account, each as its users have it, or all of them behind one limiter. */
function callersOf(baseUrl: string, limiter: Limiter | undefined): Readonly<Record<string, readonly Caller[]>> {
  const plain = new OpenAI({ ...KEY, baseURL: baseUrl });
  const client = limiter ? limitOpenAI(plain, { limiter }) : plain;

  const provider = createOpenAICompatible({ name: 'local', baseURL: baseUrl });
  const chats = { plain: provider('m'), embeddings: provider.embeddingModel('m') };
  const model = limiter ? limitLanguageModel(chats.plain, { limiter }) : chats.plain;
  const embeddingModel = limiter ? limitEmbeddingModel(chats.embeddings, { limiter }) : chats.embeddings;

  const chatOpenAI = new ChatOpenAI({
    ...KEY,
    ...MODEL,
    maxTokens: MAX_TOKENS,
    ...(limiter && { maxRetries: 0 }),
    configuration: { baseURL: baseUrl, ...(limiter && { fetch: limitFetch({ limiter }) }) },
  });
  const embeddings = limiter
    ? limitEmbeddings((fetch) => new OpenAIEmbeddings({ ...KEY, ...MODEL, configuration: { baseURL: baseUrl, fetch } }), { limiter })
    : new OpenAIEmbeddings({ ...KEY, ...MODEL, configuration: { baseURL: baseUrl } });

  const lengthOf = async (vectors: PromiseLike<readonly unknown[]>): Promise<number> => (await vectors).length;
  const chat: Caller = (random, signal) => {
    const messages = [{ role: 'user' as const, content: question(random) }];
    return {
      items: 1,
      answers: one(client.chat.completions.create({ ...MODEL, messages, max_completion_tokens: MAX_TOKENS }, { signal })),
    };
  };
  return {
    openai: [chat],
    ai: [
      (random, abortSignal) => ({
        items: 1,
        answers: one(generateText({ model, prompt: question(random), maxOutputTokens: MAX_TOKENS, abortSignal })),
      }),
      (random, abortSignal) => {
        const values = documents(random);
        const vectors = embedMany({ model: embeddingModel, values, abortSignal });
        return { items: values.length, answers: lengthOf(vectors.then((result) => result.embeddings)) };
      },
    ],
    langchain: [
      (random, signal) => ({ items: 1, answers: one(chatOpenAI.invoke(question(random), { signal })) }),
      (random, signal) => {
        const texts = documents(random);
        const vectors = 'embedSettled' in embeddings ? embeddings.embedDocuments(texts, { signal }) : embeddings.embedDocuments(texts);
        return { items: texts.length, answers: lengthOf(vectors) };
      },
    ],
  };
}

export interface MixedLoadOptions {
  readonly baseUrl: string;
  /** For all SDKs together. Without one each is left to itself. */
  readonly limiter?: Limiter;
  /** How long new calls are begun. */
  readonly durationMs: number;
  /** Calls at a time, of each SDK. */
  readonly concurrency: number;
  /** What becomes of calls that are under way then: they are waited for, or aborted. */
  readonly end: 'drain' | 'abort';
}

export interface MixedLoad {
  /** Answers that were asked for: chats and vectors. */
  readonly asked: number;
  /** Those that came. */
  readonly done: number;
  /** Those of calls that have failed. */
  readonly lost: number;
  /** Those of calls that were under way at the end and aborted. */
  readonly unfinished: number;
  /** The first error, if there was one. */
  readonly error: unknown;
}

/** Keeps every SDK busy for that long. `onEnd` is told when no more calls are begun, before those under way are seen to. */
export async function mixedLoad(options: MixedLoadOptions, onEnd: () => void = () => undefined): Promise<MixedLoad> {
  const { baseUrl, limiter, durationMs, concurrency, end } = options;
  const counts = { asked: 0, done: 0, lost: 0, unfinished: 0 };
  let firstError: unknown;
  const over = new AbortController();
  setMaxListeners(0, over.signal);
  // Not every call takes a signal.
  const left = new Promise<never>((_, reject) => {
    over.signal.addEventListener('abort', () => {
      reject(new Error('the time is over'));
    });
  });
  left.catch(() => undefined);
  const endMs = performance.now() + durationMs;

  const work = async (callers: readonly Caller[], index: number): Promise<void> => {
    const random = seededRandom(index + 1);
    for (let i = index; performance.now() < endMs; i++) {
      const { items, answers } = callers[i % callers.length]!(random, over.signal);
      counts.asked += items;
      try {
        const count = await Promise.race([answers, left]);
        counts.done += count;
      } catch (error) {
        counts[over.signal.aborted ? 'unfinished' : 'lost'] += items;
        if (!over.signal.aborted) firstError ??= error;
      }
    }
  };
  const workers = Object.values(callersOf(baseUrl, limiter)).flatMap((callers, sdk) =>
    Array.from({ length: concurrency }, (_, worker) => work(callers, sdk * concurrency + worker)),
  );
  const all = Promise.all(workers);
  await Promise.race([all, new Promise((done) => setTimeout(done, durationMs))]);
  onEnd();
  if (end === 'abort') over.abort();
  await all;
  return { ...counts, error: firstError };
}

import { Embeddings } from '@langchain/core/embeddings';
import { firstValueFrom, forkJoin, lastValueFrom } from 'rxjs';
import type { Batcher, Handle, Limiter, LoadOptions, Settled } from '../../operators/index.js';
import { createBatcher } from '../../operators/index.js';
import { untilClosed } from '../pipelines/connection.js';
import { checkText, checkTextList, checkTexts, settleTexts } from '../pipelines/text-check.js';
import { VectorCheck } from '../pipelines/vector-check.js';
import type { LimitEmbeddingsOptions } from './langchain/embeddings-options.js';
import { NAME, partsOf } from './langchain/embeddings-options.js';
import type { InnerEmbeddings } from './langchain/inner-embeddings.js';

export type { LimitEmbeddingsOptions } from './langchain/embeddings-options.js';

/**
 * Numbers of one moment.
 * @stable
 */
export interface LimitedEmbeddingsSnapshot {
  /** Texts that were accepted and are not on their way. */
  readonly queued: number;
  /** Calls under way. */
  readonly executing: number;
}

/**
 * LangChain embeddings whose calls are shared by all their users: a vector store that indexes, an agent that asks. Documents under way at the same
 * time travel in one batch, limited by count, tokens and a limiter.
 *
 * - **Settles** every text once, with its vector or with an error that is its own: a text that the provider refuses is found by dividing its
 *   batch, and only its caller gets the error. Equal texts under way are sent once.
 * - **Sends** `embedQuery` from the first, most urgent lane, `embedDocuments` from the last one.
 * - **Errors when** the provider refuses the text, with LangChain's own error object; when its signal aborts, with the signal's reason; when its
 *   answer is not a vector (`BatchShapeError`); when the queue is full (`OverflowError`); when a deadline passes (`DeadlineError`); and after
 *   `drain` and `close` (`ClosedError`).
 * - **Holds at most** `maxQueued` texts that wait.
 * - **On abort** a waiting text leaves. A call is cancelled when all its texts have left; its connection is closed when `embeddings` is a function
 *   that was given the `fetch`. LangChain's own interface has no signal to pass on.
 *
 * Some models make another vector of a question than of a document with the same words, so questions go through `embedQuery`, one to a request.
 * Where that makes no difference (OpenAI's), `queries: 'together'` lets them travel with the documents.
 *
 * @stable
 * @param embeddings - What makes the vectors, or a function that makes it around a `fetch`: then the server hears when a call is cancelled, and the limiter learns
 *   what each call has cost. Its own retries and its own limit of calls at a time are turned off.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { FakeEmbeddings } from '@langchain/core/utils/testing';
 * import { limitEmbeddings } from 'sluice/langchain';
 *
 * const embeddings = limitEmbeddings(new FakeEmbeddings(), { maxSize: 100 });
 * const [question, documents] = await Promise.all([embeddings.embedQuery('why?'), embeddings.embedDocuments(['because', 'so'])]);
 * question; // => [0.1, 0.2, 0.3, 0.4]
 * documents.length; // => 2
 * ```
 */
export function limitEmbeddings(embeddings: InnerEmbeddings, options: LimitEmbeddingsOptions = {}): LimitedEmbeddings {
  return new FlowEmbeddings(embeddings, options);
}

/**
 * LangChain embeddings that {@link limitEmbeddings} has made.
 * @stable
 */
export interface LimitedEmbeddings extends Embeddings, Handle {
  /**
   * The vectors of all texts, in their order. Rejects with the first error of one of them; what the others still wait for is then left.
   *
   * @throws FlowConfigError for an unknown option and for a text that is not a string, `LaneUnknownError` for an unknown lane
   */
  embedDocuments(texts: string[], options?: LoadOptions): Promise<number[][]>;
  /** The vector of one text, from the most urgent lane unless `options` says another. */
  embedQuery(text: string, options?: LoadOptions): Promise<number[]>;
  /** The result of each text, in their order: a vector, or the error that is its own. Never rejects for a text. */
  embedSettled(texts: readonly string[], options?: LoadOptions): Promise<Settled<string, number[]>[]>;
  /** Sends the waiting texts as soon as permits allow, whatever the window. */
  flush(): void;
  snapshot(): LimitedEmbeddingsSnapshot;
}

type DrainOptions = Parameters<Handle['drain']>[0];
type Drained = Awaited<ReturnType<Handle['drain']>>;

class FlowEmbeddings extends Embeddings implements LimitedEmbeddings {
  readonly #documents: Batcher<string, number[]>;
  readonly #queries: Batcher<string, number[]>;
  /** The two, or the one that is both. */
  readonly #batchers: ReadonlySet<Batcher<string, number[]>>;
  readonly #check: () => void;
  readonly #placed: (how?: LoadOptions) => LoadOptions;
  readonly #urgentLane: string;
  readonly #ownLimiter: Limiter | undefined;
  #drained: Promise<Drained> | undefined;

  constructor(embeddings: InnerEmbeddings, options: LimitEmbeddingsOptions) {
    super({});
    const { inner, batches, ownLimiter, areQueriesAlone, scheduler } = partsOf(embeddings, options);
    this.#urgentLane = batches.options.queue.lanes[0]?.name as string;
    this.#check = batches.check;
    this.#placed = batches.placed;
    this.#ownLimiter = ownLimiter;
    const vectors = new VectorCheck(NAME);
    const looked = (answer: number[][]) => (Array.isArray(answer) ? vectors.checked(answer) : answer) as readonly (number[] | Error)[];
    const documents = batches.charged(async (texts, context) =>
      looked(await untilClosed(inner.of(context).embedDocuments([...texts]), context, scheduler)),
    );
    const question = batches.charged(async ([text], context) =>
      looked([await untilClosed(inner.of(context).embedQuery(text as string), context, scheduler)]),
    );
    this.#documents = createBatcher<string, number[]>(documents, batches.options);
    this.#queries = areQueriesAlone ? createBatcher<string, number[]>(question, { ...batches.options, maxSize: 1 }) : this.#documents;
    this.#batchers = new Set([this.#documents, this.#queries]);
  }

  async embedDocuments(texts: string[], options?: LoadOptions): Promise<number[][]> {
    checkTexts(NAME, 'texts', texts);
    this.#check();
    const how = this.#placed(options);
    return firstValueFrom(forkJoin(texts.map((text) => this.#documents.load(text, how))), { defaultValue: [] });
  }

  async embedQuery(text: string, options?: LoadOptions): Promise<number[]> {
    checkText(NAME, 'text', text);
    this.#check();
    return lastValueFrom(this.#queries.load(text, { lane: this.#urgentLane, ...this.#placed(options) }));
  }

  async embedSettled(texts: readonly string[], options?: LoadOptions): Promise<Settled<string, number[]>[]> {
    checkTextList(NAME, 'texts', texts);
    this.#check();
    return settleTexts(NAME, 'texts', this.#documents, texts, this.#placed(options));
  }

  flush(): void {
    for (const batcher of this.#batchers) batcher.flush();
  }

  snapshot(): LimitedEmbeddingsSnapshot {
    const all = [...this.#batchers].map((batcher) => batcher.snapshot());
    return { queued: sum(all.map(({ queued }) => queued)), executing: sum(all.map(({ executing }) => executing)) };
  }

  drain(options?: DrainOptions): Promise<Drained> {
    const ends = Promise.all([...this.#batchers].map((batcher) => batcher.drain(options)));
    this.#drained ??= ends.then((all) => {
      this.#ownLimiter?.close();
      return {
        done: sum(all.map(({ done }) => done)),
        aborted: sum(all.map(({ aborted }) => aborted)),
        dropped: sum(all.map(({ dropped }) => dropped)),
      };
    });
    return this.#drained;
  }

  close(): void {
    for (const batcher of this.#batchers) batcher.close();
    this.#ownLimiter?.close();
  }

  shutdownOn(signal: AbortSignal, options?: DrainOptions): this {
    for (const batcher of this.#batchers) batcher.shutdownOn(signal, options);
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.drain();
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((a, b) => a + b, 0);
}

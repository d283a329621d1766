import type { Observable } from 'rxjs';
import { lastValueFrom, noop, of, throwError } from 'rxjs';
import { check } from '../../operators/build.js';
import type { Batcher, FlowEvent, Handle, LoadOptions, PullSource, Settled } from '../../operators/index.js';
import { createBatcher, FlowConfigError, loadFrom } from '../../operators/index.js';
import type { FlowTotals } from '../metrics/flow-stats.js';
import { FlowStats } from '../metrics/flow-stats.js';
import { EMBEDDER_DEFAULTS } from './defaults.js';
import type { EmbedderOptions } from './embedder-options.js';
import { clientOf, embedderWork, NAME } from './embedder-options.js';
import { EventChannel } from './event-channel.js';
import type { TextBatches } from './text-batches.js';
import { textBatches } from './text-batches.js';

export { EMBEDDER_DEFAULTS } from './defaults.js';
export type { EmbedCall, EmbedClient, EmbedderOptions } from './embedder-options.js';
export type { EmbedderRules } from './text-batches.js';

/**
 * How an item is to travel.
 * @beta
 */
export type EmbedOptions = LoadOptions;

/**
 * Numbers of one moment, and totals since the start.
 * @beta
 */
export interface EmbedderSnapshot extends FlowTotals {
  /** Accepted and not on their way. */
  readonly queued: number;
  /** Of those: waiting for requests or tokens per minute, or for a pause the provider asked for. */
  readonly heldByRate: number;
  /** Of those: waiting for a slot. */
  readonly heldBySlot: number;
  /** Calls under way. */
  readonly executing: number;
}

/** @beta */
export interface Embedder extends Handle {
  /** One text, one vector. Sent on subscription; unsubscribing leaves. */
  embed(text: string, options?: EmbedOptions): Observable<Float32Array>;
  embedAsync(text: string, options?: EmbedOptions): Promise<Float32Array>;
  /** Many texts, read only as fast as they are embedded; results as they come, `index` being the text's position. */
  embedFrom(texts: PullSource<string>, options?: EmbedOptions): Observable<Settled<string, Float32Array>>;
  /** Sends what waits as soon as permits allow, whatever the window. */
  flush(): void;
  snapshot(): EmbedderSnapshot;
  /** The same events as `onEvent`. Completes when the embedder has drained or was closed. */
  readonly events: Observable<FlowEvent>;
}

/**
 * Texts in, vectors out, over any client or an OpenAI-compatible `/embeddings`: batches held to count and tokens, lanes `user` (a person waits),
 * `normal` and `background`, equal texts under way sent once, a refused text isolated from its batch. It is {@link createBatcher} with the work of an API;
 * rates, budget and records are those of its `limiter`.
 *
 * - **Settles** every accepted text once, with its vector or with the error that is its own.
 * - **Holds at most** `maxQueued` texts; `embedFrom` reads no further ahead than a few batches.
 * - **Errors when** a text is empty (`FLOW_CONFIG_INVALID`), too long (`FLOW_ITEM_TOO_HEAVY`), refused by the provider
 *   (the error of the client, as the same object; that of `embeddings` is a `ProviderError` with `status`, `code` and `param`), when the answer has another number of
 *   vectors (`FLOW_BATCH_SHAPE`), or the embedder is closed (`FLOW_CLOSED`).
 * - **Completes when**, for `embedFrom`, its input has ended and every text has settled. Once the embedder takes nothing new, the next text
 *   is refused and no more are read.
 * - **On unsubscribe** a waiting text leaves; a call is aborted when all its texts have left.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is out of range.
 * @example
 * ```ts
 * import { createAccount, createEmbedder, embeddings } from 'sluice';
 *
 * const answer = { data: [{ index: 0, embedding: [0.6, 0.8] }], usage: { total_tokens: 2 } };
 * const call = embeddings({ baseUrl: 'http://127.0.0.1:9/v1', model: 'm', fetch: async () => Response.json(answer) });
 * const embedder = createEmbedder({ call, limiter: createAccount({ requestsPerMinute: 3000, tokensPerMinute: 1_000_000 }) });
 * const vector = await embedder.embedAsync('hello', { lane: 'user' });
 * vector.length; // => 2
 * ```
 * @example A client of your own.
 * ```ts
 * import { createEmbedder } from 'sluice';
 *
 * const embedder = createEmbedder({ call: async (texts) => texts.map((text) => [text.length, 1]) });
 * [...(await embedder.embedAsync('hello'))]; // => [5, 1]
 * ```
 */
export function createEmbedder(options: EmbedderOptions): Embedder {
  return new BatchingEmbedder(options);
}

type DrainOptions = Parameters<Handle['drain']>[0];

class BatchingEmbedder implements Embedder {
  readonly events: Observable<FlowEvent>;
  readonly #batcher: Batcher<string, Float32Array>;
  readonly #stats: FlowStats;
  readonly #batches: TextBatches;

  constructor(options: EmbedderOptions) {
    const client = clientOf(options);
    const channel = new EventChannel(check.listener(NAME, 'onEvent', options.onEvent));
    const onEvent = (event: FlowEvent): void => {
      this.#stats.add(event);
      channel.tell(event);
    };
    const batches = textBatches(NAME, { ...options, onEvent }, EMBEDDER_DEFAULTS, client);
    this.#batches = batches;
    this.#stats = new FlowStats(batches.options.maxSize);
    this.events = channel.events;
    this.#batcher = createBatcher<string, Float32Array>(batches.charged(embedderWork(client, options)), batches.options);
  }

  embed(text: string, options?: EmbedOptions): Observable<Float32Array> {
    return isText(text) ? this.#batcher.load(text, this.#batches.placed(options)) : throwError(() => notText(text));
  }

  embedAsync(text: string, options?: EmbedOptions): Promise<Float32Array> {
    // Not `loadAsync`, which waits for room: more texts than `maxQueued` overflow, however they are asked for.
    const vector = lastValueFrom(this.embed(text, options));
    vector.catch(noop);
    return vector;
  }

  embedFrom(texts: PullSource<string>, options?: EmbedOptions): Observable<Settled<string, Float32Array>> {
    const { concurrency, placed } = this.#batches;
    const { maxSize, maxQueued, maxWeight, weigh } = this.#batches.options;
    const loadSettled: Batcher<string, Float32Array>['loadSettled'] = (text, how) => {
      const settled = this.#batcher.loadSettled(text, how);
      if (isText(text)) return settled;
      return of({ status: 'rejected', reason: notText(text), input: text, index: -1, id: '', attempts: 0 });
    };
    return loadFrom({ loadSettled }, texts, {
      ...placed(options),
      concurrency: Math.min(maxQueued, 2 * maxSize * concurrency),
      maxWeight: 2 * maxWeight * concurrency,
      weigh,
      operator: `${NAME}.embedFrom`,
    });
  }

  snapshot(): EmbedderSnapshot {
    const { queued, executing, heldBy } = this.#batcher.snapshot();
    return {
      queued,
      heldByRate: heldBy === 'rate' ? queued : 0,
      heldBySlot: heldBy === 'slot' ? queued : 0,
      executing,
      ...this.#stats.totals(),
    };
  }

  flush(): void {
    this.#batcher.flush();
  }

  drain(options?: DrainOptions): ReturnType<Handle['drain']> {
    return this.#batcher.drain(options);
  }

  close(): void {
    this.#batcher.close();
  }

  shutdownOn(signal: AbortSignal, options?: DrainOptions): this {
    this.#batcher.shutdownOn(signal, options);
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.drain();
  }
}

function isText(text: unknown): text is string {
  return typeof text === 'string' && text !== '';
}

function notText(text: unknown): FlowConfigError {
  return new FlowConfigError(NAME, 'text', 'a non-empty string', text);
}

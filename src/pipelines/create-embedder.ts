import { Observable, Subscription } from 'rxjs';
import type { Batcher, LoadOptions } from '../../operators/create-batcher.js';
import { FlowBatcher } from '../../operators/create-batcher.js';
import { FlowConfigError, isFlowError } from '../../operators/errors.js';
import { checkPullSource, listener, openPull } from '../../operators/toolkit.js';
import type { Drained, DrainOptions, FlowEvent, Handle, PullSource, Settled } from '../../operators/types.js';
import { providerAt } from '../account/providers.js';
import type { FlowTotals } from '../metrics/flow-stats.js';
import { FlowStats } from '../metrics/flow-stats.js';
import { budgetOption } from './budget/budget-options.js';
import type { ClientEmbedderOptions, EmbedderOptions } from './embedder-options.js';
import { EMBEDDER_DEFAULTS, NAME } from './embedder-options.js';
import { embedderWork } from './embedder-work.js';
import { EventChannel } from './event-channel.js';
import { textBatches } from './text-batches.js';

export type { ClientEmbedderOptions, EmbedCall, EmbedderOptions, EmbedderSpend } from './embedder-options.js';
export { EMBEDDER_DEFAULTS } from './embedder-options.js';
export type { EmbedderRules } from './text-batches.js';

/** How an item is to travel. */
export type EmbedOptions = LoadOptions;

/** Numbers of one moment, and totals since the start. */
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

export interface Embedder extends Handle {
  /** One text, one vector. Sent on subscription; unsubscribing leaves. */
  embed(text: string, options?: EmbedOptions): Observable<Float32Array>;
  embedAsync(text: string, options?: EmbedOptions): Promise<Float32Array>;
  /** Many texts, read only as fast as they are embedded; results as they come, `index` being the text's position. */
  embedFrom(texts: PullSource<string>, options?: EmbedOptions): Observable<Settled<string, Float32Array>>;
  /** Sends what waits as soon as permits allow, whatever the window. */
  flush(): void;
  snapshot(): EmbedderSnapshot;
  /** Everything that is told through `onEvent`, too. Completes when the embedder has drained or was closed. */
  readonly events: Observable<FlowEvent>;
}

/**
 * Texts in, vectors out, over any client or an OpenAI-compatible `/embeddings`: batches held to count and tokens, one limiter, lanes `user`
 * (a person waits), `normal` and `background`, equal texts under way sent once, a refused text isolated from its batch.
 *
 * - **Settles** every accepted text once, with its vector or with the error that is its own.
 * - **Holds at most** `maxQueued` texts; `embedFrom` reads no further ahead than a few batches.
 * - **Errors when** a text is empty (`FLOW_CONFIG_INVALID`), too long (`FLOW_ITEM_TOO_HEAVY`), refused by the provider
 *   (`ProviderError`, with `status`, `code` and `param`, or the error of the client, as the same object), when the answer has another number of
 *   vectors (`FLOW_BATCH_SHAPE`), or the embedder is closed (`FLOW_CLOSED`).
 * - **Completes when**, for `embedFrom`, its input has ended and every text has settled. Once the embedder takes nothing new, the next text
 *   is refused and no more are read.
 * - **On unsubscribe** a waiting text leaves; a call is aborted when all its texts have left.
 *
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is out of range.
 * @example
 * ```ts
 * import { createEmbedder } from 'sluice';
 *
 * const answer = { data: [{ index: 0, embedding: [0.6, 0.8] }], usage: { total_tokens: 2 } };
 * const embedder = createEmbedder({ baseUrl: 'http://127.0.0.1:9/v1', model: 'm', fetch: async () => Response.json(answer) });
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
export function createEmbedder(options: EmbedderOptions | ClientEmbedderOptions): Embedder {
  return new BatchingEmbedder(options);
}

class BatchingEmbedder implements Embedder {
  readonly events: Observable<FlowEvent>;
  readonly #batcher: Batcher<string, Float32Array>;
  readonly #stats: FlowStats;
  readonly #ahead: number;
  readonly #tokensAhead: number;
  readonly #weigh: (text: string) => number;
  readonly #placed: (options?: EmbedOptions) => EmbedOptions;

  constructor(options: EmbedderOptions | ClientEmbedderOptions) {
    const work = embedderWork(options);
    const channel = new EventChannel(listener(NAME, 'onEvent', options.onEvent));
    const onEvent = (event: FlowEvent): void => {
      this.#stats.add(event);
      channel.tell(event);
      // The batcher is over, and with it everything else.
      if (event.type === 'drained') batches.ownLimiter?.close();
    };
    const batches = textBatches(NAME, { ...options, onEvent }, EMBEDDER_DEFAULTS, {
      model: options.model,
      budget: budgetOption(NAME, 'budget', options.budget),
      provider: options.baseUrl === undefined ? undefined : providerAt(options.baseUrl),
    });
    const { maxSize, maxQueued, limiter, maxWeight, weigh } = batches.options;
    const slots = limiter.concurrency === Infinity ? EMBEDDER_DEFAULTS.concurrency : limiter.concurrency;
    this.#ahead = Math.min(maxQueued, 2 * maxSize * slots);
    this.#tokensAhead = 2 * maxWeight * slots;
    this.#weigh = weigh;
    this.#placed = batches.placed;
    this.#stats = new FlowStats(maxSize);
    this.events = channel.events;
    this.#batcher = new FlowBatcher<string, Float32Array>(batches.charged(work), batches.options, NAME, {
      waits: false,
      model: options.model,
    });
  }

  embed(text: string, options?: EmbedOptions): Observable<Float32Array> {
    return isText(text)
      ? this.#batcher.load(text, this.#placed(options))
      : new Observable((subscriber) => {
          subscriber.error(notText(text));
        });
  }

  embedAsync(text: string, options?: EmbedOptions): Promise<Float32Array> {
    if (isText(text)) return this.#batcher.loadAsync(text, this.#placed(options));
    const refused = Promise.reject<Float32Array>(notText(text));
    // As all other rejections here: one that nobody listens to kills nobody.
    refused.catch(() => undefined);
    return refused;
  }

  embedFrom(texts: PullSource<string>, options?: EmbedOptions): Observable<Settled<string, Float32Array>> {
    checkPullSource(`${NAME}.embedFrom`, texts);
    const how = this.#placed(options);
    // Cold, so this only looks at the options: what is wrong with them is no matter of the first text.
    void this.#batcher.loadSettled('', how);
    return new Observable((subscriber) => {
      let index = 0;
      let open = 0;
      let openTokens = 0;
      let ended = false;
      // Not children of the subscriber: it would look through all of them each time one ends.
      const waiting = new Set<Subscription>();
      const settled = (result: Settled<string, Float32Array>): void => {
        open--;
        // Whatever else is read would be refused as well.
        if (result.status === 'rejected' && isFlowError(result.reason, 'FLOW_CLOSED')) {
          ended = true;
          pull.close();
        }
        subscriber.next(result);
        if (ended && open === 0) subscriber.complete();
        else pull.resume();
      };
      const pull = openPull(texts, {
        room: () => open < this.#ahead && (openTokens < this.#tokensAhead || open === 0) && !subscriber.closed,
        next: (text) => {
          const position = index++;
          open++;
          if (!isText(text)) {
            settled({ status: 'rejected', reason: notText(text), input: text, index: position, id: String(position), attempts: 0 });
            return;
          }
          const tokens = this.#tokensOf(text);
          openTokens += tokens;
          const one = new Subscription();
          waiting.add(one);
          one.add(
            this.#batcher.loadSettled(text, how).subscribe({
              next: (result) => {
                waiting.delete(one);
                openTokens -= tokens;
                settled({ ...result, index: position, id: String(position) });
              },
              error: (error: unknown) => {
                subscriber.error(error);
              },
            }),
          );
        },
        done: () => {
          ended = true;
          if (open === 0) subscriber.complete();
        },
        failed: (error) => {
          subscriber.error(error);
        },
      });
      subscriber.add(() => {
        pull.close();
        for (const one of waiting) one.unsubscribe();
      });
      pull.resume();
    });
  }

  /** For reading ahead; what is wrong with a text or its count is told when it is accepted. */
  #tokensOf(text: string): number {
    try {
      const tokens = this.#weigh(text);
      return Number.isFinite(tokens) && tokens > 0 ? tokens : 0;
    } catch {
      return 0;
    }
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

  drain(options?: DrainOptions): Promise<Drained> {
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

import { onAbort } from '../../../operators/build.js';
import type { RelayedSignal } from '../support/relayed-signal.js';
import { relayedSignal } from '../support/relayed-signal.js';

/** One answer that is being streamed, until it ends or a newer one takes its place. */
export class Run {
  readonly #own = new AbortController();
  readonly #onEnd: () => void;
  readonly #theirs: RelayedSignal | undefined;
  #next: Run | undefined;
  readonly #begun: Promise<void>;
  #tellBegun: () => void = () => undefined;

  constructor(theirs: AbortSignal | undefined, onEnd: () => void) {
    this.#onEnd = onEnd;
    this.#theirs = theirs && relayedSignal(theirs);
    onAbort(this.#theirs?.signal, () => {
      this.#own.abort(this.#theirs?.signal.reason);
    });
    this.#begun = new Promise((resolve) => {
      this.#tellBegun = resolve;
    });
  }

  /** Aborts when it is stopped, left, or superseded. */
  get signal(): AbortSignal {
    return this.#own.signal;
  }

  /** Its answer ends with an `AbortError` once the next one has begun: whoever shows both has no moment without one. */
  supersede(next: Run): void {
    this.#next = next;
    this.abort();
  }

  abort(): void {
    this.#own.abort();
  }

  /** The stream of the answer, when it is here. Rejects with the reason of the signal, also when `open` does not listen to that. */
  async opened<S extends ReadableStream<unknown> | null>(open: (signal: AbortSignal) => Promise<S>): Promise<S> {
    try {
      const stream = await new Promise<S>((resolve, reject) => {
        onAbort(this.signal, () => {
          reject(this.signal.reason as Error);
        });
        open(this.signal).then((opened) => {
          if (this.signal.aborted) opened?.cancel(this.signal.reason).catch(() => undefined);
          resolve(opened);
        }, reject);
      });
      if (stream === null) this.#end();
      return stream;
    } catch (error) {
      throw await this.#ended(error);
    }
  }

  /** The same stream, which ends when the run does, whether or not its own source does. */
  carried<T>(stream: ReadableStream<T>): ReadableStream<T> {
    const reader = stream.getReader();
    return new ReadableStream<T>(
      {
        start: (controller) => {
          onAbort(this.signal, () => {
            reader.cancel(this.signal.reason).catch(() => undefined);
            void this.#ended(this.signal.reason).then((error) => {
              controller.error(error);
            });
          });
        },
        pull: async (controller) => {
          const { done, value } = await reader.read().catch(async (error: unknown) => {
            throw await this.#ended(error);
          });
          if (this.signal.aborted) {
            await this.#ended(this.signal.reason);
          } else if (done) {
            this.#end();
            controller.close();
          } else {
            this.#tellBegun();
            controller.enqueue(value);
          }
        },
        cancel: (reason) => {
          this.#end();
          this.abort();
          return reader.cancel(reason);
        },
      },
      { highWaterMark: 0 },
    );
  }

  /** Why it has ended, when that may be told. */
  async #ended(error: unknown): Promise<unknown> {
    if (this.#next !== undefined) await this.#next.#begun;
    this.#end();
    return this.signal.aborted ? this.signal.reason : error;
  }

  #end(): void {
    this.#tellBegun();
    this.#theirs?.stop();
    this.#onEnd();
  }
}

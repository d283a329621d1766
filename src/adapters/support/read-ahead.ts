import type { Over } from './held-call.js';
import { whenCollected } from './when-collected.js';

/** How far a stream is read ahead of its reader, and what is looked at on the way. */
export interface AheadRules<C> {
  /** Most that is kept unread, as `sizeOf` counts; nothing more is read then. */
  readonly most: number;
  readonly sizeOf: (chunk: C) => number;
  /** Sees each chunk as it comes. */
  look(chunk: C): void;
  /** Whether everything that matters has been seen, though the stream continues. */
  isWhole?(): boolean;
}

type Controller<C> = Pick<ReadableStreamDefaultController<C>, 'enqueue' | 'close' | 'error'>;

/**
 * The same stream, read ahead of its reader, so that its end is noticed when it comes and not when it is read. The result is not referenced from
 * here while no reader waits for a chunk: a dropped stream can be collected, and its call is then cancelled.
 */
export function readAhead<C>(stream: ReadableStream<C>, over: Over, rules: AheadRules<C>): ReadableStream<C> {
  const ahead = new ReadAhead(stream.getReader(), over, rules);
  const front = new ReadableStream<C>(
    {
      start: (controller) => {
        ahead.start(controller);
      },
      // Neither waits: a promise here would hold the stream.
      pull: (controller) => {
        ahead.pull(controller);
      },
      cancel: (reason) => ahead.leave(reason),
    },
    { highWaterMark: 0 },
  );
  whenCollected(front, () => {
    ahead.collected();
  });
  return front;
}

class ReadAhead<C> {
  readonly #reader: ReadableStreamDefaultReader<C>;
  readonly #over: Over;
  readonly #rules: AheadRules<C>;
  readonly #kept: C[] = [];
  #size = 0;
  #isReading = false;
  /** Chunks are no longer read, but the end is waited for. */
  #isDraining = false;
  /** Set when nothing more comes. */
  #end: { readonly failure?: { readonly error: unknown } } | undefined;
  /** The controller of a reader that waits for a chunk, and must not be collected meanwhile. */
  #waiting: Controller<C> | undefined;
  #idle: WeakRef<Controller<C>> | undefined;
  readonly #aborted = (): void => {
    this.#fault(this.#over.signal?.reason);
  };

  constructor(reader: ReadableStreamDefaultReader<C>, over: Over, rules: AheadRules<C>) {
    this.#reader = reader;
    this.#over = over;
    this.#rules = rules;
  }

  start(controller: Controller<C>): void {
    this.#idle = new WeakRef(controller);
    this.#over.onFault((error) => {
      if (this.#end === undefined) this.#fault(error);
    });
    this.#read();
  }

  /** Called when a reader waits. */
  pull(controller: Controller<C>): void {
    if (this.#kept.length === 0) {
      this.#waiting = controller;
    } else {
      const chunk = this.#kept.shift() as C;
      this.#size -= this.#rules.sizeOf(chunk);
      controller.enqueue(chunk);
      if (this.#kept.length === 0 && this.#end) this.#tell(controller);
    }
    this.#read();
  }

  leave(reason: unknown): Promise<void> | undefined {
    this.#forget();
    if (this.#end || this.#isDraining) return undefined;
    if (this.#rules.isWhole?.() === true) {
      this.#drain();
      return undefined;
    }
    this.#end = {};
    const cancelled = this.#reader.cancel(reason);
    // Not only when that is done: it may never be.
    this.#over.left();
    return cancelled;
  }

  collected(): void {
    this.#forget();
    if (this.#end || this.#isDraining) return;
    this.#end = {};
    this.#reader.cancel().catch(() => undefined);
    this.#over.abandoned();
  }

  #read(): void {
    if (this.#isReading || this.#end || (this.#size >= this.#rules.most && !this.#isDraining)) return;
    this.#isReading = true;
    this.#reader.read().then(
      ({ done, value }) => {
        this.#isReading = false;
        // The read that was under way when the reader left ends as if the stream had.
        if (this.#end) return;
        if (done) this.#ended();
        else this.#took(value);
      },
      (error: unknown) => {
        this.#failed(error);
      },
    );
  }

  #took(chunk: C): void {
    try {
      this.#rules.look(chunk);
    } catch (error) {
      this.#reader.cancel(error).catch(() => undefined);
      this.#failed(error);
      return;
    }
    if (!this.#isDraining) {
      const waiting = this.#waiting;
      this.#waiting = undefined;
      if (waiting) {
        waiting.enqueue(chunk);
      } else {
        this.#kept.push(chunk);
        this.#size += this.#rules.sizeOf(chunk);
      }
    }
    this.#read();
  }

  #ended(): void {
    this.#end = {};
    if (this.#kept.length > 0) {
      // An abort ends the reading of what is here, as it would without us.
      this.#over.unread(true);
      this.#over.signal?.addEventListener('abort', this.#aborted, { once: true });
    }
    this.#over.ended();
    if (this.#kept.length === 0 && !this.#isDraining) this.#tell(this.#waiting ?? this.#idle?.deref());
  }

  #failed(error: unknown): void {
    if (this.#end) return;
    // Set before `failed` is called: a listener must not discard the chunks that have already arrived.
    this.#end = {};
    if (this.#isDraining) {
      this.#over.ended();
      return;
    }
    this.#end = { failure: { error: this.#over.failed(error) } };
    if (this.#kept.length === 0) this.#tell(this.#waiting ?? this.#idle?.deref());
  }

  /** The stream was ended early, by its reader or its signal. */
  #fault(error: unknown): void {
    if (this.#end === undefined) this.#reader.cancel(error).catch(() => undefined);
    const controller = this.#waiting ?? this.#idle?.deref();
    this.#end = { failure: { error } };
    this.#forget();
    this.#tell(controller);
  }

  #tell(controller: Controller<C> | undefined): void {
    this.#forget();
    const failure = this.#end?.failure;
    if (failure) controller?.error(failure.error);
    else controller?.close();
  }

  #drain(): void {
    this.#isDraining = true;
    this.#over.soon(() => {
      this.#end = {};
      this.#reader.cancel().catch(() => undefined);
    });
    this.#read();
  }

  /** Discards the unread chunks. */
  #forget(): void {
    this.#kept.length = 0;
    this.#size = 0;
    this.#waiting = undefined;
    this.#over.signal?.removeEventListener('abort', this.#aborted);
    this.#over.unread(false);
  }
}

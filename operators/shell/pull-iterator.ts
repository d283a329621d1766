import type { Observable, Subscription } from 'rxjs';
import { Backlog } from '../kernel/queues/line.js';
import { OverflowError } from '../options/errors.js';
import type { FlowSink } from '../options/events.js';
import { listener } from '../options/events.js';
import { DEFAULT_LANE } from '../options/lanes.js';
import { checked, count, oneOf, optional } from '../options/options.js';
import { onAbort, requiredSignal } from './abort.js';
import type { Demand } from './demand.js';
import { readBy } from './demand.js';
import { listen } from './listen.js';

const OVERFLOWS = ['error', 'dropOldest', 'dropNewest', 'latest'] as const;

/** Options of {@link toAsyncIterable}. */
export interface ToAsyncIterableOptions {
  /** Most values waiting to be asked for. @defaultValue 1000 */
  readonly maxQueued?: number;
  /**
   * What happens to one value more: `'error'` leaves the source, and the reader gets an `OverflowError` after the values that wait;
   * `'dropOldest'` and `'dropNewest'` drop one value, `'latest'` all but the newest. @defaultValue 'error'
   */
  readonly overflow?: (typeof OVERFLOWS)[number];
  /** Leaves the source when it aborts; the reader gets its reason as an error. @defaultValue none */
  readonly signal?: AbortSignal;
  /** Told of values that are dropped (`dropped`), and given up by leaving (`cancelled`). @defaultValue none */
  readonly onEvent?: FlowSink;
}

/** Options of {@link toReadableStream}. */
export type ToReadableStreamOptions = ToAsyncIterableOptions;

type PullSettings = ReturnType<typeof readPullOptions>;

/** @throws FlowConfigError */
export function readPullOptions(operator: string, options: ToAsyncIterableOptions) {
  const settings = checked(operator, options, { maxQueued: 1000, overflow: 'error' } as const, {
    maxQueued: count,
    overflow: oneOf(...OVERFLOWS),
    signal: optional(requiredSignal),
    onEvent: listener,
  });
  return { operator, ...settings };
}

interface Waiter<T> {
  resolve(result: IteratorResult<T, undefined>): void;
  reject(error: unknown): void;
}

/**
 * One subscription, read value by value. It starts with the first `next()`. Values nobody has asked for yet wait in a bounded queue,
 * calls of `next()` that find none wait for them in order. An error is told once, to one call; all others learn that it is over.
 */
export class PullIterator<T> implements AsyncIterableIterator<T, undefined>, AsyncDisposable, Demand {
  readonly #source: Observable<T>;
  readonly #settings: PullSettings;
  readonly #queued = new Backlog<T>();
  readonly #waiting = new Backlog<Waiter<T>>();
  #hasStarted = false;
  #isOver = false;
  /** Kept, and not made a rejected promise, until somebody asks: one that nobody reads would be reported as unhandled. */
  #failure: { readonly error: unknown } | undefined;
  #subscription: Subscription | undefined;
  #stopListening: () => void = () => undefined;
  /** Sources that wait for the reader. */
  readonly #pulling = new Set<() => void>();

  constructor(source: Observable<T>, settings: PullSettings) {
    this.#source = source;
    this.#settings = settings;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<T, undefined>> {
    const { signal } = this.#settings;
    // While the source is open a listener sees to it; this is for what it left behind.
    if (signal?.aborted === true && this.#queued.length > 0) this.#leave({ error: signal.reason });
    if (this.#queued.length > 0) {
      const value = this.#queued.shift() as T;
      if (this.#queued.length === 0) for (const pull of this.#pulling) pull();
      return Promise.resolve({ done: false, value });
    }
    return new Promise((resolve, reject) => {
      const waiter = { resolve, reject };
      if (this.#isOver) {
        this.#tellEnd(waiter);
      } else {
        this.#waiting.push(waiter);
        this.#start();
      }
    });
  }

  /** One that can wait is asked for more when all that was there has been read. What is not read any more has nobody to wait for. */
  room(): number {
    if (this.#isOver) return Infinity;
    return this.#queued.length === 0 ? this.#settings.maxQueued : 0;
  }

  onRoom(listener: () => void): () => void {
    this.#pulling.add(listener);
    return () => {
      this.#pulling.delete(listener);
    };
  }

  /** Leaves at once: what waits is dropped, and pending calls of `next()` learn that it is over. */
  return(): Promise<IteratorReturnResult<undefined>> {
    this.#leave(undefined);
    return Promise.resolve({ done: true, value: undefined });
  }

  /** Leaves as {@link return} does, and rejects with the error it is given. */
  throw(error?: unknown): Promise<IteratorReturnResult<undefined>> {
    void this.return();
    // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- what was given is passed on as it is
    return Promise.reject(error);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  #start(): void {
    if (this.#hasStarted) return;
    this.#hasStarted = true;
    const { signal } = this.#settings;
    this.#stopListening = onAbort(signal, () => {
      this.#leave({ error: signal?.reason });
    });
    if (this.#isOver) return;
    readBy(this, () => {
      listen(
        this.#source,
        {
          next: (value) => {
            this.#take(value);
          },
          error: (error: unknown) => {
            this.#end({ error });
          },
          complete: () => {
            this.#end(undefined);
          },
        },
        (subscription) => {
          this.#subscription = subscription;
        },
      );
    });
  }

  #take(value: T): void {
    const waiter = this.#waiting.shift();
    if (waiter !== undefined) {
      waiter.resolve({ done: false, value });
    } else if (this.#queued.length < this.#settings.maxQueued) {
      this.#queued.push(value);
    } else {
      this.#overflow(value);
    }
  }

  /** Events come last: whoever is told may read, or leave. */
  #overflow(value: T): void {
    const { operator, maxQueued, overflow, onEvent } = this.#settings;
    const dropped = overflow === 'latest' ? this.#queued.length : 1;
    if (overflow === 'error') this.#end({ error: new OverflowError(operator, maxQueued, overflow) });
    if (overflow === 'latest') this.#queued.clear();
    if (overflow === 'dropOldest') this.#queued.shift();
    if (overflow === 'dropOldest' || overflow === 'latest') this.#queued.push(value);
    for (let i = 0; i < dropped; i++) onEvent?.({ type: 'dropped', operator, lane: DEFAULT_LANE, policy: overflow });
  }

  /** Ends at once, without what waits. */
  #leave(failure: { readonly error: unknown } | undefined): void {
    const { operator, onEvent } = this.#settings;
    const { length } = this.#queued;
    this.#queued.clear();
    this.#end(failure);
    if (length > 0) onEvent?.({ type: 'cancelled', operator, lane: DEFAULT_LANE, count: length });
  }

  #end(failure: { readonly error: unknown } | undefined): void {
    this.#failure = failure;
    this.#isOver = true;
    this.#subscription?.unsubscribe();
    this.#stopListening();
    // Whoever waits found the queue empty, so nothing is told before the values.
    for (let waiter = this.#waiting.shift(); waiter !== undefined; waiter = this.#waiting.shift()) this.#tellEnd(waiter);
    for (const pull of [...this.#pulling]) pull();
  }

  #tellEnd(waiter: Waiter<T>): void {
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure === undefined) waiter.resolve({ done: true, value: undefined });
    else waiter.reject(failure.error);
  }
}

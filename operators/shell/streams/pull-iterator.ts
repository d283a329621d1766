import type { Observable, Subscription } from 'rxjs';
import { Backlog } from '../../kernel/queues/line.js';
import { boundsOf, pushEvicting, refusal, room } from '../../kernel/waiting/bounds.js';
import { PULLED } from '../../options/defaults.js';
import type { FlowSink } from '../../options/events.js';
import { listener } from '../../options/events.js';
import { DEFAULT_LANE } from '../../options/lanes.js';
import { checked, count, oneOf, optional } from '../../options/options.js';
import { overflowed } from '../../options/waiting-errors.js';
import { onAbort, requiredSignal } from '../calls/abort.js';
import type { Demand } from './demand.js';
import { readBy } from './demand.js';
import { listen } from './listen.js';
import { over, Readers } from './readers.js';

const OVERFLOWS = ['error', 'dropOldest', 'dropNewest', 'latest'] as const;

/**
 * Options of {@link toAsyncIterable}.
 * @stable
 */
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
  /** Listener for dropped values (`dropped`), and for values that are cancelled by leaving (`cancelled`). @defaultValue none */
  readonly onEvent?: FlowSink;
}

/**
 * Options of {@link toReadableStream}.
 * @stable
 */
export type ToReadableStreamOptions = ToAsyncIterableOptions;

type PullSettings = ReturnType<typeof readPullOptions>;

/** @throws FlowConfigError */
export function readPullOptions(operator: string, options: ToAsyncIterableOptions) {
  const settings = checked(operator, options, PULLED, {
    maxQueued: count,
    overflow: oneOf(...OVERFLOWS),
    signal: optional(requiredSignal),
    onEvent: listener,
  });
  return { operator, bounds: boundsOf(settings), signal: settings.signal, onEvent: settings.onEvent };
}

/** Kept until `next()` is called: a rejected promise without a reader would be reported as unhandled. */
type Failure = { readonly error: unknown } | undefined;

/**
 * One subscription, read value by value. It starts with the first `next()`. Values that are not asked for yet wait in a bounded queue; calls of
 * `next()` that find it empty wait in order. An error rejects one call; all others are answered with `done`.
 */
export class PullIterator<T> implements AsyncIterableIterator<T, undefined>, AsyncDisposable, Demand {
  readonly #source: Observable<T>;
  readonly #settings: PullSettings;
  readonly #queued = new Backlog<T>();
  readonly #readers = new Readers<T>();
  #isOver = false;
  #failure: Failure;
  /** Once it has started. */
  #subscription: Subscription | undefined;
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
    // While the source is open a listener sees to it; this is for before that, and for what it left behind.
    if (signal?.aborted && (!this.#isOver || this.#queued.length > 0)) this.#leave({ error: signal.reason });
    if (this.#queued.length > 0) {
      const value = this.#queued.shift() as T;
      if (this.#queued.length === 0) for (const pull of this.#pulling) pull();
      return Promise.resolve({ done: false, value });
    }
    if (this.#isOver) {
      const failure = this.#failure;
      this.#failure = undefined;
      // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- what it failed with is passed on as it is
      return failure ? Promise.reject(failure.error) : over();
    }
    const asked = this.#readers.ask();
    if (!this.#subscription) this.#start();
    return asked;
  }

  /** A source that can wait is asked for more when the queue has been read. An iterator that is over makes its source wait for nothing. */
  room(): number {
    if (this.#isOver) return Infinity;
    return this.#queued.length === 0 ? room(this.#settings.bounds, 0) : 0;
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
    return over();
  }

  /** Leaves as {@link return} does, and rejects with the error it is given. */
  throw(error?: unknown): Promise<IteratorReturnResult<undefined>> {
    this.#leave(undefined);
    // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- what was given is passed on as it is
    return Promise.reject(error);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  #start(): void {
    const { signal } = this.#settings;
    const observer = {
      next: (value: T) => {
        if (!this.#readers.give(value)) this.#hold(value);
      },
      error: (error: unknown) => {
        this.#end({ error });
      },
      complete: () => {
        this.#end(undefined);
      },
    };
    readBy(this, () => {
      listen(this.#source, observer, (subscription) => {
        this.#subscription = subscription;
        subscription.add(
          onAbort(signal, () => {
            this.#leave({ error: signal?.reason });
          }),
        );
      });
    });
  }

  #hold(value: T): void {
    const { operator, bounds, onEvent } = this.#settings;
    const refused = refusal(bounds, this.#queued.length);
    if (refused === undefined) {
      this.#queued.push(value);
      return;
    }
    const { policy } = refused;
    if (policy === 'error') this.#end({ error: overflowed(operator, refused) });
    const dropped = pushEvicting(this.#queued, value, refused);
    // Events come last: a listener may read, or leave.
    for (let { length } = dropped; length > 0; length--) onEvent?.({ type: 'dropped', operator, lane: DEFAULT_LANE, policy });
  }

  /** Ends at once, without what waits. */
  #leave(failure: Failure): void {
    const { operator, onEvent } = this.#settings;
    const { length } = this.#queued;
    this.#queued.clear();
    this.#end(failure);
    if (length > 0) onEvent?.({ type: 'cancelled', operator, lane: DEFAULT_LANE, count: length });
  }

  #end(failure: Failure): void {
    this.#failure = failure;
    this.#isOver = true;
    this.#subscription?.unsubscribe();
    // Waiting readers found the queue empty, so the error does not overtake a value.
    if (this.#failure && this.#readers.fail(this.#failure.error)) this.#failure = undefined;
    this.#readers.end();
    for (const pull of [...this.#pulling]) pull();
  }
}

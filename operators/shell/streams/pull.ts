import { FlowConfigError } from '../../options/errors.js';
import { isPromise } from '../calls/call.js';
import { currentReader, readBy } from './demand.js';

/**
 * What can be read piece by piece, so that nothing is read that there is no room for.
 * @stable
 */
export type PullSource<T> = Iterable<T> | AsyncIterable<T> | ReadableStreamLike<T>;

/** A web stream, by shape. */
export interface ReadableStreamLike<T> {
  /** Says to the compiler what a stream of the DOM yields, and is never called: `getReader` has a form for bytes, which TypeScript 5 takes for all of it. */
  pipeThrough?(transform: { readonly writable: { getWriter(): { write(chunk?: T): unknown } } }): unknown;
  getReader(): {
    read(): Promise<{ readonly done: boolean; readonly value?: T | undefined }>;
    cancel(reason?: unknown): Promise<unknown>;
    releaseLock?(): void;
  };
}

interface PullSink<T> {
  /** Whether another item may be read now. */
  readonly room: () => boolean;
  /**
   * Items read whose results a reader has not been given, where each item has one: then no more is read than the reader, such as a `for await`, has room for.
   */
  readonly unsettled?: () => number;
  readonly next: (item: T) => void;
  readonly done: () => void;
  readonly failed: (error: unknown) => void;
}

/**
 * A read under way.
 * @beta
 */
export interface Pull {
  /** Reads while `room()` says so; does nothing while a read is under way, and after the end. */
  resume(): void;
  /** Stops reading and closes the source, without waiting for it; nothing of the sink is called afterwards. */
  close(reason?: unknown): void;
}

type Step<T> = { readonly done?: boolean | undefined; readonly value?: T | undefined };

/** One that has been opened. */
interface Reader<T> {
  next(): Step<T> | PromiseLike<Step<T>>;
  /** Closes it before its end, without waiting for that. */
  stop(reason?: unknown): void;
  /** Lets go of it at its end. */
  release?(): void;
}

/** @throws FlowConfigError when the input cannot be read piece by piece */
export function checkPullSource(operator: string, option: string, input: unknown): void {
  const readable = isStream(input) || isAsyncIterable(input) || Symbol.iterator in Object(input);
  if (!readable) throw new FlowConfigError(operator, option, 'an Iterable, an AsyncIterable or a ReadableStream', input);
}

/**
 * Reads a list, an async iterable or a web stream one item at a time, only while there is room for its items. Call it while a consumer subscribes, then
 * `resume()`, and again whenever room has become free.
 *
 * - **Reads** nothing before the first `resume`, and never ahead of `room()`: at most one read is under way.
 * - **Calls** `next` for each item, then `done` or `failed` once; none of them after `close`.
 * - **Errors:** what the source throws or rejects with, and what `next` throws, goes to `failed`. An input that cannot be read fails the same way;
 *   refuse it early with `check.pullSource`.
 *
 * @beta
 * @example
 * ```ts
 * import { openPull } from 'sluice/operators/build';
 *
 * const waiting: string[] = [];
 * let isDone = false;
 * const pull = openPull(['a', 'b', 'c'], {
 *   room: () => waiting.length < 2,
 *   next: (item) => waiting.push(item),
 *   done: () => (isDone = true),
 *   failed: (error) => console.error(error),
 * });
 * pull.resume();
 * const first = waiting.splice(0);
 * pull.resume();
 * [first, waiting, isDone]; // => [['a', 'b'], ['c'], true]
 * ```
 */
export function openPull<T>(input: PullSource<T>, sink: PullSink<T>): Pull {
  const demand = sink.unsettled && currentReader();
  const hasRoom = (): boolean => sink.room() && (demand === undefined || (sink.unsettled as () => number)() < demand.room());
  let reader: Reader<T> | undefined;
  let isReading = false;
  let isOver = false;

  const end = (tell: () => void): void => {
    if (isOver) return;
    isOver = true;
    reader?.release?.();
    tell();
  };
  const fail = (error: unknown): void => {
    end(() => {
      sink.failed(error);
    });
  };
  const take = (step: Step<T>): void => {
    if (isOver) return;
    if (Object(step) !== step) throw notAStep();
    if (step.done) end(sink.done);
    else sink.next(step.value as T);
  };
  /** Takes what has come, when that is what reading waited for, and reads on. */
  const read = (...came: Step<T>[]): void => {
    isReading = true;
    try {
      reader ??= readerOf(input);
      came.forEach(take);
      while (!isOver && hasRoom()) {
        const step = reader.next();
        if (isPromise(step)) {
          step.then((value) => {
            read(value);
          }, fail);
          return;
        }
        take(step);
      }
    } catch (error) {
      fail(error);
    }
    isReading = false;
  };

  const resume = (): void => {
    if (isReading || isOver) return;
    // Sources that consumers of the first results subscribe to have other readers.
    readBy(undefined, read);
  };
  const stopListening = demand?.onRoom(resume);

  return {
    resume,
    close: (reason) => {
      stopListening?.();
      if (isOver) return;
      isOver = true;
      reader?.stop(reason);
    },
  };
}

/** Of an iterator that keeps no rules; read on, some have no end. `for…of` refuses them as well. */
function notAStep(): TypeError {
  return new TypeError('`next` of the iterator must return an object');
}

/** Opens what can be read piece by piece. */
export function readerOf<T>(input: PullSource<T>): Reader<T> {
  if (isStream<T>(input)) {
    const reader = input.getReader();
    const release = (): void => {
      quietly(() => reader.releaseLock?.());
    };
    const stop = (reason: unknown): void => {
      quietly(() => reader.cancel(reason));
      release();
    };
    return { next: () => reader.read(), stop, release };
  }
  const iterator = isAsyncIterable<T>(input) ? input[Symbol.asyncIterator]() : input[Symbol.iterator]();
  const stop = (): void => {
    quietly(() => iterator.return?.());
  };
  return { next: () => iterator.next(), stop };
}

/** Runs a clean-up whose failure, now or later, is ignored. */
function quietly(action: () => unknown): void {
  try {
    const answer = action();
    if (isPromise(answer)) answer.then(undefined, () => undefined);
  } catch {
    // The same failure, only sooner.
  }
}

export function isStream<T>(input: unknown): input is ReadableStreamLike<T> {
  return typeof (input as Partial<ReadableStreamLike<T>> | null | undefined)?.getReader === 'function';
}

export function isAsyncIterable<T>(input: unknown): input is AsyncIterable<T> {
  return typeof (input as Partial<AsyncIterable<T>> | null | undefined)?.[Symbol.asyncIterator] === 'function';
}

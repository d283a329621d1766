import { FlowConfigError } from '../options/errors.js';
import { isPromise } from './call.js';

/** What can be read piece by piece, so that nothing is read that there is no room for. */
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
  readonly room: () => boolean;
  readonly next: (item: T) => void;
  readonly done: () => void;
  readonly failed: (error: unknown) => void;
}

/** Reading under way. */
export interface Pull {
  /** Reads on while there is room; does nothing while a read is under way. */
  resume(): void;
  /** Stops reading and tells the source so, without waiting for it. */
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
export function checkPullSource(operator: string, input: unknown): void {
  const readable = isStream(input) || isAsyncIterable(input) || Symbol.iterator in Object(input);
  if (!readable) throw new FlowConfigError(operator, 'input', 'an Iterable, an AsyncIterable or a ReadableStream', input);
}

/** Reads the source into the sink, one item at a time, in a flat loop. The source is opened by the first `resume`. */
export function openPull<T>(input: PullSource<T>, sink: PullSink<T>): Pull {
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
      while (!isOver && sink.room()) {
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

  return {
    resume: () => {
      if (!isReading && !isOver) read();
    },
    close: (reason) => {
      if (isOver) return;
      isOver = true;
      reader?.stop(reason);
    },
  };
}

/** Of an iterator that keeps no rules; read on, some have no end. `for…of` refuses them as well. */
function notAStep(): TypeError {
  return new TypeError('`next` of the iterator answered what is no object');
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

/** Runs what nobody waits for any more: how it fails, now or later, is of no interest. */
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

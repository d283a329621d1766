import { FlowConfigError } from '../options/errors.js';

/** What can be read piece by piece, so that nothing is read that there is no room for. */
export type PullSource<T> = Iterable<T> | AsyncIterable<T> | ReadableStreamLike<T>;

/** A web stream, by shape. */
export interface ReadableStreamLike<T> {
  getReader(): { read(): Promise<{ readonly done: boolean; readonly value?: T | undefined }>; cancel(): Promise<unknown> };
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
  close(): void;
}

type Step<T> = { readonly done?: boolean | undefined; readonly value?: T | undefined };

interface Reader<T> {
  readonly next: () => Step<T> | PromiseLike<Step<T>>;
  readonly stop: () => unknown;
}

/** @throws FlowConfigError when the input cannot be read piece by piece */
export function checkPullSource(operator: string, input: unknown): void {
  const readable =
    input !== null && input !== undefined && (isStream(input) || Symbol.asyncIterator in Object(input) || Symbol.iterator in Object(input));
  if (!readable) throw new FlowConfigError(operator, 'input', 'an Iterable, an AsyncIterable or a ReadableStream', input);
}

/** Reads the source into the sink, one item at a time, in a flat loop. The source is opened by the first `resume`. */
export function openPull<T>(input: PullSource<T>, sink: PullSink<T>): Pull {
  let reader: Reader<T> | undefined;
  let reading = false;
  let over = false;

  const end = (tell: () => void): void => {
    over = true;
    tell();
  };
  const take = (step: Step<T>): void => {
    if (over) return;
    if (step.done) end(sink.done);
    else sink.next(step.value as T);
  };
  const fail = (error: unknown): void => {
    if (!over)
      end(() => {
        sink.failed(error);
      });
  };

  const resume = (): void => {
    if (reading || over) return;
    reading = true;
    try {
      reader ??= open(input);
      while (!isOver() && sink.room()) {
        const step = reader.next();
        if (isPromise(step)) {
          step.then(
            (value) => {
              reading = false;
              take(value);
              resume();
            },
            (error: unknown) => {
              reading = false;
              fail(error);
            },
          );
          return;
        }
        take(step);
      }
    } catch (error) {
      fail(error);
    }
    reading = false;
  };
  // Narrowing does not see that `take` may end it.
  const isOver = (): boolean => over;

  return {
    resume,
    close: () => {
      if (over) return;
      over = true;
      if (reader) ignoreFailure(reader.stop);
    },
  };
}

function open<T>(input: PullSource<T>): Reader<T> {
  if (isStream<T>(input)) {
    const reader = input.getReader();
    return { next: () => reader.read(), stop: () => reader.cancel() };
  }
  if (Symbol.asyncIterator in Object(input)) {
    const iterator = (input as AsyncIterable<T>)[Symbol.asyncIterator]();
    return { next: () => iterator.next(), stop: () => iterator.return?.() };
  }
  const iterator = (input as Iterable<T>)[Symbol.iterator]();
  return { next: () => iterator.next(), stop: () => iterator.return?.() };
}

/** The source was told to stop; how it takes that is its own affair. */
function ignoreFailure(stop: () => unknown): void {
  try {
    const stopped = stop();
    if (isPromise(stopped)) stopped.then(undefined, () => undefined);
  } catch {
    // as above
  }
}

function isStream<T>(input: unknown): input is ReadableStreamLike<T> {
  return typeof (input as Partial<ReadableStreamLike<T>> | null)?.getReader === 'function';
}

function isPromise<V>(value: V | PromiseLike<V>): value is PromiseLike<V> {
  return typeof (value as PromiseLike<V> | null)?.then === 'function';
}

import type { MonoTypeOperatorFunction, Observer } from 'rxjs';
import { Subject } from 'rxjs';

interface Waiter<T> {
  readonly resolve: (step: IteratorResult<T, undefined>) => void;
  readonly reject: (error: unknown) => void;
}

type Step<T> = { readonly done?: boolean | undefined; readonly value?: T | undefined };

export interface Drawn<T> extends AsyncIterableIterator<T, undefined> {
  next(): Promise<IteratorResult<T, undefined>>;
  /** @param reason - why, for a stream */
  return(reason?: unknown): Promise<IteratorReturnResult<undefined>>;
  /** Leaves the source, and errors behind what waits. */
  fail(error: unknown): void;
}

/**
 * Draws the items of a source through an operator: the source is read only while a reader waits for a result. Items that the operator emits before
 * an error come before that error. `return` leaves the source at once, and waits for nothing.
 */
export function drawn<T>(source: ReadableStream<T> | AsyncIterable<T>, operator: MonoTypeOperatorFunction<T>): Drawn<T> {
  const items = new Subject<T>();
  const input: Observer<T> = items;
  const out: T[] = [];
  let waiting: Waiter<T>[] = [];
  let failure: { readonly error: unknown } | undefined;
  let isOver = false;

  const end = (): void => {
    isOver = true;
    const left = waiting;
    waiting = [];
    for (const { resolve, reject } of left) {
      if (failure === undefined) {
        resolve({ done: true, value: undefined });
      } else {
        reject(failure.error);
        failure = undefined;
      }
    }
  };
  const subscription = items.pipe(operator).subscribe({
    next: (item) => {
      const first = waiting.shift();
      if (first === undefined) out.push(item);
      else first.resolve({ done: false, value: item });
    },
    error: (error: unknown) => {
      failure = { error };
      // Of the operator itself.
      if (!hasEnded) leave(opened, error);
      end();
    },
    complete: end,
  });
  const opened = isStream(source) ? source.getReader() : source[Symbol.asyncIterator]();
  let isReading = false;
  let hasEnded = false;

  const finish = (tell: () => void): void => {
    hasEnded = true;
    tell();
  };
  const read = (): void => {
    if (isReading || isOver || waiting.length === 0) return;
    isReading = true;
    step(opened).then(
      ({ done, value }) => {
        isReading = false;
        if (done !== true) input.next(value as T);
        else
          finish(() => {
            input.complete();
          });
        read();
      },
      (error: unknown) => {
        finish(() => {
          input.error(error);
        });
      },
    );
  };

  return {
    next: () =>
      new Promise((resolve, reject) => {
        const [item] = out;
        if (out.length > 0) {
          out.shift();
          resolve({ done: false, value: item as T });
          return;
        }
        waiting.push({ resolve, reject });
        if (isOver) end();
        else read();
      }),
    return: (reason) => {
      out.length = 0;
      failure = undefined;
      subscription.unsubscribe();
      if (!hasEnded) leave(opened, reason);
      end();
      return Promise.resolve({ done: true, value: undefined });
    },
    fail: (error) => {
      if (hasEnded) return;
      leave(opened, error);
      finish(() => {
        input.error(error);
      });
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

/** The same as a stream. */
export function drawnStream<T>(source: ReadableStream<T>, operator: MonoTypeOperatorFunction<T>): ReadableStream<T> {
  const iterator = drawn(source, operator);
  let isLeft = false;
  return new ReadableStream<T>(
    {
      pull: async (controller) => {
        const step = await iterator.next();
        // A stream that was cancelled takes offence at being closed.
        if (isLeft) return;
        if (step.done === true) controller.close();
        else controller.enqueue(step.value);
      },
      cancel: (reason) => {
        isLeft = true;
        void iterator.return(reason);
      },
    },
    { highWaterMark: 0 },
  );
}

function isStream<T>(source: ReadableStream<T> | AsyncIterable<T>): source is ReadableStream<T> {
  return 'getReader' in source;
}

async function step<T>(opened: ReadableStreamDefaultReader<T> | AsyncIterator<T>): Promise<Step<T>> {
  return 'read' in opened ? opened.read() : (opened.next() as Promise<Step<T>>);
}

/** How it takes that is its own affair. */
function leave<T>(opened: ReadableStreamDefaultReader<T> | AsyncIterator<T>, reason: unknown): void {
  void (async () => ('read' in opened ? opened.cancel(reason) : opened.return?.()))().catch(() => undefined);
}

import type { Observable } from 'rxjs';
import { noop } from 'rxjs';
import { CallbackError } from './options/errors.js';
import { requiredFunction } from './options/options.js';
import { show } from './options/show.js';
import type { ReadableStreamLike } from './shell/streams/pull.js';
import { isAsyncIterable, isStream, openPull, readerOf } from './shell/streams/pull.js';
import { untilLeft } from './shell/streams/until-left.js';

/**
 * What a factory of {@link fromStream} may make.
 * @stable
 */
export type StreamLike<T> = AsyncIterable<T> | ReadableStreamLike<T>;

/**
 * Makes an Observable of a stream that is opened anew for every subscription, and closed at once when the consumer leaves.
 *
 * RxJS's own `from(stream)` asks the stream to end and then waits for its next chunk: a stalled model call stays open, and is
 * paid for, until that chunk comes. Here the signal handed to the factory is aborted first.
 *
 * ```text
 * subscribe   ^-----------------!
 * factory     (signal)----------x   the signal aborts in the moment of leaving
 * stream      ---a---b---- (stalled)
 * result      ---a---b-----------
 * ```
 *
 * - **Emits when** the stream yields a chunk. The next one is asked for after the consumer has taken this one.
 * - **Holds at most** nothing: one chunk is on its way at a time.
 * - **Completes when** the stream ends.
 * - **Errors when** the factory throws or rejects, or the stream fails, with the same error; with `CallbackError` when the factory
 *   makes neither an async iterable nor a `ReadableStream`.
 * - **On unsubscribe** the signal aborts with a `DOMException` named `AbortError`, then the iterator's `return` or the reader's
 *   `cancel` is called, without waiting for it. Nothing is emitted any more, and an error that follows from it is swallowed. A
 *   stream that only arrives afterwards is closed unread.
 *
 * A `ReadableStream` is read through a reader, whose lock is released at the end. A stream cannot be rewound: make it inside the
 * factory, or the second subscription (`retry`, for example) finds it used up.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when `factory` is not a function.
 * @example
 * ```ts
 * import { lastValueFrom, toArray } from 'rxjs';
 * import { fromStream } from 'sluice/operators';
 *
 * async function* words() {
 *   yield 'to';
 *   yield 'be';
 * }
 * await lastValueFrom(fromStream(() => words()).pipe(toArray())); // => ['to', 'be']
 * ```
 * @example The newest question wins, and the calls of the older ones are aborted at once.
 * ```ts no-run
 * questions.pipe(switchMap((question) => fromStream((signal) => client.chat.completions.create(ask(question), { signal }))));
 * ```
 */
export function fromStream<T>(factory: (signal: AbortSignal) => StreamLike<T> | PromiseLike<StreamLike<T>>): Observable<T> {
  requiredFunction('fromStream', 'factory', factory);
  return untilLeft((signal, observer, to) => {
    const open = async (): Promise<void> => {
      const stream = await factory(signal);
      if (!isStream(stream) && !isAsyncIterable(stream))
        throw new CallbackError('fromStream', 'factory', `must make an async iterable or a ReadableStream, made ${show(stream)}`);
      // Left while the factory was at work: this one comes too late to be read.
      if (to.closed) {
        readerOf(stream).stop(signal.reason);
        return;
      }
      const pull = openPull(stream, { room: () => true, next: observer.next, done: observer.complete, failed: observer.error });
      to.add(() => {
        pull.close(signal.reason);
      });
      pull.resume();
    };
    // With a listener for both, so that marble tests notice that this waits for a promise.
    open().then(noop, (error: unknown) => {
      // After leaving, the error is only the answer to our abort.
      if (!to.closed) observer.error(error);
    });
  });
}

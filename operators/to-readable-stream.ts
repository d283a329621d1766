import type { Observable } from 'rxjs';
import { observable } from './shell/streams/listen.js';
import type { ToReadableStreamOptions } from './shell/streams/pull-iterator.js';
import { PullIterator, readPullOptions } from './shell/streams/pull-iterator.js';

export type { ToReadableStreamOptions } from './shell/streams/pull-iterator.js';

/**
 * Makes a web `ReadableStream` of a source: the body of a `Response`, the input of `pipeThrough`, something to post to a worker.
 *
 * ```text
 * source   -a-b-c-----d-!
 * read()     a   b   c  d   cancel()
 * queue      .   bc  c  .
 * ```
 *
 * - **Emits when** the stream is read: the oldest value that waits, or the next one that comes. The stream itself buffers nothing
 *   (`highWaterMark` 0), so there is one queue with one bound.
 * - **Holds at most** `maxQueued` values.
 * - **Drops** what `overflow` says, and reports it.
 * - **Completes when** the source has completed and the values that waited were read.
 * - **Errors when** the source errors, with the same error, after the values that waited; when the queue overflows and `overflow` is
 *   `'error'` (`OverflowError`, after the values that waited; the source is left at once); when `signal` aborts, with its reason.
 * - **On unsubscribe**, which is `cancel(reason)`, the source is unsubscribed from at once and values that wait are dropped.
 *
 * Nothing is subscribed to before the first read, and a new stream lets a microtask pass before it does: a hot source may say something
 * meanwhile. A stream is read once, so it is one subscription: make one for every reader.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when `source` is no Observable or an option is unknown or out of range.
 * @example
 * ```ts
 * import { of } from 'rxjs';
 * import { toReadableStream } from 'sluice/operators';
 *
 * const body = toReadableStream(of('to ', 'be')).pipeThrough(new TextEncoderStream());
 * await new Response(body).text(); // => 'to be'
 * ```
 * @see {@link fromStream} for the way back; {@link toAsyncIterable} for `for await`.
 */
export function toReadableStream<T>(source: Observable<T>, options: ToReadableStreamOptions = {}): ReadableStream<T> {
  observable('toReadableStream', 'source', source);
  const iterator = new PullIterator(source, readPullOptions('toReadableStream', options));
  let isCancelled = false;
  return new ReadableStream<T>(
    {
      pull: async (controller) => {
        const { done, value } = await iterator.next();
        // A cancelled stream is closed already, and takes offence at being closed again.
        if (isCancelled) return;
        if (done === true) controller.close();
        else controller.enqueue(value);
      },
      cancel: () => {
        isCancelled = true;
        void iterator.return();
      },
    },
    { highWaterMark: 0 },
  );
}

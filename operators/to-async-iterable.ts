import type { Observable } from 'rxjs';
import { observable } from './shell/streams/listen.js';
import type { ToAsyncIterableOptions } from './shell/streams/pull-iterator.js';
import { PullIterator, readPullOptions } from './shell/streams/pull-iterator.js';

export type { ToAsyncIterableOptions } from './shell/streams/pull-iterator.js';

// `AsyncIterable` and its kin take one type only before TypeScript 5.6, so what ends a run is said at `next`.

/** One run through an iterable of {@link toAsyncIterable}. */
export interface ObservableIterator<T> extends AsyncIterableIterator<T>, AsyncDisposable {
  next(): Promise<IteratorResult<T, undefined>>;
  return(): Promise<IteratorReturnResult<undefined>>;
  throw(error?: unknown): Promise<IteratorReturnResult<undefined>>;
}

/**
 * Can be iterated as often as the source can be subscribed to.
 * @stable
 */
export interface ObservableIterable<T> extends AsyncIterable<T> {
  [Symbol.asyncIterator](): ObservableIterator<T>;
}

/**
 * Makes a source readable with `for await`. Values that come faster than they are read wait in a bounded queue, and leaving the
 * loop leaves the source.
 *
 * ```text
 * source   -a-b-c-----d-!
 * for await  a   b   c  d   break
 * queue      .   bc  c  .
 * ```
 *
 * - **Emits when** `next()` is called: the oldest value that waits, or the next one that comes. Calls are answered in order; each value goes to one
 *   call, whichever reader made it.
 * - **Holds at most** `maxQueued` values.
 * - **Drops** what `overflow` says, and reports it.
 * - **Completes when** the source has completed and the values that waited were read. After that every loop over the same iterator
 *   ends at once.
 * - **Errors when** the source errors, with the same error, after the values that waited; when the queue overflows and `overflow` is
 *   `'error'` (`OverflowError`, after the values that waited; the source is left at once); when `signal` aborts, with its reason, and
 *   nothing is read any more. The error is delivered once; then the iterator is over.
 * - **On unsubscribe**, which is `break`, `return()`, `throw()` or the end of an `await using` block, the source is unsubscribed from
 *   before the call returns, values that wait are dropped, and pending calls of `next()` learn that it is over.
 *
 * Nothing is subscribed to before the first `next()`. Each `[Symbol.asyncIterator]()`, so each `for await`, is a subscription of its
 * own, as each `subscribe` is.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when `source` is no Observable or an option is unknown or out of range.
 * @example
 * ```ts
 * import { interval } from 'rxjs';
 * import { toAsyncIterable } from 'sluice/operators';
 *
 * const seen: number[] = [];
 * for await (const n of toAsyncIterable(interval(1))) {
 *   seen.push(n);
 *   if (n === 2) break;
 * }
 * seen; // => [0, 1, 2]
 * ```
 * @see {@link toReadableStream} for what takes a stream; `firstValueFrom` and `lastValueFrom` of RxJS for one value.
 */
export function toAsyncIterable<T>(source: Observable<T>, options: ToAsyncIterableOptions = {}): ObservableIterable<T> {
  observable('toAsyncIterable', 'source', source);
  const settings = readPullOptions('toAsyncIterable', options);
  return { [Symbol.asyncIterator]: () => new PullIterator(source, settings) };
}

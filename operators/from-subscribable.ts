import type { Observable } from 'rxjs';
import { CallbackError } from './options/errors.js';
import { requiredFunction } from './options/options.js';
import { show } from './options/show.js';
import { attach } from './shell/streams/connect.js';
import { untilLeft } from './shell/streams/until-left.js';

const NAME = 'fromSubscribable';

/** The observer of a {@link SubscribableLike}; all three callbacks are given. */
export interface SubscribableObserver<T> {
  next?(value: T): void;
  error?(error: unknown): void;
  complete?(): void;
}

/**
 * What is used of a stream of another RxJS, or of any library whose streams have `subscribe`: it is given an observer. That it might be a function
 * is said because the types of every RxJS say so, and what they emit is found out by that.
 * @stable
 */
export interface SubscribableLike<T> {
  subscribe(observer?: SubscribableObserver<T> | ((value: T) => void)): { unsubscribe(): void };
}

/**
 * Makes an Observable of a stream of another copy or version of RxJS: typed as what it emits, started anew for every subscription, and told by a
 * signal that its consumer has left.
 *
 * RxJS's own `from(stream)` runs with a stream of another copy, but does not compile, and a hot stream (its work starts where it is made) never
 * learns that its subscriber has left.
 *
 * ```text marbles/fromSubscribable
 * stream  -a-b-c-|
 *         fromSubscribable((signal) => stream)
 * result  -a-b-c-|
 * ```
 *
 * - **Emits when** the stream does, in the same moment.
 * - **Holds at most** nothing.
 * - **Completes when** the stream completes.
 * - **Errors when** the stream errors, or the factory or `subscribe` throws, with that same error; with `CallbackError` when the factory makes
 *   nothing that has a `subscribe`.
 * - **On unsubscribe** the signal aborts with a `DOMException` named `AbortError`, and the stream is unsubscribed from, in this order. The signal
 *   of a stream that has ended by itself never fires.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when `factory` is not a function.
 * @example
 * ```ts
 * import { of } from 'rxjs';
 * import { fromSubscribable } from 'sluice/interop';
 *
 * const seen: string[] = [];
 * const ofAnotherRxjs = of('to', 'be');
 * fromSubscribable(() => ofAnotherRxjs).subscribe((word) => seen.push(word));
 * seen; // => ['to', 'be']
 * ```
 * @example A run of AG-UI, whose client has an RxJS of its own: unsubscribing ends the run.
 * ```ts no-run
 * const run$ = fromSubscribable((signal) => {
 *   signal.addEventListener('abort', () => agent.abortRun());
 *   return agent.run(input);
 * });
 * ```
 * @see {@link fromStream} for async iterables and web streams, {@link fromNative} for the platform's `Observable`.
 */
export function fromSubscribable<T>(factory: (signal: AbortSignal) => SubscribableLike<T>): Observable<T> {
  requiredFunction(NAME, 'factory', factory);
  return untilLeft((signal, observer, to) => {
    const stream = factory(signal);
    // The factory itself may have made its consumer leave.
    if (to.closed) return;
    if (typeof (stream as Partial<SubscribableLike<T>> | undefined)?.subscribe !== 'function') {
      throw new CallbackError(NAME, 'factory', `must make something with \`subscribe\`, made ${show(stream)}`);
    }
    // It is one, of whatever RxJS.
    attach<T>(stream as never, to, observer);
  });
}

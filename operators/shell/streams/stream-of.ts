import { Observable } from 'rxjs';
import { linkable } from '../calls/call.js';
import { attach } from './connect.js';

/**
 * The answer of a callback as an Observable of this RxJS, when it is a stream: an Observable of any RxJS version, an object with `Symbol.observable`, an
 * async iterable or a web stream. Undefined for everything else, promises and plain values included; ask `check.isPromise` first where both may come.
 *
 * Nothing is read before the result is subscribed to. Unsubscribing closes the stream; its error is passed on as the same object.
 *
 * @beta
 * @example
 * ```ts
 * import { of } from 'rxjs';
 * import { streamOf } from 'sluice/operators/build';
 *
 * const seen: number[] = [];
 * streamOf<number>(of(1, 2))?.subscribe((value) => seen.push(value));
 * [seen, streamOf([1, 2]), streamOf(Promise.resolve(1))]; // => [[1, 2], undefined, undefined]
 * ```
 */
export function streamOf<R>(answer: unknown): Observable<R> | undefined {
  const stream = linkable<R>(answer);
  if (stream === undefined || stream instanceof Observable) return stream;
  // Another RxJS than ours, or none.
  return new Observable((subscriber) => {
    attach(stream, subscriber, subscriber);
  });
}

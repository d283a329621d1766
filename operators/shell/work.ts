import { from, isObservable, Observable } from 'rxjs';
import type { Settled } from '../options/types.js';
import { connect } from './connect.js';

/**
 * What is done with an answer that does not come later: `'value'` takes it as it is, be it a string, an array or nothing; `'input'` reads it
 * as RxJS does, item by item.
 */
export type Reading = 'value' | 'input';

/** A promise, and not an Observable that has a `then`. */
export function isPromise(value: unknown): value is PromiseLike<unknown> {
  return (
    ((typeof value === 'object' && value !== null) || typeof value === 'function') &&
    typeof (value as PromiseLike<unknown>).then === 'function' &&
    !('subscribe' in value)
  );
}

/**
 * The same as a promise that can be listened to again and again: the `then` of a query builder sends its request, so it is called here and
 * nowhere else. One that throws has failed.
 */
export function onlyOnce<R>(thenable: PromiseLike<R>): Promise<R> {
  if (thenable instanceof Promise && thenable.constructor === Promise) return thenable as Promise<R>;
  return new Promise((resolve, reject) => {
    // `then` may answer twice, and both; a promise listens to the first.
    thenable.then(resolve, reject);
  });
}

interface Foreign<R> {
  readonly '@@observable'?: () => Foreign<R>;
}

const OBSERVABLE = /* @__PURE__ */ (() => (Symbol as { readonly observable?: symbol }).observable ?? '@@observable')();

/** What comes later, as an Observable: one of any RxJS, what says that it is one, async iterables and web streams. Undefined for all else. */
export function streamOf<R>(answer: unknown): Observable<R> | undefined {
  if (typeof answer !== 'object' || answer === null) return undefined;
  if (answer instanceof Observable) return answer as Observable<R>;
  const interop = (answer as Record<PropertyKey, unknown>)[OBSERVABLE] ?? (answer as Foreign<R>)['@@observable'];
  if (typeof interop === 'function') return foreign((interop as () => Foreign<R>).call(answer));
  // Another copy of RxJS may have another symbol.
  if (isObservable(answer)) return foreign(answer as unknown as Foreign<R>);
  const later = answer as { readonly [Symbol.asyncIterator]?: unknown };
  return typeof later[Symbol.asyncIterator] === 'function' || 'getReader' in later ? from(answer as AsyncIterable<R>) : undefined;
}

/** Another RxJS than ours, or none. */
function foreign<R>(stream: Foreign<R>): Observable<R> {
  return new Observable((subscriber) => {
    connect<R>(stream as never, subscriber, {
      next: (value) => {
        subscriber.next(value);
      },
    });
  });
}

/** What is known of an item that has its result. */
interface About<T> {
  readonly input: T;
  readonly index: number;
  readonly id: string;
  readonly attempts: number;
}

/** What became of an item. */
export function settledOf<T, R>({ input, index, id, attempts }: About<T>, failed: boolean, outcome: unknown): Settled<T, R> {
  return failed
    ? { status: 'rejected', reason: outcome, input, index, id, attempts }
    : { status: 'fulfilled', value: outcome as R, input, index, id, attempts };
}

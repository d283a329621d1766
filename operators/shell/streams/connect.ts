import type { Observable, Observer } from 'rxjs';
import { Subscriber } from 'rxjs';
import { reportTeardown } from '../calls/report.js';

/** Handlers of one connection; an `error` or `complete` that is left out passes on to the destination. */
export interface Handlers<T> {
  next(value: T): void;
  error?(error: unknown): void;
  complete?(): void;
}

// The one file that leans on RxJS internals: a `Subscriber` subclass with `_next` methods. A partial observer passed to `subscribe` is linked to its
// destination too late: with `take(1)` behind it, a synchronous source of 10,000 items runs to its end.

/**
 * Subscribes an operator or pipeline to its source, inside `new Observable`. In place of `source.subscribe`, which keeps a synchronous source running
 * after the subscriber has left.
 *
 * - **Calls** `next` for each value. An `error` or `complete` that is left out passes on to `destination`.
 * - **On unsubscribe** of `destination` the source is left at once, also while it is being subscribed to. Adds nothing to a closed destination, but
 *   still subscribes: check `destination.closed` first.
 * - **Errors:** what a handler throws, or the source throws while it is subscribed to, errors the destination.
 *
 * @beta
 * @example
 * ```ts
 * import { Observable, range, take } from 'rxjs';
 * import { connect } from 'sluice/operators/build';
 *
 * let read = 0;
 * const doubled = new Observable<number>((subscriber) => {
 *   connect(range(1, 10_000), subscriber, {
 *     next: (value) => {
 *       read++;
 *       subscriber.next(2 * value);
 *     },
 *   });
 * });
 * const seen: number[] = [];
 * doubled.pipe(take(2)).subscribe((value) => seen.push(value));
 * [seen, read]; // => [[2, 4], 2]
 * ```
 */
export function connect<T>(source: Observable<T>, destination: Subscriber<unknown>, handlers: Handlers<T>): void {
  const safe =
    (handle: (value: never) => void) =>
    (value?: unknown): void => {
      try {
        handle.call(handlers, value as never);
      } catch (thrown) {
        destination.error(thrown);
      }
    };
  const fail = (error: unknown): void => {
    destination.error(error);
  };
  const end = (): void => {
    destination.complete();
  };
  // eslint-disable-next-line @typescript-eslint/unbound-method -- called with their object
  const { next, error = fail, complete = end } = handlers;
  attach<T>(source, destination, { next: safe(next), error: safe(error), complete: safe(complete) });
}

/** The same without a net: the handlers must not throw. */
export function attach<T>(source: Observable<T>, destination: Subscriber<unknown>, observer: Observer<T>): void {
  const link = new Link<T>(observer);
  destination.add(link);
  subscribeLink(source, link);
}

/** Subscribes a link that was added to its consumer before. */
export function subscribeLink<T>(source: Observable<T>, link: Link<T>): void {
  try {
    // Another RxJS than ours has put an object of its own in front of it; to itself it adds nothing.
    link.add(source.subscribe(link));
  } catch (error) {
    link.error(error);
  }
}

/**
 * Hands everything to an observer made of functions. A `Subject` inside Vue's `reactive` calls it through a proxy, which hands out every object in
 * it as a proxy too. RxJS 5 and 6 call it through an object made with `Object.create`, whose `unsubscribe` is their own. So nothing is `#private`
 * either.
 */
export class Link<T> extends Subscriber<T> {
  /** A teardown of yours that throws costs neither the result nor the permit. */
  override unsubscribe(): void {
    try {
      super.unsubscribe();
    } catch (error) {
      reportTeardown(error);
    }
  }

  protected override _next(value: T): void {
    (this.destination as Observer<T>).next(value);
    // The consumer has left. Ours has stopped by itself; a source of RxJS 5 or 6 that emits while it is being subscribed to has not.
    if (this.closed) this.unsubscribe();
  }
}

import type { Observable, Observer } from 'rxjs';
import { Subscriber } from 'rxjs';
import { reportTeardown } from './report.js';

/** Handlers of one connection; what is left out is handed on to the destination. */
export interface Handlers<T> {
  next(value: T): void;
  error?(error: unknown): void;
  complete?(): void;
}

/**
 * Subscribes an operator to its source. The one file that leans on RxJS internals: a `Subscriber` subclass with `_next`
 * methods, linked to the destination *before* the source starts, so that a source which emits synchronously stops as soon as
 * the consumer has enough. (A partial observer passed to `subscribe` cannot do that: with `take(1)` behind it, a
 * source of 10,000 items runs to its end.) A throw in a handler errors the destination.
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
 * Hands everything to an observer made of functions: a `Subject` inside Vue's `reactive` calls it through a proxy, which hands out every object in it as
 * a proxy too, and RxJS 5 and 6 through an object made with `Object.create`, whose `unsubscribe` is their own. So nothing is `#private` either.
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

import type { Observable, Subscription } from 'rxjs';
import { Subscriber } from 'rxjs';

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
  const link = new Link<T>(destination, earsOf(destination, handlers));
  destination.add(link);
  const subscription: Subscription = source.subscribe(link);
  // A copy of RxJS that does not know ours has put an object of its own in front of it.
  if (subscription !== link) link.add(subscription);
}

interface Ears<T> {
  readonly next: (value: T) => void;
  readonly error: (error: unknown) => void;
  readonly complete: () => void;
}

/** Functions, because a proxy hands out every object in a subscriber as a proxy too, and `#private` does not work behind one. */
function earsOf<T>(to: Subscriber<unknown>, handlers: Handlers<T>): Ears<T> {
  const attempt = (tell: () => void): void => {
    try {
      tell();
    } catch (thrown) {
      to.error(thrown);
    }
  };
  return {
    next: (value) => {
      try {
        handlers.next(value);
      } catch (thrown) {
        to.error(thrown);
      }
    },
    error: (error) => {
      attempt(() => {
        if (handlers.error) handlers.error(error);
        else to.error(error);
      });
    },
    complete: () => {
      attempt(() => {
        if (handlers.complete) handlers.complete();
        else to.complete();
      });
    },
  };
}

/**
 * Without `#private`: a `Subject` inside Vue's `reactive` calls it through a proxy, and RxJS 5 and 6 through an object made with
 * `Object.create`, whose `unsubscribe` is their own.
 */
class Link<T> extends Subscriber<T> {
  private readonly isLeft: () => boolean;
  private readonly hear: Ears<T>['next'];
  private readonly fail: Ears<T>['error'];
  private readonly finish: Ears<T>['complete'];

  constructor(to: Subscriber<unknown>, { next, error, complete }: Ears<T>) {
    super();
    this.isLeft = () => to.closed;
    this.hear = next;
    this.fail = error;
    this.finish = complete;
  }

  protected override _next(value: T): void {
    this.hear(value);
    // Ours has stopped by itself; a source of RxJS 5 or 6 that emits while it is being subscribed to has not.
    if (this.isLeft()) this.unsubscribe();
  }

  protected override _error(error: unknown): void {
    this.fail(error);
    this.unsubscribe();
  }

  protected override _complete(): void {
    this.finish();
    this.unsubscribe();
  }
}

import type { Observable } from 'rxjs';
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
  const link = new Link(destination, handlers);
  destination.add(link);
  source.subscribe(link);
}

class Link<T> extends Subscriber<T> {
  readonly #to: Subscriber<unknown>;
  readonly #handlers: Handlers<T>;

  constructor(to: Subscriber<unknown>, handlers: Handlers<T>) {
    super();
    this.#to = to;
    this.#handlers = handlers;
  }

  protected override _next(value: T): void {
    try {
      this.#handlers.next(value);
    } catch (error) {
      this.#to.error(error);
    }
  }

  protected override _error(error: unknown): void {
    try {
      if (this.#handlers.error) this.#handlers.error(error);
      else this.#to.error(error);
    } catch (thrown) {
      this.#to.error(thrown);
    } finally {
      this.unsubscribe();
    }
  }

  protected override _complete(): void {
    try {
      if (this.#handlers.complete) this.#handlers.complete();
      else this.#to.complete();
    } catch (thrown) {
      this.#to.error(thrown);
    } finally {
      this.unsubscribe();
    }
  }
}

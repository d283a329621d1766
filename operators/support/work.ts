import type { ObservableInput, Subscription } from 'rxjs';
import { from, Subscriber } from 'rxjs';
import { report } from './report.js';

/** Told how one piece of work went; exactly one of the two is called, once, unless the work is cancelled first. */
export interface WorkObserver<R> {
  /** The last value, `empty` when there was none. */
  done(value: R, empty: boolean): void;
  failed(error: unknown): void;
  /** Every value, for work whose stream is handed on. */
  next?(value: R): void;
}

/** Work under way. */
export interface Running {
  /** Stops listening; an Observable is unsubscribed. Nothing is reported afterwards. */
  cancel(): void;
  /** Set when the work is a promise, which cannot be stopped: settles when it is really over. */
  readonly settled: PromiseLike<unknown> | undefined;
  /** A promise that was fulfilled: whoever leaves now has the whole answer, so there is nothing left to abort. */
  readonly isAnswered: boolean;
}

/**
 * Starts the work and reports its end. A promise gets bound handlers and no wrapper, an Observable one subscriber. An Observable
 * that emits while it is being started is left as soon as `owner` is unsubscribed, for example by a consumer that has enough.
 */
export function startWork<R>(work: () => ObservableInput<R>, observer: WorkObserver<R>, owner?: Subscription): Running {
  let input: ObservableInput<R>;
  try {
    input = work();
  } catch (error) {
    // Nobody hears of the failure of work that has made its own consumer leave.
    if (!owner?.closed) observer.failed(error);
    return IDLE;
  }
  if (isPromise(input)) return new PromiseWork(input, observer);
  // The work itself may have made its consumer leave.
  if (owner?.closed) return IDLE;
  const listener = new WorkSubscriber(observer);
  owner?.add(listener);
  try {
    from<ObservableInput<R>>(input).subscribe(listener);
  } catch (error) {
    listener.error(error);
  }
  return listener;
}

const IDLE: Running = { cancel: () => undefined, settled: undefined, isAnswered: false };

/** A promise, and not an Observable that has a `then`. */
export function isPromise(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === 'object' && value !== null && typeof (value as PromiseLike<unknown>).then === 'function' && !('subscribe' in value)
  );
}

class PromiseWork<R> implements Running {
  readonly settled: PromiseLike<R>;
  isAnswered = false;
  #observer: WorkObserver<R> | undefined;

  constructor(promise: PromiseLike<R>, observer: WorkObserver<R>) {
    this.settled = promise;
    this.#observer = observer;
    promise.then(
      (value) => {
        this.isAnswered = true;
        this.#observer?.next?.(value);
        this.#observer?.done(value, false);
      },
      (error: unknown) => {
        this.#observer?.failed(error);
      },
    );
  }

  cancel(): void {
    this.#observer = undefined;
  }
}

class WorkSubscriber<R> extends Subscriber<R> implements Running {
  readonly settled = undefined;
  readonly isAnswered = false;
  readonly #observer: WorkObserver<R>;
  #last: R | undefined;
  #empty = true;

  constructor(observer: WorkObserver<R>) {
    super();
    this.#observer = observer;
  }

  cancel(): void {
    this.unsubscribe();
  }

  /** A teardown of yours that throws must not keep the call from ending, nor its permit. */
  override unsubscribe(): void {
    try {
      super.unsubscribe();
    } catch (error) {
      report(error);
    }
  }

  protected override _next(value: R): void {
    this.#last = value;
    this.#empty = false;
    this.#observer.next?.(value);
  }

  protected override _error(error: unknown): void {
    this.unsubscribe();
    this.#observer.failed(error);
  }

  protected override _complete(): void {
    this.unsubscribe();
    this.#observer.done(this.#last as R, this.#empty);
  }
}

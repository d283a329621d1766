import type { ObservableInput, Observer, Subscription } from 'rxjs';
import { from, isObservable, Observable, Subscriber } from 'rxjs';
import type { WorkResult } from '../options/types.js';
import { report } from './report.js';

/** Told how one piece of work went; exactly one of the two is called, once, unless the work is cancelled first. */
export interface WorkObserver<R> {
  /** The last value, `empty` when there was none. */
  done(value: R, empty: boolean): void;
  failed(error: unknown): void;
  /** Every value, for work whose stream is handed on. One that is the whole answer leaves nothing to abort, whatever is done with it. */
  next?(value: R, isWhole: boolean): void;
}

/** Work under way. */
export interface Running {
  /** Stops listening; an Observable is unsubscribed. Nothing is reported afterwards. */
  cancel(): void;
  /** Set when the work is a promise, which cannot be stopped: settles when it is really over. */
  readonly settled: Promise<unknown> | undefined;
  /** A promise that was fulfilled: whoever leaves now has the whole answer, so there is nothing left to abort. */
  readonly isAnswered: boolean;
}

/**
 * What is done with an answer that does not come later: `'value'` takes it as it is, be it a string, an array or nothing; `'input'` reads it
 * as RxJS does, item by item.
 */
export type Reading = 'value' | 'input';

/**
 * Starts the work and reports its end. A promise gets bound handlers and no wrapper, an Observable one subscriber. An Observable
 * that emits while it is being started is left as soon as `owner` is unsubscribed, for example by a consumer that has enough.
 */
export function startWork<R>(
  work: () => WorkResult<R> | ObservableInput<R>,
  observer: WorkObserver<R>,
  owner?: Subscription,
  reading: Reading = 'value',
): Running {
  let stream: Observable<R> | undefined;
  let answer: unknown;
  try {
    answer = work();
    if (isPromise(answer)) return new PromiseWork(onlyOnce(answer) as Promise<R>, observer);
    stream = streamOf<R>(answer);
    if (stream === undefined && reading === 'input') stream = from(answer as ObservableInput<R>);
  } catch (error) {
    // Nobody hears of the failure of work that has made its own consumer leave.
    if (!owner?.closed) observer.failed(error);
    return IDLE;
  }
  // The work itself may have made its consumer leave.
  if (owner?.closed) return IDLE;
  if (stream === undefined) {
    observer.next?.(answer as R, true);
    observer.done(answer as R, false);
    return IDLE;
  }
  const listener = new WorkSubscriber(observer);
  owner?.add(listener);
  try {
    stream.subscribe(listener);
  } catch (error) {
    listener.error(error);
  }
  return listener;
}

const IDLE: Running = { cancel: () => undefined, settled: undefined, isAnswered: false };

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
  subscribe(observer: Observer<R>): { unsubscribe(): void };
  lift?: unknown;
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

/** Subscribed to with a plain observer: RxJS 5 and 6 put objects of their own in front of a subscriber they do not know. */
function foreign<R>(stream: Foreign<R>): Observable<R> {
  return new Observable((subscriber) => {
    const subscription = stream.subscribe({
      next: (value) => {
        subscriber.next(value);
      },
      error: (error) => {
        subscriber.error(error);
      },
      complete: () => {
        subscriber.complete();
      },
    });
    return () => {
      subscription.unsubscribe();
    };
  });
}

class PromiseWork<R> implements Running {
  readonly settled: Promise<R>;
  isAnswered = false;
  #observer: WorkObserver<R> | undefined;

  constructor(promise: Promise<R>, observer: WorkObserver<R>) {
    this.settled = promise;
    this.#observer = observer;
    promise.then(
      (value) => {
        this.isAnswered = true;
        this.#observer?.next?.(value, true);
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

/**
 * Without `#private`, and what it knows behind a function: a `Subject` inside Vue's `reactive` calls it through a proxy, which hands out every
 * object in it as a proxy too.
 */
class WorkSubscriber<R> extends Subscriber<R> implements Running {
  readonly settled = undefined;
  readonly isAnswered = false;
  private readonly heard: () => { readonly observer: WorkObserver<R>; last: R | undefined; isEmpty: boolean };

  constructor(observer: WorkObserver<R>) {
    super();
    const heard = { observer, last: undefined, isEmpty: true };
    this.heard = () => heard;
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
    const heard = this.heard();
    heard.last = value;
    heard.isEmpty = false;
    heard.observer.next?.(value, false);
  }

  protected override _error(error: unknown): void {
    this.unsubscribe();
    this.heard().observer.failed(error);
  }

  protected override _complete(): void {
    this.unsubscribe();
    const { observer, last, isEmpty } = this.heard();
    observer.done(last as R, isEmpty);
  }
}

import type { Observable, ObservableInput, Observer, Subscriber, Subscription } from 'rxjs';
import { from, isObservable } from 'rxjs';
import type { AsyncContext } from '#async-context';
import type { Outcome, Permit } from '../../options/permits.js';
import type { Settled, WorkResult } from '../../options/types.js';
import { Link, subscribeLink } from '../streams/connect.js';
import { LazySignal } from './abort.js';

/** Not begun. */
const NEW = 0;
/** Its work is being called, and has not returned: whether it is a promise is not known. */
const CALLING = 1;
/** Its work has returned, and has not ended. */
const OPEN = 2;
/** Its work has ended by itself, well or badly. */
const DONE = 3;
const FAILED = 4;
/** Cancelled, so that its values go nowhere; added to the state it was in. */
const STOPPED = 5;

/** Stands for the last value of work that has emitted none. */
const NOTHING = {};

/**
 * One call of a piece of work: starts it, listens to it, cancels it. All operators do it here: they extend this class, or `PermittedCall` where the call
 * has a permit.
 *
 * `begin` calls `work`. Every value then goes to `got`, and the end to `done` or `failed`, once; none of them after `stop`. The call is over before the end
 * is told, so a consumer that leaves then aborts nothing. Cancelling aborts `signal`, which is made when it is first read.
 */
export abstract class Call<R> extends LazySignal {
  protected state = NEW;
  /** The last value, or why the work has failed. */
  protected last: unknown = NOTHING;
  protected link: Subscription | undefined = undefined;
  /** Made once for all streams and promises of this object. */
  private listener: Observer<R> | undefined = undefined;
  private onValue: ((value: R) => void) | undefined = undefined;

  /** Calls the function that does the work. */
  abstract work(): WorkResult<R> | ObservableInput<R>;

  /** It has ended well, with the last value that `got` has kept. */
  abstract done(value: R, isEmpty: boolean): void;

  /** It has failed: it threw, or its promise or stream has failed. */
  abstract failed(error: unknown): void;

  /** It has failed after it was cancelled. */
  failedLate?(error: unknown): void;

  /** Called with every value; when it has ended by then, that is the whole answer. Keeps the last for `done`; an override need not. */
  got(value: R): void {
    this.last = value;
  }

  /** Neither ended nor cancelled. */
  get isOpen(): boolean {
    return this.state < DONE;
  }

  /** Its work has ended by itself: leaving it now cancels nothing. */
  get hasEnded(): boolean {
    return this.state === DONE || this.state === FAILED;
  }

  protected get hasFailed(): boolean {
    return this.state === FAILED;
  }

  /** Starts the work, in this context. Does nothing when it was cancelled before. */
  begin(context?: AsyncContext): void {
    if (this.state !== NEW) return;
    this.state = CALLING;
    if (context) context.run(perform, this);
    else this.perform();
  }

  /** Cancels it: aborts the signal, then stops listening. What the work answers to the abort is ignored. */
  stop(): void {
    const { state } = this;
    if (state >= STOPPED) return;
    this.state += STOPPED;
    if (state === CALLING || state === OPEN) this.abort();
    this.leave();
  }

  /** Part of `begin`. */
  perform(): void {
    let stream: Observable<R> | undefined;
    let promise: Promise<R> | undefined;
    let answer: unknown;
    let fault: { readonly error: unknown } | undefined;
    try {
      answer = this.work();
      if (isPromise(answer)) promise = Promise.resolve(answer) as Promise<R>;
      else stream = this.streamIn(answer);
    } catch (error) {
      fault = { error };
    }
    this.returned(promise);
    if (fault) this.ended(fault.error);
    else if (promise) {
      // Also when it was cancelled meanwhile: its rejection has no other handler. As `await` does, without calling a `then` that was put on it,
      // which may throw, or answer twice and so into the next call.
      void Promise.prototype.then.call(promise, this.hear() as (value: unknown) => void, this.listen().error);
    } else if (this.state !== OPEN) return;
    else if (stream) {
      // eslint-disable-next-line @typescript-eslint/no-deprecated -- the constructor is RxJS's own
      const link = (this.link = new Link<R>(this.listen()));
      subscribeLink(stream, link);
    } else this.answered(answer as R);
  }

  /** What comes later of an answer that is no promise; undefined when the answer is the value. */
  protected streamIn(answer: unknown): Observable<R> | undefined {
    return linkable(answer);
  }

  /** Stops listening to a stream, which is torn down. One that has ended is torn down in any case, after that was told. */
  protected leave(): void {
    this.link?.unsubscribe();
  }

  /** Not made in `perform`: then each call would keep what that knows, its promise for example, as long as the promise keeps the call. */
  private hear(): (value: R) => void {
    return (this.onValue ??= (value) => {
      this.answered(value);
    });
  }

  private listen(): Observer<R> {
    return (this.listener ??= {
      next: (value) => {
        if (this.state === OPEN) this.got(value);
      },
      error: (error) => {
        this.ended(error);
      },
      complete: () => {
        if (this.state !== OPEN) return;
        this.state = DONE;
        this.leave();
        const { last } = this;
        // A teardown may have cancelled it.
        if (this.hasEnded) this.done((last === NOTHING ? undefined : last) as R, last === NOTHING);
      },
    });
  }

  /** It has its whole answer. */
  private answered(value: R): void {
    if (this.state !== OPEN) return;
    this.state = DONE;
    this.got(value);
    if (this.hasEnded) this.done(value, false);
  }

  private ended(error: unknown): void {
    if (this.state !== OPEN) {
      this.failedLate?.(error);
      return;
    }
    this.state = FAILED;
    this.last = error;
    this.leave();
    if (this.hasEnded) this.failed(error);
  }

  /** Its work has been called, and has answered with a promise or not. */
  protected returned(_promise: Promise<R> | undefined): void {
    this.state += OPEN - CALLING;
  }
}

/** A call whose values and end go to a subscriber; cancelled when that leaves. */
export abstract class Relay<R> extends Call<R> {
  constructor(private readonly to: Subscriber<R>) {
    super();
    to.add(() => {
      this.stop();
    });
  }

  override got(value: R): void {
    this.to.next(value);
  }

  done(): void {
    this.to.complete();
  }

  failed(error: unknown): void {
    this.to.error(error);
  }
}

/**
 * A call with a permit, which is released when its work is really over. The subclass is told the end and calls `release` when the result is out.
 *
 * A call that has ended by itself can be used again after `renew`, so that items one after the other need no new object and functions each.
 */
export abstract class PermittedCall<R> extends Call<R> {
  permit: Permit | undefined = undefined;
  /** What the work has answered, when it is a promise. */
  private promise: Promise<unknown> | undefined = undefined;
  /** The release, put off until the work has returned. */
  private due: (() => void) | undefined = undefined;

  /** Cancels the call and releases its permit; with its own outcome when it has ended by itself. */
  cancel(outcome: Outcome = 'cancelled', error?: unknown): void {
    const { state } = this;
    this.stop();
    if (state === DONE) this.release();
    else if (state === FAILED) this.release('error', this.last);
    else this.release(outcome, error);
  }

  /**
   * Releases the permit, once. For a cancelled promise that happens when it settles or a grace has passed, else at once. The permit of work that was
   * never called is released as unused.
   */
  release(outcome: Outcome = 'ok', error?: unknown): void {
    const { permit, state } = this;
    if (permit === undefined) return;
    if (state % STOPPED === CALLING) {
      this.due ??= () => {
        this.release(outcome, error);
      };
      return;
    }
    this.permit = undefined;
    if (state % STOPPED === NEW) permit.release('unused');
    else this.returnPermit(permit, outcome, error);
  }

  /** Makes it ready for the next call; false for a cancelled one, whose work may still answer. */
  renew(): boolean {
    if (this.state >= STOPPED) return false;
    this.state = NEW;
    this.last = NOTHING;
    this.link = this.promise = undefined;
    // Its signal has not aborted. The next call gets one of its own.
    this.controller = undefined;
    return true;
  }

  protected override returned(promise: Promise<R> | undefined): void {
    const { due } = this;
    super.returned(promise);
    // Only with a permit: the garbage collector looks at an old object that points to a young one every time.
    if (promise && this.permit) this.promise = promise;
    this.due = undefined;
    due?.();
  }

  protected returnPermit(permit: Permit, outcome: Outcome, error: unknown): void {
    if (this.promise && this.state === STOPPED + OPEN) permit.releaseAfter(this.promise, error);
    else permit.release(outcome, error);
  }
}

function perform(call: { perform(): void }): void {
  call.perform();
}

/** A promise, and not an Observable that has a `then`. */
export function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as Partial<PromiseLike<unknown>> | null | undefined)?.then === 'function' && !('subscribe' in (value as object));
}

/** An asynchronous answer as an Observable: one of any RxJS, an interop Observable, an async iterable or a web stream. Undefined for all else. */
export function linkable<R>(answer: unknown): Observable<R> | undefined {
  if (typeof answer !== 'object' || answer === null) return undefined;
  if (isObservable(answer)) return answer as Observable<R>;
  const { observable = '@@observable' } = Symbol as { readonly observable?: symbol };
  const interop = (answer as Record<PropertyKey, unknown>)[observable] ?? (answer as Record<string, unknown>)['@@observable'];
  if (typeof interop === 'function') return (interop as () => Observable<R>).call(answer);
  const later = answer as { readonly [Symbol.asyncIterator]?: unknown };
  return typeof later[Symbol.asyncIterator] === 'function' || 'getReader' in later ? from(answer as AsyncIterable<R>) : undefined;
}

/** The same of any answer but a promise, read as RxJS does: a list is its items. @throws TypeError */
export function inputOf<R>(answer: unknown): Observable<R> {
  return linkable(answer) ?? from(answer as ObservableInput<R>);
}

/** The fields of an item that are part of its result. */
interface ItemFields<T> {
  readonly input: T;
  readonly index: number;
  readonly id: string;
  readonly attempts: number;
}

/** The result of an item. */
export function settledOf<T, R>({ input, index, id, attempts }: ItemFields<T>, failed: boolean, outcome: unknown): Settled<T, R> {
  return failed
    ? { status: 'rejected', reason: outcome, input, index, id, attempts }
    : { status: 'fulfilled', value: outcome as R, input, index, id, attempts };
}

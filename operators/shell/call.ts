import type { Observable, ObservableInput, Observer, Subscriber, Subscription } from 'rxjs';
import { from, isObservable } from 'rxjs';
import type { AsyncContext } from '#async-context';
import type { Outcome, Permit } from '../options/permits.js';
import type { Settled, WorkResult } from '../options/types.js';
import { LazySignal } from './abort.js';
import { hear, Link } from './connect.js';

/** Not begun. */
const NEW = 0;
/** Its work is being called: whether it is a promise is not known. */
const CALLING = 1;
/** Its work has been called, and nobody has heard of an end. */
const OPEN = 2;
/** Its work has ended by itself, well or badly. */
const DONE = 3;
const FAILED = 4;
/** Given up, or left: nobody listens to it any more. Before it was begun, while its work was being called, and after that. */
const UNSENT = 5;
const STOPPED_CALLING = 6;
const STOPPED = 7;

/** What has been said by work that has said nothing. */
const NOTHING = {};

/**
 * What is done with an answer that does not come later: `'value'` takes it as it is, be it a string, an array or nothing; `'input'` reads it
 * as RxJS does, item by item.
 */
export type Reading = 'value' | 'input';

/**
 * One piece of work: started, listened to, and given up. The one place where that is done: engines extend it, or `PermittedCall` where it has a permit.
 *
 * `begin` calls `work`, and what comes of that is told, never after `stop`: every value to `said`, the end to `done` or `failed`, once. It
 * is over before that is told: whoever leaves then has nothing to abort. The work hears of being given up by `signal`, made on the first look.
 */
export abstract class Call<R> extends LazySignal {
  protected state = NEW;
  /** The last value, or why the work has failed. */
  protected last: unknown = NOTHING;
  protected ear: Subscription | undefined = undefined;
  /** Made once for all streams of this object. */
  private observer: Observer<R> | undefined = undefined;

  /** What an answer that does not come later is: `'value'` the value itself, `'input'` whatever `from` takes. */
  get reading(): Reading {
    return 'value';
  }

  /** Calls what was given to be called. */
  abstract work(): WorkResult<R> | ObservableInput<R>;

  /** The end, with the value that `said` has kept. */
  abstract done(value: R, isEmpty: boolean): void;

  /** The end: it threw, or its promise or stream has failed. */
  abstract failed(error: unknown): void;

  /** It has failed after it was given up. */
  failedUnheard?(error: unknown): void;

  /** Every value; a whole one is the entire answer, and `done` has it. This one keeps the last for `done`; one that hands them on need not. */
  said(value: R, isWhole: boolean): void {
    if (!isWhole) this.last = value;
  }

  /** Its stream has failed. Torn down before that is told; an own one may tell first, it is torn down in any case. */
  broken(error: unknown): void {
    this.leave();
    if (this.hasEnded) this.failed(error);
  }

  /** Neither over nor given up. */
  get isOpen(): boolean {
    return this.state < DONE;
  }

  /** Its work has ended by itself: whoever leaves now gives nothing up. */
  get hasEnded(): boolean {
    return this.state === DONE || this.state === FAILED;
  }

  /** Starts it, in the context of whoever asked for it; not when it was given up before. */
  begin(context?: AsyncContext): void {
    if (this.state !== NEW) return;
    this.state = CALLING;
    if (context) context.run(perform, this);
    else this.perform();
  }

  /** Gives it up: its signal aborts and it is listened to no more, in this order; what it says to that is not its answer. */
  stop(): void {
    const { state } = this;
    if (state >= UNSENT) return;
    this.state = state === NEW ? UNSENT : state === CALLING ? STOPPED_CALLING : STOPPED;
    if (state === CALLING || state === OPEN) this.abort();
    this.leave();
  }

  /** Part of `begin`. */
  perform(): void {
    let stream: Observable<R> | undefined;
    let promise: Promise<R> | undefined;
    let answer: unknown;
    try {
      answer = this.work();
      if (isPromise(answer)) {
        promise = Promise.resolve(answer) as Promise<R>;
      } else {
        stream = linkable<R>(answer);
        if (stream === undefined && this.reading === 'input') stream = from(answer as ObservableInput<R>);
      }
    } catch (error) {
      this.returned(undefined);
      this.ended(error);
      return;
    }
    this.returned(promise);
    if (promise) {
      // Also to one that was given up meanwhile: nobody else listens to its failure.
      promise.then(
        (value) => {
          this.answered(value);
        },
        (error: unknown) => {
          this.ended(error);
        },
      );
    } else if (this.state !== OPEN) return;
    else if (stream) this.listen(stream);
    else this.answered(answer as R);
  }

  /** Stops listening to a stream, which is torn down. */
  protected leave(): void {
    this.ear?.unsubscribe();
  }

  private listen(stream: Observable<R>): void {
    // eslint-disable-next-line @typescript-eslint/no-deprecated -- the constructor is RxJS's own
    const ear = new Link<R>((this.observer ??= this.makeObserver()));
    this.ear = ear;
    hear(stream, ear);
  }

  /** What a stream says, if that still counts. */
  private makeObserver(): Observer<R> {
    return {
      next: (value) => {
        if (this.state === OPEN) this.said(value, false);
      },
      error: (error) => {
        if (this.hasFailed(error)) this.broken(error);
      },
      complete: () => {
        if (this.state !== OPEN) return;
        this.state = DONE;
        this.leave();
        const { last } = this;
        // A teardown may have given it up.
        if (this.hasEnded) this.done((last === NOTHING ? undefined : last) as R, last === NOTHING);
      },
    };
  }

  /** It has its whole answer. */
  protected answered(value: R): void {
    if (this.state !== OPEN) return;
    this.state = DONE;
    this.said(value, true);
    if (this.hasEnded) this.done(value, false);
  }

  protected ended(error: unknown): void {
    if (this.hasFailed(error)) this.failed(error);
  }

  private hasFailed(error: unknown): boolean {
    const isHeard = this.state === OPEN;
    if (isHeard) {
      this.state = FAILED;
      this.last = error;
    } else this.failedUnheard?.(error);
    return isHeard;
  }

  /** Its work has been called, and has answered with a promise or not. */
  protected returned(_promise: Promise<R> | undefined): void {
    this.state = this.state === CALLING ? OPEN : STOPPED;
  }
}

/** One whose values and end are those of somebody who has subscribed; it is given up when he leaves. */
export abstract class Relay<R> extends Call<R> {
  constructor(private readonly to: Subscriber<R>) {
    super();
    to.add(() => {
      this.stop();
    });
  }

  override said(value: R): void {
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
 * One with a permit, which is given back as its work lets it. Whoever is told of the end calls `release` when the result is out.
 *
 * One that has ended by itself can be used again after `renew`: then items that come one after the other need no object and no functions each.
 */
export abstract class PermittedCall<R> extends Call<R> {
  permit: Permit | undefined = undefined;
  /** As long as it is not settled. */
  private promise: Promise<unknown> | undefined = undefined;
  /** A release that waits for the work to return. */
  private due: (() => void) | undefined = undefined;

  /** Gives it up with its permit. One that has ended by itself is left, and has ended as it has. */
  cancel(outcome: Outcome = 'cancelled', error?: unknown): void {
    const { state } = this;
    this.stop();
    if (state === DONE) this.release();
    else if (state === FAILED) this.release('error', this.last);
    else this.release(outcome, error);
  }

  /**
   * Gives the permit back, once, as soon as that is due: that of a promise which was given up when it is really over or a grace has passed, all
   * others at once, and that of work which was never called as unused.
   */
  release(outcome: Outcome = 'ok', error?: unknown): void {
    const { permit, state } = this;
    if (permit === undefined) return;
    if (state === CALLING || state === STOPPED_CALLING) {
      this.due ??= () => {
        this.release(outcome, error);
      };
      return;
    }
    this.permit = undefined;
    if (state === NEW || state === UNSENT) permit.release('unused');
    else this.free(permit, outcome, error);
  }

  /** Makes it ready for the next piece of work; false for one that was given up, which may still be heard of. */
  renew(): boolean {
    if (this.state >= UNSENT) return false;
    this.state = NEW;
    this.last = NOTHING;
    this.ear = undefined;
    // It has never aborted; the next piece of work has one of its own.
    this.controller = undefined;
    return true;
  }

  protected override returned(promise: Promise<R> | undefined): void {
    const { due } = this;
    super.returned(promise);
    // Not for every promise: an old object that points to a young one is looked at in every collection.
    if (promise && this.permit) this.promise = promise;
    this.due = undefined;
    due?.();
  }

  protected override answered(value: R): void {
    this.promise = undefined;
    super.answered(value);
  }

  protected override ended(error: unknown): void {
    this.promise = undefined;
    super.ended(error);
  }

  protected free(permit: Permit, outcome: Outcome, error: unknown): void {
    if (this.promise) permit.releaseAfter(this.promise, error);
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

/** What comes later, as something a {@link Link} can listen to: an Observable of any RxJS, what says that it is one, async iterables and web streams. */
export function linkable<R>(answer: unknown): Observable<R> | undefined {
  if (typeof answer !== 'object' || answer === null) return undefined;
  if (isObservable(answer)) return answer as Observable<R>;
  const { observable = '@@observable' } = Symbol as { readonly observable?: symbol };
  const interop = (answer as Record<PropertyKey, unknown>)[observable] ?? (answer as Record<string, unknown>)['@@observable'];
  if (typeof interop === 'function') return (interop as () => Observable<R>).call(answer);
  const later = answer as { readonly [Symbol.asyncIterator]?: unknown };
  return typeof later[Symbol.asyncIterator] === 'function' || 'getReader' in later ? from(answer as AsyncIterable<R>) : undefined;
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

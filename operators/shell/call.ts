import type { Observable, ObservableInput } from 'rxjs';
import { from, Subscriber } from 'rxjs';
import type { AsyncContext } from '#async-context';
import type { Outcome, Permit } from '../options/permits.js';
import type { WorkResult } from '../options/types.js';
import { LazySignal } from './abort.js';
import { report } from './report.js';
import type { Reading } from './work.js';
import { isPromise, onlyOnce, streamOf } from './work.js';

const NEW = 0;
/** Its work has been called, and nobody has heard of an end. */
const OPEN = 1;
/** Its work has ended by itself, well or badly. */
const DONE = 2;
const FAILED = 3;
/** Given up, or left: nobody listens to it any more. */
const STOPPED = 4;

/**
 * One piece of work: started, listened to, given up, and its permit given back. The one place where that is done: engines extend it.
 *
 * `begin` calls `work`, and what comes of that is told, never after `stop`: every value to `said`, the end to `done` or `failed`, once. It
 * is over before that is told: whoever leaves then has nothing to abort. The work hears of being given up by `signal`, made on the first look.
 * Whoever is told of the end calls `release` when the result is out.
 *
 * One that has ended by itself can be used again after `renew`: then items that come one after the other need no object and no functions each.
 */
export abstract class Call<R> extends LazySignal {
  permit: Permit | undefined = undefined;
  /** When set, it says when the permit goes back: the other side of a connection sees that it was closed later than we close it. */
  giveBack: ((release: () => void) => void) | undefined = undefined;
  private state: typeof NEW | typeof OPEN | typeof DONE | typeof FAILED | typeof STOPPED = NEW;
  /** Whether the work was ever called, and whether it has returned since. */
  private wasCalled = false;
  private isCalling = false;
  /** The last value of a stream, and why the work has failed. */
  private last: R | undefined = undefined;
  private isEmpty = true;
  private failure: unknown = undefined;
  private ear: Subscriber<R> | undefined = undefined;
  /** As long as it is not settled. */
  private promise: Promise<unknown> | undefined = undefined;
  /** A release that waits for the work to return: only then it is known whether it is a promise. */
  private due: { readonly outcome: Outcome; readonly error: unknown } | undefined = undefined;
  /** Made once for all promises and streams of this object. */
  private resolved: ((value: R) => void) | undefined = undefined;
  private rejected: ((error: unknown) => void) | undefined = undefined;
  private self: (() => this) | undefined = undefined;

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

  /** Every value; a whole one is the entire answer. This one keeps the last for `done`; one that hands them on need not. */
  said(value: R, _isWhole: boolean): void {
    this.last = value;
    this.isEmpty = false;
  }

  /** Its stream has completed. Torn down before that is told; an own one may tell first, it is torn down in any case. */
  completed(): void {
    this.leave();
    // A teardown may have given it up.
    if (this.hasEnded) this.done(this.last as R, this.isEmpty);
  }

  /** Its stream has failed; the same. */
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

  /** Whether its work was ever called. */
  get isSent(): boolean {
    return this.wasCalled;
  }

  /** Starts it, in the context of whoever asked for it; not when it was given up before. */
  begin(context?: AsyncContext): void {
    if (this.state !== NEW) return;
    this.state = OPEN;
    this.wasCalled = true;
    if (context) context.run(perform, this);
    else this.perform();
  }

  /** Gives it up: its signal aborts and it is listened to no more, in this order; what it says to that is not its answer. */
  stop(): void {
    const isOpen = this.state === OPEN;
    this.state = STOPPED;
    if (isOpen) this.abort();
    this.leave();
  }

  /** Gives it up with its permit. One that has ended by itself is left, and has ended as it has. */
  cancel(outcome: Outcome = 'cancelled', error?: unknown): void {
    const { state } = this;
    this.stop();
    if (state === DONE) this.release();
    else if (state === FAILED) this.release('error', this.failure);
    else this.release(outcome, error);
  }

  /**
   * Gives the permit back, once, as soon as that is due: that of a promise which was given up when it is really over or a grace has passed, all
   * others at once, and that of work which was never called as unused.
   */
  release(outcome: Outcome = 'ok', error?: unknown): void {
    const { permit, giveBack } = this;
    if (permit === undefined) return;
    if (this.isCalling) {
      this.due ??= { outcome, error };
      return;
    }
    this.permit = undefined;
    if (giveBack === undefined || !this.wasCalled) this.free(permit, outcome, error);
    else
      giveBack(() => {
        this.free(permit, outcome, error);
      });
  }

  /** Makes it ready for the next piece of work; false for one that was given up, which may still be heard of. */
  renew(): boolean {
    if (this.state === STOPPED) return false;
    this.state = NEW;
    this.wasCalled = false;
    this.last = undefined;
    this.isEmpty = true;
    this.failure = undefined;
    this.ear = undefined;
    this.forget();
    return true;
  }

  /** Part of `begin`. */
  perform(): void {
    let stream: Observable<R> | undefined;
    let answer: unknown;
    this.isCalling = true;
    try {
      answer = this.work();
      if (isPromise(answer)) this.promise = onlyOnce(answer);
      else {
        stream = streamOf<R>(answer);
        if (stream === undefined && this.reading === 'input') stream = from(answer as ObservableInput<R>);
      }
    } catch (error) {
      this.hasReturned();
      this.ended(error);
      return;
    }
    this.hasReturned();
    if (this.promise) {
      // Also one that was given up meanwhile: nobody else listens to its failure.
      this.promise.then((this.resolved ??= this.whenResolved()) as (value: unknown) => void, (this.rejected ??= this.whenRejected()));
    } else if (this.state !== OPEN) return;
    else if (stream) this.listen(stream);
    else this.answered(answer as R);
  }

  /** Called by a stream that this listens to. */
  heard(value: R): void {
    if (this.state === OPEN) this.said(value, false);
  }

  /** Called by a stream that this listens to. */
  streamEnded(): void {
    if (this.state !== OPEN) return;
    this.state = DONE;
    this.completed();
  }

  /** Called by a stream that this listens to. */
  streamFailed(error: unknown): void {
    if (this.state === OPEN) {
      this.state = FAILED;
      this.failure = error;
      this.broken(error);
    } else this.failedUnheard?.(error);
  }

  /** Stops listening to a stream, which is torn down. */
  protected leave(): void {
    this.ear?.unsubscribe();
  }

  private listen(stream: Observable<R>): void {
    const ear = new Ear((this.self ??= () => this));
    this.ear = ear;
    try {
      stream.subscribe(ear);
    } catch (error) {
      ear.error(error);
    }
  }

  /** Functions are made once for all promises of this object. */
  private whenResolved(): (value: R) => void {
    return (value) => {
      this.promise = undefined;
      this.answered(value);
    };
  }

  private whenRejected(): (error: unknown) => void {
    return (error) => {
      this.promise = undefined;
      this.ended(error);
    };
  }

  /** It has its whole answer. */
  private answered(value: R): void {
    if (this.state !== OPEN) return;
    this.state = DONE;
    this.said(value, true);
    if (this.hasEnded) this.done(value, false);
  }

  private ended(error: unknown): void {
    if (this.state === OPEN) {
      this.state = FAILED;
      this.failure = error;
      this.failed(error);
    } else this.failedUnheard?.(error);
  }

  private hasReturned(): void {
    const { due } = this;
    this.isCalling = false;
    this.due = undefined;
    if (due) this.release(due.outcome, due.error);
  }

  private free(permit: Permit, outcome: Outcome, error: unknown): void {
    if (!this.wasCalled) permit.release('unused');
    else if (this.promise) permit.releaseAfter(this.promise, error);
    else permit.release(outcome, error);
  }
}

function perform(call: { perform(): void }): void {
  call.perform();
}

/**
 * Listens to one stream of a call. What it knows is behind a function and nothing is `#private`: a `Subject` inside Vue's `reactive` calls it
 * through a proxy, which hands out every object in it as a proxy too, and RxJS 5 and 6 through an object made of it.
 */
// eslint-disable-next-line rxjs-x/no-subclass -- can be left before its source has finished subscribing, and costs less than an observer
class Ear<R> extends Subscriber<R> {
  private readonly call: () => Call<R>;

  constructor(call: () => Call<R>) {
    // eslint-disable-next-line @typescript-eslint/no-deprecated -- as above
    super();
    this.call = call;
  }

  /** A teardown of yours that throws is reported, and costs neither the result nor the permit. */
  override unsubscribe(): void {
    try {
      super.unsubscribe();
    } catch (error) {
      report(error);
    }
  }

  protected override _next(value: R): void {
    this.call().heard(value);
  }

  protected override _error(error: unknown): void {
    this.call().streamFailed(error);
    this.unsubscribe();
  }

  protected override _complete(): void {
    this.call().streamEnded();
    this.unsubscribe();
  }
}

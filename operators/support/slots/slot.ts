/* eslint-disable rxjs-x/no-subclass, @typescript-eslint/no-deprecated -- one object per inner stream instead of a partial observer and
   its closures, which can be left before its source has finished subscribing */
import type { Observable } from 'rxjs';
import { Subscriber } from 'rxjs';
import type { Linked } from '../../kernel/queues/chain.js';
import type { KeyLane } from '../../kernel/queues/keyed-lanes.js';
import type { ItemContext } from '../../options/types.js';
import { LazySignal } from '../../shell/abort.js';
import { report } from '../../shell/report.js';
import type { Lease } from '../limiting/limiter-types.js';

/** Who is told what becomes of the work in a slot. */
export interface SlotOwner<T, R> {
  emitted(slot: Slot<T, R>, value: R): void;
  completed(slot: Slot<T, R>): void;
  resolved(slot: Slot<T, R>, value: R): void;
  failed(slot: Slot<T, R>, error: unknown): void;
}

/** What the work in a slot is told. The slot does not hold on to it, or every item would have to be written down as young in an old place. */
class SlotContext<T, R> implements ItemContext {
  readonly #slot: Slot<T, R>;
  #signal: AbortSignal | undefined;

  constructor(
    slot: Slot<T, R>,
    readonly index: number,
    readonly key: unknown,
  ) {
    this.#slot = slot;
  }

  get signal(): AbortSignal {
    return (this.#signal ??= this.#slot.signalOf(this.index));
  }
}

/**
 * A place for one piece of work under way, used for one after the other: the handlers of a promise are made once per slot, not once per
 * item.
 */
export class Slot<T, R> implements Linked<Slot<T, R>> {
  /** The key of the item; undefined while nobody waits for the work. */
  lane: KeyLane<T> | undefined = undefined;
  item: T | undefined = undefined;
  index = -1;
  lease: Lease | undefined = undefined;
  /** The last value of an Observable. */
  value: R | undefined = undefined;
  /** Why its work failed. */
  failure: { readonly error: unknown } | undefined = undefined;
  hasEnded = false;
  expiresAt = Infinity;
  /** False once its work was given up: a promise may still call back, and somebody may look at the signal. */
  isReusable = true;
  /** Neighbours in the list of those under way. */
  previous: Slot<T, R> | undefined = undefined;
  next: Slot<T, R> | undefined = undefined;
  readonly #owner: SlotOwner<T, R>;
  #hears: Hears<R> | undefined = undefined;
  #abort: LazySignal | undefined = undefined;
  #inner: Inner<R> | undefined = undefined;
  /** Only kept for a lease. */
  #promise: Promise<R> | undefined = undefined;
  readonly #resolved = (value: R): void => {
    if (this.isHeard) this.#owner.resolved(this, value);
  };
  readonly #rejected = (error: unknown): void => {
    if (this.isHeard) this.#owner.failed(this, error);
  };

  constructor(owner: SlotOwner<T, R>) {
    this.#owner = owner;
  }

  /** Whether somebody waits for the work. */
  get isTaken(): boolean {
    return this.lane !== undefined;
  }

  /** Not any more once it was given up: an abort may make a promise or a stream say something in the middle of it. */
  private get isHeard(): boolean {
    return this.isTaken && this.isReusable;
  }

  begin(lane: KeyLane<T>, item: T, index: number, lease: Lease | undefined): ItemContext {
    this.lane = lane;
    this.item = item;
    this.index = index;
    this.lease = lease;
    return new SlotContext(this, index, lane.key);
  }

  /** The signal of an item's work; of one that is over it stays silent. */
  signalOf(index: number): AbortSignal {
    return index === this.index ? this.#aborter().signal : new LazySignal().signal;
  }

  follow(promise: Promise<R>): void {
    if (this.lease) this.#promise = promise;
    promise.then(this.#resolved, this.#rejected);
  }

  subscribeTo(stream: Observable<R>): void {
    const inner = new Inner((this.#hears ??= this.#makeHears()));
    this.#inner = inner;
    try {
      stream.subscribe(inner);
    } catch (error) {
      inner.error(error);
    }
  }

  /** Stops listening to an Observable. */
  leave(): void {
    this.#inner?.unsubscribe();
  }

  /** Gives the work up. A promise goes on, and keeps its permit for a while. The signal of work that has ended by itself stays silent. */
  letGo(): void {
    const { lease, failure } = this;
    this.lease = undefined;
    this.isReusable = false;
    this.leave();
    if (!this.hasEnded) this.#aborter().abort();
    if (this.#promise) lease?.releaseAfter(this.#promise, failure?.error);
    else lease?.release(failure ? 'error' : 'cancelled', failure?.error);
  }

  /** Nobody waits for the work any more. */
  end(): void {
    this.lane = undefined;
    this.item = undefined;
    this.lease = undefined;
    this.value = undefined;
    this.failure = undefined;
    this.hasEnded = false;
    this.#inner = undefined;
    this.#promise = undefined;
    if (!this.isReusable) return;
    this.index = -1;
    this.#abort = undefined;
  }

  #aborter(): LazySignal {
    return (this.#abort ??= new LazySignal());
  }

  #makeHears(): Hears<R> {
    return {
      next: (value) => {
        this.#owner.emitted(this, value);
      },
      error: this.#rejected,
      complete: () => {
        this.#owner.completed(this);
      },
    };
  }
}

/** The ears of a slot, made once for all its streams. */
interface Hears<R> {
  readonly next: (value: R) => void;
  readonly error: (error: unknown) => void;
  readonly complete: () => void;
}

/**
 * Listens to one inner Observable. Its fields are functions and nothing is `#private`: a `Subject` inside Vue's `reactive` calls it through a
 * proxy, which hands out every object in it as a proxy too.
 */
class Inner<R> extends Subscriber<R> {
  private readonly onNext: (value: R) => void;
  private readonly onError: (error: unknown) => void;
  private readonly onComplete: () => void;

  constructor({ next, error, complete }: Hears<R>) {
    super();
    this.onNext = next;
    this.onError = error;
    this.onComplete = complete;
  }

  /** A teardown of yours that throws is reported, and costs neither the result nor the slot. */
  override unsubscribe(): void {
    try {
      super.unsubscribe();
    } catch (error) {
      report(error);
    }
  }

  protected override _next(value: R): void {
    this.onNext(value);
  }

  protected override _error(error: unknown): void {
    this.onError(error);
    this.unsubscribe();
  }

  /** Torn down first, so that it is gone before the next one starts. */
  protected override _complete(): void {
    this.unsubscribe();
    this.onComplete();
  }
}

/* eslint-disable rxjs-x/no-subclass, @typescript-eslint/no-deprecated -- one object per inner stream instead of a partial observer and
   its closures, which can be left before its source has finished subscribing */
import type { Observable } from 'rxjs';
import { Subscriber } from 'rxjs';
import type { Linked } from '../../kernel/chain.js';
import type { KeyLane } from '../../kernel/keyed-lanes.js';
import { LazySignal } from '../abort.js';
import type { Lease } from '../limiting/limiter-types.js';
import type { ItemContext } from '../types.js';

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
  expiresAt = Infinity;
  /** False once its work was given up: a promise may still call back, and somebody may look at the signal. */
  isReusable = true;
  /** Neighbours in the list of those under way. */
  previous: Slot<T, R> | undefined = undefined;
  next: Slot<T, R> | undefined = undefined;
  readonly #owner: SlotOwner<T, R>;
  #abort: LazySignal | undefined = undefined;
  #inner: Inner<T, R> | undefined = undefined;
  /** Only kept for a lease. */
  #promise: Promise<R> | undefined = undefined;
  readonly #resolved = (value: R): void => {
    if (this.lane) this.#owner.resolved(this, value);
  };
  readonly #rejected = (error: unknown): void => {
    if (this.lane) this.#owner.failed(this, error);
  };

  constructor(owner: SlotOwner<T, R>) {
    this.#owner = owner;
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

  subscribeTo(work: () => Observable<R>): void {
    const inner = new Inner(this, this.#owner);
    this.#inner = inner;
    try {
      work().subscribe(inner);
    } catch (error) {
      inner.error(error);
    }
  }

  /** Stops listening to an Observable. */
  leave(): void {
    this.#inner?.unsubscribe();
  }

  /** Gives the work up. A promise goes on, and keeps its permit for a while. */
  letGo(): void {
    const { lease, failure } = this;
    this.lease = undefined;
    this.isReusable = false;
    try {
      this.leave();
    } finally {
      this.#aborter().abort();
      if (this.#promise) lease?.releaseAfter(this.#promise, failure?.error);
      else lease?.release(failure ? 'error' : 'cancelled', failure?.error);
    }
  }

  /** Nobody waits for the work any more. */
  end(): void {
    this.lane = undefined;
    this.item = undefined;
    this.lease = undefined;
    this.value = undefined;
    this.failure = undefined;
    this.#inner = undefined;
    this.#promise = undefined;
    if (!this.isReusable) return;
    this.index = -1;
    this.#abort = undefined;
  }

  #aborter(): LazySignal {
    return (this.#abort ??= new LazySignal());
  }
}

/** Listens to one inner Observable. */
class Inner<T, R> extends Subscriber<R> {
  readonly #slot: Slot<T, R>;
  readonly #owner: SlotOwner<T, R>;

  constructor(slot: Slot<T, R>, owner: SlotOwner<T, R>) {
    super();
    this.#slot = slot;
    this.#owner = owner;
  }

  protected override _next(value: R): void {
    this.#owner.emitted(this.#slot, value);
  }

  protected override _error(error: unknown): void {
    this.#owner.failed(this.#slot, error);
    this.unsubscribe();
  }

  /** Torn down first, so that it is gone before the next one starts. */
  protected override _complete(): void {
    try {
      this.unsubscribe();
    } finally {
      this.#owner.completed(this.#slot);
    }
  }
}

/* eslint-disable rxjs-x/no-subclass, @typescript-eslint/no-deprecated -- one object per inner stream instead of a partial observer and
   its closures, which can be left before its source has finished subscribing */
import type { Observable } from 'rxjs';
import { Subscriber } from 'rxjs';
import type { KeyLane } from '../kernel/keyed-lanes.js';
import { ItemCall } from './item-call.js';
import type { Lease } from './limiter-types.js';

/** Who is told what becomes of the work in a slot. */
export interface SlotOwner<T, R> {
  emitted(slot: Slot<T, R>, value: R): void;
  completed(slot: Slot<T, R>): void;
  failed(slot: Slot<T, R>, error: unknown): void;
}

const NO_CALL = new ItemCall(-1, undefined);

/**
 * A place for one piece of work under way, used for one after the other: the handlers of a promise are made once per slot, not once per
 * item.
 */
export class Slot<T, R> {
  /** The key of the item; undefined while the slot is idle. */
  lane: KeyLane<T> | undefined;
  item: T | undefined;
  call = NO_CALL;
  lease: Lease | undefined;
  /** The last value. */
  value: R | undefined;
  expiresAt = Infinity;
  /** Neighbours in the list of those under way. */
  previous: Slot<T, R> | undefined;
  next: Slot<T, R> | undefined;
  readonly #owner: SlotOwner<T, R>;
  #inner: Inner<T, R> | undefined;
  #promise: Promise<R> | undefined;
  readonly #resolved = (value: R): void => {
    this.#promise = undefined;
    if (this.lane) this.#owner.emitted(this, value);
    if (this.lane) this.#owner.completed(this);
  };
  readonly #rejected = (error: unknown): void => {
    this.#promise = undefined;
    if (this.lane) this.#owner.failed(this, error);
  };

  constructor(owner: SlotOwner<T, R>) {
    this.#owner = owner;
  }

  /** False while a promise that was given up may still call back. */
  get isReusable(): boolean {
    return this.#promise === undefined;
  }

  begin(lane: KeyLane<T>, item: T, call: ItemCall, lease: Lease | undefined): void {
    this.lane = lane;
    this.item = item;
    this.call = call;
    this.lease = lease;
  }

  follow(promise: Promise<R>): void {
    this.#promise = promise;
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
    const { lease } = this;
    this.lease = undefined;
    try {
      this.leave();
    } finally {
      this.call.abort();
      if (this.#promise) lease?.releaseAfter(this.#promise);
      else lease?.release('cancelled');
    }
  }

  /** The slot is idle, and holds on to nothing. */
  end(): void {
    this.lane = undefined;
    this.item = undefined;
    this.call = NO_CALL;
    this.lease = undefined;
    this.value = undefined;
    this.#inner = undefined;
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

/** Slots under way, in the order in which they started: a chain through the slots themselves. */
export class SlotList<T, R> {
  first: Slot<T, R> | undefined;
  length = 0;
  #last: Slot<T, R> | undefined;

  add(slot: Slot<T, R>): void {
    slot.previous = this.#last;
    if (this.#last) this.#last.next = slot;
    else this.first = slot;
    this.#last = slot;
    this.length++;
  }

  delete(slot: Slot<T, R>): void {
    const { previous, next } = slot;
    if (previous) previous.next = next;
    else this.first = next;
    if (next) next.previous = previous;
    else this.#last = previous;
    slot.previous = undefined;
    slot.next = undefined;
    this.length--;
  }
}

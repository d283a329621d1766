import type { ObservableInput } from 'rxjs';
import type { KeyLane } from '../kernel/queues/key-lane.js';
import type { Permit } from '../options/permits.js';
import type { ItemContext, WorkResult } from '../options/types.js';
import { LazySignal } from './abort.js';
import { PermittedCall } from './call.js';
import type { Reading } from './work.js';

/** Whose items they are. */
export interface ItemOwner<T, R> {
  /** Whether an item has one result, its last value, instead of every value. */
  readonly settles: boolean;
  project(item: T, context: ItemContext): WorkResult<R> | ObservableInput<R>;
  emitted(index: number, value: R): void;
  done(call: ItemCall<T, R>, value: R, isEmpty: boolean): void;
  failed(call: ItemCall<T, R>, error: unknown): void;
}

/** What the work for an item is told. The call does not hold on to it: it goes on to the next item. */
class Context<T, R> implements ItemContext {
  private readonly call: ItemCall<T, R>;
  private made: AbortSignal | undefined = undefined;
  readonly index: number;
  readonly key: unknown;

  constructor(call: ItemCall<T, R>, index: number, key: unknown) {
    this.call = call;
    this.index = index;
    this.key = key;
  }

  get signal(): AbortSignal {
    return (this.made ??= this.call.signalOf(this.index));
  }
}

/** The work for one item, used again for the next one. */
export class ItemCall<T, R> extends PermittedCall<R> {
  lane: KeyLane<T> | undefined = undefined;
  item: T | undefined = undefined;
  index = -1;
  /** When it has taken too long. */
  expiresAt = Infinity;
  /** Where its owner keeps it, and how many had started before it. */
  place = 0;
  startedAs = 0;
  private readonly owner: ItemOwner<T, R>;

  constructor(owner: ItemOwner<T, R>) {
    super();
    this.owner = owner;
  }

  override get reading(): Reading {
    return this.owner.settles ? 'value' : 'input';
  }

  take(place: number, lane: KeyLane<T>, item: T, index: number, permit: Permit | undefined): void {
    this.place = place;
    this.lane = lane;
    this.item = item;
    this.index = index;
    this.permit = permit;
  }

  /** Its item is over; whether it can be used for another. */
  isFree(): boolean {
    this.lane = undefined;
    this.item = undefined;
    if (!this.renew()) return false;
    this.index = -1;
    return true;
  }

  /** The signal of an item's work; of one that is over it stays silent. */
  signalOf(index: number): AbortSignal {
    return index === this.index ? this.signal : new LazySignal().signal;
  }

  work(): WorkResult<R> | ObservableInput<R> {
    const { index } = this;
    return this.owner.project(this.item as T, new Context(this, index, this.lane?.key));
  }

  override said(value: R, isWhole: boolean): void {
    if (this.owner.settles) super.said(value, isWhole);
    else if (!isWhole) this.owner.emitted(this.index, value);
  }

  /** Where the first error is the end, the consumer hears of it before the stream is torn down, as in `mergeMap`. */
  override broken(error: unknown): void {
    if (this.owner.settles) super.broken(error);
    else this.failed(error);
  }

  done(value: R, isEmpty: boolean): void {
    this.owner.done(this, value, isEmpty);
  }

  failed(error: unknown): void {
    this.owner.failed(this, error);
  }
}

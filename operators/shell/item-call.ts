import type { ObservableInput } from 'rxjs';
import type { KeyLane } from '../kernel/queues/key-lane.js';
import type { Linked } from '../kernel/queues/line.js';
import type { Permit } from '../options/permits.js';
import type { ItemContext, WorkResult } from '../options/types.js';
import { LazySignal } from './abort.js';
import type { Reading } from './call.js';
import { PermittedCall } from './call.js';
import type { ItemConfig } from './item-options.js';

/** The shell, as its calls see it. */
export interface ItemOwner<T, R> {
  readonly config: ItemConfig<T, R>;
  readonly settles: boolean;
  emitted(call: ItemCall<T, R>, value: R): void;
  ended(call: ItemCall<T, R>, failed: boolean, outcome: unknown, isEmpty?: boolean): void;
}

/** The context of the work for one item. Not the call itself: that goes on to the next item. */
class Context<T, R> implements ItemContext {
  private made: AbortSignal | undefined = undefined;

  constructor(
    private readonly call: ItemCall<T, R>,
    readonly index: number,
    readonly key: unknown,
  ) {}

  get signal(): AbortSignal {
    return (this.made ??= this.call.signalOf(this.index));
  }
}

/** The work for one item, used again for the next one. */
export class ItemCall<T, R> extends PermittedCall<R> implements Linked<ItemCall<T, R>> {
  previous: ItemCall<T, R> | undefined = undefined;
  next: ItemCall<T, R> | undefined = undefined;
  /** The lane of its item; undefined while it has none. */
  lane: KeyLane<T> | undefined = undefined;
  input: T | undefined = undefined;
  /** The index of its item; -1 while it has none. */
  index = -1;
  at = 0;
  startedAt = 0;

  constructor(private readonly owner: ItemOwner<T, R>) {
    super();
  }

  override get reading(): Reading {
    return this.owner.settles ? 'value' : 'input';
  }

  /** What events say of it: a call has one item and is not repeated. */
  get fields() {
    return { seq: this.index, batchId: String(this.index), size: 1, attempt: 1 };
  }

  /** Makes it the call of the next item in this lane. */
  take(lane: KeyLane<T>, permit: Permit | undefined, startedAt: number): void {
    this.lane = lane;
    this.index = lane.headIndex;
    this.at = lane.headAt;
    this.permit = permit;
    this.startedAt = startedAt;
  }

  /** Drops its item, which is over. Whether it can be used for another one. */
  recycle(): boolean {
    this.permit = this.lane = this.input = undefined;
    if (!this.renew()) return false;
    this.index = -1;
    return true;
  }

  /** The signal of an item's work. For an item that is over, one that never aborts. */
  signalOf(index: number): AbortSignal {
    return index === this.index ? this.signal : new LazySignal().signal;
  }

  work(): WorkResult<R> | ObservableInput<R> {
    return this.owner.config.project(this.input as T, new Context(this, this.index, this.lane?.key));
  }

  override got(value: R, isWhole: boolean): void {
    if (this.owner.settles) super.got(value, isWhole);
    else if (!isWhole) this.owner.emitted(this, value);
  }

  /** With `errors: 'propagate'` the consumer gets the error before the stream is torn down, as in `mergeMap`. */
  override broken(error: unknown): void {
    if (this.owner.settles) super.broken(error);
    else this.failed(error);
  }

  done(value: R, isEmpty: boolean): void {
    this.owner.ended(this, false, value, isEmpty);
  }

  failed(error: unknown): void {
    this.owner.ended(this, true, error);
  }
}

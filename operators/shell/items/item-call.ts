import type { Observable, ObservableInput } from 'rxjs';
import type { KeyLane, LaneItem } from '../../kernel/queues/key-lane.js';
import type { Linked } from '../../kernel/queues/line.js';
import type { Permit } from '../../options/permits.js';
import type { ItemContext, WorkResult } from '../../options/types.js';
import { LazySignal } from '../calls/abort.js';
import { inputOf, PermittedCall } from '../calls/call.js';
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

  /** For an item that is over, one that never aborts. */
  get signal(): AbortSignal {
    return (this.made ??= (this.index === this.call.index ? this.call : new LazySignal()).signal);
  }
}

/** The work for one item, used again for the next one. */
export class ItemCall<T, R> extends PermittedCall<R> implements LaneItem<T>, Linked<ItemCall<T, R>> {
  previous: ItemCall<T, R> | undefined = undefined;
  next: ItemCall<T, R> | undefined = undefined;
  lane: KeyLane<T> | undefined = undefined;
  input!: T;
  /** The index of its item; -1 while it has none. */
  index = -1;
  at = 0;
  startedAt = 0;

  constructor(private readonly owner: ItemOwner<T, R>) {
    super();
  }

  /** Makes it the call of the next item in this lane, which is still to be taken out. */
  take(lane: KeyLane<T>, permit: Permit | undefined, startedAt: number): void {
    this.lane = lane;
    this.index = lane.headIndex;
    this.at = lane.headAt;
    this.permit = permit;
    this.startedAt = startedAt;
  }

  /** Lets go of its item, which is over. Whether it can be used for another one. */
  recycle(): boolean {
    this.input = undefined as T;
    if (!this.renew()) return false;
    this.index = -1;
    return true;
  }

  work(): WorkResult<R> | ObservableInput<R> {
    return this.owner.config.project(this.input, new Context(this, this.index, this.lane?.key));
  }

  protected override streamIn(answer: unknown): Observable<R> | undefined {
    return this.owner.settles ? super.streamIn(answer) : inputOf(answer);
  }

  override got(value: R): void {
    if (this.owner.settles) super.got(value);
    else if (!this.hasEnded) this.owner.emitted(this, value);
  }

  /** With `errors: 'propagate'` the consumer gets the error before the stream is torn down, as in `mergeMap`. */
  protected override leave(): void {
    if (this.owner.settles || !this.hasFailed) super.leave();
  }

  done(value: R, isEmpty: boolean): void {
    this.owner.ended(this, false, value, isEmpty);
  }

  failed(error: unknown): void {
    this.owner.ended(this, true, error);
  }
}

import { keepLast, MOST_LEAVERS } from './bounds.js';
import type { Sums } from './counters.js';
import type { FlowBatch, FlowInstance, FlowItem, FlowLane, ItemState } from './flow-parts.js';

/** The items without a result: the one place where one changes, and what that does to its lane, its calls and the totals. */
export class FlowItems {
  /** Items that are told apart. */
  tracked = 0;
  /** Items that were too many to be told apart, or waited before the model listened. */
  untracked = 0;

  /** @param returned - calls that are over while some of their items have no result yet */
  constructor(
    private readonly sums: Sums,
    private readonly returned: Set<FlowBatch>,
  ) {}

  track(instance: FlowInstance, id: string | number, lane: FlowLane): FlowItem {
    const item: FlowItem = { id, instance, lane, state: 'waiting', isOpen: true, batch: undefined, calls: 0 };
    instance.items.set(id, item);
    instance.open++;
    this.tracked++;
    lane.waiting.add(item);
    return item;
  }

  found(instance: FlowInstance, id: string | number, lane: FlowLane): FlowItem | undefined {
    const item = instance.items.get(id);
    if (item) return item;
    if (this.untracked <= 0) return undefined;
    this.untracked--;
    return this.track(instance, id, lane);
  }

  /** The item was cancelled. It is kept for a while, because later events may name it. */
  leave({ leavers, items }: FlowInstance, item: FlowItem): void {
    this.move(item, 'cancelled');
    this.sums.cancelled++;
    const over = keepLast(leavers, item.id, MOST_LEAVERS);
    if (over !== undefined) items.delete(over);
  }

  /** The one place where an item changes. */
  move(item: FlowItem, state: ItemState): void {
    const { state: was, isOpen, lane, instance } = item;
    const sums = this.sums;
    if (was === state) return;
    if (was === 'waiting') lane.waiting.delete(item);
    if (was === 'waiting' || was === 'returned') sums.waiting--;
    if (was === 'executing') lane.executing--;
    // A result is told of what was given up before.
    if (was === 'cancelled') sums.cancelled--;
    item.state = state;
    item.isOpen = state === 'returned' || state === 'executing';
    if (state === 'returned') sums.waiting++;
    if (state === 'executing') lane.executing++;
    if (state === 'lost') sums.lost++;
    if (isOpen !== item.isOpen) instance.open += isOpen ? -1 : 1;
    if (!isOpen || item.isOpen) return;
    this.tracked--;
    for (let batch = item.batch; batch; batch = batch.parent) {
      batch.open--;
      this.maybeGone(batch);
    }
  }

  /** A call that is over, and without items to send again, is kept as a line of its tree only. */
  maybeGone(batch: FlowBatch): void {
    if (batch.outcome === 'executing') return;
    const isEmpty = batch.open <= 0;
    if (isEmpty || !batch.items.some((item) => item.batch === batch && item.isOpen)) this.returned.delete(batch);
    if (!isEmpty) return;
    batch.items = [];
    const { batches } = batch.instance;
    if (batches.get(batch.id) === batch) batches.delete(batch.id);
  }
}

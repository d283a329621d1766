import type { OrderedValues } from './ordered-values.js';
import type { ReorderBuffer } from './reorder-buffer.js';

/**
 * The value of an `order` option: in which order results go out. Made by `inputOrder()` and `orderPerKey()`; without one results go out as calls end.
 * @stable
 */
export interface Order<in T> {
  /** Results of equal keys keep the order of their items; without it all do. */
  readonly keyOf?: ((item: T) => unknown) | undefined;
  /** Whether the item that all results wait for is the only one worked on once too many are held back. */
  readonly gates: boolean;
  lines(...args: never[]): object;
}

/** Internal side of `Order`: creates the buffers that hold results back. */
export interface OrderRule<in T> extends Order<T> {
  /** Holds back what is ready until its turn has come, and then hands it to `out`, which must not call it. */
  lines<E>(out: (entry: E) => void): ReorderBuffer<E>;
  /** The same for items that say more than one thing. */
  values<V>(out: (value: V) => void): OrderedValues<V>;
}

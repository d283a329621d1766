import type { Order, OrderRule } from './kernel/queues/order.js';
import { OrderedValues } from './kernel/queues/ordered-values.js';
import { ReorderBuffer } from './kernel/queues/reorder-buffer.js';
import { requiredFunction } from './options/options.js';

export type { Order } from './kernel/queues/order.js';

function lines<E>(out: (entry: E) => void): ReorderBuffer<E> {
  return new ReorderBuffer(out);
}

function values<V>(out: (value: V) => void): OrderedValues<V> {
  return new OrderedValues(out);
}

const ALL: OrderRule<unknown> = { gates: true, lines, values };

/**
 * Results go out in the order of their items, rejected ones in their places. Those held back count towards `maxQueued` (1000 of them while that is
 * Infinity); at that bound only the item that all wait for is worked on.
 *
 * @stable
 * @example
 * ```ts
 * import { of } from 'rxjs';
 * import { batchMap, inputOrder } from 'sluice/operators';
 *
 * const double = (items: readonly number[]) => of(items.map((item) => item * 2));
 * const values: number[] = [];
 * of(1, 2, 3).pipe(batchMap(double, { maxSize: 1, order: inputOrder() })).subscribe((settled) => {
 *   if (settled.status === 'fulfilled') values.push(settled.value);
 * });
 * values; // => [2, 4, 6]
 * ```
 */
export function inputOrder(): Order<unknown> {
  return ALL;
}

/**
 * Results whose items have the same key go out in the order of these; others do not wait. Orders the output only: for one call at a time per key
 * take `bulkheadMap` with `perKey: 1`.
 *
 * @stable
 * @param key - Compared as a `Map` does. One that throws rejects its item.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) when the key is no function.
 * @example
 * ```ts
 * import { delay, of } from 'rxjs';
 * import { bulkheadMap, orderPerKey } from 'sluice/operators';
 *
 * const seen: string[] = [];
 * const run = (item: string) => (item === 'a1' ? of(item).pipe(delay(1)) : of(item));
 * await of('a1', 'a2', 'b1').pipe(bulkheadMap(run, { order: orderPerKey((item) => item[0]) })).forEach(({ input }) => seen.push(input));
 * seen; // => ['b1', 'a1', 'a2']
 * ```
 */
export function orderPerKey<T>(key: (item: T) => unknown): Order<T> {
  const rule: OrderRule<T> = { keyOf: requiredFunction('orderPerKey', 'key', key), gates: false, lines, values };
  return rule;
}

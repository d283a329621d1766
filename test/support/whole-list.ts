import type { Observable } from 'rxjs';
import { toArray } from 'rxjs';
import type { BatchMapFromOptions, BatchWork, Settled } from '../../operators/index.js';
import { batchMapFrom, divideAndConquer, inputOrder } from '../../operators/index.js';

/** Without bounds the whole list is one call, and results come in the order of the list. */
const whole = { maxSize: Infinity, maxWeight: Infinity, maxQueued: Infinity, order: inputOrder() };

/** A list outside a stream: one call, cut up when it fails, and one list of results. */
export function wholeList<T, R>(
  work: BatchWork<T, R>,
  options: BatchMapFromOptions<T, NoInfer<R>> = {},
): (items: readonly T[]) => Observable<Settled<T, R>[]> {
  const all = { repair: divideAndConquer(), ...whole, ...options };
  return (items) => batchMapFrom<T, R>(items, work, all).pipe(toArray());
}

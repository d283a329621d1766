import { durationMs } from './options/options.js';
import type { Window } from './shell/batch/batch-options.js';

export type { Window, WindowContext } from './shell/batch/batch-options.js';

/**
 * A batch that is not full leaves at once when a permit is free.
 *
 * @stable
 * @example
 * ```ts
 * import { from } from 'rxjs';
 * import { batchMap, natural } from 'sluice/operators';
 *
 * const sizes: number[] = [];
 * const work = async (items: readonly number[]) => {
 *   sizes.push(items.length);
 *   return items;
 * };
 * await from([1, 2, 3]).pipe(batchMap(work, { maxSize: 2, window: natural() })).forEach(() => undefined);
 * sizes; // => [2, 1]
 * ```
 */
export function natural(): Window {
  return () => 0;
}

/**
 * A batch that is not full is held for company for so long, counted from its oldest item.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) for anything but a number of milliseconds.
 * @example
 * ```ts
 * import { from } from 'rxjs';
 * import { batchMap, fixed } from 'sluice/operators';
 *
 * const sizes: number[] = [];
 * const work = async (items: readonly number[]) => {
 *   sizes.push(items.length);
 *   return items;
 * };
 * await from([1, 2, 3]).pipe(batchMap(work, { maxSize: 2, window: fixed(5) })).forEach(() => undefined);
 * sizes; // => [2, 1]
 * ```
 */
export function fixed(ms: number): Window {
  const heldMs = durationMs('fixed', 'ms', ms);
  return () => heldMs;
}

/**
 * A batch that is not full is held the longer, the more slots are busy or the more of the rate is spent: not at all when nothing is, up to `maxMs`
 * when all is. The default, with 100 ms.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) for anything but a number of milliseconds.
 * @example
 * ```ts
 * import { from } from 'rxjs';
 * import { batchMap, graded } from 'sluice/operators';
 *
 * const sizes: number[] = [];
 * const work = async (items: readonly number[]) => {
 *   sizes.push(items.length);
 *   return items;
 * };
 * await from([1, 2, 3]).pipe(batchMap(work, { maxSize: 2, window: graded(5) })).forEach(() => undefined);
 * sizes; // => [2, 1]
 * ```
 */
export function graded(maxMs: number): Window {
  const mostMs = durationMs('graded', 'maxMs', maxMs);
  return ({ load }) => (load === 0 ? 0 : mostMs * load);
}

import { checked, count, positive } from './options/options.js';
import type { LoadCache, LoadCacheRule } from './shell/load-cache.js';
import { KeptValues } from './shell/load-cache.js';

export type { LoadCache } from './shell/load-cache.js';

/** Options of {@link lruCache}. */
export interface LruCacheOptions {
  /** Most values kept. One more pushes out the one that was not asked for longest. Infinity for a batcher that lives no longer than a request. */
  readonly maxEntries: number;
  /** How long a value is good, in ms from when it was stored; no timer runs. @defaultValue Infinity */
  readonly ttlMs?: number;
}

const CHECKS = /* @__PURE__ */ (() => ({ maxEntries: count, ttlMs: positive }))();

/**
 * A `cache` of a batcher: remembers so many values for later loads of equal keys, those asked for last. Failures are not remembered.
 *
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { createBatcher, lruCache } from 'sluice/operators';
 *
 * const calls: number[][] = [];
 * const work = async (items: readonly number[]) => {
 *   calls.push([...items]);
 *   return items.map((item) => item * item);
 * };
 * const squares = createBatcher(work, { cache: lruCache({ maxEntries: 1000, ttlMs: 60_000 }) });
 * await squares.loadManyAsync([2, 3]);
 * await squares.loadAsync(3); // => 9
 * calls; // => [[2, 3]]
 * ```
 */
export function lruCache(options: LruCacheOptions): LoadCache {
  const { maxEntries, ttlMs } = checked('lruCache', options, { ttlMs: Infinity }, CHECKS);
  const rule: LoadCacheRule = { create: (scheduler) => new KeptValues(scheduler, maxEntries, ttlMs) };
  return rule;
}

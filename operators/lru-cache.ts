import { LRU_CACHE } from './options/defaults.js';
import { checked, count, positive } from './options/options.js';
import type { LoadCache, LoadCacheRule } from './shell/batch/load-cache.js';
import { KeptValues } from './shell/batch/load-cache.js';

export type { LoadCache } from './shell/batch/load-cache.js';

/**
 * Options of {@link lruCache}.
 * @stable
 */
export interface LruCacheOptions {
  /** How long a value is good, in ms from when it was stored; no timer runs. @defaultValue Infinity */
  readonly ttlMs?: number;
}

const CHECKS = /* @__PURE__ */ (() => ({ ttlMs: positive }))();

/**
 * A `cache` of a batcher: remembers so many values for later loads of equal keys, those asked for last. Failures are not remembered.
 *
 * @stable
 * @param maxEntries - Most values kept. One more pushes out the one that was not asked for longest. Infinity for a batcher that lives no longer than a request.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when `maxEntries` or an option is out of range, or an option unknown.
 * @example
 * ```ts
 * import { createBatcher, lruCache } from 'sluice/operators';
 *
 * const calls: number[][] = [];
 * const work = async (items: readonly number[]) => {
 *   calls.push([...items]);
 *   return items.map((item) => item * item);
 * };
 * const squares = createBatcher(work, { cache: lruCache(1000, { ttlMs: 60_000 }) });
 * await squares.loadManyAsync([2, 3]);
 * await squares.loadAsync(3); // => 9
 * calls; // => [[2, 3]]
 * ```
 */
export function lruCache(maxEntries: number, options: LruCacheOptions = {}): LoadCache {
  count('lruCache', 'maxEntries', maxEntries);
  const { ttlMs } = checked('lruCache', options, LRU_CACHE, CHECKS);
  const rule: LoadCacheRule = { create: (scheduler) => new KeptValues(scheduler, maxEntries, ttlMs) };
  return rule;
}

import type { SchedulerLike } from 'rxjs';
import { asyncScheduler } from 'rxjs';
import type { Linked } from '../../kernel/chain.js';
import { Chain } from '../../kernel/chain.js';
import { Alarm } from '../alarm.js';
import { unusable } from '../answers.js';
import { ask } from '../ask.js';
import { FlowConfigError } from '../errors.js';
import { callback, count, known, orDefault, positive, required } from '../options.js';
import { Item, Known } from './load.js';

/** A cache of the batcher's own. */
export interface LoadCacheOptions {
  /** Most values kept. One more pushes out the one that was not asked for longest. Infinity for a batcher that lives no longer than a request. */
  readonly maxEntries: number;
  /** How long a value is good, in ms from when it was stored; no timer runs. @defaultValue Infinity */
  readonly ttlMs?: number;
}

/** What a cache holds for a key. An object, so that `undefined` is a value too. */
export interface CachedLoad<R> {
  readonly value: R;
}

/** A cache of yours: what a `Map` and most cache libraries are. `get` answers what `set` was given, or `undefined`. */
export interface LoadCacheMap<R> {
  get(key: unknown): CachedLoad<R> | undefined;
  set(key: unknown, load: CachedLoad<R>): unknown;
  delete(key: unknown): unknown;
  clear(): unknown;
}

/** One that is not kept for ever. */
class Mortal<T, R> extends Known<T, R> implements Linked<Mortal<T, R>> {
  previous: Mortal<T, R> | undefined;
  next: Mortal<T, R> | undefined;
  /** Undefined for never. */
  expiresAt: number | undefined;

  constructor(
    readonly key: unknown,
    content: Item<T, R> | R,
  ) {
    super(content);
  }
}

/** The options about loads of equal keys. */
export interface MemoryOptions<T, R> {
  readonly dedupe?: ((item: T) => unknown) | undefined;
  readonly cache?: LoadCacheOptions | LoadCacheMap<R> | undefined;
  readonly scheduler?: SchedulerLike | undefined;
}

/**
 * What is known of keys: items under way, which loads of equal keys share, and the values of those that are done, up to a bound.
 * Failures are not remembered.
 */
export class LoadMemory<T, R> {
  readonly #operator: string;
  readonly #dedupe: ((item: T) => unknown) | undefined;
  /** Items under way; and values, when the cache is our own. */
  readonly #known = new Map<unknown, Known<T, R>>();
  /** The values, the one not asked for longest first, when there is a bound or a `ttlMs`. */
  readonly #mortal = new Chain<Mortal<T, R>>();
  #size = 0;
  readonly #map: LoadCacheMap<R> | undefined;
  readonly #maxEntries: number;
  readonly #ttlMs: number;
  readonly #isMortal: boolean;
  /** Tells the time, also when the scheduler's clock jumps back. It is never set. */
  readonly #clock: Alarm;
  /** How often something was cleared: an item made before that may hold what was meant. */
  #clears = 0;

  /** @throws FlowConfigError naming the option */
  constructor(operator: string, { dedupe, cache, scheduler }: MemoryOptions<T, R>) {
    this.#operator = operator;
    this.#dedupe = callback(operator, 'dedupe', dedupe);
    this.#clock = new Alarm(scheduler ?? asyncScheduler, () => undefined);
    this.#map = isMap(cache) ? mapOption(operator, cache) : undefined;
    const limits = isMap(cache) || cache === undefined ? { maxEntries: 0 } : limitsOption(operator, cache);
    this.#maxEntries = limits.maxEntries;
    this.#ttlMs = orDefault(limits.ttlMs, Infinity);
    this.#isMortal = this.#maxEntries !== Infinity || this.#ttlMs !== Infinity;
  }

  /** Values kept by ourselves. */
  get size(): number {
    return this.#size;
  }

  /**
   * What to wait for, or what is there already. Who has a deadline of its own is given what is there, but waits for nobody else's item,
   * nor anybody for its.
   *
   * @throws CallbackError when `dedupe` or the cache of yours does
   */
  open(item: T, alone: boolean): Known<T, R> {
    const key = this.#key(item);
    const found = this.#find(key);
    if (found !== undefined && (!alone || found.shared === undefined)) return found;
    const shared = new Item<T, R>(item, key, this.#clears);
    return alone ? new Known(shared) : (shared.listed = this.#list(key, shared));
  }

  /** The item has its result: remembers the value, unless the key was cleared while it was on its way. */
  settled(item: Item<T, R>): void {
    const { key, listed, value } = item;
    if (item.failed || !this.#caches()) this.forget(item);
    else if (listed) this.#keep(key, listed, value);
    else if (item.clears === this.#clears && this.#known.get(key) === undefined) this.#keep(key, this.#list(key, value), value);
  }

  /** Nobody waits for the item any more. */
  forget(item: Item<T, R>): void {
    if (!item.listed) return;
    item.listed = undefined;
    this.#known.delete(item.key);
  }

  /** What is under way for the item is for those who wait for it, and its value is forgotten. */
  clear(item: T): void {
    const key = this.#key(item);
    const known = this.#known.get(key);
    this.#clears++;
    if (known !== undefined) this.#remove(key, known);
    if (this.#map !== undefined) ask(this.#operator, 'cache.delete', (map) => map.delete(key), this.#map);
  }

  clearAll(): void {
    this.#clears++;
    for (const [key, known] of this.#known) this.#remove(key, known);
    if (this.#map !== undefined) ask(this.#operator, 'cache.clear', (map) => map.clear(), this.#map);
  }

  /** Gives a key that nothing is known of a value. */
  prime(item: T, value: R): void {
    if (!this.#caches()) return;
    const key = this.#key(item);
    if (this.#find(key) === undefined) this.#keep(key, this.#list(key, value), value);
  }

  #caches(): boolean {
    return this.#map !== undefined || this.#maxEntries > 0;
  }

  #key(item: T): unknown {
    return this.#dedupe === undefined ? item : ask(this.#operator, 'dedupe', this.#dedupe, item);
  }

  #find(key: unknown): Known<T, R> | undefined {
    const found = this.#known.get(key);
    if (found === undefined) return this.#map === undefined ? undefined : this.#lookUp(this.#map, key);
    if (!isMortal(found) || found.shared !== undefined) return found;
    if (found.expiresAt !== undefined && found.expiresAt <= this.#clock.now()) {
      this.#remove(key, found);
      return undefined;
    }
    if (found.next !== undefined) {
      this.#mortal.delete(found);
      this.#mortal.add(found);
    }
    return found;
  }

  /** What a map of yours holds. */
  #lookUp(map: LoadCacheMap<R>, key: unknown): Known<T, R> | undefined {
    const load: unknown = ask(this.#operator, 'cache.get', (from) => from.get(key), map);
    if (load === undefined) return undefined;
    if (typeof load !== 'object' || load === null || !('value' in load))
      throw unusable(this.#operator, 'cache.get', 'undefined or what `cache.set` was given', load);
    return new Known<T, R>(load.value as R);
  }

  #list(key: unknown, content: Item<T, R> | R): Known<T, R> {
    const known = this.#isMortal ? new Mortal<T, R>(key, content) : new Known<T, R>(content);
    this.#known.set(key, known);
    return known;
  }

  #keep(key: unknown, known: Known<T, R>, value: R): void {
    if (this.#map !== undefined) {
      this.#known.delete(key);
      try {
        this.#map.set(key, { value });
      } catch {
        // The caller has an answer; that it is not remembered costs another call later.
      }
      return;
    }
    this.#size++;
    known.keep(value);
    if (!isMortal(known)) return;
    if (this.#ttlMs !== Infinity) known.expiresAt = this.#clock.now() + this.#ttlMs;
    this.#mortal.add(known);
    const { first } = this.#mortal;
    if (first && this.#size > this.#maxEntries) this.#remove(first.key, first);
  }

  #remove(key: unknown, known: Known<T, R>): void {
    if (known.shared) {
      this.forget(known.shared);
      return;
    }
    if (isMortal(known)) this.#mortal.delete(known);
    this.#size--;
    this.#known.delete(key);
  }
}

function isMortal<T, R>(known: Known<T, R>): known is Mortal<T, R> {
  return known instanceof Mortal;
}

function isMap<R>(cache: LoadCacheOptions | LoadCacheMap<R> | undefined): cache is LoadCacheMap<R> {
  return typeof (Object(cache) as Partial<LoadCacheMap<R>>).get === 'function';
}

function mapOption<R>(operator: string, cache: LoadCacheMap<R>): LoadCacheMap<R> {
  for (const name of ['set', 'delete', 'clear'] as const) required(operator, `cache.${name}`, (cache as Partial<LoadCacheMap<R>>)[name]);
  return cache;
}

function limitsOption(operator: string, cache: LoadCacheOptions): LoadCacheOptions {
  if (typeof cache !== 'object' || (cache as unknown) === null)
    throw new FlowConfigError(operator, 'cache', '{ maxEntries, ttlMs } or an object with get, set, delete and clear', cache);
  known(operator, cache, ['maxEntries', 'ttlMs'], 'cache', 'cache.');
  return {
    maxEntries: count(operator, 'cache.maxEntries', cache.maxEntries),
    ttlMs: positive(operator, 'cache.ttlMs', orDefault(cache.ttlMs, Infinity)),
  };
}

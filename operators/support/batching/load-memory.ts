import type { SchedulerLike } from 'rxjs';
import { asyncScheduler } from 'rxjs';
import type { Linked } from '../../kernel/queues/chain.js';
import { Chain } from '../../kernel/queues/chain.js';
import { unusable } from '../../options/answers.js';
import { ask } from '../../options/ask.js';
import { FlowConfigError } from '../../options/errors.js';
import { callback, count, known, orDefault, positive, required } from '../../options/options.js';
import { Alarm } from '../../shell/alarm.js';
import { onlyOnce } from '../../shell/work.js';
import { Item, isItem } from './load.js';

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

/** A value that is kept, with the promise that everybody is given. */
export class Kept<R> {
  #promise: Promise<R> | undefined;

  constructor(
    readonly value: R,
    promise?: Promise<R>,
  ) {
    this.#promise = promise;
  }

  promise(): Promise<R> {
    return (this.#promise ??= Promise.resolve(this.value));
  }
}

/** One that is not kept for ever. */
class Mortal<R> extends Kept<R> implements Linked<Mortal<R>> {
  previous: Mortal<R> | undefined;
  next: Mortal<R> | undefined;

  constructor(
    readonly key: unknown,
    value: R,
    promise: Promise<R> | undefined,
    readonly expiresAt: number,
  ) {
    super(value, promise);
  }
}

/** Stands for a value that is `undefined`. */
const UNDEFINED = Symbol('undefined');

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
  /**
   * Items under way; and values, when the cache is our own. There may be a million of them, and most are never asked for again: without a
   * bound or a `ttlMs` it is the value itself, and `Kept` only from the first time on that it is.
   */
  readonly #known = new Map<unknown, unknown>();
  /** The values, the one not asked for longest first, when there is a bound or a `ttlMs`. */
  readonly #mortal = new Chain<Mortal<R>>();
  #size = 0;
  /** What keys were primed with, while it is not there. */
  readonly #awaited = new Map<unknown, Promise<R>>();
  readonly #map: LoadCacheMap<R> | undefined;
  readonly #maxEntries: number;
  readonly #ttlMs: number;
  readonly #isBounded: boolean;
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
    this.#isBounded = this.#maxEntries !== Infinity || this.#ttlMs !== Infinity;
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
  open(input: T, alone: boolean): Item<T, R> | Kept<R> {
    const key = this.#key(input);
    const found = this.#find(key);
    if (found !== undefined && !(alone && isItem(found))) return found;
    const item = new Item<T, R>(input, key, this.#clears);
    if (!alone) {
      item.isListed = true;
      this.#known.set(key, item);
    }
    return item;
  }

  /** Whether a load of it needs no item of its own. */
  knows(input: T): boolean {
    try {
      return this.#find(this.#key(input)) !== undefined;
    } catch {
      // Whoever opens it hears of that.
      return true;
    }
  }

  /** The item has its result: remembers the value, unless the key was cleared while it was on its way. */
  settled(item: Item<T, R>): void {
    if (item.failed || !this.#caches()) {
      this.forget(item);
    } else if (item.isListed || (item.clears === this.#clears && !this.#known.has(item.key))) {
      item.isListed = false;
      this.#keep(item.key, item.value, item.shown);
    }
  }

  /** Nobody waits for the item any more. */
  forget(item: Item<T, R>): void {
    if (!item.isListed) return;
    item.isListed = false;
    this.#known.delete(item.key);
  }

  /** What is under way for the item is for those who wait for it, and its value is forgotten. */
  clear(item: T): void {
    const key = this.#key(item);
    const known = this.#known.get(key);
    this.#clears++;
    this.#awaited.delete(key);
    if (known !== undefined) this.#remove(key, known);
    if (this.#map !== undefined) ask(this.#operator, 'cache.delete', (map) => map.delete(key), this.#map);
  }

  clearAll(): void {
    this.#clears++;
    this.#awaited.clear();
    for (const [key, known] of this.#known) this.#remove(key, known);
    if (this.#map !== undefined) ask(this.#operator, 'cache.clear', (map) => map.clear(), this.#map);
  }

  /** Gives a key that nothing is known of a value. */
  prime(item: T, value: R): void {
    if (!this.#caches()) return;
    const key = this.#key(item);
    if (this.#find(key) === undefined) this.#keep(key, value);
  }

  /** The same when the value is there, unless the key is cleared or primed again meanwhile. */
  primeLater(item: T, value: PromiseLike<R>): void {
    if (!this.#caches()) return;
    const key = this.#key(item);
    const promise = onlyOnce(value);
    this.#awaited.set(key, promise);
    promise.then(
      (found) => {
        if (this.#ends(key, promise) && this.#find(key) === undefined) this.#keep(key, found);
      },
      () => this.#ends(key, promise),
    );
  }

  /** Whether the promise is still what the key was primed with last. */
  #ends(key: unknown, promise: Promise<R>): boolean {
    return this.#awaited.get(key) === promise && this.#awaited.delete(key);
  }

  #caches(): boolean {
    return this.#map !== undefined || this.#maxEntries > 0;
  }

  #key(item: T): unknown {
    return this.#dedupe === undefined ? item : ask(this.#operator, 'dedupe', this.#dedupe, item);
  }

  #find(key: unknown): Item<T, R> | Kept<R> | undefined {
    const found = this.#known.get(key);
    if (found === undefined) return this.#map === undefined ? undefined : this.#lookUp(this.#map, key);
    if (isItem<T, R>(found)) return found;
    if (this.#isBounded) return this.#touch(found as Mortal<R>);
    if (found instanceof Kept) return found as Kept<R>;
    const kept = new Kept((found === UNDEFINED ? undefined : found) as R);
    this.#known.set(key, kept);
    return kept;
  }

  /** Somebody asks for a value: it is kept longest now, unless its time is over. */
  #touch(found: Mortal<R>): Mortal<R> | undefined {
    if (found.expiresAt !== Infinity && found.expiresAt <= this.#clock.now()) {
      this.#remove(found.key, found);
      return undefined;
    }
    if (found.next !== undefined) {
      this.#mortal.delete(found);
      this.#mortal.add(found);
    }
    return found;
  }

  /** What a map of yours holds. */
  #lookUp(map: LoadCacheMap<R>, key: unknown): Kept<R> | undefined {
    const load: unknown = ask(this.#operator, 'cache.get', (from) => from.get(key), map);
    if (load === undefined) return undefined;
    if (typeof load !== 'object' || load === null || !('value' in load))
      throw unusable(this.#operator, 'cache.get', 'undefined or what `cache.set` was given', load);
    return new Kept(load.value as R);
  }

  #keep(key: unknown, value: R, promise?: Promise<R>): void {
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
    if (!this.#isBounded) {
      this.#known.set(key, isThenable(value) ? new Kept(value, promise) : value === undefined ? UNDEFINED : value);
      return;
    }
    const mortal = new Mortal(key, value, promise, this.#ttlMs === Infinity ? Infinity : this.#clock.now() + this.#ttlMs);
    this.#known.set(key, mortal);
    this.#mortal.add(mortal);
    const { first } = this.#mortal;
    if (first && this.#size > this.#maxEntries) this.#remove(first.key, first);
  }

  #remove(key: unknown, known: unknown): void {
    if (isItem<T, R>(known)) {
      this.forget(known);
      return;
    }
    if (this.#isBounded) this.#mortal.delete(known as Mortal<R>);
    this.#size--;
    this.#known.delete(key);
  }
}

/** A promise among the values is asked once, by the first who waits for it. */
function isThenable(value: unknown): boolean {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function';
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

import type { SchedulerLike } from 'rxjs';
import type { Linked } from '../kernel/queues/line.js';
import { Chain } from '../kernel/queues/line.js';
import { ask } from '../options/ask.js';
import { Alarm } from './alarm.js';
import { Item, isItem } from './loads.js';

/** A cache of values. */
export interface LoadCacheOptions {
  /** Most values kept. One more pushes out the one that was not asked for longest. Infinity for a batcher that lives no longer than a request. */
  readonly maxEntries: number;
  /** How long a value is good, in ms from when it was stored; no timer runs. @defaultValue Infinity */
  readonly ttlMs?: number;
}

/** A cached value, with the promise that all callers get. */
export class CachedValue<R> implements Linked<CachedValue<R>> {
  previous: CachedValue<R> | undefined = undefined;
  next: CachedValue<R> | undefined = undefined;

  constructor(
    readonly key: unknown,
    readonly value: R,
    private shown: Promise<R> | undefined,
    readonly expiresAt: number,
  ) {}

  promise(): Promise<R> {
    return (this.shown ??= Promise.resolve(this.value));
  }
}

/**
 * By key: the items under way, which loads of equal keys share, and the values of those that are done, up to a bound. Failures are not cached.
 */
export class LoadCache<T, R> {
  private readonly entries = new Map<unknown, Item<T, R> | CachedValue<R>>();
  /** The values, the one not asked for longest first. */
  private readonly values = new Chain<CachedValue<R>>();
  /** Tells the time, also when the scheduler's clock jumps back. It is never set. */
  private readonly clock: Alarm;
  /** 0 without a cache. */
  private readonly maxEntries: number;
  private readonly ttlMs: number;

  /** @param cache - checked */
  constructor(
    private readonly operator: string,
    private readonly dedupe: ((item: T) => unknown) | undefined,
    cache: LoadCacheOptions | undefined,
    scheduler: SchedulerLike,
  ) {
    this.clock = new Alarm(scheduler, () => undefined);
    this.maxEntries = cache?.maxEntries ?? 0;
    this.ttlMs = cache?.ttlMs ?? Infinity;
  }

  /** Values kept. */
  get size(): number {
    return this.values.size;
  }

  /**
   * The item to wait for, or the cached value. A load with a deadline of its own (`alone`) gets a cached value, but shares no item with others, and its
   * value is not cached.
   *
   * @throws CallbackError when `dedupe` does
   */
  open(input: T, alone: boolean): Item<T, R> | CachedValue<R> {
    const key = this.key(input);
    const found = this.find(key);
    if (found !== undefined && !(alone && isItem(found))) return found;
    if (alone) return new Item<T, R>(input, undefined);
    const item = new Item<T, R>(input, key);
    this.entries.set(key, item);
    return item;
  }

  /** Whether a load of it needs no item of its own. */
  knows(input: T): boolean {
    try {
      return this.find(this.key(input)) !== undefined;
    } catch {
      // `open` throws the same error.
      return true;
    }
  }

  /** The item has its result: caches the value, unless the key was cleared meanwhile. */
  settled(item: Item<T, R>): void {
    const { loadKey, failed, outcome } = item;
    const value = outcome as R;
    if (failed || this.maxEntries === 0) this.forget(item);
    else if (this.entries.get(loadKey) === item) this.store(loadKey, value, item.promised);
  }

  /** Nobody waits for the item any more. */
  forget(item: Item<T, R>): void {
    if (this.entries.get(item.loadKey) === item) this.entries.delete(item.loadKey);
  }

  /** Forgets the value of the item. One that is under way still serves those who wait for it. */
  clear(item: T): void {
    const key = this.key(item);
    this.drop(this.entries.get(key));
    this.entries.delete(key);
  }

  clearAll(): void {
    for (const found of this.entries.values()) this.drop(found);
    this.entries.clear();
  }

  /** Caches a value for a key that has none and is not being loaded. */
  prime(item: T, value: R): void {
    if (this.maxEntries === 0) return;
    const key = this.key(item);
    if (this.find(key) === undefined) this.store(key, value);
  }

  private key(item: T): unknown {
    return this.dedupe === undefined ? item : ask(this.operator, 'dedupe', this.dedupe, item);
  }

  private find(key: unknown): Item<T, R> | CachedValue<R> | undefined {
    const found = this.entries.get(key);
    if (found === undefined || isItem<T, R>(found)) return found;
    this.values.remove(found);
    if (found.expiresAt !== Infinity && found.expiresAt <= this.clock.now()) {
      this.entries.delete(key);
      return undefined;
    }
    // Asked for just now: it is kept longest.
    this.values.push(found);
    return found;
  }

  private store(key: unknown, value: R, shown?: Promise<R>): void {
    const kept = new CachedValue(key, value, shown, this.ttlMs === Infinity ? Infinity : this.clock.now() + this.ttlMs);
    this.entries.set(key, kept);
    this.values.push(kept);
    if (this.values.size <= this.maxEntries) return;
    const first = this.values.first as CachedValue<R>;
    this.values.remove(first);
    this.entries.delete(first.key);
  }

  private drop(found: Item<T, R> | CachedValue<R> | undefined): void {
    if (found !== undefined && !isItem<T, R>(found)) this.values.remove(found);
  }
}

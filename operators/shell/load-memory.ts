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

/** A value that is kept, with the promise that everybody is given. */
export class Kept<R> implements Linked<Kept<R>> {
  previous: Kept<R> | undefined = undefined;
  next: Kept<R> | undefined = undefined;

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
 * What is known of keys: items under way, which loads of equal keys share, and the values of those that are done, up to a bound.
 * Failures are not remembered.
 */
export class LoadMemory<T, R> {
  private readonly known = new Map<unknown, Item<T, R> | Kept<R>>();
  /** The values, the one not asked for longest first. */
  private readonly values = new Chain<Kept<R>>();
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
   * What to wait for, or what is there already. Who has a deadline of its own is given what is there, but waits for nobody else's item,
   * nor anybody for its, and its value is not kept.
   *
   * @throws CallbackError when `dedupe` does
   */
  open(input: T, alone: boolean): Item<T, R> | Kept<R> {
    const key = this.key(input);
    const found = this.find(key);
    if (found !== undefined && !(alone && isItem(found))) return found;
    if (alone) return new Item<T, R>(input, undefined);
    const item = new Item<T, R>(input, key);
    this.known.set(key, item);
    return item;
  }

  /** Whether a load of it needs no item of its own. */
  knows(input: T): boolean {
    try {
      return this.find(this.key(input)) !== undefined;
    } catch {
      // Whoever opens it hears of that.
      return true;
    }
  }

  /** The item has its result: remembers the value, unless the key was cleared while it was on its way. */
  settled(item: Item<T, R>): void {
    const { loadKey, failed, outcome } = item;
    const value = outcome as R;
    if (failed || this.maxEntries === 0) this.forget(item);
    else if (this.known.get(loadKey) === item) this.keep(loadKey, value, item.promised);
  }

  /** Nobody waits for the item any more. */
  forget(item: Item<T, R>): void {
    if (this.known.get(item.loadKey) === item) this.known.delete(item.loadKey);
  }

  /** What is under way for the item is for those who wait for it, and its value is forgotten. */
  clear(item: T): void {
    const key = this.key(item);
    this.drop(this.known.get(key));
    this.known.delete(key);
  }

  clearAll(): void {
    for (const found of this.known.values()) this.drop(found);
    this.known.clear();
  }

  /** Gives a key that nothing is known of a value. */
  prime(item: T, value: R): void {
    if (this.maxEntries === 0) return;
    const key = this.key(item);
    if (this.find(key) === undefined) this.keep(key, value);
  }

  private key(item: T): unknown {
    return this.dedupe === undefined ? item : ask(this.operator, 'dedupe', this.dedupe, item);
  }

  private find(key: unknown): Item<T, R> | Kept<R> | undefined {
    const found = this.known.get(key);
    if (found === undefined || isItem<T, R>(found)) return found;
    this.values.remove(found);
    if (found.expiresAt !== Infinity && found.expiresAt <= this.clock.now()) {
      this.known.delete(key);
      return undefined;
    }
    // Asked for just now: it is kept longest.
    this.values.push(found);
    return found;
  }

  private keep(key: unknown, value: R, shown?: Promise<R>): void {
    const kept = new Kept(key, value, shown, this.ttlMs === Infinity ? Infinity : this.clock.now() + this.ttlMs);
    this.known.set(key, kept);
    this.values.push(kept);
    if (this.values.size <= this.maxEntries) return;
    const first = this.values.first as Kept<R>;
    this.values.remove(first);
    this.known.delete(first.key);
  }

  private drop(found: Item<T, R> | Kept<R> | undefined): void {
    if (found !== undefined && !isItem<T, R>(found)) this.values.remove(found);
  }
}

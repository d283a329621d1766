import type { SchedulerLike } from 'rxjs';
import { noop } from 'rxjs';
import type { Linked } from '../../kernel/queues/line.js';
import { Chain } from '../../kernel/queues/line.js';
import { unusable } from '../../options/answers.js';
import { ask } from '../../options/ask.js';
import { isPromise } from '../calls/call.js';
import { report } from '../calls/report.js';
import { Alarm } from '../time/alarm.js';

/**
 * The value of a `cache` option, made by `lruCache()`. Each batcher has values of its own.
 * @stable
 */
export interface LoadCache {
  create(...args: never[]): object;
}

/** Internal side of {@link LoadCache}. */
export interface LoadCacheRule extends LoadCache {
  create<R>(scheduler: SchedulerLike): KeptValues<R>;
}

/**
 * A cache of your own for a batcher, in memory: a `Map`, or what a library makes with these methods, as DataLoader takes it for `cacheMap`. It keeps values,
 * not promises. Its bound, its clock and what it evicts are its own.
 * @beta
 */
export interface CacheMap<V> {
  /** The value of a key; undefined when there is none. */
  get(key: unknown): V | undefined;
  set(key: unknown, value: V): unknown;
  delete(key: unknown): unknown;
  clear(): unknown;
  /** Told as `cached` in snapshots. */
  readonly size?: number;
}

/** What a batcher remembers. */
export interface Values<R> {
  readonly size: number;
  find(key: unknown): { readonly value: R } | undefined;
  /** Keeps the value of a key that has none. */
  keep(key: unknown, value: R): void;
  forget(key: unknown): void;
  clear(): void;
}

/** Values in a cache of the user. What its methods throw is a `CallbackError`; a value that cannot be stored is reported, because its loads have it. */
export class OwnValues<R> implements Values<R> {
  constructor(
    private readonly operator: string,
    private readonly cache: CacheMap<R>,
  ) {}

  get size(): number {
    return this.cache.size ?? 0;
  }

  find(key: unknown): { readonly value: R } | undefined {
    const value = this.ask((cache) => cache.get(key));
    if (isPromise(value)) throw unusable(this.operator, 'cache', 'a value, not a promise', value);
    return value === undefined ? undefined : { value };
  }

  keep(key: unknown, value: R): void {
    try {
      this.ask((cache) => cache.set(key, value));
    } catch (error) {
      report(error);
    }
  }

  forget(key: unknown): void {
    this.ask((cache) => cache.delete(key));
  }

  clear(): void {
    this.ask((cache) => cache.clear());
  }

  private ask<V>(call: (cache: CacheMap<R>) => V): V {
    return ask(this.operator, 'cache', call, this.cache);
  }
}

/** A value that is remembered. */
interface Kept<R> extends Linked<Kept<R>> {
  readonly key: unknown;
  readonly value: R;
  readonly expiresAt: number;
}

/** Values by key, up to a bound. */
export class KeptValues<R> implements Values<R> {
  private readonly byKey = new Map<unknown, Kept<R>>();
  /** Least recently used first. A `Map` has an order too, but finding its first entry steps over the places of all deleted ones. */
  private readonly inUse = new Chain<Kept<R>>();
  /** Tells the time, also when the scheduler's clock jumps back. It is never set. */
  private readonly clock: Alarm;

  constructor(
    scheduler: SchedulerLike,
    private readonly maxEntries: number,
    private readonly ttlMs: number,
  ) {
    this.clock = new Alarm(scheduler, noop);
  }

  get size(): number {
    return this.byKey.size;
  }

  find(key: unknown): Kept<R> | undefined {
    const found = this.byKey.get(key);
    if (found === undefined) return undefined;
    if (found.expiresAt <= this.clock.now()) {
      this.forget(key);
      return undefined;
    }
    // Asked for just now: it is kept longest.
    this.inUse.remove(found);
    this.inUse.push(found);
    return found;
  }

  keep(key: unknown, value: R): void {
    const kept: Kept<R> = { key, value, expiresAt: this.clock.now() + this.ttlMs, previous: undefined, next: undefined };
    this.byKey.set(key, kept);
    this.inUse.push(kept);
    if (this.size > this.maxEntries) this.forget(this.inUse.first?.key);
  }

  forget(key: unknown): void {
    const kept = this.byKey.get(key);
    if (kept === undefined) return;
    this.byKey.delete(key);
    this.inUse.remove(kept);
  }

  clear(): void {
    this.byKey.clear();
    this.inUse.clear();
  }
}

import type { SchedulerLike } from 'rxjs';
import { noop } from 'rxjs';
import type { Linked } from '../../kernel/queues/line.js';
import { Chain } from '../../kernel/queues/line.js';
import { Alarm } from '../time/alarm.js';

/**
 * The value of a `cache` option, made by `lruCache()`. Each batcher has values of its own.
 * @stable
 */
export interface LoadCache {
  create(...args: never[]): object;
}

/** The same to whoever goes by it. */
export interface LoadCacheRule extends LoadCache {
  create<R>(scheduler: SchedulerLike): KeptValues<R>;
}

/** A value that is remembered. */
interface Kept<R> extends Linked<Kept<R>> {
  readonly key: unknown;
  readonly value: R;
  readonly expiresAt: number;
}

/** Values by key, up to a bound. */
export class KeptValues<R> {
  private readonly byKey = new Map<unknown, Kept<R>>();
  /** The one not asked for longest first. A `Map` has an order too, but whoever asks it for the first steps over the places of all that are gone. */
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

  /** Keeps the value of a key that has none. */
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

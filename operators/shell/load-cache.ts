import type { SchedulerLike } from 'rxjs';
import { noop } from 'rxjs';
import { Alarm } from './alarm.js';

/** The value of a `cache` option, made by `lruCache()`. Each batcher has values of its own. */
export interface LoadCache {
  create(...args: never[]): object;
}

/** The same to whoever goes by it. */
export interface LoadCacheRule extends LoadCache {
  create<R>(scheduler: SchedulerLike): KeptValues<R>;
}

interface Kept<R> {
  readonly value: R;
  readonly expiresAt: number;
}

/** Values by key, up to a bound. */
export class KeptValues<R> {
  /** The one not asked for longest first. */
  private readonly kept = new Map<unknown, Kept<R>>();
  /** Goes through them once: all before it are gone. One made anew each time would step over the places of those. */
  private readonly oldest = this.kept.keys();
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
    return this.kept.size;
  }

  find(key: unknown): Kept<R> | undefined {
    const found = this.kept.get(key);
    if (found === undefined) return undefined;
    this.kept.delete(key);
    if (found.expiresAt <= this.clock.now()) return undefined;
    // Asked for just now: it is kept longest.
    this.kept.set(key, found);
    return found;
  }

  /** Keeps the value of a key that has none. */
  keep(key: unknown, value: R): void {
    this.kept.set(key, { value, expiresAt: this.clock.now() + this.ttlMs });
    if (this.kept.size > this.maxEntries) this.kept.delete(this.oldest.next().value);
  }

  forget(key: unknown): void {
    this.kept.delete(key);
  }

  clear(): void {
    this.kept.clear();
  }
}

import type { SchedulerLike } from 'rxjs';
import { noop } from 'rxjs';
import { Alarm } from './alarm.js';

/** A cache of values. */
export interface LoadCacheOptions {
  /** Most values kept. One more pushes out the one that was not asked for longest. Infinity for a batcher that lives no longer than a request. */
  readonly maxEntries: number;
  /** How long a value is good, in ms from when it was stored; no timer runs. @defaultValue Infinity */
  readonly ttlMs?: number;
}

interface Kept<R> {
  readonly value: R;
  readonly expiresAt: number;
}

/** Values by key, up to a bound. */
export class LoadCache<R> {
  /** The one not asked for longest first. */
  private readonly kept = new Map<unknown, Kept<R>>();
  /** Goes through them once: all before it are gone. One made anew each time would step over the places of those. */
  private readonly oldest = this.kept.keys();
  /** Tells the time, also when the scheduler's clock jumps back. It is never set. */
  private readonly clock: Alarm;

  /** @param options - checked */
  constructor(
    private readonly options: LoadCacheOptions,
    scheduler: SchedulerLike,
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
    const { maxEntries, ttlMs = Infinity } = this.options;
    this.kept.set(key, { value, expiresAt: this.clock.now() + ttlMs });
    if (this.kept.size > maxEntries) this.kept.delete(this.oldest.next().value);
  }

  forget(key: unknown): void {
    this.kept.delete(key);
  }

  clear(): void {
    this.kept.clear();
  }
}

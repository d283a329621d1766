import type { Release } from '../../options/limiter.js';
import { report } from '../report.js';

/** Who wants to know of a limiter: when something comes free, what comes back, and when something holds. */
export class Audience {
  private readonly watchers = new Set<() => void>();
  private readonly listeners = new Set<(release: Release) => void>();
  /** Who waits until something holds: that nothing runs, or that the queue is short. */
  private waits: { readonly holds: () => boolean; readonly resolve: () => void }[] = [];

  get wantsReleases(): boolean {
    return this.listeners.size > 0;
  }

  get wantsNews(): boolean {
    return this.watchers.size > 0;
  }

  /** Nobody waits for what comes next. */
  get isEmpty(): boolean {
    return this.waits.length === 0 && this.watchers.size === 0;
  }

  watch(listener: () => void): () => void {
    // Each call is a listener of its own.
    const own = (): void => {
      listener();
    };
    this.watchers.add(own);
    return () => {
      this.watchers.delete(own);
    };
  }

  onRelease(listener: (release: Release) => void): () => void {
    this.listeners.add(listener);
    return () => {
      this.listeners.delete(listener);
    };
  }

  until(holds: () => boolean): Promise<void> {
    if (holds()) return Promise.resolve();
    return new Promise((resolve) => {
      this.waits.push({ holds, resolve });
    });
  }

  freed(): void {
    for (const watcher of [...this.watchers]) safely(watcher, undefined);
  }

  released(release: Release): void {
    for (const listener of [...this.listeners]) safely(listener, release);
  }

  look(): void {
    if (this.waits.length === 0) return;
    this.waits = this.waits.filter(({ holds, resolve }) => {
      if (!holds()) return true;
      resolve();
      return false;
    });
  }
}

/** What they throw is reported, and keeps no slot from being free. */
function safely<A>(listener: (about: A) => void, about: A): void {
  try {
    listener(about);
  } catch (error) {
    report(error);
  }
}

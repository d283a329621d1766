import { report } from '../../shell/report.js';
import type { Release } from './limiter-types.js';

/** Who is told when something comes free, and of every lease that comes back. What they throw is reported, and keeps no slot from being free. */
export class Listeners {
  readonly #watchers = new Set<() => void>();
  readonly #releases = new Set<(release: Release) => void>();
  readonly #above: Listeners | undefined;

  /** What comes free above is news for those who watch here. */
  constructor(above: Listeners | undefined) {
    this.#above = above;
  }

  get areWatching(): boolean {
    return this.#watchers.size > 0;
  }

  get wantReleases(): boolean {
    return this.#releases.size > 0;
  }

  watch(listener: () => void): () => void {
    const stop = this.#above?.watch(() => {
      listener();
    });
    const stopHere = added(this.#watchers, listener);
    return () => {
      stopHere();
      stop?.();
    };
  }

  onRelease(listener: (release: Release) => void): () => void {
    return added(this.#releases, listener);
  }

  freed(): void {
    tell(this.#watchers, undefined);
  }

  released(release: Release): void {
    tell(this.#releases, release);
  }
}

function added<L>(listeners: Set<L>, listener: L): () => void {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

function tell<T>(listeners: ReadonlySet<(event: T) => void>, event: T): void {
  for (const listener of [...listeners]) {
    try {
      listener(event);
    } catch (error) {
      report(error);
    }
  }
}

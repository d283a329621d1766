import { Ring } from '../../kernel/queues/ring.js';
import type { Lease } from './limiter-types.js';

/** Leases of work that is over, to be given back once its results are out. */
export class SpentLeases {
  readonly #spent = new Ring<Lease>();
  /** What the work of some of them failed with; most go well. */
  readonly #errors = new Map<Lease, unknown>();

  get length(): number {
    return this.#spent.length;
  }

  push(lease: Lease, failure?: { readonly error: unknown }): void {
    this.#spent.push(lease);
    if (failure) this.#errors.set(lease, failure.error);
  }

  /** Gives back the one that has waited longest, if there is one. */
  release(): void {
    const lease = this.#spent.shift();
    if (lease === undefined) return;
    if (this.#errors.size === 0 || !this.#errors.has(lease)) {
      lease.release();
      return;
    }
    const error = this.#errors.get(lease);
    this.#errors.delete(lease);
    lease.release('error', error);
  }

  releaseAll(): void {
    while (this.length > 0) this.release();
  }
}

import { Ring } from '../../kernel/ring.js';
import type { Lease } from './limiter-types.js';

interface Spent {
  readonly lease: Lease;
  /** Undefined of work that went well. */
  readonly failure: { readonly error: unknown } | undefined;
}

/** Leases of work that is over, to be given back once its results are out. */
export class SpentLeases {
  readonly #spent = new Ring<Spent>();

  get length(): number {
    return this.#spent.length;
  }

  push(lease: Lease, failure?: { readonly error: unknown }): void {
    this.#spent.push({ lease, failure });
  }

  /** Gives back the one that has waited longest, if there is one. */
  release(): void {
    const spent = this.#spent.shift();
    if (spent?.failure) spent.lease.release('error', spent.failure.error);
    else spent?.lease.release();
  }

  releaseAll(): void {
    while (this.length > 0) this.release();
  }
}

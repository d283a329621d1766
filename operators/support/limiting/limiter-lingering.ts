import type { Lease } from './limiter-types.js';

/** Slots held by work that was given up but is not over, and until when. */
export class Lingering {
  readonly #until = new Map<Lease, number>();

  get size(): number {
    return this.#until.size;
  }

  has(lease: Lease): boolean {
    return this.#until.has(lease);
  }

  add(lease: Lease, until: number): void {
    this.#until.set(lease, until);
  }

  /** Answers whether it was one of them. */
  delete(lease: Lease): boolean {
    return this.#until.size > 0 && this.#until.delete(lease);
  }

  /** When the first of them will have lingered long enough; Infinity when there is none. */
  get next(): number {
    let next = Infinity;
    for (const until of this.#until.values()) next = Math.min(next, until);
    return next;
  }

  /** Takes the slot from those that have lingered long enough. */
  expire(now: number): void {
    for (const [lease, until] of this.#until) if (until <= now) lease.release('cancelled');
  }
}

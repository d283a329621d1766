import type { Item } from './plan.js';

/** What `dedupe` ought to do, kept a second time in the plainest way: which loads share an item. */
export class Twins {
  readonly #groups = new Map<number, { readonly lead: number; readonly waiting: Set<number> }>();

  /** One more load; answers whose item it waits for. */
  join({ key, n }: Item): number {
    const group = this.#groups.get(key) ?? { lead: n, waiting: new Set() };
    this.#groups.set(key, group);
    group.waiting.add(n);
    return group.lead;
  }

  /** Once one of them has its result, the next load is a new item. */
  settled({ key, n }: Item): void {
    if (this.#groups.get(key)?.waiting.has(n)) this.#groups.delete(key);
  }

  left({ key, n }: Item): void {
    const group = this.#groups.get(key);
    if (group?.waiting.delete(n) && group.waiting.size === 0) this.#groups.delete(key);
  }
}

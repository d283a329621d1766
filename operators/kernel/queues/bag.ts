/** Remembers its place in the bag it is in. */
export interface Slotted {
  slot: number;
}

/**
 * An unordered collection with O(1) add and delete, on one array. A `Set` that things keep going in and out of leaves a chain of
 * outgrown tables behind, each holding on to the next, which costs the garbage collector half of the members.
 */
export class Bag<T extends Slotted> {
  readonly #items: T[] = [];

  get size(): number {
    return this.#items.length;
  }

  /** The members themselves, not a copy: deleting one puts the last in its place. */
  get items(): readonly T[] {
    return this.#items;
  }

  add(item: T): void {
    item.slot = this.#items.push(item) - 1;
  }

  /** Does nothing for an item that is not in the bag. */
  delete(item: T): void {
    const { slot } = item;
    if (this.#items[slot] !== item) return;
    const last = this.#items.pop() as T;
    if (last === item) return;
    this.#items[slot] = last;
    last.slot = slot;
  }
}

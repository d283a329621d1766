// @ts-check

/**
 * Serves its owners in turn, one item each, so that an owner of one item does not wait behind another's whole list.
 *
 * @template {object} O
 * @template T
 */
export class FairQueue {
  /** @type {{ owner: O, items: T[], next: number }[]} */
  #lines = [];
  #size = 0;

  /** Items not yet taken. */
  get size() {
    return this.#size;
  }

  /**
   * @param {O} owner
   * @param {T[]} items at least one
   */
  add(owner, items) {
    this.#lines.push({ owner, items, next: 0 });
    this.#size += items.length;
  }

  /**
   * Puts one item in front of all others, because it was taken before them.
   *
   * @param {O} owner
   * @param {T} item
   */
  putBack(owner, item) {
    this.#lines.unshift({ owner, items: [item], next: 0 });
    this.#size++;
  }

  /** @returns {T | undefined} */
  take() {
    const line = this.#lines.shift();
    if (line === undefined) return undefined;
    const item = line.items[line.next++];
    if (line.next < line.items.length) this.#lines.push(line);
    this.#size--;
    return item;
  }

  /**
   * @param {O} owner
   * @returns {number} how many items went
   */
  drop(owner) {
    const before = this.#size;
    for (const line of this.#lines) if (line.owner === owner) this.#size -= line.items.length - line.next;
    this.#lines = this.#lines.filter((line) => line.owner !== owner);
    return before - this.#size;
  }
}

/** What everything beyond the bound is counted under. */
const OTHER = 'other';
/** A label that is longer is none: a text got in by mistake. */
const MAX_LENGTH = 200;

/** Something for each label, for so many labels at most; the rest share one that is called `other`. */
export class Labels<V> {
  readonly #values = new Map<string, V>();
  readonly #most: number;
  readonly #make: (label: string) => V;

  /** @param make - gets the label, or `other` */
  constructor(most: number, make: (label: string) => V) {
    this.#most = most;
    this.#make = make;
  }

  of(label: string): V {
    const found = this.#values.get(label);
    if (found !== undefined) return found;
    // The shared one takes no place, whenever it was made.
    const told = this.#values.size - Number(this.#values.has(OTHER));
    if (label !== OTHER && (told >= this.#most || label.length > MAX_LENGTH)) return this.of(OTHER);
    const value = this.#make(label);
    this.#values.set(label, value);
    return value;
  }

  [Symbol.iterator](): Iterator<readonly [string, V]> {
    return this.#values.entries();
  }

  /** All of them, as an object. */
  record<R>(read: (value: V) => R): Readonly<Record<string, R>> {
    return Object.fromEntries([...this.#values].map(([label, value]) => [label, read(value)]));
  }
}

const SMALLEST = 16;

/** Rings of eight times as many places stay as they are. */
const ROOM = 128;

/**
 * A growable ring: FIFO in O(1), where `Array.prototype.shift` moves every element once an array passes
 * some 16,000. Gives memory back when it has drained.
 */
export class Ring<T> {
  #slots: (T | undefined)[] = new Array<T | undefined>(SMALLEST);
  #mask = SMALLEST - 1;
  #head = 0;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  push(item: T): void {
    if (this.#length === this.#slots.length) this.#resize(this.#length * 2);
    this.#slots[(this.#head + this.#length++) & this.#mask] = item;
  }

  shift(): T | undefined {
    if (this.#length === 0) return undefined;
    const item = this.#slots[this.#head];
    this.#slots[this.#head] = undefined;
    this.#head = (this.#head + 1) & this.#mask;
    this.#length--;
    if (this.#length + ROOM < this.#slots.length >> 3) this.#resize(this.#slots.length >> 1);
    return item;
  }

  peek(): T | undefined {
    return this.#slots[this.#head];
  }

  /** The item `index` places behind the head; undefined past the end. */
  at(index: number): T | undefined {
    return index >= 0 && index < this.#length ? this.#slots[(this.#head + index) & this.#mask] : undefined;
  }

  clear(): void {
    this.#length = 0;
    this.#resize(SMALLEST);
  }

  /** Keeps what the predicate accepts, in order. */
  keep(accepts: (item: T) => boolean): void {
    const kept: T[] = [];
    for (let i = 0; i < this.#length; i++) {
      const item = this.at(i) as T;
      if (accepts(item)) kept.push(item);
    }
    this.clear();
    for (const item of kept) this.push(item);
  }

  #resize(capacity: number): void {
    const slots = new Array<T | undefined>(capacity);
    // Locals, because this loop is most of what a long queue costs.
    const old = this.#slots;
    const head = this.#head;
    const mask = this.#mask;
    const length = this.#length;
    for (let i = 0; i < length; i++) slots[i] = old[(head + i) & mask];
    this.#slots = slots;
    this.#mask = capacity - 1;
    this.#head = 0;
  }
}

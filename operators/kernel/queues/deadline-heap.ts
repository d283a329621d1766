/**
 * A stable 4-ary min-heap of items by time, on parallel arrays: no node objects, and a flatter tree than a binary heap.
 * Equal times come out in the order they went in.
 *
 * Source: d-ary heaps (Johnson, 1975).
 */
export class DeadlineHeap<T> {
  readonly #at: number[] = [];
  readonly #seq: number[] = [];
  readonly #items: T[] = [];
  /** Numbers for equal times. */
  #next = 0;

  get length(): number {
    return this.#items.length;
  }

  /** The earliest time; Infinity when empty. */
  peekAt(): number {
    return this.#at[0] ?? Infinity;
  }

  peek(): T | undefined {
    return this.#items[0];
  }

  push(at: number, item: T): void {
    this.#place(at, this.#next++, item);
  }

  /** Takes the item with the earliest time. */
  pop(): T | undefined {
    const top = this.#items[0];
    const at = this.#at.pop() as number;
    const seq = this.#seq.pop() as number;
    const item = this.#items.pop() as T;
    if (this.#items.length > 0) this.#sink(at, seq, item);
    return top;
  }

  /** Keeps what the predicate accepts; when it throws, everything stays. */
  keep(accepts: (item: T) => boolean): void {
    const accepted = this.#items.map((item) => accepts(item));
    const at = this.#at.splice(0);
    const seq = this.#seq.splice(0);
    const items = this.#items.splice(0);
    items.forEach((item, i) => {
      if (accepted[i]) this.#place(at[i] as number, seq[i] as number, item);
    });
  }

  #place(at: number, seq: number, item: T): void {
    let i = this.#items.length;
    while (i !== 0) {
      const parent = (i - 1) >> 2;
      if (!this.#before(at, seq, parent)) break;
      this.#move(parent, i);
      i = parent;
    }
    this.#set(i, at, seq, item);
  }

  #sink(at: number, seq: number, item: T): void {
    const length = this.#items.length;
    let i = 0;
    for (let first = 1; first < length; first = 4 * i + 1) {
      let child = Math.min(first + 4, length);
      let least = first;
      while (--child !== first) {
        if (this.#before(this.#at[child] as number, this.#seq[child] as number, least)) least = child;
      }
      if (this.#before(at, seq, least)) break;
      this.#move(least, i);
      i = least;
    }
    this.#set(i, at, seq, item);
  }

  #before(at: number, seq: number, other: number): boolean {
    const otherAt = this.#at[other] as number;
    return at < otherAt || (at === otherAt && seq < (this.#seq[other] as number));
  }

  #move(from: number, to: number): void {
    this.#set(to, this.#at[from] as number, this.#seq[from] as number, this.#items[from] as T);
  }

  #set(i: number, at: number, seq: number, item: T): void {
    this.#at[i] = at;
    this.#seq[i] = seq;
    this.#items[i] = item;
  }
}

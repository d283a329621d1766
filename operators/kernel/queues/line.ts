import type { Waiter } from './queue.js';

/**
 * Who waits in one line: what came back first, in the order it came back, then what is fresh, in the order it came. The entries are linked
 * with each other, so whoever leaves does so at once, from wherever it stands, and leaves nothing behind.
 */
export class Line<E extends Waiter<E>> {
  size = 0;
  /** Who goes next. */
  first: E | undefined = undefined;
  private last: E | undefined = undefined;
  /** The newest of those that came back. */
  private returned: E | undefined = undefined;
  /** How far a plan has looked. */
  private at: E | undefined = undefined;

  get isReturned(): boolean {
    return this.returned !== undefined;
  }

  /** The fresh one that came first. */
  get oldest(): E | undefined {
    return this.returned === undefined ? this.first : this.returned.next;
  }

  /** The fresh one that came last. */
  get newest(): E | undefined {
    return this.last === this.returned ? undefined : this.last;
  }

  push(entry: E): void {
    this.insert(entry, this.last);
  }

  pushReturned(entry: E): void {
    this.insert(entry, this.returned);
    this.returned = entry;
  }

  /** Takes one out that is in this line. */
  remove(entry: E): void {
    const { previous, next } = entry;
    if (entry === this.returned) this.returned = previous;
    if (previous === undefined) this.first = next;
    else previous.next = next;
    if (next === undefined) this.last = previous;
    else next.previous = previous;
    // Or who has left would keep others in memory.
    entry.previous = undefined;
    entry.next = undefined;
    this.size--;
  }

  /** Takes out one whose turn it was. */
  take(entry: E): void {
    this.remove(entry);
  }

  /** A plan begins: it looks at the fresh ones, one after the other; at none before everything that came back has gone. */
  rewind(): void {
    this.at = this.returned === undefined ? this.first : undefined;
  }

  look(): E | undefined {
    return this.at;
  }

  step(): void {
    this.at = this.at?.next;
  }

  /** Visits the fresh ones, the oldest first, until the answer is false. A visit may take out whom it is shown. */
  each(visit: (entry: E) => boolean): boolean {
    for (let entry = this.oldest; entry !== undefined; ) {
      const { next } = entry;
      if (!visit(entry)) return false;
      entry = next;
    }
    return true;
  }

  private insert(entry: E, before: E | undefined): void {
    const after = before === undefined ? this.first : before.next;
    entry.previous = before;
    entry.next = after;
    if (before === undefined) this.first = entry;
    else before.next = entry;
    if (after === undefined) this.last = entry;
    else after.previous = entry;
    this.size++;
  }
}

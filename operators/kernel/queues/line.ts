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

  isReturned(): boolean {
    return this.returned !== undefined;
  }

  /** The fresh one that came first. */
  oldest(): E | undefined {
    return this.returned === undefined ? this.first : this.returned.next;
  }

  /** The fresh one that came last. */
  newest(): E | undefined {
    return this.last === this.returned ? undefined : this.last;
  }

  push(entry: E): void {
    const { last } = this;
    entry.previous = last;
    if (last === undefined) this.first = entry;
    else last.next = entry;
    this.last = entry;
    this.size++;
  }

  pushReturned(entry: E): void {
    const before = this.returned;
    const after = before === undefined ? this.first : before.next;
    entry.previous = before;
    entry.next = after;
    if (before === undefined) this.first = entry;
    else before.next = entry;
    if (after === undefined) this.last = entry;
    else after.previous = entry;
    this.returned = entry;
    this.size++;
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
  visit(show: (entry: E) => boolean): boolean {
    for (let entry = this.oldest(); entry !== undefined; ) {
      const { next } = entry;
      if (!show(entry)) return false;
      entry = next;
    }
    return true;
  }
}

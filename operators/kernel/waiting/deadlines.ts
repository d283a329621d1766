import { DeadlineHeap } from '../queues/deadline-heap.js';

/** So many that wait without a bound are reported: their producer should be looked at. */
export const LONG_QUEUE = 10_000;

/** Fewest entries that are swept. */
const LEAST_SWEPT = 64;

/** Whether a deadline is over: at its time already. */
export function isOver(deadlineAt: number, now: number): boolean {
  return deadlineAt <= now;
}

/**
 * Deadlines of the entries of a queue. An entry that left the queue stays here until its time or the next sweep, so leaving costs nothing; `isGone` tells
 * the two apart. Made with the first entry that has a deadline: a queue without deadlines pays nothing.
 */
export class Deadlines<E> {
  private readonly heap = new DeadlineHeap<E>();
  private sweepAt = LEAST_SWEPT;

  constructor(private readonly isGone: (entry: E) => boolean) {}

  /** Entries, with those that are gone and not swept yet. */
  get size(): number {
    return this.heap.length;
  }

  add(deadlineAt: number, entry: E): void {
    const { heap } = this;
    heap.push(deadlineAt, entry);
    if (heap.length < this.sweepAt) return;
    heap.keep((one) => !this.isGone(one));
    this.sweepAt = Math.max(LEAST_SWEPT, 2 * heap.length);
  }

  /** When the next deadline is over, and so when to wake; Infinity when no entry has one. */
  get nextAt(): number {
    const { heap } = this;
    for (let entry = heap.peek(); entry !== undefined && this.isGone(entry); entry = heap.peek()) heap.pop();
    return heap.peekAt();
  }

  /** Takes the entry whose deadline was over first; undefined when none is over. The owner takes it out of its queue. */
  takeLate(now: number): E | undefined {
    return isOver(this.nextAt, now) ? this.heap.pop() : undefined;
  }
}

/** Says once that a queue is long, and again only after it has been empty. */
export class LongMark {
  private isReached = false;

  /** An entry was let in, and so many wait now. */
  isReachedAt(queued: number): boolean {
    if (queued <= 1) this.isReached = false;
    if (queued < LONG_QUEUE || this.isReached) return false;
    this.isReached = true;
    return true;
  }
}

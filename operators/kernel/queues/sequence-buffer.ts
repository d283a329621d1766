import { DeadlineHeap } from './deadline-heap.js';
import { Backlog } from './line.js';

/** An item that waits, by its number, and since when. */
export interface SequenceWait {
  readonly number: number;
  readonly since: number;
}

/**
 * Holds numbered items until those before them have come. Nothing else: what to do about a gap, and when, is the caller's.
 *
 * O(1) for each item and O(log gaps) for each gap. Everything in here belongs to an item that is held.
 */
export class SequenceBuffer<T> {
  #next: number;
  /** From here up to `next` every number has come. */
  #completeFrom: number;
  readonly #held = new Map<number, T>();
  /** The numbers that had a gap right before them when they came: the lowest one held is always among them. */
  readonly #starts = new DeadlineHeap<undefined>();
  /** Those that were the highest so far when they came, so in order of both number and time: the others are due no later. */
  readonly #highs = new Backlog<SequenceWait>();
  #highest = -Infinity;

  constructor(first: number) {
    this.#next = first;
    this.#completeFrom = first;
  }

  /** The number whose turn it is. */
  get next(): number {
    return this.#next;
  }

  /** Items that wait for an earlier one. */
  get held(): number {
    return this.#held.size;
  }

  /** The item that has waited longest; undefined when none waits. */
  get oldest(): SequenceWait | undefined {
    return this.#highs.peek();
  }

  /** Whether the item whose turn it is is here. */
  get isReady(): boolean {
    return this.#held.has(this.#next);
  }

  /** `'next'` when it is the number's turn, `'early'` when it has to wait, `'duplicate'` when it has come before, `'late'` when its gap was skipped. */
  statusOf(number: number): 'next' | 'early' | 'duplicate' | 'late' {
    if (number < this.#next) return number < this.#completeFrom ? 'late' : 'duplicate';
    if (this.#held.has(number)) return 'duplicate';
    return number === this.#next ? 'next' : 'early';
  }

  /** The item whose turn it is has come and needs no place. */
  pass(): void {
    this.#next++;
  }

  /** Takes in an item that is early. */
  hold(number: number, item: T, now: number): void {
    if (!this.#held.has(number - 1)) this.#starts.push(number, undefined);
    if (number > this.#highest) {
      this.#highest = number;
      this.#highs.push({ number, since: now });
    }
    this.#held.set(number, item);
  }

  /** The item whose turn it is; only when there is one. */
  take(): T {
    const number = this.#next++;
    const item = this.#held.get(number) as T;
    this.#held.delete(number);
    if (this.#starts.peekAt() === number) this.#starts.pop();
    if ((this.#highs.peek() as SequenceWait).number === number) this.#highs.shift();
    return item;
  }

  /** How many numbers are missing before the lowest one held; Infinity when none is. */
  get missing(): number {
    return this.#starts.peekAt() - this.#next;
  }

  /** Gives up the missing numbers before the lowest one held; only when one is. */
  skip(): void {
    this.#next = this.#starts.peekAt();
    this.#completeFrom = this.#next;
  }

  /** Forgets what it holds. */
  clear(): void {
    while (this.#held.size > 0) {
      if (!this.isReady) this.skip();
      this.take();
    }
  }
}

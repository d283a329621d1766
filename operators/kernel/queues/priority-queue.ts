import { DeadlineHeap } from './deadline-heap.js';
import { LaneSet } from './lane-set.js';
import { Ring } from './ring.js';

/** As many levels as a set finds the first of in two look-ups. */
const MOST_BUCKETS = 1024;

/**
 * Items by level, the lowest number first, and within a level in the order they went in.
 *
 * Up to 1,024 levels each has a ring, and two look-ups in a bitmap find the first that is not empty: O(1) whatever the number of
 * levels and items. Beyond that, or with `Infinity`, it is a stable 4-ary heap, and a level may be any finite number.
 * Levels are not checked: up to 1,024 they must be whole numbers from 0 to `levels` - 1.
 *
 * Source: bucket queue (Dial, 1969) with a bitmap, as in the run queue of the Linux O(1) scheduler; d-ary heaps (Johnson, 1975).
 */
export class PriorityQueue<T> {
  readonly #levels: number;
  #queue: Buckets<T> | DeadlineHeap<T>;

  constructor(levels: number) {
    this.#levels = levels;
    this.#queue = queueFor(levels);
  }

  get size(): number {
    return this.#queue.length;
  }

  push(level: number, item: T): void {
    this.#queue.push(level, item);
  }

  /** Puts an item back ahead of all of its level; several keep their order when the last one taken goes back first. */
  pushFront(level: number, item: T): void {
    this.#queue.pushFront(level, item);
  }

  peek(): T | undefined {
    return this.#queue.peek();
  }

  shift(): T | undefined {
    return this.#queue.pop();
  }

  clear(): void {
    this.#queue = queueFor(this.#levels);
  }
}

function queueFor<T>(levels: number): Buckets<T> | DeadlineHeap<T> {
  return levels <= MOST_BUCKETS ? new Buckets(levels) : new DeadlineHeap();
}

/** A ring for each level that was ever used. */
class Buckets<T> {
  readonly #rings: (Ring<T> | undefined)[] = [];
  readonly #nonEmpty: LaneSet;
  #length = 0;

  constructor(levels: number) {
    this.#nonEmpty = new LaneSet(levels);
  }

  get length(): number {
    return this.#length;
  }

  push(level: number, item: T): void {
    this.#ringFor(level).push(item);
  }

  pushFront(level: number, item: T): void {
    this.#ringFor(level).unshift(item);
  }

  peek(): T | undefined {
    return this.#length === 0 ? undefined : this.#ring(this.#nonEmpty.first()).peek();
  }

  pop(): T | undefined {
    if (this.#length === 0) return undefined;
    this.#length--;
    const level = this.#nonEmpty.first();
    const ring = this.#ring(level);
    const item = ring.shift();
    if (ring.length === 0) this.#nonEmpty.delete(level);
    return item;
  }

  #ring(level: number): Ring<T> {
    return this.#rings[level] as Ring<T>;
  }

  /** The ring that is about to take an item. */
  #ringFor(level: number): Ring<T> {
    this.#length++;
    this.#nonEmpty.add(level);
    return (this.#rings[level] ??= new Ring());
  }
}

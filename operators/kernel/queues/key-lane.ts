import type { Linked } from './chain.js';
import { PriorityQueue } from './priority-queue.js';

/** So many levels of urgency cost a key next to nothing; with more, or fractions, it has a heap. */
const FEW_LEVELS = 32;

/** One key: what waits under it, and how much of it is under way. */
export abstract class KeyLane<T> implements Linked<KeyLane<T>> {
  /** Items waiting. */
  length = 0;
  /** Items under way. */
  running = 0;
  /** True to keep the lane while it is idle. */
  stays = false;
  /** Its turn, for whoever gives turns. */
  turn: object | undefined = undefined;
  previous: KeyLane<T> | undefined = undefined;
  next: KeyLane<T> | undefined = undefined;

  constructor(
    readonly key: unknown,
    /** Most items under way. */
    readonly limit: number,
  ) {}

  /** Number of the item that goes next; undefined when none waits. */
  abstract readonly headIndex: number | undefined;
  /** The note that was handed in with it. Only asked while one waits. */
  abstract readonly headNote: unknown;
  /** How soon it goes, compared with those of other keys: the lowest first. Only asked while one waits. */
  abstract readonly headRank: number;
  /** Answers what can be taken out of turn with `leave`, where that is possible. */
  abstract push(item: T, index: number, level: number, note: unknown): Entry<T> | undefined;
  /** Takes the item that goes next; only when one waits. */
  abstract shift(): T;

  get canGo(): boolean {
    return this.running < this.limit && this.length > 0;
  }
}

/** Items, their numbers and their notes in turn, and those that came after. */
interface Stretch {
  readonly entries: unknown[];
  next: Stretch | undefined;
}

/** So many places an item takes. */
const PLACES = 3;
const SHORTEST_STRETCH = 2 * PLACES;
const LONGEST_STRETCH = 512 * PLACES;

/**
 * First in, first out; an item that waits costs no object. A long queue is many short arrays, each up to twice as long as the one before: one
 * that grows is copied again and again, and a large one is costly to make.
 */
export class FifoLane<T> extends KeyLane<T> {
  #head: Stretch | undefined;
  #tail: Stretch | undefined;
  /** Where the first item stands in the first stretch, and where the next one goes in the last. */
  #at = 0;
  #end = 0;

  get headIndex(): number | undefined {
    return this.length === 0 ? undefined : this.headRank;
  }

  get headRank(): number {
    return (this.#head as Stretch).entries[this.#at + 1] as number;
  }

  get headNote(): unknown {
    return (this.#head as Stretch).entries[this.#at + 2];
  }

  push(item: T, index: number, _level: number, note: unknown): undefined {
    let tail = this.#tail;
    if (tail === undefined || this.#end === tail.entries.length) tail = this.#lengthen();
    tail.entries[this.#end++] = item;
    tail.entries[this.#end++] = index;
    tail.entries[this.#end++] = note;
    this.length++;
  }

  shift(): T {
    const { entries, next } = this.#head as Stretch;
    const item = entries[this.#at] as T;
    entries[this.#at] = undefined;
    entries[this.#at + 2] = undefined;
    this.#at += PLACES;
    this.length--;
    if (this.#at === entries.length) {
      this.#head = next;
      if (next === undefined) this.#tail = undefined;
      this.#at = 0;
    }
    return item;
  }

  #lengthen(): Stretch {
    const last = this.#tail;
    const length = last ? Math.min(2 * last.entries.length, LONGEST_STRETCH) : SHORTEST_STRETCH;
    const stretch: Stretch = { entries: new Array<unknown>(length), next: undefined };
    if (last) last.next = stretch;
    else this.#head = stretch;
    this.#tail = stretch;
    this.#end = 0;
    return stretch;
  }
}

/** An item of a lane by priority. */
export interface Entry<T> {
  readonly item: T;
  readonly index: number;
  readonly level: number;
  readonly note: unknown;
  readonly lane: PriorityLane<T>;
  waits: boolean;
}

/** The most urgent item first. */
export class PriorityLane<T> extends KeyLane<T> {
  #queue = new PriorityQueue<Entry<T>>(FEW_LEVELS);
  #isRanked = false;

  get headIndex(): number | undefined {
    return this.#head()?.index;
  }

  get headRank(): number {
    return (this.#head() as Entry<T>).level;
  }

  get headNote(): unknown {
    return this.#head()?.note;
  }

  push(item: T, index: number, level: number, note: unknown): Entry<T> {
    const entry: Entry<T> = { item, index, level, note, lane: this, waits: true };
    if (!this.#isRanked && !(Number.isInteger(level) && level < FEW_LEVELS)) this.#rank();
    this.#queue.push(level, entry);
    this.length++;
    return entry;
  }

  shift(): T {
    const entry = this.#head() as Entry<T>;
    this.#queue.shift();
    this.leave(entry);
    return entry.item;
  }

  /** Takes an item out, wherever it stands. */
  leave(entry: Entry<T>): void {
    entry.waits = false;
    this.length--;
  }

  /** From the first level on that is not one of a few, any number will do. */
  #rank(): void {
    const few = this.#queue;
    this.#queue = new PriorityQueue(Infinity);
    this.#isRanked = true;
    for (let entry = few.shift(); entry; entry = few.shift()) this.#queue.push(entry.level, entry);
  }

  /** Entries that have left are cleared away when they come to the front. */
  #head(): Entry<T> | undefined {
    while (this.#queue.peek()?.waits === false) this.#queue.shift();
    return this.#queue.peek();
  }
}

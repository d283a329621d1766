import type { Linked } from './line.js';

/** An item that was accepted, its number, and when it came. */
export interface LaneItem<T> {
  readonly input: T;
  readonly index: number;
  readonly at: number;
}

/** One array of items with their fields, and the next one. */
interface Chunk {
  readonly entries: unknown[];
  next: Chunk | undefined;
}

/** Array places that one item takes. */
const FIELDS = 4;
const MIN_CHUNK = 2 * FIELDS;
const MAX_CHUNK = 512 * FIELDS;

/**
 * One key: what waits under it, first in, first out, and how much of it is under way. An item that waits costs no object. A long queue is many short
 * arrays, each up to twice as long as the one before: one that grows is copied again and again, and a large one is costly to make.
 */
export class KeyLane<T> implements Linked<KeyLane<T>> {
  /** Items waiting. */
  length = 0;
  /** Items under way. */
  running = 0;
  /** Why no more of it is served. */
  stopped: { readonly error: unknown } | undefined = undefined;
  previous: KeyLane<T> | undefined = undefined;
  next: KeyLane<T> | undefined = undefined;
  private first: Chunk | undefined = undefined;
  private last: Chunk | undefined = undefined;
  /** Where the first item stands in the first stretch, and where the next one goes in the last. */
  private at = 0;
  private end = 0;

  constructor(
    readonly key: unknown,
    /** Most items under way. */
    readonly limit: number,
  ) {}

  /** Whether it has work and room. */
  get canGo(): boolean {
    return this.running < this.limit && this.length > 0;
  }

  /** Number of the item that goes next, when it came, and the note that was handed in with it. Only asked while one waits. */
  get headIndex(): number {
    return (this.first as Chunk).entries[this.at + 1] as number;
  }

  get headAt(): number {
    return (this.first as Chunk).entries[this.at + 2] as number;
  }

  get headNote(): unknown {
    return (this.first as Chunk).entries[this.at + 3];
  }

  push(input: T, index: number, at: number, note: unknown): void {
    let { last } = this;
    if (last === undefined || this.end === last.entries.length) last = this.grow(last);
    const { entries } = last;
    entries[this.end++] = input;
    entries[this.end++] = index;
    entries[this.end++] = at;
    entries[this.end++] = note;
    this.length++;
  }

  /** Takes the item that goes next; only when one waits. */
  shift(): T {
    const { entries, next } = this.first as Chunk;
    const item = entries[this.at] as T;
    entries[this.at] = entries[this.at + 3] = undefined;
    this.at += FIELDS;
    this.length--;
    if (this.at === entries.length) {
      this.first = next;
      if (next === undefined) this.last = undefined;
      this.at = 0;
    }
    return item;
  }

  private grow(last: Chunk | undefined): Chunk {
    const length = last ? Math.min(2 * last.entries.length, MAX_CHUNK) : MIN_CHUNK;
    const stretch: Chunk = { entries: new Array<unknown>(length), next: undefined };
    if (last) last.next = stretch;
    else this.first = stretch;
    this.last = stretch;
    this.end = 0;
    return stretch;
  }
}

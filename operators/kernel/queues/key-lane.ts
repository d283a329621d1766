import type { Linked } from './line.js';

/** An item that was accepted, its number, and when it came. */
export interface LaneItem<T> {
  readonly input: T;
  readonly index: number;
  readonly at: number;
}

/** Items in turn with all that is known of them, and those that came after. */
interface Stretch {
  readonly entries: unknown[];
  next: Stretch | undefined;
}

/** So many places an item takes. */
const PLACES = 4;
const SHORTEST_STRETCH = 2 * PLACES;
const LONGEST_STRETCH = 512 * PLACES;

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
  fate: { readonly error: unknown } | undefined = undefined;
  previous: KeyLane<T> | undefined = undefined;
  next: KeyLane<T> | undefined = undefined;
  private first: Stretch | undefined = undefined;
  private last: Stretch | undefined = undefined;
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
    return (this.first as Stretch).entries[this.at + 1] as number;
  }

  get headAt(): number {
    return (this.first as Stretch).entries[this.at + 2] as number;
  }

  get headNote(): unknown {
    return (this.first as Stretch).entries[this.at + 3];
  }

  push(input: T, index: number, at: number, note: unknown): void {
    let { last } = this;
    if (last === undefined || this.end === last.entries.length) last = this.lengthen(last);
    const { entries } = last;
    entries[this.end++] = input;
    entries[this.end++] = index;
    entries[this.end++] = at;
    entries[this.end++] = note;
    this.length++;
  }

  /** Takes the item that goes next; only when one waits. */
  shift(): T {
    const { entries, next } = this.first as Stretch;
    const item = entries[this.at] as T;
    entries[this.at] = entries[this.at + 3] = undefined;
    this.at += PLACES;
    this.length--;
    if (this.at === entries.length) {
      this.first = next;
      if (next === undefined) this.last = undefined;
      this.at = 0;
    }
    return item;
  }

  private lengthen(last: Stretch | undefined): Stretch {
    const length = last ? Math.min(2 * last.entries.length, LONGEST_STRETCH) : SHORTEST_STRETCH;
    const stretch: Stretch = { entries: new Array<unknown>(length), next: undefined };
    if (last) last.next = stretch;
    else this.first = stretch;
    this.last = stretch;
    this.end = 0;
    return stretch;
  }
}

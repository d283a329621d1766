import type { Linked } from './line.js';

/** An item that was accepted. */
export interface LaneItem<T> {
  readonly input: T;
  /** Its number. */
  readonly index: number;
  /** When it came. */
  readonly at: number;
}

/** Array places that one item takes, and most places of one array without the last, which has the array behind it. */
const FIELDS = 4;
const MOST = 512 * FIELDS;

/**
 * One key: what waits under it, first in, first out, and how much of it is under way. An item that waits costs no object, which the garbage collector
 * would have to copy. A long queue is many short arrays, each up to twice as long as the one before: a long one that grows costs several times as much.
 */
export class KeyLane<T> implements Linked<KeyLane<T>> {
  /** Items waiting. */
  length = 0;
  /** Items under way. */
  running = 0;
  /** Why no more of it is served. */
  stopped: { readonly error: unknown } | undefined = undefined;
  /** Whether it is among those that go in turn. */
  isInTurn = false;
  previous: KeyLane<T> | undefined = undefined;
  next: KeyLane<T> | undefined = undefined;
  /** Where the first item stands, and where the next one goes; in between there may be more arrays. */
  private head: unknown[] = new Array<unknown>(2 * FIELDS + 1);
  private at = 0;
  private tail = this.head;
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
    return this.head[this.at + 1] as number;
  }

  get headAt(): number {
    return this.head[this.at + 2] as number;
  }

  get headNote(): unknown {
    return this.head[this.at + 3];
  }

  push(input: T, index: number, at: number, note: unknown): void {
    let { tail } = this;
    if (this.end === tail.length - 1) {
      this.tail = new Array<unknown>(Math.min(2 * this.end, MOST) + 1);
      tail[this.end] = this.tail;
      tail = this.tail;
      this.end = 0;
    }
    tail[this.end++] = input;
    tail[this.end++] = index;
    tail[this.end++] = at;
    tail[this.end++] = note;
    this.length++;
  }

  /** Takes the item that goes next; only when one waits. */
  shift(): T {
    const { head, at } = this;
    const item = head[at] as T;
    head[at] = head[at + 3] = undefined;
    this.at += FIELDS;
    if (--this.length === 0) {
      this.at = this.end = 0;
    } else if (this.at === head.length - 1) {
      this.head = head[this.at] as unknown[];
      this.at = 0;
    }
    return item;
  }
}

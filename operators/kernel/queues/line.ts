import type { GrantQueue, GrantQueueRule, Queue, QueueRule, Waiter } from './queue.js';

/** Items stand in pieces of so many: a long queue then never moves what it holds, and lets go of it piece by piece. */
const PIECE = 1024;

interface Piece<T> {
  readonly items: T[];
  next: Piece<T> | undefined;
}

/** A queue, first in, first out, in O(1). `Array.prototype.shift` moves every element once an array passes some 16,000. */
export class Backlog<T> {
  length = 0;
  private first: Piece<T> = { items: [], next: undefined };
  private last = this.first;
  /** Places before the first item in its piece, and behind the last in its own. */
  private start = 0;
  private end = 0;

  push(item: T): void {
    if (this.end === PIECE) {
      this.last = this.last.next = { items: [], next: undefined };
      this.end = 0;
    }
    this.last.items[this.end++] = item;
    this.length++;
  }

  peek(): T | undefined {
    return this.length === 0 ? undefined : this.first.items[this.start];
  }

  shift(): T | undefined {
    if (this.length === 0) return undefined;
    const { items, next } = this.first;
    const item = items[this.start] as T;
    // Or it would be held until its piece goes.
    items[this.start++] = undefined as T;
    if (--this.length === 0) this.start = this.end = 0;
    else if (next && this.start === PIECE) {
      this.first = next;
      this.start = 0;
    }
    return item;
  }

  clear(): void {
    while (this.length > 0) this.shift();
  }
}

/** Knows its neighbours in the chain it is in; it can be in one at a time. */
export interface Linked<T> {
  previous: T | undefined;
  next: T | undefined;
}

/** A list in the order of adding with O(1) push and remove, linked through its members: it makes no object, and removing a member leaves nothing behind. */
export class Chain<T extends Linked<T>> {
  size = 0;
  first: T | undefined = undefined;
  last: T | undefined = undefined;

  /** A copy, so that members may be removed while it is read. */
  get members(): T[] {
    const members: T[] = [];
    for (let member = this.first; member; member = member.next) members.push(member);
    return members;
  }

  /** Adds at the end what is in no chain. */
  push(member: T): void {
    const { last } = this;
    member.previous = last;
    if (last === undefined) this.first = member;
    else last.next = member;
    this.last = member;
    this.size++;
  }

  /** Takes a member out. */
  remove(member: T): void {
    const { previous, next } = member;
    if (previous === undefined) this.first = next;
    else previous.next = next;
    if (next === undefined) this.last = previous;
    else next.previous = previous;
    // Otherwise a removed member would keep others in memory.
    member.previous = undefined;
    member.next = undefined;
    this.size--;
  }

  /** Forgets its members; they are not to be used again. */
  clear(): void {
    this.first = undefined;
    this.last = undefined;
    this.size = 0;
  }
}

/** One line for all: first come, first served. */
export class OneLine<E extends Waiter<E>> extends Chain<E> implements GrantQueue<E> {
  count(): number {
    return this.size;
  }

  lead(): number {
    return this.first === undefined ? -1 : 0;
  }

  goesFirst(): boolean {
    return this.first === undefined;
  }

  head(): E | undefined {
    return this.first;
  }

  takeHead(_lane: number, _taken?: number, entry = this.first as E): E {
    this.remove(entry);
    return entry;
  }

  turn(): void {
    // One lane has every turn.
  }

  oldest(): E | undefined {
    return this.first;
  }

  newest(): E | undefined {
    return this.last;
  }

  each(_lane: number, show: (entry: E) => boolean): void {
    this.visit(show);
  }

  /** Visits them, the oldest first, until the answer is false. A visit may take out whom it is shown. */
  visit(show: (entry: E) => boolean): void {
    for (let entry = this.oldest(); entry !== undefined; ) {
      const { next } = entry;
      if (!show(entry)) return;
      entry = next;
    }
  }
}

/** The default for turns of single grants: one line, without lanes. */
export const ONE_LINE: Readonly<GrantQueueRule<unknown>> = {
  lanes: [{ name: 'default' }],
  isDeclared: false,
  at: () => 0,
  create: () => new OneLine(),
};

/** A line of which batches are made, and into which entries come back: what came back first, in the order it came back, then what is fresh. */
export class Line<E extends Waiter<E>> extends OneLine<E> implements Queue<E> {
  /** The newest of those that came back. */
  private returned: E | undefined = undefined;

  isReturned(): boolean {
    return this.returned !== undefined;
  }

  /** The fresh one that came first. */
  override oldest(): E | undefined {
    return this.returned === undefined ? this.first : this.returned.next;
  }

  /** The fresh one that came last. */
  override newest(): E | undefined {
    return this.last === this.returned ? undefined : this.last;
  }

  pushReturned(entry: E): void {
    const before = this.returned;
    const after = this.oldest();
    entry.previous = before;
    entry.next = after;
    if (before === undefined) this.first = entry;
    else before.next = entry;
    if (after === undefined) this.last = entry;
    else after.previous = entry;
    this.returned = entry;
    this.size++;
  }

  override remove(entry: E): void {
    if (entry === this.returned) this.returned = entry.previous;
    super.remove(entry);
  }

  after(lane: number): number {
    return lane === -1 && this.oldest() !== undefined ? 0 : -1;
  }

  plan(_lane: number, places: number, budget: number): E[] {
    const entries: E[] = [];
    let weight = 0;
    for (let entry = this.oldest(); entry !== undefined && entries.length < places; entry = entry.next) {
      weight += entry.weight;
      if (entries.length > 0 && weight > budget) break;
      entries.push(entry);
    }
    return entries;
  }

  takeAll(entries: readonly E[]): void {
    const { returned } = this;
    let after = this.oldest();
    // They stand side by side, behind what came back.
    for (const entry of entries) {
      after = entry.next;
      entry.previous = undefined;
      entry.next = undefined;
    }
    if (returned === undefined) this.first = after;
    else returned.next = after;
    if (after === undefined) this.last = returned;
    else after.previous = returned;
    this.size -= entries.length;
  }
}

/** The default for queues: first in, first out, without lanes. */
export const FIFO: Readonly<QueueRule<unknown>> = {
  lanes: [{ name: 'default' }],
  isDeclared: false,
  at: () => 0,
  create: () => new Line(),
};

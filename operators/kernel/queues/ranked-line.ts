import { OneLine } from './line.js';
import type { GrantQueue, KeyTurn, Waiter } from './queue.js';

/** Less than 0 when the first group goes before the second, as for `sort`. */
export type Compare = (one: unknown, other: unknown) => number;

/**
 * One line of groups: the group that compares least goes next, and in a group the oldest entry goes first. The comparison is asked for each turn, because what
 * it looks at may change; of groups that compare equal, the one goes first that has waited longest. A turn looks at each group that has something waiting.
 */
export class RankedLine<E extends Waiter<E>> implements GrantQueue<E> {
  size = 0;
  private readonly groups = new Map<unknown, OneLine<E>>();

  constructor(private readonly compare: Compare) {}

  count(): number {
    return this.size;
  }

  push(entry: E): void {
    let group = this.groups.get(entry.key);
    if (group === undefined) this.groups.set(entry.key, (group = new OneLine()));
    group.push(entry);
    this.size++;
  }

  remove(entry: E): void {
    const group = this.groups.get(entry.key) as OneLine<E>;
    group.remove(entry);
    this.size--;
    if (group.size === 0) this.groups.delete(entry.key);
  }

  lead(): number {
    return this.size === 0 ? -1 : 0;
  }

  goesFirst(): boolean {
    return this.size === 0;
  }

  head(): E | undefined {
    const { size } = this;
    let best: unknown;
    let line: OneLine<E> | undefined;
    for (const [key, group] of this.groups) {
      if (line === undefined || this.compare(key, best) < 0) [best, line] = [key, group];
    }
    // The comparison may have taken entries out, the best one among them.
    return this.size < size ? this.head() : line?.first;
  }

  takeHead(_lane: number, _taken?: number, entry = this.head() as E): E {
    this.remove(entry);
    return entry;
  }

  turn(): void {
    // The comparison says whose turn it is.
  }

  newest(): E | undefined {
    return this.inOrderOfArrival().at(-1);
  }

  each(_lane: number, visit: (entry: E) => boolean): void {
    this.inOrderOfArrival().every(visit);
  }

  headOf(_lane: number, key: unknown): E | undefined {
    return this.groups.get(key)?.first;
  }

  turns(_lane: number, most: number): readonly KeyTurn[] {
    const groups = [...this.groups].sort(([one], [other]) => this.compare(one, other));
    return groups.slice(0, most).map(([key, { size }]) => ({ key, size }));
  }

  private inOrderOfArrival(): E[] {
    return [...this.groups.values()].flatMap(({ members }) => members).sort(({ index: one = 0 }, { index: other = 0 }) => one - other);
  }
}

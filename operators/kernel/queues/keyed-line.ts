import type { Linked } from './line.js';
import { Chain, OneLine } from './line.js';
import type { KeyTurn, Waiter } from './queue.js';

/** What waits under one key. */
class KeyLine<E extends Waiter<E>> extends OneLine<E> implements Linked<KeyLine<E>> {
  previous: KeyLine<E> | undefined = undefined;
  next: KeyLine<E> | undefined = undefined;
}

/**
 * A {@link Line} that is shared fairly among keys: they go in turn, and under one key the oldest goes first. However many wait under the
 * others, whoever is the first of its key is served within one turn of each. What came back goes ahead of them all. An empty key is forgotten.
 */
export class KeyedLine<E extends Waiter<E>> {
  private readonly returned = new Chain<E>();
  private readonly cameBack = new Set<E>();
  private readonly keys = new Map<unknown, KeyLine<E>>();
  /** Keys under which something waits; the first of them goes next. */
  private readonly rotation = new Chain<KeyLine<E>>();
  /** How far a plan has looked. */
  at: E | undefined = undefined;
  /** Its key, as long as the plan looks at one entry of each; then, in their order, those behind the ones that it has looked at. */
  private line: KeyLine<E> | undefined = undefined;
  private later: E[] = [];
  private inLater = 0;

  get first(): E | undefined {
    return this.returned.first ?? this.rotation.first?.first;
  }

  firstOf(key: unknown): E | undefined {
    return this.keys.get(key)?.first;
  }

  turns(most: number): readonly KeyTurn[] {
    const turns: KeyTurn[] = [];
    for (let line = this.rotation.first; line !== undefined && turns.length < most; line = line.next)
      turns.push({ key: (line.first as E).key, size: line.size });
    return turns;
  }

  isReturned(): boolean {
    return this.returned.size > 0;
  }

  oldest(): E | undefined {
    return this.best((line) => line.oldest(), -1);
  }

  newest(): E | undefined {
    return this.best((line) => line.newest(), 1);
  }

  push(entry: E): void {
    let line = this.keys.get(entry.key);
    if (line === undefined) {
      line = new KeyLine();
      this.keys.set(entry.key, line);
      this.rotation.push(line);
    }
    line.push(entry);
  }

  pushReturned(entry: E): void {
    this.returned.push(entry);
    this.cameBack.add(entry);
  }

  remove(entry: E): void {
    if (this.cameBack.delete(entry)) {
      this.returned.remove(entry);
      return;
    }
    const line = this.keys.get(entry.key) as KeyLine<E>;
    line.remove(entry);
    if (line.size > 0) return;
    this.keys.delete(entry.key);
    this.rotation.remove(line);
  }

  /** Its key goes behind the others. */
  take(entry: E): void {
    const line = this.cameBack.has(entry) ? undefined : this.keys.get(entry.key);
    this.remove(entry);
    if (line === undefined || line.size === 0) return;
    this.rotation.remove(line);
    this.rotation.push(line);
  }

  rewind(): void {
    this.line = this.isReturned() ? undefined : this.rotation.first;
    this.at = this.line?.first;
    this.later = [];
    this.inLater = 0;
  }

  /** The first round goes along the chain, so that a plan only looks at the keys it takes from. */
  step(): void {
    const { next } = this.at as E;
    if (next !== undefined) this.later.push(next);
    this.line = this.line?.next;
    this.at = this.line === undefined ? this.later[this.inLater++] : this.line.first;
  }

  /** Visits what is fresh, the oldest first, until the answer is false. A visit may take out whom it is shown. */
  visit(show: (entry: E) => boolean): void {
    // A full lane mostly asks for the oldest only: the others are not sorted for that.
    const oldest = this.oldest();
    if (oldest === undefined || !show(oldest)) return;
    const others: E[] = [];
    for (const line of this.keys.values()) line.visit((entry) => entry === oldest || others.push(entry) > 0);
    others.sort((one, other) => (one.index ?? 0) - (other.index ?? 0)).every(show);
  }

  /** Of one entry of each key the one that came first (-1) or last (1). */
  private best(of: (line: KeyLine<E>) => E | undefined, sign: 1 | -1): E | undefined {
    let best: E | undefined;
    for (let line = this.rotation.first; line !== undefined; line = line.next) {
      const entry = of(line) as E;
      if (best === undefined || sign * ((entry.index ?? 0) - (best.index ?? 0)) > 0) best = entry;
    }
    return best;
  }
}

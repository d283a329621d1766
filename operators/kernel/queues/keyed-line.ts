import type { Charge } from '../limits/limit.js';
import type { Amounts } from '../limits/usage.js';
import type { Linked } from './line.js';
import { Chain, OneLine } from './line.js';
import type { GrantQueue, KeyTurn, Waiter } from './queue.js';

/**
 * How the keys of a lane share it. Made by `byCost()`.
 * @stable
 */
export interface KeyFairness {
  keyLines(...args: never[]): object;
}

/** Internal side of `KeyFairness`: creates the lines of one queue, one for each lane, and the object that each grant is reported to. */
export interface KeyFairnessRule extends KeyFairness {
  keyLines<E extends Waiter<E>>(lanes: number): { readonly lines: readonly KeyedLine<E>[]; readonly granted: GrantQueue<E>['granted'] };
}

/** A lease, as the queue sees it where keys share a lane by cost. */
export interface GrantedLease {
  readonly charge: Charge;
  share?: LeaseShare;
}

/** What a lease counts for its key. */
export interface LeaseShare {
  /** The lease has used so much, by unit. Answers whether another job is next now. */
  settled(used: Amounts): boolean;
  /** The lease was released, used or unused. It may still be settled. */
  released(isUnused: boolean): void;
}

/** What waits under one key. */
export class KeyLine<E extends Waiter<E>> extends OneLine<E> implements Linked<KeyLine<E>> {
  previous: KeyLine<E> | undefined = undefined;
  next: KeyLine<E> | undefined = undefined;
}

/**
 * The entries of a lane that keys share fairly: keys take turns, and within a key the oldest entry goes first. However many entries wait under other
 * keys, the first of each key is served within one turn of each key. Returned entries go first of all. An empty key is forgotten; without keys all
 * entries share one.
 */
export class KeyedLine<E extends Waiter<E>> {
  protected readonly returned = new Chain<E>();
  protected readonly cameBack = new Set<E>();
  private readonly keys = new Map<unknown, KeyLine<E>>();
  /** Keys under which something waits; the first of them goes next. */
  private readonly rotation = new Chain<KeyLine<E>>();

  constructor(private readonly isKeyed: boolean) {}

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
    return this.best((line) => line.first, -1);
  }

  newest(): E | undefined {
    return this.best((line) => line.last, 1);
  }

  push(entry: E): void {
    let line = this.lineOf(entry);
    if (line === undefined) {
      line = new KeyLine();
      if (this.isKeyed) this.keys.set(entry.key, line);
      this.rotation.push(line);
    }
    line.push(entry);
  }

  pushReturned(entry: E): void {
    this.returned.push(entry);
    this.cameBack.add(entry);
  }

  /** Takes an entry out. When it had its turn, its key goes behind the others. */
  remove(entry: E, hasTurn: boolean): void {
    if (this.cameBack.delete(entry)) {
      this.returned.remove(entry);
      return;
    }
    const line = this.lineOf(entry) as KeyLine<E>;
    line.remove(entry);
    if (line.size > 0 && !hasTurn) return;
    this.rotation.remove(line);
    if (line.size > 0) this.rotation.push(line);
    else this.keys.delete(entry.key);
  }

  /**
   * What is fresh in the order of its turns; nothing before everything that came back has gone. The first round goes along the keys, so that a plan
   * only looks at those it takes from.
   */
  *inTurn(): Generator<E, undefined> {
    const later: E[] = [];
    for (let line = this.isReturned() ? undefined : this.rotation.first; line !== undefined; line = line.next) {
      const { next } = line.first as E;
      if (next) later.push(next);
      yield line.first as E;
    }
    // Grows while it is gone through.
    for (const entry of later) {
      if (entry.next) later.push(entry.next);
      yield entry;
    }
    return undefined;
  }

  /** Visits what is fresh, the oldest first, until the answer is false. A visit may take out whom it is shown. */
  visit(show: (entry: E) => boolean): void {
    // A full lane mostly asks for the oldest only: the others are not sorted for that.
    const oldest = this.oldest();
    if (oldest === undefined || !show(oldest)) return;
    const others: E[] = [];
    for (const line of this.rotation.members) line.visit((entry) => entry === oldest || others.push(entry) > 0);
    others.sort((one, other) => arrival(one) - arrival(other)).every(show);
  }

  protected lineOf({ key }: E): KeyLine<E> | undefined {
    return this.isKeyed ? this.keys.get(key) : this.rotation.first;
  }

  /** Of one entry of each key the one that came first (-1) or last (1). */
  private best(of: (line: KeyLine<E>) => E | undefined, sign: 1 | -1): E | undefined {
    let best: E | undefined;
    for (let line = this.rotation.first; line !== undefined; line = line.next) {
      const entry = of(line) as E;
      if (best === undefined || sign * (arrival(entry) - arrival(best)) > 0) best = entry;
    }
    return best;
  }
}

function arrival({ index = 0 }: { readonly index?: number }): number {
  return index;
}

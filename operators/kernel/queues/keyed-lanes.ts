import { Chain } from './chain.js';
import { DeadlineHeap } from './deadline-heap.js';
import type { Entry, KeyLane } from './key-lane.js';
import { FifoLane, PriorityLane } from './key-lane.js';

export type { KeyLane } from './key-lane.js';

/** Whose item goes next: keys in turn, the oldest item, or the most urgent one (0 before 1). */
export type KeyFairness = 'roundRobin' | 'fifo' | 'priority';

/** A heap may keep so many entries that nobody waits for, and as many again as there are of the others. */
const MOST_LEFT_OVER = 32;

/**
 * Decides which of the waiting items goes next when every key has its own limit. A key that is full waits by itself: the others'
 * turns do not come to it. Taking and adding an item costs the same however many keys and items there are (with `'roundRobin'`; the
 * others have a heap of the keys that could go). Keys with nothing waiting and nothing under way are forgotten.
 */
export class KeyedLanes<T> {
  readonly #fairness: KeyFairness;
  readonly #lanes = new Map<unknown, KeyLane<T>>();
  #turns: Turns<T>;
  #queued = 0;
  /** The waiting items of all keys, the least urgent and newest first; only kept when asked for. */
  readonly #lowest: DeadlineHeap<Entry<T>> | undefined;

  constructor(fairness: KeyFairness, dropsLowest = false) {
    this.#fairness = fairness;
    this.#turns = this.#makeTurns();
    this.#lowest = dropsLowest ? new DeadlineHeap() : undefined;
  }

  /** Items waiting. */
  get queued(): number {
    return this.#queued;
  }

  /** The keys that are remembered. */
  get lanes(): Iterable<KeyLane<T>> {
    return this.#lanes.values();
  }

  /** How many of them. */
  get size(): number {
    return this.#lanes.size;
  }

  find(key: unknown): KeyLane<T> | undefined {
    return this.#lanes.get(key);
  }

  /** Remembers a new key. */
  open(key: unknown, limit: number): KeyLane<T> {
    const lane = this.#fairness === 'priority' ? new PriorityLane<T>(key, limit) : new FifoLane<T>(key, limit);
    this.#lanes.set(key, lane);
    return lane;
  }

  /** The level counts with `'priority'` only. A note is kept for the item, as `headNote`. */
  push(lane: KeyLane<T>, item: T, index: number, level = 0, note?: unknown): void {
    const entry = lane.push(item, index, level, note);
    this.#queued++;
    if (entry && this.#lowest) this.#remember(this.#lowest, entry);
    // Behind others in a line it changes nothing.
    if (entry || lane.length === 1) this.#turns.update(lane);
  }

  /** The lane whose turn it is: it has work and room. */
  next(): KeyLane<T> | undefined {
    return this.#turns.first;
  }

  /** Takes the first item of the lane `next` answered: it is under way from here, until `end`. */
  take(lane: KeyLane<T>): T {
    lane.running++;
    const item = lane.shift();
    this.#queued--;
    this.#turns.taken(lane);
    return item;
  }

  /** One item of this lane is no longer under way. */
  end(lane: KeyLane<T>): void {
    lane.running--;
    this.#turns.update(lane);
    this.forget(lane);
  }

  /** Takes the first item of a lane out, without a turn. */
  drop(lane: KeyLane<T>): T {
    const item = lane.shift();
    this.#queued--;
    this.#turns.update(lane);
    return item;
  }

  /** Forgets a lane that is idle; does nothing for another. */
  forget(lane: KeyLane<T>): void {
    if (lane.running === 0 && lane.length === 0 && !lane.stays) this.#lanes.delete(lane.key);
  }

  /** The lane in which most items wait; undefined when none does. */
  longest(): KeyLane<T> | undefined {
    let longest: KeyLane<T> | undefined;
    for (const lane of this.#lanes.values()) if (lane.length > (longest?.length ?? 0)) longest = lane;
    return longest;
  }

  /** Takes out the newest of the least urgent items, if it is less urgent than `level`. Its lane may be idle then, and is not forgotten. */
  dropLowest(level: number): Entry<T> | undefined {
    const lowest = this.#lowest;
    // What was taken meanwhile.
    while (lowest?.peek()?.waits === false) lowest.pop();
    if (lowest === undefined || -lowest.peekAt() <= level) return undefined;
    const entry = lowest.pop() as Entry<T>;
    entry.lane.leave(entry);
    this.#queued--;
    this.#turns.update(entry.lane);
    return entry;
  }

  /** Forgets everything. Lanes from before are not to be used any more. */
  clear(): void {
    this.#lanes.clear();
    this.#turns = this.#makeTurns();
    this.#lowest?.keep(() => false);
    this.#queued = 0;
  }

  #makeTurns(): Turns<T> {
    return this.#fairness === 'roundRobin' ? new Rotation() : new RankedTurns();
  }

  #remember(lowest: DeadlineHeap<Entry<T>>, entry: Entry<T>): void {
    lowest.pushFront(-entry.level, entry);
    if (lowest.length > 2 * this.#queued + MOST_LEFT_OVER) lowest.keep(({ waits }) => waits);
  }
}

/** The lanes that can go, and which of them goes first. */
interface Turns<T> {
  readonly first: KeyLane<T> | undefined;
  /** Something has changed in a lane: it may have become able to go, or no longer be, or stand elsewhere. */
  update(lane: KeyLane<T>): void;
  /** It was the lane's turn. */
  taken(lane: KeyLane<T>): void;
}

/** Lanes one after the other. */
class Rotation<T> implements Turns<T> {
  readonly #lanes = new Chain<KeyLane<T>>();

  get first(): KeyLane<T> | undefined {
    return this.#lanes.first;
  }

  update(lane: KeyLane<T>): void {
    const isIn = lane.previous !== undefined || this.#lanes.first === lane;
    if (lane.canGo === isIn) return;
    if (isIn) this.#lanes.delete(lane);
    else this.#lanes.add(lane);
  }

  taken(lane: KeyLane<T>): void {
    // The only one in turn goes again.
    if (this.#lanes.length === 1 && lane.canGo) return;
    this.#lanes.delete(lane);
    if (lane.canGo) this.#lanes.add(lane);
  }
}

/** A lane's turn at a rank. It counts as long as it is the lane's own. */
interface Turn<T> {
  readonly lane: KeyLane<T>;
  readonly rank: number;
}

/** Lanes by rank, those of one rank one after the other. */
class RankedTurns<T> implements Turns<T> {
  readonly #heap = new DeadlineHeap<Turn<T>>();
  /** Turns that count. */
  #length = 0;

  get first(): KeyLane<T> | undefined {
    for (let turn = this.#heap.peek(); turn; turn = this.#heap.peek()) {
      if (turn.lane.turn === turn) return turn.lane;
      this.#heap.pop();
    }
    return undefined;
  }

  update(lane: KeyLane<T>): void {
    const turn = lane.turn as Turn<T> | undefined;
    const rank = lane.canGo ? lane.headRank : undefined;
    if (rank === turn?.rank) return;
    if (turn) this.#leave(lane);
    if (rank !== undefined) this.#enter({ lane, rank });
  }

  taken(lane: KeyLane<T>): void {
    this.#leave(lane);
    this.update(lane);
  }

  #enter(turn: Turn<T>): void {
    turn.lane.turn = turn;
    this.#heap.push(turn.rank, turn);
    this.#length++;
    if (this.#heap.length > 2 * this.#length + MOST_LEFT_OVER) this.#heap.keep((each) => each.lane.turn === each);
  }

  #leave(lane: KeyLane<T>): void {
    lane.turn = undefined;
    this.#length--;
  }
}

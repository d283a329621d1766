import { DeadlineHeap } from './deadline-heap.js';
import { PriorityQueue } from './priority-queue.js';
import { Ring } from './ring.js';

/** Whose item goes next: keys in turn, the oldest item, or the most urgent one (0 before 1). */
export type KeyFairness = 'roundRobin' | 'fifo' | 'priority';

/** So many levels of urgency cost a key next to nothing; with more, or fractions, it has a heap. */
const FEW_LEVELS = 32;

/** No turn of this lane is queued. */
const NO_TURN = Infinity;

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

  /** The level counts with `'priority'` only. */
  push(lane: KeyLane<T>, item: T, index: number, level = 0): void {
    const entry = lane.push(item, index, level);
    if (entry && this.#lowest) this.#remember(this.#lowest, entry);
    this.#queued++;
    this.#queueTurn(lane);
  }

  /** The lane whose turn it is: it has work and room. */
  next(): KeyLane<T> | undefined {
    for (let lane = this.#turns.peek(); lane; lane = this.#turns.peek()) {
      const at = this.#turns.peekAt();
      if (lane.turnAt === at && lane.canGo && this.#rankOf(lane) === at) return lane;
      this.#turns.pop();
      if (lane.turnAt !== at) continue;
      // What stood first has been dropped meanwhile.
      lane.turnAt = NO_TURN;
      this.#queueTurn(lane);
    }
    return undefined;
  }

  /** Takes the first item of the lane `next` answered: it is under way from here, until `end`. */
  take(lane: KeyLane<T>): T {
    lane.running++;
    const item = lane.shift();
    this.#queued--;
    // The only one in turn goes again.
    if (this.#fairness === 'roundRobin' && this.#turns.length === 1 && lane.canGo) return item;
    this.#turns.pop();
    lane.turnAt = NO_TURN;
    this.#queueTurn(lane);
    return item;
  }

  /** One item of this lane is no longer under way. */
  end(lane: KeyLane<T>): void {
    lane.running--;
    this.#queueTurn(lane);
    this.forget(lane);
  }

  /** Takes the first item of a lane out, without a turn. */
  drop(lane: KeyLane<T>): T {
    const item = lane.shift();
    this.#queued--;
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

  /** Takes out the newest of the least urgent items, if it is less urgent than `level`. */
  dropLowest(level: number): { readonly item: T; readonly index: number } | undefined {
    const lowest = this.#lowest?.peek();
    if (lowest?.waits === false) {
      this.#lowest?.pop();
      return this.dropLowest(level);
    }
    if (lowest === undefined || lowest.level <= level) return undefined;
    this.#lowest?.pop();
    lowest.lane.leave(lowest);
    this.#queued--;
    this.forget(lowest.lane);
    return lowest;
  }

  clear(): void {
    this.#lanes.clear();
    this.#turns = this.#makeTurns();
    this.#queued = 0;
  }

  #makeTurns(): Turns<T> {
    return this.#fairness === 'roundRobin' ? new Rotation() : new DeadlineHeap();
  }

  #rankOf(lane: KeyLane<T>): number {
    if (this.#fairness === 'roundRobin') return 0;
    return this.#fairness === 'fifo' ? (lane.headIndex as number) : lane.headLevel;
  }

  #queueTurn(lane: KeyLane<T>): void {
    if (!lane.canGo) return;
    const at = this.#rankOf(lane);
    if (at >= lane.turnAt) return;
    lane.turnAt = at;
    this.#turns.push(at, lane);
    // A more urgent item leaves the lane's later turn behind.
    if (this.#turns.length > 2 * this.#lanes.size + 32) this.#rebuildTurns();
  }

  #rebuildTurns(): void {
    this.#turns = this.#makeTurns();
    for (const lane of this.#lanes.values()) lane.turnAt = NO_TURN;
    for (const lane of this.#lanes.values()) this.#queueTurn(lane);
  }

  #remember(lowest: DeadlineHeap<Entry<T>>, entry: Entry<T>): void {
    lowest.pushFront(-entry.level, entry);
    if (lowest.length > 2 * this.#queued + 32) lowest.keep(({ waits }) => waits);
  }
}

/** Lanes in the order of their turns. */
interface Turns<T> {
  readonly length: number;
  push(at: number, lane: KeyLane<T>): void;
  peekAt(): number;
  peek(): KeyLane<T> | undefined;
  pop(): KeyLane<T> | undefined;
}

/** All turns are as good as another: first come, first served. */
class Rotation<T> implements Turns<T> {
  readonly #ring = new Ring<KeyLane<T>>();

  get length(): number {
    return this.#ring.length;
  }

  push(_at: number, lane: KeyLane<T>): void {
    this.#ring.push(lane);
  }

  peekAt(): number {
    return 0;
  }

  peek(): KeyLane<T> | undefined {
    return this.#ring.peek();
  }

  pop(): KeyLane<T> | undefined {
    return this.#ring.shift();
  }
}

/** One key: what waits under it, and how much of it is under way. */
export abstract class KeyLane<T> {
  /** Items under way. */
  running = 0;
  /** True to keep the lane while it is idle. */
  stays = false;
  /** The rank under which its turn is queued. */
  turnAt = NO_TURN;

  constructor(
    readonly key: unknown,
    /** Most items under way. */
    readonly limit: number,
  ) {}

  /** Items waiting. */
  abstract readonly length: number;
  /** Number of the item that goes next; undefined when none waits. */
  abstract readonly headIndex: number | undefined;
  abstract readonly headLevel: number;
  abstract push(item: T, index: number, level: number): Entry<T> | undefined;
  abstract shift(): T;
  abstract leave(entry: Entry<T>): void;

  get canGo(): boolean {
    return this.running < this.limit && this.length > 0;
  }
}

/** The first item stands by itself, so that a key with one costs no ring; the others cost no object each. */
class FifoLane<T> extends KeyLane<T> {
  #length = 0;
  #item: T | undefined;
  #index = 0;
  #others: Ring<T> | undefined;
  /** Numbers of the others; undefined as long as each is one more than the one before. */
  #numbers: Ring<number> | undefined;
  readonly headLevel = 0;

  get length(): number {
    return this.#length;
  }

  get headIndex(): number | undefined {
    return this.#length === 0 ? undefined : this.#index;
  }

  push(item: T, index: number): undefined {
    if (this.#length === 0) {
      this.#item = item;
      this.#index = index;
    } else {
      if (this.#numbers || index !== this.#index + this.#length) this.#number(index);
      this.#others ??= new Ring();
      this.#others.push(item);
    }
    this.#length++;
  }

  shift(): T {
    const item = this.#item as T;
    this.#item = this.#others?.shift();
    this.#index = this.#numbers?.shift() ?? this.#index + 1;
    this.#length--;
    return item;
  }

  leave(): void {
    // Only entries leave, and there are none here.
  }

  /** Writes down a number that does not follow, and with the first of them those before it. */
  #number(index: number): void {
    if (this.#numbers === undefined) {
      this.#numbers = new Ring();
      for (let i = 1; i < this.#length; i++) this.#numbers.push(this.#index + i);
    }
    this.#numbers.push(index);
  }
}

interface Entry<T> {
  readonly item: T;
  readonly index: number;
  readonly level: number;
  readonly lane: PriorityLane<T>;
  waits: boolean;
}

class PriorityLane<T> extends KeyLane<T> {
  #queue = new PriorityQueue<Entry<T>>(FEW_LEVELS);
  #isRanked = false;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  get headIndex(): number | undefined {
    return this.#head()?.index;
  }

  get headLevel(): number {
    return this.#head()?.level ?? Infinity;
  }

  push(item: T, index: number, level: number): Entry<T> {
    const entry: Entry<T> = { item, index, level, lane: this, waits: true };
    if (!this.#isRanked && !(Number.isInteger(level) && level < FEW_LEVELS)) this.#rank();
    this.#queue.push(level, entry);
    this.#length++;
    return entry;
  }

  shift(): T {
    const entry = this.#head() as Entry<T>;
    this.#queue.shift();
    this.leave(entry);
    return entry.item;
  }

  leave(entry: Entry<T>): void {
    entry.waits = false;
    this.#length--;
  }

  /** From the first level on that is not one of a few, any number will do. */
  #rank(): void {
    const few = this.#queue;
    this.#queue = new PriorityQueue(Infinity);
    this.#isRanked = true;
    for (let entry = few.shift(); entry; entry = few.shift()) this.#queue.push(entry.level, entry);
  }

  /** Entries that were dropped are cleared away when they come to the front. */
  #head(): Entry<T> | undefined {
    while (this.#queue.peek()?.waits === false) this.#queue.shift();
    return this.#queue.peek();
  }
}

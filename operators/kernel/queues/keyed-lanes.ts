import { Chain } from './chain.js';
import type { KeyLane, Lost } from './key-lane.js';
import { FifoLane } from './key-lane.js';

/** The lanes that can go, and which of them goes first. */
export interface Turns<T> {
  readonly first: KeyLane<T> | undefined;
  /** A lane as these turns need it. */
  open(key: unknown, limit: number): KeyLane<T>;
  /** Something has changed in a lane: it may have become able to go, or no longer be, or stand elsewhere. */
  update(lane: KeyLane<T>): void;
  /** It was the lane's turn. */
  taken(lane: KeyLane<T>): void;
  /** Takes out the least urgent item that is less urgent than this, of equals the newest, and answers its lane; where some are more urgent than others. */
  dropLowest?(level: number, lost: Lost<T>[]): KeyLane<T> | undefined;
  clear(): void;
}

/**
 * Decides which of the waiting items goes next when every key has its own limit. A key that is full waits by itself: the others'
 * turns do not come to it. Taking and adding an item costs the same however many keys and items there are. Keys with nothing waiting and nothing
 * under way are forgotten.
 */
export class KeyedLanes<T> {
  /** Items waiting. */
  queued = 0;
  private readonly turns: Turns<T>;
  private readonly lanes = new Map<unknown, KeyLane<T>>();

  constructor(turns: Turns<T>) {
    this.turns = turns;
  }

  /** Keys that are remembered. */
  get size(): number {
    return this.lanes.size;
  }

  find(key: unknown): KeyLane<T> | undefined {
    return this.lanes.get(key);
  }

  /** Remembers a new key. */
  open(key: unknown, limit: number): KeyLane<T> {
    const lane = this.turns.open(key, limit);
    this.lanes.set(key, lane);
    return lane;
  }

  /** The level counts where some are more urgent than others. A note is kept for the item, as `headNote`. */
  push(lane: KeyLane<T>, item: T, index: number, level = 0, note?: unknown): void {
    lane.push(item, index, level, note);
    this.queued++;
    this.turns.update(lane);
  }

  /** The lane whose turn it is: it has work and room. */
  next(): KeyLane<T> | undefined {
    return this.turns.first;
  }

  /** Takes the first item of the lane `next` answered: it is under way from here, until `end`. */
  take(lane: KeyLane<T>): T {
    lane.running++;
    this.queued--;
    const item = lane.shift();
    this.turns.taken(lane);
    return item;
  }

  /** One item of this lane is no longer under way. */
  end(lane: KeyLane<T>): void {
    lane.running--;
    this.turns.update(lane);
    this.forget(lane);
  }

  /** Takes the first item of a lane out, without a turn. */
  drop(lane: KeyLane<T>, lost: Lost<T>[]): void {
    const index = lane.headIndex;
    lost.push({ item: lane.shift(), index });
    this.queued--;
    this.turns.update(lane);
  }

  /** Takes out the newest of the least urgent items, if it is less urgent than `level`, and answers its lane, which may be idle then. */
  dropLowest(level: number, lost: Lost<T>[]): KeyLane<T> | undefined {
    const lane = this.turns.dropLowest?.(level, lost);
    if (lane) {
      this.queued--;
      this.turns.update(lane);
    }
    return lane;
  }

  /** Takes out all that waits, or what came before a number, of one lane or of all. */
  takeBelow(index: number, lost: Lost<T>[], only?: KeyLane<T>): void {
    for (const lane of only ? [only] : [...this.lanes.values()]) {
      const before = lane.length;
      lane.takeBelow(index, lost);
      this.queued -= before - lane.length;
      this.turns.update(lane);
      this.forget(lane);
    }
  }

  /** Forgets a lane that is idle; does nothing for another. */
  forget(lane: KeyLane<T>): void {
    if (lane.running === 0 && lane.length === 0 && !lane.stays) this.lanes.delete(lane.key);
  }

  /** The lane in which most items wait; undefined when none does. */
  longest(): KeyLane<T> | undefined {
    let longest: KeyLane<T> | undefined;
    for (const lane of this.lanes.values()) if (lane.length > (longest?.length ?? 0)) longest = lane;
    return longest;
  }

  /** Forgets everything. Lanes from before are not to be used any more. */
  clear(): void {
    this.lanes.clear();
    this.turns.clear();
    this.queued = 0;
  }
}

/** Lanes one after the other. */
export class Rotation<T> implements Turns<T> {
  private readonly lanes = new Chain<KeyLane<T>>();

  get first(): KeyLane<T> | undefined {
    return this.lanes.first;
  }

  open(key: unknown, limit: number): KeyLane<T> {
    return new FifoLane<T>(key, limit);
  }

  update(lane: KeyLane<T>): void {
    const isIn = lane.previous !== undefined || this.lanes.first === lane;
    if (lane.canGo === isIn) return;
    if (isIn) this.lanes.delete(lane);
    else this.lanes.add(lane);
  }

  taken(lane: KeyLane<T>): void {
    // The only one in turn goes again.
    if (this.lanes.length === 1 && lane.canGo) return;
    this.lanes.delete(lane);
    if (lane.canGo) this.lanes.add(lane);
  }

  clear(): void {
    this.lanes.clear();
  }
}

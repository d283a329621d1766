import type { LaneItem } from '../queues/key-lane.js';
import { KeyLane } from '../queues/key-lane.js';
import { Chain } from '../queues/line.js';
import type { Bounds, Refusal } from '../waiting/bounds.js';
import { evictableKey, holdsTooMuch, refusal, tooManyKeys } from '../waiting/bounds.js';

/** What a machine goes by. */
export interface ItemRules {
  /** Most items under way; Infinity where a limiter gives the permits. */
  readonly concurrency: number;
  /** Whether items have keys; without them all stand in one lane. */
  readonly isKeyed: boolean;
  /** Of keys, and of the items that wait, with the results that the owner holds back. */
  readonly bounds: Bounds;
}

/**
 * Decides about single items: which are accepted, which are evicted for them, and which is next. One item may be under way for each free place, and
 * so many of each key; keys go in turn, and one that is full waits by itself. Taking and adding an item costs the same however many keys and items
 * there are, and a key with nothing waiting and nothing under way is forgotten. Its owner reports starts and ends.
 */
export class ItemMachine<T> {
  concurrency: number;
  /** Items under way, and those waiting. */
  running = 0;
  queued = 0;
  /** All that have work, and those that serve no more. */
  readonly lanes = new Map<unknown, KeyLane<T>>();
  /** The lane of all items when they have no keys. */
  readonly only: KeyLane<T> | undefined;
  /** The lanes that can go, in turn. */
  private readonly turns = new Chain<KeyLane<T>>();

  constructor(private readonly rules: ItemRules) {
    this.concurrency = rules.concurrency;
    if (!rules.isKeyed) this.only = this.open(undefined, Infinity);
  }

  /** Where items of this key stand; undefined when none does. */
  find(key: unknown): KeyLane<T> | undefined {
    return this.only ?? this.lanes.get(key);
  }

  /** A lane for a key that has none, and may have so many items under way. */
  open(key: unknown, limit: number): KeyLane<T> {
    const lane = new KeyLane<T>(key, limit);
    this.lanes.set(key, lane);
    return lane;
  }

  /** Whether one more item in this lane, or in a new one, would start now. Those that wait have not had their turn yet. `held` counts as queued. */
  isNext(lane: KeyLane<T> | undefined, held: number): boolean {
    if (holdsTooMuch(this.rules.bounds, held)) return false;
    if (lane && lane.running + lane.length >= lane.limit) return false;
    const ahead = this.turns.size === 0 ? 0 : this.queued;
    return ahead < this.concurrency - this.running;
  }

  /** Which bound keeps one more item of this lane, or of a new one, from waiting; undefined when none does. */
  refusal(lane: KeyLane<T> | undefined, held: number): Refusal | undefined {
    const { bounds } = this.rules;
    const ofKeys = lane === undefined ? tooManyKeys(bounds, this.lanes.size) : undefined;
    return ofKeys ?? refusal(bounds, this.queued + held);
  }

  /** The lane whose oldest items go for one more of this lane, and how many; undefined when the newcomer goes. */
  evictable(lane: KeyLane<T> | undefined, refused: Refusal): { readonly line: KeyLane<T>; readonly count: number } | undefined {
    return evictableKey(this.lanes.values(), lane, refused);
  }

  accept(lane: KeyLane<T>, input: T, index: number, at: number, note: unknown): void {
    lane.push(input, index, at, note);
    this.queued++;
    this.update(lane);
  }

  /** Nothing waits, and nothing is under way. */
  get isEmpty(): boolean {
    return this.running + this.queued === 0;
  }

  /** The lane whose first item goes next; undefined when nothing can. */
  next(): KeyLane<T> | undefined {
    return this.running < this.concurrency ? this.turns.first : undefined;
  }

  /** Takes the first item of the lane that `next` answered: it is under way, until `end`. */
  start(lane: KeyLane<T>): T {
    this.running++;
    this.queued--;
    lane.running++;
    const item = lane.shift();
    // The only one in turn goes again.
    if (this.turns.size === 1 && lane.canGo) return item;
    // To the end of those in turn.
    this.turns.remove(lane);
    lane.isInTurn = false;
    this.update(lane);
    return item;
  }

  /** An item of the lane is over. With a reason, its key is served no more; what waits of it is for the owner to drop. */
  end(lane: KeyLane<T>, stopped?: { readonly error: unknown }): void {
    this.running--;
    lane.running--;
    lane.stopped ??= stopped;
    this.update(lane);
    this.forget(lane);
  }

  /** Takes out the one that has waited longest in a lane. */
  drop(lane: KeyLane<T>): LaneItem<T> {
    const { headIndex: index, headAt: at } = lane;
    const item = { input: lane.shift(), index, at };
    this.queued--;
    this.update(lane);
    this.forget(lane);
    return item;
  }

  /** Forgets everything; lanes from before are not to be used any more. */
  clear(): void {
    this.lanes.clear();
    this.turns.clear();
    this.queued = 0;
  }

  /** Something has changed in a lane: it may have become able to go, or no longer be. */
  private update(lane: KeyLane<T>): void {
    const { canGo } = lane;
    if (canGo === lane.isInTurn) return;
    lane.isInTurn = canGo;
    if (canGo) this.turns.push(lane);
    else this.turns.remove(lane);
  }

  private forget(lane: KeyLane<T>): void {
    if (lane.running + lane.length === 0 && lane !== this.only && !lane.stopped) this.lanes.delete(lane.key);
  }
}

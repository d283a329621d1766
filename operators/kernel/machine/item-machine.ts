import type { LaneItem } from '../queues/key-lane.js';
import { KeyLane } from '../queues/key-lane.js';
import { Backlog, Chain } from '../queues/line.js';
import type { Overflow } from '../queues/queue.js';

/** What a machine goes by. */
export interface ItemRules {
  /** Most items under way; Infinity where somebody else gives permits. */
  readonly concurrency: number;
  /** Whether items have keys; without them all stand in one lane. */
  readonly isKeyed: boolean;
  readonly maxKeys: number;
  /** Most items waiting, with what the owner holds back of others. */
  readonly maxQueued: number;
  readonly overflow: Overflow;
  /** Longest an item may take from when it came, in ms. */
  readonly deadlineMs: number;
}

/** Why an item is not accepted; undefined when it is. */
export type Refusal = 'maxKeys' | 'maxQueued' | undefined;

/**
 * Decides about single items: who is accepted, who has to go for it, who is next, and who is too late. One item may be under way for each free
 * place, and so many of each key; keys go in turn, and one that is full waits by itself. Taking and adding an item costs the same however many keys
 * and items there are, and a key with nothing waiting and nothing under way is forgotten. It is told of starts and ends, and of the time where there
 * are deadlines.
 */
export class ItemMachine<T> {
  concurrency: number;
  /** Items under way, and those waiting. */
  running = 0;
  queued = 0;
  /** Whether the item that was judged last would start now. */
  isNext = false;
  /** Those who had to go since this was emptied last, which is for the owner to do. */
  readonly lost = new Backlog<LaneItem<T>>();
  private readonly lanes = new Map<unknown, KeyLane<T>>();
  /** The lanes that can go, in turn. */
  private readonly turns = new Chain<KeyLane<T>>();
  /** The lane of all items when they have no keys. */
  readonly only: KeyLane<T> | undefined;

  constructor(private readonly rules: ItemRules) {
    this.concurrency = rules.concurrency;
    if (!rules.isKeyed) this.only = this.open(undefined, Infinity);
  }

  /** Where items of this key stand; undefined when none does. */
  find(key: unknown): KeyLane<T> | undefined {
    return this.only ?? this.lanes.get(key);
  }

  /**
   * Whether one more item is accepted whose key has this lane, if any; `lost` then has those who go for it. `held` counts towards `maxQueued`; so
   * many `places` are free for those who wait and for this one.
   */
  judge(lane: KeyLane<T> | undefined, held: number, places: number): Refusal {
    const { maxKeys, maxQueued } = this.rules;
    if (lane === undefined && this.lanes.size >= maxKeys) return 'maxKeys';
    this.isNext = this.startsAtOnce(lane, held, places);
    if (this.isNext || this.queued + held < maxQueued || this.makeRoom(lane)) return undefined;
    return 'maxQueued';
  }

  /** A lane for a key that has none, and may have so many items under way. */
  open(key: unknown, limit: number): KeyLane<T> {
    const lane = new KeyLane<T>(key, limit);
    this.lanes.set(key, lane);
    return lane;
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

  /** Places that are free. */
  get free(): number {
    return this.concurrency - this.running;
  }

  /** The lane whose first item goes next; undefined when nothing can. */
  next(): KeyLane<T> | undefined {
    return this.running < this.concurrency ? this.turns.first : undefined;
  }

  /** Takes the first item of the lane that `next` answered: it is under way, until `end`. */
  start(lane: KeyLane<T>): T {
    const { turns } = this;
    this.running++;
    this.queued--;
    lane.running++;
    const item = lane.shift();
    // The only one in turn goes again.
    if (turns.size === 1 && lane.canGo) return item;
    turns.remove(lane);
    if (lane.canGo) turns.push(lane);
    return item;
  }

  end(lane: KeyLane<T>): void {
    this.running--;
    lane.running--;
    // The one lane of items without keys has no bound of its own.
    if (lane === this.only) return;
    this.update(lane);
    this.forget(lane);
  }

  /** Serves a key no more: what waits of it is lost. */
  stop(lane: KeyLane<T>, error: unknown): void {
    lane.stopped = { error };
    this.lanes.set(lane.key, lane);
    this.lose(lane);
  }

  /** Whether what came then should be over by now. */
  isLate(at: number, now: number): boolean {
    return at + this.rules.deadlineMs <= now;
  }

  /** Loses all that wait and are too late; at the end of time all that wait. */
  expire(now: number): void {
    for (const lane of [...this.lanes.values()]) {
      while (lane.length > 0 && this.isLate(lane.headAt, now)) this.lose(lane, 1);
      this.forget(lane);
    }
  }

  /** When one that waits is too late next; Infinity when none is. */
  get deadlineAt(): number {
    let least = Infinity;
    for (const lane of this.lanes.values()) if (lane.length > 0) least = Math.min(least, lane.headAt + this.rules.deadlineMs);
    return least;
  }

  /** Forgets everything; lanes from before are not to be used any more. */
  clear(): void {
    this.lanes.clear();
    this.turns.clear();
    this.queued = 0;
    this.lost.clear();
  }

  /** Whether an item of this lane would start now, so that it needs no room to wait in. Those that wait have not had their turn yet. */
  private startsAtOnce(lane: KeyLane<T> | undefined, held: number, places: number): boolean {
    if (held > 0 && held >= this.rules.maxQueued) return false;
    if (lane && lane.running + lane.length >= lane.limit) return false;
    const ahead = this.turns.size === 0 ? 0 : this.queued;
    return ahead < places;
  }

  /** Drops others for a newcomer: of its own key where some wait, else of the key with the longest queue, which fills the room. */
  private makeRoom(lane: KeyLane<T> | undefined): boolean {
    const { overflow } = this.rules;
    if (overflow !== 'dropOldest' && overflow !== 'latest') return false;
    let full = lane;
    if (!lane?.length) for (const other of this.lanes.values()) if (other.length > (full?.length ?? 0)) full = other;
    if (!full?.length) return false;
    this.lose(full, overflow === 'latest' && full === lane ? Infinity : 1);
    // That of the newcomer is needed.
    if (full !== lane) this.forget(full);
    return true;
  }

  /** Takes out those that came first. */
  private lose(lane: KeyLane<T>, most = Infinity): void {
    for (let left = Math.min(most, lane.length); left > 0; left--) {
      const { headIndex: index, headAt: at } = lane;
      this.lost.push({ input: lane.shift(), index, at });
      this.queued--;
    }
    this.update(lane);
  }

  /** Something has changed in a lane: it may have become able to go, or no longer be. */
  private update(lane: KeyLane<T>): void {
    const { turns } = this;
    const isIn = lane.previous !== undefined || turns.first === lane;
    if (lane.canGo === isIn) return;
    if (isIn) turns.remove(lane);
    else turns.push(lane);
  }

  private forget(lane: KeyLane<T>): void {
    if (lane.running + lane.length === 0 && lane !== this.only && !lane.stopped) this.lanes.delete(lane.key);
  }
}

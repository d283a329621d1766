import type { Lost } from '../queues/key-lane.js';
import { KeyLane } from '../queues/key-lane.js';
import { Chain } from '../queues/line.js';
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
  /** Longest an item may take from `accept` on, in ms. */
  readonly deadlineMs: number;
}

/** Why an item is not accepted; undefined when it is. */
export type Refusal = 'stopped' | 'maxKeys' | 'maxQueued' | undefined;

/** All items below `index` have been here since `at`. */
interface Mark {
  index: number;
  readonly at: number;
}

/**
 * Decides about single items: who is accepted, who has to go for it, who is next, and who is too late. One item may be under way for each free
 * place, and so many of each key; keys go in turn, and one that is full waits by itself. Taking and adding an item costs the same however many keys
 * and items there are, and a key with nothing waiting and nothing under way is forgotten. It is told of starts and ends, and of the time where there
 * are deadlines; numbers of items rise.
 */
export class ItemMachine<T> {
  concurrency: number;
  /** Items under way, and those waiting. */
  running = 0;
  queued = 0;
  /** Whether the item that was judged last would start now. */
  isNext = false;
  /** Those who had to go since this was emptied last, which is for the owner to do. */
  readonly lost: Lost<T>[] = [];
  private readonly lanes = new Map<unknown, KeyLane<T>>();
  /** The lanes that can go, in turn. */
  private readonly turns = new Chain<KeyLane<T>>();
  private readonly only: KeyLane<T> | undefined;
  /** Keys that are served no more, and why. */
  private readonly stopped = new Map<unknown, unknown>();
  private marks: Mark[] = [];

  constructor(private readonly rules: ItemRules) {
    this.concurrency = rules.concurrency;
    if (!rules.isKeyed) this.only = this.open(undefined, Infinity);
  }

  /** Nothing waits, and nothing is under way. */
  get isEmpty(): boolean {
    return this.running === 0 && this.queued === 0;
  }

  /** Where items of this key stand; undefined when none does. */
  find(key: unknown): KeyLane<T> | undefined {
    return this.only ?? this.lanes.get(key);
  }

  /** Why a key was stopped. */
  whyStopped(key: unknown): unknown {
    return this.stopped.get(key);
  }

  /**
   * Whether one more item of this key, which has this lane if any, is accepted; `lost` then has those who go for it. `held` counts towards `maxQueued`; so many
   * `places` are free for those who wait and for this one.
   */
  judge(key: unknown, lane: KeyLane<T> | undefined, held: number, places: number): Refusal {
    const { maxKeys, maxQueued } = this.rules;
    if (this.stopped.size > 0 && this.stopped.has(key)) return 'stopped';
    if (lane === undefined && this.lanes.size + this.stopped.size >= maxKeys) return 'maxKeys';
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

  /** Accepts an item. The note is kept for it, as `headNote`. */
  accept(lane: KeyLane<T>, item: T, index: number, note: unknown): void {
    lane.push(item, index, note);
    this.queued++;
    this.update(lane);
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

  /** Serves a key no more: what waits of it is lost, and what comes is refused. */
  stop(lane: KeyLane<T>, cause: unknown): void {
    this.stopped.set(lane.key, cause);
    this.lose(lane, Infinity);
    this.forget(lane);
  }

  /** All that wait are lost. */
  refuseAll(): void {
    this.loseBelow(Infinity);
  }

  /** Where there are deadlines: the item with this number is here. */
  arrived(index: number, now: number): void {
    const last = this.marks.at(-1);
    if (last?.at === now) last.index = index + 1;
    else this.marks.push({ index: index + 1, at: now });
  }

  /** When an item may be too late next; Infinity when none is here. */
  get deadlineAt(): number {
    const first = this.isEmpty ? undefined : this.marks[0];
    return first === undefined ? Infinity : first.at + this.rules.deadlineMs;
  }

  /** Loses all that wait and are too late; those under way with a number below the answer are as well. */
  expire(now: number): number {
    const { marks } = this;
    let late = 0;
    while (late < marks.length && (marks[late] as Mark).at + this.rules.deadlineMs <= now) late++;
    if (late === 0) return 0;
    const below = (marks[late - 1] as Mark).index;
    this.marks = marks.slice(late);
    this.loseBelow(below);
    return below;
  }

  /** Forgets everything; lanes from before are not to be used any more. */
  clear(): void {
    this.lanes.clear();
    this.turns.clear();
    this.queued = 0;
    this.marks = [];
    this.lost.length = 0;
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
    this.lose(full, overflow === 'latest' && full === lane ? Infinity : full.headIndex + 1);
    // That of the newcomer is needed.
    if (full !== lane) this.forget(full);
    return true;
  }

  private loseBelow(index: number): void {
    for (const lane of [...this.lanes.values()]) {
      this.lose(lane, index);
      this.forget(lane);
    }
  }

  /** Takes out what came before a number. */
  private lose(lane: KeyLane<T>, below: number): void {
    const before = lane.length;
    lane.takeBelow(below, this.lost);
    this.queued -= before - lane.length;
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
    if (lane.running === 0 && lane.length === 0 && lane !== this.only) this.lanes.delete(lane.key);
  }
}

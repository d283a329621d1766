import type { KeyLane, Lost } from '../queues/key-lane.js';
import type { Turns } from '../queues/keyed-lanes.js';
import { KeyedLanes } from '../queues/keyed-lanes.js';
import type { Overflow } from '../queues/queue.js';

/** What a machine goes by. */
export interface ItemRules<T> {
  readonly turns: Turns<T>;
  /** Most items under way; Infinity where somebody else gives permits. */
  readonly concurrency: number;
  /** Whether items have keys; without them all stand in one lane. */
  readonly isKeyed: boolean;
  readonly maxKeys: number;
  /** Most items waiting, with what the owner holds back of others. */
  readonly maxQueued: number;
  readonly overflow: Overflow;
  /** Longest an item may take from `admit` on, in ms. */
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
 * place, and so many of each key. It is told of starts and ends, and of the time where there are deadlines; numbers of items rise.
 */
export class ItemMachine<T> {
  concurrency: number;
  /** Items under way. */
  running = 0;
  /** Whether the item that was judged last would start now. */
  isNext = false;
  /** Those who had to go since this was emptied last, which is for the owner to do. */
  readonly lost: Lost<T>[] = [];
  private readonly rules: ItemRules<T>;
  private readonly lanes: KeyedLanes<T>;
  private readonly only: KeyLane<T> | undefined;
  /** Keys that are served no more, and why. */
  private readonly stopped = new Map<unknown, unknown>();
  private marks: Mark[] = [];

  constructor(rules: ItemRules<T>) {
    this.rules = rules;
    this.concurrency = rules.concurrency;
    this.lanes = new KeyedLanes(rules.turns);
    if (rules.isKeyed) return;
    this.only = this.lanes.open(undefined, Infinity);
    this.only.stays = true;
  }

  /** Items waiting. */
  get queued(): number {
    return this.lanes.queued;
  }

  /** Nothing waits, and nothing is under way. */
  get isEmpty(): boolean {
    return this.running === 0 && this.lanes.queued === 0;
  }

  /** Where items of this key stand; undefined when none does. */
  find(key: unknown): KeyLane<T> | undefined {
    return this.only ?? this.lanes.find(key);
  }

  /** Why a key was stopped. */
  whyStopped(key: unknown): unknown {
    return this.stopped.get(key);
  }

  /**
   * Whether one more item of this key, which has this lane if any, is accepted; `lost` then has those who go for it. `held` counts towards `maxQueued`; so many
   * `places` are free for those who wait and for this one.
   */
  judge(key: unknown, lane: KeyLane<T> | undefined, level: number, held: number, places: number): Refusal {
    const { maxKeys, maxQueued } = this.rules;
    if (this.stopped.size > 0 && this.stopped.has(key)) return 'stopped';
    if (lane === undefined && this.lanes.size + this.stopped.size >= maxKeys) return 'maxKeys';
    this.isNext = this.startsAtOnce(lane, held, places);
    if (this.isNext || this.lanes.queued + held < maxQueued || this.makeRoom(lane, level)) return undefined;
    return 'maxQueued';
  }

  /** A lane for a key that has none, and may have so many items under way. */
  open(key: unknown, limit: number): KeyLane<T> {
    return this.lanes.open(key, limit);
  }

  /** Accepts an item. The note is kept for it. */
  accept(lane: KeyLane<T>, item: T, index: number, level: number, note: unknown): void {
    this.lanes.push(lane, item, index, level, note);
  }

  /** Places that are free. */
  get free(): number {
    return this.concurrency - this.running;
  }

  /** The lane whose first item goes next; undefined when nothing can. */
  next(): KeyLane<T> | undefined {
    return this.running < this.concurrency ? this.lanes.next() : undefined;
  }

  /** Takes the first item of the lane that `next` answered: it is under way, until `end`. */
  start(lane: KeyLane<T>): T {
    this.running++;
    return this.lanes.take(lane);
  }

  end(lane: KeyLane<T>): void {
    this.running--;
    // The one lane of items without keys has no bound of its own.
    if (lane === this.only) lane.running--;
    else this.lanes.end(lane);
  }

  /** Serves a key no more: what waits of it is lost, and what comes is refused. */
  stop(lane: KeyLane<T>, cause: unknown): void {
    this.stopped.set(lane.key, cause);
    this.lanes.takeBelow(Infinity, this.lost, lane);
  }

  /** All that wait are lost. */
  refuseAll(): void {
    this.lanes.takeBelow(Infinity, this.lost);
  }

  /** Where there are deadlines: the item with this number is here. */
  arrived(index: number, now: number): void {
    const last = this.marks.at(-1);
    if (last?.at === now) last.index = index + 1;
    else this.marks.push({ index: index + 1, at: now });
  }

  /** When an item may be too late next; Infinity when none is here. */
  get deadlineAt(): number {
    const first = this.running + this.lanes.queued > 0 ? this.marks[0] : undefined;
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
    this.lanes.takeBelow(below, this.lost);
    return below;
  }

  clear(): void {
    this.lanes.clear();
    this.marks = [];
    this.lost.length = 0;
  }

  /** Whether an item of this lane would start now, so that it needs no room to wait in. Those that wait have not had their turn yet. */
  private startsAtOnce(lane: KeyLane<T> | undefined, held: number, places: number): boolean {
    if (held > 0 && held >= this.rules.maxQueued) return false;
    if (lane && lane.running + lane.length >= lane.limit) return false;
    const ahead = this.lanes.next() === undefined ? 0 : this.lanes.queued;
    return ahead < places;
  }

  /** Drops others for a newcomer: of its own key where some wait, else of the key with the longest queue, which fills the room. */
  private makeRoom(lane: KeyLane<T> | undefined, level: number): boolean {
    const { overflow } = this.rules;
    if (overflow === 'dropLowest') {
      const emptied = this.lanes.dropLowest(level, this.lost);
      // That of the newcomer is needed.
      if (emptied && emptied !== lane) this.lanes.forget(emptied);
      return emptied !== undefined;
    }
    if (overflow !== 'dropOldest' && overflow !== 'latest') return false;
    const full = lane && lane.length > 0 ? lane : this.lanes.longest();
    if (full === undefined) return false;
    do this.lanes.drop(full, this.lost);
    while (overflow === 'latest' && full === lane && lane.length > 0);
    if (full !== lane) this.lanes.forget(full);
    return true;
  }
}

import { DeadlineHeap } from './deadline-heap.js';
import type { Lost } from './key-lane.js';
import { FifoLane, KeyLane } from './key-lane.js';
import type { Turns } from './keyed-lanes.js';

/** A heap may keep so many entries that nobody waits for, and as many again as there are of the others. */
const MOST_LEFT_OVER = 32;

/** A lane's turn at a rank. It counts as long as it is the lane's own. */
interface Turn<T> {
  readonly lane: KeyLane<T>;
  readonly rank: number;
}

/** Lanes by the rank of what waits in them, the lowest first, those of one rank one after the other. */
abstract class RankedTurns<T> implements Turns<T> {
  private heap = new DeadlineHeap<Turn<T>>();
  /** Turns that count. */
  private length = 0;

  abstract open(key: unknown, limit: number): KeyLane<T>;
  /** How soon a lane in which something waits goes. */
  abstract rankOf(lane: KeyLane<T>): number;

  get first(): KeyLane<T> | undefined {
    for (let turn = this.heap.peek(); turn; turn = this.heap.peek()) {
      if (turn.lane.turn === turn) return turn.lane;
      this.heap.pop();
    }
    return undefined;
  }

  update(lane: KeyLane<T>): void {
    const turn = lane.turn as Turn<T> | undefined;
    const rank = lane.canGo ? this.rankOf(lane) : undefined;
    if (rank === turn?.rank) return;
    if (turn) this.leave(lane);
    if (rank !== undefined) this.enter({ lane, rank });
  }

  taken(lane: KeyLane<T>): void {
    this.leave(lane);
    this.update(lane);
  }

  clear(): void {
    this.heap = new DeadlineHeap();
    this.length = 0;
  }

  private enter(turn: Turn<T>): void {
    turn.lane.turn = turn;
    this.heap.push(turn.rank, turn);
    this.length++;
    if (this.heap.length > 2 * this.length + MOST_LEFT_OVER) this.heap.keep((each) => each.lane.turn === each);
  }

  private leave(lane: KeyLane<T>): void {
    lane.turn = undefined;
    this.length--;
  }
}

/** The oldest item first, whatever its key. */
export class OldestFirst<T> extends RankedTurns<T> {
  open(key: unknown, limit: number): KeyLane<T> {
    return new FifoLane<T>(key, limit);
  }

  rankOf(lane: KeyLane<T>): number {
    return lane.headIndex;
  }
}

/** The most urgent item first (0 before 1), equals by key in turn. */
export class MostUrgentFirst<T> extends RankedTurns<T> {
  /** The waiting items of all keys, the least urgent and newest first; only kept when asked for. */
  private lowest: DeadlineHeap<Entry<T>> | undefined;
  /** When there are more in it, those are cleared away that wait no more. */
  private mostRemembered = MOST_LEFT_OVER;

  constructor(dropsLowest: boolean) {
    super();
    this.lowest = dropsLowest ? new DeadlineHeap() : undefined;
  }

  open(key: unknown, limit: number): KeyLane<T> {
    return new UrgencyLane<T>(key, limit, (entry) => {
      this.remember(entry);
    });
  }

  rankOf(lane: KeyLane<T>): number {
    // eslint-disable-next-line @typescript-eslint/no-unsafe-class-instance-assignment -- all of them were made by `open`
    return (lane as UrgencyLane<T>).headLevel;
  }

  dropLowest(level: number, lost: Lost<T>[]): KeyLane<T> | undefined {
    const { lowest } = this;
    // What was taken meanwhile.
    while (lowest?.peek()?.waits === false) lowest.pop();
    if (lowest === undefined || -lowest.peekAt() <= level) return undefined;
    const entry = lowest.pop() as Entry<T>;
    entry.waits = false;
    entry.lane.length--;
    lost.push(entry);
    return entry.lane;
  }

  override clear(): void {
    super.clear();
    if (this.lowest) this.lowest = new DeadlineHeap();
  }

  private remember(entry: Entry<T>): void {
    const { lowest } = this;
    if (lowest === undefined) return;
    lowest.pushFront(-entry.level, entry);
    if (lowest.length <= this.mostRemembered) return;
    lowest.keep(isWaiting);
    this.mostRemembered = 2 * lowest.length + MOST_LEFT_OVER;
  }
}

/** A waiting item that can be taken out from anywhere. */
interface Entry<T> extends Lost<T> {
  readonly note: unknown;
  readonly level: number;
  readonly lane: KeyLane<T>;
  waits: boolean;
}

class UrgencyLane<T> extends KeyLane<T> {
  private readonly queue = new DeadlineHeap<Entry<T>>();
  private readonly added: (entry: Entry<T>) => void;

  constructor(key: unknown, limit: number, added: (entry: Entry<T>) => void) {
    super(key, limit);
    this.added = added;
  }

  get headIndex(): number {
    return this.head().index;
  }

  get headNote(): unknown {
    return this.head().note;
  }

  get headLevel(): number {
    return this.head().level;
  }

  push(item: T, index: number, level: number, note: unknown): void {
    const entry: Entry<T> = { item, index, level, note, lane: this, waits: true };
    const { queue } = this;
    queue.push(level, entry);
    this.length++;
    if (queue.length > 2 * this.length + MOST_LEFT_OVER) queue.keep(isWaiting);
    this.added(entry);
  }

  shift(): T {
    const entry = this.head();
    this.queue.pop();
    entry.waits = false;
    this.length--;
    return entry.item;
  }

  takeBelow(index: number, lost: Lost<T>[]): void {
    const taken: Entry<T>[] = [];
    this.queue.keep((entry) => {
      if (!entry.waits || entry.index >= index) return entry.waits;
      entry.waits = false;
      taken.push(entry);
      return false;
    });
    this.length -= taken.length;
    for (const entry of taken.sort((a, b) => a.index - b.index)) lost.push(entry);
  }

  /** Entries that have left are cleared away when they come to the front. */
  private head(): Entry<T> {
    while (this.queue.peek()?.waits === false) this.queue.pop();
    return this.queue.peek() as Entry<T>;
  }
}

function isWaiting({ waits }: { readonly waits: boolean }): boolean {
  return waits;
}

import type { Filler } from './fairness.js';
import type { Ring } from './ring.js';

/** What a plan may look at. */
export interface PlannedLane<T> {
  readonly fresh: Ring<T>;
  readonly stamps: Ring<number> | undefined;
}

/** A batch being chosen: how far into each lane it has looked, and what it has of each. Nothing is removed from the lanes. */
export class LanePlan<T> implements Filler {
  readonly #lanes: readonly PlannedLane<T>[];
  readonly #isLive: (item: T, lane: number) => boolean;
  readonly #mayGive: (lane: number) => boolean;
  /** Lanes that were looked into. */
  readonly #seen: number[] = [];
  readonly #isSeen: Uint8Array;
  /** Position of the next candidate. */
  readonly #at: Int32Array;
  readonly #taken: Int32Array;
  #ask: (item: T, lane: number) => boolean = () => false;

  /** @param mayGive whether a lane has fresh entries to give at all */
  constructor(lanes: readonly PlannedLane<T>[], isLive: (item: T, lane: number) => boolean, mayGive: (lane: number) => boolean) {
    this.#lanes = lanes;
    this.#isLive = isLive;
    this.#mayGive = mayGive;
    this.#isSeen = new Uint8Array(lanes.length);
    this.#at = new Int32Array(lanes.length);
    this.#taken = new Int32Array(lanes.length);
  }

  /** Starts anew. An entry that does not join the batch ends its lane for it. */
  start(ask: (item: T, lane: number) => boolean): void {
    for (const lane of this.#seen) this.#isSeen[lane] = this.#taken[lane] = 0;
    this.#seen.length = 0;
    this.#ask = ask;
  }

  fill(lane: number, most: number): number {
    this.#see(lane);
    const { fresh } = this.#lanes[lane] as PlannedLane<T>;
    let got = 0;
    for (let at = this.#at[lane] as number; got < most && at < fresh.length; at = this.#at[lane]) {
      this.#at[lane] = at + 1;
      const item = fresh.at(at) as T;
      if (!this.#isLive(item, lane)) continue;
      if (this.#ask(item, lane)) got++;
      else this.#close(lane);
    }
    (this.#taken[lane] as number) += got;
    return got;
  }

  isOpen(lane: number): boolean {
    this.#see(lane);
    return (this.#at[lane] as number) < (this.#lanes[lane] as PlannedLane<T>).fresh.length;
  }

  taken(lane: number): number {
    return this.#taken[lane] as number;
  }

  nextStamp(lane: number): number {
    this.#see(lane);
    const { fresh, stamps } = this.#lanes[lane] as PlannedLane<T>;
    let at = this.#at[lane] as number;
    while (at < fresh.length && !this.#isLive(fresh.at(at) as T, lane)) at++;
    this.#at[lane] = at;
    return stamps?.at(at) ?? Infinity;
  }

  /** Tells of each lane that gave something. */
  each(tell: (lane: number, taken: number) => void): void {
    for (const lane of this.#seen) if (this.taken(lane) > 0) tell(lane, this.taken(lane));
  }

  #see(lane: number): void {
    if (this.#isSeen[lane] === 1) return;
    this.#isSeen[lane] = 1;
    this.#seen.push(lane);
    this.#at[lane] = 0;
    if (!this.#mayGive(lane)) this.#close(lane);
  }

  #close(lane: number): void {
    this.#at[lane] = (this.#lanes[lane] as PlannedLane<T>).fresh.length;
  }
}

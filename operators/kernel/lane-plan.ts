import type { Filler } from './fairness.js';
import type { Ring } from './ring.js';

/** Looks left in a lane in which everything has fitted so far. */
const NO_MISS = -1;

const MOST_LOOKS = 2_147_483_647;

/** What is said of an entry: it joins the batch, it does not fit, or it ends its lane for this batch. */
export type Answer = 'take' | 'pass' | 'close';

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
  readonly #looks: Int32Array;
  readonly #taken: Int32Array;
  #ask: (item: T, lane: number) => Answer = () => 'close';
  #lookahead = 0;

  /** @param mayGive whether a lane has fresh entries to give at all */
  constructor(lanes: readonly PlannedLane<T>[], isLive: (item: T, lane: number) => boolean, mayGive: (lane: number) => boolean) {
    this.#lanes = lanes;
    this.#isLive = isLive;
    this.#mayGive = mayGive;
    this.#isSeen = new Uint8Array(lanes.length);
    this.#at = new Int32Array(lanes.length);
    this.#looks = new Int32Array(lanes.length);
    this.#taken = new Int32Array(lanes.length);
  }

  /** Starts anew. Past an entry of a lane that does not fit, at most `lookahead` more of that lane are looked at. */
  start(lookahead: number, ask: (item: T, lane: number) => Answer): void {
    for (const lane of this.#seen) this.#isSeen[lane] = this.#taken[lane] = 0;
    this.#seen.length = 0;
    this.#lookahead = Math.min(lookahead, MOST_LOOKS);
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
      const answer = this.#ask(item, lane);
      if (answer === 'take') got++;
      if (answer === 'close') this.#close(lane);
      else this.#look(lane, answer === 'take');
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
    this.#looks[lane] = NO_MISS;
    this.#at[lane] = 0;
    if (!this.#mayGive(lane)) this.#close(lane);
  }

  /** Counts a look at an entry, from the first that did not fit on. */
  #look(lane: number, fitted: boolean): void {
    const looks = this.#looks[lane] as number;
    if (looks === NO_MISS && fitted) return;
    this.#looks[lane] = looks === NO_MISS ? this.#lookahead : looks - 1;
    if (this.#looks[lane] === 0) this.#close(lane);
  }

  #close(lane: number): void {
    this.#at[lane] = (this.#lanes[lane] as PlannedLane<T>).fresh.length;
  }
}

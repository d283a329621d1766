import { DeadlineHeap } from './deadline-heap.js';
import type { Discipline, Filler } from './fairness.js';

/** The stamps of the entries at the heads of the lanes; Infinity where there is none. */
export interface Heads {
  returned(lane: number): number;
  fresh(lane: number): number;
}

/** First in, first out over all lanes; what came back goes ahead of everything fresh. The lanes only have their bounds to themselves. */
export class ArrivalOrder implements Discipline {
  readonly #returned: Oldest;
  readonly #fresh: Oldest;

  constructor(lanes: number, heads: Heads) {
    this.#returned = new Oldest(lanes, (lane) => heads.returned(lane));
    this.#fresh = new Oldest(lanes, (lane) => heads.fresh(lane));
  }

  /** Told of every entry, because the first fresh one of a lane may come while others of it wait. */
  pushed(lane: number, isFresh: boolean): void {
    (isFresh ? this.#fresh : this.#returned).add(lane);
  }

  lead(): number {
    const lane = this.#returned.lane();
    return lane === -1 ? this.#fresh.lane() : lane;
  }

  goesFirst(): boolean {
    return this.lead() === -1;
  }

  fill(places: number, filler: Filler): void {
    const next = new DeadlineHeap<number>();
    const seen: number[] = [];
    const offer = (lane: number): void => {
      const stamp = filler.nextStamp(lane);
      if (stamp !== Infinity) next.push(stamp, lane);
    };
    for (let left = places; left > 0; ) {
      const lane = this.#fresh.lane();
      // Only lanes whose head is old enough to be next are looked into.
      if (lane !== -1 && this.#fresh.stamp() <= next.peekAt()) {
        this.#fresh.take();
        seen.push(lane);
        offer(lane);
        continue;
      }
      const oldest = next.pop();
      if (oldest === undefined) break;
      left -= filler.fill(oldest, 1);
      offer(oldest);
    }
    for (const lane of seen) this.#fresh.add(lane);
  }

  debit(): void {
    // Nobody saves anything up.
  }

  turn(): void {
    // Nor here.
  }

  filled(): void {
    // `pushed` has been told.
  }

  emptied(): void {
    // Noticed when the lane would be next.
  }
}

/** Finds the lane whose head is the oldest. A lane stands under the stamp its head had when it was last looked at: never too late. */
class Oldest {
  readonly #heap = new DeadlineHeap<number>();
  readonly #isIn: Uint8Array;
  readonly #stampOf: (lane: number) => number;

  constructor(lanes: number, stampOf: (lane: number) => number) {
    this.#isIn = new Uint8Array(lanes);
    this.#stampOf = stampOf;
  }

  add(lane: number): void {
    if (this.#isIn[lane] === 1) return;
    const stamp = this.#stampOf(lane);
    if (stamp === Infinity) return;
    this.#isIn[lane] = 1;
    this.#heap.push(stamp, lane);
  }

  /** The lane, or -1. */
  lane(): number {
    for (let lane = this.#heap.peek(); lane !== undefined; lane = this.#heap.peek()) {
      if (this.#stampOf(lane) === this.#heap.peekAt()) return lane;
      this.take();
      this.add(lane);
    }
    return -1;
  }

  /** The stamp of its head. */
  stamp(): number {
    return this.#heap.peekAt();
  }

  /** Takes the lane out, until it is added again. */
  take(): void {
    const lane = this.#heap.pop();
    if (lane !== undefined) this.#isIn[lane] = 0;
  }
}

import { Ring } from './ring.js';

/** Shares are sums of fractions: ten tenths must make a whole. */
const EPSILON = 1e-9;

interface Lane<T> {
  /** Returned work: ahead of everything fresh, in the order it came back. */
  readonly returned: Ring<T>;
  readonly fresh: Ring<T>;
  readonly floor: number;
  live: number;
  dead: number;
  /** Places of a turn this lane is owed because more urgent lanes took them. */
  credit: number;
}

/**
 * Lanes of FIFO rings under strict priority with a floor: lane 0 is served first, but a lane with a floor that keeps being
 * passed over saves up credit, rides along in a batch with it, and leads one when a whole turn is owed. Finding the
 * most urgent non-empty lane is a bitmap look-up, so a thousand lanes cost as little as three.
 *
 * Entries may leave while they wait: the owner marks them (`isLive`) and says so (`left`); the queue skips them and now and
 * then sweeps them out.
 *
 * Source: bucket queue with a bitmap (Linux O(1) scheduler's run queue); the floor is deficit round robin
 * (Shreedhar and Varghese, 1995) under a strict order.
 */
export class LaneQueue<T> {
  readonly #lanes: readonly Lane<T>[];
  readonly #nonEmpty: Int32Array;
  readonly #isLive: (item: T) => boolean;
  readonly #places: number;
  /** Lanes that are owed a turn together are owed no more than one each; a bound for those that take less than they lead. */
  readonly #mostCredit: number;
  /** The most urgent lane that is owed a whole turn, or -1. */
  #owedLane = -1;
  #size = 0;

  /**
   * @param floors one share (0 to 1) per lane, most urgent first
   * @param places places in one turn: 1 when turns are single grants, the batch size when they are batches
   */
  constructor(floors: readonly number[], places: number, isLive: (item: T) => boolean) {
    this.#lanes = floors.map((floor) => ({ returned: new Ring<T>(), fresh: new Ring<T>(), floor, live: 0, dead: 0, credit: 0 }));
    this.#mostCredit = places * (1 + floors.filter((floor) => floor > 0).length);
    this.#nonEmpty = new Int32Array((floors.length + 31) >> 5);
    this.#places = places;
    this.#isLive = isLive;
  }

  /** Live entries in all lanes. */
  get size(): number {
    return this.#size;
  }

  get lanes(): number {
    return this.#lanes.length;
  }

  /** Live entries in one lane. */
  count(lane: number): number {
    return this.#lane(lane).live;
  }

  push(lane: number, item: T): void {
    this.#lane(lane).fresh.push(item);
    this.#added(lane);
  }

  /** Puts work that comes back ahead of everything fresh in its lane, behind what came back earlier. */
  pushReturned(lane: number, item: T): void {
    this.#lane(lane).returned.push(item);
    this.#added(lane);
  }

  /** Told that one waiting entry of the lane is not live any more. */
  left(lane: number): void {
    const entry = this.#lane(lane);
    entry.dead++;
    this.#removed(lane, 1);
    if (entry.dead > entry.live + 32) {
      entry.returned.keep(this.#isLive);
      entry.fresh.keep(this.#isLive);
      entry.dead = 0;
    }
  }

  /** The next entry of a lane, which stays. */
  peek(lane: number): T | undefined {
    const { returned } = this.#lane(lane);
    return this.#skipDead(lane, returned) ? returned.peek() : this.peekFresh(lane);
  }

  /** The next entry of a lane that did not come back, which stays. */
  peekFresh(lane: number): T | undefined {
    const { fresh } = this.#lane(lane);
    return this.#skipDead(lane, fresh) ? fresh.peek() : undefined;
  }

  shift(lane: number): T | undefined {
    const { returned, fresh } = this.#lane(lane);
    const ring = this.#skipDead(lane, returned) ? returned : fresh;
    if (!this.#skipDead(lane, ring)) return undefined;
    this.#removed(lane, 1);
    return ring.shift();
  }

  /** The oldest fresh entry of the lane and onwards, live ones only, until `visit` answers false. Nothing is removed. */
  scanFresh(lane: number, visit: (item: T) => boolean): void {
    const { fresh } = this.#lane(lane);
    for (let i = 0; i < fresh.length; i++) {
      const item = fresh.at(i) as T;
      if (this.#isLive(item) && !visit(item)) return;
    }
  }

  /** The newest fresh entry of the lane that is live (and acceptable); a look from the far end. */
  newestFresh(lane: number, accepts: (item: T) => boolean = this.#isLive): T | undefined {
    const { fresh } = this.#lane(lane);
    for (let i = fresh.length - 1; i >= 0; i--) {
      const item = fresh.at(i) as T;
      if (this.#isLive(item) && accepts(item)) return item;
    }
    return undefined;
  }

  /** The lane whose turn it is: one that is owed a whole turn, else the most urgent that is not empty; -1 when all are. */
  lead(): number {
    return this.#owedLane === -1 ? this.first() : this.#owedLane;
  }

  /** The most urgent lane that is not empty, or -1. */
  first(): number {
    for (let word = 0; word < this.#nonEmpty.length; word++) {
      const bits = this.#nonEmpty[word] as number;
      if (bits !== 0) return (word << 5) + 31 - Math.clz32(bits & -bits);
    }
    return -1;
  }

  /** The least urgent lane that is not empty, or -1. */
  last(): number {
    for (let word = this.#nonEmpty.length - 1; word >= 0; word--) {
      const bits = this.#nonEmpty[word] as number;
      if (bits !== 0) return (word << 5) + 31 - Math.clz32(bits);
    }
    return -1;
  }

  /** Places a lane may claim in a batch that a more urgent lane could fill alone; a whole turn at most. */
  owed(lane: number): number {
    const { credit, live } = this.#lane(lane);
    return Math.min(live, this.#places, Math.floor(credit + EPSILON));
  }

  /**
   * Books one turn of which each lane had its part of what was taken, for example one of the two items of a batch that was heavy
   * before it was full. Lanes still waiting earn their floor; empty ones have lost their credit.
   */
  turn(taken: ArrayLike<number>): void {
    let total = 0;
    for (let lane = 0; lane < taken.length; lane++) total += taken[lane] as number;
    this.#eachNonEmpty((lane) => {
      const entry = this.#lane(lane);
      const share = total > 0 ? (taken[lane] ?? 0) / total : 0;
      entry.credit = Math.max(0, Math.min(this.#mostCredit, entry.credit + (entry.floor - share) * this.#places));
    });
    this.#findOwed();
  }

  #findOwed(): void {
    this.#owedLane = -1;
    this.#eachNonEmpty((lane) => {
      if (this.#owedLane === -1 && this.#lane(lane).credit >= this.#places - EPSILON) this.#owedLane = lane;
    });
  }

  /** From the most urgent on. */
  #eachNonEmpty(visit: (lane: number) => void): void {
    for (let word = 0; word < this.#nonEmpty.length; word++) {
      for (let bits = this.#nonEmpty[word] as number; bits !== 0; bits &= bits - 1) visit((word << 5) + 31 - Math.clz32(bits & -bits));
    }
  }

  #lane(lane: number): Lane<T> {
    return this.#lanes[lane] as Lane<T>;
  }

  #added(lane: number): void {
    this.#size++;
    if (this.#lane(lane).live++ === 0) (this.#nonEmpty[lane >> 5] as number) |= 1 << (lane & 31);
  }

  #removed(lane: number, count: number): void {
    this.#size -= count;
    const entry = this.#lane(lane);
    if ((entry.live -= count) > 0) return;
    (this.#nonEmpty[lane >> 5] as number) &= ~(1 << (lane & 31));
    entry.credit = 0;
    if (this.#owedLane === lane) this.#findOwed();
  }

  /** Drops entries that left from the head of a ring; true when a live one is in front. */
  #skipDead(lane: number, ring: Ring<T>): boolean {
    while (ring.length > 0) {
      if (this.#isLive(ring.peek() as T)) return true;
      ring.shift();
      this.#lane(lane).dead--;
    }
    return false;
  }
}

import { ArrivalOrder } from './arrival-order.js';
import { DeficitRoundRobin } from './deficit-round-robin.js';
import type { Discipline, LaneFairness, Waiting } from './fairness.js';
import { LanePlan } from './lane-plan.js';
import { LaneSet } from './lane-set.js';
import { Ring } from './ring.js';
import { StrictFloor } from './strict-floor.js';

/** How a batch is to be filled. */
export interface FillLimits {
  /** Most entries. */
  readonly places: number;
  /** Whether lanes other than the one that triggers the batch may fill it up. */
  readonly rides: boolean;
}

interface Lane<T> {
  readonly fresh: Ring<T>;
  /** When each fresh entry came, under a discipline that asks for it. */
  readonly stamps: Ring<number> | undefined;
  /** Returned work: ahead of everything fresh, in the order it came back. */
  returned: Ring<T> | undefined;
  returnedStamps: Ring<number> | undefined;
  live: number;
  dead: number;
}

/**
 * Lanes of FIFO rings, and whose turn it is by one of four rules: strict priority with a floor, weighted deficit round robin,
 * round robin, or order of arrival. Finding the next non-empty lane is a bitmap look-up, and a turn costs the lanes it serves,
 * not those that wait: a thousand lanes cost about as little as three.
 *
 * Entries may leave while they wait: the owner marks them (`isLive`) and says so (`left`); the queue skips them and now and
 * then sweeps them out.
 */
export class LaneQueue<T> implements Waiting {
  readonly nonEmpty: LaneSet;
  readonly #lanes: readonly Lane<T>[];
  readonly #isLive: (item: T, lane: number) => boolean;
  readonly #discipline: Discipline;
  readonly #arrivals: ArrivalOrder | undefined;
  readonly #plan: LanePlan<T>;
  /** Lanes that are held back. */
  #paused: LaneSet | undefined;
  #arrived = 0;
  #size = 0;

  /**
   * @param places places in one turn: 1 when turns are single grants, the batch size when they are batches
   * @param isLive whether an entry still waits in this lane
   */
  constructor(fairness: LaneFairness, places: number, isLive: (item: T, lane: number) => boolean) {
    const lanes = laneCount(fairness);
    const stamped = fairness.kind === 'fifo';
    this.#lanes = Array.from({ length: lanes }, () => ({
      fresh: new Ring<T>(),
      stamps: stamped ? new Ring<number>() : undefined,
      returned: undefined,
      returnedStamps: undefined,
      live: 0,
      dead: 0,
    }));
    this.nonEmpty = new LaneSet(lanes);
    this.#isLive = isLive;
    this.#plan = new LanePlan(this.#lanes, isLive, (lane) => !this.hasReturned(lane));
    this.#arrivals = stamped ? this.#arrivalOrder(lanes) : undefined;
    this.#discipline = this.#arrivals ?? disciplineOf(fairness, places, this);
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

  /** Holds a lane back: whoever waits in it has no turn, as if it were empty, until `resume`. The others go on. */
  pause(lane: number): void {
    if (this.isPaused(lane)) return;
    (this.#paused ??= new LaneSet(this.#lanes.length)).add(lane);
    if (this.nonEmpty.has(lane)) this.#emptied(lane);
  }

  resume(lane: number): void {
    if (!this.isPaused(lane)) return;
    this.#paused?.delete(lane);
    if (this.count(lane) === 0) return;
    this.#filled(lane);
    this.#arrivals?.pushed(lane, false);
    this.#arrivals?.pushed(lane, true);
  }

  isPaused(lane: number): boolean {
    return this.#paused?.has(lane) === true;
  }

  push(lane: number, item: T): void {
    const entry = this.#lane(lane);
    entry.fresh.push(item);
    this.#added(lane, entry);
    if (this.#arrivals === undefined) return;
    entry.stamps?.push(this.#arrived++);
    this.#arrivals.pushed(lane, true);
  }

  /** Puts work that comes back ahead of everything fresh in its lane, behind what came back earlier. */
  pushReturned(lane: number, item: T): void {
    const entry = this.#lane(lane);
    (entry.returned ??= new Ring()).push(item);
    this.#added(lane, entry);
    if (this.#arrivals === undefined) return;
    (entry.returnedStamps ??= new Ring()).push(this.#arrived++);
    this.#arrivals.pushed(lane, false);
  }

  /** Told that one waiting entry of the lane is not live any more. */
  left(lane: number): void {
    const entry = this.#lane(lane);
    entry.dead++;
    this.#removed(lane, entry);
    if (entry.dead > entry.live + 32) {
      this.#sweep(lane, entry.returned, entry.returnedStamps);
      this.#sweep(lane, entry.fresh, entry.stamps);
      entry.dead = 0;
    }
  }

  /** The next entry of a lane, which stays. */
  peek(lane: number): T | undefined {
    return this.hasReturned(lane) ? this.#lane(lane).returned?.peek() : this.peekFresh(lane);
  }

  /** The next entry of a lane that did not come back, which stays. */
  peekFresh(lane: number): T | undefined {
    const entry = this.#lane(lane);
    return this.#skipDead(lane, entry, entry.fresh, entry.stamps) ? entry.fresh.peek() : undefined;
  }

  /** Whether work that came back is next in the lane. */
  hasReturned(lane: number): boolean {
    const entry = this.#lane(lane);
    return entry.returned !== undefined && this.#skipDead(lane, entry, entry.returned, entry.returnedStamps);
  }

  shift(lane: number): T | undefined {
    const entry = this.#lane(lane);
    if (entry.returned !== undefined && this.hasReturned(lane)) return this.#shift(lane, entry, entry.returned, entry.returnedStamps);
    return this.#skipDead(lane, entry, entry.fresh, entry.stamps) ? this.#shift(lane, entry, entry.fresh, entry.stamps) : undefined;
  }

  /**
   * How many of the first fresh entries of a lane are a batch led by it, if all fit: no other lane may fill it up, and none has left the
   * lane or come back to it. 0 when it takes a plan.
   */
  front(lane: number, { places, rides }: FillLimits): number {
    const { fresh, live, dead } = this.#lane(lane);
    return dead > 0 || live > fresh.length || (rides && this.nonEmpty.size > 1) ? 0 : Math.min(live, places);
  }

  /** A fresh entry of the front, which stays. */
  freshAt(lane: number, index: number): T | undefined {
    return this.#lane(lane).fresh.at(index);
  }

  /** Takes so many entries of the front out, as one turn. */
  takeFront(lane: number, count: number): void {
    const entry = this.#lane(lane);
    entry.fresh.drop(count);
    entry.stamps?.drop(count);
    this.#removed(lane, entry, count);
    this.turn(lane, count);
  }

  /** The oldest fresh entry of the lane and onwards, live ones only, until `visit` answers false. Nothing is removed. */
  scanFresh(lane: number, visit: (item: T) => boolean): void {
    const { fresh } = this.#lane(lane);
    for (let i = 0; i < fresh.length; i++) {
      const item = fresh.at(i) as T;
      if (this.#isLive(item, lane) && !visit(item)) return;
    }
  }

  /** The newest fresh entry of the lane that is live (and acceptable); a look from the far end. */
  newestFresh(lane: number, accepts: (item: T) => boolean = () => true): T | undefined {
    const { fresh } = this.#lane(lane);
    for (let i = fresh.length - 1; i >= 0; i--) {
      const item = fresh.at(i) as T;
      if (this.#isLive(item, lane) && accepts(item)) return item;
    }
    return undefined;
  }

  /** The lane whose turn it is; -1 when all are empty or paused. */
  lead(): number {
    return this.#discipline.lead();
  }

  /** Whether a newcomer in this lane may be served at once, past everybody who waits. */
  goesFirst(lane: number): boolean {
    return this.#size === 0 || this.#discipline.goesFirst(lane);
  }

  /** The most urgent lane that is not empty, or -1. */
  first(): number {
    return this.nonEmpty.first();
  }

  /** The least urgent lane that is not empty, or -1. */
  last(): number {
    return this.nonEmpty.last();
  }

  /**
   * Chooses fresh entries for a batch: the head of the lane that triggers it, then by turns. Asks of each whether it joins; one that
   * does not closes its lane for this batch. Nothing is removed: the owner takes out what it has chosen, and then calls `turnPlanned`. A lane with work that came back keeps its order, so nothing fresh of it goes.
   */
  plan(trigger: number, { places, rides }: FillLimits, ask: (item: T, lane: number) => boolean): void {
    this.#plan.start(ask);
    const got = this.#plan.fill(trigger, rides ? 1 : places);
    if (rides) this.#discipline.fill(places - got, this.#plan);
  }

  /** Books the batch planned last as one turn. */
  turnPlanned(): void {
    let total = 0;
    this.#plan.each((_lane, taken) => (total += taken));
    this.#plan.each((lane, taken) => {
      this.#discipline.debit(lane, taken, total);
    });
    this.#discipline.turn();
  }

  /** Books one turn of which a single lane had everything. */
  turn(lane: number, taken = 1): void {
    this.#discipline.debit(lane, taken, taken);
    this.#discipline.turn();
  }

  #lane(lane: number): Lane<T> {
    return this.#lanes[lane] as Lane<T>;
  }

  #arrivalOrder(lanes: number): ArrivalOrder {
    return new ArrivalOrder(lanes, {
      returned: (lane) =>
        !this.isPaused(lane) && this.hasReturned(lane) ? (this.#lane(lane).returnedStamps?.peek() ?? Infinity) : Infinity,
      fresh: (lane) =>
        this.isPaused(lane) || this.peekFresh(lane) === undefined ? Infinity : (this.#lane(lane).stamps?.peek() ?? Infinity),
    });
  }

  #added(lane: number, entry: Lane<T>): void {
    this.#size++;
    if (entry.live++ === 0 && !this.isPaused(lane)) this.#filled(lane);
  }

  #filled(lane: number): void {
    this.nonEmpty.add(lane);
    this.#discipline.filled(lane);
  }

  #removed(lane: number, entry: Lane<T>, count = 1): void {
    this.#size -= count;
    entry.live -= count;
    if (entry.live === 0 && !this.isPaused(lane)) this.#emptied(lane);
  }

  #emptied(lane: number): void {
    this.nonEmpty.delete(lane);
    this.#discipline.emptied(lane);
  }

  #shift(lane: number, entry: Lane<T>, ring: Ring<T>, stamps: Ring<number> | undefined): T | undefined {
    stamps?.shift();
    this.#removed(lane, entry);
    return ring.shift();
  }

  /** Drops entries that left from the head of a ring; true when a live one is in front. */
  #skipDead(lane: number, entry: Lane<T>, ring: Ring<T>, stamps: Ring<number> | undefined): boolean {
    while (ring.length > 0) {
      if (this.#isLive(ring.peek() as T, lane)) return true;
      ring.shift();
      stamps?.shift();
      entry.dead--;
    }
    return false;
  }

  #sweep(lane: number, ring: Ring<T> | undefined, stamps: Ring<number> | undefined): void {
    if (stamps !== undefined) {
      let at = 0;
      stamps.keep(() => this.#isLive(ring?.at(at++) as T, lane));
    }
    ring?.keep((item) => this.#isLive(item, lane));
  }
}

function laneCount(fairness: LaneFairness): number {
  if (fairness.kind === 'strict') return fairness.floors.length;
  return fairness.kind === 'wdrr' ? fairness.weights.length : fairness.lanes;
}

function disciplineOf(fairness: LaneFairness, places: number, waiting: Waiting): Discipline {
  if (fairness.kind === 'strict') return new StrictFloor(fairness.floors, places, waiting);
  const weights = fairness.kind === 'wdrr' ? fairness.weights : new Array<number>(laneCount(fairness)).fill(1);
  return new DeficitRoundRobin(weights, waiting);
}

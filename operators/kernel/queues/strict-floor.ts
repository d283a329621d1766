import { DeadlineHeap } from './deadline-heap.js';
import type { Discipline, Filler, Waiting } from './fairness.js';
import { LaneSet } from './lane-set.js';

/** Shares are sums of fractions: ten tenths must make a whole. */
const EPSILON = 1e-9;

/**
 * Strict priority with a floor: lane 0 is served first, but a lane with a floor that keeps being passed over saves up credit,
 * rides along in a batch with it, and leads one when a whole turn is owed.
 *
 * Credit grows by the same amount each turn, so it is worked out when it is asked for, and when a lane will be owed a turn is known
 * beforehand: a turn costs the lanes that were served, not those that wait.
 *
 * Source: deficit round robin (Shreedhar and Varghese, 1995) under a strict order.
 */
export class StrictFloor implements Discipline {
  readonly #waiting: Waiting;
  readonly #places: number;
  /** What a lane earns in a turn in which it waits. */
  readonly #earns: Float64Array;
  /** Lanes that are owed a turn together are owed no more than one each; a bound for those that take less than they lead. */
  readonly #mostCredit: number;
  /** Credit at the end of turn number `#bookedAt`; what was earned since is added when asked for. */
  readonly #booked: Float64Array;
  readonly #bookedAt: Float64Array;
  #turns = 0;
  /** Lanes that are owed a whole turn. */
  readonly #owed: LaneSet;
  /** Other lanes with a floor, by the turn before which they cannot be owed one; a lane is in it once at most. */
  readonly #candidates = new DeadlineHeap<number>();
  readonly #isCandidate: Uint8Array;

  constructor(floors: readonly number[], places: number, waiting: Waiting) {
    this.#waiting = waiting;
    this.#places = places;
    this.#earns = Float64Array.from(floors, (floor) => floor * places);
    this.#mostCredit = places * (1 + floors.filter((floor) => floor > 0).length);
    this.#booked = new Float64Array(floors.length);
    this.#bookedAt = new Float64Array(floors.length);
    this.#owed = new LaneSet(floors.length);
    this.#isCandidate = new Uint8Array(floors.length);
  }

  lead(): number {
    return this.#owed.size > 0 ? this.#owed.first() : this.#waiting.nonEmpty.first();
  }

  goesFirst(lane: number): boolean {
    const first = this.#waiting.nonEmpty.first();
    return first === -1 || (first > lane && this.#claim(this.lead()) === 0);
  }

  fill(places: number, filler: Filler): void {
    const { nonEmpty } = this.#waiting;
    const lead = this.lead();
    let kept = 0;
    for (let lane = nonEmpty.after(lead); lane !== -1; lane = nonEmpty.after(lane)) kept += this.#claim(lane);
    let left = places;
    if (left > kept) left -= filler.fill(lead, left - kept);
    for (let lane = nonEmpty.first(); lane !== -1 && left > 0; lane = nonEmpty.after(lane)) {
      if (lane === lead) continue;
      if (lane > lead) kept -= this.#claim(lane);
      if (left > kept) left -= filler.fill(lane, left - kept);
    }
  }

  /** A lane that is not passed over loses what it took; one that is empty by now starts at nothing when it is filled again. */
  debit(lane: number, taken: number, total: number): void {
    const credit = this.#credit(lane) + (this.#earns[lane] as number) - (taken / total) * this.#places;
    this.#booked[lane] = Math.max(0, Math.min(this.#mostCredit, credit));
    this.#bookedAt[lane] = this.#turns + 1;
    if (this.#owed.has(lane) && !this.#isOwed(credit)) {
      this.#owed.delete(lane);
      this.#watch(lane);
    }
  }

  turn(): void {
    this.#turns++;
    while (this.#candidates.peekAt() <= this.#turns) {
      const lane = this.#candidates.pop() as number;
      this.#isCandidate[lane] = 0;
      if (!this.#waiting.nonEmpty.has(lane)) continue;
      if (this.#isOwed(this.#credit(lane))) this.#owed.add(lane);
      else this.#watch(lane);
    }
  }

  filled(lane: number): void {
    if (this.#earns[lane] === 0) return;
    this.#booked[lane] = 0;
    this.#bookedAt[lane] = this.#turns;
    this.#watch(lane);
  }

  emptied(lane: number): void {
    this.#owed.delete(lane);
  }

  /** Places a lane may claim in a batch that a more urgent lane could fill alone; a whole turn at most. */
  #claim(lane: number): number {
    return Math.min(this.#waiting.count(lane), this.#places, Math.floor(this.#credit(lane) + EPSILON));
  }

  #credit(lane: number): number {
    const earned = this.#earns[lane] as number;
    return Math.min(this.#mostCredit, (this.#booked[lane] as number) + earned * (this.#turns - (this.#bookedAt[lane] as number)));
  }

  #isOwed(credit: number): boolean {
    return credit >= this.#places - EPSILON;
  }

  /** Looks at the lane again when it can be owed a turn. A lane that is served meanwhile is looked at too early, which does no harm. */
  #watch(lane: number): void {
    if (this.#isCandidate[lane] === 1) return;
    this.#isCandidate[lane] = 1;
    const missing = this.#places - EPSILON - (this.#booked[lane] as number);
    const turns = Math.ceil(missing / (this.#earns[lane] as number) - EPSILON);
    this.#candidates.push(Math.max(this.#turns + 1, (this.#bookedAt[lane] as number) + turns), lane);
  }
}

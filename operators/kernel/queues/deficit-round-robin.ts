import type { Discipline, Filler, Waiting } from './fairness.js';

/** Quanta are quotients: three thirds must make a whole. */
const EPSILON = 1e-9;

/**
 * Weighted deficit round robin: lanes are visited in turn, a visit is worth the lane's quantum, and what a lane takes it pays for,
 * so lanes that all have work get places in the proportion of their weights, exactly, however long the run.
 * The smallest weight is worth one place a round, so every visit serves somebody. With equal weights it is round robin.
 *
 * A batch may take more of a lane than it has (a lane that refuses company, work that comes back whole): the lane is then
 * passed over until rounds have paid for it. An empty lane earns nothing: rounds that pass it only pay its debt, and what it had left
 * is gone once the round has moved on. A lane that waits alone pays nothing, because nobody went without.
 *
 * Source: Shreedhar and Varghese, Efficient Fair Queueing Using Deficit Round Robin (1995).
 */
export class DeficitRoundRobin implements Discipline {
  readonly #waiting: Waiting;
  /** Places a round is worth. */
  readonly #quantum: Float64Array;
  /** Places to go in this visit; negative for a debt. */
  readonly #deficit: Float64Array;
  /** The round in which a lane became empty. */
  readonly #emptyIn: Float64Array;
  #round = 0;
  /** The lane being visited. */
  #at: number;

  constructor(weights: readonly number[], waiting: Waiting) {
    this.#waiting = waiting;
    const least = Math.min(...weights);
    this.#quantum = Float64Array.from(weights, (weight) => weight / least);
    this.#deficit = new Float64Array(weights.length);
    this.#emptyIn = new Float64Array(weights.length);
    this.#at = weights.length - 1;
  }

  lead(): number {
    const { nonEmpty } = this.#waiting;
    if (nonEmpty.size === 0) return -1;
    while (!nonEmpty.has(this.#at) || (this.#deficit[this.#at] as number) < 1 - EPSILON) this.#visit(this.#next(this.#at));
    return this.#at;
  }

  goesFirst(): boolean {
    return this.#waiting.nonEmpty.size === 0;
  }

  fill(places: number, filler: Filler): void {
    const { nonEmpty } = this.#waiting;
    const lead = this.lead();
    let open = nonEmpty.size;
    let left = places;
    for (let lane = lead, round = 0; left > 0 && open > 0; ) {
      const most = Math.min(left, this.#allowance(lane, lane === lead ? round : round + 1) - filler.taken(lane));
      const wasOpen = filler.isOpen(lane);
      if (wasOpen && most > 0) left -= filler.fill(lane, most);
      // One that gives nothing from the start is counted off when it is first seen.
      if (!filler.isOpen(lane) && (wasOpen || round === 0)) open--;
      lane = this.#next(lane);
      if (lane === lead) round++;
    }
  }

  debit(lane: number, taken: number): void {
    const { nonEmpty } = this.#waiting;
    const othersWait = nonEmpty.size > (nonEmpty.has(lane) ? 1 : 0);
    if (othersWait) (this.#deficit[lane] as number) -= taken;
  }

  turn(): void {
    // What was taken has been paid for.
  }

  filled(lane: number): void {
    if (lane === this.#at) return;
    const rounds = this.#round - (this.#emptyIn[lane] as number);
    this.#deficit[lane] = Math.min(0, (this.#deficit[lane] as number) + rounds * (this.#quantum[lane] as number));
  }

  emptied(lane: number): void {
    this.#emptyIn[lane] = this.#round;
  }

  /** The lane after this one that is not empty, the first again after the last; there must be one. */
  #next(lane: number): number {
    const next = this.#waiting.nonEmpty.after(lane);
    return next === -1 ? this.#waiting.nonEmpty.first() : next;
  }

  #visit(lane: number): void {
    if (lane <= this.#at) this.#round++;
    this.#at = lane;
    const before = this.#deficit[lane] as number;
    this.#deficit[lane] = (this.#waiting.nonEmpty.size === 1 ? Math.max(0, before) : before) + (this.#quantum[lane] as number);
  }

  /** Places the lane can pay for after so many more visits. */
  #allowance(lane: number, visits: number): number {
    return Math.floor((this.#deficit[lane] as number) + visits * (this.#quantum[lane] as number) + EPSILON);
  }
}

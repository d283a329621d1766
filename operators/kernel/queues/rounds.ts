import type { Discipline, FairnessRule, Filler } from './discipline.js';

/** Quanta are quotients: three thirds must make a whole. */
const EPSILON = 1e-9;

/** Places in proportion to what the lanes' shares are, or one each in turn. */
export const sharedRounds = (isWeighted: boolean): FairnessRule => ({
  create: (lanes, _places, counts) => new Rounds(isWeighted ? lanes.map(({ share }) => share) : lanes.map(() => 1), counts),
});

/**
 * Weighted deficit round robin: lanes are visited in turn, a visit is worth the lane's quantum, and a lane pays for what it takes. So lanes that all
 * have work get places in exact proportion to their shares, however long the run. The smallest share is worth one place a round, so every visit
 * serves an entry. With equal shares it is round robin.
 *
 * A batch may take more of a lane than it has (work that comes back whole): the lane is then passed over until rounds have paid for it. An
 * empty lane earns nothing: rounds that pass it only pay its debt, and what it had left is gone once the round has moved on. A lane that waits alone
 * pays nothing, because no other lane went without.
 *
 * Source: Shreedhar and Varghese, Efficient Fair Queueing Using Deficit Round Robin (1995).
 */
class Rounds implements Discipline {
  /** Places a round is worth. */
  private readonly quantum: readonly number[];
  /** Places to go in this visit; negative for a debt. */
  private readonly deficit: number[];
  /** The lane being visited. */
  private at: number;

  constructor(
    shares: readonly number[],
    private readonly counts: readonly number[],
  ) {
    const least = Math.min(...shares);
    this.quantum = shares.map((share) => share / least);
    this.deficit = shares.map(() => 0);
    this.at = shares.length - 1;
  }

  lead(): number {
    while (this.counts[this.at] === 0 || (this.deficit[this.at] as number) < 1 - EPSILON) this.visit(this.next(this.at));
    return this.at;
  }

  goesFirst(): boolean {
    return false;
  }

  fill(places: number, batch: Filler): void {
    const lead = this.lead();
    let left = places;
    let isOpen = true;
    for (let visits = 0; isOpen && left > 0; visits++) {
      isOpen = false;
      let lane = lead;
      do {
        // The lead has been visited already.
        left -= batch.fill(lane, Math.min(left, this.allowance(lane, lane === lead ? visits : visits + 1) - batch.given(lane)));
        isOpen ||= batch.isOpen(lane);
        lane = this.next(lane);
      } while (lane !== lead);
    }
  }

  ended(given: readonly number[]): void {
    given.forEach((taken, lane) => {
      if (taken > 0 && this.counts.some((count, other) => count > 0 && other !== lane)) (this.deficit[lane] as number) -= taken;
    });
  }

  filled(lane: number): void {
    if (lane !== this.at) this.deficit[lane] = Math.min(0, this.deficit[lane] as number);
  }

  /** The lane after this one that is not empty, the first again after the last; there must be one. */
  private next(lane: number): number {
    do lane = (lane + 1) % this.counts.length;
    while (this.counts[lane] === 0);
    return lane;
  }

  private visit(lane: number): void {
    if (lane <= this.at) this.endRound();
    this.at = lane;
    // A lane that waits alone owes nothing to other lanes.
    const isAlone = this.counts.every((count, other) => count === 0 || other === lane);
    const before = this.deficit[lane] as number;
    this.deficit[lane] = (isAlone ? Math.max(0, before) : before) + (this.quantum[lane] as number);
  }

  private endRound(): void {
    this.counts.forEach((count, lane) => {
      if (count === 0) this.deficit[lane] = Math.min(0, (this.deficit[lane] as number) + (this.quantum[lane] as number));
    });
  }

  /** Places the lane can pay for after so many more visits. */
  private allowance(lane: number, visits: number): number {
    return Math.floor((this.deficit[lane] as number) + visits * (this.quantum[lane] as number) + EPSILON);
  }
}

import type { Discipline, FairnessRule, Filler } from './discipline.js';

/** Shares are sums of fractions: ten tenths must make a whole. */
const EPSILON = 1e-9;

/** Share of the turns kept for a lower lane. */
const FLOOR = 0.1;

/** The most urgent lane first, with a floor for the others. @param floor that of a lane below the first which gives none of its own */
export function strictWithFloor(floor?: number): FairnessRule {
  const floorsOf = (lanes: Parameters<FairnessRule['create']>[0]): number[] => {
    // With many lanes a tenth each would be more than there is.
    const lower = floor ?? Math.min(FLOOR, 0.5 / Math.max(1, lanes.length - 1));
    return lanes.map((lane, i) => lane.floor ?? (i === 0 ? 0 : lower));
  };
  return {
    check: (lanes, fail) => {
      const sum = floorsOf(lanes).reduce((total, each) => total + each, 0);
      if (sum >= 1) fail('lanes', 'lanes whose floors add up to less than 1', sum);
    },
    create: (lanes, places, counts) => new StrictWithFloor(floorsOf(lanes), places, counts),
  };
}

/**
 * Strict priority with a floor: lane 0 is served first, but a lane with a floor that keeps being passed over saves up credit, rides along in a
 * batch with it, and leads one when a whole turn is owed. An empty lane saves up nothing.
 *
 * Source: deficit round robin (Shreedhar and Varghese, 1995) under a strict order.
 */
export class StrictWithFloor implements Discipline {
  /** What each lane has saved up, up to which turn; it earns its floor of the places with each turn since. So a turn costs no look at every lane. */
  private readonly credit: number[];
  private readonly until: number[];
  private turns = 0;
  /** No lane is owed a whole turn before this one. */
  private nextDue = Infinity;
  /** Lanes that are owed a turn together are owed no more than one each; a bound for those that take less than they lead. */
  private readonly mostCredit: number;

  constructor(
    private readonly floors: readonly number[],
    private readonly places: number,
    private readonly counts: readonly number[],
  ) {
    this.credit = floors.map(() => 0);
    this.until = floors.map(() => 0);
    this.mostCredit = places * (1 + floors.filter((floor) => floor > 0).length);
  }

  lead(): number {
    const { counts } = this;
    if (this.turns >= this.nextDue) {
      this.nextDue = Infinity;
      let owed = -1;
      for (let lane = counts.length - 1; lane >= 0; lane--) {
        if (counts[lane] === 0) continue;
        if (this.saved(lane) >= this.places - EPSILON) owed = lane;
        this.awaits(lane);
      }
      if (owed !== -1) return owed;
    }
    return counts.findIndex((count) => count > 0);
  }

  goesFirst(lane: number): boolean {
    for (let other = 0; other <= lane; other++) if (this.counts[other] !== 0) return false;
    return this.claim(this.lead()) === 0;
  }

  fill(places: number, batch: Filler): void {
    const lead = this.lead();
    const { length } = this.counts;
    let kept = 0;
    for (let lane = lead + 1; lane < length; lane++) kept += this.claim(lane);
    let left = places - batch.fill(lead, places - kept);
    for (let lane = 0; lane < length; lane++) {
      if (lane > lead) kept -= this.claim(lane);
      left -= batch.fill(lane, left - kept);
    }
  }

  ended(given: readonly number[], total: number): void {
    this.turns++;
    for (let lane = 0; lane < given.length; lane++) {
      const got = given[lane] as number;
      if (got === 0) continue;
      const change = ((this.floors[lane] as number) - got / total) * this.places;
      this.restart(lane, Math.max(0, Math.min(this.mostCredit, this.saved(lane, this.turns - 1) + change)));
    }
  }

  filled(lane: number): void {
    this.restart(lane, 0);
  }

  /** Places a lane may claim in a batch that a more urgent lane could fill alone; a whole turn at most. */
  private claim(lane: number): number {
    return Math.min(this.counts[lane] as number, this.places, Math.floor(this.saved(lane) + EPSILON));
  }

  private saved(lane: number, turns = this.turns): number {
    const earned = (turns - (this.until[lane] as number)) * (this.floors[lane] as number) * this.places;
    return Math.min(this.mostCredit, (this.credit[lane] as number) + earned);
  }

  private restart(lane: number, credit: number): void {
    this.credit[lane] = credit;
    this.until[lane] = this.turns;
    this.awaits(lane);
  }

  /** Notes when the lane will be owed a turn, rather too early. */
  private awaits(lane: number): void {
    const missing = this.places - EPSILON - (this.credit[lane] as number);
    const turns = missing / ((this.floors[lane] as number) * this.places);
    this.nextDue = Math.min(this.nextDue, (this.until[lane] as number) + Math.ceil(turns - EPSILON));
  }
}

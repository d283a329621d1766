import type { Discipline, FairnessRule, Filler } from './discipline.js';

/** Shares are sums of fractions: ten tenths must make a whole. */
const EPSILON = 1e-9;

/** Share of the turns kept for a lower lane. */
const FLOOR = 0.1;

/** The floor of each lane. */
export function strictFloorsOf(lanes: readonly { readonly floor?: number | undefined }[], floor?: number): number[] {
  // With many lanes a tenth each would be more than there is.
  const lower = floor ?? Math.min(FLOOR, 0.5 / Math.max(1, lanes.length - 1));
  return lanes.map((lane, i) => lane.floor ?? (i === 0 ? 0 : lower));
}

/** The most urgent lane first, with a floor for the others. @param floor that of a lane below the first which gives none of its own */
export function strictWithFloor(floor?: number): FairnessRule {
  const floorsOf = (lanes: Parameters<FairnessRule['create']>[0]): number[] => strictFloorsOf(lanes, floor);
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
class StrictWithFloor implements Discipline {
  /** Places that each lane has saved up: it earns its floor of those of a turn, and pays for what it gets. */
  private readonly credit: number[];
  /** Lanes that are owed a turn together are owed no more than one each; a bound for those that take less than they lead. */
  private readonly mostCredit: number;

  constructor(
    private readonly floors: readonly number[],
    private readonly places: number,
    private readonly counts: readonly number[],
  ) {
    this.credit = floors.map(() => 0);
    this.mostCredit = places * (1 + floors.filter((floor) => floor > 0).length);
  }

  lead(): number {
    const { counts, credit, places } = this;
    let first = 0;
    let owed: number | undefined;
    for (let lane = counts.length - 1; lane >= 0; lane--) {
      if (counts[lane] === 0) continue;
      first = lane;
      if ((credit[lane] as number) >= places - EPSILON) owed = lane;
    }
    return owed ?? first;
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
    const { credit, floors, mostCredit, places } = this;
    for (let lane = 0; lane < given.length; lane++) {
      const earned = ((floors[lane] as number) - (given[lane] as number) / total) * places;
      credit[lane] = Math.max(0, Math.min(mostCredit, (credit[lane] as number) + earned));
    }
  }

  filled(lane: number): void {
    this.credit[lane] = 0;
  }

  /** Places a lane may claim in a batch that a more urgent lane could fill alone; a whole turn at most. */
  private claim(lane: number): number {
    return Math.min(this.counts[lane] as number, this.places, Math.floor((this.credit[lane] as number) + EPSILON));
  }
}

import { describe, expect, it } from 'vitest';
import { LaneSet, StrictFloor } from '../../operators/kernel/index.js';
import type { Given } from './discipline-pair.js';
import { EPSILON, expectAlike, Pair, Plain } from './discipline-pair.js';

/** Counts everybody's credit in every turn. */
class PlainFloor extends Plain {
  readonly #credit: number[];
  readonly #floors: readonly number[];
  readonly #places: number;

  constructor(floors: readonly number[], places: number) {
    super(floors.length);
    this.#floors = floors;
    this.#places = places;
    this.#credit = floors.map(() => 0);
  }

  override lead(): number {
    const { waiting } = this;
    return waiting.find((lane) => this.#credit[lane]! >= this.#places - EPSILON) ?? waiting[0] ?? -1;
  }

  override goesFirst(lane: number): boolean {
    const [first] = this.waiting;
    return first === undefined || (lane < first && this.#claim(this.lead()) === 0);
  }

  /** The lead first, then by rank; nobody gets what a later one below the lead may claim. */
  override fill(places: number, gives: readonly number[]): Given {
    const lead = this.lead();
    const order = [lead, ...this.waiting.filter((lane) => lane !== lead)];
    let left = places;
    return order.flatMap((lane, at) => {
      const kept = order.slice(at + 1).reduce((sum, later) => sum + (later > lead ? this.#claim(later) : 0), 0);
      if (left <= kept) return [];
      const got = Math.min(gives[lane]!, left - kept);
      left -= got;
      return [[lane, got] as const];
    });
  }

  override turn(taken: ReadonlyMap<number, number>): void {
    const total = [...taken.values()].reduce((sum, each) => sum + each, 0);
    const most = this.#places * (1 + this.#floors.filter((floor) => floor > 0).length);
    for (const lane of this.waiting) {
      const earned = this.#floors[lane]! * this.#places;
      if (earned === 0) continue;
      const cost = ((taken.get(lane) ?? 0) / total) * this.#places;
      this.#credit[lane] = Math.max(0, Math.min(most, this.#credit[lane]! + earned - cost));
    }
  }

  override filled(lane: number): void {
    this.#credit[lane] = 0;
  }

  #claim(lane: number): number {
    return Math.min(this.counts[lane]!, this.#places, Math.floor(this.#credit[lane]! + EPSILON));
  }
}

const pairOf = (floors: readonly number[], places: number): Pair =>
  new Pair(new PlainFloor(floors, places), (waiting) => new StrictFloor(floors, places, waiting));

describe('StrictFloor', () => {
  it.each([[[0, 0.5, 0.4, 0, 0.05]], [[0, 0.1, 0.2, 0.3, 0.1]], [[0.25, 0.25, 0, 0.25, 0.125]]])(
    'leads, lets past and shares out as its rule says, whatever comes, goes and is served: floors %j',
    (floors) => {
      expectAlike((places) => pairOf(floors, places));
    },
  );

  it('saves up no more than a turn for itself and one for each lane with a floor', () => {
    const pair = pairOf([0, 0, 0.5, 0.4], 10);
    for (const lane of [0, 2, 3]) pair.set(lane, 100);
    for (let n = 0; n < 50; n++) pair.turn(new Map([[0, 10]]));
    // Fifty turns are worth 250 places, and 30 are kept. A turn it leads costs 10 of them and earns 5.
    let leads = 0;
    for (; pair.discipline.lead() === 2; leads++) pair.turn(new Map([[2, 10]]));
    pair.same();
    expect(leads).toBe(5);
  });

  it('looks at a lane when it can be owed a turn, and not before, however often it was empty meanwhile', () => {
    let looks = 0;
    class Watched extends LaneSet {
      override has(lane: number): boolean {
        looks++;
        return super.has(lane);
      }
    }
    const nonEmpty = new Watched(2);
    const discipline = new StrictFloor([0, 0.01], 1, { nonEmpty, count: () => 1 });
    nonEmpty.add(0);
    discipline.filled(0);
    for (let n = 0; n < 1000; n++) {
      nonEmpty.add(1);
      discipline.filled(1);
      if (n === 999) break;
      nonEmpty.delete(1);
      discipline.emptied(1);
    }
    looks = 0;
    for (let n = 0; n < 99; n++) discipline.turn();
    expect([discipline.lead(), looks]).toEqual([0, 0]);
    discipline.turn();
    expect([discipline.lead(), looks]).toEqual([1, 1]);
  });
});

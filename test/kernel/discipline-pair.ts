import fc from 'fast-check';
import { expect } from 'vitest';
import type { Discipline, Filler, Waiting } from '../../operators/kernel/index.js';
import { LaneSet } from '../../operators/kernel/index.js';

/** Quotients of a few turns do not add up exactly. */
export const EPSILON = 1e-9;

/** What lanes gave, one after the other. */
export type Given = readonly (readonly [lane: number, places: number])[];

/** A discipline written as plainly as can be: slow, and told all counts. */
export abstract class Plain {
  readonly counts: number[];

  constructor(lanes: number) {
    this.counts = new Array<number>(lanes).fill(0);
  }

  get waiting(): number[] {
    return this.counts.flatMap((count, lane) => (count > 0 ? [lane] : []));
  }

  abstract lead(): number;
  abstract goesFirst(lane: number): boolean;
  /** @param gives what each lane has for this batch; @param taken what the batch has of each already */
  abstract fill(places: number, gives: readonly number[], taken: readonly number[]): Given;
  abstract turn(taken: ReadonlyMap<number, number>): void;
  abstract filled(lane: number): void;
}

/** The real one and the plain one, told the same. */
export class Pair {
  readonly plain: Plain;
  readonly discipline: Discipline;
  readonly #nonEmpty: LaneSet;

  constructor(plain: Plain, make: (waiting: Waiting) => Discipline) {
    this.plain = plain;
    this.#nonEmpty = new LaneSet(plain.counts.length);
    this.discipline = make({ nonEmpty: this.#nonEmpty, count: (lane) => plain.counts[lane]! });
  }

  set(lane: number, count: number): void {
    const before = this.plain.counts[lane]!;
    this.plain.counts[lane] = count;
    if (before === 0 && count > 0) {
      this.#nonEmpty.add(lane);
      this.discipline.filled(lane);
      this.plain.filled(lane);
    } else if (before > 0 && count === 0) {
      this.#nonEmpty.delete(lane);
      this.discipline.emptied(lane);
    }
  }

  turn(taken: ReadonlyMap<number, number>): void {
    const total = [...taken.values()].reduce((sum, each) => sum + each, 0);
    for (const [lane, each] of taken) this.discipline.debit(lane, each, total);
    this.discipline.turn();
    this.plain.turn(taken);
  }

  /** A batch that begins with one of `trigger`, or with nothing when that is -1; lanes give no more than `most` each. */
  batch(places: number, trigger: number, most: readonly number[]): void {
    const taken = this.plain.counts.map((_, lane) => (lane === trigger ? 1 : 0));
    const gives = this.plain.counts.map((count, lane) => Math.min(most[lane]!, count - taken[lane]!));
    const left = trigger === -1 ? places : places - 1;
    const expected = this.plain.fill(left, gives, taken);
    expect(this.#fill(left, gives, taken)).toEqual(expected);
    for (const [lane, got] of expected) taken[lane]! += got;
    taken.forEach((got, lane) => {
      this.set(lane, this.plain.counts[lane]! - got);
    });
    const served = new Map(taken.flatMap((got, lane) => (got > 0 ? [[lane, got] as const] : [])));
    // A batch of nothing is no turn.
    if (served.size > 0) this.turn(served);
  }

  /** They agree about who leads and about every newcomer. */
  same(): void {
    const answers = ({ lead, goesFirst }: { lead: () => number; goesFirst: (lane: number) => boolean }): string =>
      [lead(), ...this.plain.counts.map((_, lane) => goesFirst(lane))].join();
    const { plain, discipline } = this;
    expect(answers({ lead: () => discipline.lead(), goesFirst: (lane) => discipline.goesFirst(lane) })).toBe(
      answers({ lead: () => plain.lead(), goesFirst: (lane) => plain.goesFirst(lane) }),
    );
  }

  #fill(places: number, gives: readonly number[], before: readonly number[]): Given {
    const given: (readonly [number, number])[] = [];
    const has = [...gives];
    const taken = [...before];
    const filler: Filler = {
      fill: (lane, most) => {
        if (!(most >= 1)) throw new Error(`lane ${String(lane)} is asked for ${String(most)} places`);
        const got = Math.min(most, has[lane]!);
        has[lane]! -= got;
        taken[lane]! += got;
        given.push([lane, got]);
        return got;
      },
      isOpen: (lane) => has[lane]! > 0,
      taken: (lane) => taken[lane]!,
      nextStamp: () => Infinity,
    };
    this.discipline.fill(places, filler);
    return given;
  }
}

const LANES = 5;
const lane = fc.nat({ max: LANES - 1 });
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('set' as const), lane, count: fc.constantFrom(0, 1, 2, 5, 40) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('grant' as const), times: fc.integer({ min: 1, max: 12 }) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('batch' as const),
      trigger: fc.nat(),
      most: fc.array(fc.nat({ max: 9 }), { minLength: LANES }),
    }),
  },
  // Turns of which a lane has more or less than it is worth.
  { weight: 2, arbitrary: fc.record({ do: fc.constant('others' as const), lane, taken: fc.integer({ min: 1, max: 9 }), times: lane }) },
);

/** Gives five lanes work, turns and batches, and asks both after each. */
export function expectAlike(make: (places: number) => Pair): void {
  fc.assert(
    fc.property(fc.constantFrom(1, 4, 10), fc.array(step, { minLength: 10, maxLength: 60 }), (places, steps) => {
      const pair = make(places);
      const { plain } = pair;
      pair.same();
      for (const each of steps) {
        const { waiting } = plain;
        if (each.do === 'set') {
          pair.set(each.lane, each.count);
        } else if (each.do === 'others') {
          const other = (each.lane + 1) % LANES;
          const taken = new Map(
            [each.lane, other].filter((at) => plain.counts[at]! > 0).map((at, i) => [at, i === 0 ? each.taken : 9] as const),
          );
          for (let n = 0; n < each.times && taken.size > 0; n++) pair.turn(taken);
        } else if (waiting.length === 0) {
          continue;
        } else if (each.do === 'grant') {
          for (let n = 0; n < each.times; n++) {
            pair.turn(new Map([[plain.lead(), 1]]));
            pair.same();
          }
        } else {
          pair.batch(places, waiting[each.trigger % (waiting.length + 1)] ?? -1, each.most);
        }
        pair.same();
      }
    }),
    { numRuns: 150 },
  );
}

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { LaneFairness } from '../../operators/kernel/index.js';
import { LaneQueue } from '../../operators/kernel/index.js';

interface Entry {
  readonly id: number;
  readonly lane: number;
  readonly weight: number;
  live: boolean;
}

const KINDS = ['strict', 'wdrr', 'roundRobin', 'fifo'] as const;
type Kind = (typeof KINDS)[number];

function fairnessOf(kind: Kind, shares: readonly number[]): LaneFairness {
  if (kind === 'strict') {
    const sum = shares.reduce((total, share) => total + share, 0);
    return { kind, floors: shares.map((share, lane) => (lane === 0 ? 0 : (share / sum) * 0.8)) };
  }
  return kind === 'wdrr' ? { kind, weights: shares } : { kind, lanes: shares.length };
}

interface BatchRules {
  readonly places: number;
  readonly budget?: number;
  readonly rides?: boolean;
  readonly trigger?: number;
}

/** A queue, and an owner who forms batches as the operators do. */
class Owner {
  readonly queue: LaneQueue<Entry>;
  readonly entries: Entry[] = [];
  readonly served: number[];

  constructor(fairness: LaneFairness, places: number, lanes: number) {
    this.queue = new LaneQueue<Entry>(fairness, places, (entry) => entry.live);
    this.served = new Array<number>(lanes).fill(0);
  }

  push(lane: number, weight = 1, returned = false): void {
    const entry = { id: this.entries.length, lane, weight, live: true };
    this.entries.push(entry);
    if (returned) this.queue.pushReturned(lane, entry);
    else this.queue.push(lane, entry);
  }

  leave(entry: Entry): void {
    entry.live = false;
    this.queue.left(entry.lane);
  }

  /** One grant, to whoever's turn it is. */
  grant(): Entry | undefined {
    const lane = this.queue.lead();
    if (lane === -1) return undefined;
    const entry = this.queue.shift(lane)!;
    this.queue.turn(lane);
    this.served[lane]!++;
    return entry;
  }

  /** What the next batch would be; nothing changes. */
  plan({ places, budget = Infinity, rides = true, trigger = this.queue.lead() }: BatchRules): Entry[] {
    const taken: Entry[] = [];
    let weight = 0;
    if (trigger === -1) return taken;
    this.queue.plan(trigger, { places, rides }, (entry) => {
      if (taken.length > 0 && weight + entry.weight > budget) return false;
      taken.push(entry);
      weight += entry.weight;
      return true;
    });
    return taken;
  }

  batch(rules: BatchRules): Entry[] {
    const taken = this.plan(rules);
    for (const entry of taken) {
      this.served[entry.lane]!++;
      this.queue.shift(entry.lane);
    }
    if (taken.length > 0) this.queue.turnPlanned();
    return taken;
  }
}

/** Every lane always has `backlog` entries. */
function flooded(kind: Kind, shares: readonly number[], places: number): Owner {
  const owner = new Owner(fairnessOf(kind, shares), places, shares.length);
  topUp(owner, 3 * places);
  return owner;
}

function topUp(owner: Owner, backlog: number): void {
  for (let lane = 0; lane < owner.served.length; lane++) while (owner.queue.count(lane) < backlog) owner.push(lane);
}

const weights = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 2, maxLength: 8 });

describe.each(KINDS)('under %s', (kind) => {
  const lanes = fc.integer({ min: 1, max: 40 });
  const step = fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({
        do: fc.constant('push' as const),
        lane: fc.nat(),
        weight: fc.integer({ min: 0, max: 9 }),
        times: fc.integer({ min: 1, max: 5 }),
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('return' as const), lane: fc.nat() }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('leave' as const), at: fc.nat() }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('grant' as const) }) },
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constant('batch' as const),
        places: fc.oneof(fc.integer({ min: 1, max: 12 }), fc.constant(Infinity)),
        budget: fc.oneof(fc.integer({ min: 1, max: 30 }), fc.constant(Infinity)),
        rides: fc.boolean(),
      }),
    },
  );

  it('loses nothing, doubles nothing, is first in, first out inside a lane, and never leaves a batch empty', () => {
    fc.assert(
      fc.property(lanes, fc.array(step, { maxLength: 80 }), (count, steps) => {
        const owner = new Owner(
          fairnessOf(
            kind,
            Array.from({ length: count }, (_, lane) => 1 + (lane % 4)),
          ),
          10,
          count,
        );
        const waiting = new Set<Entry>();
        const fresh = new Set<Entry>();
        const serve = (entry: Entry): void => {
          expect(waiting.delete(entry)).toBe(true);
          const earlier = [...waiting].filter(
            (other) => other.lane === entry.lane && fresh.has(other) === fresh.has(entry) && other.id < entry.id,
          );
          expect(earlier).toEqual([]);
        };
        for (const each of steps) {
          if (each.do === 'push' || each.do === 'return') {
            for (let n = each.do === 'push' ? each.times : 1; n > 0; n--) {
              owner.push(each.lane % count, each.do === 'push' ? each.weight : 1, each.do === 'return');
              const entry = owner.entries.at(-1)!;
              waiting.add(entry);
              if (each.do === 'push') fresh.add(entry);
            }
          } else if (each.do === 'leave') {
            const leaver = [...waiting][each.at % Math.max(1, waiting.size)];
            if (leaver) {
              waiting.delete(leaver);
              owner.leave(leaver);
            }
          } else if (each.do === 'grant' || owner.queue.lead() === -1 || owner.queue.hasReturned(owner.queue.lead())) {
            const entry = owner.grant();
            expect(entry === undefined).toBe(waiting.size === 0);
            if (entry) serve(entry);
          } else {
            const planned = owner.plan(each);
            // A plan is only that: the next one is the same.
            expect(owner.plan(each)).toEqual(planned);
            const taken = owner.batch(each);
            expect(taken).toEqual(planned);
            expect(taken.length).toBeGreaterThan(0);
            expect(taken.length).toBeLessThanOrEqual(each.places);
            for (const entry of taken) serve(entry);
          }
          expect(owner.queue.size).toBe(waiting.size);
        }
        for (let entry = owner.grant(); entry; entry = owner.grant()) serve(entry);
        expect(waiting.size).toBe(0);
      }),
      { numRuns: 300 },
    );
  });

  it('fills a batch while anything fits', () => {
    fc.assert(
      fc.property(lanes, fc.array(fc.nat(), { maxLength: 60 }), fc.integer({ min: 1, max: 70 }), (count, pushes, places) => {
        const owner = new Owner(fairnessOf(kind, new Array<number>(count).fill(1)), places, count);
        for (const lane of pushes) owner.push(lane % count);
        expect(owner.plan({ places })).toHaveLength(Math.min(places, pushes.length));
      }),
    );
  });

  it('ends at an entry that does not fit, which goes first in the next batch', () => {
    const owner = new Owner(fairnessOf(kind, [1]), 10, 1);
    for (const weight of [5, 9, 2, 9, 1, 1]) owner.push(0, weight);
    const weights = Array.from({ length: 5 }, () => owner.batch({ places: 10, budget: 9 }).map(({ weight }) => weight));
    expect(weights).toEqual([[5], [9], [2], [9], [1, 1]]);
    expect(owner.queue.size).toBe(0);
  });

  it('starts with the lane that triggers, and keeps to it when nobody may ride along', () => {
    const owner = flooded(kind, [1, 1, 1], 5);
    expect(owner.plan({ places: 5, trigger: 2 })[0]!.lane).toBe(2);
    expect(owner.plan({ places: 5, trigger: 2 })).toHaveLength(5);
    expect(owner.plan({ places: 5, trigger: 1, rides: false }).map(({ lane }) => lane)).toEqual([1, 1, 1, 1, 1]);
    for (const entry of owner.entries) if (entry.lane === 1 && owner.queue.count(1) > 2) owner.leave(entry);
    expect(owner.plan({ places: 5, trigger: 1, rides: false }).map(({ lane }) => lane)).toEqual([1, 1]);
  });

  it('ends a lane for this batch when told so, and goes on with the others', () => {
    const { queue } = flooded(kind, [1, 1, 1], 6);
    const asked = [0, 0, 0];
    queue.plan(1, { places: 6, rides: true }, (_entry, lane) => {
      asked[lane]!++;
      return lane !== 1;
    });
    expect(asked[1]).toBe(1);
    expect(asked[0]! + asked[2]!).toBe(6);
  });

  it('takes nothing fresh of a lane in which work that came back waits, until it has gone', () => {
    const owner = flooded(kind, [1, 1], 4);
    owner.push(1, 1, true);
    expect(owner.plan({ places: 4 }).map(({ lane }) => lane)).toEqual([0, 0, 0, 0]);
    expect(owner.plan({ places: 4, trigger: 1 }).map(({ lane }) => lane)).toEqual([0, 0, 0, 0]);
    owner.leave(owner.entries.at(-1)!);
    expect(owner.plan({ places: 4, trigger: 1 })[0]!.lane).toBe(1);
  });

  it('lets a newcomer past those who wait only when they are less urgent and owed nothing', () => {
    const owner = new Owner(fairnessOf(kind, [1, 1, 1]), 1, 3);
    const past = (): boolean[] => [0, 1, 2].map((lane) => owner.queue.goesFirst(lane));
    expect(past()).toEqual([true, true, true]);
    owner.push(1);
    expect(past()).toEqual([kind === 'strict', false, false]);
    owner.leave(owner.entries[0]!);
    expect(past()).toEqual([true, true, true]);
  });
});

describe('weighted deficit round robin', () => {
  it('gives places in the proportion of the weights, over any number of batches, to within a round and a batch', () => {
    fc.assert(
      fc.property(weights, fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 300 }), (shares, places, batches) => {
        const owner = flooded('wdrr', shares, places);
        for (let n = 0; n < batches; n++) {
          expect(owner.batch({ places })).toHaveLength(places);
          topUp(owner, 3 * places);
        }
        const least = Math.min(...shares);
        const sum = shares.reduce((total, share) => total + share, 0);
        const total = places * batches;
        owner.served.forEach((served, lane) => {
          expect(Math.abs(served - (total * shares[lane]!) / sum)).toBeLessThanOrEqual(sum / least + 1);
        });
      }),
    );
  });

  it('gives each lane exactly its weight in every round of single grants', () => {
    const owner = flooded('wdrr', [8, 3, 1], 1);
    const round = (): number[] =>
      Array.from({ length: 12 }, () => {
        const entry = owner.grant()!;
        owner.push(entry.lane);
        return entry.lane;
      });
    for (let n = 0; n < 100; n++) expect(round()).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2]);
    expect(owner.served).toEqual([800, 300, 100]);
  });

  it('is exact with weights that are fractions', () => {
    const owner = flooded('wdrr', [0.3, 0.1, 0.25], 1);
    for (let n = 0; n < 6500; n++) owner.push(owner.grant()!.lane);
    expect(owner.served).toEqual([3000, 1000, 2500]);
  });

  it('is exact when a lane has only one entry at a time, which comes back when it has been served', () => {
    const owner = new Owner({ kind: 'wdrr', weights: [8, 3, 1] }, 1, 3);
    for (let lane = 0; lane < 3; lane++) owner.push(lane);
    for (let n = 0; n < 1200; n++) owner.push(owner.grant()!.lane);
    expect(owner.served).toEqual([800, 300, 100]);
  });

  it('lets nobody wait longer than the others are worth in one round', () => {
    fc.assert(
      fc.property(weights, (shares) => {
        const owner = flooded('wdrr', shares, 1);
        const sum = shares.reduce((total, share) => total + share, 0) / Math.min(...shares);
        const last = new Map<number, number>();
        let longest = 0;
        for (let n = 0; n < 500; n++) {
          const { lane } = owner.grant()!;
          owner.push(lane);
          longest = Math.max(longest, n - (last.get(lane) ?? -1));
          last.set(lane, n);
        }
        expect(longest).toBeLessThanOrEqual(Math.ceil(sum) + shares.length);
      }),
    );
  });

  it('has lanes that refuse company pay for it: shares hold in the long run', () => {
    const shares = [3, 1];
    const owner = flooded('wdrr', shares, 10);
    for (let n = 0; n < 1000; n++) {
      owner.batch({ places: 10, rides: owner.queue.lead() !== 1 });
      topUp(owner, 30);
    }
    expect(owner.served[1]! / 10_000).toBeCloseTo(0.25, 2);
  });

  it('saves up nothing for a lane that is empty', () => {
    const owner = new Owner({ kind: 'wdrr', weights: [1, 1] }, 1, 2);
    for (let n = 0; n < 100; n++) {
      owner.push(0);
      owner.push(0);
      owner.grant();
    }
    for (let n = 0; n < 20; n++) owner.push(1);
    const next = Array.from({ length: 20 }, () => owner.grant()!.lane);
    expect(next.filter((lane) => lane === 1)).toHaveLength(10);
  });

  it('charges nothing to a lane that waits alone', () => {
    const owner = new Owner({ kind: 'wdrr', weights: [1, 1] }, 1, 2);
    for (let n = 0; n < 1000; n++) {
      owner.push(0);
      owner.grant();
    }
    for (let n = 0; n < 20; n++) {
      owner.push(0);
      owner.push(1);
    }
    const next = Array.from({ length: 20 }, () => owner.grant()!.lane);
    expect(next.filter((lane) => lane === 0)).toHaveLength(10);
  });

  it('lets a newcomer past nobody', () => {
    const owner = new Owner({ kind: 'wdrr', weights: [1, 1] }, 1, 2);
    expect(owner.queue.goesFirst(0)).toBe(true);
    owner.push(1);
    expect(owner.queue.goesFirst(0)).toBe(false);
  });
});

describe('round robin', () => {
  it('serves the lanes that are not empty one after the other', () => {
    const owner = new Owner({ kind: 'roundRobin', lanes: 4 }, 1, 4);
    for (const lane of [0, 0, 0, 2, 3, 3]) owner.push(lane);
    expect(Array.from({ length: 6 }, () => owner.grant()!.lane)).toEqual([0, 2, 3, 0, 3, 0]);
  });

  it('shares a batch evenly', () => {
    const owner = flooded('roundRobin', [1, 1, 1], 6);
    expect(owner.batch({ places: 6 }).map(({ lane }) => lane)).toEqual([0, 1, 2, 0, 1, 2]);
  });
});

describe('order of arrival', () => {
  const pushes = fc.array(fc.record({ lane: fc.nat({ max: 9 }), leaves: fc.boolean() }), { maxLength: 100 });

  it('is kept over all lanes, whoever leaves, in grants and in batches', () => {
    fc.assert(
      fc.property(pushes, fc.integer({ min: 1, max: 7 }), (steps, places) => {
        const owner = new Owner({ kind: 'fifo', lanes: 10 }, places, 10);
        for (const { lane } of steps) owner.push(lane);
        steps.forEach(({ leaves }, i) => {
          if (leaves) owner.leave(owner.entries[i]!);
        });
        const expected = owner.entries.filter(({ live }) => live);
        const served: Entry[] = [];
        while (owner.queue.size > 0) {
          served.push(owner.grant()!);
          served.push(...owner.batch({ places }));
        }
        expect(served).toEqual(expected);
      }),
    );
  });

  it('is kept in a batch in which somebody has left between two of a lane', () => {
    const owner = new Owner({ kind: 'fifo', lanes: 2 }, 9, 2);
    for (const lane of [0, 0, 1, 1, 0]) owner.push(lane);
    owner.leave(owner.entries[1]!);
    expect(owner.batch({ places: 9 }).map(({ id }) => id)).toEqual([0, 2, 3, 4]);
  });

  it('is kept when most of a lane has left, of what is fresh and of what came back', () => {
    const owner = new Owner({ kind: 'fifo', lanes: 2 }, 1, 2);
    for (let n = 0; n < 400; n++) owner.push(n % 2, 1, n % 4 >= 2);
    for (const entry of owner.entries) if (entry.lane === 0 && entry.id % 20 !== 0 && entry.id % 20 !== 10) owner.leave(entry);
    const left = owner.entries.filter(({ live }) => live);
    const cameBack = ({ id }: Entry): boolean => id % 4 >= 2;
    const served = Array.from({ length: left.length }, () => owner.grant()!);
    expect(served).toEqual([...left.filter(cameBack), ...left.filter((entry) => !cameBack(entry))]);
    expect(owner.grant()).toBeUndefined();
  });

  it('lets what came back go first, in the order it came back', () => {
    const owner = new Owner({ kind: 'fifo', lanes: 3 }, 1, 3);
    owner.push(0);
    owner.push(1);
    owner.push(2, 1, true);
    owner.push(1, 1, true);
    owner.push(2, 1, true);
    expect(Array.from({ length: 5 }, () => owner.grant()!.id)).toEqual([2, 3, 4, 0, 1]);
  });
});

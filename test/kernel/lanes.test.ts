import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Fairness, LaneClaim } from '../../operators/kernel/index.js';
import { LanesQueue, sharedRounds, strictWithFloor } from '../../operators/kernel/index.js';
import { draws } from '../support/deep.js';

class Entry {
  previous: Entry | undefined = undefined;
  next: Entry | undefined = undefined;
  live = true;
  constructor(
    readonly id: number,
    public lane: number,
    readonly weight = 1,
    readonly key?: unknown,
  ) {}
  get index(): number {
    return this.id;
  }
}

const KINDS = ['strict', 'weighted', 'roundRobin'] as const;
type Kind = (typeof KINDS)[number];

interface Rule {
  readonly fairness: Fairness;
  readonly claims: readonly LaneClaim[];
}

function ruleOf(kind: Kind, shares: readonly number[]): Rule {
  if (kind === 'strict') {
    const sum = shares.reduce((total, share) => total + share, 0);
    return {
      fairness: strictWithFloor(),
      claims: shares.map((share, lane) => ({ share: 1, floor: lane === 0 ? 0 : (share / sum) * 0.8 })),
    };
  }
  return { fairness: sharedRounds(kind === 'weighted'), claims: shares.map((share) => ({ share, floor: undefined })) };
}

interface BatchRules {
  readonly places: number;
  readonly budget?: number;
  readonly trigger?: number;
}

/** A queue, and an owner who forms batches as the operators do. */
class Owner {
  readonly queue: LanesQueue<Entry>;
  readonly entries: Entry[] = [];
  readonly served: number[];

  constructor({ fairness, claims }: Rule, places: number, isKeyed = false) {
    this.queue = new LanesQueue<Entry>(claims, fairness, places, isKeyed);
    this.served = claims.map(() => 0);
  }

  push(lane: number, weight = 1, returned = false, key?: unknown): Entry {
    const entry = new Entry(this.entries.length, lane, weight, key);
    this.entries.push(entry);
    if (returned) this.queue.pushReturned(entry);
    else this.queue.push(entry);
    return entry;
  }

  leave(entry: Entry): void {
    entry.live = false;
    this.queue.remove(entry);
  }

  /** One grant, to the lane whose turn it is. */
  grant(): Entry | undefined {
    const lane = this.queue.lead();
    if (lane === -1) return undefined;
    const entry = this.queue.takeHead(lane);
    this.served[lane]!++;
    return entry;
  }

  /** What the next batch would be; nothing changes. */
  plan({ places, budget = Infinity, trigger = this.queue.lead() }: BatchRules): readonly Entry[] {
    return trigger === -1 ? [] : this.queue.plan(trigger, places, budget);
  }

  batch(rules: BatchRules): readonly Entry[] {
    const taken = this.plan(rules);
    for (const entry of taken) this.served[entry.lane]!++;
    if (taken.length > 0) this.queue.takeAll(taken);
    return taken;
  }
}

/** Every lane always has `backlog` entries. */
function flooded(kind: Kind, shares: readonly number[], places: number): Owner {
  const owner = new Owner(ruleOf(kind, shares), places);
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
      }),
    },
  );

  it('loses nothing, doubles nothing, is first in, first out inside a lane, and never leaves a batch empty', () => {
    fc.assert(
      fc.property(lanes, fc.array(step, { maxLength: 80, size: 'max' }), (count, steps) => {
        const owner = new Owner(
          ruleOf(
            kind,
            Array.from({ length: count }, (_, lane) => 1 + (lane % 4)),
          ),
          10,
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
          } else if (each.do === 'grant' || owner.queue.lead() === -1 || owner.queue.isReturned(owner.queue.lead())) {
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
      { numRuns: 40 },
    );
  });

  it('fills a batch while anything fits', () => {
    fc.assert(
      fc.property(lanes, fc.array(fc.nat(), { maxLength: 60, size: 'max' }), fc.integer({ min: 1, max: 70 }), (count, pushes, places) => {
        const owner = new Owner(ruleOf(kind, new Array<number>(count).fill(1)), places);
        for (const lane of pushes) owner.push(lane % count);
        expect(owner.plan({ places })).toHaveLength(Math.min(places, pushes.length));
      }),
    );
  });

  it('ends at an entry that does not fit, which goes first in the next batch', () => {
    const owner = new Owner(ruleOf(kind, [1]), 10);
    for (const weight of [5, 9, 2, 9, 1, 1]) owner.push(0, weight);
    const weights = Array.from({ length: 5 }, () => owner.batch({ places: 10, budget: 9 }).map(({ weight }) => weight));
    expect(weights).toEqual([[5], [9], [2], [9], [1, 1]]);
    expect(owner.queue.size).toBe(0);
  });

  it('starts with the lane that triggers', () => {
    const owner = flooded(kind, [1, 1, 1], 5);
    expect(owner.plan({ places: 5, trigger: 2 })[0]!.lane).toBe(2);
    expect(owner.plan({ places: 5, trigger: 2 })).toHaveLength(5);
  });

  it('ends a lane for this batch at the first that is too heavy, and goes on with the others', () => {
    const heavy = new Owner(ruleOf(kind, [1, 1, 1]), 6);
    for (const weight of [1, 1, 1, 1, 1, 1]) for (const lane of [0, 2]) heavy.push(lane, weight);
    heavy.push(1, 1);
    heavy.push(1, 9);
    heavy.push(1, 1);
    expect(heavy.plan({ places: 7, budget: 8, trigger: 1 }).filter(({ lane }) => lane === 1)).toHaveLength(1);
    expect(heavy.plan({ places: 7, budget: 8, trigger: 1 })).toHaveLength(7);
  });

  it('takes nothing fresh of a lane in which work that came back waits, until it has gone', () => {
    const owner = flooded(kind, [1, 1], 4);
    owner.push(1, 1, true);
    expect(owner.plan({ places: 4 }).map(({ lane }) => lane)).toEqual([0, 0, 0, 0]);
    expect(owner.plan({ places: 4, trigger: 1 }).map(({ lane }) => lane)).toEqual([0, 0, 0, 0]);
    owner.leave(owner.entries.at(-1)!);
    expect(owner.plan({ places: 4, trigger: 1 })[0]!.lane).toBe(1);
  });

  it('lets a new item overtake waiting ones only when they are less urgent and owed nothing', () => {
    const owner = new Owner(ruleOf(kind, [1, 1, 1]), 1);
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
        const owner = flooded('weighted', shares, places);
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
    const owner = flooded('weighted', [8, 3, 1], 1);
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
    const owner = flooded('weighted', [0.3, 0.1, 0.25], 1);
    for (let n = 0; n < 6500; n++) owner.push(owner.grant()!.lane);
    expect(owner.served).toEqual([3000, 1000, 2500]);
  });

  it('is exact when a lane has only one entry at a time, which comes back when it has been served', () => {
    const owner = new Owner(ruleOf('weighted', [8, 3, 1]), 1);
    for (let lane = 0; lane < 3; lane++) owner.push(lane);
    for (let n = 0; n < 1200; n++) owner.push(owner.grant()!.lane);
    expect(owner.served).toEqual([800, 300, 100]);
  });

  it('lets no lane wait longer than one round of the shares of other lanes', () => {
    fc.assert(
      fc.property(weights, (shares) => {
        const owner = flooded('weighted', shares, 1);
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

  it('has a lane whose work comes back whole pay for it: shares hold in the long run', () => {
    const owner = flooded('weighted', [3, 1], 10);
    for (let n = 0; n < 1000; n++) {
      if (owner.queue.lead() === 1) {
        owner.queue.turn(1, 10);
        owner.served[1]! += 10;
      } else {
        owner.batch({ places: 10 });
      }
      topUp(owner, 30);
    }
    expect(owner.served[1]! / 10_000).toBeCloseTo(0.25, 2);
  });

  it('saves up nothing for a lane that is empty', () => {
    const owner = new Owner(ruleOf('weighted', [1, 1]), 1);
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
    const owner = new Owner(ruleOf('weighted', [1, 1]), 1);
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

  it('charges nothing to a lane that waits alone, however much it takes and whatever is left of it', () => {
    const owner = new Owner(ruleOf('weighted', [1, 1]), 1);
    for (let n = 0; n < 3; n++) owner.push(0);
    owner.queue.lead();
    owner.queue.takeHead(0, 5);
    owner.push(1);
    expect(owner.queue.lead()).toBe(0);
  });

  it('leaves a lane that has emptied what its visit is worth until the round moves on, and not longer', () => {
    const rest = (movesOn: boolean): number[] => {
      const owner = new Owner(ruleOf('weighted', [3, 1]), 1);
      owner.push(0);
      for (let n = 0; n < 3; n++) owner.push(1);
      const lanes = [owner.grant()!.lane];
      if (movesOn) expect(owner.queue.lead()).toBe(1);
      for (let n = 0; n < 9; n++) owner.push(0);
      return [...lanes, ...Array.from({ length: 8 }, () => owner.grant()!.lane)];
    };
    expect([rest(false), rest(true)]).toEqual([
      [0, 0, 0, 1, 0, 0, 0, 1, 0],
      [0, 1, 0, 0, 0, 1, 0, 0, 0],
    ]);
  });

  it('never lets a new item go first while another lane waits', () => {
    const owner = new Owner(ruleOf('weighted', [1, 1]), 1);
    expect(owner.queue.goesFirst(0)).toBe(true);
    owner.push(1);
    expect(owner.queue.goesFirst(0)).toBe(false);
  });
});

describe('round robin', () => {
  it('serves the lanes that are not empty one after the other', () => {
    const owner = new Owner(ruleOf('roundRobin', [1, 1, 1, 1]), 1);
    for (const lane of [0, 0, 0, 2, 3, 3]) owner.push(lane);
    expect(Array.from({ length: 6 }, () => owner.grant()!.lane)).toEqual([0, 2, 3, 0, 3, 0]);
  });

  it('shares a batch evenly', () => {
    const owner = flooded('roundRobin', [1, 1, 1], 6);
    expect(owner.batch({ places: 6 }).map(({ lane }) => lane)).toEqual([0, 1, 2, 0, 1, 2]);
  });
});

const floorQueue = (floors: readonly number[], places: number): LanesQueue<Entry> =>
  new LanesQueue<Entry>(
    floors.map((floor) => ({ share: 1, floor })),
    strictWithFloor(),
    places,
    false,
  );

/** Forms one batch, and tells how many of each lane went. */
function batchOf(queue: LanesQueue<Entry>, places: number, lanes: number): number[] {
  const taken = new Array<number>(lanes).fill(0);
  const planned = queue.plan(queue.lead(), places, Infinity);
  for (const { lane } of planned) taken[lane]!++;
  queue.takeAll(planned);
  return taken;
}

/** A queue whose lanes never run dry, and a way to give it turns. */
function floored(floors: readonly number[], places: number) {
  const queue = floorQueue(floors, places);
  floors.forEach((_, lane) => {
    for (let id = 0; id < 3; id++) queue.push(new Entry(id, lane));
  });
  const served = floors.map(() => 0);
  const turn = (): number => {
    const lead = queue.lead();
    queue.push(new Entry(0, lead));
    queue.takeHead(lead);
    served[lead]!++;
    return lead;
  };
  return { queue, served, turn };
}

const floorsOf = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 1, maxLength: 12 }).chain((shares) =>
  fc.double({ min: 0.01, max: 0.99, noNaN: true }).map((used) => {
    const sum = shares.reduce((total, share) => total + share, 0);
    return [0, ...shares.map((share) => (sum > 0 ? (share * used) / sum : 0))];
  }),
);

describe('the floor of a lane', () => {
  it('is what it gets while the first lane could take everything: never more, and never a place less than its rank allows', () => {
    fc.assert(
      fc.property(floorsOf, fc.integer({ min: 1, max: 2000 }), (floors, turns) => {
        const { served, turn } = floored(floors, 1);
        const withFloor = floors.flatMap((floor, lane) => (lane > 0 && floor > 0 ? [lane] : []));
        let most = -Infinity;
        let least = Infinity;
        for (let n = 1; n <= turns; n++) {
          turn();
          let above = 0;
          withFloor.forEach((lane, rank) => {
            const floor = floors[lane]!;
            above += floor;
            most = Math.max(most, served[lane]! - floor * n);
            // Lanes owed at the same time are served one after the other: each more urgent one may cost a place.
            least = Math.min(least, served[lane]! - floor * n + 1 + rank + above);
          });
        }
        expect(most).toBeLessThanOrEqual(1e-6);
        expect(least).toBeGreaterThanOrEqual(-1e-6);
        floors.forEach((floor, lane) => {
          if (lane > 0 && floor === 0) expect(served[lane]).toBe(0);
        });
      }),
      { numRuns: draws(80, 200) },
    );
  });

  it.each([0.1, 0.3, 0.45, 0.6, 0.75, 0.9])('is kept to within one place over ten thousand turns: %d', (floor) => {
    const { served, turn } = floored([0, floor], 1);
    for (let n = 0; n < 10_000; n++) turn();
    expect(served[1]).toBeGreaterThanOrEqual(Math.floor(10_000 * floor) - 1);
    expect(served[1]).toBeLessThanOrEqual(Math.ceil(10_000 * floor));
  });

  it('adds up in tenths', () => {
    const { turn } = floored([0, 0.1], 1);
    expect(Array.from({ length: 22 }, turn)).toEqual([...Array<number>(10).fill(0), 1, ...Array<number>(9).fill(0), 1, 0]);
  });

  it('is kept for the first lane, too: owed to it as well as to others, it goes before them', () => {
    const { turn } = floored([0.5, 0.12, 0.12, 0.12, 0.12], 1);
    for (let n = 0; n < 9; n++) turn();
    expect(Array.from({ length: 7 }, turn)).toEqual([1, 2, 0, 3, 0, 4, 0]);
  });

  it('gives nothing to a lane that is not passed over', () => {
    const queue = floorQueue([0, 0.1, 0.1], 1);
    // Alone in the queue, a lane is served every time; afterwards nothing is owed to it.
    for (let id = 0; id < 100; id++) {
      queue.push(new Entry(id, 1));
      queue.push(new Entry(id, 1));
      queue.takeHead(1);
      expect(queue.goesFirst(0)).toBe(true);
    }
    queue.push(new Entry(0, 0));
    expect(queue.lead()).toBe(0);
  });

  it('is not saved up by an empty lane, or by one that emptied', () => {
    const queue = floorQueue([0, 0.5], 1);
    for (let id = 0; id < 10; id++) queue.push(new Entry(id, 0));
    const waiter = new Entry(0, 1);
    queue.push(waiter);
    for (let n = 0; n < 2; n++) queue.turn(0);
    expect(queue.lead()).toBe(1);
    queue.remove(waiter);
    expect(queue.lead()).toBe(0);
    for (let n = 0; n < 10; n++) queue.turn(0);
    queue.push(new Entry(1, 1));
    expect(queue.lead()).toBe(0);
    expect(batchOf(queue, 1, 2)).toEqual([1, 0]);
  });

  it('hands the turn to the next lane that is owed one when the first leaves', () => {
    const queue = floorQueue([0, 0.5, 0.4], 1);
    const waiters = [0, 1, 2].map((lane) => {
      const waiter = new Entry(lane, lane);
      queue.push(waiter);
      return waiter;
    });
    for (let n = 0; n < 3; n++) queue.turn(0);
    expect(queue.lead()).toBe(1);
    queue.remove(waiters[1]!);
    expect(queue.lead()).toBe(2);
  });

  it('rides along in a batch: two of twenty places at a tenth', () => {
    const queue = floorQueue([0, 0.1], 20);
    for (let id = 0; id < 100; id++) {
      queue.push(new Entry(id, 0));
      queue.push(new Entry(id, 1));
    }
    expect(Array.from({ length: 4 }, () => batchOf(queue, 20, 2))).toEqual([
      [20, 0],
      [18, 2],
      [18, 2],
      [18, 2],
    ]);
  });

  it('counts in turns when batches are heavy before they are full: it leads every tenth, not for ever', () => {
    const { served, turn } = floored([0, 0.1], 20);
    const leads = Array.from({ length: 1000 }, turn);
    expect(served).toEqual([901, 99]);
    leads.forEach((lead, n) => {
      if (lead === 1) expect(leads[n + 1] ?? 0).toBe(0);
    });
  });

  it('claims no more than waits, and no more than a batch has', () => {
    const queue = floorQueue([0, 0.5, 0.4], 10);
    for (let id = 0; id < 50; id++) queue.push(new Entry(id, id % 2));
    queue.push(new Entry(50, 2));
    for (let n = 0; n < 100; n++) queue.turn(0, 10);
    expect(batchOf(queue, 10, 3)).toEqual([0, 9, 1]);
    expect(batchOf(queue, 10, 3)).toEqual([0, 10, 0]);
  });

  it('defaults to a tenth below the first lane, or to half of all in equal parts where that is less', () => {
    const ownFloor = (lanes: number, floor?: number): number => {
      const claims = Array.from({ length: lanes }, () => ({ share: 1, floor: undefined }));
      const queue = new LanesQueue<Entry>(claims, strictWithFloor(floor), 1, false);
      for (let lane = 0; lane < 2; lane++) queue.push(new Entry(lane, lane));
      let turns = 0;
      for (; queue.lead() === 0; turns++) queue.turn(0);
      return 1 / turns;
    };
    expect([ownFloor(2), ownFloor(6), ownFloor(21), ownFloor(3, 0.25)]).toEqual([0.1, 0.1, 1 / 40, 0.25]);
  });

  it('is refused where all of them leave nothing for the first lane', () => {
    const refused = (floors: readonly (number | undefined)[], floor?: number): unknown[] => {
      const said: unknown[] = [];
      const fail = (...args: unknown[]): never => said.push(...args) as never;
      strictWithFloor(floor).check?.(
        floors.map((each) => ({ share: 1, floor: each })),
        fail,
      );
      return said;
    };
    const expected = ['lanes', 'lanes whose floors add up to less than 1'];
    expect([refused([0, 0.5, 0.25]), refused([undefined, undefined, undefined]), refused([undefined, undefined], 0.5)]).toEqual([
      [],
      [],
      [],
    ]);
    expect([refused([0, 0.5, 0.5]), refused([undefined, undefined, undefined], 0.75)]).toEqual([
      [...expected, 1],
      [...expected, 1.5],
    ]);
  });

  it('saves up two turns for one lane with a floor and not more, however long it is passed over', () => {
    const queue = floorQueue([0, 0.25, 0, 0], 10);
    for (let id = 0; id < 200; id++) queue.push(new Entry(id, id % 4));
    for (let n = 0; n < 1000; n++) queue.turn(0, 10);
    const leads = Array.from({ length: 5 }, () => queue.takeHead(queue.lead(), 10).lane);
    expect(leads).toEqual([1, 1, 0, 0, 1]);
  });

  it('works for 1,024 lanes', () => {
    const floors = Array.from({ length: 1024 }, (_, lane) => (lane === 0 ? 0 : 0.5 / 1023));
    const { served, turn } = floored(floors, 1);
    for (let n = 0; n < 10_230; n++) turn();
    // About 5,115 turns go down: five to each lane, less what they are still owed.
    expect(served[0]).toBeGreaterThanOrEqual(10_230 / 2);
    expect(Math.min(...served)).toBeGreaterThanOrEqual(4);
    expect(Math.max(...served.slice(1))).toBeLessThanOrEqual(5);
  });
});

describe('what goes wrong elsewhere', () => {
  it('strict priority starves the lanes below: a floor of a tenth is served in every eleventh turn at least', () => {
    const { served, turn } = floored([0, 0.1], 1);
    for (let n = 0; n < 11; n++) turn();
    expect(served[1]).toBeGreaterThanOrEqual(1);
  });

  it('a heap forgets the order of arrival among equals: a thousand of one lane come out as they went in', () => {
    const queue = floorQueue([0, 0.1], 1);
    for (let id = 0; id < 1000; id++) queue.push(new Entry(id, 1));
    expect(Array.from({ length: 1000 }, () => queue.takeHead(queue.lead()).id)).toEqual(Array.from({ length: 1000 }, (_, id) => id));
  });
});

describe('keys that share a lane', () => {
  const keyed = (): Owner => new Owner(ruleOf('strict', [1, 1]), 1, true);

  it('serves the first of a key within the next two grants, whatever waits under another', () => {
    const owner = keyed();
    for (let n = 0; n < 200; n++) owner.push(1, 1, false, 'A');
    for (let n = 0; n < 50; n++) owner.grant();
    owner.push(1, 1, false, 'B');
    expect([owner.grant()!.key, owner.grant()!.key]).toContain('B');
    expect(owner.queue.size).toBe(149);
  });

  it('goes round the keys, oldest first under each; what came back goes ahead of them all', () => {
    const owner = keyed();
    for (const key of ['A', 'A', 'A', 'B', 'C', 'C']) owner.push(0, 1, false, key);
    owner.push(0, 1, true);
    expect(owner.queue.isReturned(0)).toBe(true);
    expect(owner.plan({ places: 9 })).toEqual([]);
    expect(Array.from({ length: 7 }, () => owner.grant()!.id)).toEqual([6, 0, 3, 4, 1, 5, 2]);
    expect(owner.grant()).toBeUndefined();
  });

  it('fills a batch with one of each key in turn, and goes on where it ended', () => {
    const owner = keyed();
    for (const key of ['A', 'A', 'A', 'A', 'B', 'C', 'C']) owner.push(1, 1, false, key);
    const ids = (places: number): number[] => owner.batch({ places }).map(({ id }) => id);
    expect(owner.plan({ places: 9 }).map(({ id }) => id)).toEqual([0, 4, 5, 1, 6, 2, 3]);
    expect([ids(2), ids(4), ids(9)]).toEqual([[0, 4], [5, 1, 6, 2], [3]]);
  });

  it('loses nothing, doubles nothing, and knows the first and the last item', () => {
    const step = fc.record({
      do: fc.constantFrom('push', 'push', 'push', 'return', 'leave', 'grant', 'batch'),
      at: fc.nat(),
      key: fc.nat({ max: 4 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120, size: 'max' }), (steps) => {
        const owner = keyed();
        const fresh = new Map<Entry, number>();
        const returned: Entry[] = [];
        const serve = (entry: Entry): void => {
          if (returned[0] === entry) returned.shift();
          else {
            expect(returned).toHaveLength(0);
            const earlier = [...fresh.keys()].find(({ key }) => key === entry.key);
            expect(entry).toBe(earlier);
            fresh.delete(entry);
          }
        };
        for (const { do: act, at, key } of steps) {
          if (act === 'push') fresh.set(owner.push(1, 1, false, key), key);
          else if (act === 'return') returned.push(owner.push(1, 1, true));
          else if (act === 'leave') {
            const all = [...returned, ...fresh.keys()];
            const leaver = all[at % Math.max(1, all.length)];
            if (!leaver) continue;
            owner.leave(leaver);
            fresh.delete(leaver);
            if (returned.includes(leaver)) returned.splice(returned.indexOf(leaver), 1);
          } else if (act === 'grant' || owner.queue.isReturned(1)) {
            const entry = owner.grant();
            if (entry) serve(entry);
          } else {
            const planned = owner.plan({ places: 1 + (at % 7) });
            expect(planned).toHaveLength(Math.min(1 + (at % 7), fresh.size));
            for (const entry of owner.batch({ places: 1 + (at % 7) })) serve(entry);
          }
          const { queue } = owner;
          expect([queue.size, queue.count(1)]).toEqual([fresh.size + returned.length, fresh.size + returned.length]);
          const seen: Entry[] = [];
          queue.each(1, (entry) => seen.push(entry) > 0);
          expect(seen).toEqual([...fresh.keys()]);
          seen.length = 0;
          queue.each(1, (entry) => seen.push(entry) < 3);
          expect(seen).toEqual([...fresh.keys()].slice(0, 3));
          expect([queue.oldest(1), queue.newest(1)]).toEqual([[...fresh.keys()][0], [...fresh.keys()].at(-1)]);
          expect(queue.after(-1)).toBe(fresh.size > 0 ? 1 : -1);
        }
      }),
      { numRuns: draws(30, 60) },
    );
  });
});

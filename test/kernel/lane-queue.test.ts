import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { LaneFairness } from '../../operators/kernel/index.js';
import { LaneQueue } from '../../operators/kernel/index.js';

interface Entry {
  readonly id: number;
  live: boolean;
}

const isLive = (entry: Entry): boolean => entry.live;

const strict = (...floors: readonly number[]): LaneFairness => ({ kind: 'strict', floors });

/** Forms one batch as an owner would, and tells how many of each lane went. */
function batchOf(queue: LaneQueue<Entry>, places: number, trigger = queue.lead()): number[] {
  const taken = new Array<number>(queue.lanes).fill(0);
  queue.plan(trigger, { places, rides: true }, (_entry, lane) => {
    taken[lane]!++;
    return true;
  });
  taken.forEach((count, lane) => {
    for (let n = 0; n < count; n++) queue.shift(lane);
  });
  queue.turnPlanned();
  return taken;
}

/** Plain arrays of live entries; what came back stands before what is fresh. */
class Model {
  readonly returned: Entry[][];
  readonly fresh: Entry[][];

  constructor(lanes: number) {
    this.returned = Array.from({ length: lanes }, () => []);
    this.fresh = Array.from({ length: lanes }, () => []);
  }

  lane(lane: number): Entry[] {
    return [...this.returned[lane]!, ...this.fresh[lane]!];
  }

  remove(lane: number, entry: Entry): void {
    for (const ring of [this.returned[lane]!, this.fresh[lane]!]) if (ring.includes(entry)) ring.splice(ring.indexOf(entry), 1);
  }

  get nonEmpty(): number[] {
    return this.fresh.flatMap((_, lane) => (this.lane(lane).length > 0 ? [lane] : []));
  }
}

type Step =
  | { readonly do: 'push' | 'pushReturned'; readonly lane: number; readonly times: number }
  | { readonly do: 'shift'; readonly lane: number }
  | { readonly do: 'leave'; readonly lane: number; readonly at: number; readonly times: number };

const lanesOf = (most: number) =>
  fc.integer({ min: 1, max: most }).chain((lanes) => {
    const lane = fc.nat({ max: lanes - 1 });
    const step: fc.Arbitrary<Step> = fc.oneof(
      {
        weight: 3,
        arbitrary: fc.record({
          do: fc.constantFrom('push' as const, 'pushReturned' as const),
          lane,
          times: fc.integer({ min: 1, max: 50 }),
        }),
      },
      { weight: 3, arbitrary: fc.record({ do: fc.constant('shift' as const), lane }) },
      {
        weight: 2,
        arbitrary: fc.record({ do: fc.constant('leave' as const), lane, at: fc.nat(), times: fc.integer({ min: 1, max: 60 }) }),
      },
    );
    return fc.record({ lanes: fc.constant(lanes), steps: fc.array(step, { maxLength: 60 }) });
  });

function scan(queue: LaneQueue<Entry>, lane: number, most = Infinity): Entry[] {
  const seen: Entry[] = [];
  queue.scanFresh(lane, (entry) => seen.push(entry) < most);
  return seen;
}

describe('LaneQueue', () => {
  it.each([3, 40, 1024])('is FIFO inside a lane, strict between lanes, and never serves who has left: up to %d lanes', (most) => {
    fc.assert(
      fc.property(lanesOf(most), ({ lanes, steps }) => {
        const queue = new LaneQueue<Entry>(strict(...new Array<number>(lanes).fill(0)), 1, isLive);
        const model = new Model(lanes);
        let id = 0;
        for (const step of steps) {
          if (step.do === 'shift') {
            const [expected] = model.lane(step.lane);
            expect(queue.peek(step.lane)).toBe(expected);
            expect(queue.shift(step.lane)).toBe(expected);
            if (expected) model.remove(step.lane, expected);
          } else if (step.do === 'leave') {
            for (let n = 0; n < step.times; n++) {
              const waiting = model.lane(step.lane);
              const leaver = waiting[step.at % Math.max(1, waiting.length)];
              if (!leaver) break;
              leaver.live = false;
              queue.left(step.lane);
              model.remove(step.lane, leaver);
            }
          } else {
            for (let n = 0; n < step.times; n++) {
              const entry = { id: id++, live: true };
              queue[step.do](step.lane, entry);
              model[step.do === 'push' ? 'fresh' : 'returned'][step.lane]!.push(entry);
            }
          }
          const fresh = model.fresh[step.lane]!;
          expect(queue.count(step.lane)).toBe(model.lane(step.lane).length);
          expect(queue.peek(step.lane)).toBe(model.lane(step.lane)[0]);
          expect(queue.peekFresh(step.lane)).toBe(fresh[0]);
          expect(queue.newestFresh(step.lane)).toBe(fresh.at(-1));
          expect(queue.newestFresh(step.lane, (entry) => entry.id % 2 === 0)).toBe(fresh.findLast((entry) => entry.id % 2 === 0));
          expect(scan(queue, step.lane)).toEqual(fresh);
          expect(scan(queue, step.lane, 2)).toEqual(fresh.slice(0, 2));
          const nonEmpty = model.nonEmpty;
          expect([queue.first(), queue.last(), queue.lead()]).toEqual([nonEmpty[0] ?? -1, nonEmpty.at(-1) ?? -1, nonEmpty[0] ?? -1]);
          expect(queue.size).toBe(nonEmpty.reduce((sum, lane) => sum + model.lane(lane).length, 0));
        }
        const rest: Entry[] = [];
        for (let lane = queue.lead(); lane !== -1; lane = queue.lead()) rest.push(queue.shift(lane)!);
        expect(rest).toEqual(model.nonEmpty.flatMap((lane) => model.lane(lane)));
        expect([queue.size, queue.lanes]).toEqual([0, lanes]);
      }),
      { numRuns: 300 },
    );
  });

  it('serves the others in order when most of a lane has left', () => {
    const queue = new LaneQueue<Entry>(strict(0), 1, isLive);
    const entries = Array.from({ length: 200 }, (_, id) => ({ id, live: true }));
    for (const entry of entries) queue.push(0, entry);
    for (const entry of entries.slice(50, 199)) {
      entry.live = false;
      queue.left(0);
    }
    expect([queue.count(0), queue.newestFresh(0)?.id]).toEqual([51, 199]);
    expect(Array.from({ length: 51 }, () => queue.shift(0)?.id)).toEqual([...Array.from({ length: 50 }, (_, id) => id), 199]);
    expect(queue.shift(0)).toBeUndefined();
  });

  it('sweeps out what left behind one who stays', () => {
    let looks = 0;
    const queue = new LaneQueue<Entry>(strict(0), 1, (entry) => {
      looks++;
      return entry.live;
    });
    queue.push(0, { id: -1, live: true });
    for (let id = 0; id < 10_000; id++) {
      const entry = { id, live: true };
      queue.push(0, entry);
      entry.live = false;
      queue.left(0);
    }
    // Every sweep looks at what is there, so 10,000 who left cost a few looks each, and hardly any of them is still held.
    expect(looks).toBeLessThan(20_000);
    looks = 0;
    queue.scanFresh(0, () => true);
    expect(looks).toBeLessThan(50);
    expect([queue.size, queue.first()]).toEqual([1, 0]);
  });

  it('tells how much of the front of a lane is a batch, and takes it out as one turn', () => {
    for (const fairness of [strict(0, 0), { kind: 'fifo', lanes: 2 } as const]) {
      const queue = new LaneQueue<Entry>(fairness, 3, isLive);
      const entries = Array.from({ length: 5 }, (_, id) => ({ id, live: true }));
      const limits = { places: 3, rides: true };
      for (const entry of entries) queue.push(0, entry);
      expect(queue.front(0, limits)).toBe(3);
      expect([0, 1, 2].map((i) => queue.freshAt(0, i))).toEqual(entries.slice(0, 3));
      queue.takeFront(0, 3);
      expect([queue.size, queue.front(0, limits), queue.peek(0)]).toEqual([2, 2, entries[3]]);
      queue.push(1, { id: 5, live: true });
      expect([queue.front(0, limits), queue.front(0, { ...limits, rides: false })]).toEqual([0, 2]);
      queue.takeFront(0, 2);
      expect([queue.lead(), queue.count(0), queue.front(1, limits)]).toEqual([1, 0, 1]);
    }
  });

  it('passes over an entry that was moved to another lane, and serves it there', () => {
    const queue = new LaneQueue<{ id: number; lane: number }>(strict(0, 0), 3, (entry, lane) => entry.lane === lane);
    const entries = Array.from({ length: 3 }, (_, id) => ({ id, lane: 1 }));
    for (const entry of entries) queue.push(1, entry);
    entries[0]!.lane = 0;
    queue.left(1);
    queue.push(0, entries[0]!);
    expect([queue.size, queue.count(0), queue.count(1)]).toEqual([3, 1, 2]);
    expect([queue.shift(0), queue.shift(1), queue.shift(1), queue.size]).toEqual([...entries, 0]);
  });

  it('has no front where an entry has left or one has come back', () => {
    const queue = new LaneQueue<Entry>(strict(0), 3, isLive);
    const entries = Array.from({ length: 3 }, (_, id) => ({ id, live: true }));
    const limits = { places: 2, rides: false };
    for (const entry of entries) queue.push(0, entry);
    queue.pushReturned(0, { id: 3, live: true });
    expect(queue.front(0, limits)).toBe(0);
    queue.shift(0);
    expect(queue.front(0, limits)).toBe(2);
    entries[1]!.live = false;
    queue.left(0);
    expect(queue.front(0, limits)).toBe(0);
  });
});

/** A queue whose lanes never run dry, and a way to give it turns. */
function flooded(floors: readonly number[], places: number) {
  const queue = new LaneQueue<Entry>(strict(...floors), places, isLive);
  floors.forEach((_, lane) => {
    for (let id = 0; id < 3; id++) queue.push(lane, { id, live: true });
  });
  const served = floors.map(() => 0);
  const turn = (): number => {
    const lead = queue.lead();
    queue.shift(lead);
    queue.push(lead, { id: 0, live: true });
    queue.turn(lead);
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
        const { served, turn } = flooded(floors, 1);
        const floored = floors.flatMap((floor, lane) => (lane > 0 && floor > 0 ? [lane] : []));
        let most = -Infinity;
        let least = Infinity;
        for (let n = 1; n <= turns; n++) {
          turn();
          let above = 0;
          floored.forEach((lane, rank) => {
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
      { numRuns: 200 },
    );
  });

  it.each([0.1, 0.3, 0.45, 0.6, 0.75, 0.9])('is kept to within one place over ten thousand turns: %d', (floor) => {
    const { served, turn } = flooded([0, floor], 1);
    for (let n = 0; n < 10_000; n++) turn();
    expect(served[1]).toBeGreaterThanOrEqual(Math.floor(10_000 * floor) - 1);
    expect(served[1]).toBeLessThanOrEqual(Math.ceil(10_000 * floor));
  });

  it('adds up in tenths', () => {
    const { turn } = flooded([0, 0.1], 1);
    expect(Array.from({ length: 22 }, turn)).toEqual([...Array<number>(10).fill(0), 1, ...Array<number>(9).fill(0), 1, 0]);
  });

  it('gives nothing to a lane that is not passed over', () => {
    const queue = new LaneQueue<Entry>(strict(0, 0.1, 0.1), 1, isLive);
    // Alone in the queue, a lane is served every time; afterwards nothing is owed to it.
    for (let id = 0; id < 100; id++) {
      queue.push(1, { id, live: true });
      queue.push(1, { id, live: true });
      queue.shift(1);
      queue.turn(1);
      expect(queue.goesFirst(0)).toBe(true);
    }
    queue.push(0, { id: 0, live: true });
    expect(queue.lead()).toBe(0);
  });

  it('is not saved up by an empty lane, or by one that emptied', () => {
    const queue = new LaneQueue<Entry>(strict(0, 0.5), 1, isLive);
    for (let id = 0; id < 10; id++) queue.push(0, { id, live: true });
    const waiter = { id: 0, live: true };
    queue.push(1, waiter);
    for (let n = 0; n < 2; n++) queue.turn(0);
    expect(queue.lead()).toBe(1);
    waiter.live = false;
    queue.left(1);
    expect(queue.lead()).toBe(0);
    for (let n = 0; n < 10; n++) queue.turn(0);
    queue.push(1, { id: 1, live: true });
    expect(queue.lead()).toBe(0);
    expect(batchOf(queue, 1)).toEqual([1, 0]);
  });

  it('hands the turn to the next lane that is owed one when the first leaves', () => {
    const queue = new LaneQueue<Entry>(strict(0, 0.5, 0.4), 1, isLive);
    const waiters = [0, 1, 2].map((lane) => {
      const waiter = { id: lane, live: true };
      queue.push(lane, waiter);
      return waiter;
    });
    for (let n = 0; n < 3; n++) queue.turn(0);
    expect(queue.lead()).toBe(1);
    waiters[1]!.live = false;
    queue.left(1);
    expect(queue.lead()).toBe(2);
  });

  it('rides along in a batch: two of twenty places at a tenth', () => {
    const queue = new LaneQueue<Entry>(strict(0, 0.1), 20, isLive);
    for (let id = 0; id < 100; id++) {
      queue.push(0, { id, live: true });
      queue.push(1, { id, live: true });
    }
    expect(Array.from({ length: 4 }, () => batchOf(queue, 20))).toEqual([
      [20, 0],
      [18, 2],
      [18, 2],
      [18, 2],
    ]);
  });

  it('counts in turns when batches are heavy before they are full: it leads every tenth, not for ever', () => {
    const { served, turn } = flooded([0, 0.1], 20);
    const leads = Array.from({ length: 1000 }, turn);
    expect(served).toEqual([901, 99]);
    leads.forEach((lead, n) => {
      if (lead === 1) expect(leads[n + 1] ?? 0).toBe(0);
    });
  });

  it('claims no more than waits, and no more than a batch has', () => {
    const queue = new LaneQueue<Entry>(strict(0, 0.5, 0.4), 10, isLive);
    for (let id = 0; id < 50; id++) queue.push(id % 2, { id, live: true });
    queue.push(2, { id: 50, live: true });
    for (let n = 0; n < 100; n++) queue.turn(0, 10);
    expect(batchOf(queue, 10)).toEqual([0, 9, 1]);
    expect(batchOf(queue, 10)).toEqual([0, 10, 0]);
  });

  it('works for 1,024 lanes', () => {
    const floors = Array.from({ length: 1024 }, (_, lane) => (lane === 0 ? 0 : 0.5 / 1023));
    const { served, turn } = flooded(floors, 1);
    for (let n = 0; n < 10_230; n++) turn();
    // About 5,115 turns go down: five to each lane, less what they are still owed.
    expect(served[0]).toBeGreaterThanOrEqual(10_230 / 2);
    expect(Math.min(...served)).toBeGreaterThanOrEqual(4);
    expect(Math.max(...served.slice(1))).toBeLessThanOrEqual(5);
  });
});

describe('what goes wrong elsewhere', () => {
  it('strict priority starves whoever is below: a floor of a tenth is served in every eleventh turn at least', () => {
    const { served, turn } = flooded([0, 0.1], 1);
    for (let n = 0; n < 11; n++) turn();
    expect(served[1]).toBeGreaterThanOrEqual(1);
  });

  it('a heap forgets who came first among equals: a thousand of one lane come out as they went in', () => {
    const queue = new LaneQueue<Entry>(strict(0, 0.1), 1, isLive);
    for (let id = 0; id < 1000; id++) queue.push(1, { id, live: true });
    expect(Array.from({ length: 1000 }, () => queue.shift(queue.lead())?.id)).toEqual(Array.from({ length: 1000 }, (_, id) => id));
  });
});

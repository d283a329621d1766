import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Overflow, Queue } from '../../operators/kernel/index.js';
import {
  Backlog,
  boundsOf,
  Deadlines,
  evictable,
  evictableKey,
  evictions,
  holdsTooMuch,
  isOver,
  isUnbounded,
  LanesQueue,
  Line,
  LongMark,
  mayNotWait,
  overweight,
  pushEvicting,
  refusal,
  room,
  strictWithFloor,
  tooManyKeys,
  waitsForRoom,
} from '../../operators/kernel/index.js';

class Entry {
  previous: Entry | undefined = undefined;
  next: Entry | undefined = undefined;
  readonly weight = 1;
  constructor(
    readonly index: number,
    readonly lane: number,
    readonly counts = true,
    readonly key?: unknown,
  ) {}
}

const POLICIES = ['error', 'dropOldest', 'dropNewest', 'dropLowest', 'latest'] as const satisfies readonly Overflow[];
const policies = fc.constantFrom(...POLICIES);
const bound = fc.oneof(fc.nat({ max: 6 }), fc.constant(Infinity));

describe('whether a newcomer may wait', () => {
  it('lets in what is below every bound, and nothing else', () => {
    fc.assert(
      fc.property(
        bound,
        fc.option(bound, { nil: undefined }),
        fc.nat({ max: 8 }),
        fc.nat({ max: 8 }),
        (maxQueued, laneMost, others, inLane) => {
          const bounds = boundsOf({ maxQueued, lanes: [{ name: 'a' }, { name: 'b', maxQueued: laneMost }] });
          const queued = others + inLane;
          const fits = queued + 1 <= maxQueued && inLane + 1 <= (laneMost ?? Infinity);
          expect(refusal(bounds, queued, 1, inLane) === undefined).toBe(fits);
        },
      ),
    );
  });

  it('needs so many evictions that every bound is kept again', () => {
    fc.assert(
      fc.property(bound, bound, fc.nat({ max: 8 }), fc.nat({ max: 8 }), (maxQueued, laneMost, others, inLane) => {
        const bounds = boundsOf({ maxQueued, lanes: [{ name: 'a', maxQueued: laneMost }] });
        const full = refusal(bounds, others + inLane, 0, inLane);
        if (full === undefined) return;
        const left = (gone: number): boolean => others + inLane - gone < maxQueued && inLane - gone < laneMost;
        expect([left(full.excess), left(full.excess - 1)]).toEqual([true, false]);
      }),
    );
  });

  it('names the bound that was reached, its lane first', () => {
    const bounds = boundsOf({
      maxQueued: 3,
      overflow: 'dropOldest',
      lanes: [{ name: 'a', maxQueued: 2, overflow: 'latest' }, { name: 'b' }],
    });
    expect(refusal(bounds, 2, 0, 1)).toBeUndefined();
    expect(refusal(bounds, 2, 0, 2)).toEqual({ bound: 'maxQueued', limit: 2, policy: 'latest', isLaneFull: true, excess: 1 });
    expect(refusal(bounds, 3, 0, 1)).toEqual({ bound: 'maxQueued', limit: 3, policy: 'latest', isLaneFull: false, excess: 1 });
    expect(refusal(bounds, 3, 0, 2)).toMatchObject({ limit: 2, isLaneFull: true });
    expect(refusal(bounds, 3, 1, 1)).toEqual({ bound: 'maxQueued', limit: 3, policy: 'dropOldest', isLaneFull: false, excess: 1 });
    expect(refusal(bounds, 5, 1, 5)).toMatchObject({ limit: 3, isLaneFull: false, excess: 3 });
    const producers = boundsOf({ maxQueued: 3, bound: 'maxWaiting', lanes: [{ name: 'a', maxQueued: 1 }] });
    expect(refusal(producers, 3, 0, 0)).toMatchObject({ bound: 'maxWaiting', limit: 3, policy: 'error' });
    expect(refusal(producers, 2, 0, 1)).toMatchObject({ bound: 'maxQueued', limit: 1 });
  });

  it('has one line where there are no lanes', () => {
    expect(refusal(boundsOf({ maxQueued: 2 }), 1)).toBeUndefined();
    expect(refusal(boundsOf({ maxQueued: 2 }), 2)).toEqual({ bound: 'maxQueued', limit: 2, policy: 'error', isLaneFull: false, excess: 1 });
    expect(refusal(boundsOf({ maxQueued: 0, overflow: 'latest' }), 0)).toMatchObject({ limit: 0, policy: 'latest' });
    expect(refusal(boundsOf({}), 1e9)).toBeUndefined();
  });

  it('bounds the total weight and the keys', () => {
    const bounds = boundsOf({ maxWeight: 5, maxKeys: 2, overflow: 'dropNewest' });
    expect(overweight(bounds, 5)).toBeUndefined();
    expect(overweight(bounds, 5.5)).toEqual({ bound: 'maxWeight', limit: 5, policy: 'dropNewest', isLaneFull: false, excess: 1 });
    expect(overweight(boundsOf({}), 1e300)).toBeUndefined();
    expect(tooManyKeys(bounds, 1)).toBeUndefined();
    expect(tooManyKeys(bounds, 2)).toEqual({ bound: 'maxKeys', limit: 2, policy: 'dropNewest', isLaneFull: false, excess: 1 });
    expect(tooManyKeys(boundsOf({}), 1e9)).toBeUndefined();
  });

  it('says what else bounds mean', () => {
    const none = boundsOf({});
    const some = boundsOf({ maxQueued: 3, lanes: [{ name: 'a' }, { name: 'b', maxQueued: 0 }] });
    expect([isUnbounded(none), isUnbounded(some)]).toEqual([true, false]);
    expect([mayNotWait(none), mayNotWait(some), mayNotWait(some, 0), mayNotWait(some, 1)]).toEqual([false, false, false, true]);
    expect(mayNotWait(boundsOf({ maxQueued: 0 }))).toBe(true);
    expect([room(none, 5), room(some, 2), room(some, 4)]).toEqual([Infinity, 1, -1]);
    const all = POLICIES.map((overflow) => waitsForRoom(boundsOf({ maxQueued: 3, overflow })));
    expect([all, waitsForRoom(none)]).toEqual([[true, false, false, false, false], false]);
  });

  it('starts only what others wait for once too many results are held back', () => {
    const some = boundsOf({ maxQueued: 3 });
    expect([0, 2, 3, 4].map((held) => holdsTooMuch(some, held))).toEqual([false, false, true, true]);
    expect([999, 1000].map((held) => holdsTooMuch(boundsOf({}), held))).toEqual([false, true]);
    expect([0, 1].map((held) => holdsTooMuch(boundsOf({ maxQueued: 0 }), held))).toEqual([false, true]);
  });
});

describe('which entries of lanes go', () => {
  const lanes = [{ name: 'a' }, { name: 'b' }, { name: 'c' }];
  const entry = fc.record({ lane: fc.nat({ max: 2 }), counts: fc.boolean(), key: fc.nat({ max: 2 }) });

  function filled(entries: readonly { lane: number; counts: boolean; key: number }[], isKeyed: boolean): [Queue<Entry>, Entry[]] {
    const claims = lanes.map(() => ({ share: 1, floor: undefined }));
    const queue = new LanesQueue<Entry>(claims, strictWithFloor(), 1, isKeyed);
    const all = entries.map(({ lane, counts, key }, i) => new Entry(i, lane, counts, key));
    for (const one of all) queue.push(one);
    return [queue, all];
  }

  /** What the policy says, of a list. */
  function expected(all: readonly Entry[], lane: number, policy: Overflow, isLaneFull: boolean, most: number): readonly Entry[] {
    const own = all.filter((one) => one.lane === lane && one.counts);
    if (policy === 'latest') return own;
    if (policy === 'dropOldest') return own.slice(0, most);
    if (policy !== 'dropLowest' || isLaneFull) return [];
    const lower = all.filter((one) => one.lane > lane && one.counts);
    return lower.sort((one, other) => other.lane - one.lane || other.index - one.index).slice(0, most);
  }

  it('goes by the policy, among the entries that count', () => {
    fc.assert(
      fc.property(
        ...([
          fc.array(entry, { maxLength: 14 }),
          fc.nat({ max: 2 }),
          policies,
          fc.boolean(),
          fc.integer({ min: 1, max: 4 }),
          fc.boolean(),
        ] as const),
        (entries, lane, policy, isLaneFull, most, isKeyed) => {
          const [queue, all] = filled(entries, isKeyed);
          const full = { bound: 'maxQueued', limit: 1, policy, isLaneFull, excess: most } as const;
          const found = evictable(queue, lane, boundsOf({ lanes }), full, most, ({ counts }) => counts);
          expect(found.map(({ index }) => index)).toEqual(expected(all, lane, policy, isLaneFull, most).map(({ index }) => index));
        },
      ),
      { numRuns: 400 },
    );
  });

  it('takes one for one, and counts every entry, unless told otherwise', () => {
    const [queue, all] = filled(
      [0, 0, 1, 2, 2].map((lane) => ({ lane, counts: false, key: 0 })),
      false,
    );
    const full = { bound: 'maxQueued', limit: 5, isLaneFull: false, excess: 3 } as const;
    const bounds = boundsOf({ lanes });
    expect(evictable(queue, 0, bounds, { ...full, policy: 'dropOldest' })).toEqual([all[0]]);
    expect(evictable(queue, 0, bounds, { ...full, policy: 'dropLowest' })).toEqual([all[4]]);
    expect(evictable(queue, 0, bounds, { ...full, policy: 'latest' })).toEqual([all[0], all[1]]);
  });

  it('leaves what came back', () => {
    const line = new Line<Entry>();
    const [back, fresh] = [new Entry(0, 0), new Entry(1, 0)];
    line.pushReturned(back);
    const full = { bound: 'maxQueued', limit: 1, isLaneFull: false, excess: 1 } as const;
    for (const policy of POLICIES) expect(evictable(line, 0, boundsOf({ lanes }), { ...full, policy })).toEqual([]);
    line.push(fresh);
    for (const policy of ['dropOldest', 'latest'] as const)
      expect(evictable(line, 0, boundsOf({ lanes }), { ...full, policy })).toEqual([fresh]);
  });

  it('does not go through a long lane for one entry', () => {
    const [queue, all] = filled(
      Array.from({ length: 50 }, () => ({ lane: 2, counts: true, key: 0 })),
      false,
    );
    let visits = 0;
    const counting = Object.create(queue, {
      each: {
        value: (lane: number, visit: (one: Entry) => boolean) => {
          queue.each(lane, (one) => ++visits > 0 && visit(one));
        },
      },
    }) as Queue<Entry>;
    const full = { bound: 'maxQueued', limit: 50, isLaneFull: false, excess: 1 } as const;
    expect(evictable(counting, 0, boundsOf({ lanes }), { ...full, policy: 'dropLowest' })).toEqual([all[49]]);
    expect(visits).toBe(0);
    expect(evictable(counting, 2, boundsOf({ lanes }), { ...full, policy: 'dropOldest' })).toEqual([all[0]]);
    expect(visits).toBe(1);
    for (const policy of ['error', 'dropNewest'] as const)
      expect(evictable(counting, 2, boundsOf({ lanes }), { ...full, policy })).toEqual([]);
    expect(visits).toBe(1);
  });
});

describe('how many of one line go', () => {
  it('is up to so many of the oldest, all, or none', () => {
    const of = (policy: Overflow, length: number, most?: number) => evictions({ policy }, length, most);
    expect([of('dropOldest', 5), of('dropOldest', 0), of('dropOldest', 5, 3), of('dropOldest', 2, 3)]).toEqual([1, 0, 3, 2]);
    expect([of('latest', 5), of('latest', 0), of('latest', 5, 3)]).toEqual([5, 0, 5]);
    expect((['error', 'dropNewest', 'dropLowest'] as const).map((policy) => of(policy, 5, 3))).toEqual([0, 0, 0]);
  });
});

describe('which line of keys goes', () => {
  const full = { bound: 'maxQueued', limit: 1, isLaneFull: false, excess: 1 } as const;

  it('does not exist for a key above `maxKeys`', () => {
    const lines = [{ length: 2 }];
    expect(evictableKey(lines, undefined, { ...full, policy: 'dropOldest', bound: 'maxKeys' })).toBeUndefined();
    expect(evictableKey(lines, undefined, { ...full, policy: 'dropOldest' })).toEqual({ line: lines[0], count: 1 });
  });

  it('is the own one where something waits, else the longest', () => {
    fc.assert(
      fc.property(policies, fc.array(fc.nat({ max: 4 }), { maxLength: 5 }), fc.nat({ max: 5 }), (policy, lengths, at) => {
        const lines = lengths.map((length) => ({ length }));
        const own = lines[at];
        const found = evictableKey(lines, own, { ...full, policy });
        const most = Math.max(0, ...lengths);
        if ((policy !== 'dropOldest' && policy !== 'latest') || most === 0) expect(found).toBeUndefined();
        else if (own?.length) expect(found).toEqual({ line: own, count: policy === 'latest' ? own.length : 1 });
        else expect(found).toEqual({ line: lines.find(({ length }) => length === most), count: 1 });
        if (found) expect(found.line).toBe(own?.length ? own : lines[lengths.indexOf(most)]);
      }),
      { numRuns: 300 },
    );
  });
});

describe('a full line', () => {
  const full = { bound: 'maxQueued', limit: 1, isLaneFull: false, excess: 1 } as const;

  it('lets the newcomer in for as many of the oldest as have to go, for all of them, or not', () => {
    fc.assert(
      fc.property(policies, fc.nat({ max: 5 }), fc.option(fc.nat({ max: 6 }), { nil: undefined }), (policy, waiting, most) => {
        const list = Array.from({ length: waiting }, (_, i) => i);
        const backlog = new Backlog<number>();
        for (const item of list) backlog.push(item);
        const refused = { ...full, policy };
        const evicted =
          most === undefined
            ? pushEvicting(backlog, waiting, refused)
            : pushEvicting(backlog, waiting, refused, () => backlog.length > most);
        // One has to go in any case.
        const goes =
          policy === 'latest' ? waiting : policy === 'dropOldest' ? Math.max(Math.min(1, waiting), waiting - (most ?? waiting)) : 0;
        const all = [...list, waiting];
        expect(evicted).toEqual(goes > 0 ? all.slice(0, goes) : [waiting]);
        const left: (number | undefined)[] = [];
        while (backlog.length > 0) left.push(backlog.shift());
        expect(left).toEqual(goes > 0 ? all.slice(goes) : list);
      }),
    );
  });

  it('ends with an empty line, however full it says it is', () => {
    const backlog = new Backlog<number>();
    for (const item of [1, 2, 3]) backlog.push(item);
    expect(pushEvicting(backlog, 4, { ...full, policy: 'dropOldest' }, () => true)).toEqual([1, 2, 3]);
    expect([backlog.length, backlog.peek()]).toEqual([1, 4]);
  });

  it('keeps what is on its way where nothing may wait', () => {
    for (const policy of POLICIES) {
      const backlog = new Backlog<string>();
      backlog.push('on its way');
      expect(pushEvicting(backlog, 'new', { ...full, policy, limit: 0 })).toEqual(['new']);
      expect([backlog.length, backlog.peek()]).toEqual([1, 'on its way']);
    }
  });
});

describe('deadlines', () => {
  it('are over at their time', () => {
    expect([isOver(5, 4.9), isOver(5, 5), isOver(5, 6), isOver(Infinity, 1e300)]).toEqual([false, true, true, false]);
  });

  it('come out as of a searched list, without those that are gone', () => {
    const at = fc.oneof(fc.nat({ max: 9 }), fc.constant(Infinity));
    const step = fc.oneof(
      { weight: 4, arbitrary: fc.record({ add: at }) },
      { weight: 2, arbitrary: fc.record({ leave: fc.nat({ max: 40 }) }) },
      { weight: 2, arbitrary: fc.record({ late: fc.nat({ max: 9 }) }) },
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120, size: 'max' }), (steps) => {
        const gone = new Set<{ at: number }>();
        const deadlines = new Deadlines<{ at: number }>((entry) => entry.at >= 0 && gone.has(entry));
        const all: { at: number }[] = [];
        const live = (): { at: number }[] => all.filter((entry) => !gone.has(entry));
        for (const each of steps) {
          if ('add' in each) {
            const entry = { at: each.add };
            all.push(entry);
            deadlines.add(entry.at, entry);
          } else if ('leave' in each) {
            const left = all[each.leave];
            if (left) gone.add(left);
          } else {
            const late = live().filter((entry) => entry.at <= each.late);
            const first = late.sort((one, other) => one.at - other.at)[0];
            expect(deadlines.takeLate(each.late)).toBe(first);
            if (first) gone.add(first);
          }
          expect(deadlines.nextAt).toBe(Math.min(Infinity, ...live().map((entry) => entry.at)));
          expect(deadlines.size).toBeGreaterThanOrEqual(live().filter((entry) => entry.at < Infinity).length);
        }
      }),
      { numRuns: 60 },
    );
  });

  it('keep few entries that are gone, and sweep seldom', () => {
    const gone = new Set<number>();
    let asked = 0;
    const deadlines = new Deadlines<number>((entry) => ++asked > 0 && gone.has(entry));
    for (let i = 0; i < 10_000; i++) {
      deadlines.add(i, i);
      if (i > 0) gone.add(i - 1);
      expect(deadlines.size).toBeLessThan(64);
    }
    expect(asked).toBeLessThan(20_000);
    const many = new Deadlines<number>(() => ++asked > 0 && false);
    asked = 0;
    for (let i = 0; i < 10_000; i++) many.add(i, i);
    expect([many.size, asked < 40_000]).toEqual([10_000, true]);
  });

  it('sweeps at 64 entries, and then at twice as many as stayed', () => {
    const gone = new Set<number>();
    const deadlines = new Deadlines<number>((entry) => gone.has(entry));
    for (let i = 0; i < 63; i++) deadlines.add(i, i);
    for (let i = 0; i < 20; i++) gone.add(i);
    expect(deadlines.size).toBe(63);
    deadlines.add(63, 63);
    expect(deadlines.size).toBe(44);
    for (let i = 64; i < 107; i++) deadlines.add(i, i);
    for (let i = 20; i < 40; i++) gone.add(i);
    expect(deadlines.size).toBe(87);
    deadlines.add(107, 107);
    expect(deadlines.size).toBe(68);
  });
});

describe('a long queue', () => {
  it('is told once, and again when it has been empty in between', () => {
    const mark = new LongMark();
    const told: number[] = [];
    const grow = (from: number, to: number): void => {
      for (let queued = from; queued <= to; queued++) if (mark.isReachedAt(queued)) told.push(queued);
    };
    grow(1, 9_999);
    expect(told).toEqual([]);
    grow(10_000, 10_002);
    grow(2, 10_001);
    expect(told).toEqual([10_000]);
    grow(1, 10_001);
    expect(told).toEqual([10_000, 10_000]);
    expect(new LongMark().isReachedAt(10_000)).toBe(true);
    grow(0, 0);
    grow(10_000, 10_000);
    expect(told).toEqual([10_000, 10_000, 10_000]);
  });
});

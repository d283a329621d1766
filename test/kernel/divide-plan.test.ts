import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { DivideInput, DivideLimits } from '../../operators/kernel/index.js';
import { blamed, dividePlan } from '../../operators/kernel/index.js';
import { sized } from '../support/deep.js';

type Blame = (call: readonly number[], bad: ReadonlySet<number>) => readonly number[] | undefined;
type Fate = 'done' | 'rejected' | 'given up' | 'left';

interface Outcome {
  readonly fates: ReadonlyMap<number, Fate>;
  readonly calls: number;
  readonly rounds: number;
}

/** A failed call by positions. */
interface Failed extends Pick<DivideInput<never>, 'tooLarge' | 'depth' | 'calls' | 'blameRounds'> {
  readonly weights: readonly number[];
  readonly blame?: readonly number[] | undefined;
  readonly isLive?: (at: number) => boolean;
}

/** The plan, by positions. */
function planOf({ weights, blame, isLive = () => true, ...rest }: Failed, given: DivideLimits) {
  const call = weights.map((weight, at) => ({ id: `item ${String(at)}`, weight, at }));
  const jobs = call.filter(({ at }) => isLive(at));
  const { reject, parts, giveUp, blamed: isBlamed } = dividePlan({ size: call.length, jobs, named: blamed(blame, call), ...rest }, given);
  const at = (items: readonly (typeof call)[number][]): number[] => items.map((item) => item.at);
  return { reject: at(reject), parts: parts.map(at), giveUp: at(giveUp), blamed: isBlamed };
}

/** Carries plans out: a call fails when one of its items is bad, its parts run in the next round. */
function execute(
  size: number,
  bad: ReadonlySet<number>,
  limits: DivideLimits,
  blame: Blame = () => undefined,
  tooLarge?: Failed['tooLarge'],
  /** The item that leaves, and the call before whose end it leaves, counted from 1. */
  leaving?: { readonly item: number; readonly call: number },
): Outcome {
  const fates = new Map<number, Fate>();
  const settle = (item: number | undefined, fate: Fate): void => {
    if (item === undefined) throw new Error('the plan names an item that is not in the batch');
    if (fates.has(item)) throw new Error(`item ${String(item)} is ${String(fates.get(item))} already and now ${fate}`);
    fates.set(item, fate);
  };
  const hasLeft = (item: number | undefined): boolean => fates.get(item!) === 'left';
  let ended = 0;
  let calls = 1;
  let blameRounds = 0;
  let round = [{ items: Array.from({ length: size }, (_, i) => i), depth: 0 }];
  let rounds = 0;
  for (; round.length > 0; rounds++) {
    const next: typeof round = [];
    for (const { items, depth } of round) {
      if (++ended === leaving?.call && !fates.has(leaving.item)) settle(leaving.item, 'left');
      if (!items.some((item) => bad.has(item))) {
        for (const item of items) if (!hasLeft(item)) settle(item, 'done');
        continue;
      }
      const weights = items.map((item) => item + 1);
      const isLive = (at: number): boolean => !hasLeft(items[at]);
      const plan = planOf({ weights, blame: blame(items, bad), isLive, tooLarge, depth, calls, blameRounds }, limits);
      const named = plan.parts.reduce((sum, part) => sum + part.length, plan.reject.length + plan.giveUp.length);
      const live = items.filter((item) => !hasLeft(item)).length;
      if (named !== live) throw new Error(`the plan names ${String(named)} of ${String(live)}`);
      if (plan.parts.some((part) => part.length === 0 || part.some((at, i) => i > 0 && at <= part[i - 1]!)))
        throw new Error('a part is empty or out of order');
      for (const at of plan.reject) settle(items[at], 'rejected');
      for (const at of plan.giveUp) settle(items[at], 'given up');
      if (plan.blamed) blameRounds++;
      calls += plan.parts.length;
      for (const part of plan.parts) next.push({ items: part.map((at) => items[at]!), depth: depth + 1 });
    }
    round = next;
  }
  if (fates.size !== size) throw new Error(`${String(fates.size)} of ${String(size)} items have a fate`);
  return { fates, calls, rounds };
}

const count = (outcome: Outcome, fate: Fate): number => [...outcome.fates.values()].filter((seen) => seen === fate).length;
const limits = (size: number, change: Partial<DivideLimits> = {}): DivideLimits => ({
  parts: 4,
  maxCalls: 2 * size,
  maxDepth: 16,
  maxBlameRounds: 3,
  ...change,
});
const all = (size: number): Set<number> => new Set(Array.from({ length: size }, (_, i) => i));

/** Every subset of 0 to size - 1 that is not empty. */
function* badSets(size: number): Generator<Set<number>> {
  for (let bits = 1; bits < 1 << size; bits++) yield new Set(Array.from({ length: size }, (_, i) => i).filter((i) => (bits >> i) & 1));
}

const firstBad: Blame = (call, bad) => [call.findIndex((item) => bad.has(item))];
const allBad: Blame = (call, bad) => call.flatMap((item, at) => (bad.has(item) ? [at] : []));
const blames: Record<string, Blame> = {
  none: () => undefined,
  empty: () => [],
  'the first bad one': firstBad,
  'all bad ones': allBad,
  'a good one': (call, bad) => {
    const at = call.findIndex((item) => !bad.has(item));
    return at === -1 ? undefined : [at];
  },
  'one twice': (call, bad) => [...firstBad(call, bad)!, ...firstBad(call, bad)!],
  'one out of range': (call, bad) => [...firstBad(call, bad)!, call.length],
  'a negative one': () => [-1],
  'a fraction': () => [0.5],
  'not a number': () => [NaN],
};
const honest = new Set([
  'none',
  'empty',
  'the first bad one',
  'all bad ones',
  'one twice',
  'one out of range',
  'a negative one',
  'a fraction',
  'not a number',
]);
/** Mutation tests run it once for every mutant. */
const largest = process.env['SLUICE_MUTATION'] === undefined ? sized(4, 8) : 5;
const sizes = [1, 2, 3, 4, 5, 6, 7, 8].slice(0, largest);
/** Blame that is not trusted is no blame, which a smaller batch shows as well. */
const sizesFor = (blame: string): number[] => (/empty|negative|fraction|number/.test(blame) ? sizes.slice(0, 5) : sizes);
/** All of it takes a second, and longer on a machine that does other things as well. */
const timeout = 60_000;

/** Every number of calls, and every depth that a batch of this size can reach. */
const budgets = (size: number): (readonly [maxCalls: number, maxDepth: number])[] => [
  ...Array.from({ length: 2 * size }, (_, i) => [i + 1, 16] as const),
  ...Array.from({ length: Math.min(size, 4) }, (_, depth) => [2 * size, depth] as const),
];

describe('dividePlan', () => {
  it.each(Object.keys(blames))(
    `resolves every item exactly once, whatever is bad among up to ${String(largest)}, whatever the budget; blame: %s`,
    { timeout },
    (name) => {
      const blame = blames[name]!;
      let runs = 0;
      for (const size of sizesFor(name)) {
        for (const bad of badSets(size)) {
          for (const factor of [2, 4, Infinity]) {
            for (const maxBlameRounds of [0, 1, 3]) {
              for (const maxCalls of [1, 2, 3, 5, 2 * size, Infinity]) {
                for (const maxDepth of [0, 1, 16]) {
                  const outcome = execute(size, bad, limits(size, { parts: factor, maxBlameRounds, maxCalls, maxDepth }), blame);
                  runs++;
                  if (outcome.calls > maxCalls) throw new Error(`${String(outcome.calls)} calls, allowed are ${String(maxCalls)}`);
                  if (outcome.rounds > maxDepth + 1) throw new Error(`${String(outcome.rounds)} rounds at a depth of ${String(maxDepth)}`);
                  for (const [item, fate] of outcome.fates) {
                    if (fate === 'done' && bad.has(item)) throw new Error('a bad item is done');
                    if (fate === 'rejected' && !bad.has(item) && honest.has(name)) throw new Error('a good item is rejected');
                  }
                }
              }
            }
          }
        }
      }
      expect(runs).toBe(sizesFor(name).reduce((sum, size) => sum + 2 ** size - 1, 0) * 3 * 3 * 6 * 3);
    },
  );

  it.each(Object.keys(blames).flatMap((name) => [2, 4, Infinity].map((factor) => [name, factor] as const)))(
    'goes on for the others when one leaves before the end of any call, under every budget; blame: %s, factor %d',
    { timeout },
    (name, factor) => {
      let left = 0;
      for (const size of sizesFor(name)) {
        for (const bad of badSets(size)) {
          for (const [maxCalls, maxDepth] of budgets(size)) {
            for (const item of all(size)) {
              for (let call = 1; call <= maxCalls; call++) {
                const outcome = execute(size, bad, limits(size, { parts: factor, maxCalls, maxDepth }), blames[name], undefined, {
                  item,
                  call,
                });
                if (outcome.calls > maxCalls) throw new Error(`${String(outcome.calls)} calls, allowed are ${String(maxCalls)}`);
                for (const [other, fate] of outcome.fates) {
                  if (fate === 'done' && bad.has(other)) throw new Error('a bad item is done');
                  if (fate === 'rejected' && !bad.has(other) && honest.has(name)) throw new Error('a good item is rejected');
                }
                // An item with an answer by then has one at the end of every later call.
                if (count(outcome, 'left') === 0) break;
                left++;
              }
            }
          }
        }
      }
      expect(left).toBeGreaterThan(sized(100, 500));
    },
  );

  it.each([2, 4, 8, Infinity])(
    'never gives a good item up within twice as many calls as items, with or without blame; factor %d',
    { timeout },
    (factor) => {
      const wrong: string[] = [];
      for (const size of sizes) {
        for (const bad of badSets(size)) {
          for (const blame of [blames['none']!, firstBad, allBad]) {
            const outcome = execute(size, bad, limits(size, { parts: factor }), blame);
            if (count(outcome, 'given up') > 0 || count(outcome, 'rejected') !== bad.size) wrong.push([...bad].join());
          }
        }
      }
      expect(wrong).toEqual([]);
    },
  );

  it.each([
    [10, 15],
    [100, 157],
    [1000, 1341],
  ])('needs its worst number of calls when all %d are bad: %d', (size, calls) => {
    const outcome = execute(size, all(size), limits(size));
    expect([outcome.calls, count(outcome, 'rejected')]).toEqual([calls, size]);
  });

  it.each([
    [10, 7.6, 3],
    [20, 9.8, 4],
    [100, 14.4, 5],
  ])('finds one bad item among %d in %d calls on average and %d rounds at most', (size, expected, rounds) => {
    const outcomes = Array.from({ length: size }, (_, bad) => execute(size, new Set([bad]), limits(size)));
    const calls = outcomes.reduce((sum, outcome) => sum + outcome.calls, 0) / size;
    expect(calls).toBeCloseTo(expected, 1);
    expect(Math.max(...outcomes.map((outcome) => outcome.rounds))).toBe(rounds);
  });

  it.each([2, 4, Infinity])(
    `needs as many calls as the recursion it is, for every bad set among up to ${String(largest)}; factor %d`,
    (factor) => {
      /** One call, and when it fails those of its parts. */
      const recursion = (items: readonly number[], bad: ReadonlySet<number>): number => {
        if (items.length === 1 || !items.some((item) => bad.has(item))) return 1;
        const parts = Math.min(factor, items.length);
        const partOf = (at: number): number => Math.ceil(((at + 1) * parts) / items.length) - 1;
        return Array.from({ length: parts }, (_, part) => items.filter((_item, at) => partOf(at) === part)).reduce(
          (calls, part) => calls + recursion(part, bad),
          1,
        );
      };
      for (const size of sizes) {
        for (const bad of badSets(size)) {
          const outcome = execute(size, bad, limits(size, { parts: factor, maxCalls: Infinity }));
          expect(outcome.calls).toBe(recursion([...all(size)], bad));
        }
      }
    },
  );

  it.each([
    [10, 2, 11.3],
    [20, 2, 15.0],
    [100, 2, 24.0],
    [10, 4, 9.7],
    [20, 4, 13.7],
    [100, 4, 22.6],
  ])('finds two bad items among %d, factor %d, in %d calls on average', (size, factor, expected) => {
    let sum = 0;
    let runs = 0;
    for (let one = 0; one < size; one++) {
      for (let other = one + 1; other < size; other++, runs++)
        sum += execute(size, new Set([one, other]), limits(size, { parts: factor })).calls;
    }
    expect(Math.abs(sum / runs - expected)).toBeLessThan(0.1);
  });

  it('sends what is left once more for each bad item that is named: d + 1 calls', () => {
    for (const size of [10, 20, 100]) {
      for (const d of [1, 2, 5]) {
        const bad = new Set(Array.from({ length: d }, (_, i) => i * Math.floor(size / d)));
        const outcome = execute(size, bad, limits(size, { maxBlameRounds: Infinity }), firstBad);
        expect([outcome.calls, outcome.rounds, count(outcome, 'rejected')]).toEqual([d + 1, d + 1, d]);
        expect(execute(size, bad, limits(size), allBad).calls).toBe(2);
      }
    }
  });

  it('splits after three rounds of blame, and still takes out what is named', () => {
    const bad = new Set([3, 20, 41, 60, 99]);
    const outcome = execute(100, bad, limits(100), firstBad);
    expect(count(outcome, 'rejected')).toBe(5);
    // Four calls whole, then four parts; the fifth bad one is named in its part, which is sent again in four.
    expect([outcome.calls, outcome.rounds]).toEqual([12, 6]);
  });

  it('stays within its budget and leaves no item without an answer, for any batch', () => {
    fc.assert(
      fc.property(
        fc
          .integer({ min: 1, max: 300 })
          .chain((size) =>
            fc.record({ size: fc.constant(size), bad: fc.uniqueArray(fc.nat({ max: size - 1 }), { minLength: 1, maxLength: 40 }) }),
          ),
        fc.record({
          parts: fc.constantFrom(2, 3, 4, 8, Infinity),
          maxCalls: fc.integer({ min: 1, max: 700 }),
          maxDepth: fc.nat({ max: 20 }),
          maxBlameRounds: fc.nat({ max: 5 }),
        }),
        fc.constantFrom(...Object.values(blames)),
        fc.constantFrom(
          undefined,
          true as const,
          { actual: 900, limit: 100 },
          { actual: 90, limit: 100 },
          { actual: NaN, limit: 100 },
          { actual: 5, limit: 0 },
          { actual: Infinity, limit: 1 },
        ),
        ({ size, bad }, given, blame, tooLarge) => {
          const outcome = execute(size, new Set(bad), given, blame, tooLarge);
          expect(outcome.fates.size).toBe(size);
          expect(outcome.calls).toBeLessThanOrEqual(given.maxCalls);
        },
      ),
      { numRuns: 1000 },
    );
  });

  const plan = ({ size = 8, ...input }: Partial<Failed> & { readonly size?: number }, change: Partial<DivideLimits> = {}) =>
    planOf({ weights: Array<number>(size).fill(1), depth: 0, calls: 1, blameRounds: 0, ...input }, limits(8, change));

  it('cuts into contiguous parts whose sizes differ by one at most', () => {
    for (const size of [2, 3, 5, 10, 99, 1000]) {
      for (const factor of [2, 3, 4, 7, Infinity]) {
        const { parts } = plan({ size }, { parts: factor, maxCalls: Infinity });
        expect(parts.flat()).toEqual(Array.from({ length: size }, (_, i) => i));
        expect(parts).toHaveLength(Math.min(size, factor));
        const lengths = parts.map((part) => part.length);
        expect(Math.max(...lengths) - Math.min(...lengths)).toBeLessThanOrEqual(1);
      }
    }
  });

  it('cuts a batch that is too large by weight, into as many parts as the numbers ask for', () => {
    const weights = [100, 1, 1, 1, 1, 1, 1, 94];
    expect(plan({ tooLarge: true, weights }).parts).toEqual([[0], [1, 2, 3, 4, 5, 6, 7]]);
    // What weighs nothing at the end makes no more parts.
    expect(plan({ tooLarge: true, weights: [5, 5, 0, 0] }).parts).toEqual([[0], [1, 2, 3]]);
    expect(plan({ tooLarge: { actual: 200, limit: 101 }, weights: Array<number>(8).fill(25) }).parts).toEqual([
      [0, 1, 2, 3],
      [4, 5, 6, 7],
    ]);
    expect(plan({ tooLarge: { actual: 375_703, limit: 100_000 } }).parts).toEqual([
      [0, 1],
      [2, 3],
      [4, 5],
      [6, 7],
    ]);
    expect(plan({ tooLarge: { actual: 10, limit: 100 } }).parts).toHaveLength(2);
    expect(plan({ tooLarge: true, weights: Array<number>(8).fill(0) }).parts).toEqual([
      [0, 1, 2, 3],
      [4, 5, 6, 7],
    ]);
  });

  it('makes at most as many parts as it says by weight, none empty and none heavier than its share and one item', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 1000 }), { minLength: 2, maxLength: 60 }),
        fc.integer({ min: 1, max: 80 }),
        (weights, pieces) => {
          const { parts } = plan({ weights, tooLarge: { actual: pieces, limit: 1 } }, { maxCalls: Infinity });
          const wanted = Math.min(Math.max(2, pieces), weights.length);
          expect(parts.length).toBeGreaterThan(1);
          expect(parts.length).toBeLessThanOrEqual(wanted);
          expect(parts.flat()).toEqual(weights.map((_, i) => i));
          const total = weights.reduce((sum, weight) => sum + weight, 0);
          if (total === 0) return;
          const heaviest = Math.max(...weights);
          for (const part of parts)
            expect(part.reduce((sum, i) => sum + weights[i]!, 0)).toBeLessThanOrEqual(total / wanted + heaviest + 1e-9);
        },
      ),
      { numRuns: 1000 },
    );
  });

  it('halves what is too large when the numbers make no sense', () => {
    for (const tooLarge of [
      { actual: NaN, limit: 5 },
      { actual: 5, limit: NaN },
      { actual: 5, limit: 0 },
      { actual: -5, limit: 5 },
      { actual: -50, limit: -5 },
      { actual: 0, limit: 5 },
      { actual: Infinity, limit: Infinity },
    ]) {
      expect(plan({ tooLarge }).parts).toEqual([
        [0, 1, 2, 3],
        [4, 5, 6, 7],
      ]);
    }
  });

  it('rejects a batch of one, blamed or not, and what is blamed as a whole', () => {
    expect(plan({ size: 1 })).toEqual({ reject: [0], parts: [], giveUp: [], blamed: false });
    expect(plan({ size: 1, blame: [3] })).toEqual({ reject: [0], parts: [], giveUp: [], blamed: false });
    expect(plan({ size: 2, blame: [1, 0] })).toEqual({ reject: [0, 1], parts: [], giveUp: [], blamed: true });
  });

  it('trusts no blame that is empty, doubled, out of range or not whole', () => {
    for (const blame of [[], [2, 2], [8], [-1], [1.5], [NaN], [2, 9]])
      expect(plan({ blame })).toMatchObject({
        reject: [],
        blamed: false,
        parts: [
          [0, 1],
          [2, 3],
          [4, 5],
          [6, 7],
        ],
      });
    expect(plan({ blame: [2] })).toEqual({ reject: [2], parts: [[0, 1, 3, 4, 5, 6, 7]], giveUp: [], blamed: true });
  });

  it('gives up what it cannot afford to try, but rejects what is named', () => {
    expect(plan({ calls: 13 })).toEqual({ reject: [], parts: [], giveUp: [0, 1, 2, 3, 4, 5, 6, 7], blamed: false });
    expect(plan({ calls: 16, blame: [2] })).toMatchObject({ reject: [2], parts: [], giveUp: [0, 1, 3, 4, 5, 6, 7] });
    expect(plan({ depth: 16, blame: [2] })).toMatchObject({ reject: [2], parts: [], giveUp: [0, 1, 3, 4, 5, 6, 7] });
    expect(plan({ calls: 12 }).parts).toHaveLength(4);
  });
});

import { describe, expect, it } from 'vitest';
import type { SearchLimits, SearchStep } from '../../operators/kernel/index.js';
import { BadItemSearch, blamed } from '../../operators/kernel/index.js';
import { sized } from '../support/deep.js';

type Fate = 'done' | 'rejected' | 'given up' | 'left';
type Blame = (call: readonly number[], bad: ReadonlySet<number>) => readonly number[] | undefined;

/** The item that leaves, and the call before whose end it leaves. */
interface Leaving {
  readonly item: number;
  readonly call: number;
}

interface Case {
  readonly size: number;
  readonly bad: ReadonlySet<number>;
  readonly limits: SearchLimits;
  readonly blame?: Blame;
  readonly leaving?: Leaving;
  /** Errors that say nothing, so that the search may doubt whether anything can succeed. */
  readonly doubtful?: boolean;
}

interface Outcome {
  readonly fates: ReadonlyMap<number, Fate>;
  readonly calls: readonly (readonly number[])[];
  readonly depths: readonly number[];
}

/** The items at these positions, when they can be trusted. */
function namedIn(positions: readonly number[] | undefined, call: readonly number[]): ReadonlySet<number> | undefined {
  const named = blamed(
    positions,
    call.map((item) => ({ id: String(item), item })),
  );
  return named && new Set(Array.from(named, ({ item }) => item));
}

/** Carries a search out against work that fails when one of its items is bad. */
function execute({ size, bad, limits, blame = () => undefined, leaving, doubtful = false }: Case): Outcome {
  const fates = new Map<number, Fate>();
  const settle = (items: readonly number[], fate: Fate): void => {
    for (const item of items) {
      if (fates.get(item) === 'left') continue;
      if (fates.has(item)) throw new Error(`item ${String(item)} is ${String(fates.get(item))} already and now ${fate}`);
      fates.set(item, fate);
    }
  };
  const isHere = (item: number): boolean => !fates.has(item);
  const search = new BadItemSearch<number>(0, limits, isHere);
  const calls: (readonly number[])[] = [];
  const depths: number[] = [];
  let blameRounds = 0;
  let alone = 0;
  let nothingWorks = doubtful;
  let send: readonly number[] = range(size);
  let depth = 0;
  while (send.length > 0) {
    // What has left before the call is not in it.
    const asked = send;
    send = asked.filter(isHere);
    let step: SearchStep<number>;
    if (send.length === 0) {
      step = search.inconclusive(spent());
    } else {
      calls.push(send);
      depths.push(depth);
      if (leaving?.call === calls.length && isHere(leaving.item)) fates.set(leaving.item, 'left');
      if (send.some((item) => bad.has(item))) {
        if (send.length === 1) alone++;
        step = search.failed(send, depth, namedIn(blame(send, bad), send), spent());
      } else {
        nothingWorks = false;
        settle(send, 'done');
        step = search.succeeded(send, spent());
      }
    }
    if (step.blamed) blameRounds++;
    settle(step.reject, 'rejected');
    settle(step.giveUp, 'given up');
    const { held } = search;
    if (step.send.some((item) => held.includes(item))) throw new Error('an item is sent and held');
    send = step.send;
    depth = step.depth;
  }
  return { fates, calls, depths };

  function spent() {
    return { calls: calls.length, blameRounds, alone: nothingWorks ? alone : 0 };
  }
}

const range = (size: number): number[] => Array.from({ length: size }, (_, i) => i);
const limits = (size: number, change: Partial<SearchLimits> = {}): SearchLimits => ({
  maxCalls: 2 * size,
  maxDepth: 16,
  maxBlameRounds: 3,
  ...change,
});
const count = ({ fates }: Outcome, fate: Fate): number => [...fates.values()].filter((seen) => seen === fate).length;

/** Every subset of 0 to size - 1 that is not empty. */
function* badSets(size: number): Generator<Set<number>> {
  for (let bits = 1; bits < 1 << size; bits++) yield new Set(range(size).filter((i) => (bits >> i) & 1));
}

const firstBad: Blame = (call, bad) => [call.findIndex((item) => bad.has(item))];
const allBad: Blame = (call, bad) => call.flatMap((item, at) => (bad.has(item) ? [at] : []));
const firstGood: Blame = (call, bad) => {
  const at = call.findIndex((item) => !bad.has(item));
  return at === -1 ? undefined : [at];
};
const blames: Record<string, Blame> = {
  none: () => undefined,
  'the first bad one': firstBad,
  'all bad ones': allBad,
  'a good one': firstGood,
  'one twice': (call, bad) => [...firstBad(call, bad)!, ...firstBad(call, bad)!],
  'one out of range': (call, bad) => [...firstBad(call, bad)!, call.length],
};

/** What must hold whatever happens. */
function check(given: Case, outcome: Outcome, blamesGood: boolean): void {
  const { size, bad, limits: bounds } = given;
  const { fates, calls } = outcome;
  if (fates.size !== size) throw new Error(`${String(fates.size)} of ${String(size)} items have a fate`);
  if (calls.length > Math.max(1, bounds.maxCalls)) throw new Error(`${String(calls.length)} calls of ${String(bounds.maxCalls)}`);
  if (outcome.depths.some((depth) => depth > bounds.maxDepth)) throw new Error('a call is too deep');
  for (const [item, fate] of fates) {
    if (fate === 'done' && bad.has(item)) throw new Error('a bad item is done');
    if (fate === 'rejected' && !bad.has(item) && !blamesGood) throw new Error(`good item ${String(item)} is rejected`);
    if (fate === 'given up' && bounds.maxCalls > size && bounds.maxDepth >= 4) throw new Error(`item ${String(item)} is given up`);
  }
}

/** Mutation tests run it once for every mutant. */
const largest = process.env['SLUICE_MUTATION'] === undefined ? sized(4, 8) : 5;
const sizes = [1, 2, 3, 4, 5, 6, 7, 8].slice(0, largest);
/** Every number of calls, and every depth that a batch of this size can reach. */
const budgets = (size: number): (readonly [maxCalls: number, maxDepth: number])[] => [
  ...range(2 * size).map((spent) => [spent + 1, 16] as const),
  ...range(Math.min(size, 4)).map((depth) => [2 * size, depth] as const),
];
/** All of it takes a few seconds, and longer on a machine that does other things as well. */
const timeout = 60_000;

describe(`a search, whatever is bad among up to ${String(largest)}`, () => {
  it.each(Object.keys(blames))('resolves every item exactly once under every budget; blame: %s', { timeout }, (name) => {
    let runs = 0;
    const rounds = name === 'none' ? [3] : [0, 3];
    for (const size of sizes) {
      for (const bad of badSets(size)) {
        for (const maxBlameRounds of rounds) {
          for (let maxCalls = 1; maxCalls <= 2 * size; maxCalls++) {
            for (const maxDepth of [0, 1, 3, 16]) {
              const given: Case = { size, bad, blame: blames[name]!, limits: { maxCalls, maxDepth, maxBlameRounds } };
              check(given, execute(given), name === 'a good one');
              runs++;
            }
          }
        }
      }
    }
    expect(runs).toBe(sizes.reduce((sum, size) => sum + (2 ** size - 1) * rounds.length * 2 * size * 4, 0));
  });

  it.each(Object.keys(blames))('blames no item because another left before the end of any call; blame: %s', { timeout }, (name) => {
    let left = 0;
    for (const size of sizes) {
      for (const bad of badSets(size)) {
        for (const item of range(size)) {
          for (let call = 1; call <= 2 * size; call++) {
            const given: Case = { size, bad, blame: blames[name]!, limits: limits(size), leaving: { item, call } };
            const outcome = execute(given);
            check(given, outcome, name === 'a good one');
            // An item with an answer by then has one at the end of every later call.
            if (count(outcome, 'left') === 0) break;
            left++;
          }
        }
      }
    }
    expect(left).toBeGreaterThan(sized(100, 500));
  });

  it.each(Object.keys(blames))(
    'survives an item that leaves before the end of any call, under every budget; blame: %s',
    { timeout },
    (name) => {
      let left = 0;
      for (const size of sizes) {
        for (const bad of badSets(size)) {
          for (const [maxCalls, maxDepth] of budgets(size)) {
            for (const item of range(size)) {
              for (let call = 1; call <= maxCalls; call++) {
                const given: Case = {
                  size,
                  bad,
                  blame: blames[name]!,
                  limits: limits(size, { maxCalls, maxDepth }),
                  leaving: { item, call },
                };
                const outcome = execute(given);
                check(given, outcome, name === 'a good one');
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

  it('doubts everything and still resolves every item', { timeout }, () => {
    for (const size of sizes) {
      for (const bad of badSets(size)) {
        for (let maxCalls = 1; maxCalls <= 2 * size; maxCalls++) {
          const given: Case = { size, bad, limits: limits(size, { maxCalls }), doubtful: true };
          check(given, execute(given), false);
        }
      }
    }
  });
});

/** Calls and confirmations of search and merge, written as the recursion it is: whole batch, halves down to one, the rest in one piece. */
function reference(items: readonly number[], bad: ReadonlySet<number>): number {
  const isBad = (some: readonly number[]): boolean => some.some((item) => bad.has(item));
  const whole = (some: readonly number[]): number => (some.length === 0 ? 0 : 1 + (isBad(some) ? find(some, [], true) : 0));
  const find = (some: readonly number[], aside: readonly number[], wasSent: boolean): number => {
    if (some.length === 1) return (wasSent ? 0 : 1) + whole(aside);
    const middle = Math.floor(some.length / 2);
    const [first, second] = [some.slice(0, middle), some.slice(middle)];
    return 1 + (isBad(first) ? find(first, [...second, ...aside], true) : find(second, aside, false));
  };
  return whole(items);
}

describe('the number of calls', () => {
  const free = (size: number): SearchLimits => limits(size, { maxCalls: Infinity, maxDepth: Infinity });

  it(`is that of the recursion for every bad set among up to ${String(largest)}`, () => {
    for (const size of sizes) {
      for (const bad of [new Set<number>(), ...badSets(size)])
        expect(execute({ size, bad, limits: free(size) }).calls.length).toBe(reference(range(size), bad));
    }
  });

  it.each([
    // Calls of the search itself, and those that send an item alone that is only known to be bad by the others.
    [10, 1, 5.3 + 0.4],
    [10, 2, 8.7 + 0.72],
    [20, 1, 6.4 + 0.35],
    [20, 2, 10.8 + 0.86],
    [100, 1, 8.7 + 0.37],
    [100, 2, 15.6 + 0.81],
  ])('averages over all placements among %d with %d bad: %d', (size, d, expected) => {
    let sum = 0;
    let runs = 0;
    for (const bad of placements(size, d)) {
      sum += execute({ size, bad, limits: free(size) }).calls.length;
      runs++;
    }
    expect(Math.abs(sum / runs - expected)).toBeLessThan(0.1);
  });

  it.each([
    [10, 20],
    [100, 200],
    [1000, 2000],
  ])('stays within twice as many when all %d are bad: %d', (size, most) => {
    const outcome = execute({ size, bad: new Set(range(size)), limits: limits(size) });
    expect([outcome.calls.length, count(outcome, 'rejected')]).toEqual([most, size]);
  });
});

/** Every way to place one or two bad items. */
function* placements(size: number, d: number): Generator<Set<number>> {
  for (let a = 0; a < size; a++) {
    if (d === 1) yield new Set([a]);
    else for (let b = a + 1; b < size; b++) yield new Set([a, b]);
  }
}

describe('a search, step by step', () => {
  it('splits the half that must be bad without sending it, then sends all it has put aside', () => {
    const { calls } = execute({ size: 8, bad: new Set([2]), limits: limits(8) });
    expect(calls).toEqual([range(8), [0, 1, 2, 3], [0, 1], [2], [3, 4, 5, 6, 7]]);
  });

  it('sends the one that is left over alone, so that it gets an error of its own', () => {
    const { calls, fates } = execute({ size: 4, bad: new Set([3]), limits: limits(4) });
    expect(calls).toEqual([range(4), [0, 1], [2], [3]]);
    expect(fates.get(3)).toBe('rejected');
  });

  it('blames no item when items that failed together succeed alone', () => {
    const search = new BadItemSearch<string>(0, limits(2), () => true);
    const spent = { calls: 1, blameRounds: 0, alone: 0 };
    expect(search.failed(['a', 'b'], 0, undefined, spent)).toMatchObject({ reject: [], send: ['a'], blamed: false });
    expect(search.succeeded(['a'], { ...spent, calls: 2 })).toMatchObject({ reject: [], send: ['b'], blamed: false });
    expect(search.succeeded(['b'], { ...spent, calls: 3 })).toMatchObject({ reject: [], giveUp: [], send: [] });
  });

  it('sends the rest of a blamed group in one piece, one level below the call it began with', () => {
    const search = new BadItemSearch<number>(2, limits(5), () => true);
    const step = search.failed(range(5), 2, new Set([0]), { calls: 1, blameRounds: 0, alone: 0 });
    expect(step).toMatchObject({ reject: [0], send: [1, 2, 3, 4], depth: 3, blamed: true });
    expect(search.inconclusive({ calls: 2, blameRounds: 1, alone: 0 })).toMatchObject({ reject: [], send: [], blamed: false });
  });

  it('sends no call for items that have left, and concludes nothing from a call that an item had left', () => {
    const gone = new Set<number>();
    const search = new BadItemSearch<number>(0, limits(8), (item) => !gone.has(item));
    const spent = { calls: 1, blameRounds: 0, alone: 0 };
    expect(search.failed(range(8), 0, undefined, spent)).toMatchObject({ send: [0, 1, 2, 3] });
    // The one that left may have been the bad one, so nothing is sure about the other half.
    gone.add(3);
    expect(search.succeeded([0, 1, 2], spent)).toMatchObject({ send: [4, 5, 6, 7], depth: 1 });
    expect(search.failed([4, 5, 6, 7], 1, undefined, spent)).toMatchObject({ send: [4, 5], depth: 2 });
    gone.add(7);
    expect(search.succeeded([4, 5], spent)).toMatchObject({ reject: [], giveUp: [], send: [6] });
    expect(search.held).toEqual([]);
    gone.add(6);
    expect(search.failed([6], 3, undefined, spent)).toMatchObject({ reject: [], send: [] });
  });

  it('puts nothing aside for an item that has left', () => {
    const gone = new Set<number>();
    const search = new BadItemSearch<number>(0, limits(4), (item) => !gone.has(item));
    const spent = { calls: 1, blameRounds: 0, alone: 0 };
    expect(search.failed(range(4), 0, undefined, spent)).toMatchObject({ send: [0, 1] });
    expect(search.failed([0, 1], 1, undefined, spent)).toMatchObject({ send: [0] });
    gone.add(2);
    expect(search.failed([0], 2, undefined, spent)).toMatchObject({ reject: [0], send: [1, 3] });
  });

  it('halves what is left of a group once too much blame has been followed', () => {
    const search = new BadItemSearch<number>(0, limits(5, { maxBlameRounds: 0 }), () => true);
    const spent = { calls: 1, blameRounds: 0, alone: 0 };
    expect(search.failed(range(5), 0, new Set([0]), spent)).toMatchObject({ reject: [0], send: [1, 2], blamed: false });
    // The blame may have been all there was: the others are not known to be bad.
    expect(search.succeeded([1, 2], { ...spent, calls: 2 })).toMatchObject({ reject: [], send: [3, 4] });
  });

  it('sends one item at a time once the budget holds no more', () => {
    expect(execute({ size: 4, bad: new Set([3]), limits: limits(4, { maxCalls: 5, maxDepth: 1 }) }).depths).toEqual([0, 1, 1, 1, 1]);
    const { calls, fates } = execute({ size: 4, bad: new Set([0, 1, 2, 3]), limits: limits(4, { maxCalls: 5, maxDepth: 1 }) });
    expect(calls).toEqual([range(4), [0], [1], [2], [3]]);
    expect([...fates.values()]).toEqual(Array(4).fill('rejected'));
  });

  it('tries single items from all over the rest when nothing has ever worked', () => {
    const { calls } = execute({ size: 64, bad: new Set(range(64)), limits: limits(64), doubtful: true });
    expect(calls.slice(7, 14)).toEqual([[9], [19], [28], [37], [46], [54], [63]]);
  });
});

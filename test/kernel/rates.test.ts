/* oxlint-disable no-restricted-imports -- what learns, and the meters of rates, are not exported */

import { describe, expect, it } from 'vitest';
import { lanes, perMinute, slidingWindow, tokenBucket } from '../../operators/index.js';
import type { Charge, Paid, RateSettings } from '../../operators/kernel/index.js';
import { ONE_LINE, Rates } from '../../operators/kernel/index.js';
import type { Learner } from '../../operators/kernel/limiter/rates.js';
import type { Meter, RateSpec } from '../../operators/kernel/limits/limit.js';
import type { Amounts } from '../../operators/kernel/limits/usage.js';

const ONE: Charge = { slots: 1, requests: 1, tokens: 0 };
const tokens = (count: number, others?: Charge['others']): Charge => ({ ...ONE, tokens: count, others });
const leaseOf = (charge: Charge, more: Partial<Paid> = {}): Paid => ({ charge, ...more });

/** Rates of a limiter, which refunds what was not used unless it is told otherwise. */
function ratesOf(rules: readonly unknown[], settings: Partial<RateSettings> = {}): Rates {
  const rates = new Rates({ headroom: 1, refunds: true, queue: ONE_LINE, ...settings });
  for (const rule of rules) rates.set(rule as RateSpec, 0);
  return rates;
}

const set = (rates: Rates, rule: unknown, now = 0): void => {
  rates.set(rule as RateSpec, now);
};

/** Pays for a lease, and answers it. */
function paid(rates: Rates, charge: Charge, now = 0, more: Partial<Paid> = {}): Paid {
  const lease = leaseOf(charge, more);
  rates.take(lease, now);
  return lease;
}

/** Ten tokens at once, one more each second. */
const small = perMinute('tokens', 60, { burst: 10 });
/** 60 tokens in any minute. */
const strict = slidingWindow({ unit: 'tokens', amount: 60, windowMs: 60_000 });

/** Something that learns, with all that it is told written down. */
function learning(rates: Rates): unknown[][] {
  const calls: unknown[][] = [];
  let marks = 0;
  const learner: Learner = {
    paid: (amounts) => {
      calls.push(['paid', amounts]);
      return ++marks;
    },
    corrected: (mark, differences) => {
      calls.push(['corrected', mark, differences]);
      return ++marks;
    },
    read: () => undefined,
    resumed: () => undefined,
  };
  rates.learner = learner;
  return calls;
}

describe('the rates of a limiter', () => {
  it('depend on the time where one of them is limited, or something learns', () => {
    const endless = ratesOf([perMinute('tokens', Infinity), perMinute('requests', Infinity)]);
    expect([ratesOf([]).isTimed, endless.isTimed, ratesOf([small]).isTimed]).toEqual([false, false, true]);
    expect(ratesOf([perMinute('requests', Infinity), small]).isTimed).toBe(true);
    learning(endless);
    expect(endless.isTimed).toBe(true);
  });

  it('may be borrowed from where all of them may', () => {
    expect([ratesOf([]).borrows, ratesOf([small]).borrows, ratesOf([strict]).borrows, ratesOf([small, strict]).borrows]).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });

  it('are found by their unit, and left is what the strictest has', () => {
    const rates = ratesOf([small, strict, perMinute('requests', 60, { burst: 3 })]);
    expect([rates.of('tokens').length, rates.of('requests').length, rates.of('images')]).toEqual([2, 1, []]);
    expect([rates.left('tokens', 0), rates.left('requests', 0), rates.left('images', 0)]).toEqual([10, 3, Infinity]);
    paid(rates, tokens(55));
    expect([rates.left('tokens', 0), rates.left('tokens', 55_000)]).toEqual([-45, 5]);
    expect(rates.levels(55_000)).toEqual([
      { unit: 'tokens', windowMs: 60_000, amount: 60, left: 10 },
      { unit: 'tokens', windowMs: 60_000, amount: 60, left: 5 },
      { unit: 'requests', windowMs: 60_000, amount: 60, left: 3 },
    ]);
  });

  it('have the load of the one that is used most, at most 1, and are full when all of them are', () => {
    const rates = ratesOf([small, perMinute('requests', 60, { burst: 4 })]);
    expect([ratesOf([]).load(0), rates.load(0), rates.fullAt(7)]).toEqual([0, 0, 7]);
    paid(rates, tokens(5));
    expect([rates.load(0), rates.fullAt(0), rates.load(2500), rates.fullAt(2500)]).toEqual([0.5, 5000, 0.25, 5000]);
    paid(rates, tokens(100), 5000);
    expect(rates.load(5000)).toBe(1);
  });

  it('are in the way by name, the first that cannot pay', () => {
    const rates = ratesOf([small, perMinute('requests', 60, { burst: 1 })]);
    expect(rates.blockedBy(tokens(10), 0, 0)).toBeUndefined();
    paid(rates, tokens(8));
    expect([rates.blockedBy(tokens(0), 0, 0), rates.blockedBy(tokens(5), 0, 0)]).toEqual(['requestsPerMinute', 'tokensPerMinute']);
    expect([rates.payableAt(tokens(0), 0, 0), rates.payableAt(tokens(5), 0, 0)]).toEqual([1000, 3000]);
    expect([rates.blockedBy(tokens(5), 0, 2990), rates.blockedBy(tokens(5), 0, 3000)]).toEqual(['tokensPerMinute', undefined]);
    expect(rates.payableAt(tokens(5), 0, 9000)).toBe(9000);
  });

  it('are too small for a job by what can never pay it', () => {
    const rates = ratesOf([small, strict]);
    expect([rates.tooHeavyFor(tokens(60), 0), rates.tooHeavyFor(tokens(61), 0)?.name]).toEqual([undefined, 'tokensPerMinute']);
  });
});

describe('reserves', () => {
  const queue = lanes([{ name: 'a', reserve: 0.5 }, { name: 'b' }]);
  const rated = (): Rates => ratesOf([slidingWindow({ unit: 'requests', amount: 4, windowMs: 60_000 }), strict], { queue });

  it('let a lane pass as long as all rates have something for that', () => {
    const rates = rated();
    expect([rates.passableAt(ONE, 0, 0), rates.passableAt(ONE, 0, 70)]).toEqual([0, 70]);
    rates.of('requests')[0]?.passes?.pay(2, 0, 0);
    expect(rates.passableAt(ONE, 0, 0)).toBeCloseTo(30_000, 0);
    rates.of('tokens')[0]?.passes?.pay(30, 0, 0);
    expect([rates.passableAt(tokens(0), 0, 0), rates.passableAt(tokens(20), 0, 0)]).toEqual([
      expect.closeTo(30_000, 0),
      expect.closeTo(40_000, 0),
    ]);
  });

  it('are paid from by a lease that passed others, and by no other', () => {
    const rates = rated();
    const passed = (): unknown => rates.of('tokens')[0]?.passes?.level(0);
    paid(rates, tokens(10));
    expect(passed()).toBe(30);
    const lease = paid(rates, tokens(10), 0, { passes: true, lane: 0 });
    expect(passed()).toBe(20);
    rates.settle(lease, { tokens: 15 }, 0);
    expect(passed()).toBe(15);
    rates.refund(lease, 0);
    expect(passed()).toBe(30);
    const other = paid(rates, tokens(10), 0, { lane: 0 });
    rates.settle(other, { tokens: 15 }, 0);
    expect(passed()).toBe(30);
  });

  it('are nothing to a rate that keeps none', () => {
    const rates = ratesOf([small]);
    const lease = paid(rates, tokens(4), 0, { passes: true });
    expect(rates.left('tokens', 0)).toBe(6);
    rates.settle(lease, { tokens: 5 }, 0);
    expect([rates.left('tokens', 0), rates.passableAt(tokens(50), 0, 3)]).toEqual([5, 3]);
  });
});

describe('a lease', () => {
  it('knows when it was granted where a rate is limited, and its number in any case', () => {
    const [endless, limited] = [ratesOf([perMinute('tokens', Infinity)]), ratesOf([small])];
    expect([1, 2].map((at) => paid(endless, tokens(1), at))).toEqual([
      { charge: tokens(1), payment: 1 },
      { charge: tokens(1), payment: 2 },
    ]);
    expect(paid(limited, tokens(1), 7)).toEqual({ charge: tokens(1), grantedAt: 7, payment: 1 });
  });

  it('pays no more than can be saved up for, unit by unit, and says so', () => {
    const rates = ratesOf([perMinute('tokens', 60), perMinute('inputTokens', 30), perMinute('images', 5)]);
    const estimate = tokens(50, { inputTokens: 31, outputTokens: 5, images: 100 });
    const lease = paid(rates, estimate);
    expect(lease.charge).toEqual({ ...ONE, tokens: 50, others: { inputTokens: 30, outputTokens: 5, images: 100 } });
    expect([lease.isBounded, estimate.others?.['inputTokens']]).toEqual([true, 31]);
    expect(rates.takeNotes()).toEqual([{ type: 'costClamped', unit: 'inputTokens', cost: 31, charged: 30 }]);
    const heavy = paid(rates, tokens(61));
    expect([heavy.charge.tokens, heavy.charge.others, heavy.charge.slots, heavy.charge.requests]).toEqual([
      60,
      { inputTokens: 30, outputTokens: 0 },
      1,
      1,
    ]);
    expect(rates.takeNotes().map((note) => note.unit)).toEqual(['inputTokens', 'tokens']);
  });

  it('that can just be saved up for is charged as it is', () => {
    const rates = ratesOf([perMinute('tokens', 60), perMinute('outputTokens', 1000)]);
    const charge = tokens(60);
    const lease = paid(rates, charge);
    expect([lease.charge === charge, lease.isBounded, rates.takeNotes()]).toEqual([true, undefined, []]);
  });

  it('is refunded all of what it paid, and of what it was corrected to', () => {
    const rates = ratesOf([small, perMinute('requests', 60, { burst: 3 }), perMinute('images', 60, { burst: 5 })]);
    const lease = paid(rates, tokens(4, { images: 2 }));
    expect(['tokens', 'requests', 'images'].map((unit) => rates.left(unit, 0))).toEqual([6, 2, 3]);
    rates.settle(lease, { audio: 9, tokens: 5 }, 0);
    rates.refund(lease, 0);
    expect(['tokens', 'requests', 'images'].map((unit) => rates.left(unit, 0))).toEqual([10, 3, 5]);
    expect(lease.used).toEqual({ tokens: 0, inputTokens: 0, outputTokens: 0, requests: 0, images: 0, audio: 0 });
  });

  it('has notes that are taken once', () => {
    const rates = ratesOf([perMinute('tokens', 60)]);
    expect(rates.takeNotes()).toEqual([]);
    paid(rates, tokens(100));
    const first = rates.takeNotes();
    paid(rates, tokens(200));
    expect([first, rates.takeNotes(), rates.takeNotes()].map((notes) => notes.length)).toEqual([1, 1, 0]);
  });
});

describe('a usage', () => {
  it('corrects what was charged, and says whether something has come back', () => {
    const rates = ratesOf([small, strict]);
    const lease = paid(rates, tokens(5));
    expect([rates.settle(lease, { tokens: 8 }, 0), rates.left('tokens', 0)]).toEqual([false, 2]);
    expect([rates.settle(lease, { tokens: 8 }, 0), rates.left('tokens', 0)]).toEqual([false, 2]);
    expect([rates.settle(lease, { tokens: 1 }, 0), rates.left('tokens', 0)]).toEqual([true, 9]);
    expect(lease.used).toEqual({ tokens: 1 });
    expect([lease.payment, lease.correction]).toEqual([1, 4]);
  });

  it('says that something has come back where one unit has, whatever the others cost more', () => {
    const rates = ratesOf([small]);
    const settled = (reported: Amounts): boolean => rates.settle(paid(rates, tokens(5, { images: 5 })), reported, 0);
    expect([settled({ tokens: 4, images: 6 }), settled({ tokens: 6, images: 4 }), settled({ tokens: 5, images: 6 }), settled({})]).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });

  it('gives nothing back where the limiter does not, and charges what is more', () => {
    const rates = ratesOf([small], { refunds: false });
    const lease = paid(rates, tokens(5, { images: 5 }));
    expect([rates.settle(lease, { tokens: 4 }, 0), rates.left('tokens', 0), lease.used]).toEqual([false, 5, {}]);
    expect([rates.settle(lease, { tokens: 5, images: 4 }, 0), rates.left('tokens', 0), lease.used]).toEqual([false, 5, { tokens: 5 }]);
    expect([rates.settle(lease, { tokens: 7 }, 0), rates.left('tokens', 0), lease.used]).toEqual([false, 3, { tokens: 7 }]);
    expect([rates.settle(lease, { tokens: 6 }, 0), rates.left('tokens', 0), lease.used]).toEqual([false, 3, { tokens: 7 }]);
    // A lease that was not used at all is refunded in any case.
    rates.refund(lease, 0);
    expect(rates.left('tokens', 0)).toBe(10);
  });

  it('of what no rate counts is kept as it was reported, as far as sums stay numbers', () => {
    const rates = ratesOf([small, perMinute('audio', Infinity)]);
    const lease = paid(rates, tokens(5));
    rates.settle(lease, { images: 3, audio: 4 }, 0);
    expect(lease.used).toEqual({ images: 3, audio: 4 });
    rates.settle(lease, { images: 1e300, audio: 1e300 }, 0);
    expect([lease.used, rates.takeNotes()]).toEqual([{ images: Number.MAX_SAFE_INTEGER, audio: Number.MAX_SAFE_INTEGER }, []]);
  });

  it('that no model can have costs what can be saved up, and is told', () => {
    const rates = ratesOf([small, perMinute('requests', 60)]);
    const lease = paid(rates, tokens(5));
    rates.settle(lease, { tokens: 1e9 }, 0);
    expect([rates.left('tokens', 0), lease.used]).toEqual([0, { tokens: 10 }]);
    expect(rates.takeNotes()).toEqual([{ type: 'usageClamped', unit: 'tokens', reported: 1e9, charged: 10 }]);
    rates.settle(lease, { tokens: 9 }, 0);
    expect([rates.left('tokens', 0), rates.takeNotes()]).toEqual([1, []]);
  });

  it('is corrected at the time of the grant: what has left the window since comes back to nothing', () => {
    const rates = ratesOf([strict]);
    const lease = paid(rates, tokens(50), 1000);
    paid(rates, tokens(5), 30_000);
    rates.settle(lease, { tokens: 30 }, 40_000);
    expect(rates.left('tokens', 40_000)).toBe(25);
    expect(rates.left('tokens', 61_000)).toBe(55);
    rates.settle(lease, { tokens: 10 }, 61_000);
    expect(rates.left('tokens', 61_000)).toBe(55);
  });
});

describe('what learns', () => {
  it('is told what was paid, corrected and refunded, of all units, and keeps its mark in the lease', () => {
    const rates = ratesOf([small]);
    const calls = learning(rates);
    const lease = paid(rates, tokens(9, { outputTokens: 4, images: 2 }));
    expect([calls.splice(0), lease.mark]).toEqual([[['paid', { requests: 1, tokens: 9, inputTokens: 5, outputTokens: 4, images: 2 }]], 1]);
    rates.settle(lease, { tokens: 7, images: 5 }, 0);
    expect([calls.splice(0), lease.mark]).toEqual([[['corrected', 1, { tokens: -2, images: 3 }]], 2]);
    rates.settle(lease, { tokens: 8 }, 0);
    expect([calls.splice(0), lease.mark]).toEqual([[['corrected', 2, { tokens: 1 }]], 3]);
    rates.refund(lease, 0);
    expect(calls.splice(0)).toEqual([['corrected', 3, { requests: -1, tokens: -8, inputTokens: -5, outputTokens: -4, images: -5 }]]);
  });

  it('is told what was really charged of a job that was bounded', () => {
    const rates = ratesOf([perMinute('tokens', 60)]);
    const calls = learning(rates);
    paid(rates, tokens(100));
    expect(calls).toEqual([['paid', { requests: 1, tokens: 60, inputTokens: 100, outputTokens: 0 }]]);
  });

  it('leaves no mark on a lease without a shared rate', () => {
    const rates = ratesOf([small]);
    const lease = paid(rates, tokens(5));
    rates.settle(lease, { tokens: 4 }, 0);
    expect('mark' in lease).toBe(false);
  });
});

describe('a rate that is set later', () => {
  it('has been paid nothing by a lease from before, but what that uses above its estimate', () => {
    const rates = ratesOf([]);
    const [more, less] = [paid(rates, tokens(5)), paid(rates, tokens(5))];
    set(rates, strict, 0);
    const own = paid(rates, tokens(20));
    expect([rates.settle(less, { tokens: 3 }, 100), rates.left('tokens', 100)]).toEqual([true, 40]);
    rates.settle(more, { tokens: 9 }, 200);
    expect(rates.left('tokens', 200)).toBe(36);
    rates.settle(own, { tokens: 10 }, 200);
    expect(rates.left('tokens', 200)).toBe(46);
    rates.refund(more, 300);
    expect(rates.left('tokens', 300)).toBe(50);
  });

  it('is paid at the time of the first correction that costs it something', () => {
    const rates = ratesOf([]);
    const lease = paid(rates, tokens(5));
    set(rates, strict, 0);
    rates.settle(lease, { tokens: 5 }, 100);
    expect(lease.settledAt).toBeUndefined();
    rates.settle(lease, { tokens: 9 }, 1000);
    expect(lease.settledAt).toBe(1000);
    rates.settle(lease, { tokens: 12 }, 2000);
    expect([lease.settledAt, rates.left('tokens', 2000), rates.left('tokens', 60_999), rates.left('tokens', 61_000)]).toEqual([
      1000, 53, 53, 60,
    ]);
  });

  it('is paid what a lease had used above its estimate before, when that is reported again', () => {
    const rates = ratesOf([]);
    const lease = paid(rates, tokens(5));
    rates.settle(lease, { tokens: 20 }, 0);
    set(rates, strict, 10);
    expect([rates.settle(lease, { tokens: 20 }, 20), rates.left('tokens', 20)]).toEqual([false, 45]);
    // From then on only what is new.
    expect([rates.settle(lease, { tokens: 22 }, 30), rates.left('tokens', 30)]).toEqual([false, 43]);
    expect([rates.settle(lease, { tokens: 22 }, 40), rates.left('tokens', 40)]).toEqual([false, 43]);
  });

  it('with another amount is the same rate: leases from before have paid to it', () => {
    const rates = ratesOf([strict]);
    const lease = paid(rates, tokens(20));
    set(rates, slidingWindow({ unit: 'tokens', amount: 30, windowMs: 60_000 }));
    expect([rates.all.length, rates.left('tokens', 0)]).toEqual([1, 10]);
    rates.settle(lease, { tokens: 5 }, 0);
    expect(rates.left('tokens', 0)).toBe(25);
  });

  it('that had no limit has been paid nothing by leases from before there was one', () => {
    const rates = ratesOf([slidingWindow({ unit: 'tokens', amount: Infinity, windowMs: 60_000 })]);
    const lease = paid(rates, tokens(20));
    set(rates, strict);
    paid(rates, tokens(10));
    rates.settle(lease, { tokens: 5 }, 0);
    expect([rates.all.length, rates.left('tokens', 0)]).toEqual([1, 50]);
  });

  it('of another window or kind is another rate', () => {
    const rates = ratesOf([small]);
    for (const other of [strict, tokenBucket({ unit: 'tokens', amount: 60, windowMs: 1000 }), perMinute('requests', 1), small])
      set(rates, other);
    expect(rates.all.map(({ rule: { unit, windowMs, isStrict } }) => [unit, windowMs, isStrict])).toEqual([
      ['tokens', 60_000, false],
      ['tokens', 60_000, true],
      ['tokens', 1000, false],
      ['requests', 60_000, false],
    ]);
  });
});

describe('how many jobs could be paid for', () => {
  const jobs = (...costs: readonly number[]) => costs.map((cost) => ({ charge: tokens(cost), lane: 0 }));
  const payable = (left: number, ...costs: readonly number[]): number => ratesOf([]).payable(jobs(...costs), ['tokens'], () => left);

  it('is how many the sum of their costs leaves room for', () => {
    expect([payable(10, 4, 6, 1), payable(10, 11), payable(10), payable(10, 5, 5), payable(0, 0, 0, 1)]).toEqual([2, 0, 0, 2, 2]);
  });

  it('is as many where the sum is a millionth more', () => {
    expect([payable(5, 5 + 1e-6), payable(5, 5 + 2e-6)]).toEqual([1, 0]);
  });

  it('is bounded by each unit, and by what is left for the lane of the job', () => {
    const rates = ratesOf([]);
    const asked: [string, number][] = [];
    const all = [0, 0, 1, 1].map((lane) => ({ charge: tokens(2), lane }));
    const of = (left: Record<string, number>): number =>
      rates.payable(all, ['requests', 'tokens'], (unit, lane) => {
        asked.push([unit, lane]);
        return left[`${unit} ${String(lane)}`] ?? Infinity;
      });
    expect([of({}), of({ 'requests 0': 1 }), of({ 'tokens 1': 6 }), of({ 'tokens 1': 3 })]).toEqual([4, 1, 3, 2]);
    expect(asked.slice(0, 4)).toEqual([
      ['requests', 0],
      ['tokens', 0],
      ['requests', 1],
      ['tokens', 1],
    ]);
  });

  it('counts a bidder as one token, and what else it takes', () => {
    const rates = ratesOf([]);
    const bidders = [1, 2, 3].map(() => ({ charge: tokens(50), lane: 0, isBidder: true as const }));
    expect(rates.payable(bidders, ['tokens'], () => 2)).toBe(2);
    expect(rates.payable(bidders, ['tokens', 'requests'], (unit) => (unit === 'requests' ? 1 : 9))).toBe(1);
  });
});

describe('saved rates', () => {
  /** A rate of which another one keeps count. */
  const shared = (): unknown => {
    const meter: Meter = {
      isShared: true,
      capacity: 5,
      level: () => 5,
      payableAt: (_, now) => now,
      fullAt: (now) => now,
      pay: () => undefined,
      correct: () => undefined,
      resize: () => undefined,
      save: () => [1, 2, 3],
      load: () => undefined,
    };
    return Object.assign(Object.create(perMinute('requests', 60) as object) as object, { meter: () => meter });
  };

  it('are all but those that several processes share', () => {
    const rates = ratesOf([small, shared(), perMinute('images', Infinity)]);
    paid(rates, tokens(4));
    expect(rates.save(0).map(({ unit, windowMs, isStrict, spent }) => [unit, windowMs, isStrict, spent.length > 0])).toEqual([
      ['tokens', 60_000, false, true],
      ['images', 60_000, false, false],
    ]);
  });

  it('go on where they are known, and are nothing to others', () => {
    const rates = ratesOf([small, strict]);
    paid(rates, tokens(8));
    const saved = rates.save(0);
    const other = ratesOf([small, perMinute('images', Infinity)]);
    other.restore([...saved, { unit: 'images', windowMs: 60_000, isStrict: false, spent: [] }], 3000, 50);
    expect([other.left('tokens', 50), other.left('images', 50)]).toEqual([5, Infinity]);
    const both = ratesOf([small, strict]);
    both.restore(saved, 3000, 50);
    expect(both.levels(50).map(({ left }) => left)).toEqual([5, 52]);
  });
});

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TokenBucket } from '../../operators/kernel/index.js';
import { canPay } from '../support/can-pay.js';
import { draws } from '../support/deep.js';

const rate = fc.oneof(
  fc.integer({ min: 1, max: 600 }),
  fc.integer({ min: 1000, max: 60_000_000 }),
  fc.double({ min: 0.1, max: 1e6, noNaN: true }),
);
/** Virtual clocks start at 0, hosts count from 1970. */
const epoch = fc.constantFrom(0, 1_790_000_000_000);

type Step =
  | { readonly do: 'pay'; readonly cost: number; readonly waitMs: number }
  | { readonly do: 'settle'; readonly cost: number; readonly waitMs: number }
  | { readonly do: 'refund'; readonly cost: number; readonly waitMs: number };

const waitMs = fc.oneof(fc.nat({ max: 5000 }), fc.double({ min: 0, max: 100, noNaN: true }), fc.constant(0));
const costs = (most: number): fc.Arbitrary<number> =>
  fc.oneof(fc.double({ min: 0, max: most, noNaN: true }), fc.nat({ max: Math.floor(most) }));

describe('TokenBucket', () => {
  it('never grants more than its capacity and what came in, in any span of time', () => {
    const run = fc
      .record({ perMinute: rate, seconds: fc.double({ min: 0.1, max: 10, noNaN: true }), at: epoch })
      .chain(({ perMinute, seconds, at }) => {
        const capacity = Math.max(1, (perMinute / 60) * seconds);
        return fc.record({
          perMinute: fc.constant(perMinute),
          capacity: fc.constant(capacity),
          at: fc.constant(at),
          asks: fc.array(fc.record({ cost: costs(capacity), waitMs }), { minLength: 1, maxLength: 60, size: 'max' }),
        });
      });
    fc.assert(
      fc.property(run, ({ perMinute, capacity, at, asks }) => {
        const bucket = new TokenBucket(perMinute, capacity, at);
        const granted: { at: number; cost: number }[] = [];
        let now = at;
        for (const { cost, waitMs: wait } of asks) {
          now += wait;
          if (!canPay(bucket, cost, now)) continue;
          bucket.pay(cost, now);
          granted.push({ at: now, cost });
        }
        const perMs = perMinute / 60_000;
        let worst = -Infinity;
        granted.forEach((first, i) => {
          let sum = 0;
          for (const last of granted.slice(i)) {
            sum += last.cost;
            worst = Math.max(worst, sum - capacity - (last.at - first.at) * perMs);
          }
        });
        // A grant may come a microsecond early, and every sum of fractions rounds.
        expect(worst).toBeLessThanOrEqual(Math.max(1e-5, perMs * 0.002));
      }),
      { numRuns: draws(100, 250) },
    );
  });

  it('tells exactly when a cost can be paid: then, and not a microsecond or a millionth of a token earlier', () => {
    fc.assert(
      fc.property(
        rate,
        fc.double({ min: 0.5, max: 10, noNaN: true }),
        epoch,
        fc.double({ min: 0, max: 3, noNaN: true }),
        fc.double({ min: 0, max: 2, noNaN: true }),
        (perMinute, seconds, at, spentShare, costShare) => {
          const capacity = Math.max(1, (perMinute / 60) * seconds);
          const bucket = new TokenBucket(perMinute, capacity, at);
          bucket.pay(capacity * spentShare, at);
          const cost = capacity * costShare;
          const when = bucket.payableAt(cost, at);
          expect(when).toBeGreaterThanOrEqual(at);
          expect(canPay(bucket, cost, at)).toBe(when === at);
          const before = when - 0.01 - (1.1e-6 * 60_000) / perMinute;
          if (before > at) expect(canPay(bucket, cost, before)).toBe(false);
          expect(canPay(bucket, cost, when)).toBe(true);
          expect(bucket.payableAt(cost, when)).toBe(when);
        },
      ),
      { numRuns: draws(1000, 3000) },
    );
  });

  it('behaves as a plain account that gets its rate every millisecond, whatever is paid, corrected and refunded', () => {
    const step: fc.Arbitrary<Step> = fc.oneof(
      fc.record({ do: fc.constant('pay' as const), cost: fc.nat({ max: 300 }), waitMs: fc.nat({ max: 3000 }) }),
      fc.record({ do: fc.constant('settle' as const), cost: fc.nat({ max: 300 }), waitMs: fc.nat({ max: 3000 }) }),
      fc.record({ do: fc.constant('refund' as const), cost: fc.nat({ max: 300 }), waitMs: fc.nat({ max: 3000 }) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30, size: 'max' }), (steps) => {
        // 6,000 a minute is a tenth each ms; the model counts in tenths, so it never rounds.
        const bucket = new TokenBucket(6000, 200, 0);
        let now = 0;
        let tenths = 2000;
        for (const each of steps) {
          for (let ms = 0; ms < each.waitMs; ms++) tenths = Math.min(2000, tenths + 1);
          now += each.waitMs;
          const payable = tenths >= Math.min(each.cost * 10, 2000);
          expect(canPay(bucket, each.cost, now)).toBe(payable);
          const cost = each.do === 'refund' ? -each.cost : each.cost;
          if (each.do === 'pay' && !payable) continue;
          bucket.pay(cost, now);
          tenths = Math.min(2000, tenths - cost * 10);
          expect(bucket.level(now)).toBeCloseTo(tenths / 10, 6);
        }
      }),
      { numRuns: 60 },
    );
  });

  it('lets a cost above its capacity go when it is full, and waits until the debt is paid', () => {
    const bucket = new TokenBucket(60_000, 100, 0);
    expect(canPay(bucket, 5000, 0)).toBe(true);
    bucket.pay(1, 0);
    expect([canPay(bucket, 5000, 0), bucket.payableAt(5000, 0)]).toEqual([false, 1]);
    bucket.pay(5000, 1);
    expect(bucket.level(1)).toBe(-4900);
    expect([bucket.payableAt(0, 1), bucket.payableAt(1, 1), bucket.payableAt(5000, 1)]).toEqual([4901, 4902, 5001]);
    expect([canPay(bucket, 0, 4900), canPay(bucket, 0, 4901)]).toEqual([false, true]);
  });

  it('lets a cost go that is a millionth of a token above its level, and no more than that', () => {
    const bucket = new TokenBucket(1, 1, 0);
    bucket.pay(1, 0);
    expect([canPay(bucket, 1e-6, 0), canPay(bucket, 1.01e-6, 0)]).toEqual([true, false]);
  });

  it('never fills at a rate of 0, and is full a moment later at a rate of Infinity', () => {
    const dry = new TokenBucket(0, 10, 0);
    expect(dry.payableAt(10, 5)).toBe(5);
    dry.pay(4, 5);
    expect([dry.payableAt(6, 5), dry.payableAt(7, 5), dry.level(1e9)]).toEqual([5, Infinity, 6]);
    const endless = new TokenBucket(Infinity, 10, 0);
    endless.pay(4, 0);
    expect([endless.level(0), endless.payableAt(10, 0), endless.level(1)]).toEqual([6, 0, 10]);
  });

  it('takes a refund up to its capacity and no further', () => {
    const bucket = new TokenBucket(60, 10, 0);
    bucket.pay(4, 0);
    bucket.pay(-3, 0);
    expect(bucket.level(0)).toBe(9);
    bucket.pay(-3, 0);
    expect([bucket.level(0), bucket.level(1_000_000)]).toEqual([10, 10]);
  });

  it('takes a correction now, whenever that was paid', () => {
    const bucket = new TokenBucket(60, 10, 0);
    bucket.pay(8, 0);
    bucket.correct(5, 0, 1000);
    expect(bucket.level(1000)).toBe(-2);
    bucket.correct(-30, 1000, 1000);
    expect(bucket.level(1000)).toBe(10);
  });

  it('survives a clock that is set back: nothing is taken away, and it fills on from there', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -100_000, max: 3000 }), { minLength: 1, maxLength: 30, size: 'max' }), (jumps) => {
        const bucket = new TokenBucket(600, 100, 1_000_000);
        bucket.pay(100, 1_000_000);
        let now = 1_000_000;
        let level = 0;
        for (const jump of jumps) {
          now += jump;
          level = Math.min(100, level + Math.max(0, jump) / 100);
          expect(bucket.level(now)).toBeCloseTo(level, 6);
        }
        expect(bucket.payableAt(100, now)).toBeCloseTo(now + (100 - level) * 100, 3);
      }),
    );
  });

  it('keeps debt when it is resized, loses what no longer fits, and fills at the new rate', () => {
    const bucket = new TokenBucket(60_000, 100, 0);
    bucket.resize(6000, 40, 0);
    expect([bucket.capacity, bucket.level(0)]).toEqual([40, 40]);
    bucket.pay(90, 0);
    bucket.resize(60_000, 500, 0);
    expect([bucket.level(0), bucket.level(50), bucket.level(60), bucket.level(10_000)]).toEqual([-50, 0, 10, 500]);
  });

  it('gives the time of the change to the old rate', () => {
    const bucket = new TokenBucket(60_000, 100, 0);
    bucket.pay(100, 0);
    bucket.resize(6000, 100, 20);
    expect([bucket.level(20), bucket.level(30)]).toEqual([20, 21]);
  });

  it('goes on from what was saved so long ago, as if it had been there all the time', () => {
    fc.assert(
      fc.property(fc.nat({ max: 500 }), fc.nat({ max: 5000 }), fc.nat({ max: 5000 }), (spent, elapsedMs, laterMs) => {
        const [bucket, again] = [new TokenBucket(6000, 200, 0), new TokenBucket(6000, 200, 7)];
        bucket.pay(spent, 0);
        again.load(bucket.save(0), elapsedMs, 1e6);
        expect(again.level(1e6 + laterMs)).toBeCloseTo(bucket.level(elapsedMs + laterMs), 6);
      }),
    );
    const full = new TokenBucket(6000, 200, 0);
    full.pay(50, 0);
    full.load([], 0, 0);
    expect(full.level(0)).toBe(200);
  });
});

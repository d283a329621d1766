/* oxlint-disable no-restricted-imports -- the meters of reserves are not exported */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { RateRule } from '../../operators/index.js';
import { perMinute } from '../../operators/index.js';
import type { Meter, RateSpec } from '../../operators/kernel/limits/limit.js';
import { Rate } from '../../operators/kernel/limits/rate.js';
import { ReservedBucket } from '../../operators/kernel/limits/reserved-bucket.js';
import { ReservedDay } from '../../operators/kernel/limits/reserved-day.js';
import { ReservedWindow } from '../../operators/kernel/limits/reserved-window.js';
import { SlidingWindow } from '../../operators/kernel/limits/sliding-window.js';
import { TokenBucket } from '../../operators/kernel/limits/token-bucket.js';
import { canPay } from '../support/can-pay.js';
import { FixedWindow } from '../support/fixed-window.js';

const MINUTE_MS = 60_000;
/** 60,000 a minute: one a ms. */
const RATE = 60_000;
const URGENT = 0;
const BACKGROUND = 2;

const kinds = {
  bucket: (shares: readonly number[]) => new ReservedBucket(shares, MINUTE_MS, RATE, 2000, 0),
  window: (shares: readonly number[]) => new ReservedWindow(shares, RATE, RATE, 0),
} satisfies Record<string, (shares: readonly number[]) => Meter>;

interface Paid {
  readonly at: number;
  readonly cost: number;
  readonly lane: number;
}

/** Background spends all it may in calls of this cost; urgent calls come now and then. Answers what was paid, and how long each urgent call waited. */
function saturated(meter: Meter, forMs: number, cost: number, urgent: readonly { readonly at: number; readonly cost: number }[]) {
  const paid: Paid[] = [];
  const waits: number[] = [];
  const open = [...urgent];
  let now = 0;
  while (now < forMs) {
    const [next] = open;
    if (next && next.at <= now) {
      const at = meter.payableAt(next.cost, now, URGENT);
      if (at <= now) {
        meter.pay(next.cost, now, URGENT);
        paid.push({ at: now, cost: next.cost, lane: URGENT });
        waits.push(now - next.at);
        open.shift();
        continue;
      }
      now = Math.min(at, forMs);
      continue;
    }
    const at = Math.ceil(meter.payableAt(cost, now, BACKGROUND));
    const until = next ? Math.min(at, Math.ceil(next.at)) : at;
    if (until > now) {
      now = until;
      continue;
    }
    meter.pay(cost, now, BACKGROUND);
    paid.push({ at: now, cost, lane: BACKGROUND });
  }
  return { paid, waits };
}

const sum = (paid: readonly Paid[], lane?: number): number =>
  paid.reduce((total, each) => total + (lane === undefined || each.lane === lane ? each.cost : 0), 0);

describe.each(Object.entries(kinds))('a reserve of a %s', (kind, make) => {
  it('lets an urgent call within it go at once, whenever it comes, however heavy the calls below are', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 30, max: 20_000 }),
        fc.array(fc.integer({ min: 0, max: 120_000 }), { minLength: 1, maxLength: 3 }),
        (cost, times) => {
          // A window apart from each other, so that each has the whole reserve.
          // A quarter of the reserve of a window may be lent.
          const share = kind === 'window' ? 0.75 * 0.05 : 0.05;
          const urgent = [...times].sort((a, b) => a - b).map((at, i) => ({ at: at + i * 2 * MINUTE_MS, cost: share * RATE }));
          const { waits } = saturated(make([0.05, 0, 0]), 500_000, cost, urgent);
          expect(waits).toEqual(urgent.map(() => 0));
        },
      ),
      { numRuns: 20 },
    );
  });

  it('leaves the rest to the lower lanes, and what is not used is not lost', () => {
    for (const cost of [50, 500, 1500]) {
      const forMs = 10 * MINUTE_MS;
      const { paid } = saturated(make([0.05, 0, 0]), forMs, cost, []);
      expect(sum(paid) / (forMs * (RATE / MINUTE_MS))).toBeGreaterThanOrEqual(kind === 'bucket' ? 0.999 : 0.96 * (1 - cost / RATE));
      const urgent = Array.from({ length: 9 }, (_, i) => ({ at: i * MINUTE_MS + 30_000, cost: 0.035 * RATE }));
      const both = saturated(make([0.05, 0, 0]), forMs, cost, urgent);
      expect(sum(both.paid, BACKGROUND) / (forMs * (RATE / MINUTE_MS))).toBeGreaterThanOrEqual(0.95 * (1 - 0.05) - cost / RATE);
      expect(both.waits).toEqual(urgent.map(() => 0));
    }
  });

  it('is there for lanes above too, and never for lanes below', () => {
    const meter = make([0, 0.1, 0]);
    while (canPay(meter, 100, 0, BACKGROUND)) meter.pay(100, 0, BACKGROUND);
    expect(canPay(meter, 100, 0, BACKGROUND)).toBe(false);
    expect(canPay(meter, 0.1 * RATE, 0, 1)).toBe(true);
    meter.pay(0.05 * RATE, 0, URGENT);
    expect(canPay(meter, 0.05 * RATE, 0, 1)).toBe(true);
    expect(canPay(meter, 0.05 * RATE, 0, BACKGROUND)).toBe(false);
  });
});

describe('a reserved bucket', () => {
  it('is a token bucket for lanes of which none has a reserve', () => {
    fc.assert(
      fc.property(steps, (script) => {
        const one = new ReservedBucket([0, 0], MINUTE_MS, RATE, 2000, 0);
        const other = new TokenBucket(RATE, 2000, 0);
        let now = 0;
        for (const { wait, cost, lane } of script) {
          now += wait;
          expect(one.payableAt(cost, now, lane)).toBeCloseTo(other.payableAt(cost, now), 3);
          one.pay(cost, now, lane);
          other.pay(cost, now);
          expect(one.level(now)).toBeCloseTo(other.level(now), 3);
        }
      }),
    );
  });

  it('grants no more than its rate and what was saved, whichever lane pays', () => {
    fc.assert(
      fc.property(steps, (script) => {
        const meter = new ReservedBucket([0.05, 0.02, 0], MINUTE_MS, RATE, 2000, 0);
        const full = meter.capacity;
        let now = 0;
        let spent = 0;
        for (const { wait, cost, lane } of script) {
          now += wait;
          const at = meter.payableAt(cost, now, lane);
          // What it says is right: payable then, and not a ms before.
          expect(canPay(meter, cost, now, lane)).toBe(at <= now);
          now = Math.max(now, at);
          meter.pay(cost, now, lane);
          spent += cost;
          expect(meter.level(now)).toBeLessThanOrEqual(full + now - spent + 1e-3);
        }
      }),
    );
  });

  it('is payable exactly when it says', () => {
    fc.assert(
      fc.property(steps, fc.integer({ min: 0, max: 5000 }), fc.integer({ min: 0, max: 2 }), (script, cost, lane) => {
        const meter = new ReservedBucket([0.05, 0.02, 0], MINUTE_MS, RATE, 2000, 0);
        let now = 0;
        for (const step of script) {
          now += step.wait;
          meter.pay(step.cost, now, step.lane);
        }
        const at = meter.payableAt(cost, now, lane);
        if (at > now + 2) expect(canPay(meter, cost, at - 1, lane)).toBe(false);
        expect(canPay(meter, cost, at + 0.01, lane)).toBe(true);
      }),
    );
  });

  it('goes on where it was saved, and gives refunds to the reserve first', () => {
    const meter = new ReservedBucket([0.05, 0], MINUTE_MS, RATE, 2000, 0);
    meter.pay(4000, 0, URGENT);
    expect(meter.save(0)).toEqual([0, 1000, 0]);
    const other = new ReservedBucket([0.05, 0], MINUTE_MS, RATE, 2000, 0);
    other.load(meter.save(0), 1500, 0);
    expect(other.save(0)).toEqual([1425, 1075, 0]);
    other.load([-500], 1000, 0);
    expect(other.save(0)).toEqual([450, 50, 0]);
    meter.correct(-2500, 0, 0, URGENT);
    expect(meter.save(0)).toEqual([500, 3000, 0]);
    meter.resize(RATE / 2, 1000, 0);
    expect(meter.save(0)).toEqual([500, 1500, 0]);
    expect(meter.capacity).toBe(2500);
  });
});

describe('a reserved window', () => {
  it('never gives more than its amount to any span, nor more than the rest to lower lanes', () => {
    fc.assert(
      fc.property(steps, (script) => {
        const meter = new ReservedWindow([0.1, 0.05, 0], 6000, 6000, 0);
        const paid: Paid[] = [];
        let now = 0;
        for (const { wait, cost: asked, lane } of script) {
          const cost = Math.min(asked, 5000);
          now = Math.max(now + wait, Math.ceil(meter.payableAt(cost, now + wait, lane)));
          meter.pay(cost, now, lane);
          paid.push({ at: now, cost, lane });
        }
        for (const { at } of paid) {
          const span = paid.filter((each) => each.at > at - MINUTE_MS && each.at <= at);
          expect(sum(span)).toBeLessThanOrEqual(6000 + 1e-3);
          expect(sum(span.filter(({ lane }) => lane >= 1))).toBeLessThanOrEqual(5400 + 150 + 1e-3);
          expect(sum(span.filter(({ lane }) => lane >= 2))).toBeLessThanOrEqual(5100 + 75 + 1e-3);
        }
      }),
    );
  });

  it('lends a quarter of the reserve once nothing of it was used for a window, and is payable exactly when it says', () => {
    const meter = new ReservedWindow([0.1, 0], 6000, 6000, 0);
    meter.pay(1, 0, 0);
    let most = 0;
    for (let now = 0; now < 2 * MINUTE_MS; now = Math.max(now, meter.payableAt(50, now, 1))) {
      expect(canPay(meter, 50, now, 1)).toBe(true);
      expect(canPay(meter, 400, now, 0)).toBe(true);
      meter.pay(50, now, 1);
      most = Math.max(most, meter.capacity - meter.level(now, 0));
      const next = meter.payableAt(50, now, 1);
      if (next > now + 1) expect(canPay(meter, 50, next - 1, 1)).toBe(false);
    }
    expect(most).toBeGreaterThan(5450);
    expect(most).toBeLessThanOrEqual(5550);
  });

  it('goes on where it was saved, for all lanes', () => {
    const meter = new ReservedWindow([0.1, 0], 6000, 6000, 0);
    meter.pay(1000, 0, 1);
    meter.correct(-400, 0, 10, 1);
    expect(meter.level(10)).toBe(5400);
    const other = new ReservedWindow([0.1, 0], 6000, 6000, 0);
    other.load(meter.save(10), 0, 10);
    expect(other.level(10)).toBe(new SlidingWindow(6000, 5400, 0).level(0));
    other.resize(3000, 3000, 10);
    expect(other.level(10)).toBe(2400);
  });
});

const steps = fc.array(
  fc.record({ wait: fc.integer({ min: 0, max: 4000 }), cost: fc.integer({ min: 0, max: 6000 }), lane: fc.integer({ min: 0, max: 2 }) }),
  { maxLength: 40 },
);

describe('a reserved day', () => {
  const DAY_MS = 100_000;
  const AMOUNT = 10_000;
  const made = (shares: readonly number[]): ReservedDay =>
    new ReservedDay(shares, DAY_MS, new FixedWindow(DAY_MS, AMOUNT, 0), FixedWindow.endOf(DAY_MS), 0);

  it('keeps its share of what the rest of the day is worth, and gives back what is not used of it', () => {
    const meter = made([0.1, 0]);
    expect(meter.level(0, BACKGROUND)).toBe(9000);
    meter.pay(9000, 0);
    expect(canPay(meter, 1, 0, BACKGROUND)).toBe(false);
    expect(canPay(meter, 1000, 0, URGENT)).toBe(true);
    expect(meter.payableAt(500, 0, BACKGROUND)).toBe(DAY_MS / 2);
    expect(meter.level(DAY_MS / 2, BACKGROUND)).toBe(500);
    // More than a lane can ever have: when it has all it can.
    expect(meter.payableAt(20_000, DAY_MS / 2, BACKGROUND)).toBe(DAY_MS);
    expect(meter.level(DAY_MS, BACKGROUND)).toBe(9000);
    expect(meter.loadOf(DAY_MS)).toBe(0);
  });

  it('is payable exactly when it says, and never above the day', () => {
    fc.assert(
      fc.property(steps, (script) => {
        const meter = made([0.1, 0.05, 0]);
        let now = 0;
        let day = 0;
        let spent = 0;
        for (const { wait, cost: asked, lane } of script) {
          const cost = Math.min(asked, 5000);
          now += wait;
          const at = meter.payableAt(cost, now, lane);
          if (at > now) {
            expect(canPay(meter, cost, Math.max(now, at - 1), lane)).toBe(false);
            expect(canPay(meter, cost, at, lane)).toBe(true);
          }
          now = at;
          meter.pay(cost, now);
          if (Math.floor(now / DAY_MS) > day) spent = 0;
          day = Math.floor(now / DAY_MS);
          spent += cost;
          expect(spent).toBeLessThanOrEqual(AMOUNT + 1e-3);
        }
      }),
    );
  });
});

describe('what the provider says is left', () => {
  it.each(Object.entries(kinds))('is taken from lower lanes of a %s first, and from the reserve when it is less', (_kind, make) => {
    const rule = { ...(perMinute('tokens', RATE) as RateRule & RateSpec), reservedMeter: make };
    const rate = new Rate(rule, 1, 0, { shares: [0.05, 0, 0], share: 0.05 });
    rate.lower(3500, 0);
    expect(rate.level(0, URGENT)).toBeCloseTo(3500, 6);
    expect(rate.level(0, BACKGROUND)).toBeCloseTo(500, 6);
    rate.lower(1000, 0);
    expect(rate.level(0, URGENT)).toBeCloseTo(1000, 6);
    expect(rate.level(0, BACKGROUND)).toBeCloseTo(0, 6);
    expect(rate.load(0)).toBe(1);
  });
});

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Meter } from '../../operators/kernel/limits/limit.js';
import { ReservedBucket } from '../../operators/kernel/limits/reserved-bucket.js';
import { ReservedWindow } from '../../operators/kernel/limits/reserved-window.js';
import { SlidingWindow } from '../../operators/kernel/limits/sliding-window.js';
import { TokenBucket } from '../../operators/kernel/limits/token-bucket.js';

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
          const urgent = [...times].sort((a, b) => a - b).map((at, i) => ({ at: at + i * 2 * MINUTE_MS, cost: 0.05 * RATE }));
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
      expect(sum(paid) / (forMs * (RATE / MINUTE_MS))).toBeGreaterThanOrEqual(kind === 'bucket' ? 0.999 : 0.95 * (1 - cost / RATE));
      const urgent = Array.from({ length: 9 }, (_, i) => ({ at: i * MINUTE_MS + 30_000, cost: 0.035 * RATE }));
      const both = saturated(make([0.05, 0, 0]), forMs, cost, urgent);
      expect(sum(both.paid, BACKGROUND) / (forMs * (RATE / MINUTE_MS))).toBeGreaterThanOrEqual(0.95 * (1 - 0.05) - cost / RATE);
      expect(both.waits).toEqual(urgent.map(() => 0));
    }
  });

  it('is there for lanes above too, and never for lanes below', () => {
    const meter = make([0, 0.1, 0]);
    while (meter.canPay(100, 0, BACKGROUND)) meter.pay(100, 0, BACKGROUND);
    expect(meter.canPay(100, 0, BACKGROUND)).toBe(false);
    expect(meter.canPay(0.1 * RATE, 0, 1)).toBe(true);
    meter.pay(0.05 * RATE, 0, URGENT);
    expect(meter.canPay(0.05 * RATE, 0, 1)).toBe(true);
    expect(meter.canPay(0.05 * RATE, 0, BACKGROUND)).toBe(false);
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

  it('brings in no more than its rate and what was saved, whoever pays', () => {
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
          expect(meter.canPay(cost, now, lane)).toBe(at <= now);
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
        if (at > now + 2) expect(meter.canPay(cost, at - 1, lane)).toBe(false);
        expect(meter.canPay(cost, at + 0.01, lane)).toBe(true);
      }),
    );
  });

  it('goes on where it was saved, and gives refunds to the reserve first', () => {
    const meter = new ReservedBucket([0.05, 0], MINUTE_MS, RATE, 2000, 0);
    meter.pay(4000, 0, URGENT);
    expect(meter.save(0)).toEqual([0, 1000, 0]);
    const other = new ReservedBucket([0.05, 0], MINUTE_MS, RATE, 2000, 0);
    other.load(meter.save(0), 1500, 0);
    expect(other.save(0)).toEqual([0, 2500, 0]);
    other.load([-500], 1000, 0);
    expect(other.save(0)).toEqual([-500, 1000, 0]);
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
          expect(sum(span.filter(({ lane }) => lane >= 1))).toBeLessThanOrEqual(5400 + 1e-3);
          expect(sum(span.filter(({ lane }) => lane >= 2))).toBeLessThanOrEqual(5100 + 1e-3);
        }
      }),
    );
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

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Aimd } from '../../operators/kernel/index.js';
import type { LimitSample } from '../../operators/kernel/limits/aimd.js';

const RANGE = { initial: 4, min: 1, max: 64 } as const;

/** A call of 10 ms that ends at `endedAt`, with the whole limit in use. */
const call = (outcome: LimitSample['outcome'], endedAt: number, inFlight = 64, startedAt = endedAt - 10): LimitSample => ({
  startedAt,
  endedAt,
  inFlight,
  outcome,
});

/** The limit after each of so many calls, one every 100 ms. */
function after(aimd: Aimd, outcomes: readonly LimitSample['outcome'][], from = 100): number[] {
  return outcomes.map((outcome, i) => aimd.add(call(outcome, from + 100 * i)));
}

const good = (count: number): 'ok'[] => Array.from({ length: count }, () => 'ok' as const);

describe('the limit', () => {
  it('begins where it is told to', () => {
    expect(new Aimd(RANGE, 0.75).limit).toBe(4);
  });

  it('goes up by one for as many good calls as it counts', () => {
    const aimd = new Aimd(RANGE, 0.75);
    expect(after(aimd, good(4 + 5))).toEqual([4, 4, 4, 5, 5, 5, 5, 5, 6]);
    expect(aimd.limit).toBe(6);
  });

  it('goes down to a part of it, rounded down', () => {
    const aimd = new Aimd({ ...RANGE, initial: 10 }, 0.75);
    expect(after(aimd, ['dropped', 'dropped', 'dropped'])).toEqual([7, 5, 3]);
  });

  it('stays between min and max', () => {
    const high = new Aimd({ initial: 4, min: 1, max: 5 }, 0.75);
    expect(after(high, good(20)).at(-1)).toBe(5);
    const low = new Aimd({ initial: 4, min: 3, max: 5 }, 0.75);
    expect(after(low, ['dropped', 'dropped'])).toEqual([3, 3]);
  });

  it('counts good calls anew after every change', () => {
    const aimd = new Aimd(RANGE, 0.75);
    expect(after(aimd, [...good(3), 'dropped', ...good(3)])).toEqual([4, 4, 4, 3, 3, 3, 4]);
  });
});

describe('what is left out', () => {
  it('good calls while less than half of the limit was in use', () => {
    const aimd = new Aimd(RANGE, 0.75);
    for (let i = 1; i <= 1000; i++) aimd.add(call('ok', 100 * i, 1));
    expect(aimd.limit).toBe(4);
    for (let i = 1; i <= 4; i++) aimd.add(call('ok', 1e6 + 100 * i, 2));
    expect(aimd.limit).toBe(5);
    // Of five, two are less than half.
    for (let i = 1; i <= 1000; i++) aimd.add(call('ok', 2e6 + 100 * i, 2));
    expect(aimd.limit).toBe(5);
  });

  it('everything that had started when the limit went down: ten refusals of one burst are one step', () => {
    const aimd = new Aimd({ ...RANGE, initial: 40 }, 0.75);
    for (let i = 0; i < 10; i++) aimd.add(call('dropped', 100 + i, 40 - i, 0));
    expect(aimd.limit).toBe(30);
    for (let i = 0; i < 30; i++) aimd.add(call('ok', 200 + i, 30, 100));
    expect(aimd.limit).toBe(30);
    aimd.add(call('dropped', 300, 30, 101));
    expect(aimd.limit).toBe(22);
  });

  it('a burst that is refused in the millisecond in which it was sent is one step as well', () => {
    const aimd = new Aimd({ ...RANGE, initial: 40 }, 0.75);
    for (let i = 0; i < 10; i++) aimd.add(call('dropped', 100, 10, 100));
    expect(aimd.limit).toBe(30);
  });

  it('good calls that took no time, but not dropped ones', () => {
    const aimd = new Aimd(RANGE, 0.75);
    for (let i = 1; i <= 100; i++) aimd.add(call('ok', i, 4, i));
    expect(aimd.limit).toBe(4);
    expect(aimd.add(call('dropped', 200, 4, 200))).toBe(3);
  });

  it('refusals of a limit that is hardly used count', () => {
    expect(new Aimd({ ...RANGE, initial: 40 }, 0.75).add(call('dropped', 100, 1))).toBe(30);
  });
});

describe('whatever happens', () => {
  const range = fc
    .tuple(fc.integer({ min: 1, max: 100 }), fc.integer({ min: 0, max: 100 }), fc.integer({ min: 0, max: 200 }))
    .map(([min, more, evenMore]) => ({ min, initial: min + more, max: min + more + evenMore }));
  const samples = fc.array(
    fc.record({
      tookMs: fc.integer({ min: 0, max: 500 }),
      laterMs: fc.integer({ min: 0, max: 100 }),
      inFlight: fc.integer({ min: 1, max: 400 }),
      outcome: fc.constantFrom('ok' as const, 'ok' as const, 'ok' as const, 'dropped' as const),
    }),
    { maxLength: 400, size: 'max' },
  );
  const backoffRatio = fc.double({ min: 0.1, max: 0.99, noNaN: true });

  it('the limit is a whole number in its range, moves by one up or by the ratio down, and only for a reason', () => {
    fc.assert(
      fc.property(range, backoffRatio, samples, (limits, share, all) => {
        const aimd = new Aimd(limits, share);
        let now = 0;
        let before = limits.initial;
        let decreasedAt = -Infinity;
        /** Good calls under the present limit that may count. */
        let counted = 0;
        for (const { tookMs, laterMs, inFlight, outcome } of all) {
          now += laterMs;
          const startedAt = now - tookMs;
          const limit = aimd.add({ startedAt, endedAt: now, inFlight, outcome });
          expect(limit).toBe(aimd.limit);
          expect(Number.isInteger(limit) && limit >= limits.min && limit <= limits.max).toBe(true);
          const isOld = startedAt <= decreasedAt;
          if (isOld) expect(limit).toBe(before);
          else if (outcome === 'dropped') {
            expect(limit).toBe(Math.max(limits.min, Math.floor(before * share)));
            expect(limit < before || before === limits.min).toBe(true);
            decreasedAt = now;
            counted = 0;
          } else {
            if (2 * inFlight >= before && tookMs > 0) counted++;
            const grows = counted === before;
            expect(limit).toBe(grows ? Math.min(limits.max, before + 1) : before);
            if (grows) counted = 0;
          }
          before = limit;
        }
      }),
      { numRuns: 25 },
    );
  });

  it('refusals of calls that were all sent before the first came back are one step, in whatever order they end', () => {
    fc.assert(
      fc.property(range, fc.array(fc.integer({ min: 0, max: 1000 }), { minLength: 1, maxLength: 50, size: 'max' }), (limits, lengths) => {
        const aimd = new Aimd(limits, 0.75);
        for (const tookMs of lengths.toSorted((a, b) => a - b))
          aimd.add({ startedAt: 0, endedAt: tookMs, inFlight: 10, outcome: 'dropped' });
        expect(aimd.limit).toBe(Math.max(limits.min, Math.floor(limits.initial * 0.75)));
      }),
    );
  });
});

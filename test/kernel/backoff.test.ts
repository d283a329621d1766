import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { backoffDelayMs, isWithinShare, retryDelayMs } from '../../operators/kernel/index.js';

const BACKOFF = { delayMs: 200, maxMs: 20_000, jitter: 'full' } as const;

const attempt = fc.integer({ min: 1, max: 2000 });
const random01 = fc.double({ min: 0, max: 1, noNaN: true });
const ms = fc.oneof(fc.integer({ min: 0, max: 100_000 }), fc.constant(Infinity));
const options = fc.record({
  delayMs: ms,
  factor: fc.double({ min: 0.1, max: 1e3, noNaN: true }),
  maxMs: ms,
  jitter: fc.constantFrom('full' as const, 'equal' as const, 'none' as const),
});

describe('backoffDelayMs', () => {
  it('doubles from 200 ms to 20 s by default', () => {
    const none = { ...BACKOFF, jitter: 'none' as const };
    expect([1, 2, 3, 7, 8, 9, 5000].map((n) => backoffDelayMs(n, none, 0.5))).toEqual([200, 400, 800, 12_800, 20_000, 20_000, 20_000]);
  });

  it('is never longer than the longest delay a timer takes', () => {
    const unbounded = { delayMs: Infinity, factor: 2, maxMs: Infinity, jitter: 'none' as const };
    expect(backoffDelayMs(1, unbounded, 0)).toBe(2_147_483_647);
    expect(backoffDelayMs(2000, { ...unbounded, delayMs: 1 }, 0)).toBe(2_147_483_647);
  });

  it('spreads by the kind of jitter', () => {
    const at = (jitter: 'full' | 'equal' | 'none') => [0, 0.5, 1].map((random) => backoffDelayMs(2, { ...BACKOFF, jitter }, random));
    expect(at('full')).toEqual([0, 200, 400]);
    expect(at('equal')).toEqual([200, 300, 400]);
    expect(at('none')).toEqual([400, 400, 400]);
  });

  it('is a finite number from 0 to maxMs, for any options', () => {
    fc.assert(
      fc.property(attempt, options, random01, (n, given, random) => {
        const delayMs = backoffDelayMs(n, given, random);
        expect(Number.isFinite(delayMs)).toBe(true);
        expect(delayMs).toBeGreaterThanOrEqual(0);
        expect(delayMs).toBeLessThanOrEqual(given.maxMs);
      }),
    );
  });

  it('is longest without jitter, and at least half of that with equal jitter', () => {
    fc.assert(
      fc.property(attempt, options, random01, (n, given, random) => {
        const ceilingMs = backoffDelayMs(n, { ...given, jitter: 'none' }, random);
        expect(backoffDelayMs(n, { ...given, jitter: 'full' }, random)).toBeLessThanOrEqual(ceilingMs);
        const equalMs = backoffDelayMs(n, { ...given, jitter: 'equal' }, random);
        expect(equalMs).toBeGreaterThanOrEqual(ceilingMs / 2);
        expect(equalMs).toBeLessThanOrEqual(ceilingMs);
      }),
    );
  });

  it('never shrinks from attempt to attempt when the factor is 1 or more', () => {
    fc.assert(
      fc.property(attempt, options, random01, (n, given, random) => {
        fc.pre(given.factor >= 1);
        expect(backoffDelayMs(n + 1, given, random)).toBeGreaterThanOrEqual(backoffDelayMs(n, given, random));
      }),
    );
  });
});

describe('retryDelayMs', () => {
  it('is the backoff when the other side asks for nothing', () => {
    fc.assert(
      fc.property(attempt, options, random01, (n, given, random) => {
        expect(retryDelayMs(n, undefined, given, random)).toBe(backoffDelayMs(n, given, random));
      }),
    );
  });

  it('is never sooner than asked, at most a tenth later, unless the backoff itself is later', () => {
    fc.assert(
      fc.property(attempt, fc.integer({ min: 0, max: 1e6 }), options, random01, (n, askedMs, given, random) => {
        const delayMs = retryDelayMs(n, askedMs, given, random);
        const backoffMs = backoffDelayMs(n, given, random);
        expect(delayMs).toBeGreaterThanOrEqual(Math.max(askedMs, backoffMs));
        expect(delayMs).toBeLessThanOrEqual(Math.max(askedMs * 1.1 + 1e-6, backoffMs));
      }),
    );
  });

  it('may be longer than maxMs when the other side asks for it', () => {
    expect(retryDelayMs(1, 90_000, BACKOFF, 0)).toBe(90_000);
    expect(retryDelayMs(1, 90_000, BACKOFF, 1)).toBeCloseTo(99_000);
  });
});

describe('isWithinShare', () => {
  /** How many run at a time when each that is allowed is started. */
  const allowed = (activeCalls: number, ratio = 0.2, least?: number) => {
    let running = 0;
    while (running < 1000 && isWithinShare(running, activeCalls, ratio, least)) running++;
    return running;
  };

  it('allows three with no traffic at all, and a fifth of many calls', () => {
    expect([0, 10, 15, 19, 20, 100].map((calls) => allowed(calls))).toEqual([3, 3, 3, 3, 4, 20]);
  });

  it('allows any number when the share is Infinity, with no call as well', () => {
    expect(allowed(0, Infinity)).toBe(1000);
    expect(allowed(7, Infinity)).toBe(1000);
  });

  it('allows the greater of the least number and the share, rounded down', () => {
    const share = fc.double({ min: 0, max: 2, noNaN: true });
    fc.assert(
      fc.property(share, fc.integer({ min: 0, max: 5 }), fc.integer({ min: 0, max: 200 }), (ratio, least, calls) => {
        expect(allowed(calls, ratio, least)).toBe(Math.max(least, Math.floor(ratio * Math.max(1, calls))));
      }),
    );
  });
});

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fakeProvider } from '../../marbles/fake-provider.js';
import { virtualTime } from '../../marbles/virtual.js';
import type { LimiterOptions } from '../../operators/index.js';
import { createLimiter, perMinute, slidingWindow } from '../../operators/index.js';
import { TokenBucket } from '../../operators/kernel/index.js';
import { canPay } from '../support/can-pay.js';
import { sized } from '../support/deep.js';
import type { Granted } from '../support/rate-accuracy.js';
import { bucketBoundMs, FEEDS, LIMITS, requestCosts, slidingBoundMs, worstWindow } from '../support/rate-accuracy.js';

const MINUTE_MS = 60_000;
const units = [
  ['requests', LIMITS.requestsPerMinute],
  ['tokens', LIMITS.tokensPerMinute],
] as const;
const SLIDING = { rates: units.map(([unit, amount]) => slidingWindow({ unit, amount, windowMs: MINUTE_MS })) };
const BUCKET = { rates: units.map(([unit, amount]) => perMinute(unit, amount)) };
/** With a whole minute saved up. */
const FULL_BUCKET = { rates: units.map(([unit, amount]) => perMinute(unit, amount, { burst: amount })) };

/** Lets all requests through a limiter to a provider with the same limits. */
function sent(options: LimiterOptions, costs: readonly number[], restAtMs: number, discipline: 'bucket' | 'sliding') {
  return virtualTime(({ scheduler, now, flush }) => {
    const limiter = createLimiter(options);
    const provider = fakeProvider({ ...LIMITS, discipline, answer: (tokens: number) => tokens, tokensOf: (tokens) => tokens });
    const granted: Granted[] = [];
    const ask = (tokens: number): void => {
      const call = limiter.run(
        () => {
          granted.push({ atMs: now(), tokens });
          return provider.workOne(tokens);
        },
        { cost: { tokens } },
      );
      call.subscribe({ error: () => undefined });
    };
    ask(costs[0]!);
    scheduler.schedule(() => {
      costs.slice(1).forEach(ask);
    }, restAtMs);
    flush();
    return { granted, refused: provider.refused };
  });
}

describe.each(Object.entries(FEEDS))(
  '200 requests of 100 to 2,900 tokens under 60 requests and 60,000 tokens a minute, %s',
  (_, restAtMs) => {
    const costs = requestCosts();

    it.each([
      ['all of the limits', 1],
      ['the default headroom', 0.9],
    ])('sliding, %s: no minute has more, nothing is refused, and the last goes when it could at the earliest', (_share, headroom) => {
      const { granted, refused } = sent({ ...SLIDING, headroom }, costs, restAtMs, 'sliding');
      expect(granted.map(({ tokens }) => tokens)).toEqual(costs);
      const worst = worstWindow(granted);
      expect(worst.tokens).toBeLessThanOrEqual(headroom);
      expect(worst.requests).toBeLessThanOrEqual(headroom);
      expect(refused).toBe(0);
      expect(granted.at(-1)!.atMs).toBe(slidingBoundMs(costs, restAtMs, headroom));
    });

    it('bucket with defaults: no minute has more than 1.04, nothing is refused, and the last goes within 1 % of the earliest', () => {
      const { granted, refused } = sent(BUCKET, costs, restAtMs, 'bucket');
      expect(granted.map(({ tokens }) => tokens)).toEqual(costs);
      const worst = worstWindow(granted);
      expect(worst.tokens).toBeLessThanOrEqual(1.04);
      expect(worst.requests).toBeLessThanOrEqual(1.04);
      expect(refused).toBe(0);
      expect(granted.at(-1)!.atMs / bucketBoundMs(costs, restAtMs, 0.9, 2)).toBeCloseTo(1, 2);
    });

    it('a sliding provider refuses a bucket that uses all of the limits and may save up a minute', () => {
      expect(sent({ ...FULL_BUCKET, headroom: 1 }, costs, restAtMs, 'sliding').refused).toBeGreaterThan(0);
    });
  },
);

/** A request: what it is thought to cost, what it costs, how long it takes, and when it comes after the one before. */
interface Plan {
  readonly afterMs: number;
  readonly estimate: number;
  /** What part of the estimate it costs; `unused` when it is never sent. */
  readonly actual: number | 'unused';
  readonly tookMs: number;
}

const plans = (actual: fc.Arbitrary<number | 'unused'>): fc.Arbitrary<Plan[]> =>
  fc.array(
    fc.record({
      afterMs: fc.oneof({ weight: 6, arbitrary: fc.constant(0) }, fc.nat({ max: 20_000 })),
      estimate: fc.oneof(fc.integer({ min: 100, max: 2900 }), fc.integer({ min: 100, max: 2900 }), fc.nat({ max: 200 })),
      actual,
      tookMs: fc.oneof(fc.nat({ max: 3000 }), fc.nat({ max: 90_000 })),
    }),
    // Long enough to reach the limits many times.
    { minLength: 70, maxLength: 150, size: 'max' },
  );
const exact = fc.constant(1);
const less = fc.oneof(fc.constant('unused' as const), exact, fc.double({ min: 0, max: 1, noNaN: true }));
const anything = fc.oneof(less, fc.double({ min: 1, max: 4, noNaN: true }));

interface Entry extends Granted {
  /** As far as is known. */
  tokens: number;
  requests: number;
}

interface Run {
  /** Everything that was sent, with what it really cost. */
  readonly log: readonly Entry[];
  /** Grants that were made too early or too late, by what was known at the time. */
  readonly faults: readonly string[];
}

/** What counts at a time. */
function used(log: readonly Entry[], now: number): { readonly requests: number; readonly tokens: number } {
  const inWindow = log.filter(({ atMs }) => atMs + MINUTE_MS > now);
  return {
    requests: inWindow.reduce((sum, { requests }) => sum + requests, 0),
    tokens: inWindow.reduce((sum, { tokens }) => sum + tokens, 0),
  };
}

function run(options: LimiterOptions, requests: readonly Plan[]): Run {
  return virtualTime(({ scheduler, now, flush }) => {
    const limiter = createLimiter(options);
    const log: Entry[] = [];
    const faults: string[] = [];
    let grantedAt = -1;
    let correctedAt = -1;
    const fits = (tokens: number, at: number): boolean => {
      const sum = used(log, at);
      return sum.requests + 1 <= LIMITS.requestsPerMinute && sum.tokens + tokens <= LIMITS.tokensPerMinute;
    };
    const ask = ({ estimate, actual, tookMs }: Plan): void => {
      const askedAt = now();
      limiter.acquire({ cost: { tokens: estimate } }).subscribe((lease) => {
        const at = now();
        if (!fits(estimate, at)) faults.push(`${String(estimate)} tokens too early at ${String(at)}`);
        // It was next all the time, and nothing changed but the time.
        const waited = askedAt < at && grantedAt < at && correctedAt < at;
        if (waited && fits(estimate, at - 1)) faults.push(`${String(estimate)} tokens too late at ${String(at)}`);
        grantedAt = at;
        const entry = { atMs: at, requests: 1, tokens: estimate };
        log.push(entry);
        scheduler.schedule(() => {
          correctedAt = now();
          entry.requests = actual === 'unused' ? 0 : 1;
          entry.tokens = actual === 'unused' ? 0 : Math.round(actual * estimate);
          if (actual !== 'unused') lease.settle({ inputTokens: entry.tokens });
          lease.release(actual === 'unused' ? 'unused' : 'ok');
        }, tookMs);
      });
    };
    let at = 0;
    for (const plan of requests) {
      at += plan.afterMs;
      scheduler.schedule(() => {
        ask(plan);
      }, at);
    }
    flush();
    return { log, faults };
  });
}

describe('requests of any size at any time', () => {
  it('sliding: each goes as soon as the log of the last minute has room, with every correction in the minute of its payment', () => {
    fc.assert(
      fc.property(plans(anything), (requests) => {
        const { log, faults } = run({ ...SLIDING, headroom: 1 }, requests);
        expect(log).toHaveLength(requests.length);
        expect(faults).toEqual([]);
      }),
      { numRuns: sized(20, 100) },
    );
  });

  it('sliding: no minute has more than the limits, when estimates are corrected downwards and leases come back unused', () => {
    fc.assert(
      fc.property(plans(less), (requests) => {
        const { log } = run({ ...SLIDING, headroom: 1 }, requests);
        for (const { atMs } of log) {
          const { requests: many, tokens } = used(
            log.filter((entry) => entry.atMs <= atMs),
            atMs,
          );
          expect(many).toBeLessThanOrEqual(LIMITS.requestsPerMinute);
          expect(tokens).toBeLessThanOrEqual(LIMITS.tokensPerMinute);
        }
      }),
      { numRuns: sized(20, 100) },
    );
  });

  it('bucket with defaults: a provider that counts in buckets refuses nothing, when estimates are corrected downwards within half a minute', () => {
    fc.assert(
      fc.property(plans(less), (requests) => {
        const { log } = run(
          BUCKET,
          requests.map((plan) => ({ ...plan, tookMs: plan.tookMs / 3 })),
        );
        const provider = new TokenBucket(LIMITS.tokensPerMinute, LIMITS.tokensPerMinute, 0);
        for (const { atMs, tokens } of log) {
          expect(canPay(provider, tokens, atMs)).toBe(true);
          provider.pay(tokens, atMs);
        }
      }),
      { numRuns: sized(20, 100) },
    );
  });

  it('bucket with defaults: no minute has more than 1.04 of the limits', () => {
    fc.assert(
      fc.property(plans(exact), (requests) => {
        const { log } = run(BUCKET, requests);
        expect(log).toHaveLength(requests.length);
        const worst = worstWindow(log);
        expect(worst.requests).toBeLessThanOrEqual(1.04);
        expect(worst.tokens).toBeLessThanOrEqual(1.04);
      }),
      { numRuns: sized(20, 100) },
    );
  });
});

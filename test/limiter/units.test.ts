import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { Cost, FlowEvent, Lease, Limiter, LimiterOptions, Usage } from '../../operators/index.js';
import {
  childOf,
  createLimiter,
  fromHeaders,
  isFlowError,
  keyedLimiter,
  lanes,
  perMinute,
  slidingWindow,
  tokenBucket,
} from '../../operators/index.js';
import { draws } from '../support/deep.js';
import { refusing } from '../support/refusing.js';

const UNITS = ['requests', 'tokens', 'inputTokens', 'outputTokens', 'images'] as const;
type Unit = (typeof UNITS)[number];

/** A limiter that counts every unit and can save up a whole minute of 1000. */
const counting = (options: LimiterOptions = {}): Limiter =>
  createLimiter({ rates: UNITS.map((unit) => slidingWindow({ unit, amount: 1000, windowMs: 60_000 })), headroom: 1, ...options });

/** What is spent, by unit. */
const spent = (limiter: Limiter): Record<string, number> =>
  Object.fromEntries(limiter.snapshot().rates.map(({ unit, amount, left }) => [unit, amount - left]));

/** What a cost means by the documentation. */
function meant({ requests = 1, tokens, inputTokens, outputTokens, images = 0 }: Cost): Record<Unit, number> {
  const all = tokens ?? (inputTokens ?? 0) + (outputTokens ?? 0);
  const input = inputTokens ?? Math.max(0, all - (outputTokens ?? 0));
  const output = outputTokens ?? (inputTokens === undefined ? 0 : Math.max(0, all - inputTokens));
  return { requests, tokens: all, inputTokens: input, outputTokens: output, images };
}

const amount = fc.option(fc.nat(90), { nil: undefined });
const costs = fc.record({
  requests: amount,
  tokens: amount,
  inputTokens: amount,
  outputTokens: amount,
  images: amount,
}) as fc.Arbitrary<Cost>;
const usages = fc.record({
  inputTokens: fc.option(fc.nat(200), { nil: undefined }),
  outputTokens: fc.option(fc.nat(200), { nil: undefined }),
  units: fc.option(fc.dictionary(fc.constantFrom(...UNITS, 'other'), fc.oneof(fc.nat(200), fc.constantFrom(-1, NaN))), { nil: undefined }),
}) as fc.Arbitrary<Usage>;

/** What a usage says of a unit; undefined when it says nothing. */
function reported({ inputTokens, outputTokens, units }: Usage, unit: Unit): number | undefined {
  const sum = inputTokens === undefined && outputTokens === undefined ? undefined : (inputTokens ?? 0) + (outputTokens ?? 0);
  const own = { inputTokens, outputTokens, tokens: sum } as Partial<Record<Unit, number>>;
  const said = units?.[unit] ?? own[unit];
  return said !== undefined && said >= 0 ? said : undefined;
}

describe('the units of a job', () => {
  it('are charged, settled and given back each for itself, here and above', () => {
    fc.assert(
      fc.property(costs, fc.array(usages, { maxLength: 3 }), fc.boolean(), fc.boolean(), (cost, settled, refunds, isUnused) => {
        virtualTime(() => {
          const above = counting({ refunds });
          const below = childOf(above, {
            rates: UNITS.map((unit) => slidingWindow({ unit, amount: 1000, windowMs: 60_000 })),
            headroom: 1,
            refunds,
          });
          const lease = below.tryAcquire({ cost }) as Lease;
          const paid = meant(cost);
          expect([spent(below), spent(above)]).toEqual([paid, paid]);
          for (const usage of settled) {
            lease.settle(usage);
            for (const unit of UNITS) {
              const used = reported(usage, unit);
              if (used !== undefined && (refunds || used > paid[unit])) paid[unit] = used;
            }
            expect([spent(below), spent(above)]).toEqual([paid, paid]);
          }
          lease.release(isUnused ? 'unused' : 'ok');
          const left = isUnused ? meant({ requests: 0 }) : paid;
          expect([spent(below), spent(above)]).toEqual([left, left]);
        });
      }),
      { numRuns: draws(150, 1000) },
    );
  });

  it('are remembered by `save`', () => {
    virtualTime(() => {
      const first = counting();
      first.tryAcquire({ cost: { inputTokens: 30, outputTokens: 70 } });
      expect(spent(counting({ restore: first.save() }))).toEqual(meant({ inputTokens: 30, outputTokens: 70 }));
    });
  });

  it('are those of a key under a keyed limiter', () => {
    virtualTime(() => {
      const tenants = keyedLimiter({ rates: [slidingWindow({ unit: 'outputTokens', amount: 100, windowMs: 60_000 })], headroom: 1 });
      const ask = (key: string): boolean => tenants.tryAcquire({ key, cost: { inputTokens: 900, outputTokens: 60 } }) !== undefined;
      expect([ask('a'), ask('a'), ask('b')]).toEqual([true, false, true]);
    });
  });

  it('keep a job waiting until the scarcest of them can pay', () => {
    virtualTime(({ now, flush }) => {
      const rates = [perMinute('inputTokens', 60_000, { burst: 1000 }), perMinute('outputTokens', 6000, { burst: 100 })];
      const limiter = createLimiter({ rates, headroom: 1 });
      const at: number[] = [];
      for (let i = 0; i < 3; i++) limiter.acquire({ cost: { inputTokens: 100, outputTokens: 100 } }).subscribe(() => at.push(now()));
      expect(limiter.snapshot()).toMatchObject({ queued: 2, heldByRate: 2 });
      flush();
      expect(at).toEqual([0, 1000, 2000]);
    });
  });

  it('are named by the error of a job that can never be paid', async () => {
    const limiter = createLimiter({ rates: [refusing(perMinute('outputTokens', 600))] });
    const error: unknown = await limiter.acquireAsync({ cost: { inputTokens: 5, outputTokens: 100 } }).catch((thrown: unknown) => thrown);
    expect(isFlowError(error, 'FLOW_ITEM_TOO_HEAVY') && [error.unit, error.message]).toEqual([
      'outputTokens',
      expect.stringContaining('an item weighs 100 outputTokens, more than the limit of 18'),
    ]);
  });
});

describe('a bid', () => {
  it('is of input, beside which output is reserved; what is affordable is the least of all', () => {
    virtualTime(() => {
      const limiter = counting();
      const asked: number[] = [];
      limiter.tryAcquire({ cost: { inputTokens: 300 } });
      limiter.enlist({
        bid: (affordable) => {
          asked.push(affordable);
          return 100;
        },
        units: { outputTokens: 50 },
        granted: () => undefined,
        refused: () => undefined,
      });
      expect(asked).toEqual([650]);
      expect(spent(limiter)).toEqual({ requests: 2, tokens: 450, inputTokens: 400, outputTokens: 50, images: 0 });
      expect(childOf(limiter).tokenCapacity).toBe(1000);
      const narrow = createLimiter({ rates: [slidingWindow({ unit: 'inputTokens', amount: 70, windowMs: 1000 })], headroom: 1 });
      expect([narrow.tokenCapacity, childOf(narrow).tokenCapacity]).toEqual([70, 70]);
    });
  });
});

describe('an absurd estimate', () => {
  const absurd = { inputTokens: 10, outputTokens: 1e9 };

  it.each([
    ['a bucket', [perMinute('tokens', 6000)]],
    ['a bucket of the output', [perMinute('outputTokens', 6000), perMinute('inputTokens', 60_000)]],
    ['a bucket of an hour', [tokenBucket({ unit: 'outputTokens', amount: 6000, windowMs: 3_600_000 })]],
    ['a short window', [tokenBucket({ unit: 'tokens', amount: 100, windowMs: 1000 })]],
    ['two windows', [tokenBucket({ unit: 'tokens', amount: 100, windowMs: 1000 }), perMinute('tokens', 6000)]],
  ])('stops %s for one window at most, and is told', (_, rates) => {
    virtualTime(({ now, flush }) => {
      const events: FlowEvent[] = [];
      const limiter = createLimiter({ rates, headroom: 1, onEvent: (event) => events.push(event) });
      const lease = limiter.tryAcquire({ cost: absurd });
      lease?.release();
      limiter.acquire({ cost: { outputTokens: 1 } }).subscribe();
      flush();
      expect(now()).toBeLessThanOrEqual(Math.max(60_000, ...rates.map(({ windowMs }) => windowMs)));
      const clamped = events.filter(({ type }) => type === 'costClamped');
      expect(clamped).toHaveLength(1);
      expect(clamped[0]).toMatchObject({ unit: rates[0]?.unit, charged: 6000 });
    });
  });

  it('of more than any model takes costs no more than that where the window is larger', () => {
    virtualTime(() => {
      const limiter = createLimiter({ rates: [tokenBucket({ unit: 'tokens', amount: 1e9, windowMs: 86_400_000 })], headroom: 1 });
      const full = limiter.snapshot().tokens;
      limiter.tryAcquire({ cost: absurd });
      expect(limiter.snapshot().tokens).toBe(full - 10_000_000);
    });
  });

  it('is corrected as any other', () => {
    virtualTime(() => {
      const limiter = createLimiter({ rates: [perMinute('tokens', 6000)], headroom: 1 });
      const lease = limiter.tryAcquire({ cost: absurd });
      lease?.settle({ inputTokens: 10, outputTokens: 5 });
      expect(limiter.snapshot().tokens).toBe(200 - 15);
      lease?.release('unused');
      expect(limiter.snapshot().tokens).toBe(200);
    });
  });
});

describe('headers', () => {
  const headers = {
    'anthropic-ratelimit-input-tokens-limit': '60000',
    'anthropic-ratelimit-input-tokens-remaining': '50000',
    'anthropic-ratelimit-output-tokens-limit': '6000',
    'anthropic-ratelimit-output-tokens-remaining': '20',
    'anthropic-ratelimit-tokens-limit': '6000',
    'anthropic-ratelimit-tokens-remaining': '20',
  };

  it('teach the unit that they name', () => {
    virtualTime(() => {
      const limiter = createLimiter({ learn: fromHeaders(), headroom: 1, queue: lanes([{ name: 'all' }]) });
      const lease = limiter.tryAcquire({ cost: { inputTokens: 100, outputTokens: 10 } });
      limiter.tryAcquire({ cost: { inputTokens: 500, outputTokens: 5 } });
      lease?.observe({ status: 200, headers });
      const rates = limiter.snapshot().rates.map(({ unit, amount, left }) => [unit, amount, left]);
      // 5 of the output were reserved since that request was sent.
      expect(rates).toEqual([
        ['inputTokens', 60_000, 2000],
        ['outputTokens', 6000, 15],
      ]);
      expect(limiter.snapshot().tokensPerMinute).toBe(Infinity);
    });
  });

  it('of a 529 teach nothing, and pause as long as they say', () => {
    virtualTime(() => {
      const limiter = createLimiter({ learn: fromHeaders() });
      limiter.observe({ status: 529, headers });
      expect(limiter.snapshot()).toMatchObject({ rates: [], pausedForMs: 0 });
      limiter.observe({ status: 529, headers: { ...headers, 'retry-after': '3' } });
      expect(limiter.snapshot()).toMatchObject({ rates: [], pausedForMs: 3000 });
    });
  });
});

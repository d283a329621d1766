import fc from 'fast-check';
import { VirtualTimeScheduler } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { FlowEvent, Limiter, LimiterJob, LimiterOptions, RateRule } from '../../operators/index.js';
import { createLimiter, fromHeaders, memoryStore, perMinute, shared, slidingWindow, tokenBucket } from '../../operators/index.js';
import { SlidingWindow, TokenBucket } from '../../operators/kernel/index.js';
import type { RateSnapshot } from '../../operators/options/limiter.js';
import { canPay } from '../support/can-pay.js';
import { refusing } from '../support/refusing.js';

/** A limiter of this rate alone, and its clock. */
function limited(rate: RateRule, options: LimiterOptions = {}): { readonly limiter: Limiter; readonly clock: VirtualTimeScheduler } {
  const clock = new VirtualTimeScheduler();
  const isStopped = (rate as unknown as { readonly amount: number }).amount === 0;
  const rates = isStopped ? [] : [rate];
  const limiter = createLimiter({ rates, headroom: 1, learn: fromHeaders(), random: () => 0, scheduler: clock, ...options });
  // At creation none may be 0.
  if (isStopped) limiter.setLimits({ rates: [rate] });
  return { limiter, clock };
}

const tokens = (count: number): LimiterJob => ({ cost: { tokens: count } });
const own = (limiter: Limiter): RateSnapshot => limiter.snapshot().rates[0] as RateSnapshot;

/** What a job is told that may not wait: which limit is in the way, and for how long. */
function refusal(limiter: Limiter, job: LimiterJob): unknown {
  let told: unknown;
  limiter.acquire({ ...job, deadlineMs: 0 }).subscribe({
    error: ({ code, limit, retryAfterMs, weight, maxWeight }: Record<string, unknown>) => {
      told = code === 'FLOW_RATE_LIMITED' ? [limit, retryAfterMs] : [code, weight, maxWeight];
    },
  });
  return told;
}

/** A response that reports limits. */
const report = (headers: Record<string, string>) => ({
  status: 200,
  headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [`x-ratelimit-${name}`, value])),
});

describe('a rate', () => {
  it('is a bucket or a window of its own numbers, whatever is asked, paid, corrected and given back', () => {
    const steps = fc.array(
      fc.record({
        do: fc.constantFrom('take', 'take', 'settle', 'unused'),
        waitMs: fc.nat({ max: 3000 }),
        cost: fc.nat({ max: 40 }),
        which: fc.nat({ max: 3 }),
      }),
      { maxLength: 40, size: 'max' },
    );
    const kinds = fc.constantFrom('bucket', 'burst', 'strict');
    fc.assert(
      fc.property(steps, kinds, fc.constantFrom(5000, 60_000), fc.constantFrom(0.5, 1), (script, kind, windowMs, headroom) => {
        const quota = { unit: 'tokens', amount: 60, windowMs };
        const rate = kind === 'strict' ? slidingWindow(quota) : tokenBucket({ ...quota, ...(kind === 'burst' && { burst: 20 }) });
        const perMinuteNow = ((60 * 60_000) / windowMs) * headroom;
        const meter =
          kind === 'strict'
            ? new SlidingWindow(perMinuteNow, 60 * headroom, 0)
            : new TokenBucket(perMinuteNow, kind === 'burst' ? 20 : perMinuteNow / 30, 0);
        const { limiter, clock } = limited(rate, { headroom });
        const paid: {
          readonly lease: { settle: (usage: { inputTokens: number }) => void; release: (how: 'unused') => void };
          readonly cost: number;
          readonly at: number;
        }[] = [];
        const [actual, expected]: [unknown[], unknown[]] = [[], []];
        for (const step of script) {
          clock.frame += step.waitMs;
          const now = clock.frame;
          const { cost } = step;
          if (step.do === 'take') {
            const lease = limiter.tryAcquire(tokens(cost));
            const isTooHeavy = kind === 'strict' && cost > meter.capacity;
            const isPayable = !isTooHeavy && canPay(meter, cost, now);
            actual.push(lease !== undefined);
            expected.push(isPayable);
            if (lease) {
              // Nothing is estimated to cost more than a minute brings in.
              const charged = Math.min(cost, Math.max(meter.capacity, perMinuteNow));
              meter.pay(charged, now);
              paid.push({ lease, cost: charged, at: now });
            } else if (!isTooHeavy) {
              actual.push(refusal(limiter, tokens(cost)));
              expected.push([windowMs === 60_000 ? 'tokensPerMinute' : 'tokens per 5000 ms', meter.payableAt(cost, now) - now]);
            }
          } else {
            const [one] = paid.splice(step.which, 1);
            if (one) meter.correct(step.do === 'settle' ? cost - one.cost : -one.cost, one.at, now);
            if (step.do === 'settle') one?.lease.settle({ inputTokens: cost });
            else one?.lease.release('unused');
          }
          const left = meter.level(now);
          actual.push({ rate: own(limiter), load: limiter.load, most: limiter.tokenCapacity });
          expected.push({
            rate: { ...quota, left },
            load: Math.min(1, Math.max(0, 1 - left / meter.capacity)),
            most: meter.capacity,
          });
        }
        expect(actual).toEqual(expected);
        expect(limiter.snapshot().tokensPerMinute).toBe((60 * 60_000) / windowMs);
      }),
      { numRuns: 60 },
    );
  });

  it.each<[string, RateRule, number]>([
    ['two seconds of a minute', perMinute('tokens', 600), 20],
    ['two seconds of a second', tokenBucket({ unit: 'tokens', amount: 10, windowMs: 1000 }), 20],
    ['at least one', perMinute('tokens', 6), 1],
    ['its burst', perMinute('tokens', 600, { burst: 50 }), 50],
    ['at least one of a burst', perMinute('tokens', 600, { burst: 0.5 }), 1],
    ['a window that is strict', slidingWindow({ unit: 'tokens', amount: 30, windowMs: 5000 }), 30],
    ['at least one of a window', slidingWindow({ unit: 'tokens', amount: 0.5, windowMs: 5000 }), 1],
    ['anything when it has no end', perMinute('tokens', Infinity), Infinity],
    ['anything when it has no end, whatever its burst', refusing(perMinute('tokens', Infinity, { burst: 50 })), Infinity],
    ['anything when it is stopped, and borrows', perMinute('tokens', 0), Infinity],
    ['anything when it is stopped', slidingWindow({ unit: 'tokens', amount: 0, windowMs: 5000 }), Infinity],
    ['anything when it has no end and is strict', slidingWindow({ unit: 'tokens', amount: Infinity, windowMs: 5000 }), Infinity],
  ])('can save up %s', (_, rate, most) => {
    const { limiter } = limited(rate);
    expect([limiter.tokenCapacity, own(limiter).left]).toEqual([most, own(limiter).amount === 0 ? 0 : most]);
  });

  it('saves up less by its headroom, but for a burst', () => {
    const headroom = 0.5;
    const most = (rate: RateRule): number => limited(rate, { headroom }).limiter.tokenCapacity;
    const quota = { unit: 'tokens', amount: 600, windowMs: 60_000 };
    expect([most(tokenBucket(quota)), most(tokenBucket({ ...quota, burst: 50 })), most(slidingWindow(quota))]).toEqual([10, 50, 300]);
  });

  it('refuses what costs more than it can ever save up, when it does not borrow', () => {
    const { limiter } = limited(refusing(perMinute('tokens', 600)));
    expect([limiter.borrows, refusal(limiter, tokens(21)), limiter.tryAcquire(tokens(20)) !== undefined]).toEqual([
      false,
      ['FLOW_ITEM_TOO_HEAVY', 21, 20],
      true,
    ]);
    // What was learned, a stop and the end of all limits make nothing too heavy.
    limiter.observe(report({ 'limit-tokens': '300' }));
    expect([limiter.tokenCapacity, refusal(limiter, tokens(20))]).toEqual([20, ['tokensPerMinute', 2000]]);
    for (const amount of [0, Infinity]) {
      limiter.setLimits({ rates: [refusing(perMinute('tokens', amount))] });
      expect(limiter.tokenCapacity).toBe(Infinity);
    }
    const lender = limited(perMinute('tokens', 600)).limiter;
    expect([lender.borrows, lender.tryAcquire(tokens(50)) !== undefined, own(lender).left]).toEqual([true, true, -30]);
  });

  it('counts a unit of its own, of which a job costs nothing unless it says so', () => {
    const { limiter } = limited(tokenBucket({ unit: 'images', amount: 60, windowMs: 60_000, burst: 2 }));
    limiter.tryAcquire();
    limiter.tryAcquire(tokens(5));
    limiter.tryAcquire({ cost: { images: 0.5 } });
    expect([own(limiter).left, refusal(limiter, { cost: { images: 2 } })]).toEqual([1.5, ['imagesPerMinute', 500]]);
    const odd = limited(tokenBucket({ unit: 'constructor', amount: 60, windowMs: 60_000, burst: 2 })).limiter;
    odd.tryAcquire({ cost: { requests: 3 } });
    odd.tryAcquire({ cost: { constructor: 1 } });
    expect(own(odd).left).toBe(1);
    const requests = limited(perMinute('requests', 60, { burst: 9 })).limiter;
    requests.tryAcquire();
    requests.tryAcquire({ cost: { requests: 3, tokens: 7 } });
    expect(own(requests).left).toBe(5);
  });

  it('of a unit of its own may be less than 1; of requests and tokens it lets one pass at a time', () => {
    const small = { unit: 'usd', amount: 0.5, windowMs: 1000 };
    const most = (rate: RateRule, headroom = 1): number => own(limited(rate, { headroom }).limiter).left;
    expect([most(slidingWindow(small)), most(tokenBucket(small)), most(tokenBucket({ ...small, burst: 0.1 }))]).toEqual([0.5, 1, 0.1]);
    // One whole unit is the least as well, where the amount is larger.
    expect([0.5, 1, 2].map((amount) => most(slidingWindow({ ...small, amount }), 0.9))).toEqual([0.5, 1, 1.8]);
    expect(most(tokenBucket({ ...small, amount: 0.5, windowMs: 60_000 }))).toBe(0.5);
    expect(refusal(limited(slidingWindow(small)).limiter, { cost: { usd: 0.9 } })).toEqual(['FLOW_ITEM_TOO_HEAVY', 0.9, 0.5]);
    for (const unit of ['requests', 'tokens'])
      expect([
        most(slidingWindow({ ...small, unit })),
        most(tokenBucket({ ...small, unit, windowMs: 60_000 })),
        most(tokenBucket({ ...small, unit, burst: 0.1 })),
      ]).toEqual([1, 1, 1]);
  });

  it('lets nothing pass at 0, and keeps what was saved up and owed for later', () => {
    const { limiter, clock } = limited(perMinute('tokens', 600, { burst: 40 }));
    limiter.tryAcquire(tokens(20));
    limiter.setLimits({ rates: [perMinute('tokens', 0, { burst: 40 })] });
    expect([own(limiter).left, limiter.load, limiter.snapshot().tokensPerMinute]).toEqual([0, 1, 0]);
    expect([refusal(limiter, tokens(1)), refusal(limiter, tokens(0))]).toEqual(Array(2).fill(['tokensPerMinute', Infinity]));
    clock.frame = 1000;
    limiter.setLimits({ rates: [perMinute('tokens', 600, { burst: 40 })] });
    expect([own(limiter).left, limiter.load]).toEqual([30, 0.25]);
    clock.frame = 2000;
    limiter.tryAcquire(tokens(90));
    limiter.setLimits({ rates: [perMinute('tokens', 0)] });
    expect(own(limiter).left).toBe(-50);
  });

  it('has paid nothing for who went before it was there, and takes nothing back at 0', () => {
    const { limiter } = limited(perMinute('requests', Infinity));
    const [one, other] = [limiter.tryAcquire(tokens(5)), limiter.tryAcquire(tokens(5))];
    limiter.setLimits({ rates: [perMinute('tokens', 0)] });
    one?.settle({ inputTokens: 20_000_000 });
    other?.release('unused');
    expect(limiter.snapshot().tokens).toBe(0);
    limiter.setLimits({ rates: [perMinute('tokens', 600)] });
    expect(limiter.snapshot().tokens).toBe(20);
  });

  const setting = fc.record({
    kind: fc.constantFrom('per', 'strict'),
    unit: fc.constantFrom('requests', 'tokens', 'usd'),
    /** Of a rate that was there before the leases, if any. */
    before: fc.constantFrom(undefined, 0, Infinity),
    others: fc.boolean(),
    waitMs: fc.constantFrom(0, 1, 500),
    how: fc.constantFrom('unused', 'settle'),
  });

  it('gives nothing back of what was granted before there was a limit', () => {
    fc.assert(
      fc.property(setting, ({ kind, unit, before, others, waitMs, how }) => {
        const rate = (amount: number): RateRule => {
          const quota = { unit, amount, windowMs: 10_000 };
          return kind === 'strict' ? slidingWindow(quota) : tokenBucket({ ...quota, burst: 10 });
        };
        const clock = new VirtualTimeScheduler();
        // One of another window is limited all the time, or there is none.
        const rates = others ? [tokenBucket({ unit, amount: 1e6, windowMs: 1000, burst: 1e6 })] : [];
        if (before === Infinity) rates.push(rate(before));
        const limiter = createLimiter({ rates, headroom: 1, scheduler: clock });
        const job = (): LimiterJob => ({
          cost: { tokens: 1, ...(limiter.snapshot().rates.some((each) => each.unit === 'usd') && { usd: 1 }) },
        });
        const old = Array.from({ length: 20 }, () => limiter.tryAcquire(job()));
        if (before === 0) limiter.setLimits({ rates: [rate(0)] });
        clock.frame += waitMs;
        limiter.setLimits({ rates: [rate(10)] });
        const took = (): number => {
          let leases = 0;
          while (limiter.tryAcquire(job())) leases++;
          return leases;
        };
        const first = took();
        for (const lease of old) {
          if (how === 'unused') lease?.release('unused');
          else lease?.settle({ inputTokens: 0 });
        }
        expect([first, took()]).toEqual([10, 0]);
      }),
      { numRuns: 150 },
    );
  });

  const added = fc.record({
    base: fc.constantFrom(0, 1_790_000_000_000),
    kind: fc.constantFrom('strict', 'bucket'),
    isFirst: fc.boolean(),
    waits: fc.tuple(fc.nat({ max: 20 }), fc.nat({ max: 20 })),
    usages: fc.array(fc.nat({ max: 1000 }), { maxLength: 6 }),
    isUnused: fc.boolean(),
  });

  it('is paid what a lease from before it used above its estimate, in the end, by whatever way it came there', () => {
    fc.assert(
      fc.property(added, ({ base, kind, isFirst, waits: [before, after], usages, isUnused }) => {
        const clock = Object.assign(new VirtualTimeScheduler(), { frame: base });
        const limiter = createLimiter({ rates: isFirst ? [] : [perMinute('requests', 1000)], headroom: 1, scheduler: clock });
        const lease = limiter.tryAcquire({ cost: { tokens: 500 } });
        clock.frame += before;
        const amount = 10_000;
        limiter.setLimits({
          // A bucket that does not fill while it is looked at.
          rates: [
            kind === 'strict'
              ? slidingWindow({ unit: 'tokens', amount, windowMs: 60_000 })
              : tokenBucket({ unit: 'tokens', amount, windowMs: 1e12, burst: amount }),
          ],
        });
        limiter.tryAcquire({ cost: { tokens: 5000 } });
        clock.frame += after;
        for (const inputTokens of usages) lease?.settle({ inputTokens });
        const above = Math.max(0, (usages.at(-1) ?? 0) - 500);
        expect(limiter.snapshot().tokens).toBeCloseTo(5000 - above, 3);
        if (isUnused) lease?.release('unused');
        expect(limiter.snapshot().tokens).toBeCloseTo(isUnused ? 5000 : 5000 - above, 3);
      }),
      { numRuns: 300 },
    );
  });

  it('does not read the clock for a job without limits', () => {
    let looks = 0;
    const limiter = createLimiter({
      rates: [perMinute('tokens', Infinity)],
      scheduler: Object.assign(new VirtualTimeScheduler(), { now: () => looks++ }),
    });
    looks = 0;
    limiter.tryAcquire(tokens(5))?.release();
    expect(looks).toBe(0);
  });

  it('of another unit has no say in what a usage of tokens costs', () => {
    const { limiter } = limited(perMinute('tokens', 30_000_000, { burst: 30_000_000 }), {});
    limiter.setLimits({ rates: [perMinute('requests', 60)] });
    limiter.tryAcquire(tokens(100))?.settle({ inputTokens: 20_000_000 });
    expect(limiter.snapshot().tokens).toBe(10_000_000);
  });

  it.each(['per', 'strict'])('knows what was spent before its limit was lifted, and counts nothing of what goes meanwhile: %s', (kind) => {
    const rate = (amount: number): RateRule => {
      const quota = { unit: 'tokens', amount, windowMs: 10_000 };
      return kind === 'strict' ? slidingWindow(quota) : tokenBucket({ ...quota, burst: 20 });
    };
    const { limiter, clock } = limited(rate(20));
    limiter.tryAcquire(tokens(15));
    limiter.setLimits({ rates: [rate(Infinity)] });
    expect([limiter.load, own(limiter), limiter.tryAcquire(tokens(1e6)) !== undefined]).toEqual([
      0,
      { unit: 'tokens', windowMs: 10_000, amount: Infinity, left: Infinity },
      true,
    ]);
    limiter.setLimits({ rates: [rate(20)] });
    expect(own(limiter)).toMatchObject({ amount: 20, left: 5 });
    limiter.setLimits({ rates: [rate(Infinity)] });
    clock.frame = 10_000;
    limiter.setLimits({ rates: [rate(20)] });
    expect(own(limiter).left).toBe(20);
  });

  it('takes what was learned per minute where it is less, for its own window and burst', () => {
    const learned = (rate: RateRule, perMinuteNow: number): unknown[] => {
      const { limiter } = limited(rate);
      limiter.observe(report({ 'limit-tokens': String(perMinuteNow) }));
      return [own(limiter).amount, limiter.snapshot().tokensPerMinute, limiter.tokenCapacity];
    };
    const quota = { unit: 'tokens', amount: 100, windowMs: 10_000 };
    expect(learned(tokenBucket(quota), 300)).toEqual([50, 300, 10]);
    expect(learned(tokenBucket(quota), 900)).toEqual([100, 600, 20]);
    expect(learned(tokenBucket({ ...quota, burst: 30 }), 300)).toEqual([50, 300, 15]);
    expect(learned(tokenBucket({ ...quota, amount: Infinity, burst: 30 }), 300)).toEqual([50, 300, 30]);
    expect(learned(slidingWindow({ ...quota, amount: Infinity }), 300)).toEqual([50, 300, Infinity]);
    const window = limited(slidingWindow(quota)).limiter;
    window.observe(report({ 'limit-tokens': '300' }));
    expect([window.tokenCapacity, own(window).left]).toEqual([100, 50]);
  });

  it('lowers what is saved up to what is reported as left, and what came in since; it never raises it', () => {
    const { limiter, clock } = limited(perMinute('tokens', 600, { burst: 50 }), { headroom: 0.5 });
    const lease = limiter.tryAcquire(tokens(10));
    const left = (remaining: number): number => {
      lease?.observe(report({ 'limit-tokens': '600', 'remaining-tokens': String(remaining) }));
      return own(limiter).left;
    };
    expect([left(45), left(40), left(15)]).toEqual([40, 40, 15]);
    clock.frame = 1000;
    // It has 20 by itself; 5 have come in since the request.
    expect([left(15), left(10), left(3)]).toEqual([20, 15, 8]);
    // A window keeps no entry of nothing.
    const window = limited(slidingWindow({ unit: 'tokens', amount: 60, windowMs: 60_000 })).limiter;
    window.observe(report({ 'remaining-tokens': '60' }));
    expect(window.save().rates[0]?.spent).toEqual([]);
    // Without a limit there is nothing to lower.
    const endless = limited(perMinute('tokens', Infinity)).limiter;
    endless.observe(report({ 'remaining-tokens': '0' }));
    expect(own(endless).left).toBe(Infinity);
  });

  it('goes at half its rate after a refusal without a reason, and has saved up nothing when the pause is over', () => {
    const { limiter, clock } = limited(perMinute('tokens', 600, { burst: 50 }));
    limiter.observe({ status: 429, headers: {} });
    const { pausedForMs, tokensPerMinute, rates } = limiter.snapshot();
    expect([tokensPerMinute, rates[0]?.amount, limiter.tokenCapacity]).toEqual([300, 300, 50]);
    expect([pausedForMs > 0, rates[0]?.left]).toEqual([true, -pausedForMs / 200]);
    clock.frame = pausedForMs;
    expect(own(limiter).left).toBeCloseTo(0, 9);
    // A window has what it has.
    const window = limited(slidingWindow({ unit: 'tokens', amount: 60, windowMs: 60_000 })).limiter;
    window.tryAcquire(tokens(10));
    window.observe({ status: 429, headers: {} });
    expect([own(window).left, window.snapshot().tokensPerMinute]).toEqual([50, 30]);
  });

  it('takes a usage as it is, but for one that no model can have and no minute pays', () => {
    const settled = (rate: RateRule, cost: number, inputTokens: number): unknown[] => {
      const events: FlowEvent[] = [];
      const { limiter } = limited(rate, { onEvent: (event) => events.push(event) });
      limiter.tryAcquire(tokens(cost))?.settle({ inputTokens });
      return [own(limiter).left, ...events.flatMap((event) => (event.type === 'usageClamped' ? [event.reported, event.charged] : []))];
    };
    const small = perMinute('tokens', 600, { burst: 50 });
    expect(settled(small, 5, 10_000_000)).toEqual([50 - 10_000_000]);
    expect(settled(small, 5, 10_000_001)).toEqual([0, 10_000_001, 50]);
    // What was paid before stays paid.
    expect(settled(small, 70, 10_000_001)).toEqual([-20, 10_000_001, 70]);
    const large = tokenBucket({ unit: 'tokens', amount: 1_000_000, windowMs: 1000, burst: 50 });
    expect(settled(large, 5, 60_000_000)).toEqual([50 - 60_000_000]);
    expect(settled(large, 5, 60_000_001)).toEqual([0, 60_000_001, 50]);
    expect(settled(perMinute('tokens', Infinity), 5, 1e9)).toEqual([Infinity]);
    expect(settled(perMinute('tokens', 0), 5, 1e9)).toEqual([0]);
  });

  const before = [600, 60_000, false];
  it.each([
    ['the same', perMinute('tokens', 1), [[1, 60_000, false]]],
    ['another unit', perMinute('requests', 1), [before, [1, 60_000, false]]],
    ['another window', tokenBucket({ unit: 'tokens', amount: 1, windowMs: 1000 }), [before, [1, 1000, false]]],
    ['another way to count', slidingWindow({ unit: 'tokens', amount: 1, windowMs: 60_000 }), [before, [1, 60_000, true]]],
  ])('is changed by one of its unit, window and kind: %s', (_, other, rates) => {
    const { limiter } = limited(perMinute('tokens', 600));
    limiter.setLimits({ rates: [other] });
    const saved = limiter.save().rates;
    expect(limiter.snapshot().rates.map(({ amount, windowMs }, i) => [amount, windowMs, saved[i]?.isStrict])).toEqual(rates);
  });

  it('goes on from what was saved, and is as it was without', () => {
    const rate = perMinute('tokens', 600, { burst: 50 });
    const { limiter, clock } = limited(rate);
    limiter.tryAcquire(tokens(40));
    const saved = limiter.save();
    clock.frame = 1500;
    expect(own(limited(rate, { restore: saved, scheduler: clock }).limiter).left).toBe(25);
    const endless = limited(perMinute('tokens', Infinity)).limiter.save();
    expect(endless.rates[0]?.spent).toEqual([]);
    expect(own(limited(rate, { restore: endless }).limiter).left).toBe(50);
    expect(own(limited(perMinute('tokens', Infinity), { restore: saved }).limiter).left).toBe(Infinity);
  });
});

describe('what a job takes of a rate', () => {
  /** What a job of this cost has taken of a rate of this unit. */
  const taken = (unit: string, cost: Readonly<Record<string, number>>): number => {
    const { limiter } = limited(slidingWindow({ unit, amount: 1000, windowMs: 1000 }));
    limiter.tryAcquire({ cost });
    return 1000 - own(limiter).left;
  };
  const inAndOut = (cost: Readonly<Record<string, number>>): number[] => ['inputTokens', 'outputTokens'].map((unit) => taken(unit, cost));

  it('is all its tokens of input, where they say neither input nor output', () => {
    expect(inAndOut({ tokens: 50 })).toEqual([50, 0]);
  });

  it('is the rest of its tokens of input where output alone is said, and the other way round; never less than nothing', () => {
    expect(inAndOut({ tokens: 50, outputTokens: 20 })).toEqual([30, 20]);
    expect(inAndOut({ tokens: 50, inputTokens: 20 })).toEqual([20, 30]);
    expect(inAndOut({ tokens: 50, outputTokens: 60 })).toEqual([0, 60]);
    expect(inAndOut({ tokens: 50, inputTokens: 60 })).toEqual([60, 0]);
    expect(inAndOut({ tokens: 50, inputTokens: 0 })).toEqual([0, 50]);
  });

  it('is one of a unit of its own that it says, and nothing of what every object has', () => {
    expect([
      taken('images', { tokens: 50, images: 4 }),
      taken('images', { tokens: 50, inputTokens: 20 }),
      taken('toString', { tokens: 50 }),
    ]).toEqual([4, 0, 0]);
  });

  it('is its slots, where processes share them', () => {
    const store = memoryStore();
    const [one, other] = [1, 2].map(() => createLimiter({ concurrency: 9, rates: shared(store, [], { concurrency: 4 }) }));
    expect(one?.snapshot().rates.map(({ unit }) => unit)).toEqual(['slots']);
    const goes = (limiter: Limiter | undefined, slots: number): boolean => limiter?.tryAcquire({ cost: { slots } }) !== undefined;
    expect([goes(one, 3), goes(other, 2), goes(other, 1)]).toEqual([true, false, true]);
    one?.close();
    other?.close();
  });

  it.each(['inputTokens', 'outputTokens'])('of %s is corrected by no usage that no model can have', (unit) => {
    const { limiter } = limited(tokenBucket({ unit, amount: 600, windowMs: 60_000, burst: 50 }));
    limiter.tryAcquire({ cost: { [unit]: 5 } })?.settle({ [unit]: 10_000_001 });
    expect(own(limiter).left).toBe(0);
  });
});

import fc from 'fast-check';
import { from, lastValueFrom, mergeMap, range, retry, tap, timer, toArray } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { FakeProvider, FakeProviderError } from '../../marbles/fake-provider.js';
import { fakeProvider } from '../../marbles/fake-provider.js';
import { virtualTime } from '../../marbles/virtual.js';
import type { AccountOptions, FlowEvent, Lease, Limiter, LimiterJob, ResponseLike } from '../../operators/index.js';
import {
  batchMap,
  childOf,
  createAccount,
  createLimiter,
  fromHeaders,
  isFlowError,
  perMinute,
  RateLimitError,
  slidingWindow,
} from '../../operators/index.js';
import type { HeadersLike } from '../../operators/kernel/limits/headers.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { sized } from '../support/deep.js';
import { unstamped } from '../support/events.js';
import { refusing } from '../support/refusing.js';

const ok = (headers: HeadersLike): ResponseLike => ({ status: 200, headers });
const refusal = (headers: HeadersLike = {}): ResponseLike => ({ status: 429, headers });
const limited = (limit: number, remaining?: number, reset?: string): HeadersLike => ({
  'x-ratelimit-limit-requests': String(limit),
  ...(remaining !== undefined && { 'x-ratelimit-remaining-requests': String(remaining) }),
  ...(reset !== undefined && { 'x-ratelimit-reset-requests': reset }),
});

/** With a minute's worth saved up, so that what is left can be seen. */
/** What is measured here are rates: all jobs may have all of them. */
const ONE_LANE = ['all'];

const wide = (options: AccountOptions = {}): Limiter =>
  createAccount({ headroom: 1, burstSeconds: 60, lanes: ONE_LANE, random: () => 1, ...options });

/** Everything that happens to a job. */
function watch(limiter: Limiter, now: () => number, job?: LimiterJob) {
  const seen: string[] = [];
  const leases: Lease[] = [];
  limiter.acquire(job).subscribe({
    next: (lease) => {
      leases.push(lease);
      seen.push(`lease at ${String(now())}`);
    },
    error: (error: unknown) => {
      const why = error instanceof RateLimitError ? `${error.limit} ${String(error.retryAfterMs)}` : isFlowError(error) && error.code;
      seen.push(`${String(why)} at ${String(now())}`);
    },
  });
  return { seen, leases };
}

/** Makes so many calls, each again until it is answered, and shows each response to its lease. */
function callAll(limiter: Limiter, provider: FakeProvider<number, number>, calls: number) {
  return range(calls).pipe(
    mergeMap((item) =>
      limiter
        .run(({ lease, signal }) =>
          provider.workOne(item, {
            signal,
            observe: (response) => {
              lease.observe(response);
            },
          }),
        )
        .pipe(retry({ delay: (error: FakeProviderError) => (error.status === 429 ? timer(10) : Promise.reject(error)) })),
    ),
    toArray(),
  );
}

describe('an account with a lower limit than was configured', () => {
  it.each(['openai', 'anthropic'] as const)('gets no further 429 after the first responses (%s)', (rateHeaders) => {
    virtualTime(({ flush, now }) => {
      const provider = fakeProvider({ answer: (item: number) => item, requestsPerMinute: 60, latencyMs: 300, rateHeaders });
      const limiter = createAccount({ requestsPerMinute: 6000 });
      let answers: number[] = [];
      callAll(limiter, provider, 240).subscribe((all) => (answers = all));
      flush();
      expect(answers.sort((a, b) => a - b)).toEqual(Array.from({ length: 240 }, (_, i) => i));
      const refusals = provider.calls.filter(({ fate }) => fate === 'throttled').map(({ startedAt }) => startedAt);
      expect(refusals.length).toBeGreaterThan(0);
      // All of them went out before anything was known.
      expect(Math.max(...refusals)).toBeLessThanOrEqual(300);
      // 240 at 54 a minute, the first 60 for nothing.
      expect(now()).toBeLessThan(((240 - 60) / 54) * 60_000 * 1.05);
      expect(limiter.snapshot().requestsPerMinute).toBe(60);
    });
  });

  it('is not overrun by a limiter without any rate either', () => {
    virtualTime(({ flush }) => {
      const provider = fakeProvider({ answer: (item: number) => item, requestsPerMinute: 600, latencyMs: 200, rateHeaders: 'openai' });
      const limiter = createAccount({ concurrency: 50, maxQueued: Infinity });
      let answers = 0;
      callAll(limiter, provider, 1200).subscribe((all) => (answers = all.length));
      flush();
      expect([answers, provider.refused]).toEqual([1200, 0]);
    });
  });

  it('is not overrun in tokens', () => {
    virtualTime(({ flush, now }) => {
      const provider = fakeProvider({
        answer: (item: number) => item,
        tokensPerMinute: 6000,
        tokensOf: () => 100,
        latencyMs: 200,
        rateHeaders: 'openai',
      });
      const limiter = createAccount({ concurrency: 8 });
      const results: number[] = [];
      range(180)
        .pipe(batchMap(provider.work, { limiter, maxSize: 1, weigh: () => 100 }))
        .subscribe((settled) => results.push(settled.status === 'fulfilled' ? settled.value : -1));
      flush();
      expect([results.filter((result) => result >= 0).length, provider.refused]).toEqual([180, 0]);
      expect(limiter.snapshot()).toMatchObject({ tokensPerMinute: 6000, requestsPerMinute: Infinity });
      expect(now()).toBeGreaterThan(110_000);
    });
  });
});

describe('a reported limit', () => {
  it('is adopted without a configured one, and the lower of the two counts with one', () => {
    virtualTime(() => {
      const rates = (options: AccountOptions, reported: number): number => {
        const limiter = wide(options);
        limiter.observe(ok(limited(reported)));
        return limiter.snapshot().requestsPerMinute;
      };
      expect(rates({}, 60)).toBe(60);
      expect(rates({ requestsPerMinute: 100 }, 60)).toBe(60);
      expect(rates({ requestsPerMinute: 100 }, 5000)).toBe(100);
      expect(rates({ learn: false }, 60)).toBe(Infinity);
    });
  });

  it('is followed up again, to the configured one at most, and only so far as `setLimits` allows', () => {
    virtualTime(() => {
      const limiter = wide({ requestsPerMinute: 100 });
      const now = (): number => limiter.snapshot().requestsPerMinute;
      limiter.observe(ok(limited(60)));
      limiter.observe(ok(limited(80)));
      expect(now()).toBe(80);
      limiter.observe(ok(limited(500)));
      expect(now()).toBe(100);
      limiter.setLimits({ rates: [perMinute('requests', 1000)] });
      expect(now()).toBe(500);
      limiter.setLimits({ rates: [perMinute('requests', 40)] });
      expect(now()).toBe(40);
      limiter.setLimits({ rates: [perMinute('requests', Infinity)] });
      expect(now()).toBe(500);
    });
  });

  it('is held with the headroom', () => {
    virtualTime(() => {
      const limiter = wide({ headroom: 0.5 });
      limiter.observe(ok(limited(60)));
      expect(limiter.snapshot()).toMatchObject({ requestsPerMinute: 60, requests: 30 });
    });
  });

  it('grants waiting jobs earlier when it is higher, and later when it is lower', () => {
    virtualTime(({ advance, flush, now }) => {
      const limiter = createAccount({ headroom: 1, burstSeconds: 1, lanes: ONE_LANE });
      limiter.observe(ok(limited(60)));
      limiter.tryAcquire();
      const [first, second] = [watch(limiter, now), watch(limiter, now)];
      advance(500);
      limiter.observe(ok(limited(120)));
      flush();
      expect([first.seen, second.seen]).toEqual([['lease at 750'], ['lease at 1250']]);
    });
  });

  it('tells its listeners', () => {
    virtualTime(({ flush }) => {
      const limiter = wide();
      let told = 0;
      limiter.watch(() => told++);
      limiter.observe(ok(limited(60)));
      expect(told).toBe(0);
      flush();
      limiter.observe(ok(limited(60)));
      flush();
      expect(told).toBe(1);
    });
  });

  it('makes no job too heavy: what was allowed by the user waits for its turn', () => {
    virtualTime(({ flush, now }) => {
      const rates = [refusing(perMinute('tokens', 60_000, { burst: 1000 }))];
      const limiter = createLimiter({ rates, headroom: 1, learn: fromHeaders() });
      limiter.observe(ok({ 'x-ratelimit-limit-tokens': '6000' }));
      expect(limiter.tokenCapacity).toBe(1000);
      const jobs = [watch(limiter, now, { cost: { tokens: 1000 } }), watch(limiter, now, { cost: { tokens: 1000 } })];
      flush();
      expect(jobs.map(({ seen }) => seen)).toEqual([['lease at 0'], ['lease at 10000']]);
      expect(watch(limiter, now, { cost: { tokens: 1001 } }).seen).toEqual(['FLOW_ITEM_TOO_HEAVY at 10000']);
    });
  });

  it('is held in any minute by a sliding window', () => {
    virtualTime(({ flush, now }) => {
      const rates = [slidingWindow({ unit: 'requests', amount: 600, windowMs: 60_000 })];
      const limiter = createLimiter({ rates, headroom: 1, learn: fromHeaders() });
      limiter.observe(ok(limited(3)));
      const jobs = Array.from({ length: 7 }, () => watch(limiter, now));
      flush();
      expect(jobs.map(({ seen }) => seen[0])).toEqual([0, 0, 0, 60_000, 60_000, 60_000, 120_000].map((at) => `lease at ${String(at)}`));
    });
  });

  it('says nothing on other answers than successes and refusals', () => {
    virtualTime(() => {
      const limiter = wide();
      for (const status of [301, 400, 401, 404, 500, NaN]) limiter.observe({ status, headers: limited(60) });
      expect(limiter.snapshot().requestsPerMinute).toBe(Infinity);
      limiter.observe({ status: 503, headers: limited(60) });
      expect(limiter.snapshot().requestsPerMinute).toBe(60);
    });
  });

  it('of -1 is ignored', () => {
    virtualTime(() => {
      const limiter = wide({ requestsPerMinute: 100, tokensPerMinute: 1000 });
      const before = limiter.snapshot();
      const unknown = { limit: '-1', remaining: '-1', reset: '0' };
      const headers = ['requests', 'tokens'].flatMap((unit) =>
        Object.entries(unknown).map(([field, value]) => [`x-ratelimit-${field}-${unit}`, value] as const),
      );
      limiter.observe(ok(Object.fromEntries(headers)));
      limiter.tryAcquire()?.observe(ok(Object.fromEntries(headers)));
      expect(limiter.snapshot()).toEqual({ ...before, executing: 1, requests: 99, rates: expect.any(Array) as unknown });
    });
  });
});

describe('what remains', () => {
  it('lowers what is saved up, and never raises it', () => {
    virtualTime(() => {
      const limiter = wide({ requestsPerMinute: 100 });
      limiter.observe(ok(limited(100, 40)));
      expect(limiter.snapshot().requests).toBe(40);
      limiter.observe(ok(limited(100, 90)));
      expect(limiter.snapshot().requests).toBe(40);
    });
  });

  it('never brings into debt, however much was granted since', () => {
    virtualTime(({ advance }) => {
      const limiter = wide({ requestsPerMinute: 100 });
      const first = limiter.tryAcquire();
      for (let i = 0; i < 50; i++) limiter.tryAcquire();
      first?.observe(ok(limited(100, 10)));
      expect(limiter.snapshot().requests).toBe(0);
      advance(600);
      expect(limiter.tryAcquire()).toBeDefined();
    });
  });

  it('is less what was granted since the request was sent, and not what was granted before', () => {
    virtualTime(({ advance }) => {
      const limiter = wide({ requestsPerMinute: 600, tokensPerMinute: 6000 });
      for (let i = 0; i < 20; i++) limiter.tryAcquire({ cost: { tokens: 10 } });
      const lease = limiter.tryAcquire({ cost: { tokens: 10 } });
      for (let i = 0; i < 7; i++) limiter.tryAcquire({ cost: { tokens: 100 } });
      advance(1000);
      lease?.observe(ok({ ...limited(600, 100), 'x-ratelimit-limit-tokens': '6000', 'x-ratelimit-remaining-tokens': '3000' }));
      // A second has brought in 10 requests and 100 tokens.
      expect(limiter.snapshot()).toMatchObject({ requests: 100 - 7 + 10, tokens: 3000 - 700 + 100 });
    });
  });

  it('knows of corrections, and of what was given back', () => {
    virtualTime(() => {
      const limiter = wide({ tokensPerMinute: 6000 });
      const lease = limiter.tryAcquire();
      limiter.tryAcquire({ cost: { tokens: 100 } })?.settle({ inputTokens: 600 });
      limiter.tryAcquire({ cost: { tokens: 100 } })?.release('unused');
      lease?.observe(ok({ 'x-ratelimit-limit-tokens': '6000', 'x-ratelimit-remaining-tokens': '3000' }));
      expect(limiter.snapshot().tokens).toBe(2400);
    });
  });

  it('of an older request is out of date, and so is its limit', () => {
    virtualTime(({ advance }) => {
      const limiter = wide({ requestsPerMinute: 100 });
      const older = limiter.tryAcquire();
      advance(10);
      const newer = limiter.tryAcquire();
      newer?.observe(ok(limited(80, 70)));
      older?.observe(ok(limited(50, 5)));
      expect(limiter.snapshot()).toMatchObject({ requestsPerMinute: 80, requests: 70 });
      limiter.observe(ok(limited(50, 5)), { sentAt: 3 });
      expect(limiter.snapshot()).toMatchObject({ requestsPerMinute: 80, requests: 70 });
      limiter.observe(ok(limited(50, 5)), { sentAt: 1e9 });
      expect(limiter.snapshot()).toMatchObject({ requestsPerMinute: 50, requests: 5 });
      advance(1);
      // One from the future counted as one of then.
      limiter.tryAcquire()?.observe(ok(limited(60)));
      expect(limiter.snapshot().requestsPerMinute).toBe(60);
    });
  });

  it('without any rate says nothing: there is nothing to lower', () => {
    virtualTime(() => {
      const limiter = wide();
      limiter.observe(ok({ 'x-ratelimit-remaining-requests': '0', 'x-ratelimit-reset-requests': '1h' }));
      expect(limiter.snapshot()).toMatchObject({ requests: Infinity, pausedForMs: 0 });
      expect(limiter.tryAcquire()).toBeDefined();
    });
  });

  it('never raises the level and never blocks a job for good, in whatever order the answers come', () => {
    const step = fc.oneof(
      fc.record({ do: fc.constant('grant' as const), tokens: fc.nat({ max: 500 }) }),
      fc.record({ do: fc.constant('wait' as const), ms: fc.nat({ max: 3000 }) }),
      fc.record({
        do: fc.constant('answer' as const),
        which: fc.nat({ max: 20 }),
        status: fc.constantFrom(200, 200, 200, 429, 503),
        limit: fc.integer({ min: -1, max: 300 }),
        remaining: fc.integer({ min: -1, max: 300 }),
        resetMs: fc.nat({ max: 200_000 }),
      }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), fc.constantFrom(60, 600, Infinity), (steps, perMinute) => {
        virtualTime(({ advance, flush }) => {
          const limiter = createAccount({
            requestsPerMinute: perMinute,
            tokensPerMinute: perMinute * 100,
            lanes: ONE_LANE,
            random: () => 1,
          });
          const leases: Lease[] = [];
          for (const each of steps) {
            if (each.do === 'wait') advance(each.ms);
            else if (each.do === 'grant') {
              const lease = limiter.tryAcquire({ cost: { tokens: each.tokens } });
              if (lease) leases.push(lease);
            } else if (leases.length > 0) {
              const before = limiter.snapshot();
              const headers = {
                ...limited(each.limit, each.remaining, `${String(each.resetMs)}ms`),
                'x-ratelimit-remaining-tokens': String(each.remaining * 100),
              };
              leases[each.which % leases.length]?.observe({ status: each.status, headers });
              const after = limiter.snapshot();
              expect(after.requests).toBeLessThanOrEqual(before.requests);
              expect(after.tokens).toBeLessThanOrEqual(before.tokens);
              // No debt was made, but for what a pause will bring in.
              if (after.pausedForMs === before.pausedForMs) expect(after.requests).toBeGreaterThanOrEqual(Math.min(0, before.requests));
            }
          }
          let granted = 0;
          limiter.acquire({ cost: { tokens: 1 } }).subscribe(() => granted++);
          flush();
          expect(granted).toBe(1);
        });
      }),
      { numRuns: sized(80, 200) },
    );
  });
});

describe('without a configured rate', () => {
  const step = fc.oneof(
    { weight: 3, arbitrary: fc.record({ do: fc.constant('call' as const), tokens: fc.nat({ max: 300 }) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.nat({ max: 4000 }) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('settle' as const), which: fc.nat(), tokens: fc.nat({ max: 600 }) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('unused' as const), which: fc.nat() }) },
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constant('answer' as const),
        which: fc.nat(),
        isRefused: fc.boolean(),
        limit: fc.integer({ min: 100, max: 9000 }),
        remaining: fc.option(fc.nat({ max: 9000 })),
      }),
    },
  );

  it('the same is learned of any answer as below a rate that is never reached', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30, size: 'max' }), (script) => {
        const seen = [[], [perMinute('requests', 1e9), perMinute('tokens', 1e9)]].map((rates) =>
          virtualTime(({ advance, flush, now }) => {
            const limiter = createLimiter({ rates, headroom: 1, learn: fromHeaders(), random: () => 0 });
            const leases: Lease[] = [];
            const log: unknown[] = [];
            for (const each of script) {
              const lease = leases[('which' in each ? each.which : 0) % (leases.length || 1)];
              if (each.do === 'wait') advance(each.ms);
              else if (each.do === 'call') {
                const granted = limiter.tryAcquire({ cost: { tokens: each.tokens } });
                if (granted) leases.push(granted);
                log.push(granted !== undefined);
              } else if (each.do === 'settle') lease?.settle({ inputTokens: each.tokens });
              else if (each.do === 'unused') lease?.release('unused');
              else if (lease) {
                const { isRefused, limit, remaining } = each;
                const headers = { ...limited(limit, remaining ?? undefined), 'x-ratelimit-limit-tokens': String(limit * 10) };
                lease.observe(isRefused ? refusal(headers) : ok(headers));
                const { requests, tokens, pausedForMs, requestsPerMinute } = limiter.snapshot();
                log.push({ at: now(), requests, tokens, pausedForMs, requestsPerMinute });
              }
            }
            flush();
            return log;
          }),
        );
        expect(seen[0]).toEqual(seen[1]);
      }),
      { numRuns: sized(100, 400) },
    );
  });
});

describe('a refusal without a reason', () => {
  it('says the same of a halved rate in both of its figures', () => {
    const limiter = createLimiter({ rates: [perMinute('requests', 600)], learn: fromHeaders(), random: () => 1 });
    limiter.observe(refusal());
    const { requestsPerMinute, rates } = limiter.snapshot();
    expect([requestsPerMinute, rates[0]?.amount]).toEqual([300, 300]);
  });

  it('halves once for a storm of ten, and pauses all jobs', () => {
    virtualTime(({ advance, flush, now }) => {
      const events: FlowEvent[] = [];
      const limiter = wide({ requestsPerMinute: 600, onEvent: unstamped((event) => events.push(event)) });
      const leases = Array.from({ length: 10 }, () => limiter.tryAcquire());
      const job = watch(limiter, now);
      expect(job.seen).toEqual(['lease at 0']);
      for (const lease of leases) {
        advance(5);
        lease?.observe(refusal());
      }
      expect(limiter.snapshot()).toMatchObject({ requestsPerMinute: 300, pausedForMs: 200 - 45 });
      const next = watch(limiter, now);
      flush();
      // The pause, and the time of one request at the new rate: nothing was saved up.
      expect(next.seen).toEqual(['lease at 405']);
      expect(events).toEqual([{ type: 'throttled', operator: 'createLimiter', pauseMs: 200 }]);
    });
  });

  it('counts the same for answers whose request is not known', () => {
    virtualTime(({ advance }) => {
      const limiter = wide({ requestsPerMinute: 600 });
      for (let i = 0; i < 10; i++) {
        limiter.observe(refusal());
        advance(10);
      }
      expect(limiter.snapshot().requestsPerMinute).toBe(300);
      advance(100);
      limiter.observe(refusal(), { sentAt: 50 });
      expect(limiter.snapshot().requestsPerMinute).toBe(300);
      limiter.observe(refusal());
      expect(limiter.snapshot()).toMatchObject({ requestsPerMinute: 150, pausedForMs: 400 });
    });
  });

  it('is made good within a minute of successes, and by nothing else', () => {
    virtualTime(({ advance, now }) => {
      const limiter = wide({ requestsPerMinute: 600 });
      limiter.observe(refusal());
      limiter.observe(refusal(), { sentAt: 500 });
      advance(30_000);
      expect(limiter.snapshot().requestsPerMinute).toBe(300);
      const seen: number[] = [];
      limiter.observe(ok({}));
      for (let s = 0; s < 31; s++) {
        seen.push(limiter.snapshot().requestsPerMinute);
        advance(1000);
        limiter.observe(ok({}));
      }
      expect(limiter.snapshot().requestsPerMinute).toBe(600);
      expect(seen).toEqual([...seen].sort((a, b) => a - b));
      expect(now()).toBeLessThan(62_000);
    });
  });

  it('comes back to the reported limit, when that is lower', () => {
    virtualTime(({ advance }) => {
      const limiter = wide({ requestsPerMinute: 600 });
      limiter.observe(refusal(limited(60)));
      expect(limiter.snapshot().requestsPerMinute).toBe(30);
      for (let s = 0; s < 62; s++) {
        advance(1000);
        limiter.observe(ok({}));
      }
      expect(limiter.snapshot().requestsPerMinute).toBe(60);
    });
  });

  it('leaves a limiter without a rate nothing but the pause, which gets longer', () => {
    virtualTime(({ advance, now }) => {
      const limiter = wide({ concurrency: 10 });
      const pauses: number[] = [];
      for (let i = 0; i < 9; i++) {
        limiter.tryAcquire()?.observe(refusal());
        pauses.push(limiter.snapshot().pausedForMs);
        advance(pauses[i] ?? 0);
      }
      expect(pauses).toEqual([200, 400, 800, 1600, 3200, 6400, 12_800, 20_000, 20_000]);
      expect(now()).toBe(65_400);
      expect(limiter.snapshot().requestsPerMinute).toBe(Infinity);
    });
  });

  it('takes no size from the batches meanwhile', () => {
    virtualTime(() => {
      const limiter = createAccount({ tokensPerMinute: 60_000, headroom: 1, burstSeconds: 1, lanes: ONE_LANE, random: () => 1 });
      limiter.observe(refusal());
      expect([limiter.tokenCapacity, limiter.snapshot().tokensPerMinute]).toEqual([1000, 30_000]);
    });
  });

  it('is one about the wait when it says how long, and only pauses', () => {
    virtualTime(() => {
      const limiter = wide({ requestsPerMinute: 600 });
      limiter.observe(refusal({ 'retry-after': '3' }));
      expect(limiter.snapshot()).toMatchObject({ requestsPerMinute: 600, pausedForMs: 3000 });
      limiter.observe({ status: 503, headers: {} });
      expect(limiter.snapshot()).toMatchObject({ requestsPerMinute: 600, pausedForMs: 3000 });
    });
  });

  it('is nothing to a limiter that does not learn', () => {
    virtualTime(() => {
      const limiter = wide({ requestsPerMinute: 600, learn: false });
      limiter.observe(refusal());
      expect(limiter.snapshot()).toMatchObject({ requestsPerMinute: 600, pausedForMs: 0 });
      limiter.observe(refusal({ 'retry-after-ms': '70' }));
      expect(limiter.snapshot().pausedForMs).toBe(70);
    });
  });

  it('needs a source of randomness that works', () => {
    const limiter = createAccount({ random: () => 5 });
    expect(() => {
      limiter.observe(refusal());
    }).toThrow('createLimiter: `random`');
  });

  it('lets an account of unknown limit and without any headers be served whole', () => {
    virtualTime(({ flush, now }) => {
      const provider = fakeProvider({ answer: (item: number) => item, requestsPerMinute: 600, burstSeconds: 1, latencyMs: 50 });
      const limiter = createAccount({ concurrency: 20, requestsPerMinute: 6000, random: () => 1 });
      let done = 0;
      range(300)
        .pipe(
          mergeMap((item) =>
            limiter
              .run(({ lease, signal }) =>
                provider.workOne(item, { signal }).pipe(
                  tap({
                    next: () => {
                      lease.observe(ok({}));
                    },
                    error: (error: unknown) => {
                      lease.observe({ status: (error as FakeProviderError).status ?? 0, headers: {} });
                    },
                  }),
                ),
              )
              .pipe(retry({ delay: () => timer(100) })),
          ),
        )
        .subscribe(() => done++);
      flush();
      expect(done).toBe(300);
      // 29 s at best, with one refusal in each epoch. Without the pauses there would be one every tenth of a second for each of the 20 slots.
      expect(now()).toBeLessThan(32_000);
      expect(provider.refused).toBeLessThan(40);
    });
  });
});

describe('a hint', () => {
  const DAY = { 'retry-after': '86400' };

  it('is never made shorter by a shorter one', () => {
    virtualTime(() => {
      const limiter = wide();
      limiter.observe(refusal({ 'retry-after': '30' }));
      limiter.observe(refusal({ 'retry-after': '3' }));
      limiter.observe(refusal());
      expect(limiter.snapshot().pausedForMs).toBe(30_000);
    });
  });

  it('is waited for, however long it is', () => {
    virtualTime(({ flush, now }) => {
      const limiter = wide();
      limiter.observe(refusal(DAY));
      const job = watch(limiter, now);
      flush();
      expect(job.seen).toEqual(['lease at 86400000']);
    });
  });

  it('as a date is read on a clock that counts from 1970, and on no other', () => {
    const noon = Date.parse('2026-10-21T12:00:00Z');
    const at = (epochMs: number, response: ResponseLike): number => {
      const schedule = (): never => {
        throw new Error('nothing waits');
      };
      const limiter = createAccount({ learn: false, scheduler: { now: () => epochMs, schedule } });
      limiter.observe(response);
      return limiter.snapshot().pausedForMs;
    };
    const dated = refusal({ 'Retry-After': 'Wed, 21 Oct 2026 12:00:07 GMT' });
    expect([at(noon, dated), at(5000, dated)]).toEqual([7000, 0]);
  });
});

describe('what a child learns', () => {
  it('is its own, and so is its pause', () => {
    virtualTime(({ flush, now }) => {
      const account = wide({ requestsPerMinute: 600 });
      const [small, large] = [1, 2].map(() => childOf(account, { concurrency: 5, learn: fromHeaders() })) as [Limiter, Limiter];
      small.tryAcquire()?.observe(refusal({ 'retry-after': '2', ...limited(60) }));
      expect(small.snapshot()).toMatchObject({ pausedForMs: 2000, requestsPerMinute: 60 });
      expect([large.snapshot().pausedForMs, account.snapshot().requestsPerMinute]).toEqual([0, 600]);
      const jobs = [watch(small, now), watch(large, now)];
      flush();
      expect(jobs.map(({ seen }) => seen)).toEqual([['lease at 2000'], ['lease at 0']]);
    });
  });
});

describe('observe', () => {
  it('of a work’s context knows which request was answered', async () => {
    const limiter = wide({ requestsPerMinute: 600 });
    const work = (items: readonly number[], { observe }: { observe: (response: ResponseLike) => void }) => {
      observe(ok(limited(300, 100)));
      return Promise.resolve([...items]);
    };
    await lastValueFrom(from([1, 2, 3]).pipe(batchMap(work, { limiter, maxSize: 1 })));
    expect(limiter.snapshot().requestsPerMinute).toBe(300);
    expect(limiter.snapshot().requests).toBeLessThanOrEqual(101);
  });

  it('ignores anything that is no response', () => {
    const limiter = wide();
    for (const nothing of [undefined, null, 5, 'text', {}]) limiter.observe(nothing as never);
    expect(limiter.snapshot().pausedForMs).toBe(0);
  });
});

describe('a provider that reports no limits', () => {
  /** Sixteen calls let through at once, and the next one refused with these headers. */
  function rateAfter(headers: HeadersLike): number {
    return virtualTime(() => {
      const limiter = wide();
      for (let i = 0; i < 16; i++) limiter.tryAcquire()?.observe(ok({}));
      limiter.tryAcquire()?.observe(refusal(headers));
      return limiter.snapshot().requestsPerMinute;
    });
  }

  it.each([
    ['"default";q=100;w=60', 16],
    ['"burst";q=5;w=30, "day";q=1000;w=86400', 32],
    ['"day"; q=1000; w=86400', Infinity],
    ['"a";q=1;w=0', Infinity],
    ['w=60', Infinity],
    ['60;w=99999999999', Infinity],
    ['', Infinity],
  ])('shows its rate when a refusal names the window that is used up: %s', (policy, perMinuteLearned) => {
    expect(rateAfter({ 'retry-after': '10', 'ratelimit-policy': policy })).toBe(perMinuteLearned);
  });

  it('shows none where a refusal names a wait alone, however often', () => {
    virtualTime(({ advance }) => {
      const limiter = wide();
      for (let i = 0; i < 400; i++) {
        limiter.tryAcquire()?.observe(i % 20 === 19 ? refusal({ 'retry-after': '1' }) : ok({}));
        advance(1100);
      }
      expect(limiter.snapshot().requestsPerMinute).toBe(Infinity);
    });
  });
});

describe('a reported limit', () => {
  it('of less than one is ignored', () => {
    const limiter = createLimiter({ rates: [perMinute('requests', 60)], learn: fromHeaders() });
    const limits = { 'x-ratelimit-limit-requests': '0.000001', 'x-ratelimit-limit-tokens': ['0.5', '7'] };
    limiter.observe({ status: 200, headers: limits });
    expect(limiter.snapshot()).toMatchObject({ requestsPerMinute: 60, tokensPerMinute: Infinity });
  });
});

it('learns from responses to requests that were sent after the clock was set back', () => {
  const scheduler = new CountingScheduler();
  scheduler.offset = 3_600_000;
  const limiter = createLimiter({ scheduler, learn: fromHeaders() });
  const observe = (limit: string) => {
    limiter.observe({ status: 200, headers: { 'x-ratelimit-limit-requests': limit } }, { sentAt: scheduler.now() });
    return limiter.snapshot().requestsPerMinute;
  };
  expect(observe('600')).toBe(600);
  scheduler.offset = 0;
  expect(observe('300')).toBe(300);
});

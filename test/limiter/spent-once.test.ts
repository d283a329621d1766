import fc from 'fast-check';
import { of, VirtualTimeScheduler } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { Lease, LimiterJob, LimiterOptions, SavedLimits } from '../../operators/index.js';
import { batchMap, createLimiter, fromHeaders, keyedLimiter, lanes, perMinute, slidingWindow } from '../../operators/index.js';
import { SlidingWindow } from '../../operators/kernel/index.js';
import { sized } from '../support/deep.js';

const YEAR_MS = 31_536_000_000;

const amountOf = (amount: number, unit = 'credits') => ({ rates: [slidingWindow({ unit, amount, windowMs: Infinity })] });
const credits = (count: number, job: LimiterJob = {}): LimiterJob => ({ ...job, cost: { credits: count } });

/** A limiter of an amount that is spent once, its clock, and what was granted when. */
function bought(amount: number, options: LimiterOptions = {}) {
  const clock = new VirtualTimeScheduler();
  const limiter = createLimiter({ ...amountOf(amount), headroom: 1, scheduler: clock, ...options });
  const log: string[] = [];
  const leases: Lease[] = [];
  return {
    limiter,
    clock,
    log,
    leases,
    left: () => limiter.snapshot().rates[0]?.left,
    ask: (name: string, count: number, job: LimiterJob = {}) =>
      limiter.acquire(credits(count, job)).subscribe({
        next: (lease) => {
          log.push(`${name} at ${clock.now()}`);
          leases.push(lease);
        },
        error: ({ code, limit }: { code: string; limit?: string }) => log.push([name, code, limit].filter(Boolean).join(' ')),
      }),
    pass: (ms: number) => {
      clock.maxFrames = clock.now() + ms;
      clock.schedule(() => undefined, ms);
      clock.flush();
    },
  };
}

describe('an amount that is spent once', () => {
  it('comes back with no time', () => {
    const { ask, left, log, pass, clock } = bought(100);
    ask('a', 60);
    ask('b', 60);
    pass(YEAR_MS);
    expect([left(), log]).toEqual([40, ['a at 0']]);
    expect(clock.actions).toEqual([]);
  });

  it('lets jobs that wait go, in their order, when more is bought', () => {
    const { ask, left, limiter, log, pass } = bought(10);
    ask('a', 10);
    ask('b', 6);
    ask('c', 6);
    ask('d', 1);
    pass(1000);
    limiter.setLimits(amountOf(16));
    expect(log).toEqual(['a at 0', 'b at 1000']);
    limiter.setLimits(amountOf(30));
    expect([log.slice(2), left()]).toEqual([['c at 1000', 'd at 1000'], 7]);
  });

  it('keeps what was paid when the amount is lowered, and is in debt then', () => {
    const { ask, left, limiter, log } = bought(100);
    ask('a', 60);
    limiter.setLimits(amountOf(50));
    expect(left()).toBe(-10);
    ask('b', 10);
    limiter.setLimits(amountOf(70));
    expect(log).toEqual(['a at 0', 'b at 0']);
  });

  it('gives back what a job did not use, and charges what it used above, a year later as well', () => {
    const { ask, leases, left, pass } = bought(100);
    ask('a', 60);
    ask('b', 10);
    pass(YEAR_MS);
    leases[0]?.settle({ units: { credits: 20 } });
    expect(left()).toBe(70);
    leases[1]?.settle({ units: { credits: 30 } });
    expect(left()).toBe(50);
    leases[1]?.release('unused');
    expect(left()).toBe(80);
  });

  it('refuses a job that costs more than all that was bought, and one that may not wait', () => {
    const { ask, log } = bought(100);
    ask('dear', 101);
    ask('a', 100);
    ask('late', 1, { deadlineMs: 0 });
    expect(log).toEqual(['dear FLOW_ITEM_TOO_HEAVY', 'a at 0', 'late FLOW_RATE_LIMITED credits in all']);
  });

  it('ends the wait of a job at its deadline', () => {
    const { ask, log, pass } = bought(1);
    ask('a', 1);
    ask('b', 1, { deadlineMs: 500 });
    pass(1000);
    expect(log).toEqual(['a at 0', 'b FLOW_DEADLINE']);
  });

  it('lets nothing pass with 0, everything with Infinity, and goes on from what was spent', () => {
    const { ask, left, limiter, log } = bought(10);
    ask('a', 4);
    limiter.setLimits(amountOf(0));
    ask('b', 1);
    expect(log).toEqual(['a at 0']);
    limiter.setLimits(amountOf(Infinity));
    ask('c', 1000);
    limiter.setLimits(amountOf(10));
    expect([log, left()]).toEqual([['a at 0', 'b at 0', 'c at 0'], 6]);
  });

  it('holds beside rates of the same unit', () => {
    const clock = new VirtualTimeScheduler();
    const rates = [...amountOf(3, 'requests').rates, slidingWindow({ unit: 'requests', amount: 1, windowMs: 1000 })];
    const limiter = createLimiter({ rates, headroom: 1, scheduler: clock });
    const at: number[] = [];
    for (let n = 0; n < 5; n++) limiter.acquire().subscribe(() => at.push(clock.now()));
    clock.flush();
    expect(at).toEqual([0, 1000, 2000]);
  });

  it('keeps no share for lanes: they go in their order', () => {
    const queue = lanes([{ name: 'user', reserve: 0.5 }, { name: 'later' }]);
    const { ask, limiter, log } = bought(10, { queue });
    ask('a', 9, { lane: 'later' });
    ask('b', 2, { lane: 'later' });
    ask('c', 1, { lane: 'user' });
    expect(log).toEqual(['a at 0', 'c at 0']);
    limiter.setLimits(amountOf(12));
    expect(log).toEqual(['a at 0', 'c at 0', 'b at 0']);
  });

  it('is saved as JSON and continues in another process', () => {
    const { ask, limiter } = bought(100);
    ask('a', 60);
    const restore = JSON.parse(JSON.stringify(limiter.save())) as SavedLimits;
    const next = bought(100, { restore });
    next.pass(YEAR_MS);
    next.ask('b', 30);
    expect(next.left()).toBe(10);
    next.leases[0]?.release('unused');
    expect(next.left()).toBe(40);
  });

  it('remembers one payment, however many jobs there were', () => {
    const { limiter, clock, ask } = bought(1e6);
    for (let n = 0; n < 1000; n++) {
      ask('a', 1);
      clock.schedule(() => undefined, 7);
      clock.flush();
    }
    expect(limiter.save().rates).toEqual([{ unit: 'credits', windowMs: -1, isStrict: true, spent: [expect.any(Number), 1000] }]);
  });

  it('does not forget a key that has spent of it', () => {
    const keyed = keyedLimiter({ ...amountOf(10), headroom: 1, maxKeys: 1 });
    keyed.tryAcquire({ key: 'a', cost: { credits: 10 } })?.release();
    expect(keyed.tryAcquire({ key: 'b', cost: { credits: 1 } })).toBeUndefined();
    expect([keyed.keys, keyed.tryAcquire({ key: 'a', cost: { credits: 1 } })]).toEqual([1, undefined]);
  });

  it('is no rate to learn', () => {
    const { limiter, left } = bought(0.5, { ...amountOf(1000, 'tokens'), learn: fromHeaders(), random: () => 0 });
    const lease = limiter.tryAcquire({ cost: { tokens: 100 } });
    lease?.observe({ status: 200, headers: { 'x-ratelimit-limit-tokens': '60', 'x-ratelimit-remaining-tokens': '5' } });
    lease?.observe({ status: 429, headers: {} });
    lease?.release();
    expect(left()).toBe(900);
    expect(limiter.snapshot()).toMatchObject({ tokens: 900 });
  });

  it('charges a batch with its weight, and sends it when it can be paid', () => {
    const clock = new VirtualTimeScheduler();
    const limiter = createLimiter({ ...amountOf(10, 'tokens'), headroom: 1, scheduler: clock });
    const calls: string[] = [];
    const work = (items: readonly string[]) => {
      calls.push(items.join(''));
      return of(items);
    };
    of('a', 'b', 'c')
      .pipe(batchMap(work, { limiter, maxSize: 1, weigh: () => 4, scheduler: clock }))
      .subscribe();
    clock.flush();
    expect(calls).toEqual(['a', 'b']);
    limiter.setLimits(amountOf(12, 'tokens'));
    clock.flush();
    expect(calls).toEqual(['a', 'b', 'c']);
  });

  it('bounds what one job is estimated to cost by all that was bought', () => {
    const limiter = createLimiter({ rates: [...amountOf(5000, 'tokens').rates, perMinute('tokens', 60)], headroom: 1 });
    expect(limiter.tryAcquire({ cost: { tokens: 4000 } })).toBeDefined();
    expect(limiter.snapshot().rates.map(({ left }) => left)[0]).toBe(5000 - 60);
  });
});

describe('a sliding window without an end', () => {
  it('has left what was bought and not spent, whatever time it is', () => {
    const step = fc.oneof(
      fc.record({ do: fc.constant('pay' as const), cost: fc.nat({ max: 50 }), waitMs: fc.nat({ max: YEAR_MS }) }),
      fc.record({ do: fc.constant('correct' as const), cost: fc.integer({ min: -50, max: 50 }), waitMs: fc.nat({ max: YEAR_MS }) }),
      fc.record({ do: fc.constant('resize' as const), cost: fc.integer({ min: 1, max: 500 }), waitMs: fc.nat({ max: YEAR_MS }) }),
      fc.record({ do: fc.constant('save' as const), cost: fc.nat({ max: 1e6 }), waitMs: fc.nat({ max: YEAR_MS }) }),
    );
    fc.assert(
      fc.property(fc.constantFrom(0, 1_790_000_000_000), fc.array(step, { maxLength: 40 }), (epoch, steps) => {
        let now = epoch;
        let window = new SlidingWindow(0, 100, now);
        let [spent, most] = [0, 100];
        for (const { do: what, cost, waitMs } of steps) {
          now += waitMs;
          if (what === 'pay') {
            window.pay(cost, now);
            spent += cost;
          } else if (what === 'correct') {
            const before = spent;
            window.correct(cost, now - waitMs, now);
            spent = Math.max(0, before + cost);
          } else if (what === 'resize') {
            window.resize(0, cost, now);
            most = cost;
          } else {
            const saved = window.save(now);
            expect(saved.length).toBeLessThanOrEqual(2);
            window = new SlidingWindow(0, most, now + cost);
            window.load(saved, cost, now + cost);
            now += cost;
          }
          expect(window.level(now)).toBe(most - spent);
          expect(window.payableAt(most, now)).toBe(spent === 0 ? now : Infinity);
          expect(window.payableAt(Math.min(1, most), now)).toBe(most - spent >= Math.min(1, most) ? now : Infinity);
        }
      }),
      { numRuns: sized(200, 1000) },
    );
  });
});

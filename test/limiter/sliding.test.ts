import { asyncScheduler, from, of } from 'rxjs';
import { TestScheduler } from 'rxjs/testing';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { Lease, Limiter, LimiterJob, LimiterOptions, RateRule } from '../../operators/index.js';
import {
  batchMap,
  childOf,
  createLimiter,
  ItemTooHeavyError,
  keyedLimiter,
  lanes,
  perMinute,
  RateLimitError,
  slidingWindow,
} from '../../operators/index.js';
import { CountingScheduler } from '../support/counting-scheduler.js';

const inAnyMinute = (unit: string, amount: number): RateRule => slidingWindow({ unit, amount, windowMs: 60_000 });
const sliding = (options: LimiterOptions): Limiter => createLimiter({ headroom: 1, ...options });

/** When each job got its lease, and the leases. */
function watch(limiter: Limiter, now: () => number) {
  const at: number[] = [];
  const leases: Lease[] = [];
  const ask = (job?: LimiterJob): void => {
    limiter.acquire(job).subscribe((lease) => {
      at.push(now());
      leases.push(lease);
    });
  };
  return { at, leases, ask };
}

const tokens = (cost: number): LimiterJob => ({ cost: { tokens: cost } });

describe('createLimiter with strict rates', () => {
  it('lets a minute of requests go at once, and the next when each of them is a minute old', () => {
    virtualTime(({ advance, flush, now }) => {
      const limiter = sliding({ rates: [inAnyMinute('requests', 3)] });
      const { at, ask } = watch(limiter, now);
      ask();
      advance(20_000);
      for (let i = 0; i < 6; i++) ask();
      flush();
      expect(at).toEqual([0, 20_000, 20_000, 60_000, 80_000, 80_000, 120_000]);
    });
  });

  it('uses the share of a minute that headroom says', () => {
    virtualTime(({ flush, now }) => {
      const limiter = sliding({ rates: [inAnyMinute('requests', 10), inAnyMinute('tokens', 1000)], headroom: 0.5 });
      expect(limiter.tokenCapacity).toBe(500);
      const { at, ask } = watch(limiter, now);
      for (let i = 0; i < 6; i++) ask();
      flush();
      expect(at).toEqual([0, 0, 0, 0, 0, 60_000]);
    });
  });

  it('lets less than one request a minute go less often', () => {
    virtualTime(({ flush, now }) => {
      const { at, ask } = watch(sliding({ rates: [inAnyMinute('requests', 0.5)] }), now);
      for (let i = 0; i < 3; i++) ask();
      flush();
      expect(at).toEqual([0, 120_000, 240_000]);
    });
  });

  it('charges both or nothing', () => {
    virtualTime(({ advance, now }) => {
      const limiter = sliding({ rates: [inAnyMinute('requests', 2), inAnyMinute('tokens', 100)] });
      const { at, ask } = watch(limiter, now);
      ask(tokens(90));
      expect(limiter.tryAcquire(tokens(20))).toBeUndefined();
      expect(limiter.snapshot()).toMatchObject({ requests: 1, tokens: 10 });
      advance(1000);
      ask(tokens(1));
      expect(limiter.tryAcquire(tokens(1))).toBeUndefined();
      expect(limiter.snapshot()).toMatchObject({ requests: 0, tokens: 9 });
      advance(59_000);
      expect(limiter.snapshot()).toMatchObject({ requests: 1, tokens: 99 });
      expect(at).toEqual([0, 1000]);
    });
  });

  it('refuses a job that no minute has room for', () => {
    virtualTime(() => {
      const limiter = sliding({ rates: [inAnyMinute('tokens', 1000)], headroom: 0.9 });
      const errors: unknown[] = [];
      limiter.acquire(tokens(901)).subscribe({ error: (error: unknown) => errors.push(error) });
      expect(errors).toEqual([expect.any(ItemTooHeavyError)]);
      expect(limiter.tryAcquire(tokens(901))).toBeUndefined();
      expect(limiter.tryAcquire(tokens(900))).toBeDefined();
    });
  });

  it('says when to come back, to the millisecond', () => {
    virtualTime(({ advance }) => {
      const limiter = sliding({ rates: [inAnyMinute('tokens', 100)], maxQueued: 0 });
      limiter.tryAcquire(tokens(30));
      advance(15_000);
      limiter.tryAcquire(tokens(60));
      advance(5000);
      const waits: number[] = [];
      for (const cost of [10, 11, 40, 41, 100]) {
        limiter.acquire(tokens(cost)).subscribe({
          next: (lease) => {
            lease.release('unused');
            waits.push(0);
          },
          error: (error: unknown) => waits.push((error as RateLimitError).retryAfterMs),
        });
      }
      expect(waits).toEqual([0, 40_000, 40_000, 55_000, 55_000]);
    });
  });

  describe('when a lease says what it really cost', () => {
    it('gives back to the minute in which it was paid', () => {
      virtualTime(({ advance, flush, now }) => {
        const limiter = sliding({ rates: [inAnyMinute('tokens', 100)] });
        const { at, leases, ask } = watch(limiter, now);
        ask(tokens(40));
        advance(30_000);
        ask(tokens(60));
        ask(tokens(30));
        advance(10_000);
        expect(at).toEqual([0, 30_000]);
        // Of the first, so that only 5 leave at 60 s.
        leases[0]?.settle({ inputTokens: 5 });
        expect(at).toEqual([0, 30_000, 40_000]);
        ask(tokens(10));
        ask(tokens(5));
        flush();
        expect(at).toEqual([0, 30_000, 40_000, 60_000, 90_000]);
      });
    });

    it('goes into debt when it cost more, until what is older has left', () => {
      virtualTime(({ advance, flush, now }) => {
        const limiter = sliding({ rates: [inAnyMinute('tokens', 100)] });
        const { at, leases, ask } = watch(limiter, now);
        ask(tokens(50));
        advance(20_000);
        ask(tokens(20));
        advance(10_000);
        leases[1]?.settle({ inputTokens: 100, outputTokens: 50 });
        expect(limiter.snapshot().tokens).toBe(-100);
        ask({ cost: { tokens: 0 } });
        ask(tokens(1));
        advance(30_000);
        expect(limiter.snapshot()).toMatchObject({ tokens: -50, heldByRate: 2 });
        flush();
        expect(at).toEqual([0, 20_000, 80_000, 80_000]);
        expect(limiter.load).toBeCloseTo(0.01);
      });
    });

    it('charges a cost without an estimate to the time of the grant', () => {
      virtualTime(({ advance, now }) => {
        const limiter = sliding({ rates: [inAnyMinute('tokens', 100)] });
        const { leases, ask } = watch(limiter, now);
        ask();
        advance(45_000);
        leases[0]?.settle({ inputTokens: 70 });
        expect(limiter.snapshot().tokens).toBe(30);
        advance(14_999);
        expect(limiter.snapshot().tokens).toBe(30);
        advance(1);
        expect(limiter.snapshot().tokens).toBe(100);
      });
    });

    it('changes nothing once its minute is over', () => {
      virtualTime(({ advance, now }) => {
        const limiter = sliding({ rates: [inAnyMinute('tokens', 100)] });
        const { leases, ask } = watch(limiter, now);
        ask(tokens(40));
        ask(tokens(40));
        advance(60_000);
        ask(tokens(10));
        leases[0]?.settle({ inputTokens: 500 });
        leases[1]?.release('unused');
        expect(limiter.snapshot().tokens).toBe(90);
      });
    });

    it('gives back request and tokens of a lease that was not used, and lets the next go', () => {
      virtualTime(({ advance, now }) => {
        const limiter = sliding({ rates: [inAnyMinute('requests', 2), inAnyMinute('tokens', 100)] });
        const { at, leases, ask } = watch(limiter, now);
        ask(tokens(40));
        advance(10_000);
        ask(tokens(60));
        ask(tokens(30));
        advance(10_000);
        leases[0]?.release('unused');
        expect(at).toEqual([0, 10_000, 20_000]);
        advance(40_000);
        // Nothing is left at 0 s that could leave now.
        expect(limiter.snapshot()).toMatchObject({ requests: 0, tokens: 10 });
        advance(10_000);
        expect(limiter.snapshot()).toMatchObject({ requests: 1, tokens: 70 });
      });
    });

    it('books to the moment of the grant when a listener hears of releases, on a clock that goes on by itself', () => {
      let clock = 0;
      const scheduler = { now: () => clock++, schedule: asyncScheduler.schedule.bind(asyncScheduler) };
      const limiter = sliding({ rates: [inAnyMinute('tokens', 100)], scheduler });
      const grantedAt: number[] = [];
      limiter.onRelease((release) => grantedAt.push(release.grantedAt));
      const lease = limiter.tryAcquire(tokens(80));
      lease?.settle({ inputTokens: 10 });
      expect(limiter.snapshot().tokens).toBe(90);
      lease?.release('unused');
      expect(limiter.snapshot().tokens).toBe(100);
      expect(grantedAt).toHaveLength(1);
    });
  });

  it('takes new limits at once, and remembers what was paid under the old ones', () => {
    virtualTime(({ advance, flush, now }) => {
      const limiter = sliding({ rates: [inAnyMinute('requests', 2), inAnyMinute('tokens', 100)] });
      const { at, ask } = watch(limiter, now);
      for (let i = 0; i < 4; i++) ask(tokens(20));
      advance(10_000);
      expect(at).toEqual([0, 0]);
      limiter.setLimits({ rates: [inAnyMinute('requests', 3)] });
      expect(at).toEqual([0, 0, 10_000]);
      limiter.setLimits({ rates: [inAnyMinute('tokens', 50)] });
      expect(limiter.snapshot()).toMatchObject({ requests: 0, tokens: -10, heldByRate: 1 });
      expect(limiter.tokenCapacity).toBe(50);
      flush();
      expect(at).toEqual([0, 0, 10_000, 60_000]);
    });
  });

  it('lets a job that waited go alone when new limits are below its cost, so that it does not wait for ever', () => {
    virtualTime(({ advance, flush, now }) => {
      const limiter = sliding({ rates: [inAnyMinute('tokens', 100)] });
      const { at, ask } = watch(limiter, now);
      ask(tokens(100));
      advance(30_000);
      ask(tokens(80));
      limiter.setLimits({ rates: [inAnyMinute('tokens', 50)] });
      flush();
      expect(at).toEqual([0, 60_000]);
      // It is charged what the window holds.
      expect(limiter.snapshot().tokens).toBe(0);
    });
  });

  it('tells what is left, what waits for the rate, and how busy it is', () => {
    virtualTime(({ advance }) => {
      const limiter = sliding({ rates: [inAnyMinute('requests', 10), inAnyMinute('tokens', 100)] });
      limiter.tryAcquire(tokens(75));
      const waiting = limiter.acquire(tokens(50)).subscribe();
      advance(59_999);
      expect(limiter.snapshot()).toMatchObject({ requests: 9, tokens: 25, queued: 1, heldByRate: 1, heldBySlot: 0, pausedForMs: 0 });
      expect(limiter.load).toBe(0.75);
      waiting.unsubscribe();
      advance(1);
      expect(limiter.snapshot()).toMatchObject({ requests: 10, tokens: 100, queued: 0 });
      expect(limiter.load).toBe(0);
    });
  });

  it('needs one timer for the jobs that wait, and none when no job waits', () => {
    const scheduler = new CountingScheduler();
    const limiter = sliding({ rates: [inAnyMinute('requests', 100)], maxQueued: Infinity, scheduler });
    let granted = 0;
    for (let i = 0; i < 100; i++) limiter.tryAcquire();
    expect(scheduler.delays).toEqual([]);
    for (let i = 0; i < 300; i++) limiter.acquire().subscribe(() => granted++);
    expect(scheduler.delays).toEqual([60_000]);
    scheduler.flush();
    expect(granted).toBe(300);
    expect(scheduler.delays).toEqual([60_000, 60_000, 60_000]);
  });

  describe('with a clock that goes backwards', () => {
    it('neither stops nor grants more, when it is used inside and outside of TestScheduler.run', () => {
      const limiter = sliding({ rates: [inAnyMinute('requests', 2)] });
      expect(limiter.tryAcquire()).toBeDefined();
      const at: number[] = [];
      const scheduler = new TestScheduler(() => true);
      scheduler.run(({ flush }) => {
        for (let i = 0; i < 3; i++) limiter.acquire().subscribe(() => at.push(scheduler.now()));
        expect(at).toEqual([0]);
        flush();
      });
      expect(at).toEqual([0, 60_000, 60_000]);
    });

    it('keeps what was paid for as long as it still had to count, and takes it back where it was paid', () => {
      const scheduler = new CountingScheduler();
      const limiter = sliding({ rates: [inAnyMinute('tokens', 100)], scheduler });
      const lease = limiter.tryAcquire(tokens(60));
      scheduler.frame = 30_000;
      limiter.tryAcquire(tokens(40));
      scheduler.offset = -1_000_000;
      expect(limiter.snapshot().tokens).toBe(0);
      lease?.settle({ inputTokens: 50 });
      expect(limiter.snapshot().tokens).toBe(10);
      scheduler.frame = 59_999;
      expect(limiter.snapshot().tokens).toBe(10);
      scheduler.frame = 60_000;
      expect(limiter.snapshot().tokens).toBe(60);
    });
  });

  it('keeps a lane in its turn: a small urgent job goes first, a small later one does not pass', () => {
    virtualTime(({ advance, flush, now }) => {
      const limiter = sliding({ rates: [inAnyMinute('tokens', 100)], queue: lanes([{ name: 'now' }, { name: 'later' }]) });
      const order: string[] = [];
      const ask = (lane: string, cost: number): void => {
        limiter.acquire({ lane, cost: { tokens: cost } }).subscribe(() => order.push(`${lane} ${String(cost)} at ${String(now())}`));
      };
      ask('later', 50);
      advance(10_000);
      ask('later', 80);
      ask('later', 10);
      ask('now', 40);
      flush();
      expect(order).toEqual(['later 50 at 0', 'now 40 at 10000', 'later 80 at 70000', 'later 10 at 70000']);
    });
  });
});

describe('work that takes its time to begin', () => {
  const WINDOW_MS = 200;
  const AMOUNT = 5;
  type Begin = (limiter: Limiter, work: () => void, jobs: number) => void;
  const waysToAsk: Readonly<Record<string, Begin>> = {
    run: (limiter, work, jobs) => {
      const called = () => {
        work();
        return of(1);
      };
      for (let i = 0; i < jobs; i++) limiter.run(called).subscribe();
    },
    acquire: (limiter, work, jobs) => {
      for (let i = 0; i < jobs; i++)
        limiter.acquire().subscribe((lease) => {
          work();
          lease.release();
        });
    },
    enlist: (limiter, work, jobs) => {
      for (let i = 0; i < jobs; i++) limiter.enlist({ granted: work, refused: () => undefined });
    },
    batchMap: (limiter, work, jobs) => {
      const called = (items: readonly number[]) => {
        work();
        return of(items);
      };
      from(Array.from({ length: jobs }, (_, i) => i))
        .pipe(batchMap(called, { limiter, maxSize: 1, scheduler: limiterScheduler }))
        .subscribe();
    },
  };
  let limiterScheduler = new CountingScheduler();
  const rates = [slidingWindow({ unit: 'requests', amount: AMOUNT, windowMs: WINDOW_MS })];
  const limiters: Readonly<Record<string, (options: LimiterOptions) => Limiter>> = {
    'a limiter': (options) => createLimiter({ ...options, rates }),
    'a child with the rate': (options) => childOf(createLimiter(options), { rates, headroom: 1 }),
    'a child of one with the rate': (options) => childOf(createLimiter({ ...options, rates })),
    'a child of a child': (options) => childOf(childOf(createLimiter({ ...options, rates }))),
    'one of a keyed limiter': (options) => keyedLimiter({ ...options, rates }).of('key'),
  };

  it.each(Object.keys(limiters).flatMap((of) => Object.keys(waysToAsk).map((by) => [of, by] as const)))(
    'never has %s let more than the amount begin in any window: %s',
    (kind, by) => {
      const scheduler = (limiterScheduler = new CountingScheduler());
      const limiter = limiters[kind]!({ headroom: 1, scheduler });
      const at: number[] = [];
      const work = (): void => {
        at.push(scheduler.now());
        // The second five use up most of a window.
        if (at.length > AMOUNT && at.length <= 2 * AMOUNT) scheduler.offset += 35;
      };
      waysToAsk[by]!(limiter, work, 20);
      scheduler.flush();
      expect(at).toHaveLength(20);
      expect(Math.max(...at.map((from) => at.filter((other) => other >= from && other < from + WINDOW_MS).length))).toBe(AMOUNT);
    },
  );

  it('is told to have been granted when it was', () => {
    const scheduler = new CountingScheduler();
    const limiter = createLimiter({ rates: [perMinute('requests', 6000, { burst: 1 })], headroom: 1, scheduler });
    const begun: number[] = [];
    const told: number[] = [];
    limiter.onRelease(({ grantedAt }) => told.push(grantedAt));
    limiter.pause();
    for (let i = 0; i < 4; i++)
      limiter
        .run(() => {
          begun.push(scheduler.now());
          scheduler.offset += 30;
          return of(1);
        })
        .subscribe();
    limiter.resume();
    scheduler.flush();
    expect(begun).toEqual([0, 30, 60, 90]);
    expect(told).toEqual(begun);
  });
});

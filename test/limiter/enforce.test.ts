import { from } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { FlowEvent, Lease, LimiterOptions } from '../../operators/index.js';
import {
  batchMap,
  childOf,
  createAccount,
  createLimiter,
  heldBy,
  keyedLimiter,
  lanes,
  perDay,
  perMinute,
  slidingWindow,
} from '../../operators/index.js';

type Held = Extract<FlowEvent, { type: 'wouldWait' }>;

/** A limiter that enforces nothing, and what it tells. */
function trial(options: LimiterOptions = {}) {
  const events: FlowEvent[] = [];
  const limiter = createLimiter({ enforce: false, headroom: 1, ...options, onEvent: (event) => events.push(event) });
  const held = (): Held[] => events.filter((event) => event.type === 'wouldWait');
  const leases: Lease[] = [];
  const ask = (job?: Parameters<typeof limiter.acquire>[0]): void => {
    limiter.acquire(job).subscribe((lease) => leases.push(lease));
  };
  return { limiter, events, held, leases, ask };
}

describe('a limiter that enforces nothing', () => {
  it('grants all at once, keeps the books, and tells what would have waited', () => {
    virtualTime(({ now, advance }) => {
      const { limiter, leases, ask, held } = trial({ concurrency: 2, rates: [perMinute('requests', 10, { burst: 10 })] });
      for (let i = 0; i < 100; i++) ask();
      expect([leases.length, now()]).toEqual([100, 0]);
      expect(limiter.snapshot()).toMatchObject({ concurrency: 2, executing: 100, queued: 0, heldByRate: 0, heldBySlot: 0, requests: -90 });
      expect(held()).toHaveLength(98);
      expect(held()[0]).toMatchObject({ lane: 'default', limitedBy: 'concurrency', waitMs: 0, queued: 1, operator: 'createLimiter' });
      // The slots are the first thing in the way; the rate would be as well, from the eleventh on.
      expect(held()[8]).toMatchObject({ limitedBy: 'concurrency', waitMs: 6000, queued: 9 });
      expect(held()[97]).toMatchObject({ waitMs: 90 * 6000, queued: 98 });
      for (const lease of leases) lease.release();
      expect(limiter.snapshot()).toMatchObject({ executing: 0, requests: -90 });
      advance(91 * 6000);
      ask();
      expect(held()).toHaveLength(98);
      ask();
      ask();
      expect(held().slice(98)).toMatchObject([
        { limitedBy: 'requestsPerMinute', waitMs: 6000, queued: 1 },
        { limitedBy: 'concurrency', waitMs: 12_000, queued: 2 },
      ]);
    });
  });

  it('tells the rate that would be in the way, and settles usage', () => {
    virtualTime(() => {
      const { limiter, leases, ask, held } = trial({ rates: [perMinute('tokens', 6000, { burst: 100 })] });
      ask({ cost: { tokens: 100 } });
      ask({ cost: { tokens: 50 } });
      expect(held()).toMatchObject([{ limitedBy: 'tokensPerMinute', waitMs: 500, queued: 1 }]);
      expect(limiter.snapshot().tokens).toBe(-50);
      leases[1]?.settle({ units: { tokens: 10 } });
      expect(limiter.snapshot().tokens).toBe(-10);
      leases[0]?.release('unused');
      expect(limiter.snapshot().tokens).toBe(90);
    });
  });

  it('counts a day, an exact window, and jobs that are too heavy for it', () => {
    virtualTime(() => {
      const rates = [perDay('requests', 2), slidingWindow({ unit: 'tokens', amount: 100, windowMs: 1000 })];
      const { limiter, ask, held, leases } = trial({ rates });
      ask({ cost: { tokens: 60 } });
      ask({ cost: { tokens: 60 } });
      ask({ cost: { tokens: 150 } });
      ask();
      expect(leases).toHaveLength(4);
      expect(held()).toMatchObject([
        { limitedBy: 'tokens per 1000 ms', waitMs: 1000 },
        { limitedBy: 'tokens per 1000 ms', waitMs: Infinity },
        { limitedBy: 'requestsPerDay', waitMs: 86_400_000 },
      ]);
      expect(limiter.snapshot().rates.map(({ left }) => left)).toEqual([-2, expect.any(Number) as number]);
      expect(limiter.snapshot().tokens).toBeLessThan(0);
    });
  });

  it('goes on in a pause that was asked for, and tells of it', () => {
    virtualTime(({ advance }) => {
      const { limiter, ask, held, leases, events } = trial();
      limiter.penalize(1000);
      ask();
      expect([leases.length, limiter.snapshot().pausedForMs]).toEqual([1, 1000]);
      expect(events.map(({ type }) => type)).toEqual(['throttled', 'wouldWait']);
      expect(held()).toMatchObject([{ limitedBy: 'pause', waitMs: 1000 }]);
      advance(1000);
      ask();
      expect(held()).toHaveLength(1);
    });
  });

  it('keeps to `pause()`, which is no limit, and to its bounds meanwhile', () => {
    virtualTime(() => {
      const { limiter, ask, held, leases } = trial({ maxQueued: 2 });
      limiter.pause();
      const errors: unknown[] = [];
      ask();
      ask();
      limiter.acquire().subscribe({ error: (error) => errors.push(error) });
      expect([leases.length, limiter.snapshot().queued, errors.length]).toEqual([0, 2, 1]);
      expect(limiter.tryAcquire()).toBeUndefined();
      limiter.resume();
      expect([leases.length, held().length]).toEqual([2, 0]);
    });
  });

  it.each([0, 1])('refuses nothing at a bound of %i, also not what may not wait', (maxQueued) => {
    virtualTime(() => {
      const { limiter, ask, held, leases } = trial({ concurrency: 1, maxQueued });
      for (let i = 0; i < 4; i++) ask({ deadlineMs: 0 });
      expect(limiter.tryAcquire()).toBeDefined();
      expect(leases).toHaveLength(4);
      expect(held().map(({ queued }) => queued)).toEqual([1, 2, 3, 4]);
      leases[3]?.release();
      leases[0]?.release();
      ask();
      expect(held().at(-1)).toMatchObject({ queued: 4 });
    });
  });

  it('grants from inside a grant, in any lane', () => {
    virtualTime(() => {
      const queue = lanes([{ name: 'now', reserve: 0.1 }, { name: 'later' }]);
      const { limiter, leases, ask, held } = trial({ queue, concurrency: 1, rates: [perMinute('requests', 60, { burst: 1 })] });
      limiter.acquire({ lane: 'later' }).subscribe(() => {
        ask({ lane: 'later' });
        ask({ lane: 'now' });
        expect(limiter.tryAcquire({ lane: 'now' })).toBeDefined();
      });
      expect(leases).toHaveLength(2);
      expect(
        held()
          .map(({ lane }) => lane)
          .sort(),
      ).toEqual(['later', 'now', 'now']);
    });
  });

  it('lets work that holds a permit have another one', async () => {
    const { limiter } = trial({ concurrency: 1 });
    const both = limiter.runAsync(({ lease }) => limiter.runAsync(() => Promise.resolve('inner'), { holder: heldBy(lease) }));
    await expect(both).resolves.toBe('inner');
  });

  it('lets promises go, and calls of `pass` and `wrap`', async () => {
    const { limiter, held } = trial({ concurrency: 1, rates: [perMinute('requests', 60, { burst: 1 })] });
    const lease = await limiter.acquireAsync();
    await limiter.pass();
    await limiter.wrap(() => Promise.resolve())();
    lease.release();
    expect(held().map(({ limitedBy }) => limitedBy)).toEqual(['requestsPerMinute', 'concurrency']);
    expect(limiter.snapshot().executing).toBe(0);
  });

  it('makes batches no smaller', () => {
    const sizesOf = (enforce: boolean): number[] =>
      virtualTime(({ flush }) => {
        const sizes: number[] = [];
        const limiter = createLimiter({ enforce, headroom: 1, rates: [perMinute('tokens', 600, { burst: 10 })] });
        const work = async (xs: readonly number[]) => {
          sizes.push(xs.length);
          return xs;
        };
        from(Array.from({ length: 30 }, (_, i) => i))
          .pipe(batchMap(work, { limiter, weigh: () => 1, maxSize: 10, deadlineMs: 2000 }))
          .subscribe();
        flush();
        return sizes;
      });
    expect(sizesOf(false)).toEqual([10, 10, 10]);
    expect(Math.min(...sizesOf(true))).toBeLessThan(10);
  });

  it('takes nothing more when it is closed', () => {
    virtualTime(() => {
      const { limiter } = trial();
      limiter.close();
      expect(limiter.tryAcquire()).toBeUndefined();
    });
  });
});

describe('under a limiter that enforces nothing', () => {
  it('a child keeps to its own limits', () => {
    virtualTime(({ advance }) => {
      const { limiter, held } = trial({ concurrency: 1 });
      const child = childOf(limiter, { concurrency: 2 });
      const leases: Lease[] = [];
      for (let i = 0; i < 3; i++) child.acquire().subscribe((lease) => leases.push(lease));
      expect([leases.length, child.snapshot().queued]).toEqual([2, 1]);
      expect(held()).toMatchObject([{ limitedBy: 'concurrency', queued: 1 }]);
      limiter.penalize(1000);
      leases[0]?.release();
      expect(leases).toHaveLength(3);
      expect(held().at(-1)).toMatchObject({ limitedBy: 'concurrency', waitMs: 1000, queued: 2 });
      for (const lease of leases) lease.release();
      advance(1000);
      expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
    });
  });

  it('a child that enforces nothing either tells of its own limits', () => {
    virtualTime(() => {
      const { limiter, held } = trial({ concurrency: 5 });
      const events: FlowEvent[] = [];
      const child = childOf(limiter, { concurrency: 1, enforce: false, onEvent: (event) => events.push(event) });
      const leases = Array.from({ length: 6 }, () => child.tryAcquire());
      expect(leases.every((lease) => lease !== undefined)).toBe(true);
      expect([held().length, events.length]).toEqual([1, 5]);
    });
  });

  it('a child that enforces nothing waits for what is above and does', () => {
    virtualTime(() => {
      const limiter = createLimiter({ concurrency: 2 });
      const child = childOf(limiter, { concurrency: 1, enforce: false });
      const leases: Lease[] = [];
      for (let i = 0; i < 3; i++) child.acquire().subscribe((lease) => leases.push(lease));
      expect([leases.length, child.snapshot().executing]).toEqual([2, 2]);
      leases[0]?.release();
      expect(leases).toHaveLength(3);
    });
  });

  it('keys do as well', () => {
    virtualTime(() => {
      const keyed = keyedLimiter({ concurrency: 1, enforce: false });
      const leases = [1, 1, 2].map((key) => keyed.tryAcquire({ key }));
      expect(leases.every((lease) => lease !== undefined)).toBe(true);
    });
  });
});

describe('an account that enforces nothing', () => {
  it('lets the calls of all models go, and tells of theirs and of its own limits', () => {
    virtualTime(() => {
      const events: FlowEvent[] = [];
      const account = createAccount({
        ...{ enforce: false, name: 'trial', concurrency: 2, requestsPerDay: 10, requestsPerMinute: 600, headroom: 1, burst: 20 },
        models: [{ model: 'large', concurrency: 1 }],
        onEvent: (event) => events.push(event),
      });
      const leases = Array.from({ length: 12 }, () => account.tryAcquire({ model: 'large' }));
      expect(leases.filter((lease) => lease !== undefined)).toHaveLength(12);
      const { executing, models = [], requests } = account.snapshot();
      expect([executing, models[0]?.executing, requests]).toEqual([12, 12, -2]);
      const by = (name: string): FlowEvent[] => events.filter(({ instance }) => instance === name);
      expect([by('trial').length, by('trial/large').length]).toEqual([10, 11]);
    });
  });
});

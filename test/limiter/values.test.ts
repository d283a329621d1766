import fc from 'fast-check';
import { lastValueFrom, NEVER } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { Lease, Limiter, LimiterJob, LimiterOptions } from '../../operators/index.js';
import {
  childOf,
  createAccount,
  createLimiter,
  fromHeaders,
  isFlowError,
  keyedLimiter,
  lanes,
  perMinute,
  slidingWindow,
  tokenBucket,
} from '../../operators/index.js';
import { sized } from '../support/deep.js';

const byKey = () => lanes([{ name: 'only' }], { key: ({ key }: LimiterJob) => key });

/** When each of so many jobs is granted, in ms. */
const times = (limiter: Limiter, count: number, now: () => number, job: LimiterJob = {}): number[] => {
  const at: number[] = [];
  for (let i = 0; i < count; i++) {
    limiter.acquire(job).subscribe((lease) => {
      at.push(now());
      lease.release();
    });
  }
  return at;
};

describe('fairness by key inside a lane', () => {
  it('serves the first call of B within two grants, with 200 of A waiting', () => {
    const limiter = createLimiter({ concurrency: 1, queue: byKey() });
    const granted: unknown[] = [];
    const leases: Lease[] = [];
    const held = limiter.tryAcquire({ key: 'a' });
    const ask = (key: string): void => {
      limiter.acquire({ key }).subscribe((lease) => {
        granted.push(key);
        leases.push(lease);
      });
    };
    for (let i = 0; i < 200; i++) ask('a');
    ask('b');
    held?.release();
    leases.shift()?.release();
    expect(granted.slice(0, 2)).toContain('b');
    for (let lease = leases.shift(); lease; lease = leases.shift()) lease.release();
    expect([granted.length, limiter.snapshot().queued]).toEqual([201, 0]);
  });
});

describe('rates over any window', () => {
  it('hold all at the same time', () => {
    virtualTime(({ flush, now }) => {
      const second = tokenBucket({ unit: 'requests', amount: 2, windowMs: 1000, burst: 2 });
      const limiter = createLimiter({ rates: [second, slidingWindow({ unit: 'requests', amount: 3, windowMs: 10_000 })], headroom: 1 });
      const at = times(limiter, 6, now);
      flush();
      expect(at).toEqual([0, 0, 500, 10_000, 10_000, 10_500]);
    });
  });

  it('count units of your own, and refuse those that no rate counts', () => {
    virtualTime(() => {
      const limiter = createLimiter({ rates: [tokenBucket({ unit: 'images', amount: 60, windowMs: 60_000, burst: 2 })], headroom: 1 });
      const below = childOf(limiter);
      expect(below.tryAcquire({ cost: { images: 2 } })).toBeDefined();
      expect(limiter.tryAcquire({ cost: { images: 1 } })).toBeUndefined();
      expect(limiter.tryAcquire()).toBeDefined();
      expect(() => limiter.tryAcquire({ cost: { image: 1 } })).toThrow('unknown option `cost.image`. Use `slots`, `requests`');
    });
  });

  it.each(['constructor', 'toString', 'hasOwnProperty'])('count a unit with the name of what every object has: %s', (unit) => {
    virtualTime(() => {
      const rates = [
        tokenBucket({ unit, amount: 60, windowMs: 60_000, burst: 2 }),
        tokenBucket({ unit: 'images', amount: 60, windowMs: 60_000, burst: 2 }),
      ];
      const limiter = createLimiter({ rates, headroom: 1 });
      expect(limiter.tryAcquire({ cost: { images: 1 } })).toBeDefined();
      expect(limiter.tryAcquire({ cost: { [unit]: 2 } })).toBeDefined();
      expect(limiter.tryAcquire({ cost: { [unit]: 1 } })).toBeUndefined();
      expect(limiter.tryAcquire({ cost: { images: 1 } })).toBeDefined();
    });
  });

  it('a strict one never lets more than its amount into any window, whatever is asked when', () => {
    const beside = fc.constantFrom('alone', 'after', 'before', 'later');
    const asks = fc.array(fc.record({ waitMs: fc.nat(700), tokens: fc.integer({ min: 1, max: 5 }) }), { minLength: 1, maxLength: 40 });
    fc.assert(
      fc.property(asks, fc.integer({ min: 5, max: 9 }), fc.constantFrom(100, 1000, 1500), beside, (script, amount, windowMs, where) => {
        virtualTime(({ advance, flush, now }) => {
          const rate = slidingWindow({ unit: 'tokens', amount, windowMs });
          const bucket = tokenBucket({ unit: 'tokens', amount, windowMs });
          const rates = { alone: [rate], after: [bucket, rate], before: [rate, bucket], later: [rate] }[where];
          const limiter = createLimiter({ rates, headroom: 1 });
          if (where === 'later') limiter.setLimits({ rates: [bucket] });
          const granted: { readonly at: number; readonly tokens: number }[] = [];
          for (const { waitMs, tokens } of script) {
            limiter.acquire({ cost: { tokens } }).subscribe((lease) => {
              granted.push({ at: now(), tokens });
              lease.release();
            });
            advance(waitMs);
          }
          flush();
          expect(granted.length).toBe(script.length);
          for (const { at: from } of granted) {
            const inside = granted.filter(({ at }) => at >= from && at < from + windowMs);
            expect(inside.reduce((sum, { tokens }) => sum + tokens, 0)).toBeLessThanOrEqual(amount);
          }
        });
      }),
      { numRuns: sized(60, 150) },
    );
  });

  it('can all be changed, added and taken away', () => {
    virtualTime(({ advance }) => {
      const limiter = createLimiter({ rates: [perMinute('tokens', 6000)], headroom: 1 });
      limiter.setLimits({ rates: [perMinute('tokens', 60_000), slidingWindow({ unit: 'requests', amount: 1, windowMs: 1000 })] });
      expect(limiter.snapshot()).toMatchObject({ tokensPerMinute: 60_000, requestsPerMinute: 60 });
      expect([limiter.tryAcquire() !== undefined, limiter.tryAcquire()]).toEqual([true, undefined]);
      limiter.setLimits({ rates: [slidingWindow({ unit: 'requests', amount: Infinity, windowMs: 1000 })] });
      expect(limiter.tryAcquire()).toBeDefined();
      advance(1);
    });
  });

  it('refuses two that are the same, of which only one would hold', () => {
    const rates = [perMinute('tokens', 600), slidingWindow({ unit: 'tokens', amount: 600, windowMs: 60_000 })];
    const again = tokenBucket({ unit: 'tokens', amount: 1, windowMs: 60_000 });
    const message = 'createLimiter: two rates of `tokens` have the same window. Remove one of them.';
    expect(() => createLimiter({ rates: [...rates, again] })).toThrow(message);
    expect(() => {
      createLimiter().setLimits({ rates: [...rates, again] });
    }).toThrow(message);
  });

  it('goes on with what was spent, maybe in another process', () => {
    virtualTime(({ advance }) => {
      const rates = [perMinute('tokens', 6000), slidingWindow({ unit: 'requests', amount: 2, windowMs: 1000 })];
      const first = createLimiter({ rates, headroom: 1 });
      first.tryAcquire({ cost: { tokens: 200 } });
      first.tryAcquire();
      const saved = JSON.parse(JSON.stringify(first.save())) as ReturnType<Limiter['save']>;
      advance(500);
      const second = createLimiter({ rates, headroom: 1, restore: saved });
      expect(second.snapshot()).toMatchObject({ tokens: 50, requests: 0 });
      advance(500);
      expect(second.snapshot()).toMatchObject({ tokens: 100, requests: 2 });
    });
  });

  it.each<[string, LimiterOptions]>([
    ['without rates', {}],
    ['with a rate', { rates: [perMinute('tokens', 6000)] }],
    ['that learns', { learn: fromHeaders() }],
  ])('goes on with what is left of a pause, %s', (_how, options) => {
    virtualTime(({ advance }) => {
      const first = createLimiter(options);
      first.penalize(5000);
      const saved = JSON.parse(JSON.stringify(first.save())) as ReturnType<Limiter['save']>;
      advance(2000);
      expect(createLimiter({ ...options, restore: saved }).snapshot().pausedForMs).toBe(3000);
      advance(60_000);
      expect(createLimiter({ ...options, restore: saved }).snapshot().pausedForMs).toBe(0);
      first.penalize(Infinity);
      const endless = JSON.parse(JSON.stringify(first.save())) as ReturnType<Limiter['save']>;
      expect(createLimiter({ ...options, restore: endless }).snapshot().pausedForMs).toBe(Infinity);
    });
  });
});

describe('cost.slots', () => {
  it('takes as many slots as it says, and all when there are fewer', () => {
    const limiter = createLimiter({ concurrency: 3 });
    const two = limiter.tryAcquire({ cost: { slots: 2 } });
    expect([limiter.tryAcquire({ cost: { slots: 2 } }), limiter.executing]).toEqual([undefined, 2]);
    limiter.tryAcquire()?.release();
    const all: Lease[] = [];
    limiter.acquire({ cost: { slots: 9 } }).subscribe((lease) => all.push(lease));
    expect(limiter.tryAcquire()).toBeUndefined();
    two?.release();
    expect([all.length, limiter.tryAcquire()]).toEqual([1, undefined]);
    all[0]?.release();
    expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
  });
});

describe('move and remove', () => {
  it('change the lane of a waiting job, or take it out', () => {
    const limiter = createLimiter({ concurrency: 1, queue: lanes([{ name: 'now' }, { name: 'later', floor: 0 }]) });
    const held = limiter.tryAcquire();
    const seen: string[] = [];
    for (const id of ['a', 'b', 'c']) {
      limiter.acquire({ id, lane: 'later' }).subscribe({
        next: (lease) => {
          seen.push(id);
          lease.release();
        },
        error: (error: unknown) => seen.push(`${id} ${isFlowError(error) ? error.code : ''}`),
      });
    }
    limiter.acquire({ id: 'a' }).subscribe({ error: (error: unknown) => seen.push(isFlowError(error) ? error.code : '') });
    expect(seen.splice(0)).toEqual(['FLOW_CONFIG_INVALID']);
    expect([limiter.move('c', 'now'), limiter.remove('a'), limiter.remove('a'), limiter.move('x', 'now')]).toEqual([
      true,
      true,
      false,
      false,
    ]);
    held?.release();
    expect(seen).toEqual(['a FLOW_CLEARED', 'c', 'b']);
    expect(limiter.move('c', 'now')).toBe(false);
    expect(() => limiter.move('c', 'never')).toThrow('never');
  });
});

describe('pass and wrap', () => {
  it('lets those pass who need no slot when the rates can pay', async () => {
    const limiter = createLimiter({ concurrency: 1, rates: [perMinute('requests', 120_000, { burst: 1 })], headroom: 1 });
    const slot = limiter.tryAcquire();
    await limiter.pass();
    await limiter.pass();
    slot?.release();
    expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
    limiter.close();
    await expect(limiter.pass()).rejects.toMatchObject({ code: 'FLOW_CLOSED' });
  });

  it('wraps a function, with its arguments, `this` and failures', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const counter = {
      step: 2,
      next: limiter.wrap(function (this: { step: number }, from: number) {
        return Promise.resolve(from + this.step);
      }),
    };
    expect(await Promise.all([counter.next(1), counter.next(2), counter.next(3)])).toEqual([3, 4, 5]);
    const fault = new Error('no');
    await expect(limiter.wrap(() => Promise.reject(fault))()).rejects.toBe(fault);
    expect(limiter.executing).toBe(0);
    const pending = limiter.wrap(() => NEVER)();
    limiter.close();
    await expect(pending).rejects.toMatchObject({ code: 'FLOW_CLOSED' });
  });
});

describe('what a child does not learn', () => {
  it('teaches the limiter above', () => {
    virtualTime(() => {
      const account = createAccount({ concurrency: 2 });
      const child = childOf(account, { concurrency: 1 });
      child.tryAcquire()?.observe({ status: 429, headers: { 'retry-after': '2' } });
      expect([account.snapshot().pausedForMs, child.snapshot().pausedForMs]).toEqual([2000, 2000]);
      const silent = createLimiter();
      silent.observe({ status: 429, headers: { 'retry-after': '2' } });
      expect(silent.snapshot().pausedForMs).toBe(0);
      const pausing = createLimiter({ learn: fromHeaders({ learn: false }) });
      pausing.observe({ status: 429, headers: { 'retry-after': '2', 'x-ratelimit-limit-requests': '5' } });
      expect(pausing.snapshot()).toMatchObject({ pausedForMs: 2000, requestsPerMinute: Infinity });
    });
  });
});

describe('a keyed limiter of its own', () => {
  it('limits each key, and nothing else', async () => {
    const tools = keyedLimiter({ concurrency: 1 });
    const lease = tools.tryAcquire({ key: 'a' });
    expect([tools.tryAcquire({ key: 'a' }), tools.keys]).toEqual([undefined, 1]);
    expect(await lastValueFrom(tools.run(() => Promise.resolve(5), { key: 'b' }))).toBe(5);
    const drained = tools.drain();
    lease?.release();
    expect(await drained).toEqual({ done: 1, aborted: 0, dropped: 0 });
    await expect(tools.acquireAsync({ key: 'c' })).rejects.toMatchObject({ code: 'FLOW_CLOSED' });
  });

  it.each([
    ['of its own', () => keyedLimiter({ concurrency: 1 })],
    ['below another', () => keyedLimiter(createLimiter({ concurrency: 2 }), { concurrency: 1 })],
  ])('%s waits for all keys together, also while one of them is stuck', async (_where, make) => {
    const tools = make();
    const stuck = tools.tryAcquire({ key: 'stuck' });
    for (let i = 0; i < 3; i++) void tools.runAsync(() => undefined, { key: 'stuck' });
    const told: string[] = [];
    const idle = tools.whenIdle().then(() => told.push('idle'));
    const few = tools.whenQueued({ below: 3 }).then(() => told.push('below 3'));
    const ofOne = tools
      .of('stuck')
      .whenQueued({ below: 2 })
      .then(() => told.push('below 2 of one key'));
    for (let i = 0; i < 20; i++) await tools.runAsync(() => undefined, { key: i % 4 });
    expect(told).toEqual([]);
    stuck?.release();
    await Promise.all([idle, few, ofOne]);
    expect(told.sort()).toEqual(['below 2 of one key', 'below 3', 'idle']);
    expect(tools.keys).toBe(1);
  });
});

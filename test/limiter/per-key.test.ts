import { describe, expect, it } from 'vitest';
import type { KeyedLimiter } from '../../operators/index.js';
import { createLimiter, keyedLimiter, slidingWindow } from '../../operators/index.js';
import type { LimiterLimits } from '../../operators/options/limiter.js';
import { CountingScheduler } from '../support/counting-scheduler.js';

/** How many leases a key gets at once, of ten jobs. */
function granted(limiter: KeyedLimiter, key: unknown): number {
  return Array.from({ length: 10 }, () => limiter.tryAcquire({ key })).filter(Boolean).length;
}

const perSecond = (amount: number) => [slidingWindow({ unit: 'requests', amount, windowMs: 1000 })];

describe('limits by key', () => {
  const tenants = new Map<unknown, LimiterLimits>([
    ['gold', { concurrency: 5 }],
    ['tried', { rates: perSecond(2) }],
    ['both', { concurrency: 4, rates: perSecond(3) }],
    ['nothing', {}],
  ]);

  it.each([
    ['gold', 5],
    ['tried', 2],
    ['both', 3],
    ['nothing', 3],
    ['unknown', 3],
    [undefined, 3],
  ])('gives %s its own, and what it does not say as to the others', (key, most) => {
    const perKey = (of: unknown) => tenants.get(of);
    expect(granted(keyedLimiter({ concurrency: 3, headroom: 1, perKey }), key)).toBe(most);
    expect(granted(keyedLimiter(createLimiter(), { concurrency: 3, headroom: 1, perKey }), key)).toBe(most);
  });

  it('keeps to the limiter above', () => {
    const account = createLimiter({ concurrency: 4 });
    const keyed = keyedLimiter(account, { concurrency: 1, perKey: (key) => (key === 'gold' ? { concurrency: 10 } : undefined) });
    expect(granted(keyed, 'gold')).toBe(4);
    expect(granted(keyed, 'other')).toBe(0);
  });

  it('counts a limit that is left out with undefined as left out', () => {
    const perKey = () => ({ concurrency: undefined, rates: undefined }) as never;
    expect(granted(keyedLimiter({ concurrency: 2, perKey }), 'a')).toBe(2);
  });

  it('asks when the limiter of a key is made, and again when the key was forgotten', () => {
    const scheduler = new CountingScheduler();
    const asked: unknown[] = [];
    let most = 1;
    const keyed = keyedLimiter({
      maxKeys: 1,
      scheduler,
      perKey: (key) => {
        asked.push(key);
        return { concurrency: most };
      },
    });
    const [first, none] = [keyed.tryAcquire({ key: 'a' }), keyed.tryAcquire({ key: 'a' })];
    most = 2;
    expect([none, asked]).toEqual([undefined, ['a']]);
    first?.release();
    expect(granted(keyed, 'b')).toBe(2);
    expect(keyed.tryAcquire({ key: 'a' })).toBeUndefined();
    expect(asked).toEqual(['a', 'b']);
  });

  it('takes the later limits of one key from its own limiter', () => {
    const keyed = keyedLimiter({ perKey: () => ({ concurrency: 1 }) });
    keyed.of('a').setLimits({ concurrency: 3 });
    expect([granted(keyed, 'a'), granted(keyed, 'b')]).toEqual([3, 1]);
  });

  it.each([
    [
      'throws',
      () => {
        throw new Error('no such tenant');
      },
      /no such tenant/,
    ],
    ['answers a number', () => 5, /expected `perKey` to be an object, got `5`/],
    ['answers null', () => null, /expected `perKey` to be an object, got `null`/],
    ['answers a limit out of range', () => ({ concurrency: 0 }), /expected `concurrency` to be a whole number >= 1 or Infinity, got `0`/],
    ['answers an option that is no limit', () => ({ maxQueued: 5 }), /unknown option `perKey.maxQueued`/],
    ['answers something that is no rate', () => ({ rates: [60] }), /expected `rates\[0\]` to be a rate/],
  ])('refuses the job when the function %s, and no other job', async (_what, answer: () => unknown, message) => {
    const keyed = keyedLimiter(createLimiter(), { perKey: (key) => (key === 'bad' ? (answer() as never) : { concurrency: 1 }) });
    const wanted = {
      code: 'FLOW_CALLBACK',
      operator: 'keyedLimiter',
      callback: 'perKey',
      cause: { message: expect.stringMatching(message) as string },
    };
    await expect(keyed.acquireAsync({ key: 'bad' })).rejects.toMatchObject(wanted);
    await expect(keyed.runAsync(() => 1, { key: 'bad' })).rejects.toMatchObject(wanted);
    let error: unknown;
    keyed.acquire({ key: 'bad' }).subscribe({ error: (reason: unknown) => (error = reason) });
    expect(error).toMatchObject(wanted);
    expect(() => keyed.tryAcquire({ key: 'bad' })).toThrow('keyedLimiter: `perKey` threw');
    expect(() => keyed.of('bad')).toThrow('keyedLimiter: `perKey` threw');
    expect(keyed.keys).toBe(0);
    expect(granted(keyed, 'good')).toBe(1);
  });

  it('has one limiter for a key whose limits ask for that key', () => {
    let isAsked = false;
    const keyed: KeyedLimiter = keyedLimiter({
      perKey: () => {
        if (!isAsked) {
          isAsked = true;
          keyed.tryAcquire({ key: 'a' });
        }
        return { concurrency: 2 };
      },
    });
    expect(granted(keyed, 'a')).toBe(1);
  });
});

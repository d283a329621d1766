import { readFileSync } from 'node:fs';
import PQueue from 'p-queue';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { AccountOptions, Limiter } from '../../operators/index.js';
import { createAccount, createLimiter, slidingWindow } from '../../operators/index.js';
import { mostInAnyWindow } from '../support/strict-window.js';

const guide = readFileSync(new URL('../../docs/guides/migrating-from-p-queue.md', import.meta.url), 'utf8');

/** Calls in the first moment, in the fullest second and in the fullest minute, as the guide has them under that name. */
function onThePage(name: string): number[] {
  const row = guide.split('\n').find((line) => line.startsWith(`| ${name} |`));
  return row?.split('|').slice(2, 5).map(Number) ?? [];
}

const measured = (startsMs: readonly number[]): number[] => [1, 1000, 60_000].map((ms) => mostInAnyWindow(startsMs, ms));

/** When each of so many calls starts that are asked for at once. */
function startsOf(calls: number, create: () => Limiter): number[] {
  return virtualTime(({ flush, now }) => {
    const limiter = create();
    const startsMs: number[] = [];
    for (let call = 0; call < calls; call++) {
      limiter.acquire().subscribe((lease) => {
        startsMs.push(now());
        lease.release();
      });
    }
    flush();
    return startsMs;
  });
}

describe('what the guide from p-queue says of caps', () => {
  const account = (options: AccountOptions) => () => createAccount({ requestsPerMinute: 1200, ...options });
  const strictly = (amount: number, windowMs: number) => () =>
    createLimiter({ rates: [slidingWindow({ unit: 'requests', amount, windowMs })], headroom: 1 });

  it.each<readonly [string, () => Limiter]>([
    ['`burstSeconds: 0.05`', account({ burstSeconds: 0.05 })],
    ['`burstSeconds: 1`', account({ burstSeconds: 1 })],
    ['nothing more (`burstSeconds: 2`)', account({})],
    ["`slidingWindow({ unit: 'requests', amount: 20, windowMs: 1000 })`", strictly(20, 1000)],
    ["`slidingWindow({ unit: 'requests', amount: 1200, windowMs: 60_000 })`", strictly(1200, 60_000)],
  ])('%s lets through what stands there, and all 3000 in the end', (name, create) => {
    const startsMs = startsOf(3000, create);
    expect(startsMs).toHaveLength(3000);
    expect(onThePage(name)).toEqual(measured(startsMs));
  });

  it.each([1, 2, 3, 5, 7, 10, 20, 33, 60, 100, 250])(
    '`requestsPerMinute: 60 * N` with `burstSeconds: 0.05` never starts more than N in a second: %d',
    (n) => {
      const startsMs = startsOf(Math.max(30, n * 10), account({ requestsPerMinute: 60 * n, burstSeconds: 0.05 }));
      expect(mostInAnyWindow(startsMs, 1000)).toBeLessThanOrEqual(n);
      expect(mostInAnyWindow(startsMs, 1000)).toBeGreaterThanOrEqual(Math.floor(0.9 * n));
    },
  );

  it.each([
    [5, 7],
    [10, 100],
    [0.25, 5],
    [0.1, 20],
  ])('`requestsPerMinute: (60 / s) * N` with `burstSeconds: s / 20` never starts more than N in s seconds: %d s, %d', (seconds, n) => {
    const startsMs = startsOf(10 * n, account({ requestsPerMinute: (60 / seconds) * n, burstSeconds: seconds / 20 }));
    expect(mostInAnyWindow(startsMs, seconds * 1000)).toBeLessThanOrEqual(n);
  });

  describe('of p-queue itself', () => {
    beforeEach(() => {
      vi.useFakeTimers();
    });
    afterEach(() => {
      vi.useRealTimers();
    });

    it.each([false, true])('with `strict: %s`', async (strict) => {
      const queue = new PQueue({ interval: 1000, intervalCap: 20, strict });
      const startsMs: number[] = [];
      const all = Promise.all(Array.from({ length: 3000 }, () => queue.add(() => startsMs.push(Date.now()))));
      await vi.advanceTimersByTimeAsync(200_000);
      await all;
      expect(onThePage('p-queue, `intervalCap: 20`, `interval: 1000`')).toEqual(measured(startsMs));
    });
  });
});

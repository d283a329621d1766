import { expect, it } from 'vitest';
import { createLimiter, perMinute } from '../../operators/index.js';
import type { Release } from '../../operators/options/limiter.js';
import { CountingScheduler } from '../support/counting-scheduler.js';

it('a clock that counts up to 0 puts nothing off until then', () => {
  const scheduler = new CountingScheduler();
  scheduler.offset = -100_000;
  const limiter = createLimiter({ concurrency: 1, scheduler });
  const held = limiter.tryAcquire();
  const granted: number[] = [];
  limiter.acquire().subscribe(() => granted.push(scheduler.frame));
  // What has come free is granted at the end of the frame.
  held?.release('cancelled');
  scheduler.flush();
  expect(granted).toEqual([0]);
  expect(scheduler.delays).toEqual([0]);
});

it('tells no time of a grant for which the clock was not read', () => {
  const scheduler = new CountingScheduler();
  const limiter = createLimiter({ scheduler, rates: [perMinute('requests', Infinity)] });
  const lease = limiter.tryAcquire();
  const releases: Release[] = [];
  limiter.onRelease((release) => releases.push(release));
  scheduler.offset = 7000;
  lease?.release();
  expect(releases).toMatchObject([{ grantedAt: 7000, releasedAt: 7000 }]);
});

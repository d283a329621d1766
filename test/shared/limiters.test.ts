import { throwError, VirtualTimeScheduler } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { Limiter, LimiterOptions } from '../../operators/index.js';
import { createLimiter, memoryStore, shared, sharedStore, slidingWindow, tokenBucket } from '../../operators/index.js';

function limiters(count: number, rates: Parameters<typeof shared>[1], options: LimiterOptions = {}) {
  const scheduler = new VirtualTimeScheduler();
  const store = memoryStore({ scheduler });
  const all = Array.from(
    { length: count },
    (): Limiter => createLimiter({ headroom: 1, scheduler, ...options, rates: shared(store, rates) }),
  );
  return { all, scheduler, store };
}

describe('limiters on one store', () => {
  it('share a window', () => {
    const {
      all: [one, other],
    } = limiters(2, [slidingWindow({ unit: 'requests', amount: 3, windowMs: 1000 })]) as never as { all: Limiter[] };
    const got = [one, other, one, other].map((limiter) => limiter!.tryAcquire() !== undefined);
    expect(got).toEqual([true, true, true, false]);
  });

  it('wait for a bucket, and keep the rate together', () => {
    const { all, scheduler } = limiters(3, [tokenBucket({ unit: 'tokens', amount: 10_000, windowMs: 10_000 })]);
    const arrivals: { at: number; tokens: number }[] = [];
    for (const limiter of all)
      for (let i = 0; i < 100; i++)
        limiter.acquire({ cost: { tokens: 100 } }).subscribe((lease) => {
          arrivals.push({ at: scheduler.now(), tokens: 100 });
          lease.release();
        });
    scheduler.maxFrames = 29_000;
    scheduler.flush();
    const total = arrivals.reduce((sum, { tokens }) => sum + tokens, 0);
    let fullest = 0;
    for (const { at } of arrivals)
      fullest = Math.max(
        fullest,
        arrivals.filter((other) => other.at > at - 10_000 && other.at <= at).reduce((sum, { tokens }) => sum + tokens, 0),
      );
    expect(fullest).toBeLessThanOrEqual(10_000);
    expect(total).toBeGreaterThan(27_000);
  });

  it('wait while the store is down, and tell that once, and its return', () => {
    const scheduler = new VirtualTimeScheduler();
    const inner = memoryStore({ scheduler });
    const store = sharedStore({
      ask: (question) => (scheduler.now() < 3000 ? throwError(() => new Error('down')) : inner.ask(question)),
      correct: (corrections) => {
        inner.correct(corrections);
      },
      hold: (scope, ms) => {
        inner.hold(scope, ms);
      },
    });
    const told: string[] = [];
    const limiter = createLimiter({
      scheduler,
      rates: shared(store, [tokenBucket({ unit: 'requests', amount: 100, windowMs: 1000 })]),
      onEvent: ({ type, at }) => told.push(`${type} ${String(at)}`),
    });
    const ends: string[] = [];
    limiter.acquire({ deadlineMs: 1000 }).subscribe({ error: (error: Error) => ends.push(`${error.name} ${String(scheduler.now())}`) });
    limiter.acquire().subscribe(() => ends.push(`granted ${String(scheduler.now() >= 3000)}`));
    scheduler.flush();
    expect(ends).toEqual(['DeadlineError 1000', 'granted true']);
    expect(told.map((each) => each.split(' ')[0]).filter((type) => type?.startsWith('store'))).toEqual(['storeDown', 'storeUp']);
  });
});

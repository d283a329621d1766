import type { SchedulerLike } from 'rxjs';
import { of, queueScheduler, Subject, Subscription, VirtualTimeScheduler } from 'rxjs';
import { expect, it } from 'vitest';
import { batch, batchMap, childOf, createLimiter, fixed, tokenBucket } from '../../operators/index.js';
import { CountingScheduler } from '../support/counting-scheduler.js';

// Every timer of the package is of one kind; how it keeps time when the clock does not is in `batch.test.ts`.

it('rounds up to whole milliseconds, which is all a host timer can do', () => {
  const scheduler = new CountingScheduler();
  const flushes: number[] = [];
  new Subject<number>().pipe(batch({ scheduler })).subscribe().unsubscribe();
  const source = new Subject<number>();
  source.pipe(batch({ maxWaitMs: 10.2, scheduler })).subscribe(() => flushes.push(scheduler.frame));
  source.next(1);
  scheduler.flush();
  expect(scheduler.delays).toEqual([11]);
  expect(flushes).toEqual([11]);
});

it('waits in parts for longer than a host timer can', () => {
  const scheduler = new CountingScheduler();
  const limiter = createLimiter({ concurrency: 1, scheduler });
  const grants: number[] = [];
  const longest = 2 ** 31 - 1;
  limiter.penalize(3 * longest + 7);
  limiter.acquire().subscribe(() => grants.push(scheduler.frame));
  scheduler.flush();
  expect(scheduler.delays).toEqual([longest, longest, longest, 7]);
  expect(grants).toEqual([3 * longest + 7]);
});

it('needs one timer for a hundred thousand changes to a later time', () => {
  const scheduler = new CountingScheduler();
  const limiter = createLimiter({ concurrency: 1, scheduler });
  const grants: number[] = [];
  limiter.penalize(100);
  limiter.acquire().subscribe(() => grants.push(scheduler.frame));
  for (let ms = 101; ms <= 100_000; ms++) limiter.penalize(ms);
  expect(scheduler.delays).toEqual([100]);
  expect(scheduler.actions).toHaveLength(1);
  scheduler.flush();
  expect(grants).toEqual([100_000]);
});

it('takes a scheduler that runs a delay of 0 at once', () => {
  const immediate: SchedulerLike = { now: () => 0, schedule: queueScheduler.schedule.bind(queueScheduler) };
  const values: unknown[] = [];
  of(1, 2, 3)
    .pipe(batchMap((items: readonly number[]) => of(items.map((item) => item * 2)), { scheduler: immediate }))
    .subscribe((settled) => values.push(settled.status === 'fulfilled' ? settled.value : settled.reason));
  expect(values).toEqual([2, 4, 6]);
});

it('leaves nothing on such a scheduler when it was set again while it rang', () => {
  const later = new VirtualTimeScheduler();
  const immediate: SchedulerLike = {
    now: () => later.now(),
    schedule: (work, delay = 0, state) => {
      if (delay > 0) return later.schedule(work as () => void, delay, state);
      (work as () => void)();
      return Subscription.EMPTY;
    },
  };
  const source = new Subject<number>();
  const subscription = source
    .pipe(batchMap(() => new Subject<number[]>(), { scheduler: immediate, timeoutMs: 50, window: fixed(0) }))
    .subscribe();
  source.next(1);
  source.next(2);
  expect(later.actions.length).toBeGreaterThan(0);
  subscription.unsubscribe();
  expect(later.actions).toHaveLength(0);
});

const account = (scheduler: SchedulerLike, concurrency = Infinity) =>
  createLimiter({ concurrency, rates: [tokenBucket({ unit: 'tokens', amount: 60, windowMs: 60_000, burst: 60 })], headroom: 1, scheduler });

it.each([
  ['a slot', (scheduler: SchedulerLike) => account(scheduler, 1)],
  ['tokens', (scheduler: SchedulerLike) => account(scheduler)],
  ['a slot of a child', (scheduler: SchedulerLike) => childOf(account(scheduler), { concurrency: 1 })],
  ['tokens above a child', (scheduler: SchedulerLike) => childOf(account(scheduler), { concurrency: 2 })],
])('needs a handful of timers for a batch that waits for %s until it is too late for it', (_, limiterOn) => {
  const scheduler = new CountingScheduler();
  const limiter = limiterOn(scheduler);
  expect(limiter.tryAcquire({ cost: { tokens: 60 } })).toBeDefined();
  const source = new Subject<number>();
  const ends: unknown[] = [];
  const weigh = (weight: number) => weight;
  source.pipe(batchMap((items: readonly number[]) => of(items), { limiter, weigh, deadlineMs: 10_000, scheduler })).subscribe((settled) => {
    ends.push([scheduler.frame, settled.status]);
  });
  for (const weight of [20, 20]) source.next(weight);
  scheduler.flush();
  expect(ends).toEqual([
    [10_000, 'rejected'],
    [10_000, 'rejected'],
  ]);
  expect(scheduler.delays.length).toBeLessThan(12);
});

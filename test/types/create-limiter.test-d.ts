import type { Observable } from 'rxjs';
import { of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type {
  KeyFairness,
  LaneOptions,
  Lease,
  Limiter,
  LimiterJob,
  LimiterOptions,
  LimiterSnapshot,
  MergeLane,
} from '../../operators/index.js';
import {
  byCost,
  childOf,
  createAccount,
  createLimiter,
  fromHeaders,
  heldBy,
  keyedLimiter,
  lanes,
  perMinute,
  roundRobin,
  slidingWindow,
  tokenBucket,
} from '../../operators/index.js';
import type { LeaseContext, LimiterLimits } from '../../operators/options/limiter.js';
import type { Place } from '../../operators/options/permits.js';

const limiter = createLimiter({
  concurrency: 4,
  rates: [perMinute('tokens', 90_000), tokenBucket({ unit: 'images', amount: 5, windowMs: 1000, burst: 5 })],
  queue: lanes([{ name: 'p0' }, { name: 'p1', floor: 0.2 }], { key: ({ key }: LimiterJob) => key }),
  learn: fromHeaders(),
});

describe('createLimiter', () => {
  it('makes a limiter, with or without options', () => {
    expectTypeOf(createLimiter()).toEqualTypeOf<Limiter>();
    expectTypeOf(limiter).toEqualTypeOf<Limiter>();
    expectTypeOf(limiter).toExtend<AsyncDisposable>();
  });

  it('takes a reserve of a lane as a number, and none where no limiter is', () => {
    expectTypeOf<LaneOptions['reserve']>().toEqualTypeOf<number | undefined>();
    expectTypeOf<MergeLane<string>>().not.toHaveProperty('reserve');
    // @ts-expect-error -- a share, not a text
    lanes([{ name: 'p0', reserve: '5 %' }]);
    createAccount({ lanes: [{ name: 'p0', reserve: 0.1 }, 'p1'] });
  });

  it('takes what says how keys share a lane', () => {
    expectTypeOf(byCost('images')).toEqualTypeOf<KeyFairness>();
    createLimiter({ queue: lanes([{ name: 'p0' }], { key: ({ key }: LimiterJob) => key, keyFairness: byCost() }) });
    createAccount({ keyFairness: byCost() });
    // @ts-expect-error -- a value, not a name
    createAccount({ keyFairness: 'byCost' });
    // @ts-expect-error -- how lanes share turns is `fairness`
    lanes([{ name: 'p0' }], { keyFairness: roundRobin() });
  });

  it('hands out leases now, later and as a promise', () => {
    expectTypeOf(limiter.tryAcquire()).toEqualTypeOf<Lease | undefined>();
    expectTypeOf(limiter.acquire({ lane: 'p0', cost: { tokens: 5, images: 1, slots: 2 }, deadlineMs: 100 })).toEqualTypeOf<
      Observable<Lease>
    >();
    expectTypeOf(limiter.acquireAsync({ signal: new AbortController().signal })).toEqualTypeOf<Promise<Lease>>();
  });

  it('runs work of every kind and keeps the type of its answer', () => {
    expectTypeOf(limiter.run(() => of(1, 2))).toEqualTypeOf<Observable<number>>();
    expectTypeOf(limiter.run(() => Promise.resolve('a'))).toEqualTypeOf<Observable<string>>();
    expectTypeOf(
      limiter.run(async ({ signal, lease }) => {
        expectTypeOf(signal).toEqualTypeOf<AbortSignal>();
        expectTypeOf(lease).toEqualTypeOf<Lease>();
        return Promise.resolve({ text: 'a' });
      }),
    ).toEqualTypeOf<Observable<{ text: string }>>();
    expectTypeOf(limiter.run(() => [true])).toEqualTypeOf<Observable<boolean[]>>();
    expectTypeOf(limiter.run(() => 'answer')).toEqualTypeOf<Observable<string>>();
  });

  it('answers with a promise of the last value', () => {
    expectTypeOf(limiter.runAsync(() => Promise.resolve('a'))).toEqualTypeOf<Promise<string>>();
    expectTypeOf(limiter.runAsync(() => of(1, 2))).toEqualTypeOf<Promise<number>>();
    expectTypeOf(
      limiter.runAsync(
        (context) => {
          expectTypeOf(context).toEqualTypeOf<LeaseContext>();
          return Promise.resolve({ text: 'a' });
        },
        { id: 1, lane: 'p0', key: 'tenant', cost: { tokens: 5 }, deadlineMs: 100 },
      ),
    ).toEqualTypeOf<Promise<{ text: string }>>();
    // @ts-expect-error work is a function
    void limiter.runAsync(Promise.resolve(1));
    expectTypeOf(limiter.runAsync(() => 5)).toEqualTypeOf<Promise<number>>();
    expectTypeOf(limiter.runAsync(() => undefined)).toEqualTypeOf<Promise<undefined>>();
    // @ts-expect-error not a field of a job
    void limiter.runAsync(() => of(1), { priority: 1 });
  });

  it('takes what fetch and the SDKs carry as a response', () => {
    limiter.observe(new Response());
    limiter.observe({ status: 429, headers: { 'retry-after': '3', 'x-many': ['a', 'b'] } });
    limiter.observe(new Response(), { sentAt: 5 });
    limiter.tryAcquire()?.observe(new Response());
    // @ts-expect-error a response has a status
    limiter.observe({ headers: {} });
    // @ts-expect-error not a time
    limiter.observe(new Response(), { sentAt: new Date() });
  });

  it('gives a bidder a place', () => {
    expectTypeOf(
      limiter.enlist({
        granted: (lease) => {
          lease.release('unused');
        },
        refused: () => undefined,
      }),
    ).toEqualTypeOf<Place>();
    expectTypeOf(
      limiter.enlist({ bid: (affordable) => affordable / 2, granted: () => undefined, refused: () => undefined }, 'p0'),
    ).toEqualTypeOf<Place>();
    // @ts-expect-error `refused` is required
    limiter.enlist({ granted: () => undefined });
  });

  it('refuses wrong options and jobs', () => {
    createLimiter({ rates: [slidingWindow({ unit: 'requests', amount: 60, windowMs: 1000 })] });
    // @ts-expect-error only a value that was made for it
    createLimiter({ rates: [{ unit: 'requests', amount: 60 }] });
    // @ts-expect-error only a value that was made for it
    createLimiter({ learn: true });
    // @ts-expect-error not a policy of a queue that does not block
    createLimiter({ overflow: 'block' });
    // @ts-expect-error no policy
    createLimiter({ overflow: () => 'block' });
    // @ts-expect-error a number is wanted at once
    createLimiter({ maxQueued: async () => 5 });
    createLimiter({ maxQueued: () => 5, overflow: () => 'dropLowest' });
    // @ts-expect-error not an option
    createLimiter({ maxConcurrency: 4 });
    // @ts-expect-error lanes have names
    createLimiter({ queue: lanes([{ floor: 0.1 }]) });
    // @ts-expect-error a lease is not its holder
    limiter.tryAcquire({ holder: limiter.tryAcquire()! });
    // @ts-expect-error a cost is an object
    limiter.tryAcquire({ cost: 5 });
    // @ts-expect-error not a limit that can change
    limiter.setLimits({ headroom: 0.5 });
    // @ts-expect-error not an outcome
    limiter.tryAcquire()?.release('done');
  });

  it('has readonly options', () => {
    expectTypeOf<LimiterOptions>().toEqualTypeOf<Readonly<LimiterOptions>>();
    expectTypeOf<LimiterLimits>().toEqualTypeOf<Readonly<LimiterLimits>>();
    expectTypeOf<LimiterJob>().toEqualTypeOf<Readonly<LimiterJob>>();
    expectTypeOf<LimiterSnapshot>().toEqualTypeOf<Readonly<LimiterSnapshot>>();
  });

  it('has limiters below, and one for each key', () => {
    expectTypeOf(childOf(limiter, { concurrency: 1 })).toEqualTypeOf<Limiter>();
    expectTypeOf(createAccount({ requestsPerMinute: 60, lanes: ['now', { name: 'later', floor: 0 }] })).toEqualTypeOf<Limiter>();
    const keyed = keyedLimiter(limiter, { concurrency: 1 });
    expectTypeOf(keyed.of('a')).toEqualTypeOf<Limiter>();
    keyedLimiter({ perKey: (key) => (key === 'gold' ? { concurrency: 5, rates: [perMinute('requests', 60)] } : undefined) });
    // @ts-expect-error limits are objects
    keyedLimiter({ perKey: () => 5 });
    // @ts-expect-error no limit
    keyedLimiter({ perKey: () => ({ maxQueued: 5 }) });
    // @ts-expect-error of which key
    keyed.tryAcquire({});
    // @ts-expect-error a child has the clock of the limiter above
    childOf(limiter, { scheduler: undefined });
    void limiter.run(({ lease }) => limiter.run(() => of(1), { holder: heldBy(lease) }));
  });

  it('wraps a function, with its arguments and its answer', () => {
    const ask = limiter.wrap((question: string, times: number) => Promise.resolve(question.length * times));
    expectTypeOf(ask).toEqualTypeOf<(question: string, times: number) => Promise<number>>();
    expectTypeOf(limiter.pass({ cost: { tokens: 5 } })).toEqualTypeOf<Promise<void>>();
  });
});

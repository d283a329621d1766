/* eslint-disable rxjs-x/no-nested-subscribe -- calls made from inside a grant are half of what is tested here */
import { getEventListeners } from 'node:events';
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import {
  concat,
  EMPTY,
  EmptyError,
  finalize,
  from,
  lastValueFrom,
  map,
  mergeMap,
  NEVER,
  Observable,
  of,
  range,
  Subject,
  take,
  throwError,
  timer,
  toArray,
} from 'rxjs';
import { afterAll, describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { FlowEvent, Lease, Limiter, LimiterJob, LimiterOptions, ResponseLike } from '../../operators/index.js';
import {
  ClosedError,
  createLimiter,
  DeadlineError,
  fromHeaders,
  ItemTooHeavyError,
  isFlowError,
  keyedLimiter,
  LaneUnknownError,
  lanes,
  OverflowError,
  perMinute,
  RateLimitError,
} from '../../operators/index.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { MORE_THAN_A_STACK } from '../support/deep.js';
import { unstamped } from '../support/events.js';
import { refusing } from '../support/refusing.js';

/** Everything that happens to one `acquire`, and when. */
function watch(limiter: Limiter, job?: LimiterJob, now: () => number = () => 0) {
  const seen: string[] = [];
  const leases: Lease[] = [];
  const subscription = limiter.acquire(job).subscribe({
    next: (lease) => {
      leases.push(lease);
      seen.push(`lease at ${String(now())}`);
    },
    error: (error: unknown) => seen.push(`${(error as Error).name} at ${String(now())}`),
    complete: () => seen.push('complete'),
  });
  return { seen, leases, subscription };
}

function caught(run: () => unknown): unknown {
  try {
    run();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}

function errorOf(limiter: Limiter, job?: LimiterJob): unknown {
  let failure: unknown;
  limiter.acquire(job).subscribe({ error: (error: unknown) => (failure = error) });
  return failure;
}

const stoppable = (): { signal: AbortSignal; abort: () => void } => {
  const controller = new AbortController();
  return {
    signal: controller.signal,
    abort: () => {
      controller.abort();
    },
  };
};

const busy = (options: LimiterOptions): { limiter: Limiter; lease: Lease } => {
  const limiter = createLimiter({ concurrency: 1, ...options });
  return { limiter, lease: limiter.tryAcquire()! };
};

describe('acquire', () => {
  it('emits one lease at once and completes', () => {
    const limiter = createLimiter({ concurrency: 2 });
    expect(watch(limiter).seen).toEqual(['lease at 0', 'complete']);
    expect(limiter.executing).toBe(1);
  });

  it('is cold: every subscription is a job of its own, and none is made before', () => {
    const { limiter } = busy({});
    const job = limiter.acquire();
    expect(limiter.snapshot().queued).toBe(0);
    const subscriptions = [job.subscribe(), job.subscribe()];
    expect(limiter.snapshot().queued).toBe(2);
    for (const each of subscriptions) each.unsubscribe();
    expect(limiter.snapshot().queued).toBe(0);
  });

  it('leaves when it is unsubscribed before next, and costs nothing', () => {
    virtualTime(({ advance, pending }) => {
      const limiter = createLimiter({
        rates: [perMinute('requests', 60, { burst: 1 }), perMinute('tokens', 600, { burst: 10 })],
        headroom: 1,
      });
      limiter.tryAcquire({ cost: { tokens: 10 } });
      const { seen, subscription } = watch(limiter, { cost: { tokens: 10 } });
      expect(pending()).toBe(1);
      subscription.unsubscribe();
      expect(pending()).toBe(0);
      advance(1000);
      expect(seen).toEqual([]);
      expect(limiter.snapshot()).toMatchObject({ requests: 1, tokens: 10, executing: 1, queued: 0 });
    });
  });

  it('leaves the lease to its holder, even to one that unsubscribes in `next`', () => {
    const limiter = createLimiter({ concurrency: 1 });
    let lease: Lease | undefined;
    limiter
      .acquire()
      .pipe(take(1))
      .subscribe((given) => (lease = given));
    expect(limiter.executing).toBe(1);
    lease?.release();
    lease?.release();
    expect(limiter.executing).toBe(0);
  });

  it('skips only the job that leaves while others are granted', () => {
    const { limiter, lease } = busy({ concurrency: 1 });
    const order: string[] = [];
    const second = new Subject<void>();
    const subscriptions = ['a', 'b', 'c'].map((name) =>
      limiter.acquire().subscribe((given) => {
        order.push(name);
        if (name === 'a') second.next();
        given.release();
      }),
    );
    second.subscribe(() => {
      subscriptions[1]?.unsubscribe();
    });
    lease.release();
    expect(order).toEqual(['a', 'c']);
    expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
  });

  it('grants in one flat loop: many thousand jobs that release at once do not recurse', () => {
    const { limiter, lease } = busy({ maxQueued: Infinity });
    let done = 0;
    for (let i = 0; i < MORE_THAN_A_STACK; i++) limiter.run(() => of(i)).subscribe({ complete: () => done++ });
    expect([done, limiter.snapshot().queued]).toEqual([0, MORE_THAN_A_STACK]);
    lease.release();
    expect([done, limiter.executing]).toEqual([MORE_THAN_A_STACK, 0]);
  });

  it('grants in one flat loop: a chain of many thousand jobs that each start the next', () => {
    const limiter = createLimiter({ concurrency: 1 });
    let done = 0;
    const next = (): void => {
      limiter
        .run(() => of(0))
        .subscribe(() => {
          if (++done < MORE_THAN_A_STACK) next();
        });
    };
    next();
    expect(done).toBe(MORE_THAN_A_STACK);
  });

  it('grants a waiting job before a job made inside the release', () => {
    const { limiter, lease } = busy({});
    const order: string[] = [];
    limiter.acquire().subscribe((first) => {
      order.push('waiting');
      limiter.acquire().subscribe(() => order.push('inside'));
      expect(limiter.tryAcquire()).toBeUndefined();
      first.release();
    });
    lease.release();
    expect(order).toEqual(['waiting', 'inside']);
  });

  it('tries inside a grant as anywhere else', () => {
    const limiter = createLimiter({ concurrency: 2 });
    let inside: Lease | undefined;
    limiter.acquire().subscribe(() => (inside = limiter.tryAcquire()));
    expect([inside !== undefined, limiter.executing]).toEqual([true, 2]);
  });
});

describe('acquireAsync', () => {
  it('resolves with a lease', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const lease = await limiter.acquireAsync();
    const second = limiter.acquireAsync();
    lease.release();
    (await second).release();
    expect(limiter.executing).toBe(0);
  });

  it('rejects with an AbortError when its signal aborts, which costs nothing and leaves no listener', async () => {
    const { limiter, lease } = busy({ rates: [perMinute('requests', 600)] });
    const controller = new AbortController();
    const listeners = new Set<unknown>();
    const { signal } = controller;
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    Object.assign(signal, {
      addEventListener: (type: string, listener: () => void) => {
        listeners.add(listener);
        add(type, listener);
      },
      removeEventListener: (type: string, listener: () => void) => {
        listeners.delete(listener);
        remove(type, listener);
      },
    });
    const before = limiter.snapshot().requests;
    const waiting = limiter.acquireAsync({ signal });
    expect([limiter.snapshot().queued, listeners.size]).toEqual([1, 1]);
    controller.abort();
    await expect(waiting).rejects.toMatchObject({ name: 'AbortError' });
    expect([limiter.snapshot().queued, listeners.size]).toEqual([0, 0]);
    lease.release();
    expect([limiter.executing, Math.floor(limiter.snapshot().requests)]).toEqual([0, Math.floor(before)]);
  });

  it('rejects at once when the signal has aborted before', async () => {
    const limiter = createLimiter();
    await expect(limiter.acquireAsync({ signal: AbortSignal.abort() })).rejects.toMatchObject({ name: 'AbortError' });
    expect(limiter.tryAcquire({ signal: AbortSignal.abort() })).toBeUndefined();
    expect(limiter.executing).toBe(0);
  });

  it('does not take a lease back when the signal aborts later, not even inside the grant', () => {
    const limiter = createLimiter({ concurrency: 1 });
    const controller = new AbortController();
    const seen: string[] = [];
    limiter.acquire({ signal: controller.signal }).subscribe({
      next: () => {
        seen.push('lease');
        controller.abort();
      },
      error: () => seen.push('error'),
      complete: () => seen.push('complete'),
    });
    expect([seen, limiter.executing]).toEqual([['lease', 'complete'], 1]);
  });

  it('rejects, not throws, when the job is wrong', async () => {
    const limiter = createLimiter({ queue: lanes([{ name: 'a' }]) });
    await expect(limiter.acquireAsync({ lane: 'b' })).rejects.toThrow(LaneUnknownError);
    await expect(limiter.acquireAsync({ cost: { tokens: -1 } })).rejects.toThrow(
      'createLimiter: expected `cost.tokens` to be a finite number >= 0, got `-1` (number)',
    );
  });
});

describe('run', () => {
  it('holds the slot as long as Observable work runs, and hands on every value', () => {
    virtualTime(({ advance }) => {
      const limiter = createLimiter({ concurrency: 1 });
      const seen: unknown[] = [];
      limiter.run(() => concat(of('a'), timer(10))).subscribe({ next: (value) => seen.push(value), complete: () => seen.push('complete') });
      limiter.run(() => of('b')).subscribe((value) => seen.push(value));
      expect([seen, limiter.snapshot().heldBySlot]).toEqual([['a'], 1]);
      advance(10);
      expect(seen).toEqual(['a', 0, 'b', 'complete']);
      expect(limiter.executing).toBe(0);
    });
  });

  it('takes a promise, an async iterable, and a value', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    await expect(lastValueFrom(limiter.run(() => Promise.resolve(5)))).resolves.toBe(5);
    await expect(lastValueFrom(limiter.run(() => [1, 2, 3]).pipe(toArray()))).resolves.toEqual([[1, 2, 3]]);
    await expect(lastValueFrom(limiter.run(() => from([1, 2, 3])).pipe(toArray()))).resolves.toEqual([1, 2, 3]);
    expect(limiter.executing).toBe(0);
  });

  it.each<[string, () => Observable<never> | Promise<never>]>([
    [
      'throws',
      () => {
        throw new Error('broken');
      },
    ],
    ['errors', () => throwError(() => new Error('broken'))],
    ['rejects', () => Promise.reject(new Error('broken'))],
  ])('passes the error on and frees the slot when the work %s', async (_how, work) => {
    const limiter = createLimiter({ concurrency: 1 });
    await expect(lastValueFrom(limiter.run(work))).rejects.toThrow('broken');
    expect(limiter.executing).toBe(0);
  });

  it('completes without a value when the work does', () => {
    const limiter = createLimiter();
    let completed = false;
    limiter.run(() => EMPTY).subscribe({ complete: () => (completed = true) });
    expect([completed, limiter.executing]).toEqual([true, 0]);
  });

  it('starts nothing before its turn, and nothing at all when it is left before', () => {
    const { limiter, lease } = busy({});
    let started = 0;
    const subscription = limiter.run(() => of(++started)).subscribe();
    expect([started, limiter.snapshot().queued]).toEqual([0, 1]);
    subscription.unsubscribe();
    lease.release();
    expect([started, limiter.executing]).toEqual([0, 0]);
  });

  it('frees the slot of Observable work at once when it is left, and aborts its signal', () => {
    const limiter = createLimiter({ concurrency: 1 });
    let signal: AbortSignal | undefined;
    let stopped = 0;
    const subscription = limiter
      .run((context) => {
        signal = context.signal;
        return NEVER.pipe(finalize(() => stopped++));
      })
      .subscribe();
    subscription.unsubscribe();
    expect([stopped, limiter.executing, signal?.aborted, (signal?.reason as DOMException).name]).toEqual([1, 0, true, 'AbortError']);
  });

  it('starts no call for jobs that are about to leave as well', () => {
    virtualTime(({ advance, pending }) => {
      const limiter = createLimiter({ concurrency: 2, rates: [perMinute('requests', 600, { burst: 10 })], headroom: 1 });
      const started: number[] = [];
      const other: string[] = [];
      const pipeline = range(5)
        .pipe(mergeMap((i) => limiter.run(() => (started.push(i), NEVER))))
        .subscribe();
      limiter.acquire().subscribe(() => other.push('lease'));
      pipeline.unsubscribe();
      // The slots are free at once. The remaining job gets one when all the others have left.
      expect([started, limiter.executing, limiter.snapshot().requests, other]).toEqual([[0, 1], 0, 8, []]);
      advance(0);
      expect([started, other, pending()]).toEqual([[0, 1], ['lease'], 0]);
    });
  });

  it('starts no call for a signal that is being aborted', () => {
    virtualTime(({ advance }) => {
      const limiter = createLimiter({ rates: [perMinute('tokens', 6000, { burst: 100 })], headroom: 1 });
      limiter.tryAcquire({ cost: { tokens: 50 } });
      const { signal, abort } = stoppable();
      const jobs = [100, 20, 20].map((tokens) => watch(limiter, { signal, cost: { tokens } }));
      abort();
      advance(0);
      expect(jobs.map(({ seen }) => seen)).toEqual([['AbortError at 0'], ['AbortError at 0'], ['AbortError at 0']]);
      expect(limiter.executing).toBe(1);
    });
  });

  it('leaves synchronous work as soon as the consumer has enough', () => {
    const limiter = createLimiter({ concurrency: 1 });
    let made = 0;
    const work = new Observable<number>((subscriber) => {
      while (!subscriber.closed && made < 10_000) subscriber.next(made++);
    });
    const seen: number[] = [];
    limiter
      .run(() => work)
      .pipe(take(2))
      .subscribe((value) => seen.push(value));
    expect([seen, made, limiter.executing]).toEqual([[0, 1], 2, 0]);
  });

  it('keeps the slot of a promise that was left until it is really over', async () => {
    const limiter = createLimiter({ concurrency: 1, abortGraceMs: Infinity });
    let finish: (value: string) => void = () => undefined;
    const seen: string[] = [];
    const subscription = limiter.run(() => new Promise<string>((resolve) => (finish = resolve))).subscribe((value) => seen.push(value));
    subscription.unsubscribe();
    expect(limiter.executing).toBe(1);
    finish('late');
    await Promise.resolve();
    await Promise.resolve();
    await Promise.resolve();
    expect([limiter.executing, seen]).toEqual([0, []]);
  });

  it('takes the slot of a promise that ignores its signal back after abortGraceMs', () => {
    virtualTime(({ advance, pending }) => {
      const limiter = createLimiter({ concurrency: 1, abortGraceMs: 500 });
      limiter
        .run(() => new Promise<never>(() => undefined))
        .subscribe()
        .unsubscribe();
      const next = watch(limiter);
      advance(499);
      expect([limiter.executing, next.seen]).toEqual([1, []]);
      advance(1);
      expect(next.seen).toEqual(['lease at 0', 'complete']);
      expect(pending()).toBe(0);
    });
  });

  it('takes it back at once with abortGraceMs 0', () => {
    const limiter = createLimiter({ concurrency: 1, abortGraceMs: 0 });
    limiter
      .run(() => new Promise<never>(() => undefined))
      .subscribe()
      .unsubscribe();
    expect(limiter.executing).toBe(0);
  });

  it('lets the work correct its cost', () => {
    virtualTime(() => {
      const limiter = createLimiter({ rates: [perMinute('tokens', 6000, { burst: 100 })], headroom: 1 });
      limiter
        .run(
          ({ lease }) => {
            lease.settle({ inputTokens: 20, outputTokens: 10 });
            return EMPTY;
          },
          { cost: { tokens: 50 } },
        )
        .subscribe();
      expect(limiter.snapshot().tokens).toBe(70);
    });
  });

  it('errors instead of throwing when the job is wrong', () => {
    const limiter = createLimiter({ queue: lanes([{ name: 'a' }]) });
    const errors: unknown[] = [];
    limiter.run(() => EMPTY, { lane: 'b' }).subscribe({ error: (error: unknown) => errors.push(error) });
    expect(errors).toEqual([expect.any(LaneUnknownError)]);
  });
});

describe('runAsync', () => {
  it('runs so many at a time, in order, and answers each with its own result', async () => {
    const limiter = createLimiter({ concurrency: 2 });
    const started: number[] = [];
    let most = 0;
    const results = [0, 1, 2, 3, 4].map((i) =>
      limiter.runAsync(async () => {
        started.push(i);
        most = Math.max(most, limiter.executing);
        await Promise.resolve();
        return 10 * i;
      }),
    );
    expect([started, limiter.snapshot().queued]).toEqual([[0, 1], 3]);
    await expect(Promise.all(results)).resolves.toEqual([0, 10, 20, 30, 40]);
    expect([started, most, limiter.executing]).toEqual([[0, 1, 2, 3, 4], 2, 0]);
  });

  it('resolves with the last value of a stream or the only one of a list, and rejects when there is none', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const results = [limiter.runAsync(() => of(1, 2)), limiter.runAsync(() => [3, 4]), limiter.runAsync(() => EMPTY)];
    await expect(Promise.allSettled(results)).resolves.toMatchObject([
      { value: 2 },
      { value: [3, 4] },
      { reason: expect.any(EmptyError) as unknown },
    ]);
    expect(limiter.executing).toBe(0);
  });

  it.each<[string, () => Observable<never> | Promise<never>]>([
    [
      'throws',
      () => {
        throw new Error('broken');
      },
    ],
    ['errors', () => throwError(() => new Error('broken'))],
    ['rejects', () => Promise.reject(new Error('broken'))],
  ])('rejects and frees the slot for the next job when the work %s', async (_how, work) => {
    const limiter = createLimiter({ concurrency: 1 });
    const [failed, next] = [limiter.runAsync(work), limiter.runAsync(() => Promise.resolve('next'))];
    await expect(failed).rejects.toThrow('broken');
    await expect(next).resolves.toBe('next');
    expect(limiter.executing).toBe(0);
  });

  it('answers each with its own result even when a promise made elsewhere settles twice', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const settles: ((value: string) => void)[] = [];
    const thenable = { then: (done: (value: string) => void) => settles.push(done) } as unknown as Promise<string>;
    const first = limiter.runAsync(() => thenable);
    const second = limiter.runAsync(() => timer(20).pipe(map(() => 'second')));
    await Promise.resolve();
    settles[0]?.('first');
    await expect(first).resolves.toBe('first');
    settles[0]?.('again');
    await expect(second).resolves.toBe('second');
  });

  it('tells the work its lease, and a signal made on the first look', async () => {
    const limiter = createLimiter({ rates: [perMinute('tokens', 60_000)], headroom: 1, scheduler: new CountingScheduler() });
    const cost = { tokens: 500 };
    await limiter.runAsync(
      ({ lease, signal }) => {
        lease.settle({ inputTokens: 100 });
        expect(signal.aborted).toBe(false);
        return Promise.resolve();
      },
      { cost },
    );
    expect(limiter.snapshot()).toMatchObject({ tokens: 1900, executing: 0 });
  });

  it('rejects, not throws, when it is asked wrongly', async () => {
    const limiter = createLimiter({ queue: lanes([{ name: 'a' }]) });
    const work = () => Promise.resolve(1);
    await expect(limiter.runAsync(work, { lane: 'b' })).rejects.toThrow(LaneUnknownError);
    await expect(limiter.runAsync(work, { deadlineMs: -1 })).rejects.toThrow(
      'createLimiter: expected `deadlineMs` to be a number of milliseconds',
    );
    await expect(limiter.runAsync(5 as never)).rejects.toThrow('createLimiter: expected `work` to be a function, got `5` (number)');
    expect(limiter.snapshot()).toMatchObject({ queued: 0, executing: 0 });
  });

  it('rejects with what keeps it from its permit', async () => {
    const { limiter } = busy({ maxQueued: 1, rates: [refusing(perMinute('tokens', 6000))] });
    const work = () => Promise.resolve(1);
    const waiting = limiter.runAsync(work);
    await expect(lastValueFrom(limiter.run(work))).rejects.toThrow(OverflowError);
    await expect(limiter.runAsync(work, { cost: { tokens: 1e6 } })).rejects.toThrow(ItemTooHeavyError);
    limiter.close();
    await expect(waiting).rejects.toThrow(ClosedError);
    await expect(limiter.runAsync(work)).rejects.toThrow(ClosedError);
    await expect(createLimiter({ rates: [perMinute('requests', 1, { burst: 1 })], maxQueued: 0 }).runAsync(work)).resolves.toBe(1);
    await expect(busy({ maxQueued: 0 }).limiter.runAsync(work)).rejects.toThrow(RateLimitError);
  });

  it('waits no longer than it may', async () => {
    const scheduler = new CountingScheduler();
    const { limiter } = busy({ scheduler });
    const waiting = limiter.runAsync(() => Promise.resolve(1), { deadlineMs: 50 });
    scheduler.flush();
    await expect(waiting).rejects.toThrow(DeadlineError);
    expect([scheduler.now(), limiter.snapshot().queued]).toEqual([50, 0]);
  });

  it('leaves the queue when its signal aborts, and starts nothing for one that has', async () => {
    const { limiter, lease } = busy({});
    const { signal, abort } = stoppable();
    let started = 0;
    const work = () => Promise.resolve(++started);
    const waiting = limiter.runAsync(work, { signal });
    expect(limiter.snapshot().queued).toBe(1);
    abort();
    expect(limiter.snapshot().queued).toBe(0);
    await expect(waiting).rejects.toBe(signal.reason);
    lease.release();
    await expect(limiter.runAsync(work, { signal })).rejects.toBe(signal.reason);
    expect([started, limiter.executing]).toEqual([0, 0]);
  });

  it('gives up the work when its signal aborts: its own signal fires, and the slot is free when the work is over', async () => {
    const limiter = createLimiter({ concurrency: 1, abortGraceMs: Infinity });
    const { signal, abort } = stoppable();
    const own: AbortSignal[] = [];
    let finish: () => void = () => undefined;
    const result = limiter.runAsync(
      (context) => {
        own.push(context.signal);
        return new Promise<void>((resolve) => (finish = resolve));
      },
      { signal },
    );
    abort();
    await expect(result).rejects.toBe(signal.reason);
    expect([own[0]?.aborted, (own[0]?.reason as DOMException).name, limiter.executing]).toEqual([true, 'AbortError', 1]);
    finish();
    await Promise.resolve();
    await Promise.resolve();
    expect(limiter.executing).toBe(0);
  });

  it('listens to the signal no longer than it takes', async () => {
    const limiter = createLimiter();
    const controller = new AbortController();
    let listeners = 0;
    const add = controller.signal.addEventListener.bind(controller.signal);
    const remove = controller.signal.removeEventListener.bind(controller.signal);
    controller.signal.addEventListener = ((...given: Parameters<typeof add>) => {
      listeners++;
      add(...given);
    }) as typeof add;
    controller.signal.removeEventListener = ((...given: Parameters<typeof remove>) => {
      listeners--;
      remove(...given);
    }) as typeof remove;
    const results = [of(1), Promise.resolve(2), timer(5)].map((work) =>
      limiter.runAsync<number>(() => work, { signal: controller.signal }),
    );
    expect(listeners).toBeGreaterThan(0);
    await expect(Promise.all(results)).resolves.toEqual([1, 2, 0]);
    expect(listeners).toBe(0);
  });

  it('does not recurse: many thousand queued, and a chain in which each starts the next', async () => {
    const limiter = createLimiter({ concurrency: 1, maxQueued: Infinity });
    const lease = limiter.tryAcquire();
    const results = Array.from({ length: MORE_THAN_A_STACK }, (_, i) => limiter.runAsync(() => of(i)));
    lease?.release();
    expect(limiter.executing).toBe(0);
    expect((await Promise.all(results)).at(-1)).toBe(MORE_THAN_A_STACK - 1);
    let started = 0;
    const chain = (): Observable<number> => {
      if (++started < MORE_THAN_A_STACK) void limiter.runAsync(chain);
      return of(started);
    };
    await limiter.runAsync(chain);
    expect([started, limiter.executing]).toEqual([MORE_THAN_A_STACK, 0]);
  });
});

describe('one signal for many jobs', () => {
  const listeners = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;
  const never = (): Observable<never> => NEVER;

  it('is listened to once, however many wait, and not at all when none is left', async () => {
    const { signal, abort } = stoppable();
    const limiter = createLimiter({ concurrency: 1, maxQueued: Infinity });
    const running = limiter.runAsync(never, { signal });
    const waiting = Array.from({ length: 10_000 }, () => limiter.runAsync(never, { signal }));
    expect([listeners(signal), limiter.snapshot().queued]).toEqual([1, 10_000]);
    abort();
    const all = await Promise.allSettled([running, ...waiting]);
    expect(all.every((result) => result.status === 'rejected' && result.reason === signal.reason)).toBe(true);
    expect([listeners(signal), limiter.snapshot().queued, limiter.executing]).toEqual([0, 0, 0]);
  });

  it('is listened to once, under however many keys', async () => {
    const { signal, abort } = stoppable();
    const tools = keyedLimiter(createLimiter({ concurrency: 1 }), { concurrency: 1 });
    const jobs = Array.from({ length: 20 }, (_, key) => tools.runAsync(never, { key, signal }));
    await Promise.resolve();
    expect(listeners(signal)).toBe(1);
    abort();
    const all = await Promise.allSettled(jobs);
    expect(all.every((result) => result.status === 'rejected' && result.reason === signal.reason)).toBe(true);
    expect([listeners(signal), tools.keys]).toEqual([0, 0]);
  });

  it('starts none of them when it aborts while one of them runs', async () => {
    const { signal, abort } = stoppable();
    const limiter = createLimiter({ concurrency: 1 });
    const started: string[] = [];
    const work = (name: string) => (): Observable<never> => {
      started.push(name);
      return NEVER;
    };
    const jobs = ['a', 'b', 'c'].map((name) => limiter.runAsync(work(name), { signal }));
    const left = lastValueFrom(limiter.run(work('d'), { signal }));
    abort();
    await Promise.allSettled([...jobs, left]);
    expect([started, limiter.executing]).toEqual([['a'], 0]);
  });
});

describe('without a rate, a pause or a wait that may get too long', () => {
  it('the clock is left alone', async () => {
    let looks = 0;
    const scheduler = new CountingScheduler();
    const limiter = createLimiter({
      concurrency: 1,
      scheduler: {
        now: () => {
          looks++;
          return scheduler.now();
        },
        schedule: scheduler.schedule.bind(scheduler),
      },
    });
    const before = looks;
    await Promise.all([1, 2, 3].map((i) => limiter.runAsync(() => Promise.resolve(i))));
    (await limiter.acquireAsync()).release();
    limiter.tryAcquire()?.release();
    expect(looks).toBe(before);
  });
});

describe('a lease', () => {
  it('gives request and tokens back when it was not used, once, whatever comes after', () => {
    virtualTime(() => {
      const limiter = createLimiter({
        rates: [perMinute('requests', 600, { burst: 10 }), perMinute('tokens', 6000, { burst: 100 })],
        headroom: 1,
      });
      const lease = limiter.tryAcquire({ cost: { requests: 2, tokens: 40 } })!;
      lease.settle({ outputTokens: 60 });
      expect(limiter.snapshot()).toMatchObject({ requests: 8, tokens: 40, executing: 1 });
      lease.release('unused');
      lease.release('unused');
      lease.release('ok');
      expect(limiter.snapshot()).toMatchObject({ requests: 10, tokens: 100, executing: 0 });
      lease.settle({ outputTokens: 60 });
      expect(limiter.snapshot().tokens).toBe(40);
    });
  });

  it('is settled by the last number that makes sense; without one the estimate stands', () => {
    virtualTime(() => {
      const limiter = createLimiter({ rates: [perMinute('tokens', 6000, { burst: 100 })], headroom: 1 });
      const lease = limiter.tryAcquire({ cost: { tokens: 40 } })!;
      for (const usage of [{}, { inputTokens: NaN }, { inputTokens: -5 }, { outputTokens: Infinity }, { inputTokens: 40 }])
        lease.settle(usage);
      expect(limiter.snapshot().tokens).toBe(60);
      lease.settle({ inputTokens: 30, outputTokens: 100 });
      lease.settle({ inputTokens: 30, outputTokens: 100 });
      expect(limiter.snapshot().tokens).toBe(-30);
      lease.release();
      lease.settle({ inputTokens: 25 });
      expect(limiter.snapshot().tokens).toBe(75);
    });
  });

  it('that is released when its work ends keeps the first of two deadlines', () => {
    virtualTime(({ advance }) => {
      const limiter = createLimiter({ concurrency: 1, abortGraceMs: 100 });
      const lease = limiter.tryAcquire()!;
      const never = new Promise<never>(() => undefined);
      lease.releaseAfter(never);
      advance(60);
      lease.releaseAfter(never);
      advance(40);
      expect(limiter.executing).toBe(0);
      lease.releaseAfter(never);
    });
  });
});

describe('the bound of the queue', () => {
  it('rejects with maxQueued 0 what cannot go at once, and says when to come back', () => {
    virtualTime(() => {
      const limiter = createLimiter({
        concurrency: 5,
        rates: [perMinute('requests', 600, { burst: 10 }), perMinute('tokens', 6000, { burst: 100 })],
        headroom: 1,
        maxQueued: 0,
      });
      expect(watch(limiter, { cost: { tokens: 90 } }).seen).toEqual(['lease at 0', 'complete']);
      const error = errorOf(limiter, { cost: { tokens: 30 } });
      expect(error).toBeInstanceOf(RateLimitError);
      expect(error).toMatchObject({
        code: 'FLOW_RATE_LIMITED',
        limit: 'tokensPerMinute',
        retryAfterMs: 200,
        message: 'createLimiter: no permit under tokensPerMinute; try again in 200 ms',
      });
      expect(errorOf(limiter, { cost: { requests: 10 } })).toMatchObject({ limit: 'requestsPerMinute', retryAfterMs: 100 });
      limiter.penalize(250);
      expect(errorOf(limiter)).toMatchObject({ limit: 'pause', retryAfterMs: 250 });
      limiter.setLimits({ concurrency: 1 });
      expect(errorOf(limiter)).toMatchObject({ limit: 'concurrency' });
    });
  });

  it('grants with maxQueued 0 what can go, inside a grant as well', () => {
    const limiter = createLimiter({ concurrency: 2, maxQueued: 0 });
    const inside: string[] = [];
    limiter.acquire().subscribe(() => {
      for (let i = 0; i < 2; i++)
        limiter.acquire().subscribe({ next: () => inside.push('lease'), error: (error: unknown) => inside.push((error as Error).name) });
    });
    expect(inside).toEqual(['lease', 'RateLimitError']);
  });

  it('rejects the same in a lane that may not wait, while others may', () => {
    const { limiter } = busy({ queue: lanes([{ name: 'now', maxQueued: 0 }, { name: 'later' }]) });
    expect(errorOf(limiter, { lane: 'now' })).toBeInstanceOf(RateLimitError);
    expect(watch(limiter, { lane: 'later' }).seen).toEqual([]);
  });

  it.each([
    ['error', ['OverflowError at 0'], []],
    ['dropNewest', ['OverflowError at 0'], []],
    ['dropOldest', [], ['OverflowError at 0']],
    ['latest', [], ['OverflowError at 0']],
  ] as const)('refuses by the policy %s', (overflow, newest, oldest) => {
    const { limiter } = busy({ maxQueued: 2, overflow });
    const [first, second, third] = [watch(limiter), watch(limiter), watch(limiter)];
    expect(third.seen).toEqual(newest);
    expect(first.seen).toEqual(oldest);
    expect(second.seen).toEqual(overflow === 'latest' ? oldest : []);
  });

  it('drops the newest of the least urgent lane, never one as urgent as the newcomer', () => {
    const events: FlowEvent[] = [];
    const { limiter, lease } = busy({
      maxQueued: 3,
      overflow: 'dropLowest',
      queue: lanes([{ name: 'p0' }, { name: 'p1' }, { name: 'p2' }]),
      onEvent: unstamped((event) => events.push(event)),
    });
    const jobs = ['p2', 'p1', 'p2', 'p0', 'p1', 'p1'].map((lane) => watch(limiter, { lane }).seen);
    expect(jobs).toEqual([['OverflowError at 0'], [], ['OverflowError at 0'], [], [], ['OverflowError at 0']]);
    expect(events).toEqual(['p2', 'p2', 'p1'].map((lane) => ({ type: 'dropped', operator: 'createLimiter', lane, policy: 'dropLowest' })));
    lease.release();
  });

  it.each(['dropOldest', 'latest', 'dropLowest'] as const)(
    'holds for jobs without a promise, however many promised jobs wait: %s',
    async (overflow) => {
      const { limiter, lease } = busy({ maxQueued: 2, overflow, queue: lanes([{ name: 'p0' }, { name: 'p1' }]) });
      const low = overflow === 'dropLowest' ? 'p1' : 'p0';
      const promised = Array.from({ length: 10 }, () => limiter.acquireAsync({ lane: low }).catch((error: unknown) => error));
      expect(limiter.snapshot().queued).toBe(10);
      const asked = Array.from({ length: 4 }, () => watch(limiter, { lane: 'p0' }).seen);
      expect(limiter.snapshot().queued).toBe(2);
      expect(asked.filter((seen) => seen.length === 0)).toHaveLength(2);
      expect((await Promise.all(promised)).every((error) => isFlowError(error, 'FLOW_OVERFLOW'))).toBe(true);
      lease.release();
    },
  );

  it.each(['dropOldest', 'latest', 'dropLowest', 'dropNewest', 'error'] as const)(
    'evicts no job for one that may not wait: %s',
    (overflow) => {
      const { limiter } = busy({ maxQueued: 1, overflow, queue: lanes([{ name: 'p0' }, { name: 'p1' }]) });
      const waiting = watch(limiter, { lane: overflow === 'dropLowest' ? 'p1' : 'p0' });
      expect(errorOf(limiter, { lane: 'p0', deadlineMs: 0 })).toMatchObject({ code: 'FLOW_RATE_LIMITED', limit: 'concurrency' });
      expect([waiting.seen, limiter.snapshot().queued]).toEqual([[], 1]);
    },
  );

  it('does not make room in another lane when the bound is the lane’s own', () => {
    const { limiter } = busy({ overflow: 'dropLowest', queue: lanes([{ name: 'p0', maxQueued: 1 }, { name: 'p1' }]) });
    const low = watch(limiter, { lane: 'p1' });
    watch(limiter, { lane: 'p0' });
    const extra = errorOf(limiter, { lane: 'p0' });
    expect([low.seen, (extra as OverflowError).limit]).toEqual([[], 1]);
  });

  it('counts jobs only: work that is formed later has a bound of its own', () => {
    const { limiter, lease } = busy({ maxQueued: 1, overflow: 'dropOldest' });
    const order: string[] = [];
    limiter.enlist({
      granted: (given) => {
        order.push('bidder');
        given.release();
      },
      refused: () => order.push('refused'),
    });
    const job = watch(limiter);
    const late = watch(limiter);
    expect([job.seen, late.seen, limiter.snapshot().queued]).toEqual([['OverflowError at 0'], [], 2]);
    lease.release();
    expect([order, late.seen]).toEqual([['bidder'], ['lease at 0', 'complete']]);
  });

  it('holds when a loser asks again at once', () => {
    const { limiter } = busy({ maxQueued: 2, overflow: 'dropOldest' });
    let again = 0;
    for (let i = 0; i < 5; i++) {
      limiter.acquire().subscribe({
        error: () => {
          if (again++ < 3) watch(limiter);
        },
      });
      expect(limiter.snapshot().queued).toBeLessThanOrEqual(2);
    }
    expect(again).toBeGreaterThan(0);
  });
});

describe('the wait', () => {
  it('ends after deadlineMs, with the reason', () => {
    virtualTime(({ advance, now, pending }) => {
      const { limiter, lease } = busy({});
      const own = watch(limiter, { deadlineMs: 30 }, now);
      const middle = watch(limiter, { deadlineMs: 100 }, now);
      const longer = watch(limiter, { deadlineMs: 200 }, now);
      advance(150);
      expect([own.seen, middle.seen, longer.seen]).toEqual([['DeadlineError at 30'], ['DeadlineError at 100'], []]);
      lease.release();
      expect(longer.seen).toEqual(['lease at 150', 'complete']);
      expect(pending()).toBe(0);
    });
  });

  it('names the limit that blocks the next job', () => {
    virtualTime(({ advance }) => {
      const limiter = createLimiter({ rates: [perMinute('tokens', 6000, { burst: 100 })], headroom: 1 });
      limiter.tryAcquire({ cost: { tokens: 100 } });
      const head = watch(limiter, { cost: { tokens: 80 } });
      let error: unknown;
      limiter.acquire({ deadlineMs: 300, cost: { tokens: 1 } }).subscribe({ error: (thrown: unknown) => (error = thrown) });
      advance(300);
      expect(error).toMatchObject({
        code: 'FLOW_DEADLINE',
        deadlineMs: 300,
        elapsedMs: 300,
        cause: { limit: 'tokensPerMinute', retryAfterMs: 500 },
      });
      head.subscription.unsubscribe();
    });
  });

  it('of 0 ms grants what can go, and refuses the rest at once', () => {
    const limiter = createLimiter({ concurrency: 1 });
    expect(watch(limiter, { deadlineMs: 0 }).seen).toEqual(['lease at 0', 'complete']);
    expect(watch(limiter, { deadlineMs: 0 }).seen).toEqual(['RateLimitError at 0']);
  });

  it('that ends in the moment of a permit is rewarded', () => {
    virtualTime(({ advance, now }) => {
      const limiter = createLimiter({ rates: [perMinute('requests', 600, { burst: 1 })], headroom: 1 });
      limiter.tryAcquire();
      const job = watch(limiter, { deadlineMs: 100 }, now);
      advance(100);
      expect(job.seen).toEqual(['lease at 100', 'complete']);
    });
  });

  it('ends with fractions of a millisecond too', () => {
    virtualTime(({ flush, now }) => {
      const limiter = createLimiter({
        concurrency: 1,
        rates: [perMinute('tokens', 1_234_567_890, { burst: 20_576.1315 })],
        headroom: 1,
        abortGraceMs: 20.0007,
      });
      limiter
        .run(() => new Promise<never>(() => undefined))
        .subscribe()
        .unsubscribe();
      const jobs = [10.0005, 10.0001, 30.5].map((deadlineMs) => watch(limiter, { deadlineMs, cost: { tokens: 12_345 } }, now));
      flush();
      expect(jobs.map(({ seen }) => seen[0])).toEqual(['DeadlineError at 10', 'DeadlineError at 10', 'lease at 20']);
    });
  });
});

describe('cost above the capacity', () => {
  it('never hangs: it goes when the bucket is full, and the next waits until the debt is paid', () => {
    virtualTime(({ flush, now }) => {
      const limiter = createLimiter({ rates: [perMinute('tokens', 6000, { burst: 100 })], headroom: 1 });
      expect([limiter.tokenCapacity, limiter.borrows]).toEqual([100, true]);
      limiter.tryAcquire({ cost: { tokens: 10 } });
      const big = watch(limiter, { cost: { tokens: 1000 } }, now);
      const small = watch(limiter, { cost: { tokens: 1 } }, now);
      flush();
      expect([big.seen[0], small.seen[0]]).toEqual(['lease at 100', 'lease at 9110']);
    });
  });

  it('is refused with reject, tokens and requests alike', () => {
    const limiter = createLimiter({
      rates: [refusing(perMinute('requests', 60, { burst: 1 })), refusing(perMinute('tokens', 6000, { burst: 100 }))],
      headroom: 1,
    });
    expect(errorOf(limiter, { cost: { tokens: 101 } })).toMatchObject({ code: 'FLOW_ITEM_TOO_HEAVY', weight: 101, maxWeight: 100 });
    expect(errorOf(limiter, { cost: { requests: 2 } })).toBeInstanceOf(ItemTooHeavyError);
    expect([limiter.tryAcquire({ cost: { tokens: 101 } }), limiter.tryAcquire({ cost: { requests: 2 } })]).toEqual([undefined, undefined]);
    expect(watch(limiter, { cost: { tokens: 100 } }).seen).toEqual(['lease at 0', 'complete']);
  });

  it('waits for a whole request at a rate too slow to save one up in two seconds', () => {
    virtualTime(({ flush, now }) => {
      const limiter = createLimiter({ rates: [perMinute('requests', 6)], headroom: 1 });
      limiter.tryAcquire();
      const next = watch(limiter, {}, now);
      flush();
      expect(next.seen[0]).toBe('lease at 10000');
    });
  });
});

describe('lanes', () => {
  it('go by urgency; a job without one is the least urgent', () => {
    const { limiter, lease } = busy({ queue: lanes([{ name: 'p0' }, { name: 'p1' }]) });
    const order: string[] = [];
    for (const job of [{}, { lane: 'p1' }, { lane: 'p0' }]) {
      limiter.acquire(job).subscribe((given) => {
        order.push(job.lane ?? 'none');
        given.release();
      });
    }
    lease.release();
    expect(order).toEqual(['p0', 'none', 'p1']);
    expect(limiter.lanes).toEqual(['p0', 'p1']);
  });

  it('that were not declared are refused, where lanes were declared', () => {
    const limiter = createLimiter({ queue: lanes([{ name: 'p0' }]) });
    for (const run of [
      () => limiter.acquire({ lane: 'p9' }),
      () => limiter.tryAcquire({ lane: 'p9' }),
      () => limiter.enlist({ granted: () => undefined, refused: () => undefined }, 'p9'),
    ]) {
      expect(caught(run)).toBeInstanceOf(LaneUnknownError);
      expect(caught(run)).toMatchObject({ lane: 'p9', known: ['p0'], message: 'createLimiter: lane `p9` is not one of `p0`' });
    }
    const open = createLimiter();
    expect([open.lanes, open.tryAcquire({ lane: 'p9' }) !== undefined]).toEqual([undefined, true]);
  });
});

describe('a bidder', () => {
  it('decides what it sends when its permit comes, told what it could spend', () => {
    virtualTime(({ advance }) => {
      const limiter = createLimiter({ rates: [perMinute('tokens', 6000, { burst: 100 })], headroom: 1 });
      limiter.tryAcquire({ cost: { tokens: 100 } });
      const asked: number[] = [];
      let wants = 50;
      let granted = 0;
      const place = limiter.enlist({
        bid: (affordable) => (asked.push(affordable), wants),
        granted: () => granted++,
        refused: () => undefined,
      });
      advance(200);
      expect(granted).toBe(0);
      wants = 20;
      place.poke();
      expect([granted, asked.at(-1), limiter.snapshot().tokens]).toEqual([1, 20, 0]);
      place.poke();
      place.withdraw();
      expect(granted).toBe(1);
    });
  });

  it('that has nothing to send any more makes way', () => {
    const { limiter, lease } = busy({});
    let granted = 0;
    limiter.enlist({ bid: () => undefined, granted: () => granted++, refused: () => undefined });
    const next = watch(limiter);
    lease.release();
    expect([granted, next.seen.length]).toEqual([0, 2]);
  });

  it('that has nothing to send any more makes way when the one before it leaves', () => {
    virtualTime(({ advance }) => {
      const limiter = createLimiter({ rates: [perMinute('tokens', 6000, { burst: 100 })], headroom: 1 });
      limiter.tryAcquire({ cost: { tokens: 50 } });
      const big = watch(limiter, { cost: { tokens: 100 } });
      limiter.enlist({ bid: () => undefined, granted: () => undefined, refused: () => undefined });
      const next = watch(limiter);
      big.subscription.unsubscribe();
      advance(0);
      expect(next.seen).toEqual(['lease at 0', 'complete']);
    });
  });

  it('that has nothing to send any more has left when it says so, and can enlist anew', () => {
    virtualTime(({ advance, pending }) => {
      const { limiter, lease } = busy({});
      let wants: number | undefined = 0;
      let granted = 0;
      const bidder = { bid: () => wants, granted: () => granted++, refused: () => undefined };
      limiter.enlist(bidder);
      wants = undefined;
      lease.release('cancelled');
      expect([limiter.snapshot().queued, pending()]).toEqual([0, 0]);
      wants = 0;
      limiter.enlist(bidder);
      advance(0);
      expect(granted).toBe(1);
    });
  });

  it('that leaves like that makes way for the next, and for the end', async () => {
    const { limiter, lease } = busy({});
    let wants: number | undefined = 0;
    const drained = virtualTime(({ advance }) => {
      limiter.enlist({ bid: () => wants, granted: () => undefined, refused: () => undefined });
      const next = watch(limiter);
      wants = undefined;
      lease.release('cancelled');
      expect(limiter.snapshot().queued).toBe(1);
      advance(0);
      expect(next.seen).toEqual(['lease at 0', 'complete']);
      wants = 0;
      limiter.enlist({ bid: () => wants, granted: () => undefined, refused: () => undefined });
      const end = limiter.drain();
      wants = undefined;
      next.leases[0]!.release('cancelled');
      return end;
    });
    await drained;
    expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
  });

  it('with an invalid bid is refused, and blocks no other job', () => {
    const { limiter, lease } = busy({});
    const boom = new Error('boom');
    const bids = [
      () => {
        throw boom;
      },
      () => NaN,
      () => -1,
      () => Infinity,
      () => '5' as never,
    ];
    const refused: unknown[] = [];
    for (const bid of bids) limiter.enlist({ bid, granted: () => undefined, refused: (error) => refused.push(error) });
    const next = watch(limiter);
    expect(refused.map(String)).toEqual([
      'CallbackError: createLimiter: `bid` threw',
      ...['NaN', '-1', 'Infinity', 'a string'].map(
        (returned) => `CallbackError: createLimiter: \`bid\` must return a finite number >= 0 or undefined, returned ${returned}`,
      ),
    ]);
    expect((refused[0] as Error).cause).toBe(boom);
    lease.release();
    expect(next.seen).toEqual(['lease at 0', 'complete']);
  });

  it('leaves by withdraw, and costs nothing', () => {
    const { limiter, lease } = busy({});
    let granted = 0;
    const place = limiter.enlist({ granted: () => granted++, refused: () => undefined });
    place.withdraw();
    place.withdraw();
    lease.release();
    expect([granted, limiter.snapshot().queued]).toEqual([0, 0]);
  });

  it('costs one request and no tokens unless it says otherwise', () => {
    virtualTime(() => {
      const limiter = createLimiter({
        rates: [perMinute('requests', 600, { burst: 10 }), perMinute('tokens', 6000, { burst: 100 })],
        headroom: 1,
      });
      limiter.enlist({ granted: () => undefined, refused: () => undefined });
      expect(limiter.snapshot()).toMatchObject({ requests: 9, tokens: 100 });
    });
  });
});

describe('observe', () => {
  const pauseOf = (response: ResponseLike, startMs = 0): number => {
    const scheduler = {
      now: () => startMs,
      schedule: () => {
        throw new Error('nothing waits');
      },
    };
    const limiter = createLimiter({ scheduler, learn: fromHeaders({ learn: false }) });
    limiter.observe(response);
    return limiter.snapshot().pausedForMs;
  };
  const noon = Date.parse('Wed, 21 Oct 2026 12:00:00 GMT');

  it.each<[string, ResponseLike, number]>([
    ['seconds', { status: 429, headers: { 'retry-after': '3' } }, 3000],
    ['fractions of seconds', { status: 429, headers: { 'Retry-After': '0.5' } }, 500],
    ['milliseconds, which win', { status: 429, headers: { 'retry-after': '3', 'retry-after-ms': '120' } }, 120],
    ['a date', { status: 429, headers: { 'retry-after': 'Wed, 21 Oct 2026 12:00:07 GMT' } }, 7000],
    ['a date in the past', { status: 429, headers: { 'retry-after': 'Wed, 21 Oct 2026 11:59:07 GMT' } }, 0],
    ['a Headers object', { status: 503, headers: new Headers({ 'Retry-After': '2' }) }, 2000],
    ['the first of several values', { status: 529, headers: { 'RETRY-AFTER': ['4', '9'] } }, 4000],
    ['not a negative number', { status: 429, headers: { 'retry-after': '-5' } }, 0],
    ['not a duration with units', { status: 429, headers: { 'retry-after': '6m0s' } }, 0],
    ['not nonsense', { status: 429, headers: { 'retry-after': 'soon' } }, 0],
    ['a day of a longer wait', { status: 429, headers: { 'retry-after': '172800' } }, 86_400_000],
    ['not years', { status: 429, headers: { 'retry-after': '99999999' } }, 0],
    ['nothing without the header', { status: 429, headers: {} }, 0],
    ['nothing of an answer that is well', { status: 200, headers: { 'retry-after': '3' } }, 0],
    ['nothing of an error of ours', { status: 400, headers: { 'retry-after': '3' } }, 0],
  ])('reads %s', (_what, response, pausedForMs) => {
    expect(pauseOf(response, noon)).toBe(pausedForMs);
  });

  it('ignores a date on a clock that does not count from 1970', () => {
    expect(pauseOf({ status: 429, headers: { 'retry-after': 'Wed, 21 Oct 2026 12:00:07 GMT' } }, 5000)).toBe(0);
  });

  it('holds every job for the longest of its pauses', () => {
    virtualTime(({ flush, now }) => {
      const events: FlowEvent[] = [];
      const limiter = createLimiter({ learn: fromHeaders(), onEvent: unstamped((event) => events.push(event)) });
      limiter.observe({ status: 429, headers: { 'retry-after': '3' } });
      limiter.penalize(1000);
      const job = watch(limiter, {}, now);
      expect([limiter.snapshot().heldByRate, limiter.tryAcquire()]).toEqual([1, undefined]);
      flush();
      expect(job.seen[0]).toBe('lease at 3000');
      expect(events).toEqual([{ type: 'throttled', operator: 'createLimiter', pauseMs: 3000 }]);
    });
  });
});

describe('penalize', () => {
  it('starts no job and calls no listener by itself, because its caller may be in the middle of something', () => {
    virtualTime(({ advance, now }) => {
      const { limiter, lease } = busy({});
      let told = 0;
      limiter.watch(() => told++);
      const job = watch(limiter, {}, now);
      lease.release('cancelled');
      limiter.penalize(10);
      expect([told, job.seen]).toEqual([0, []]);
      advance(10);
      expect([told, job.seen]).toEqual([1, ['lease at 10', 'complete']]);
    });
  });
});

describe('watch', () => {
  it('reports a slot freed by a cancelled call at the end of the frame, also without a waiting job', () => {
    virtualTime(({ advance }) => {
      const { limiter, lease } = busy({});
      let told = 0;
      const stop = limiter.watch(() => told++);
      lease.release('cancelled');
      expect(told).toBe(0);
      advance(0);
      expect(told).toBe(1);
      stop();
      limiter.tryAcquire()?.release();
      expect(told).toBe(1);
    });
  });
});

describe('the snapshot', () => {
  it.each([1, 2, 3])('says that a job which wants more slots than are free waits for slots, with %d of 3 in use', (used) => {
    const limiter = createLimiter({ concurrency: 3 });
    limiter.tryAcquire({ cost: { slots: used } });
    watch(limiter, { cost: { slots: 3 } });
    expect(limiter.snapshot()).toMatchObject({ queued: 1, heldBySlot: 1, heldByRate: 0 });
  });
});

describe('setLimits', () => {
  it('takes no lease back when it lowers the concurrency, and grants none until enough are released', () => {
    const events: FlowEvent[] = [];
    const limiter = createLimiter({ concurrency: 3, onEvent: unstamped((event) => events.push(event)) });
    const leases = [limiter.tryAcquire(), limiter.tryAcquire(), limiter.tryAcquire()];
    limiter.setLimits({ concurrency: 1 });
    const next = watch(limiter);
    expect(limiter.snapshot()).toMatchObject({ concurrency: 1, executing: 3, heldBySlot: 1 });
    leases[0]?.release();
    leases[1]?.release();
    expect(next.seen).toEqual([]);
    leases[2]?.release();
    expect(next.seen).toEqual(['lease at 0', 'complete']);
    expect(events).toEqual([{ type: 'limitChanged', operator: 'createLimiter', concurrency: 1 }]);
  });

  it('grants at once what a higher limit allows, and takes a rate away with Infinity', () => {
    virtualTime(({ pending }) => {
      const limiter = createLimiter({ concurrency: 1, rates: [perMinute('requests', 60, { burst: 1 })], headroom: 1 });
      limiter.tryAcquire();
      const jobs = [watch(limiter), watch(limiter)];
      limiter.setLimits({ concurrency: 5 });
      expect(jobs.map(({ seen }) => seen.length)).toEqual([0, 0]);
      limiter.setLimits({ rates: [perMinute('requests', Infinity)] });
      expect([jobs.map(({ seen }) => seen.length), limiter.snapshot().requests, pending()]).toEqual([[2, 2], Infinity, 0]);
    });
  });

  it('re-times waiting jobs', () => {
    virtualTime(({ advance, flush, now }) => {
      const limiter = createLimiter({ rates: [perMinute('requests', 6, { burst: 1 })], headroom: 1 });
      limiter.tryAcquire();
      const job = watch(limiter, {}, now);
      advance(1000);
      limiter.setLimits({ rates: [perMinute('requests', 60, { burst: 10 })] });
      flush();
      expect(job.seen[0]).toBe('lease at 1900');
    });
  });

  it('refuses what it does not know', () => {
    const limiter = createLimiter();
    expect(() => {
      limiter.setLimits({ concurrency: 0 });
    }).toThrow('createLimiter: expected `concurrency` to be a whole number >= 1 or Infinity, got `0` (number)');
    expect(() => {
      limiter.setLimits({ maxQueued: 5 } as never);
    }).toThrow('createLimiter: unknown option `maxQueued`');
    expect(() => {
      limiter.penalize(-1);
    }).toThrow('createLimiter: expected `pauseMs` to be a number of milliseconds >= 0 or Infinity, got `-1` (number)');
  });
});

describe('the end', () => {
  const isDone = async (promise: Promise<unknown>): Promise<boolean> => {
    let done = false;
    void promise.then(() => (done = true));
    for (let i = 0; i < 5; i++) await Promise.resolve();
    return done;
  };

  it('by close refuses waiting and new jobs, and leaves leases valid', async () => {
    const { limiter, lease } = busy({});
    const bidder: unknown[] = [];
    limiter.enlist({ granted: () => undefined, refused: (error) => bidder.push(error) });
    const waiting = watch(limiter);
    limiter.close();
    limiter.close();
    expect([waiting.seen, bidder]).toEqual([['ClosedError at 0'], [expect.any(ClosedError)]]);
    expect([limiter.executing, limiter.tryAcquire(), watch(limiter).seen]).toEqual([1, undefined, ['ClosedError at 0']]);
    lease.release();
    expect(limiter.executing).toBe(0);
    await limiter.drain();
  });

  it('by close grants nothing of what the refused release', () => {
    const { limiter, lease } = busy({});
    const seen: string[] = [];
    limiter.acquire().subscribe({
      error: () => {
        seen.push('first refused');
        lease.release();
      },
    });
    limiter.acquire().subscribe({ next: () => seen.push('second granted'), error: () => seen.push('second refused') });
    limiter.close();
    expect(seen).toEqual(['first refused', 'second refused']);
  });

  it('by close frees the slots of work that was given up, and leaves no timer', () => {
    virtualTime(({ pending }) => {
      const limiter = createLimiter({ concurrency: 1 });
      limiter
        .run(() => new Promise<never>(() => undefined))
        .subscribe()
        .unsubscribe();
      watch(limiter, { deadlineMs: 50 });
      expect([limiter.executing, pending()]).toEqual([1, 1]);
      limiter.close();
      expect([limiter.executing, pending()]).toEqual([0, 0]);
    });
  });

  it('by drain grants the waiting jobs, and resolves when the last lease is back', async () => {
    const { limiter, lease } = busy({});
    const waiting = watch(limiter);
    const drained = limiter.drain();
    expect(limiter.drain()).toBe(drained);
    expect(watch(limiter).seen).toEqual(['ClosedError at 0']);
    lease.release();
    expect([waiting.seen.length, await isDone(drained)]).toEqual([2, false]);
    waiting.leases[0]?.release();
    expect(await isDone(drained)).toBe(true);
    await createLimiter()[Symbol.asyncDispose]();
  });

  it('by drain resolves when the last one leaves, by unsubscribing or by its time running out', async () => {
    const paused = createLimiter();
    paused.penalize(1e9);
    const gone = watch(paused);
    const over = paused.drain();
    expect(await isDone(over)).toBe(false);
    gone.subscription.unsubscribe();
    expect(await isDone(over)).toBe(true);

    const late = virtualTime(({ advance }) => {
      const slow = createLimiter();
      slow.penalize(1e9);
      watch(slow, { deadlineMs: 10 });
      const promise = slow.drain();
      advance(10);
      return promise;
    });
    expect(await isDone(late)).toBe(true);
  });
});

describe('what a queue for slots and rates must not do', () => {
  it('make a more urgent, cheaper job wait behind one that waits for its tokens', () => {
    virtualTime(({ advance, now }) => {
      const limiter = createLimiter({
        concurrency: 2,
        rates: [perMinute('tokens', 6000, { burst: 100 })],
        headroom: 1,
        queue: lanes([{ name: 'now' }, { name: 'later' }]),
      });
      limiter.tryAcquire({ cost: { tokens: 50 } })!.release();
      const big = watch(limiter, { lane: 'later', cost: { tokens: 100 } }, now);
      const urgent = watch(limiter, { lane: 'now', cost: { tokens: 10 } }, now);
      expect([big.seen, urgent.seen]).toEqual([[], ['lease at 0', 'complete']]);
      advance(1000);
      expect(big.seen[0]).toBe('lease at 600');
    });
  });

  it('hold a slot while it waits for the rate', () => {
    virtualTime(({ advance }) => {
      const limiter = createLimiter({
        concurrency: 1,
        rates: [perMinute('tokens', 6000, { burst: 100 })],
        headroom: 1,
        queue: lanes([{ name: 'now' }, { name: 'later' }]),
      });
      limiter.tryAcquire({ cost: { tokens: 100 } })!.release();
      const waiting = watch(limiter, { cost: { tokens: 50 } });
      expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 1, heldByRate: 1, heldBySlot: 0 });
      expect(limiter.tryAcquire({ lane: 'now', cost: { tokens: 0 } })).toBeDefined();
      // The slot is taken, and would be of no use to the waiting job.
      expect(limiter.snapshot()).toMatchObject({ executing: 1, heldByRate: 1, heldBySlot: 0 });
      advance(5000);
      expect(waiting.seen).toEqual([]);
      waiting.subscription.unsubscribe();
    });
  });

  it('leak a slot when the waiting one is cancelled', () => {
    virtualTime(({ advance }) => {
      const limiter = createLimiter({ concurrency: 1, rates: [perMinute('requests', 60, { burst: 1 })], headroom: 1 });
      limiter.tryAcquire()!.release();
      for (let i = 0; i < 10; i++) {
        const waiting = watch(limiter);
        advance(50);
        waiting.subscription.unsubscribe();
      }
      advance(500);
      expect(limiter.tryAcquire()).toBeDefined();
    });
  });

  it('keep a release waiting behind a job that waits for the rate', () => {
    virtualTime(({ advance, now }) => {
      const limiter = createLimiter({ concurrency: 1, rates: [perMinute('requests', 600, { burst: 1 })], headroom: 1 });
      const lease = limiter.tryAcquire()!;
      const next = watch(limiter, {}, now);
      advance(50);
      lease.release();
      expect(limiter.executing).toBe(0);
      advance(50);
      expect(next.seen[0]).toBe('lease at 100');
    });
  });

  it('let a smaller job of the same lane overtake the next one, nor hold it when that one leaves', () => {
    virtualTime(({ advance }) => {
      const limiter = createLimiter({ rates: [perMinute('tokens', 6000, { burst: 100 })], headroom: 1 });
      limiter.tryAcquire({ cost: { tokens: 50 } });
      const big = watch(limiter, { cost: { tokens: 100 } });
      const small = watch(limiter, { cost: { tokens: 5 } });
      expect([small.seen, limiter.tryAcquire()]).toEqual([[], undefined]);
      big.subscription.unsubscribe();
      advance(0);
      expect(small.seen).toEqual(['lease at 0', 'complete']);
    });
  });

  it('send two minutes’ worth in the first', () => {
    virtualTime(({ advance }) => {
      const limiter = createLimiter({ rates: [perMinute('requests', 600)], maxQueued: Infinity });
      let sent = 0;
      range(2000).subscribe(() => limiter.run(() => EMPTY).subscribe({ complete: () => sent++, error: () => undefined }));
      expect(sent).toBe(18);
      advance(60_000);
      expect(sent).toBe(18 + 540);
      limiter.close();
    });
  });
});

describe('two copies of the package in one process', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-copies-'));
  const root = fileURLToPath(new URL('../../', import.meta.url));
  afterAll(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  type Copy = typeof import('../../operators/index.js');
  const copy = async (name: string): Promise<Copy> => {
    const outfile = join(folder, `${name}.mjs`);
    await build({
      entryPoints: [join(root, 'operators/index.ts')],
      outfile,
      bundle: true,
      format: 'esm',
      platform: 'neutral',
      external: ['rxjs'],
      alias: { '#async-context': join(root, 'operators/shell/calls/async-context.ts') },
      logLevel: 'silent',
    });
    return (await import(/* @vite-ignore */ pathToFileURL(outfile).href)) as Copy;
  };

  it('share a limiter and know each other’s errors', async () => {
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
    const [one, other] = await Promise.all([copy('one'), copy('other')]);
    expect(one.createLimiter).not.toBe(other.createLimiter);

    const limiter = other.createLimiter({ concurrency: 1, queue: lanes([{ name: 'p0' }]) });
    const held = limiter.tryAcquire()!;
    const results = lastValueFrom(
      from([1, 2, 3]).pipe(
        one.batchMap((items: readonly number[]) => Promise.resolve(items.map((item) => item * 2)), {
          limiter,
          queue: one.lanes([{ name: 'p0' }]),
          maxSize: 2,
        }),
        toArray(),
      ),
    );
    held.release();
    expect((await results).map((settled) => (settled as { value: number }).value)).toEqual([2, 4, 6]);

    limiter.close();
    const closed: unknown = await limiter.acquireAsync().catch((error: unknown) => error);
    expect(closed).not.toBeInstanceOf(one.ClosedError);
    expect([
      one.isFlowError(closed, 'FLOW_CLOSED'),
      other.isFlowError(closed, 'FLOW_CLOSED'),
      one.isFlowError(closed, 'FLOW_OVERFLOW'),
    ]).toEqual([true, true, false]);
    const rejected = await lastValueFrom(of(1).pipe(one.batchMap(() => of([0]), { limiter, queue: one.lanes([{ name: 'p0' }]) })));
    expect(one.isFlowError((rejected as { reason: unknown }).reason, 'FLOW_CLOSED')).toBe(true);
  });
});

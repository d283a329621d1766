import type { Observable } from 'rxjs';
import { config, defer, firstValueFrom, NEVER, of, throwError, toArray } from 'rxjs';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { Limiter } from '../../operators/index.js';
import {
  AttemptTimeoutError,
  BatchShapeError,
  batchMap,
  batchMapFrom,
  bulkheadMap,
  childOf,
  createBatcher,
  createLimiter,
  divideAndConquer,
  hedge,
  inputOrder,
  perMinute,
  retryFailed,
} from '../../operators/index.js';
import type { Release } from '../../operators/options/limiter.js';
import { atOnce } from '../support/at-once.js';
import { wholeList } from '../support/whole-list.js';

// Every user of a limiter reports the outcome when it returns the permit.

type Failing = () => Observable<never> | Promise<never>;

const repair = [retryFailed(), divideAndConquer()];

const fault = Object.assign(new Error('too many requests'), { status: 429 });

const failing: Readonly<Record<string, Failing>> = {
  'an Observable': () => throwError(() => fault),
  'a promise': () => Promise.reject(fault),
  'a throw': () => {
    throw fault;
  },
};

/** Work on a list or on one item, whichever is asked for. */
const users: Readonly<Record<string, (limiter: Limiter, work: Failing) => Observable<unknown>>> = {
  batchMap: (limiter, work) => of(1).pipe(batchMap(work, { limiter, scheduler: atOnce() })),
  batchMapFrom: (limiter, work) => batchMapFrom([1], work, { limiter, scheduler: atOnce() }),
  createBatcher: (limiter, work) => createBatcher(work, { limiter, scheduler: atOnce() }).load(1),
  'bulkheadMap, settled': (limiter, work) => of(1).pipe(bulkheadMap(work, { limiter })),
  'bulkheadMap, propagating': (limiter, work) => of(1).pipe(bulkheadMap(work, { limiter, errors: 'propagate' })),
  'bulkheadMap, in order': (limiter, work) => of(1).pipe(bulkheadMap(work, { limiter, order: inputOrder(), errors: 'propagate' })),
  'bulkheadMap, one per key': (limiter, work) => of(1).pipe(bulkheadMap(work, { key: (item) => item, perKey: 1, limiter })),
  hedge: (limiter, work) => hedge(work, { limiter, maxAttempts: 1 }),
  run: (limiter, work) => limiter.run(work),
  runAsync: (limiter, work) => defer(() => limiter.runAsync(work)),
};

/** What the limiter is told while the stream runs to its end. */
async function releasesOf(limiter: Limiter, stream: Observable<unknown>): Promise<Pick<Release, 'outcome' | 'error'>[]> {
  const releases: Pick<Release, 'outcome' | 'error'>[] = [];
  limiter.onRelease(({ outcome, error }) => releases.push({ outcome, error }));
  await firstValueFrom(stream.pipe(toArray())).catch(() => undefined);
  // The permit of a promise that was given up comes back when the promise settles.
  await new Promise((resolve) => setImmediate(resolve));
  return releases;
}

describe.each(Object.entries(users))('%s gives back the permit', (_name, use) => {
  it.each(Object.entries(failing))('of work that fails, as %s, with its error', async (_shape, work) => {
    const limiter = createLimiter({ concurrency: 2 });
    expect(await releasesOf(limiter, use(limiter, work))).toEqual([{ outcome: 'error', error: fault }]);
    expect(limiter.executing).toBe(0);
  });
});

describe('a call that went well', () => {
  it('gives back its permit without an error', async () => {
    const limiter = createLimiter({ concurrency: 2 });
    const fine = [{ outcome: 'ok', error: undefined }];
    expect(await releasesOf(limiter, of(1).pipe(batchMap((items) => of(items), { limiter, repair, scheduler: atOnce() })))).toEqual(fine);
    expect(await releasesOf(limiter, of(1).pipe(bulkheadMap((item) => of(item), { limiter })))).toEqual(fine);
    expect(await releasesOf(limiter, of(1).pipe(bulkheadMap((item) => of(item), { limiter, errors: 'propagate' })))).toEqual(fine);
    expect(
      await releasesOf(
        limiter,
        hedge(() => of(1), { limiter }),
      ),
    ).toEqual(fine);
  });

  it('and one item of it did not: the call is no failure', async () => {
    const limiter = createLimiter({ concurrency: 2 });
    const work = (items: readonly number[]) => of(items.map((item) => (item === 2 ? fault : item)));
    const stream = of(1, 2, 3).pipe(batchMap(work, { limiter, repair: divideAndConquer(), maxSize: 3 }));
    expect(await releasesOf(limiter, stream)).toEqual([{ outcome: 'ok', error: undefined }]);
  });

  it('with the wrong number of results is a failure', async () => {
    const limiter = createLimiter({ concurrency: 2 });
    const [release] = await releasesOf(limiter, of(1).pipe(batchMap(() => of([1, 2]), { limiter, repair, scheduler: atOnce() })));
    expect(release).toMatchObject({ outcome: 'error', error: expect.any(BatchShapeError) as unknown });
  });

  it('every attempt by itself: failed, failed, well', async () => {
    const limiter = createLimiter({ concurrency: 2 });
    let attempts = 0;
    const work = (items: readonly number[]) => (++attempts < 3 ? throwError(() => fault) : of(items));
    const repair = retryFailed({ maxAttempts: 3, delayMs: 0, maxMs: 0 });
    const releases = await releasesOf(limiter, of(1).pipe(batchMap(work, { limiter, repair, scheduler: atOnce() })));
    expect(releases.map(({ outcome }) => outcome)).toEqual(['error', 'error', 'ok']);
  });

  it('every part of a batch that is cut up by itself', async () => {
    const limiter = createLimiter({ concurrency: 4 });
    const bad = Object.assign(new Error('bad'), { status: 400 });
    const work = (items: readonly number[]) => (items.includes(3) ? throwError(() => bad) : of(items));
    const releases = await releasesOf(limiter, wholeList(work, { limiter, repair })([1, 2, 3, 4]));
    expect(releases.map(({ outcome }) => outcome)).toEqual(['error', 'ok', 'ok', 'error', 'ok']);
    expect(releases.filter(({ outcome }) => outcome === 'error').map(({ error }) => error)).toEqual([bad, bad]);
  });
});

describe('a call that takes too long', () => {
  /** What the limiter is told within 10 s of virtual time, and when. */
  const timed = (use: (limiter: Limiter) => Observable<unknown>): string[] =>
    virtualTime(({ advance, now }) => {
      const limiter = createLimiter({ concurrency: 2 });
      const seen: string[] = [];
      limiter.onRelease(({ outcome, error }) =>
        seen.push(`${outcome} at ${String(now())}: ${(error as Error | undefined)?.name ?? 'none'}`),
      );
      const subscription = use(limiter).subscribe({ error: () => undefined });
      advance(10_000);
      subscription.unsubscribe();
      return seen;
    });
  const never = (): Promise<never> => new Promise(() => undefined);
  const options = { timeoutMs: 100, scheduler: atOnce() };

  it('gives back its permit at once with the timeout when it is an Observable', () => {
    const told = ['error at 100: AttemptTimeoutError'];
    expect(timed((limiter) => of(1).pipe(batchMap(() => NEVER, { limiter, ...options })))).toEqual(told);
    expect(timed((limiter) => of(1).pipe(bulkheadMap(() => NEVER, { limiter, timeoutMs: 100 })))).toEqual(told);
    expect(timed((limiter) => of(1).pipe(bulkheadMap(() => NEVER, { limiter, timeoutMs: 100, errors: 'propagate' })))).toEqual(told);
  });

  it('gives it back with the timeout after the grace when it is a promise that goes on', () => {
    const told = ['error at 1100: AttemptTimeoutError'];
    expect(timed((limiter) => of(1).pipe(batchMap(never, { limiter, ...options })))).toEqual(told);
    expect(timed((limiter) => of(1).pipe(bulkheadMap(never, { limiter, timeoutMs: 100 })))).toEqual(told);
    expect(timed((limiter) => of(1).pipe(bulkheadMap(never, { limiter, timeoutMs: 100, errors: 'propagate' })))).toEqual(told);
  });

  it('gives it back with the timeout, whatever the promise says when it is stopped', async () => {
    vi.useFakeTimers();
    const limiter = createLimiter({ concurrency: 2 });
    const releases: Release[] = [];
    limiter.onRelease((release) => releases.push(release));
    const stopped = (_item: unknown, { signal }: { readonly signal: AbortSignal }): Promise<never> =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          reject(signal.reason as Error);
        });
      });
    of(1)
      .pipe(batchMap(stopped, { limiter, ...options }))
      .subscribe();
    of(1)
      .pipe(bulkheadMap(stopped, { limiter, timeoutMs: 100 }))
      .subscribe();
    await vi.advanceTimersByTimeAsync(100);
    expect(releases.map(({ outcome, error }) => [outcome, error instanceof AttemptTimeoutError])).toEqual([
      ['error', true],
      ['error', true],
    ]);
    expect(limiter.executing).toBe(0);
  });

  afterEach(() => {
    vi.useRealTimers();
  });
});

describe('work that was given up', () => {
  it('is cancelled when it was an Observable', async () => {
    const limiter = createLimiter({ concurrency: 9 });
    const releases: Release[] = [];
    limiter.onRelease((release) => releases.push(release));
    of(1)
      .pipe(batchMap(() => NEVER, { limiter, repair, scheduler: atOnce() }))
      .subscribe()
      .unsubscribe();
    of(1)
      .pipe(bulkheadMap(() => NEVER, { limiter }))
      .subscribe()
      .unsubscribe();
    hedge(() => NEVER, { limiter })
      .subscribe()
      .unsubscribe();
    await Promise.resolve();
    expect(releases.map(({ outcome }) => outcome)).toEqual(['cancelled', 'cancelled', 'cancelled']);
  });

  it('does not pass for a success when its promise rejects for having been stopped', async () => {
    const limiter = createLimiter({ concurrency: 9 });
    const releases: Release[] = [];
    limiter.onRelease((release) => releases.push(release));
    const aborted = new DOMException('stopped', 'AbortError');
    const rejects: (() => void)[] = [];
    const work = (): Promise<never> =>
      new Promise((_resolve, reject) => {
        rejects.push(() => {
          reject(aborted);
        });
      });
    of(1)
      .pipe(batchMap(work, { limiter, repair, scheduler: atOnce() }))
      .subscribe()
      .unsubscribe();
    of(1).pipe(bulkheadMap(work, { limiter })).subscribe().unsubscribe();
    hedge(work, { limiter }).subscribe().unsubscribe();
    limiter.run(work).subscribe().unsubscribe();
    for (const reject of rejects) reject();
    await new Promise((resolve) => setImmediate(resolve));
    expect(releases.map(({ outcome, error }) => [outcome, error])).toEqual([1, 2, 3, 4].map(() => ['error', aborted]));
  });
});

describe('releaseAfter', () => {
  it('tells the error it was given in place of what becomes of the promise, also through a limiter above', async () => {
    const parent = createLimiter({ concurrency: 2 });
    const releases: unknown[] = [];
    parent.onRelease(({ outcome, error }) => releases.push([outcome, error]));
    const own = createLimiter({ concurrency: 2 });
    own.onRelease(({ outcome, error }) => releases.push([outcome, error]));
    for (const limiter of [own, childOf(parent, { concurrency: 1 })]) {
      limiter.tryAcquire()!.releaseAfter(Promise.resolve(1), fault);
      await Promise.resolve();
    }
    expect(releases).toEqual([
      ['error', fault],
      ['error', fault],
    ]);
  });
});

describe('settle', () => {
  const options = { rates: [perMinute('tokens', 60_000, { burst: 60_000 })], headroom: 1 };
  const spend = (limiter: Limiter, used: number): number => {
    const before = limiter.snapshot().tokens;
    const lease = limiter.tryAcquire({ cost: { tokens: 1000 } });
    lease?.settle({ inputTokens: used });
    lease?.release();
    return before - limiter.snapshot().tokens;
  };

  it('gives back what was not used, and takes what was used beyond it', () => {
    virtualTime(() => {
      expect(spend(createLimiter({ ...options }), 400)).toBe(400);
      expect(spend(createLimiter({ ...options }), 1600)).toBe(1600);
    });
  });

  it('gives nothing back where the provider counts what a request allows', () => {
    virtualTime(() => {
      const limiter = createLimiter({ ...options, refunds: false });
      expect(spend(limiter, 400)).toBe(1000);
      expect(spend(limiter, 1600)).toBe(1600);
    });
  });

  it('goes by what each of several limiters says', () => {
    virtualTime(() => {
      const account = createLimiter({ ...options, refunds: false });
      const child = childOf(account, { ...options, rates: [perMinute('tokens', 6000, { burst: 6000 })] });
      const before = account.snapshot().tokens;
      expect(spend(child, 400)).toBe(400);
      expect(before - account.snapshot().tokens).toBe(1000);
    });
  });
});

describe('a listener to releases that throws', () => {
  it('costs no other job a slot', async () => {
    const parent = createLimiter({ concurrency: 1 });
    const child = childOf(parent);
    const reported: unknown[] = [];
    config.onUnhandledError = (error) => reported.push((error as Error).message);
    child.onRelease(() => {
      throw new Error('from onRelease');
    });
    child.watch(() => {
      throw new Error('from watch');
    });
    child.tryAcquire()?.release();
    expect([child.executing, parent.executing]).toEqual([0, 0]);
    await new Promise((resolve) => setTimeout(resolve));
    config.onUnhandledError = null;
    expect(reported).toEqual(['from onRelease', 'from watch', 'from watch']);
  });
});

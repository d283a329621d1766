import { AsyncLocalStorage } from 'node:async_hooks';
import { EMPTY, lastValueFrom, of, Subject, takeUntil, toArray } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { Limiter } from '../../operators/index.js';
import { childOf, createLimiter, keyedLimiter } from '../../operators/index.js';

/** `runAsync` in its ways: at once, after a wait, with a signal, and `run` as a promise. */
const ways: readonly (readonly [string, (limiter: Limiter, work: () => unknown) => Promise<unknown>])[] = [
  ['runAsync', (limiter, work) => limiter.runAsync(work)],
  [
    'runAsync that has to wait',
    (limiter, work) => {
      const held = limiter.tryAcquire();
      const answer = limiter.runAsync(work);
      held?.release();
      return answer;
    },
  ],
  ['runAsync with a signal', (limiter, work) => limiter.runAsync(work, { signal: new AbortController().signal })],
  ['run', (limiter, work) => lastValueFrom(limiter.run(work))],
];

describe.each(ways)('%s', (_name, run) => {
  it.each([
    ['a text', 'answer'],
    ['a list', [1, 2, 3]],
    ['a number', 42],
    ['nothing', undefined],
    ['null', null],
    ['a set', new Set([1])],
    ['a function', () => 5],
    ['false', false],
  ])('answers with %s that the work returns', async (_what, value) => {
    const limiter = createLimiter({ concurrency: 1 });
    expect(await run(limiter, () => value)).toBe(value);
    expect(limiter.executing).toBe(0);
  });

  it('reads what comes later: the last value of an Observable, an async iterable or a stream', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    expect(await run(limiter, () => of(1, 2))).toBe(2);
    const later = async function* () {
      yield await Promise.resolve('a');
      yield 'b';
    };
    expect(await run(limiter, later)).toBe('b');
    expect(await run(limiter, () => new Blob(['c']).stream().pipeThrough(new TextDecoderStream()))).toBe('c');
    await expect(run(limiter, () => EMPTY)).rejects.toThrow('no elements');
    expect(limiter.executing).toBe(0);
  });

  it('calls the `then` of a thenable once, whether it is awaited or given up', async () => {
    const limiter = createLimiter({ concurrency: 1, abortGraceMs: 0 });
    let sent = 0;
    const query = () => ({
      then: (resolve: (rows: string[]) => void) => {
        sent++;
        queueMicrotask(() => {
          resolve(['row']);
        });
      },
    });
    expect(await run(limiter, query)).toEqual(['row']);
    expect([sent, limiter.executing]).toEqual([1, 0]);
  });

  it.each([
    [
      'method',
      {
        then: () => {
          throw new Error('broken');
        },
      },
    ],
    [
      'getter',
      {
        get then(): never {
          throw new Error('broken');
        },
      },
    ],
  ])('fails, and gives the permit back, when `then` is a %s that throws', async (_how, thenable) => {
    const limiter = createLimiter({ concurrency: 1 });
    await expect(run(limiter, () => thenable)).rejects.toThrow('broken');
    expect(limiter.executing).toBe(0);
  });
});

describe('work that was given up', () => {
  const lazy = () => {
    const query = {
      sent: 0,
      then: () => {
        query.sent++;
      },
    };
    return query;
  };

  it('has called `then` once, when `run` is left', async () => {
    const query = lazy();
    virtualTime(({ flush }) => {
      const limiter = createLimiter({ concurrency: 1 });
      limiter
        .run(() => query)
        .subscribe()
        .unsubscribe();
      flush();
      expect(limiter.executing).toBe(0);
    });
    await Promise.resolve();
    expect(query.sent).toBe(1);
  });

  it.each(['abort', 'close'] as const)('has called `then` once, when `runAsync` ends by %s', async (how) => {
    const limiter = createLimiter({ concurrency: 1, abortGraceMs: 0 });
    const controller = new AbortController();
    const query = lazy();
    const answer = limiter.runAsync(() => query, how === 'abort' ? { signal: controller.signal } : {});
    await Promise.resolve();
    if (how === 'abort') controller.abort();
    else limiter.close();
    await expect(answer).rejects.toMatchObject({ name: how === 'abort' ? 'AbortError' : 'ClosedError' });
    expect([query.sent, limiter.executing]).toEqual([1, 0]);
  });

  it('is given to `releaseAfter` as a thenable that throws, and frees its slot all the same', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    limiter.tryAcquire()?.releaseAfter({
      then: () => {
        throw new Error('broken');
      },
    });
    await new Promise((resolve) => setTimeout(resolve));
    expect(limiter.executing).toBe(0);
  });
});

describe('a consumer of `run` that leaves while its permit is being asked for', () => {
  it('has none of its work started', () => {
    virtualTime(({ flush }) => {
      const limiter = createLimiter({ concurrency: 1 });
      const held = limiter.tryAcquire();
      const stop = new Subject<void>();
      const seen: string[] = [];
      limiter
        .run(() => {
          stop.next();
          return of('a');
        })
        .subscribe((value) => seen.push(value));
      held?.release('cancelled');
      limiter
        .run(() => {
          seen.push('started');
          return of('b');
        })
        .pipe(takeUntil(stop), toArray())
        .subscribe((all) => seen.push(`left with ${String(all.length)}`));
      flush();
      expect(seen).toEqual(['left with 0', 'a']);
      expect(limiter.executing).toBe(0);
    });
  });
});

describe('work that waits', () => {
  const storage = new AsyncLocalStorage<number>();
  const ask = async (): Promise<number | undefined> => {
    await Promise.resolve();
    return storage.getStore();
  };
  const users = [1, 2, 3, 4];
  const forAll = <R>(start: () => Promise<R>): Promise<R[]> => Promise.all(users.map((user) => storage.run(user, start)));
  const kinds: readonly (readonly [string, (limiter: Limiter) => Promise<unknown>])[] = [
    ['runAsync', (limiter) => limiter.runAsync(ask)],
    ['runAsync with a signal', (limiter) => limiter.runAsync(ask, { signal: new AbortController().signal })],
    ['run', (limiter) => lastValueFrom(limiter.run(ask))],
    ['a plain value', (limiter) => limiter.runAsync(() => storage.getStore())],
    [
      'acquire',
      (limiter) =>
        new Promise((resolve) => {
          limiter.acquire().subscribe((lease) => {
            resolve(storage.getStore());
            void Promise.resolve().then(() => {
              lease.release();
            });
          });
        }),
    ],
  ];

  it.each(kinds)('runs in the context of its caller: %s', async (_name, start) => {
    const limiter = createLimiter({ concurrency: 1 });
    expect(await forAll(() => start(limiter))).toEqual(users);
    expect(await forAll(() => start(childOf(limiter, { concurrency: 1 })))).toEqual(users);
  });

  it('does so under a key, when the rate has to be waited for, and when it is let in by a listener', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const keyed = keyedLimiter(limiter, { concurrency: 1 });
    expect(await forAll(() => keyed.runAsync(ask, { key: 'a' }))).toEqual(users);
    const held = limiter.tryAcquire();
    const answers = forAll(() => limiter.runAsync(ask));
    storage.run(99, () => {
      limiter.setLimits({ concurrency: 2 });
      held?.release();
    });
    expect(await answers).toEqual(users);
  });
});

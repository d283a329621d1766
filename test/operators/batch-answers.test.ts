import { AsyncLocalStorage } from 'node:async_hooks';
import { defer, firstValueFrom, lastValueFrom, map, of, Subject, timer, toArray } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { Settled } from '../../operators/index.js';
import { batchMap, batchMapFrom, createBatcher, createLimiter, natural } from '../../operators/index.js';
import { wholeList } from '../support/whole-list.js';

/** What batch work hands back, and what its callers get of it. */

const upper = (items: readonly string[]): string[] => items.map((item) => item.toUpperCase());
const values = (settled: readonly Settled<unknown, unknown>[]): unknown[] =>
  settled.map((one) => (one.status === 'fulfilled' ? one.value : one.reason));
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe('a plain array that the work returns', () => {
  it('is its results, wherever work makes batches', async () => {
    expect(values(await firstValueFrom(of('a', 'b').pipe(batchMap(upper), toArray())))).toEqual(['A', 'B']);
    expect(values(await firstValueFrom(batchMapFrom(['a', 'b'], upper).pipe(toArray())))).toEqual(['A', 'B']);
    expect(values(await firstValueFrom(wholeList(upper)(['a', 'b'])))).toEqual(['A', 'B']);
    const batcher = createBatcher(upper);
    expect(await Promise.all([batcher.loadAsync('a'), batcher.loadAsync('b')])).toEqual(['A', 'B']);
  });
});

describe('two items with one id', () => {
  const items = [
    { id: 'x', n: 1 },
    { id: 'x', n: 2 },
    { id: 'y', n: 3 },
  ];
  it.each([
    [
      'a Map',
      () =>
        new Map([
          ['x', 'one'],
          ['y', 'two'],
        ]),
    ], // prettier-ignore
  ])('are rejected when results come by id in %s: no item gets the result of another', (_shape, work) => {
    const settled: Settled<{ n: number }, string>[] = [];
    of(...items)
      .pipe(batchMap<{ id: string; n: number }, string>(work, { id: ({ id }) => id }))
      .subscribe((one) => settled.push(one));
    expect(settled.map((one) => one.status === 'rejected' && (one.reason as { code: string }).code)).toEqual(
      Array.from({ length: 3 }, () => 'FLOW_BATCH_SHAPE'),
    );
  });

  it('are told apart by their places', () => {
    const settled: Settled<unknown, string>[] = [];
    of(...items)
      .pipe(batchMap<{ id: string; n: number }, string>(() => ['one', new Error('two'), 'three'], { id: ({ id }) => id }))
      .subscribe((one) => settled.push(one));
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  });
});

describe('loads that share an item', () => {
  it('are told of their own input', async () => {
    const batcher = createBatcher((users: readonly { id: number; who: string }[]) => users.map(({ id }) => id * 10), {
      dedupe: ({ id }) => id,
    });
    const mine = { id: 1, who: 'me' };
    void batcher.loadAsync({ id: 1, who: 'another' });
    const [many, settled] = await Promise.all([
      batcher.loadManyAsync([mine, { id: 2, who: 'me' }]),
      lastValueFrom(batcher.loadSettled(mine)),
    ]);
    expect(many[0]?.input).toBe(mine);
    expect(settled.input).toBe(mine);
    expect(values([...many, settled])).toEqual([10, 20, 10]);
  });
});

describe('a thenable', () => {
  /** As query builders are: each `then` sends a request. */
  const query = (count: () => void) => ({
    then: (done: (rows: string[]) => void): void => {
      count();
      setTimeout(() => {
        done(['row']);
      }, 20);
    },
  });

  it('is asked once, also when it is given up', async () => {
    let sent = 0;
    const ask = () => query(() => sent++) as unknown as PromiseLike<string[]>;
    const batcher = createBatcher(ask, { timeoutMs: 5 });
    await batcher.loadAsync('a').catch(() => undefined);
    expect(sent).toBe(1);
    const source = new Subject<string>();
    const subscription = source.pipe(batchMap(ask, { limiter: createLimiter(), window: natural() })).subscribe();
    source.next('a');
    await pause(5);
    expect(sent).toBe(2);
    subscription.unsubscribe();
    await pause(30);
    expect(sent).toBe(2);
  });

  it('whose `then` throws is a call that failed, and the next load is answered', async () => {
    let calls = 0;
    const batcher = createBatcher((items: readonly string[]): PromiseLike<string[]> | string[] => {
      if (calls++ > 0) return [...items];
      return {
        then: () => {
          throw new Error('then');
        },
      };
    });
    expect(await batcher.loadAsync('a').catch((error: unknown) => (error as Error).message)).toBe('then');
    expect(await batcher.loadAsync('b')).toBe('b');
    const limiter = createLimiter({ concurrency: 1 });
    const work = wholeList(
      (): PromiseLike<string[]> =>
        Object.defineProperty({} as PromiseLike<string[]>, 'then', {
          get: () => {
            throw new Error('getter');
          },
        }),
      { limiter },
    );
    expect(await firstValueFrom(work(['a']))).toMatchObject([{ status: 'rejected', reason: { message: 'getter' } }]);
    expect(limiter.snapshot().executing).toBe(0);
  });
});

describe('the asynchronous context of a batch', () => {
  const als = new AsyncLocalStorage<string>();
  const who = (items: readonly unknown[]) => defer(() => of(items.map(() => als.getStore() ?? 'none')));
  const later = (items: readonly unknown[]) => timer(2).pipe(map(() => items.map(() => als.getStore() ?? 'none')));

  it('is that in which its batcher was created, not that of the caller or of the job that freed the permit', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    for (const work of [who, later, (items: readonly unknown[]) => Promise.resolve(items.map(() => als.getStore() ?? 'none'))]) {
      const batcher = als.run('batcher', () => createBatcher(work, { limiter, maxSize: 1 }));
      const answers = Array.from({ length: 4 }, (_, i) => als.run(`user ${String(i)}`, () => batcher.loadAsync(i)));
      expect(await Promise.all(answers)).toEqual(Array.from({ length: 4 }, () => 'batcher'));
      const bare = createBatcher(who, { limiter });
      expect(await als.run('user', () => bare.loadAsync(1))).toBe('none');
    }
  });

  it('is that of the subscriber of batchMap and batchMapFrom', async () => {
    const source = new Subject<number>();
    const seen: unknown[] = [];
    als.run('subscriber', () => source.pipe(batchMap(who, { concurrency: 1, maxSize: 1 })).subscribe((one) => seen.push(...values([one]))));
    als.run('sender', () => {
      for (let n = 0; n < 3; n++) source.next(n);
    });
    await pause(5);
    expect(seen).toEqual(['subscriber', 'subscriber', 'subscriber']);
    const rows = (async function* () {
      for (let n = 0; n < 4; n++) yield await Promise.resolve(n);
    })();
    const from = batchMapFrom(rows, who, { concurrency: 1, maxSize: 1 });
    expect(values(await als.run('reader', () => firstValueFrom(from.pipe(toArray()))))).toEqual(Array.from({ length: 4 }, () => 'reader'));
  });
});

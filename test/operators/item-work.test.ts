import { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate as turn } from 'node:timers/promises';
import { config, firstValueFrom, from, NEVER, Observable, type OperatorFunction, of, Subject, takeUntil, throwError } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { FlowEvent, Settled } from '../../operators/index.js';
import { bulkheadMap, createLimiter, inputOrder, isFlowError, orderPerKey, settleAll } from '../../operators/index.js';
import { unstamped } from '../support/events.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

type Work<T, R> = (item: T, context: { readonly signal: AbortSignal; readonly index: number }) => R;
interface Common {
  readonly onEvent?: (event: FlowEvent) => void;
  readonly timeoutMs?: number;
  readonly concurrency?: number;
}
const both = {
  bulkheadMap: <T, R>(work: Work<T, R>, options: Common = {}) => bulkheadMap(work, options),
  'bulkheadMap, one per key': <T, R>(work: Work<T, R>, options: Common = {}) => bulkheadMap(work, { key: () => 1, perKey: 1, ...options }),
};
const names = ['bulkheadMap', 'bulkheadMap, one per key'] as const;
/** Every value is handed on, and the first error is the end. */
const values = { errors: 'propagate' } as const;

/** What came of each item, and how the stream ended. */
function watch<T, R>(stream: Observable<Settled<T, R>>) {
  const seen: string[] = [];
  const subscription = stream.subscribe({
    next: (settled) =>
      seen.push(settled.status === 'fulfilled' ? String(settled.value) : `${String(settled.input)}: ${codeOf(settled.reason)}`),
    error: (error: unknown) => seen.push(`error: ${codeOf(error)}`),
    complete: () => seen.push('complete'),
  });
  return { seen, subscription };
}

function codeOf(error: unknown): string {
  return isFlowError(error) ? error.code : error instanceof Error ? error.message : String(error);
}

const broken = (): never => {
  throw new Error('the teardown');
};

let reported: string[] = [];
beforeEach(() => {
  reported = [];
  config.onUnhandledError = (error) => reported.push(String(error));
});
afterEach(() => {
  config.onUnhandledError = null;
});
expectNoUnhandledRejections();

describe('work that returns a plain value', () => {
  it.each([
    ['a text', 'answer'],
    ['a list', [1, 2]],
    ['nothing', undefined],
    ['null', null],
    ['a number', 7],
    ['a Map', new Map([[1, 2]])],
  ])('has it as its value: %s', async (_, answer) => {
    for (const operator of [bulkheadMap(() => answer), bulkheadMap(() => answer, { key: () => 1, perKey: 1 })])
      expect(await firstValueFrom(of('a').pipe(operator))).toMatchObject({ status: 'fulfilled', value: answer });
    const [settled] = await firstValueFrom(settleAll(['a'], () => answer));
    expect(settled).toMatchObject({ status: 'fulfilled', value: answer });
  });

  it('is read as RxJS reads it where every value is handed on', () => {
    const seen: unknown[] = [];
    of('ab')
      .pipe(bulkheadMap((text: string) => text as never, values))
      .subscribe((letter) => seen.push(letter));
    of([1, 2])
      .pipe(bulkheadMap((list: number[]) => list as never, { key: () => 1, perKey: 1, ...values }))
      .subscribe((each) => seen.push(each));
    of(1)
      .pipe(bulkheadMap(() => 7 as never, values))
      .subscribe({ error: (error: unknown) => seen.push(error instanceof TypeError) });
    expect(seen).toEqual(['a', 'b', 1, 2, true]);
  });

  it('runs 100,000 of them without recursion', () => {
    let count = 0;
    from(Array.from({ length: 100_000 }, (_, i) => i))
      .pipe(bulkheadMap((item: number) => item, { concurrency: 1 }))
      .subscribe(() => count++);
    expect(count).toBe(100_000);
  });
});

describe('work that is a thenable', () => {
  const lazy = () => {
    let sent = 0;
    const query = {
      // biome-ignore lint/suspicious/noThenProperty: a query builder
      then(done: (row: string) => void) {
        sent++;
        setImmediate(done, 'row');
      },
    };
    return { query: query as unknown as PromiseLike<string>, sent: () => sent };
  };

  it('is sent once, when it is given up and when it answers', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const [given, answered] = [lazy(), lazy()];
    of(1)
      .pipe(bulkheadMap(() => given.query, { limiter }))
      .subscribe()
      .unsubscribe();
    expect(await firstValueFrom(of(1).pipe(bulkheadMap(() => answered.query, { limiter })))).toMatchObject({ value: 'row' });
    await turn();
    expect([given.sent(), answered.sent(), limiter.snapshot().executing]).toEqual([1, 1, 0]);
  });

  it.each([
    // biome-ignore lint/suspicious/noThenProperty: what is tested
    ['throws', { then: broken }],
    ['cannot be read', Object.defineProperty({}, 'then', { get: broken })],
  ])('fails its item and nothing else when its `then` %s', async (_, bad) => {
    const work = (item: string): PromiseLike<string> => (item === 'bad' ? (bad as PromiseLike<string>) : Promise.resolve(item));
    for (const name of names) {
      const { seen } = watch(of('bad', 'good').pipe(both[name](work, { concurrency: 1 })));
      await turn();
      expect(seen).toEqual(['bad: the teardown', 'good', 'complete']);
    }
    const results = await firstValueFrom(settleAll(['bad', 'good'], work));
    expect(results.map(({ status }) => status)).toEqual(['rejected', 'fulfilled']);
  });
});

describe('the asynchronous context of work that had to wait', () => {
  const user = new AsyncLocalStorage<string>();
  const ask = async (): Promise<string | undefined> => {
    await turn();
    return user.getStore();
  };

  it.each([
    ['bulkheadMap', () => bulkheadMap(ask, { concurrency: 1 })],
    ['bulkheadMap with a limiter', () => bulkheadMap(ask, { limiter: createLimiter({ concurrency: 1 }) })],
    ['bulkheadMap by key', () => bulkheadMap(ask, { key: () => 1, perKey: 1 })],
    ['bulkheadMap, one per key', () => bulkheadMap(ask, { key: () => 1, perKey: 1 })],
    ['a cold stream', () => bulkheadMap(() => new Observable<string | undefined>((to) => from(ask()).subscribe(to)), { concurrency: 1 })],
  ])('is that of the sender of the item: %s', async (_, build) => {
    const source = new Subject<string>();
    const done: [string, unknown][] = [];
    const ended = new Promise<void>((resolve) => {
      source.pipe(build()).subscribe({
        next: (settled) => done.push([settled.input as string, settled.status === 'fulfilled' && settled.value]),
        complete: resolve,
      });
    });
    for (const name of ['ann', 'ben', 'cleo', 'dan']) {
      user.run(name, () => {
        source.next(name);
      });
    }
    source.complete();
    await ended;
    expect(done).toEqual(['ann', 'ben', 'cleo', 'dan'].map((name) => [name, name]));
  });

  it('is that of the sender, for an item sent in the middle of a result', async () => {
    const source = new Subject<string>();
    const done: [string, unknown][] = [];
    await new Promise<void>((resolve) => {
      source.pipe(bulkheadMap(ask, { concurrency: 1 })).subscribe((settled) => {
        done.push([settled.input, settled.status === 'fulfilled' && settled.value]);
        if (settled.input === 'ann')
          user.run('ben', () => {
            source.next('ben');
          });
        else resolve();
      });
      user.run('ann', () => {
        source.next('ann');
      });
    });
    expect(done).toEqual([
      ['ann', 'ann'],
      ['ben', 'ben'],
    ]);
  });
});

describe('an answer that its consumer takes and leaves', () => {
  it.each([
    ['bulkheadMap', bulkheadMap],
    ['bulkheadMap, values', (work: never) => bulkheadMap(work, values)],
    ['bulkheadMap, one per key', (work: never) => bulkheadMap(work, { key: () => 1, perKey: 1 })],
    ['bulkheadMap, values one per key', (work: never) => bulkheadMap(work, { key: () => 1, perKey: 1, ...values })],
    ['bulkheadMap in order, values', (work: never) => bulkheadMap(work, { ...values, order: inputOrder() })],
  ] as const)('has a signal that stays silent: %s', async (_, build) => {
    const signals: AbortSignal[] = [];
    const work = (_item: number, { signal }: { signal: AbortSignal }): Promise<string> => {
      signals.push(signal);
      return Promise.resolve('body');
    };
    const operator = build(work as never) as OperatorFunction<number, unknown>;
    await firstValueFrom(of(1).pipe(operator));
    expect(signals.map(({ aborted }) => aborted)).toEqual([false]);
  });

  it.each([
    ['a promise', () => Promise.reject(new Error('no'))],
    ['a stream', () => throwError(() => new Error('no'))],
  ])('nor has one that has failed, where the first error is the end: %s', async (_, fail) => {
    const signals: AbortSignal[] = [];
    const work = (item: number, { signal }: { signal: AbortSignal }): Promise<never> | Observable<never> => {
      signals.push(signal);
      return item === 1 ? fail() : NEVER;
    };
    await expect(firstValueFrom(of(2, 1).pipe(bulkheadMap(work, values)))).rejects.toThrow('no');
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, false]);
  });

  it('still aborts the others', async () => {
    const signals: AbortSignal[] = [];
    const work = (item: number, { signal }: { signal: AbortSignal }): Promise<number> => {
      signals.push(signal);
      return item === 1 ? Promise.resolve(1) : new Promise(() => undefined);
    };
    expect(await firstValueFrom(of(1, 2).pipe(bulkheadMap(work, values)))).toBe(1);
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, true]);
  });
});

describe('what waits without a `maxQueued`', () => {
  it.each(names)('has no bound, and is told of once it is long: %s', (name) => {
    const source = new Subject<number>();
    const long: FlowEvent[] = [];
    const onEvent = unstamped((event) => {
      if (event.type === 'queueLong') long.push(event);
    });
    const ends: unknown[] = [];
    const subscription = source
      .pipe(both[name](() => NEVER, { onEvent, concurrency: 1 }))
      .subscribe({ error: (error: unknown) => ends.push(error) });
    for (let item = 0; item < 20_000; item++) source.next(item);
    expect([ends, long]).toEqual([[], [{ type: 'queueLong', operator: 'bulkheadMap', lane: 'default', queued: 10_000 }]]);
    subscription.unsubscribe();
  });

  it.each([
    ['input', inputOrder()],
    ['perKey', orderPerKey(() => 1)],
  ])('starts no more once 1,000 results wait for one that is under way, and loses none: %s', (_, order) => {
    const first = new Subject<number>();
    let started = 0;
    const work = (item: number): Observable<number> => {
      started++;
      return item === 0 ? first : of(item);
    };
    const seen: number[] = [];
    from(Array.from({ length: 3000 }, (__, item) => item))
      .pipe(bulkheadMap(work, { order, concurrency: 10 }))
      .subscribe(({ index }) => seen.push(index));
    expect([started, seen]).toEqual([1001, []]);
    first.complete();
    expect(seen).toEqual(Array.from({ length: 3000 }, (__, item) => item));
  });

  it('starts the one that all the others wait for, though results are held back', () => {
    const seen: number[] = [];
    const source = new Subject<number>();
    const blocker = new Subject<number>();
    // Key 0 is full with item 0, whose result is out of the way; item 1 of that key is what the rest waits for.
    const work = (item: number): Observable<number> => (item === 0 ? blocker : of(item));
    source
      .pipe(bulkheadMap(work, { key: (item) => (item < 2 ? 0 : 1), perKey: 1, order: inputOrder() }))
      .subscribe(({ index }) => seen.push(index));
    for (let item = 0; item < 2000; item++) source.next(item);
    expect(seen).toEqual([]);
    blocker.complete();
    expect(seen).toHaveLength(2000);
  });
});

describe('a guard of settleAll', () => {
  it('that leaves keeps its call from being made', () => {
    const leave = new Subject<void>();
    const called: string[] = [];
    const guard = (): boolean => {
      leave.next();
      return true;
    };
    settleAll(['a', 'b'], (call) => called.push(call), { guard })
      .pipe(takeUntil(leave))
      .subscribe();
    expect(called).toEqual([]);
  });

  it('that answers later passes work whose teardown throws', async () => {
    const work = (call: string): Observable<string> =>
      new Observable((subscriber) => {
        subscriber.next(call);
        subscriber.complete();
        return broken;
      });
    const results = await firstValueFrom(settleAll(['a', 'b'], work, { guard: () => Promise.resolve(true), concurrency: 1 }));
    expect(results.map((result) => result.status === 'fulfilled' && result.value)).toEqual(['a', 'b']);
  });

  it('that answers later passes work that returns a plain value', async () => {
    const results = await firstValueFrom(settleAll(['a'], () => 'answer', { guard: () => Promise.resolve(true) }));
    expect(results).toMatchObject([{ status: 'fulfilled', value: 'answer' }]);
  });
});

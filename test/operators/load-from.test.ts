import { NEVER, Observable, of, Subject } from 'rxjs';
import { TestScheduler } from 'rxjs/testing';
import { describe, expect, it } from 'vitest';
import { createAccount, createBatcher, inputOrder, lanes, loadFrom, natural, type Settled } from '../../operators/index.js';

const doubled = (items: readonly number[]) => of(items.map((item) => item * 2));

async function all<T, R>(results: Observable<Settled<T, R>>): Promise<Settled<T, R>[]> {
  const list: Settled<T, R>[] = [];
  await results.forEach((result) => list.push(result));
  return list;
}

describe('loadFrom', () => {
  it('gives each item its own result, with its position', async () => {
    const results = await all(loadFrom(createBatcher(doubled, { maxSize: 3 }), [5, 6, 7, 8]));
    expect(results.map((result) => [result.index, result.id, result.input, result.status === 'fulfilled' && result.value])).toEqual([
      [0, '0', 5, 10],
      [1, '1', 6, 12],
      [2, '2', 7, 14],
      [3, '3', 8, 16],
    ]);
  });

  it('shares calls with what other callers load', async () => {
    const calls: (readonly number[])[] = [];
    const batcher = createBatcher((items: readonly number[]) => {
      calls.push(items);
      return doubled(items);
    });
    const one = batcher.loadAsync(1);
    expect(await all(loadFrom(batcher, [2, 3]))).toHaveLength(2);
    expect(await one).toBe(2);
    expect(calls).toEqual([[1, 2, 3]]);
  });

  it.each([
    ['a generator', (items: Iterable<number>) => items],
    [
      'an async generator',
      async function* pull(items: Iterable<number>) {
        yield* items;
      },
    ],
    [
      'a stream',
      (items: Iterable<number>) => {
        const numbers = items[Symbol.iterator]();
        return new ReadableStream<number>({
          pull: (to) => {
            to.enqueue(numbers.next().value as number);
          },
        });
      },
    ],
  ])('reads %s only as far as `concurrency` allows', async (_name, inputOf) => {
    let read = 0;
    function* numbers() {
      for (;;) yield read++;
    }
    const answers = new Subject<void>();
    const batcher = createBatcher(
      (items: readonly number[]) =>
        new Observable<number[]>((to) =>
          answers.subscribe(() => {
            to.next([...items]);
            to.complete();
          }),
        ),
      {
        maxSize: 2,
      },
    );
    const results: number[] = [];
    const subscription = loadFrom(batcher, inputOf(numbers()), { concurrency: 3 }).subscribe(({ index }) => results.push(index));
    await new Promise((later) => setTimeout(later, 150));
    // A stream may hold one of its own.
    expect(read).toBeGreaterThanOrEqual(3);
    expect(read).toBeLessThanOrEqual(4 + 1);
    expect(batcher.snapshot()).toMatchObject({ queued: 0, executing: 2 });
    answers.next();
    await new Promise((later) => setTimeout(later, 150));
    expect(results).toEqual([0, 1, 2]);
    expect(read).toBeLessThanOrEqual(7 + 1);
    subscription.unsubscribe();
    expect(batcher.snapshot()).toMatchObject({ queued: 0, executing: 0 });
  });

  it('reads only as far as `maxWeight` allows; a heavier item is loaded alone', () => {
    const read: number[] = [];
    function* weights() {
      for (const weight of [4, 4, 4, 50, 1]) {
        read.push(weight);
        yield weight;
      }
    }
    new TestScheduler(() => undefined).run(({ flush, cold }) => {
      const batcher = createBatcher((items: readonly number[]) => cold('---(a|)', { a: items }), { maxSize: 1, window: natural() });
      loadFrom(batcher, weights(), { maxWeight: 8, weigh: (weight) => weight }).subscribe();
      expect(read).toEqual([4, 4]);
      flush();
      expect(read).toEqual([4, 4, 4, 50, 1]);
    });
  });

  it('counts an item that cannot be weighed as 0, and lets the batcher reject it', async () => {
    const weigh = (item: number): number => {
      if (item === 2) throw new Error('no weight');
      return 1;
    };
    const results = await all(loadFrom(createBatcher(doubled, { weigh, order: inputOrder() }), [1, 2, 3], { weigh }));
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  });

  it('completes on an empty input', async () => {
    expect(await all(loadFrom(createBatcher(doubled), []))).toEqual([]);
  });

  it('rejects the next load of a closed batcher, and reads no more', async () => {
    const batcher = createBatcher(doubled);
    batcher.close();
    let read = 0;
    function* numbers() {
      for (;;) yield read++;
    }
    const [one, ...others] = await all(loadFrom(batcher, numbers()));
    expect(one).toMatchObject({ status: 'rejected', index: 0, reason: { code: 'FLOW_CLOSED', operator: 'createBatcher' } });
    expect([others, read]).toEqual([[], 1]);
  });

  it('errors with the error of the input, the same object', async () => {
    const error = new Error('broken');
    function* broken() {
      yield 1;
      throw error;
    }
    await expect(all(loadFrom(createBatcher(doubled), broken()))).rejects.toBe(error);
  });

  it('closes the input and leaves its loads on unsubscribe', async () => {
    let closed = false;
    let aborted = 0;
    function* numbers() {
      try {
        for (let i = 0; ; i++) yield i;
      } finally {
        closed = true;
      }
    }
    const batcher = createBatcher(
      (items: readonly number[], { signal }): Observable<number[]> => {
        signal.addEventListener('abort', () => aborted++);
        return items.includes(0) ? of([...items]) : NEVER;
      },
      { maxSize: 2, concurrency: 2 },
    );
    const results: number[] = [];
    const subscription = loadFrom(batcher, numbers(), { concurrency: 4 }).subscribe(({ index }) => results.push(index));
    await new Promise((later) => setTimeout(later, 150));
    expect([results, closed, aborted]).toEqual([[0, 1], false, 0]);
    subscription.unsubscribe();
    expect([closed, aborted]).toEqual([true, 2]);
    expect(batcher.snapshot()).toMatchObject({ queued: 0, executing: 0 });
  });

  it('reads 100,000 synchronous answers without recursion', async () => {
    const batcher = createBatcher(doubled, { maxSize: 1, window: natural() });
    let last = -1;
    await loadFrom(
      batcher,
      Array.from({ length: 100_000 }, (_, i) => i),
      { concurrency: 1 },
    ).forEach(({ index }) => (last = index));
    expect(last).toBe(99_999);
  });

  it('checks the options of its loads at once', () => {
    expect(() => loadFrom(createBatcher(doubled, { queue: lanes([{ name: 'only' }]) }), [1], { lane: 'nope' })).toThrow(/lane `nope`/);
  });
});

describe('createBatcher for functions built on it', () => {
  it('has their name in errors and events', async () => {
    const names = new Set<string>();
    const batcher = createBatcher(doubled, { operator: 'createVectors', onEvent: (event) => names.add(event.operator) });
    expect(await batcher.loadAsync(1)).toBe(2);
    await batcher.drain();
    await expect(batcher.loadAsync(1)).rejects.toMatchObject({ code: 'FLOW_CLOSED', operator: 'createVectors' });
    expect([...names]).toEqual(['createVectors']);
    expect(() => createBatcher(doubled, { operator: 'createVectors', maxSize: 0 })).toThrow('createVectors: expected `maxSize`');
    expect(() => batcher.load(1, { lanes: 'x' } as never)).toThrow('createVectors: unknown option');
  });

  it('tells the limiter the model and the key of its calls', async () => {
    const limiter = createAccount({ models: [{ model: 'large', concurrency: 1 }] });
    const batcher = createBatcher(() => NEVER as Observable<number[]>, { limiter, job: { model: 'large', key: 'acme' }, maxSize: 1 });
    void batcher.loadAsync(1);
    void batcher.loadAsync(2);
    await new Promise((later) => setTimeout(later, 20));
    expect(limiter.snapshot()).toMatchObject({ executing: 1, models: [{ executing: 1 }] });
    batcher.close();
  });

  it('gives an item that was read its result when the weighing of it closes the batcher', async () => {
    const batcher = createBatcher<number, number>(() => NEVER, { maxSize: 1 });
    let read = 0;
    const numbers = (function* () {
      for (;;) yield read++;
    })();
    const weigh = (item: number) => {
      if (item === 1) batcher.close();
      return 1;
    };
    expect((await all(loadFrom(batcher, numbers, { weigh }))).map(({ index, status }) => [index, status])).toEqual([
      [0, 'rejected'],
      [1, 'rejected'],
    ]);
    expect(read).toBe(2);
  });

  it('reads on when the work fails with what something else says that is closed', async () => {
    const other = createAccount();
    other.close();
    const batcher = createBatcher((items: readonly number[]) => (items.includes(0) ? other.run(() => of([1])) : doubled(items)), {
      maxSize: 1,
    });
    const results = await all(loadFrom(batcher, [0, 1, 2], { concurrency: 1 }));
    expect(results.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'fulfilled']);
  });
});

import type { Observable } from 'rxjs';
import { of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { Batcher, BatcherOptions, BatcherSnapshot, Settled } from '../../operators/index.js';
import { createBatcher, lruCache } from '../../operators/index.js';

const lengths = (items: readonly string[]) => of(items.map((item) => item.length));

describe('createBatcher', () => {
  it('loads items and answers with values of the work', () => {
    const batcher = createBatcher(lengths);
    expectTypeOf(batcher).toEqualTypeOf<Batcher<string, number>>();
    expectTypeOf(batcher.load('a')).toEqualTypeOf<Observable<number>>();
    expectTypeOf(batcher.loadAsync('a')).toEqualTypeOf<Promise<number>>();
    expectTypeOf(batcher.loadSettled('a')).toEqualTypeOf<Observable<Settled<string, number>>>();
    expectTypeOf(batcher.snapshot()).toEqualTypeOf<BatcherSnapshot>();
    expectTypeOf(batcher.snapshot().heldBy).toEqualTypeOf<'slot' | 'rate' | 'window'>();
  });

  it('can be disposed of', () => {
    const dispose = async (): Promise<void> => {
      await using batcher = createBatcher(lengths);
      await batcher.loadAsync('a');
    };
    expectTypeOf(dispose).toEqualTypeOf<() => Promise<void>>();
    expectTypeOf(createBatcher(lengths)).toExtend<AsyncDisposable>();
  });

  it('infers the answer of an async work function', () => {
    const batcher = createBatcher(async (ids: readonly number[]) => Promise.resolve(ids.map((id) => ({ id }))));
    expectTypeOf(batcher.loadAsync(1)).toEqualTypeOf<Promise<{ id: number }>>();
  });

  it('tells dedupe the type of the item', () => {
    createBatcher(lengths, {
      dedupe: (item) => {
        expectTypeOf(item).toEqualTypeOf<string>();
        return item.toLowerCase();
      },
    });
  });

  it('loads many, clears and primes', () => {
    const batcher = createBatcher(lengths, { cache: lruCache(10, { ttlMs: 1000 }) });
    expectTypeOf(batcher.loadManyAsync(['a'], { lane: 'urgent' })).toEqualTypeOf<Promise<Settled<string, number>[]>>();
    expectTypeOf(batcher.clear('a').clearAll().prime('a', 1)).toEqualTypeOf<Batcher<string, number>>();
    expectTypeOf(batcher.snapshot().cached).toEqualTypeOf<number>();
  });

  it('refuses wrong items and options', () => {
    const batcher = createBatcher(lengths);
    // @ts-expect-error not an item
    void batcher.load(5);
    // @ts-expect-error not a lane's name
    void batcher.load('a', { lane: 0 });
    // @ts-expect-error not a signal
    void batcher.load('a', { signal: new AbortController() });
    // @ts-expect-error not an option of a load
    void batcher.load('a', { timeoutMs: 5 });
    // @ts-expect-error not an option of a cache
    lruCache(100, { ttl: 1000 });
    // @ts-expect-error a cache has a bound
    lruCache({ ttlMs: 1000 });
    // @ts-expect-error values of another type
    createBatcher(lengths, { cache: new Map<string, string>() });
    // @ts-expect-error values that have to be waited for
    createBatcher(lengths, { cache: new Map<string, Promise<number>>() });
    // @ts-expect-error cannot be cleared
    createBatcher(lengths, { cache: new WeakMap<object, number>() });
    // @ts-expect-error not a value of the work
    void batcher.prime('a', 'one');
    // @ts-expect-error not a list of items
    void batcher.loadManyAsync('ab');
    // @ts-expect-error there is no source
    createBatcher(lengths, { onSourceError: 'drain' });
  });

  it('has readonly options', () => {
    expectTypeOf<BatcherOptions<number>>().toEqualTypeOf<Readonly<BatcherOptions<number>>>();
  });
});

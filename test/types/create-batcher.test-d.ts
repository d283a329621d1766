import type { Observable } from 'rxjs';
import { of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { Batcher, BatcherOptions, BatcherSnapshot } from '../../operators/create-batcher.js';
import { createBatcher } from '../../operators/create-batcher.js';
import type { Settled } from '../../operators/support/types.js';

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
    // @ts-expect-error there is no cache
    createBatcher(lengths, { cache: { max: 100 } });
    // @ts-expect-error there is no source
    createBatcher(lengths, { onSourceError: 'drain' });
  });

  it('has readonly options', () => {
    expectTypeOf<BatcherOptions<number>>().toEqualTypeOf<Readonly<BatcherOptions<number>>>();
  });
});

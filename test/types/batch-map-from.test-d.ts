import type { Observable } from 'rxjs';
import { of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { BatchMapFromOptions, Settled } from '../../operators/index.js';
import { batchMapFrom, splitItem } from '../../operators/index.js';

const lengths = (items: readonly string[]) => of(items.map((item) => item.length));

async function* pages(): AsyncGenerator<string> {
  yield await Promise.resolve('page');
}

describe('batchMapFrom', () => {
  it('takes whatever can wait, and infers its items', () => {
    expectTypeOf(batchMapFrom(['a', 'b'], lengths)).toEqualTypeOf<Observable<Settled<string, number>>>();
    expectTypeOf(batchMapFrom(new Set(['a']), lengths)).toEqualTypeOf<Observable<Settled<string, number>>>();
    expectTypeOf(batchMapFrom('text', lengths)).toEqualTypeOf<Observable<Settled<string, number>>>();
    expectTypeOf(batchMapFrom(pages(), lengths)).toEqualTypeOf<Observable<Settled<string, number>>>();
    expectTypeOf(batchMapFrom(new ReadableStream<string>(), lengths)).toEqualTypeOf<Observable<Settled<string, number>>>();
  });

  it('tells the work the type of the items', () => {
    void batchMapFrom([{ id: 1 }], (items) => {
      expectTypeOf(items).toEqualTypeOf<readonly { id: number }[]>();
      return of(items.map(({ id }) => id));
    });
  });

  it('refuses what cannot wait and what has no place', () => {
    // @ts-expect-error an Observable pushes
    void batchMapFrom(of('a'), lengths);
    // @ts-expect-error a promise is not an input
    void batchMapFrom(Promise.resolve(['a']), lengths);
    // @ts-expect-error nothing overflows
    void batchMapFrom(['a'], lengths, { overflow: 'dropOldest' });
    // @ts-expect-error not a way to fail
    void batchMapFrom(['a'], lengths, { onSourceError: 'ignore' });
    const joined = splitItem(
      (text: string) => Array.from(text),
      () => 'three',
    );
    // @ts-expect-error results of another kind are joined
    void batchMapFrom(['a'], lengths, { oversize: joined });
    // @ts-expect-error work for other items
    void batchMapFrom([1, 2], lengths);
  });

  it('has readonly options', () => {
    expectTypeOf<BatchMapFromOptions<number>>().toEqualTypeOf<Readonly<BatchMapFromOptions<number>>>();
  });
});

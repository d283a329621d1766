import type { Observable } from 'rxjs';
import { mergeMap, of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { DivideRetryOptions, Settled } from '../../operators/index.js';
import { batchMap, divideAndConquer, divideRetry, retryFailed } from '../../operators/index.js';

const lengths = (items: readonly string[]) => of(items.map((item) => item.length));

describe('divideRetry', () => {
  it('makes a list of settled results of a list of items', () => {
    const divide = divideRetry(lengths);
    expectTypeOf(divide(['a'])).toEqualTypeOf<Observable<Settled<string, number>[]>>();
    expectTypeOf(divide(['a'], { signal: new AbortController().signal })).toEqualTypeOf<Observable<Settled<string, number>[]>>();
    // @ts-expect-error items of another type
    void divide([1]);
    // @ts-expect-error a signal, not a controller
    void divide(['a'], { signal: new AbortController() });
  });

  it('is a projection for mergeMap and work for batchMap', () => {
    expectTypeOf(of(['a']).pipe(mergeMap(divideRetry(lengths)))).toEqualTypeOf<Observable<Settled<string, number>[]>>();
    expectTypeOf(of('a').pipe(batchMap<string, number>(divideRetry(lengths)))).toEqualTypeOf<Observable<Settled<string, number>>>();
  });

  it('infers items for its callbacks', () => {
    divideRetry(lengths, {
      id: (item) => {
        expectTypeOf(item).toEqualTypeOf<string>();
        return item;
      },
      weigh: (item) => item.length,
    });
  });

  it('takes one repair or a list', () => {
    divideRetry(lengths, { repair: divideAndConquer({ factor: 2 }) });
    divideRetry(lengths, { repair: [retryFailed(), divideAndConquer()] });
  });

  it('refuses options that have no place here', () => {
    // @ts-expect-error the batch is what was given
    divideRetry(lengths, { maxSize: 4 });
    // @ts-expect-error one lane for all calls
    divideRetry(lengths, { lane: (item: string) => item });
    // @ts-expect-error not a repair
    divideRetry(lengths, { repair: 'divide' });
    // @ts-expect-error a number, not an Observable
    divideRetry(lengths, { concurrency: of(4) });
  });

  it('has readonly options', () => {
    expectTypeOf<DivideRetryOptions<number>>().toEqualTypeOf<Readonly<DivideRetryOptions<number>>>();
  });
});

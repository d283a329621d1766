import { of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { ObservableIterable, ToAsyncIterableOptions } from '../../operators/index.js';
import { toAsyncIterable } from '../../operators/index.js';
import type { ObservableIterator } from '../../operators/to-async-iterable.js';

describe('toAsyncIterable', () => {
  it('reads what the source emits', async () => {
    expectTypeOf(toAsyncIterable(of(1, 2))).toEqualTypeOf<ObservableIterable<number>>();
    for await (const value of toAsyncIterable(of('a', 1))) expectTypeOf(value).toEqualTypeOf<string | number>();
  });

  it('is taken where an AsyncIterable is', () => {
    expectTypeOf(toAsyncIterable(of(1))).toExtend<AsyncIterable<number>>();
    expectTypeOf(toAsyncIterable(of(1))[Symbol.asyncIterator]()).toEqualTypeOf<ObservableIterator<number>>();
    expectTypeOf<ObservableIterator<number>>().toExtend<AsyncIterableIterator<number>>();
    expectTypeOf<ObservableIterator<number>>().toExtend<AsyncDisposable>();
  });

  it('refuses wrong arguments', () => {
    // @ts-expect-error not an Observable
    toAsyncIterable('text');
    // @ts-expect-error not a policy
    toAsyncIterable(of(1), { overflow: 'dropLowest' });
    // @ts-expect-error not an option
    toAsyncIterable(of(1), { highWaterMark: 3 });
    // @ts-expect-error not a signal
    toAsyncIterable(of(1), { signal: new AbortController() });
  });

  it('has readonly options', () => {
    expectTypeOf<ToAsyncIterableOptions>().toEqualTypeOf<Readonly<ToAsyncIterableOptions>>();
  });
});

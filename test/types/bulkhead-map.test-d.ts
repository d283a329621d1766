import type { Observable, OperatorFunction } from 'rxjs';
import { from, of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { BulkheadMapOptions, ItemContext, Settled } from '../../operators/index.js';
import { bulkheadMap, createLimiter, inputOrder, orderPerKey, toAsyncIterable } from '../../operators/index.js';

const length = (text: string): Promise<number> => Promise.resolve(text.length);

describe('bulkheadMap', () => {
  it('settles every item when nothing is said', () => {
    expectTypeOf(of('a').pipe(bulkheadMap(length))).toEqualTypeOf<Observable<Settled<string, number>>>();
    expectTypeOf(of('a').pipe(bulkheadMap(length, { concurrency: 2 }))).toEqualTypeOf<Observable<Settled<string, number>>>();
    expectTypeOf(of('a').pipe(bulkheadMap(length, { key: String, perKey: 1, stopKey: true }))).toEqualTypeOf<
      Observable<Settled<string, number>>
    >();
    expectTypeOf(of('a').pipe(bulkheadMap(length, { errors: 'settle' }))).toEqualTypeOf<Observable<Settled<string, number>>>();
    expectTypeOf(bulkheadMap(length)).toEqualTypeOf<OperatorFunction<string, Settled<string, number>>>();
  });

  it("hands on values with errors 'propagate'", () => {
    expectTypeOf(of('a').pipe(bulkheadMap(length, { errors: 'propagate' }))).toEqualTypeOf<Observable<number>>();
    expectTypeOf(of('a').pipe(bulkheadMap((text) => of(text, 1), { errors: 'propagate' }))).toEqualTypeOf<Observable<string | number>>();
    expectTypeOf(of('a').pipe(bulkheadMap((text) => [text], { errors: 'propagate' }))).toEqualTypeOf<Observable<string>>();
  });

  it('takes what comes later, and anything else as the value itself', () => {
    expectTypeOf(of('a').pipe(bulkheadMap((text) => text.length))).toEqualTypeOf<Observable<Settled<string, number>>>();
    expectTypeOf(of('a').pipe(bulkheadMap((text) => [text]))).toEqualTypeOf<Observable<Settled<string, string[]>>>();
    expectTypeOf(of('a').pipe(bulkheadMap((text) => text))).toEqualTypeOf<Observable<Settled<string, string>>>();
    expectTypeOf(of('a').pipe(bulkheadMap(() => undefined))).toEqualTypeOf<Observable<Settled<string, undefined>>>();
    expectTypeOf(of('a').pipe(bulkheadMap((text) => of(text)))).toEqualTypeOf<Observable<Settled<string, string>>>();
    const words = (): AsyncIterable<string> => toAsyncIterable(of('a'));
    expectTypeOf(of('a').pipe(bulkheadMap(words))).toEqualTypeOf<Observable<Settled<string, string>>>();
    const either = (text: string): Promise<number> | number => text.length;
    expectTypeOf(of('a').pipe(bulkheadMap(either))).toEqualTypeOf<Observable<Settled<string, number>>>();
  });

  it('tells project and callbacks the type of the item', () => {
    const run = from([{ tool: 'search', rank: 1 }]).pipe(
      bulkheadMap(
        (item, context) => {
          expectTypeOf(item).toEqualTypeOf<{ tool: string; rank: number }>();
          expectTypeOf(context).toEqualTypeOf<ItemContext>();
          return of(item.tool);
        },
        {
          key: (item) => {
            expectTypeOf(item).toEqualTypeOf<{ tool: string; rank: number }>();
            return item.tool;
          },
          order: orderPerKey((item) => {
            expectTypeOf(item).toEqualTypeOf<{ tool: string; rank: number }>();
            return item.tool;
          }),
        },
      ),
    );
    expectTypeOf(run).toEqualTypeOf<Observable<Settled<{ tool: string; rank: number }, string>>>();
  });

  it('takes every shape of perKey, concurrency and limiter', () => {
    bulkheadMap(length, { key: (text) => text, perKey: 2 });
    bulkheadMap(length, { key: (text) => text, perKey: { search: 5 } });
    bulkheadMap(length, { key: (text) => text, perKey: (key) => (key === 'search' ? 5 : 1) });
    bulkheadMap(length, { key: (text) => text, perKey: 1, stopKey: true });
    bulkheadMap(length, { concurrency: of(1, 2) });
    bulkheadMap(length, { limiter: createLimiter() });
    bulkheadMap(length, { order: inputOrder(), deadlineMs: 5, name: 'lengths' });
  });

  it('refuses wrong options', () => {
    // @ts-expect-error not a policy
    bulkheadMap(length, { overflow: 'block' });
    // @ts-expect-error not an order
    bulkheadMap(length, { order: 'input' });
    // @ts-expect-error nothing is less urgent
    bulkheadMap(length, { overflow: 'dropLowest' });
    // @ts-expect-error not an option
    bulkheadMap(length, { maxItems: 3 });
    // @ts-expect-error a limit is a number
    bulkheadMap(length, { key: (text) => text, perKey: { search: '5' } });
    // @ts-expect-error one or the other: the result has one type
    bulkheadMap(length, { errors: 'settle' as 'settle' | 'propagate' });
    // @ts-expect-error nothing to hand on
    bulkheadMap((text: string) => text.length, { errors: 'propagate' });
  });

  it('has readonly options', () => {
    expectTypeOf<BulkheadMapOptions<number>>().toEqualTypeOf<Readonly<BulkheadMapOptions<number>>>();
  });
});

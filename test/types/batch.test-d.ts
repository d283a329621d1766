import type { Observable, OperatorFunction } from 'rxjs';
import { of, Subject } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { BatchOptions } from '../../operators/index.js';
import { batch } from '../../operators/index.js';

describe('batch', () => {
  it('makes arrays of what the source emits', () => {
    expectTypeOf(of(1, 2).pipe(batch())).toEqualTypeOf<Observable<number[]>>();
    expectTypeOf(of('a', 1).pipe(batch({ maxSize: 2 }))).toEqualTypeOf<Observable<(string | number)[]>>();
    expectTypeOf(batch<Date>()).toEqualTypeOf<OperatorFunction<Date, Date[]>>();
  });

  it('tells callbacks the type of the item', () => {
    const weighed = of({ tokens: 5 }).pipe(
      batch({
        weigh: (item) => {
          expectTypeOf(item).toEqualTypeOf<{ tokens: number }>();
          return item.tokens;
        },
        closeWhen: (item, state) => {
          expectTypeOf(item).toEqualTypeOf<{ tokens: number }>();
          expectTypeOf(state.items).toEqualTypeOf<readonly { tokens: number }[]>();
          return state.weight > 10 && 'before';
        },
      }),
    );
    expectTypeOf(weighed).toEqualTypeOf<Observable<{ tokens: number }[]>>();
  });

  it('takes any input as a flush', () => {
    batch({ flush: new Subject<void>() });
    batch({ flush: Promise.resolve('now') });
    batch({ flush: [1, 2] });
  });

  it('refuses wrong options', () => {
    // @ts-expect-error a weight is a number
    batch<string>({ weigh: (text) => text });
    // @ts-expect-error not an answer of closeWhen
    batch({ closeWhen: () => 'now' });
    // @ts-expect-error not an option
    batch({ maxItems: 3 });
  });

  it('has readonly options', () => {
    expectTypeOf<BatchOptions<number>>().toEqualTypeOf<Readonly<BatchOptions<number>>>();
  });
});

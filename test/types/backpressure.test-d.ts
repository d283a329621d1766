import type { MonoTypeOperatorFunction, Observable } from 'rxjs';
import { BehaviorSubject, NEVER, of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { BackpressureOptions } from '../../operators/index.js';
import { backpressure } from '../../operators/index.js';

describe('backpressure', () => {
  it('keeps the type of the items', () => {
    expectTypeOf(of(1, 2).pipe(backpressure({ ready: NEVER }))).toEqualTypeOf<Observable<number>>();
    expectTypeOf(backpressure<Date>({ ready: NEVER })).toEqualTypeOf<MonoTypeOperatorFunction<Date>>();
  });

  it('tells callbacks the type of the item', () => {
    const kept = of({ tokens: 5 }).pipe(
      backpressure({
        ready: of(true),
        overflow: 'dropOldest',
        weigh: (item) => {
          expectTypeOf(item).toEqualTypeOf<{ tokens: number }>();
          return item.tokens;
        },
        onDrop: (item, policy) => {
          expectTypeOf(item).toEqualTypeOf<{ tokens: number }>();
          expectTypeOf(policy).toEqualTypeOf<'dropOldest' | 'dropNewest' | 'latest' | 'oversize'>();
        },
      }),
    );
    expectTypeOf(kept).toEqualTypeOf<Observable<{ tokens: number }>>();
  });

  it('takes any input of booleans as ready', () => {
    backpressure({ ready: new BehaviorSubject(true) });
    backpressure({ ready: Promise.resolve(true) });
    backpressure({ ready: [true] });
  });

  it('refuses wrong options', () => {
    // @ts-expect-error ready is needed
    backpressure({});
    // @ts-expect-error a level is a boolean
    backpressure({ ready: of(1) });
    // @ts-expect-error there are no lanes
    backpressure({ ready: NEVER, overflow: 'dropLowest' });
    // @ts-expect-error there are no lanes, whenever it is asked
    backpressure({ ready: NEVER, overflow: () => 'dropLowest' as const });
    // @ts-expect-error its marks are parts of it
    backpressure({ ready: NEVER, maxQueued: () => 5 });
    backpressure({ ready: NEVER, overflow: () => (Math.random() < 0.5 ? 'error' : 'dropOldest') });
    // @ts-expect-error a push source cannot be blocked
    backpressure({ ready: NEVER, overflow: 'block' });
    // @ts-expect-error not an option
    backpressure({ ready: NEVER, capacity: 3 });
  });

  it('has readonly options', () => {
    expectTypeOf<BackpressureOptions<number>>().toEqualTypeOf<Readonly<BackpressureOptions<number>>>();
  });
});

import type { MonoTypeOperatorFunction, Observable } from 'rxjs';
import { animationFrameScheduler, of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { CoalesceOptions } from '../../operators/index.js';
import { coalesce } from '../../operators/index.js';

const join = (first: string, next: string): string => first + next;

describe('coalesce', () => {
  it('emits what the source emits', () => {
    expectTypeOf(of('a', 'b').pipe(coalesce({ merge: join }))).toEqualTypeOf<Observable<string>>();
    expectTypeOf(coalesce({ merge: join })).toEqualTypeOf<MonoTypeOperatorFunction<string>>();
  });

  it('tells callbacks the type of the item', () => {
    const merged = of({ id: 1, delta: 'a' }).pipe(
      coalesce({
        merge: (first, next) => {
          expectTypeOf(first).toEqualTypeOf<{ id: number; delta: string }>();
          return { id: next.id, delta: first.delta + next.delta };
        },
        compatible: (pending, next) => pending.id === next.id,
        passThrough: ({ id }) => id === 0,
        scheduler: animationFrameScheduler,
      }),
    );
    expectTypeOf(merged).toEqualTypeOf<Observable<{ id: number; delta: string }>>();
  });

  it('refuses wrong options', () => {
    // @ts-expect-error merge is required
    coalesce({});
    // @ts-expect-error merge is required
    coalesce();
    // @ts-expect-error a merged item is an item
    coalesce<string>({ merge: (first, next) => first.length + next.length });
    // @ts-expect-error not a pace
    coalesce<string>({ merge: join, pace: 'idle' });
    // @ts-expect-error not an option
    coalesce<string>({ merge: join, maxItems: 3 });
  });

  it('has readonly options', () => {
    expectTypeOf<CoalesceOptions<number>>().toEqualTypeOf<Readonly<CoalesceOptions<number>>>();
  });
});

import type { MonoTypeOperatorFunction, Observable } from 'rxjs';
import { of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { RateLimitOptions } from '../../operators/index.js';
import { createLimiter, rateLimit } from '../../operators/index.js';

const limiter = createLimiter();

describe('rateLimit', () => {
  it('keeps the type of the items', () => {
    expectTypeOf(of(1, 2).pipe(rateLimit(limiter))).toEqualTypeOf<Observable<number>>();
    expectTypeOf(of('a').pipe(rateLimit(limiter, { requests: 1, tokens: 500 }))).toEqualTypeOf<Observable<string>>();
    expectTypeOf(rateLimit<Date>(limiter)).toEqualTypeOf<MonoTypeOperatorFunction<Date>>();
  });

  it('tells callbacks the type of the item', () => {
    const kept = of({ tokens: 5 }).pipe(
      rateLimit(
        limiter,
        (item) => {
          expectTypeOf(item).toEqualTypeOf<{ tokens: number }>();
          return { tokens: item.tokens };
        },
        {
          overflow: 'dropOldest',
          onDrop: (item, policy) => {
            expectTypeOf(item).toEqualTypeOf<{ tokens: number }>();
            expectTypeOf(policy).toEqualTypeOf<'dropOldest' | 'dropNewest' | 'latest'>();
          },
        },
      ),
    );
    expectTypeOf(kept).toEqualTypeOf<Observable<{ tokens: number }>>();
  });

  it('refuses what is wrong', () => {
    // @ts-expect-error the limiter is needed
    rateLimit();
    // @ts-expect-error options of a limiter are no limiter
    rateLimit({ requestsPerMinute: 60 });
    // @ts-expect-error a cost says of what
    rateLimit(limiter, () => 5);
    // @ts-expect-error items of a stream are not told apart by lanes
    rateLimit(limiter, {}, { overflow: 'dropLowest' });
    // @ts-expect-error one lane for all
    rateLimit(limiter, {}, { lane: () => 'urgent' });
    // @ts-expect-error the clock is the limiter's
    rateLimit(limiter, {}, { scheduler: undefined });
  });

  it('has readonly options', () => {
    expectTypeOf<RateLimitOptions<number>>().toEqualTypeOf<Readonly<RateLimitOptions<number>>>();
  });
});

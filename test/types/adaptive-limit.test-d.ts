import type { Subscription } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { AdaptiveLimitOptions, LimitRule, LimitSample, LimitState } from '../../operators/index.js';
import { adaptiveLimit, createLimiter } from '../../operators/index.js';

const limiter = createLimiter();

describe('adaptiveLimit', () => {
  it('answers a subscription', () => {
    expectTypeOf(adaptiveLimit(limiter)).toEqualTypeOf<Subscription>();
    expectTypeOf(adaptiveLimit).parameter(1).toEqualTypeOf<AdaptiveLimitOptions | undefined>();
  });

  it('tells a rule of your own what it knows', () => {
    adaptiveLimit(limiter, {
      algorithm: (sample, state) => {
        expectTypeOf(sample).toEqualTypeOf<LimitSample>();
        expectTypeOf(sample.outcome).toEqualTypeOf<'ok' | 'dropped'>();
        expectTypeOf(state).toEqualTypeOf<LimitState>();
        return state.limit;
      },
    });
    expectTypeOf<LimitRule>().returns.toEqualTypeOf<number>();
  });

  it('refuses what is wrong', () => {
    // @ts-expect-error the limiter is needed
    adaptiveLimit();
    // @ts-expect-error options of a limiter are no limiter
    adaptiveLimit({ concurrency: 4 });
    // @ts-expect-error not an algorithm
    adaptiveLimit(limiter, { algorithm: 'vegas' });
    // @ts-expect-error cancelled work says nothing
    adaptiveLimit(limiter, { dropOn: ['cancelled'] });
    // @ts-expect-error a rule answers a number
    adaptiveLimit(limiter, { algorithm: () => undefined });
    // @ts-expect-error not an option: the limiter has events
    adaptiveLimit(limiter, { onEvent: () => undefined });
  });

  it('has readonly options', () => {
    expectTypeOf<AdaptiveLimitOptions>().toEqualTypeOf<Readonly<AdaptiveLimitOptions>>();
  });
});

import type { Subscription } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { AdaptiveLimitOptions } from '../../operators/index.js';
import { adaptiveLimit, createLimiter } from '../../operators/index.js';

const limiter = createLimiter();

describe('adaptiveLimit', () => {
  it('answers a subscription', () => {
    expectTypeOf(adaptiveLimit(limiter)).toEqualTypeOf<Subscription>();
    expectTypeOf(adaptiveLimit).parameter(1).toEqualTypeOf<AdaptiveLimitOptions | undefined>();
  });

  it('refuses what is wrong', () => {
    // @ts-expect-error the limiter is needed
    adaptiveLimit();
    // @ts-expect-error options of a limiter are no limiter
    adaptiveLimit({ concurrency: 4 });
    // @ts-expect-error not an option: the limiter has events
    adaptiveLimit(limiter, { onEvent: () => undefined });
  });

  it('has readonly options', () => {
    expectTypeOf<AdaptiveLimitOptions>().toEqualTypeOf<Readonly<AdaptiveLimitOptions>>();
  });
});

import type { Observable } from 'rxjs';
import { of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { HedgeOptions, Lease } from '../../operators/index.js';
import { createLimiter, hedge } from '../../operators/index.js';

describe('hedge', () => {
  it('makes what the attempts make', () => {
    expectTypeOf(hedge(() => of(1))).toEqualTypeOf<Observable<number>>();
    expectTypeOf(hedge(() => Promise.resolve('answer'))).toEqualTypeOf<Observable<string>>();
  });

  it('tells an attempt its number, its signal and its lease', () => {
    void hedge((attempt, { signal, lease }) => {
      expectTypeOf(attempt).toEqualTypeOf<number>();
      expectTypeOf(signal).toEqualTypeOf<AbortSignal>();
      expectTypeOf(lease).toEqualTypeOf<Lease | undefined>();
      return of(attempt);
    });
  });

  it('takes its options', () => {
    void hedge(() => of(1), {
      delayMs: () => 50,
      maxShare: 0.2,
      maxAttempts: 3,
      limiter: createLimiter(),
      job: { lane: 'p0' },
    });
    // @ts-expect-error a delay is a number
    void hedge(() => of(1), { delayMs: '50' });
    // @ts-expect-error not an option
    void hedge(() => of(1), { max: 1 });
  });

  it('has readonly options', () => {
    expectTypeOf<HedgeOptions>().toEqualTypeOf<Readonly<HedgeOptions>>();
  });
});

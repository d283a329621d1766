import type { Observable } from 'rxjs';
import { of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { Policy, PolicyOptions } from '../../operators/index.js';
import { createBreaker, createLimiter, hedge, policy, retryFailed } from '../../operators/index.js';
import type { FallbackContext, PolicyContext } from '../../operators/shell/policy/policy-rules.js';

describe('policy', () => {
  it('makes what the work makes', () => {
    const careful = policy();
    expectTypeOf(careful).toEqualTypeOf<Policy>();
    expectTypeOf(careful(() => of(1))).toEqualTypeOf<Observable<number>>();
    expectTypeOf(careful(() => Promise.resolve('answer'))).toEqualTypeOf<Observable<string>>();
  });

  it('or what the fallback makes', () => {
    const careful = policy({ fallback: () => of('none') });
    expectTypeOf(careful).toEqualTypeOf<Policy<string>>();
    expectTypeOf(careful(() => of(1))).toEqualTypeOf<Observable<number | string>>();
    const refusing = policy({
      fallback: (error) => {
        throw error;
      },
    });
    expectTypeOf(refusing(() => of(1))).toEqualTypeOf<Observable<number>>();
  });

  it('tells work and fallback what they need', () => {
    void policy({
      fallback: (error, context) => {
        expectTypeOf(error).toEqualTypeOf<unknown>();
        expectTypeOf(context).toEqualTypeOf<FallbackContext>();
        return of(context.attempts);
      },
    })((context) => {
      expectTypeOf(context).toEqualTypeOf<PolicyContext>();
      return of(context.attempt);
    });
  });

  it('takes what work returns for its value, unless it comes later', () => {
    const careful = policy();
    expectTypeOf(careful(() => 1)).toEqualTypeOf<Observable<number>>();
    expectTypeOf(careful(() => ['a'])).toEqualTypeOf<Observable<string[]>>();
    expectTypeOf(careful(() => undefined)).toEqualTypeOf<Observable<undefined>>();
    expectTypeOf(careful(() => Promise.resolve('a'))).toEqualTypeOf<Observable<string>>();
    expectTypeOf(careful(() => of('a'))).toEqualTypeOf<Observable<string>>();
    expectTypeOf(createBreaker().run(() => of(1))).toEqualTypeOf<Observable<number>>();
    expectTypeOf(createBreaker().runAsync(() => ['a'])).toEqualTypeOf<Promise<string[]>>();
    expectTypeOf(hedge(() => 'a')).toEqualTypeOf<Observable<string>>();
    expectTypeOf(hedge(() => Promise.resolve(1))).toEqualTypeOf<Observable<number>>();
    expectTypeOf(policy({ fallback: () => 'none' })(() => 1)).toEqualTypeOf<Observable<number | string>>();
  });

  it('takes its options, and those of a call', () => {
    const limiter = createLimiter();
    const careful = policy({
      limiter,
      breaker: createBreaker(),
      job: { lane: 'p0' },
      retry: retryFailed({ jitter: 'none' }),
      deadlineMs: 5000,
    });
    void careful(() => of(1), { signal: new AbortController().signal, job: { cost: { tokens: 5 } }, idempotent: false });
    void policy({ timeoutMs: 5 });
    // @ts-expect-error not a value of ours
    void policy({ retry: { maxAttempts: 3 } });
    // @ts-expect-error a number of ms
    void policy({ deadlineMs: '5s' });
    // @ts-expect-error not an option
    void policy({ attemptTimeoutMs: 5 });
    // @ts-expect-error a breaker is made by createBreaker
    void policy({ breaker: {} });
  });

  it('has readonly options', () => {
    expectTypeOf<PolicyOptions>().toEqualTypeOf<Readonly<PolicyOptions>>();
  });
});

import type { Observable } from 'rxjs';
import { of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { Breaker, BreakerOptions, BreakerSnapshot } from '../../operators/index.js';
import { createBreaker } from '../../operators/index.js';
import type { BreakerState, CircuitState } from '../../operators/kernel/limits/circuit.js';

describe('createBreaker', () => {
  it('makes what the work makes', () => {
    const breaker = createBreaker();
    expectTypeOf(breaker).toEqualTypeOf<Breaker>();
    expectTypeOf(breaker.run(() => of(1))).toEqualTypeOf<Observable<number>>();
    expectTypeOf(breaker.run(() => Promise.resolve('answer'))).toEqualTypeOf<Observable<string>>();
    expectTypeOf(breaker.runAsync(() => of(1))).toEqualTypeOf<Promise<number>>();
    expectTypeOf(breaker.state).toEqualTypeOf<CircuitState>();
    expectTypeOf(breaker.snapshot()).toEqualTypeOf<BreakerSnapshot>();
  });

  it('tells the work its signal', () => {
    void createBreaker().run(({ signal }) => {
      expectTypeOf(signal).toEqualTypeOf<AbortSignal>();
      return of(signal.aborted);
    });
  });

  it('takes its options', () => {
    const opens = { share: 0.2, minCalls: 20, windowMs: 1000 };
    const breaker = createBreaker({ opens, closes: { probes: 5, share: 0.6 } });
    expectTypeOf(breaker.save()).toEqualTypeOf<BreakerState>();
    void createBreaker({ opens: { inARow: 5 }, restore: breaker.save() });
    // @ts-expect-error not a rule that opens
    void createBreaker({ opens: { probes: 5 } });
    // @ts-expect-error a number of ms
    void createBreaker({ openMs: '5s' });
    // @ts-expect-error not an option
    void createBreaker({ threshold: 5 });
  });

  it('has readonly options', () => {
    expectTypeOf<BreakerOptions>().toEqualTypeOf<Readonly<BreakerOptions>>();
  });
});

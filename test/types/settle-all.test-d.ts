import type { Observable } from 'rxjs';
import { mergeAll, of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { ItemContext, SettleAllOptions, Settled } from '../../operators/index.js';
import { createLimiter, settleAll, unwrap } from '../../operators/index.js';

describe('settleAll', () => {
  it('makes a list of results that know their call', () => {
    expectTypeOf(settleAll(['a'], (call) => of(call.length))).toEqualTypeOf<Observable<Settled<string, number>[]>>();
    expectTypeOf(settleAll([1, 2] as const, (call) => Promise.resolve(call))).toEqualTypeOf<Observable<Settled<1 | 2, 1 | 2>[]>>();
  });

  it('calls functions as well, of different kinds', () => {
    const calls = [() => of(1), () => of(2)];
    expectTypeOf(settleAll(calls).pipe(mergeAll(), unwrap('all'))).toEqualTypeOf<Observable<number[]>>();
    const mixed = settleAll([() => of(1), () => Promise.resolve('two')], { errors: 'propagate' });
    expectTypeOf(mixed.pipe(mergeAll(), unwrap('all'))).toEqualTypeOf<Observable<(number | string)[]>>();
    void settleAll(
      [
        (context) => {
          expectTypeOf(context).toEqualTypeOf<ItemContext>();
          return of(1);
        },
      ],
      { guard: (call) => call.length === 1 },
    );
  });

  it('takes calls that answer at once', () => {
    expectTypeOf(settleAll(['a'], (call) => call.length)).toEqualTypeOf<Observable<Settled<string, number>[]>>();
    const mixed = settleAll([() => 1, () => ['two'], () => Promise.resolve(true)], { errors: 'propagate' });
    expectTypeOf(mixed.pipe(mergeAll(), unwrap('all'))).toEqualTypeOf<Observable<(number | boolean | string[])[]>>();
  });

  it('tells project and guard their call', () => {
    void settleAll(
      [{ tool: 'read' }],
      (call, context) => {
        expectTypeOf(call).toEqualTypeOf<{ tool: string }>();
        expectTypeOf(context).toEqualTypeOf<ItemContext>();
        return of(1);
      },
      { guard: ({ tool }) => (tool === 'read' ? true : 'only reading') },
    );
    void settleAll([1], () => of(1), { guard: () => Promise.resolve(false) });
    void settleAll([1], () => of(1), { limiter: createLimiter(), timeoutMs: 5, deadlineMs: 50, name: 'tools' });
  });

  it('refuses wrong options', () => {
    // @ts-expect-error not one of the two
    void settleAll([1], () => of(1), { errors: 'race' });
    // @ts-expect-error a list has no queue to be full
    void settleAll([1], () => of(1), { maxQueued: 5 });
    // @ts-expect-error nothing says how to make these calls
    void settleAll(['a'], { errors: 'propagate' });
    // @ts-expect-error a number of ms
    void settleAll([1], () => of(1), { deadlineMs: '5' });
    // @ts-expect-error not an answer of a guard
    void settleAll([1], () => of(1), { guard: () => 5 });
  });

  it('has readonly options', () => {
    expectTypeOf<SettleAllOptions<number>>().toEqualTypeOf<Readonly<SettleAllOptions<number>>>();
  });
});

import type { AbstractAgent, BaseEvent, RunAgentInput } from '@ag-ui/client';
import type { AbstractAgent as AbstractAgent0, BaseEvent as BaseEvent0, RunAgentInput as RunAgentInput0 } from 'ag-ui-client0';
import type { Observable } from 'rxjs';
import { of } from 'rxjs';
import type { Observable as Observable5 } from 'rxjs5';
import type { Observable as Observable6 } from 'rxjs6';
import { describe, expectTypeOf, it } from 'vitest';
import { coalesce, switchLatest } from '../../operators/index.js';
import type { SubscribableLike } from '../../operators/interop.js';
import { fromSubscribable } from '../../operators/interop.js';

declare const agent: AbstractAgent;
declare const input: RunAgentInput;
declare const agent0: AbstractAgent0;
declare const input0: RunAgentInput0;

describe('fromSubscribable', () => {
  it('emits what a stream of a nested RxJS does', () => {
    const run$ = fromSubscribable((signal) => {
      signal.addEventListener('abort', () => {
        agent.abortRun();
      });
      return agent.run(input);
    });
    expectTypeOf(run$).toEqualTypeOf<Observable<BaseEvent>>();
    const merged = run$.pipe(coalesce({ merge: (_, next) => next, compatible: (one, next) => one.type === next.type }));
    expectTypeOf(of(input).pipe(switchLatest(() => merged))).toEqualTypeOf<Observable<BaseEvent>>();
    expectTypeOf(fromSubscribable(() => agent0.run(input0))).toEqualTypeOf<Observable<BaseEvent0>>();
  });

  it('emits what a stream of another version does', () => {
    expectTypeOf(fromSubscribable(() => null! as Observable5<number>)).toEqualTypeOf<Observable<number>>();
    expectTypeOf(fromSubscribable(() => null! as Observable6<'a' | 'b'>)).toEqualTypeOf<Observable<'a' | 'b'>>();
    expectTypeOf(fromSubscribable(() => of<{ id: 1 } | undefined>(undefined))).toEqualTypeOf<Observable<{ id: 1 } | undefined>>();
  });

  it('takes anything with subscribe(observer)', () => {
    const ticks = {
      subscribe(observer: { next(tick: number): void }) {
        observer.next(1);
        return { unsubscribe: () => undefined };
      },
    };
    expectTypeOf(fromSubscribable(() => ticks)).toEqualTypeOf<Observable<number>>();
    expectTypeOf(fromSubscribable<string>(() => null! as SubscribableLike<string>)).toEqualTypeOf<Observable<string>>();
  });

  it('refuses what cannot be subscribed to', () => {
    // @ts-expect-error no factory
    void fromSubscribable(of(1));
    // @ts-expect-error a promise has no subscribe
    void fromSubscribable(() => Promise.resolve(1));
    // @ts-expect-error the values are of another type
    void fromSubscribable<string>(() => of(1));
  });
});

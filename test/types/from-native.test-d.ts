import type { Observable } from 'rxjs';
import { of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { NativeObservable } from '../../operators/interop.js';
import { fromNative } from '../../operators/interop.js';

declare const numbers: NativeObservable<number>;
/** As the type packages write the platform's: the observer may be a function as well. */
declare const clicks: {
  subscribe(
    observer?:
      | ((value: MouseEvent) => void)
      | { next?: (value: MouseEvent) => void; error?: (error: unknown) => void; complete?: () => void },
    options?: { signal?: AbortSignal },
  ): void;
  map(project: (value: MouseEvent) => unknown): unknown;
};

describe('fromNative', () => {
  it('emits what the platform does', () => {
    expectTypeOf(fromNative(numbers)).toEqualTypeOf<Observable<number>>();
    expectTypeOf(fromNative<MouseEvent>(clicks)).toEqualTypeOf<Observable<MouseEvent>>();
  });

  it('takes anything with subscribe(observer, { signal })', () => {
    expectTypeOf(fromNative<string>({ subscribe: (observer) => observer?.next?.('a') })).toEqualTypeOf<Observable<string>>();
  });

  it('refuses what has no subscribe', () => {
    // @ts-expect-error an array is no Observable
    void fromNative([1]);
    // @ts-expect-error a promise is none
    void fromNative(Promise.resolve(1));
    // an Observable of RxJS fits the shape, and is refused at run time
    void fromNative(of(1));
  });
});

import { of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { NativeObservable, ToNativeOptions } from '../../operators/interop.js';
import { toNative } from '../../operators/interop.js';
import type { NativeObservableClass } from '../../operators/shell/streams/native.js';

declare const observableClass: NativeObservableClass;

describe('toNative', () => {
  it('hands on what the source emits', () => {
    const native = toNative(of(1, 2), { observableClass });
    expectTypeOf(native).toEqualTypeOf<NativeObservable<number>>();
    native.subscribe(
      {
        next: (value) => {
          expectTypeOf(value).toEqualTypeOf<number>();
        },
      },
      { signal: new AbortController().signal },
    );
  });

  it('refuses wrong arguments', () => {
    // @ts-expect-error not an Observable
    toNative('text');
    // @ts-expect-error an object is no class
    toNative(of(1), { observableClass: toNative(of(1)) });
    // @ts-expect-error not an option
    toNative(of(1), { Observable: observableClass });
  });

  it('has readonly options', () => {
    expectTypeOf<ToNativeOptions>().toEqualTypeOf<Readonly<ToNativeOptions>>();
  });
});

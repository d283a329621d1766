import { animationFrameScheduler, of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { Store, StoreStatus, ToStoreOptions } from '../../operators/index.js';
import { toStore } from '../../operators/index.js';

/** The signature of React's hook. */
declare function useSyncExternalStore<S>(subscribe: (onChange: () => void) => () => void, get: () => S, getOnServer?: () => S): S;

describe('toStore', () => {
  it('holds what the source emits, or the initial value', () => {
    expectTypeOf(toStore(of(1), 0)).toEqualTypeOf<Store<number>>();
    expectTypeOf(toStore(of('a'), undefined)).toEqualTypeOf<Store<string | undefined>>();
    expectTypeOf(toStore(of({ id: 1 }), null).getSnapshot()).toEqualTypeOf<{ id: number } | null>();
  });

  it('is taken by React', () => {
    const { subscribe, getSnapshot, getServerSnapshot } = toStore(of(1), 0);
    expectTypeOf(useSyncExternalStore<number>).toBeCallableWith(subscribe, getSnapshot, getServerSnapshot);
  });

  it('has a status, and parts that are stores', () => {
    const store = toStore(of({ id: 1 }), null);
    expectTypeOf(store.status).toEqualTypeOf<StoreStatus>();
    expectTypeOf(store.error).toBeUnknown();
    expectTypeOf(store.select((one) => one?.id)).toEqualTypeOf<Store<number | undefined>>();
    const equal = store.select(
      (one) => ({ ...one }),
      (one, other) => one.id === other.id,
    );
    expectTypeOf(equal).toEqualTypeOf<Store<{ id?: number }>>();
    // @ts-expect-error not a part
    void store.select('id');
  });

  it('refuses wrong arguments', () => {
    // @ts-expect-error a snapshot is there from the start
    void toStore(of(1));
    // @ts-expect-error not an Observable
    void toStore('text', 0);
    // @ts-expect-error not a pace
    void toStore(of(1), 0, { pace: 'sync' });
    // @ts-expect-error not an option
    void toStore(of(1), 0, { throttleMs: 10 });
    void toStore(of(1), 0, { scheduler: animationFrameScheduler });
  });

  it('has readonly options', () => {
    expectTypeOf<ToStoreOptions>().toEqualTypeOf<Readonly<ToStoreOptions>>();
    expectTypeOf<Store<number>>().toEqualTypeOf<Readonly<Store<number>>>();
  });
});

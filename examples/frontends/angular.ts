import type { Signal } from '@angular/core';
import { DestroyRef, inject, signal } from '@angular/core';
import type { Store } from '../../operators/index.js';

/** A signal of the snapshot. The store is listened to as long as the component (or injector) lives that calls it. */
export function fromStore<S>(store: Store<S>): Signal<S> {
  const snapshot = signal(store.getSnapshot());
  const show = () => {
    snapshot.set(store.getSnapshot());
  };
  inject(DestroyRef).onDestroy(store.subscribe(show));
  show();
  return snapshot.asReadonly();
}

import type { ShallowRef } from 'vue';
import { onScopeDispose, shallowRef } from 'vue';
import type { Store } from '../../operators/index.js';

/** A ref of the snapshot. The store is listened to as long as the component (or effect scope) lives that calls it. */
export function fromStore<S>(store: Store<S>): Readonly<ShallowRef<S>> {
  const snapshot = shallowRef(store.getSnapshot());
  const show = () => (snapshot.value = store.getSnapshot());
  onScopeDispose(store.subscribe(show));
  show();
  return snapshot;
}

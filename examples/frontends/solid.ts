import type { Accessor } from 'solid-js';
import { createSignal, onCleanup } from 'solid-js';
import type { Store } from '../../operators/index.js';

/** An accessor of the snapshot. The store is listened to as long as the component (or root) lives that calls it. */
export function fromStore<S>(store: Store<S>): Accessor<S> {
  const [snapshot, setSnapshot] = createSignal(store.getSnapshot());
  const show = () => setSnapshot(() => store.getSnapshot());
  onCleanup(store.subscribe(show));
  show();
  return snapshot;
}

import { createSubscriber } from 'svelte/reactivity';
import type { Store } from '../../operators/index.js';

/** `current` is the snapshot. The store is listened to while an effect or a template reads it. */
export function fromStore<S>(store: Store<S>): { readonly current: S } {
  const subscribe = createSubscriber((update) => store.subscribe(update));
  return {
    get current() {
      subscribe();
      return store.getSnapshot();
    },
  };
}

import { made, required } from './options/options.js';
import type { Store } from './shell/snapshot-store.js';

const NAME = 'partOf';

/**
 * A part of a store, as a store: its listeners are called when `of` makes something else of the snapshot, or the status changes. What is equal stays the
 * same object, so `of` may make a new one every time.
 *
 * @param store - Made by `toStore`, or anything with its methods.
 * @param of - Makes the part of a snapshot; must be pure. Where it throws, `getSnapshot` does.
 * @param isEqual - Whether two parts count as the same, and the older stays. @defaultValue `Object.is`
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when `store` is none, or `of` or `isEqual` no function.
 * @example
 * ```ts
 * import { Subject } from 'rxjs';
 * import { partOf, toStore } from 'sluice/operators';
 *
 * const people = new Subject<{ name: string; age: number }>();
 * const names = partOf(toStore(people, { name: '', age: 0 }), ({ name }) => name);
 * const drawn: string[] = [];
 * names.subscribe(() => drawn.push(names.getSnapshot()));
 * people.next({ name: 'Ann', age: 41 });
 * people.next({ name: 'Ann', age: 42 });
 * drawn; // => ['Ann']
 * ```
 */
export function partOf<S, P>(store: Store<S>, of: (snapshot: S) => P, isEqual: (one: P, other: P) => boolean = Object.is): Store<P> {
  made('subscribe', 'a store')(NAME, 'store', store);
  required(NAME, 'of', of);
  required(NAME, 'isEqual', isEqual);
  /** Asked again only for another snapshot. */
  const remembered = (read: () => S): (() => P) => {
    let seen: { readonly snapshot: S; readonly part: P } | undefined;
    return () => {
      const snapshot = read();
      if (!seen || !Object.is(seen.snapshot, snapshot)) {
        const part = of(snapshot);
        seen = { snapshot, part: seen && isEqual(seen.part, part) ? seen.part : part };
      }
      return seen.part;
    };
  };
  const getSnapshot = remembered(store.getSnapshot);
  /** What a listener could see. */
  const look = (): readonly unknown[] => {
    const { status } = store;
    try {
      return [status, getSnapshot()];
    } catch (error) {
      return [status, error];
    }
  };
  return {
    subscribe: (listener) => {
      required(NAME, 'listener', listener);
      let last = look();
      return store.subscribe(() => {
        const before = last;
        last = look();
        if (last.some((part, i) => !Object.is(part, before[i]))) listener();
      });
    },
    getSnapshot,
    getServerSnapshot: remembered(store.getServerSnapshot),
    get status() {
      return store.status;
    },
    get error() {
      return store.error;
    },
  };
}

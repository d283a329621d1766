import type { Observable, Subscription } from 'rxjs';
import { noop, Subject } from 'rxjs';
import { PACE_WAIT_MS } from '../../options/defaults.js';
import { callback, requiredFunction } from '../../options/options.js';
import type { PaceSettings } from '../time/pace.js';
import { createPace } from '../time/pace.js';
import { LONGEST_DELAY_MS } from '../time/scheduler.js';
import { Link, subscribeLink } from './connect.js';

/**
 * State of the source: without listeners (`'idle'`), with a listener now or until `keepAliveMs` ago (`'live'`), completed (also after the last
 * listener has left), or failed.
 * @stable
 */
export type StoreStatus = 'idle' | 'live' | 'completed' | 'failed';

/**
 * A snapshot for a user interface, in the shape that `useSyncExternalStore` of React takes; its functions can be passed on without their object.
 * @stable
 */
export interface Store<S> {
  /** Calls `listener` after every change of the snapshot or the status; the returned function stops that. */
  readonly subscribe: (listener: () => void) => () => void;
  /** The newest value that was shown; the same object until the listeners are notified of another. */
  readonly getSnapshot: () => S;
  /** The initial value. */
  readonly getServerSnapshot: () => S;
  /** State of the source; changes only when the listeners are notified, and when the first one comes or the last one leaves. */
  readonly status: StoreStatus;
  /** Why it failed; undefined unless `status` is `'failed'`. */
  readonly error: unknown;
  /**
   * A part of this store, as a store: its listeners are called when `of` makes something else of the snapshot, as `isEqual` says (`Object.is`
   * by default), or the status changes. What is equal stays the same object. `of` must be pure; where it throws, `getSnapshot` does.
   */
  readonly select: <P>(of: (snapshot: S) => P, isEqual?: (one: P, other: P) => boolean) => Store<P>;
}

interface StoreSettings extends PaceSettings {
  /** If not, every value is shown at once. */
  readonly isPaced: boolean;
  readonly keepAliveMs: number;
}

/** A snapshot of a source that changes only together with a call of every listener. */
export function snapshotStore<S>(source: Observable<S>, initial: S, settings: StoreSettings): Store<S> {
  const { keepAliveMs, scheduler } = settings;
  const changes = new Subject<void>();
  const pace = settings.isPaced ? createPace(settings, PACE_WAIT_MS.toStore, show, true) : { arm: show, stop: noop };
  let connection: Subscription | undefined;
  /** The timer of `keepAliveMs`. */
  let kept: Subscription | undefined;
  let snapshot = initial;
  let status: StoreStatus = 'idle';
  let failure: unknown;
  /** What has come and was not shown yet: the newest value, and the end. */
  let value: { readonly of: S } | undefined;
  let end: { readonly status: 'completed' | 'failed'; readonly error?: unknown } | undefined;
  let isDue = false;
  let isTelling = false;

  const store: Store<S> = {
    subscribe: (listener) => {
      requiredFunction('toStore', 'listener', listener);
      // eslint-disable-next-line rxjs-x/no-ignored-error -- it has no end
      const entry = changes.subscribe(() => {
        listener();
      });
      kept?.unsubscribe();
      if (connection === undefined) connect();
      return () => {
        if (entry.closed) return;
        entry.unsubscribe();
        if (changes.observed) return;
        if (keepAliveMs === 0) leave();
        else if (keepAliveMs < Infinity) kept = scheduler.schedule(leave, Math.min(keepAliveMs, LONGEST_DELAY_MS));
      };
    },
    getSnapshot: () => snapshot,
    getServerSnapshot: () => initial,
    get status() {
      return status;
    },
    get error() {
      return failure;
    },
    select: (of, isEqual) => selectFrom(store, of, isEqual),
  };
  return store;

  function connect(): void {
    // eslint-disable-next-line @typescript-eslint/no-deprecated -- the constructor is RxJS's own
    const link = new Link<S>({
      next: take,
      error: (error: unknown) => {
        finish({ status: 'failed', error });
      },
      complete: () => {
        finish({ status: 'completed' });
      },
    });
    connection = link;
    status = 'live';
    // Values that came while there was no listener.
    if (value) show();
    // That may have made its listener leave.
    if (!link.closed) subscribeLink(source, link);
  }

  /** The last listener has left, and none came within `keepAliveMs`. */
  function leave(): void {
    const left = connection;
    connection = undefined;
    pace.stop();
    end = undefined;
    failure = undefined;
    // The next listener subscribes again: a page that is shown anew must not fail with the failure of before.
    if (status !== 'completed') status = 'idle';
    left?.unsubscribe();
  }

  function take(next: S): void {
    const isFirst = value === undefined;
    value = { of: next };
    if (isFirst) pace.arm();
  }

  function finish(how: typeof end): void {
    end = how;
    pace.stop();
    show();
  }

  /** Shows what has come; what listeners bring about meanwhile is shown afterwards, in a loop. */
  function show(): void {
    isDue = true;
    if (isTelling) return;
    isTelling = true;
    while (isDue) {
      isDue = false;
      if (value) snapshot = value.of;
      if (end) ({ status, error: failure } = end);
      value = end = undefined;
      changes.next();
    }
    isTelling = false;
  }
}

/**
 * Selects a part of a store, as a store: the `select` method for a store of your own.
 *
 * - **Calls** its listeners when `of` makes another value of the snapshot, as `isEqual` says, or when the status changes.
 * - **Returns** the same object from `getSnapshot` as long as `isEqual` says that the parts are equal.
 * - **Errors:** where `of` or `isEqual` throws, `getSnapshot` throws.
 *
 * @beta
 * @param of - a pure function from the snapshot to the part; called once per snapshot
 * @param isEqual - whether two parts count as the same. @defaultValue `Object.is`
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when `of` or `isEqual` is no function.
 * @example
 * ```ts
 * import { BehaviorSubject } from 'rxjs';
 * import { toStore } from 'sluice/operators';
 * import { selectFrom } from 'sluice/operators/build';
 *
 * const users = new BehaviorSubject({ name: 'Ann', visits: 1 });
 * const names = selectFrom(toStore(users, users.value), ({ name }) => name);
 * const seen: string[] = [];
 * names.subscribe(() => seen.push(names.getSnapshot()));
 * users.next({ name: 'Ann', visits: 2 });
 * users.next({ name: 'Bea', visits: 2 });
 * seen; // => ['Bea']
 * ```
 */
export function selectFrom<S, P>(
  store: Store<S>,
  of: (snapshot: S) => P,
  isEqual: ((one: P, other: P) => boolean) | undefined = Object.is,
): Store<P> {
  requiredFunction('toStore', 'of', of);
  callback('toStore', 'isEqual', isEqual);
  /** Asked again only for another snapshot. */
  const partOf = (read: () => S): (() => P) => {
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
  const getSnapshot = partOf(store.getSnapshot);
  /** What a listener could see. */
  const look = (): readonly unknown[] => {
    const { status } = store;
    try {
      return [status, getSnapshot()];
    } catch (error) {
      return [status, error];
    }
  };
  const self: Store<P> = {
    subscribe: (listener) => {
      requiredFunction('toStore', 'listener', listener);
      // As the first listener finds it: the listener that makes the store live is not called for that.
      let last: readonly unknown[] = ['live', look()[1]];
      const leave = store.subscribe(() => {
        const before = last;
        last = look();
        if (last.some((part, i) => !Object.is(part, before[i]))) listener();
      });
      last = look();
      return leave;
    },
    getSnapshot,
    getServerSnapshot: partOf(store.getServerSnapshot),
    get status() {
      return store.status;
    },
    get error() {
      return store.error;
    },
    select: (next, areEqual) => selectFrom(self, next, areEqual),
  };
  return self;
}

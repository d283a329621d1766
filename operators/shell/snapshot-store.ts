import type { Observable, Subscription } from 'rxjs';
import { noop, Subject } from 'rxjs';
import { callback, requiredFunction } from '../options/options.js';
import { Link, subscribeLink } from './connect.js';
import type { PaceSettings } from './pace.js';
import { createPace } from './pace.js';
import { LONGEST_DELAY_MS } from './scheduler.js';

/**
 * What became of the source: nobody listens to it (`'idle'`), somebody does or did until `keepAliveMs` ago (`'live'`), it has completed (which it
 * stays when all have left), or it has failed.
 */
export type StoreStatus = 'idle' | 'live' | 'completed' | 'failed';

/**
 * A snapshot for a user interface, in the shape that `useSyncExternalStore` of React takes; its functions can be passed on without their object.
 */
export interface Store<S> {
  /** Calls `listener` after every change of the snapshot or the status; the returned function stops that. */
  readonly subscribe: (listener: () => void) => () => void;
  /** The newest value that was shown; the same object until the listeners are told of another. */
  readonly getSnapshot: () => S;
  /** The initial value. */
  readonly getServerSnapshot: () => S;
  /** What became of the source; changes only when the listeners are told, and when the first one comes or the last one leaves. */
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
  const pace = settings.isPaced ? createPace(settings, 0, show, true) : { arm: show, stop: noop };
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
    select: (of, isEqual) => selected(store, of, isEqual),
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
    // What came when nobody was there to be shown.
    if (value) show();
    // That may have made its listener leave.
    if (!link.closed) subscribeLink(source, link);
  }

  /** Nobody listens any more, and nobody came back. */
  function leave(): void {
    const left = connection;
    connection = undefined;
    pace.stop();
    end = undefined;
    failure = undefined;
    // Whoever comes next asks again: a page that is shown anew after a failure must not fail before it has.
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

/** What `select` makes. */
export function selected<S, P>(
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
      // As its first listener will find it: that it is live is no news to whoever makes it so.
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
    select: (next, areEqual) => selected(self, next, areEqual),
  };
  return self;
}

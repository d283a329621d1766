import type { Observable, SchedulerLike } from 'rxjs';
import { TO_STORE } from './options/defaults.js';
import { checked, durationMs, oneOf, optional } from './options/options.js';
import { observable } from './shell/streams/listen.js';
import type { Store } from './shell/streams/snapshot-store.js';
import { snapshotStore } from './shell/streams/snapshot-store.js';
import { schedulerOption } from './shell/time/scheduler.js';

export type { Store, StoreStatus } from './shell/streams/snapshot-store.js';

const NAME = 'toStore';

/** @stable */
export interface ToStoreOptions {
  /**
   * When a new value is shown: `'time'`, `maxWaitMs` after it came, or `'frame'`, with the browser's next animation frame. Where no frames
   * come (Node, a hidden tab) the time shows it. @defaultValue none: at once; `'time'` with `maxWaitMs` or `scheduler`
   */
  readonly pace?: 'time' | 'frame';
  /** Longest a new value waits, in ms; values that come meanwhile replace it. @defaultValue 0, with `pace: 'frame'` 100 */
  readonly maxWaitMs?: number;
  /**
   * How long the source is kept after the last listener has left, in ms: a listener that comes back within it finds the run and the snapshot as they
   * were. 0 = it is left at once, Infinity = it is never left. @defaultValue 0
   */
  readonly keepAliveMs?: number;
  /** Clock and timer of `maxWaitMs` and `keepAliveMs`. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
}

/**
 * Makes a store for a user interface of a source: a snapshot that changes only in the moment its listeners are notified, at the pace
 * you choose.
 *
 * ```text
 * source      -a-b-c-------d-|
 *             toStore(source, 0, { maxWaitMs: 4 })
 * snapshot    0----c---------d   one change, one call of every listener
 * ```
 *
 * - **Emits when** the source does, or at its `pace`: the snapshot is the newest value, and
 *   every listener is called. What waits is shown before the end of the source, whatever end it is.
 * - **Holds at most** two values: the snapshot, and the newest one that is not shown yet.
 * - **Drops** values that are replaced before they were shown.
 * - **Completes when** the source completes: `status` is `'completed'`, listeners are called, the last snapshot stays.
 * - **Errors when** the source errors: `status` is `'failed'`, `error` is that same error, listeners are called, the last snapshot stays. A listener that throws stops no other; its
 *   error is reported as RxJS reports those of its observers.
 * - **On unsubscribe** of the last listener, and after `keepAliveMs` without a new one, the source is left. The snapshot stays, a value that was not shown
 *   yet is shown to the next listener, an error is forgotten.
 *
 * The first listener subscribes to the source, and so does the first one after it was left. Values that listeners themselves send
 * into the source are shown after all listeners were called. Stages that are paced by frames share them: what `coalesce` lets go in a frame is shown
 * in that frame, and a store is shown at most once in a frame, and at its end.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when `source` is no Observable or an option is unknown or out of range.
 * @example
 * ```ts
 * import { Subject } from 'rxjs';
 * import { toStore } from 'sluice/operators';
 *
 * const words = new Subject<string>();
 * const store = toStore(words, '');
 * const seen: string[] = [];
 * const leave = store.subscribe(() => seen.push(store.getSnapshot()));
 * words.next('to');
 * words.next('be');
 * leave();
 * words.next('or not');
 * seen; // => ['to', 'be']
 * ```
 * @example In React.
 * ```ts no-run
 * const store = toStore(tokens.pipe(scan((text, token) => text + token, '')), '', { pace: 'frame' });
 * const text = useSyncExternalStore(store.subscribe, store.getSnapshot, store.getServerSnapshot);
 * ```
 * @see {@link toAsyncIterable} when every value counts.
 */
export function toStore<T, S = T>(source: Observable<T>, initial: S, options: ToStoreOptions = {}): Store<T | S> {
  observable(NAME, 'source', source);
  const settings = checked(NAME, options, TO_STORE, {
    pace: oneOf('time', 'frame'),
    maxWaitMs: optional(durationMs),
    keepAliveMs: durationMs,
    scheduler: schedulerOption,
  });
  const { pace, maxWaitMs, scheduler } = options;
  return snapshotStore<T | S>(source, initial, { ...settings, isPaced: (pace ?? maxWaitMs ?? scheduler) !== undefined });
}

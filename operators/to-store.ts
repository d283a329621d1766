import type { Observable, SchedulerLike } from 'rxjs';
import type { FlowSink } from './options/events.js';
import { listened } from './options/events.js';
import { callback, durationMs, known, oneOf, orDefault } from './options/options.js';
import { schedulerOption } from './shell/alarm.js';
import { checkSource } from './shell/listen.js';
import type { PaceSettings } from './shell/pace.js';
import { SnapshotStore } from './shell/snapshot-store.js';

export interface ToStoreOptions<E = never> {
  /**
   * When a new value is shown: `'time'`, `maxWaitMs` after it came, or `'frame'`, with the browser's next animation frame. Where no frames
   * come (Node, a hidden tab) the time shows it. @defaultValue none: at once; `'time'` with `maxWaitMs` or `scheduler`
   */
  readonly pace?: 'time' | 'frame';
  /** Longest a new value waits, in ms; values that come meanwhile replace it. @defaultValue 0, with `pace: 'frame'` 100 */
  readonly maxWaitMs?: number;
  /** Clock and timer of `maxWaitMs`. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Makes a snapshot of the source's error. @defaultValue none: `getSnapshot` throws the error */
  readonly onError?: (error: unknown) => E;
  /** Told of values that were replaced before they were shown (`dropped`). @defaultValue none */
  readonly onEvent?: FlowSink;
  /** What events call it, as `instance`. @defaultValue a number of its own */
  readonly name?: string;
}

/** What `useSyncExternalStore` of React takes; its functions can be passed on without their object. */
export interface Store<S> {
  /** Calls `listener` after every change of the snapshot; the returned function stops that. */
  readonly subscribe: (listener: () => void) => () => void;
  /** The newest value that was shown; the same object until the listeners are told of another. */
  readonly getSnapshot: () => S;
  /** The initial value. */
  readonly getServerSnapshot: () => S;
}

/**
 * Makes a store for a user interface of a source: a snapshot that changes only in the moment its listeners are told, at the pace
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
 * - **Drops** values that are replaced before they were shown, and reports them.
 * - **Completes when** the source completes: the last snapshot stays.
 * - **Errors when** the source errors: listeners are called, and `getSnapshot` throws that same error, for the next error boundary to
 *   show; with `onError` its result is the snapshot instead. A listener that throws stops no other; its error is reported as RxJS
 *   reports those of its observers.
 * - **On unsubscribe** of the last listener the source is left, a value not shown yet is dropped, and the timer is cleared. The snapshot
 *   stays; an error is forgotten.
 *
 * The first listener subscribes to the source, and so does the first one after all had left. Values that listeners themselves send
 * into the source are shown after all listeners were called.
 *
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
export function toStore<T, S = T, E = never>(source: Observable<T>, initial: S, options: ToStoreOptions<E> = {}): Store<T | S | E> {
  const name = 'toStore';
  checkSource(name, source);
  known(name, options, ['pace', 'maxWaitMs', 'scheduler', 'onError', 'onEvent', 'name']);
  return new SnapshotStore<T | S | E>(source, initial, {
    pace: readPace(name, options),
    onError: callback(name, 'onError', options.onError),
    onEvent: listened.onEvent(name, 'onEvent', options.onEvent),
    name: listened.name(name, 'name', options.name),
  });
}

/** How long a hidden tab, which has no frames, may lag behind. */
const FRAME_WAIT_MS = 100;

/** Undefined means at once. */
function readPace(name: string, { pace, maxWaitMs, scheduler }: ToStoreOptions<unknown>): PaceSettings | undefined {
  if (pace === undefined && maxWaitMs === undefined && scheduler === undefined) return undefined;
  return {
    pace: oneOf(name, 'pace', orDefault(pace, 'time'), ['time', 'frame']),
    maxWaitMs: durationMs(name, 'maxWaitMs', orDefault(maxWaitMs, pace === 'frame' ? FRAME_WAIT_MS : 0)),
    scheduler: schedulerOption(name, 'scheduler', scheduler),
  };
}

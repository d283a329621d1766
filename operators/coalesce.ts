import type { MonoTypeOperatorFunction, SchedulerLike, Subscriber } from 'rxjs';
import { Observable } from 'rxjs';
import { ask, weightOf } from './options/ask.js';
import { COALESCE, PACE_WAIT_MS } from './options/defaults.js';
import type { FlowSink, FlushReason } from './options/events.js';
import { EVENT_CHECKS, teller } from './options/events.js';
import { DEFAULT_LANE } from './options/lanes.js';
import { callback, checked, count, durationMs, oneOf, optional, positive, requiredFunction } from './options/options.js';
import { attach } from './shell/streams/connect.js';
import { trampoline } from './shell/streams/trampoline.js';
import { createPace } from './shell/time/pace.js';
import { schedulerOption } from './shell/time/scheduler.js';

const NAME = 'coalesce';

/** @stable */
export interface CoalesceOptions<T> {
  /** Makes one item of two that stood next to each other; `first` may be a merged one already. It must not change either of them. */
  readonly merge: (first: T, next: T) => T;
  /** Whether `next` may be merged into what waits. @defaultValue always */
  readonly compatible?: (pending: T, next: T) => boolean;
  /** Items that are never merged and never wait: they go at once, behind what waits. @defaultValue none */
  readonly passThrough?: (item: T) => boolean;
  /**
   * What lets a merged item go: `'time'`, or `'frame'`: the browser's next animation frame. Where no frames come (Node, a hidden tab) the
   * time lets it go. @defaultValue 'time'
   */
  readonly pace?: 'time' | 'frame';
  /** Longest an item waits, in ms; 0 = to the end of the current frame, Infinity = no limit. @defaultValue 16, with `pace: 'frame'` 100 */
  readonly maxWaitMs?: number;
  /** Most items merged into one. @defaultValue 1000 */
  readonly maxSize?: number;
  /** Most total weight merged into one, in the unit `weigh` returns; a heavier item is emitted alone. @defaultValue Infinity */
  readonly maxWeight?: number;
  /** What an item counts towards `maxWeight`: the characters of a text, for example. @defaultValue `() => 1` */
  readonly weigh?: (item: T) => number;
  /** Whether what waits is emitted before an error (of the source or a callback) or dropped. @defaultValue 'flush' */
  readonly onSourceError?: 'flush' | 'abort';
  /** Clock and timer. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Listener for every item that was merged or waited (`batchFormed`), and for cancelled items (`cancelled`). @defaultValue none */
  readonly onEvent?: FlowSink;
  /** What events call it, as `instance`. @defaultValue a number of its own */
  readonly name?: string;
}

/**
 * Merges items that stand next to each other, so that a stream of small ones (the tokens of a model) reaches its consumer in larger ones, at a
 * pace it can follow: once in `maxWaitMs`, or once an animation frame.
 *
 * ```text marbles/coalesce
 * source  -a-b-----c-d-|
 *         coalesce({ merge, maxWaitMs: 5 })
 * result  ------x------(y|)
 *         x = "ab"
 *         y = "cd"
 * ```
 *
 * - **Emits when** what waits is `maxWaitMs` old, an animation frame comes (`pace: 'frame'`), `maxSize` or `maxWeight` is reached,
 *   or the next item does not belong to it (`compatible`, `passThrough`, `maxWeight`). Never out of order.
 * - **Holds at most** one item, merged from at most `maxSize` items, and what the consumer itself sends into the source while it is handed an item.
 * - **Drops** nothing.
 * - **Completes when** the source completes, after what waits.
 * - **Errors when** the source errors, or a callback throws or returns something unusable (`CallbackError`); what waits is emitted first, unless
 *   `onSourceError: 'abort'`.
 * - **On unsubscribe** what waits is dropped, and its timer and frame are cancelled.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { of } from 'rxjs';
 * import { coalesce } from 'sluice/operators';
 *
 * const seen: string[] = [];
 * of('Hel', 'lo', ' world').pipe(coalesce({ merge: (text, more) => text + more })).subscribe((text) => seen.push(text));
 * seen; // => ['Hello world']
 * ```
 * @example Events of several messages and of other kinds keep their order: only neighbours of the same message are merged.
 * ```ts
 * import { of } from 'rxjs';
 * import { coalesce } from 'sluice/operators';
 *
 * type Event = { readonly id: string; readonly delta?: string };
 * const deltas = coalesce<Event>({
 *   merge: (first, next) => ({ ...first, delta: `${first.delta}${next.delta}` }),
 *   compatible: (pending, next) => pending.id === next.id,
 *   passThrough: ({ delta }) => delta === undefined,
 * });
 * const seen: string[] = [];
 * of<Event[]>({ id: 'a', delta: 'x' }, { id: 'a', delta: 'y' }, { id: 'b', delta: 'z' }, { id: 'end' })
 *   .pipe(deltas)
 *   .subscribe(({ id, delta = '' }) => seen.push(id + delta));
 * seen; // => ['axy', 'bz', 'end']
 * ```
 * @see {@link batch} for lists of items instead of merged ones; RxJS's `auditTime` when only the newest counts.
 */
export function coalesce<T>(options: CoalesceOptions<T>): MonoTypeOperatorFunction<T> {
  const settings = readOptions(options);
  return (source) =>
    new Observable((subscriber) => {
      coalesceInto(settings, source, subscriber);
    });
}

type Settings<T> = ReturnType<typeof readOptions<T>>;

function readOptions<T>(options: CoalesceOptions<T>) {
  return checked(NAME, options, COALESCE, {
    pace: oneOf('time', 'frame'),
    maxWaitMs: optional(durationMs),
    maxSize: count,
    maxWeight: positive,
    onSourceError: oneOf('flush', 'abort'),
    merge: requiredFunction,
    weigh: callback,
    compatible: callback,
    passThrough: callback,
    scheduler: schedulerOption,
    ...EVENT_CHECKS,
  });
}

/** One subscription. Everything that arrives while an item is being handed out waits its turn. */
function coalesceInto<T>(settings: Settings<T>, source: Observable<T>, to: Subscriber<T>): void {
  const { merge, compatible, passThrough, maxSize, maxWeight, weigh, scheduler } = settings;
  const enqueue = trampoline(to, fail);
  const pace = createPace(settings, PACE_WAIT_MS.coalesce, () => {
    enqueue(flush, 'time' as const);
  });
  const tell = teller(NAME, settings, () => scheduler.now());
  /** What waits; only when `size` > 0. */
  let pending: T | undefined;
  /** How many items were merged into it. */
  let size = 0;
  let weight = 0;
  let since = 0;

  to.add(() => {
    pace.stop();
    if (size > 0) tell?.({ type: 'cancelled', lane: DEFAULT_LANE, count: size });
    clear();
  });
  attach(source, to, {
    next: (item) => {
      enqueue(accept, item);
    },
    error: (error) => {
      enqueue(fail, error);
    },
    complete: () => {
      enqueue(() => {
        flush('complete');
        to.complete();
      });
    },
  });

  function accept(item: T): void {
    const passes = passThrough && ask(NAME, 'passThrough', passThrough, item);
    const isApart = passes || (size > 0 && compatible && !ask(NAME, 'compatible', compatible, pending as T, item));
    const added = passes ? 0 : weightOf(NAME, weigh, item);
    if (isApart) flush('incompatible');
    else if (weight + added > maxWeight) flush('weight');
    // The consumer may have left, in a callback too.
    if (to.closed) return;
    if (passes) {
      to.next(item);
      return;
    }
    const isFirst = size === 0;
    if (isFirst && tell) since = scheduler.now();
    pending = isFirst ? item : ask(NAME, 'merge', merge, pending as T, item);
    size++;
    weight += added;
    if (size >= maxSize) flush('size');
    else if (weight >= maxWeight) flush('weight');
    else if (isFirst) pace.arm();
  }

  function flush(reason: FlushReason): void {
    if (size === 0 || to.closed) return;
    const item = pending as T;
    tell?.({ type: 'batchFormed', lane: DEFAULT_LANE, reason, size, weight, waitMs: Math.max(0, scheduler.now() - since) });
    // State first: what the consumer sends meanwhile comes behind it.
    clear();
    to.next(item);
  }

  function clear(): void {
    pending = undefined;
    size = weight = 0;
  }

  function fail(error: unknown): void {
    if (settings.onSourceError === 'flush') flush('error');
    to.error(error);
  }
}

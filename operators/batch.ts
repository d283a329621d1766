import type { ObservableInput, OperatorFunction, SchedulerLike, Subscriber } from 'rxjs';
import { Observable } from 'rxjs';
import type { CloseWhen } from './options/ask.js';
import { weightOf, whenToClose } from './options/ask.js';
import type { FlowSink, FlushReason } from './options/events.js';
import { listened, teller } from './options/events.js';
import { DEFAULT_LANE } from './options/lanes.js';
import { callback, checked, count, durationMs, positive, words } from './options/options.js';
import { Alarm, schedulerOption } from './shell/alarm.js';
import { attach } from './shell/connect.js';
import { notifier } from './shell/notifier.js';

export type { BatchState } from './options/ask.js';

export interface BatchOptions<T> {
  /** Most items in one batch. @defaultValue 16 */
  readonly maxSize?: number;
  /** Longest the first item of a batch waits, in ms; 0 = what arrives within one frame, Infinity = no limit. @defaultValue 20 */
  readonly maxWaitMs?: number;
  /** Most total weight in one batch, in the unit `weigh` returns; an item that is heavier is emitted alone. @defaultValue Infinity */
  readonly maxWeight?: number;
  /** Weight of one item, for example its token count: finite and >= 0. @defaultValue `() => 1` */
  readonly weigh?: (item: T) => number;
  /** Closes the open batch `'before'` an item or `'after'` it. @defaultValue never */
  readonly closeWhen?: CloseWhen<T>;
  /**
   * Closes the open batch at each of its values. Its completion is ignored, its error is the stream's. Subscribed to before the source: a flush made of
   * the source itself (`flush: source`) closes the batch before the item that it was made of, one sent after the item closes it with that item.
   * @defaultValue none
   */
  readonly flush?: ObservableInput<unknown>;
  /** Whether the open batch is emitted before an error (of the source, a callback or `flush`) or dropped. @defaultValue 'flush' */
  readonly onSourceError?: 'flush' | 'abort';
  /** Clock and timer. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Told of every batch (`batchFormed`) and of an open one given up (`cancelled`). @defaultValue none */
  readonly onEvent?: FlowSink;
  /** What events call this operator, as `instance`. @defaultValue a number of its own */
  readonly name?: string;
}

const NAME = 'batch';

/**
 * Gathers items into arrays and closes each on size, weight or age, whichever comes first.
 *
 * ```text marbles/batch
 * source  -a-b-c---d-----e--|
 *         batch({ maxSize: 2, maxWaitMs: 5 })
 * result  ---x-----y--------(w|)
 *         x = ["a","b"]
 *         y = ["c","d"]
 *         w = ["e"]
 * ```
 *
 * - **Emits when** a batch reaches `maxSize` or `maxWeight`, its first item is `maxWaitMs` old, the next item does not fit,
 *   `closeWhen` says so or `flush` emits. Never an empty batch; later items do not prolong the wait.
 * - **Holds at most** `maxSize` items, and what the consumer itself sends into the source while it is handed a batch.
 * - **Drops** nothing.
 * - **Completes when** the source completes, after the open batch.
 * - **Errors when** the source or `flush` errors, a callback throws or returns something unusable (`CallbackError`); the open batch is
 *   emitted first, unless `onSourceError: 'abort'`.
 * - **On unsubscribe** the open batch is dropped and its timer is cleared.
 *
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { of } from 'rxjs';
 * import { batch } from 'sluice/operators';
 *
 * const seen: number[][] = [];
 * of(1, 2, 3).pipe(batch({ maxSize: 2 })).subscribe((items) => seen.push(items));
 * seen; // => [[1, 2], [3]]
 * ```
 * @example A token budget: items that do not fit start the next batch.
 * ```ts
 * import { of } from 'rxjs';
 * import { batch } from 'sluice/operators';
 *
 * const seen: string[][] = [];
 * of('four', 'five5', 'six').pipe(batch({ maxWeight: 8, weigh: (text: string) => text.length })).subscribe((texts) => seen.push(texts));
 * seen; // => [['four'], ['five5', 'six']]
 * ```
 */
export function batch<T>(options: BatchOptions<T> = {}): OperatorFunction<T, T[]> {
  const settings = readOptions(options);
  return (source) =>
    new Observable((subscriber) => {
      batchInto(settings, source, subscriber);
    });
}

type Settings<T> = ReturnType<typeof readOptions<T>>;

function readOptions<T>(options: BatchOptions<T>) {
  const defaults = { maxSize: 16, maxWaitMs: 20, maxWeight: Infinity, onSourceError: 'flush' } as const;
  return checked(NAME, options, defaults, {
    maxSize: count,
    maxWaitMs: durationMs,
    maxWeight: positive,
    onSourceError: words('flush', 'abort'),
    weigh: callback,
    closeWhen: callback,
    flush: notifier,
    scheduler: schedulerOption,
    ...listened,
  });
}

/** One subscription. What arrives while a batch is emitted, or a callback asked, is done afterwards. */
function batchInto<T>(settings: Settings<T>, source: Observable<T>, to: Subscriber<T[]>): void {
  const { maxSize, maxWeight, maxWaitMs, weigh, closeWhen, flush } = settings;
  const isPlain = (weigh ?? closeWhen) === undefined && maxWeight === Infinity;
  const later: (() => void)[] = [];
  let isBusy = false;
  const alarm = new Alarm(settings.scheduler, () => {
    turn(close, 'time');
  });
  const tell = teller(NAME, settings, () => alarm.now());
  let items: T[] = [];
  /** Theirs; not kept when nothing but the size is looked at. */
  let weight = 0;
  /** When the open batch got its first item, if anybody wants to know. */
  let openedAt = Infinity;
  /** With fewer items there is nothing to do but to take one more. */
  let room = 0;
  const error = (failure: unknown): void => {
    turn(fail, failure);
  };

  to.add(() => {
    alarm.clear();
    if (items.length > 0) tell?.({ type: 'cancelled', lane: DEFAULT_LANE, count: items.length });
    items = [];
  });
  // `flush` first: a source that emits at once may make its consumer ask for one.
  if (flush) {
    const next = (): void => {
      turn(close, 'flush');
    };
    to.add((flush as Observable<unknown>).subscribe({ next, error }));
  }
  attach(source, to, {
    next: (item) => {
      if (items.length < room) items.push(item);
      else if (isBusy) later.push(accept.bind(undefined, item));
      else {
        isBusy = true;
        accept(item);
        if (later.length > 0) free();
        isBusy = false;
      }
    },
    error,
    complete: () => {
      turn(end, undefined);
    },
  });

  /** Does it now, or after what it is busy with. */
  function turn<V>(step: (value: V) => void, value: V): void {
    later.push(step.bind(undefined, value));
    if (!isBusy) free();
  }

  function free(): void {
    isBusy = true;
    while (later.length > 0) for (const step of later.splice(0)) if (!to.closed) step();
    isBusy = false;
  }

  function accept(item: T): void {
    let added: number;
    let end: ReturnType<CloseWhen<T>> = false;
    try {
      added = weightOf(NAME, weigh, item);
      if (closeWhen) end = whenToClose(NAME, closeWhen, item, { items, weight, itemWeight: added });
    } catch (error) {
      fail(error);
      return;
    }
    if (end === 'before') close('closeWhen');
    let sum = weight + added;
    if (sum > maxWeight) {
      close('weight');
      sum = added;
    }
    weight = sum;
    const size = items.push(item);
    if (size > 1 && size < maxSize && sum < maxWeight && end !== 'after') return;
    if (sum > maxWeight) close('oversize');
    else if (size >= maxSize) close('size');
    else if (sum >= maxWeight) close('weight');
    else if (end === 'after') close('closeWhen');
    else open();
  }

  function open(): void {
    if (isPlain) room = maxSize - 1;
    // A callback may have made the consumer leave.
    if (to.closed || (maxWaitMs === Infinity && !tell)) return;
    openedAt = alarm.now();
    alarm.set(openedAt + maxWaitMs);
  }

  /** The timer is left alone: the next batch sets it later, and when it fires early it looks again. */
  function close(reason: FlushReason): void {
    const closed = items;
    const size = items.length;
    if (size === 0 || to.closed) return;
    const its = isPlain ? size : weight;
    const since = openedAt;
    // The batch is taken before it is emitted, so that what comes meanwhile starts a new one.
    items = [];
    weight = room = 0;
    openedAt = Infinity;
    tell?.({ type: 'batchFormed', lane: DEFAULT_LANE, reason, size, weight: its, waitMs: Math.max(0, alarm.now() - since) });
    to.next(closed);
  }

  function end(): void {
    close('complete');
    to.complete();
  }

  function fail(error: unknown): void {
    if (settings.onSourceError === 'flush') close('error');
    to.error(error);
  }
}

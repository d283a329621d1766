import type { ObservableInput, OperatorFunction, SchedulerLike, Subscriber } from 'rxjs';
import { from, Observable } from 'rxjs';
import { BatchKernel } from './kernel/machine/batch-kernel.js';
import type { CloseWhen, SplitItem } from './options/ask.js';
import { partsOf, weightOf, whenToClose } from './options/ask.js';
import { FlowConfigError, ItemTooHeavyError } from './options/errors.js';
import type { FlowSink, FlushReason } from './options/events.js';
import { listener } from './options/events.js';
import { DEFAULT_LANE } from './options/lanes.js';
import { callback, checked, count, durationMs, positive, required, words } from './options/options.js';
import { Alarm, schedulerOption } from './shell/alarm.js';
import type { Handlers } from './shell/connect.js';
import { connect } from './shell/connect.js';
import { InTurn } from './shell/in-turn.js';
import { notifier } from './shell/notifier.js';

export type { BatchState } from './options/ask.js';

export interface BatchOptions<T> {
  /** Most items in one batch. @defaultValue 16 */
  readonly maxSize?: number;
  /** Longest the first item of a batch waits, in ms; 0 = see `burst`, Infinity = no limit. @defaultValue 20 */
  readonly maxWaitMs?: number;
  /** Most total weight in one batch, in the unit `weigh` returns. @defaultValue Infinity */
  readonly maxWeight?: number;
  /** Heaviest item that may travel alone under `oversize: 'alone'` or as a part of a split one; above it the stream errors. @defaultValue Infinity */
  readonly hardMaxWeight?: number;
  /** Weight of one item, for example its token count: finite and >= 0. @defaultValue `() => 1` */
  readonly weigh?: (item: T) => number;
  /**
   * What happens to an item heavier than `maxWeight`: it is emitted `'alone'`, cut by `splitItem` (`'split'`), left out (`'drop'`),
   * or errors the stream (`'reject'` and `'error'`: a batch has no place for a rejected item). @defaultValue 'alone'
   */
  readonly oversize?: 'alone' | 'reject' | 'split' | 'drop' | 'error';
  /** Cuts an item heavier than `maxWeight` into parts, in order; needed by `oversize: 'split'`. */
  readonly splitItem?: SplitItem<T>;
  /** Closes the open batch `'before'` an item or `'after'` it. @defaultValue never */
  readonly closeWhen?: CloseWhen<T>;
  /**
   * Closes the open batch at each of its values. Its completion is ignored, its error is the stream's. Subscribed to before the source: a flush made of
   * the source itself (`flush: source`) closes the batch before the item that it was made of, one sent after the item closes it with that item.
   * @defaultValue none
   */
  readonly flush?: ObservableInput<unknown>;
  /** With `maxWaitMs: 0`: `'asap'` gathers what arrives within the current frame, `'sync'` emits every item at once. @defaultValue 'asap' */
  readonly burst?: 'asap' | 'sync';
  /** Whether the open batch is emitted before an error (of the source, a callback or `flush`) or dropped. @defaultValue 'flush' */
  readonly onSourceError?: 'flush' | 'abort';
  /** Clock and timer. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Told of every batch (`batchFormed`), dropped item (`dropped`) and open batch given up (`cancelled`). @defaultValue none */
  readonly onEvent?: FlowSink;
}

/** What {@link batch} does when an option is left out. */
export const BATCH_DEFAULTS = {
  maxSize: 16,
  maxWaitMs: 20,
  maxWeight: Infinity,
  hardMaxWeight: Infinity,
  oversize: 'alone',
  burst: 'asap',
  onSourceError: 'flush',
} as const;

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
 * - **Drops** nothing, unless `oversize: 'drop'`.
 * - **Completes when** the source completes, after the open batch.
 * - **Errors when** the source or `flush` errors, a callback throws or returns something unusable (`CallbackError`), or an item is
 *   too heavy (`ItemTooHeavyError`); the open batch is emitted first, unless `onSourceError: 'abort'`.
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
      const batcher = new Batcher(settings, subscriber);
      subscriber.add(() => {
        batcher.stop();
      });
      // `flush` first: a source that emits at once may make its consumer ask for one.
      if (settings.flush) {
        connect(from(settings.flush), subscriber, {
          next: () => {
            batcher.flush();
          },
          error: (error) => {
            batcher.error(error);
          },
          complete: () => {
            // No more flushes; the batches go on.
          },
        });
      }
      connect(source, subscriber, batcher);
    });
}

type Settings<T> = ReturnType<typeof readOptions<T>>;

function readOptions<T>(options: BatchOptions<T>) {
  const settings = checked('batch', options, BATCH_DEFAULTS, {
    maxSize: count,
    maxWaitMs: durationMs,
    maxWeight: positive,
    hardMaxWeight: positive,
    oversize: words('alone', 'reject', 'split', 'drop', 'error'),
    burst: words('asap', 'sync'),
    onSourceError: words('flush', 'abort'),
    weigh: callback,
    splitItem: callback,
    closeWhen: callback,
    flush: notifier,
    scheduler: schedulerOption,
    onEvent: listener,
  });
  const { maxWeight, hardMaxWeight, oversize, splitItem } = settings;
  if (hardMaxWeight < maxWeight)
    throw new FlowConfigError('batch', 'hardMaxWeight', `a number >= \`maxWeight\` (${String(maxWeight)}) or Infinity`, hardMaxWeight);
  if (oversize === 'split') required('batch', 'splitItem', splitItem);
  return settings;
}

/** One subscription of `batch`. Everything that arrives while a batch is being handed out waits its turn. */
class Batcher<T> implements Handlers<T> {
  readonly #settings: Settings<T>;
  readonly #to: Subscriber<T[]>;
  readonly #kernel: BatchKernel<T>;
  readonly #alarm: Alarm;
  readonly #turn: InTurn;
  /** When the open batch got its first item; unknown when no limit and no listener asks for it. */
  #openedAt: number | undefined;

  constructor(settings: Settings<T>, to: Subscriber<T[]>) {
    this.#settings = settings;
    this.#to = to;
    this.#kernel = new BatchKernel(settings);
    this.#turn = new InTurn(to);
    this.#alarm = new Alarm(settings.scheduler, () => {
      this.#turn.do(() => {
        this.#close('time');
      });
    });
  }

  next(item: T): void {
    this.#turn.take(this.#accept, item);
  }

  error(error: unknown): void {
    this.#turn.do(() => {
      this.#fail(error);
    });
  }

  complete(): void {
    this.#turn.do(() => {
      this.#close('complete');
      this.#to.complete();
    });
  }

  flush(): void {
    this.#turn.do(() => {
      this.#close('flush');
    });
  }

  /** The consumer has left, or the stream has ended. */
  stop(): void {
    this.#alarm.clear();
    const { length } = this.#kernel.take();
    if (length > 0) this.#settings.onEvent?.({ type: 'cancelled', operator: 'batch', lane: DEFAULT_LANE, count: length });
  }

  readonly #accept = (item: T): void => {
    const { weigh, closeWhen } = this.#settings;
    try {
      const weight = weightOf('batch', weigh, item);
      if (closeWhen === undefined) this.#place(item, weight);
      else this.#placeWhereItCloses(closeWhen, item, weight);
    } catch (error) {
      this.#fail(error);
    }
  };

  #placeWhereItCloses(closeWhen: CloseWhen<T>, item: T, itemWeight: number): void {
    const { items, weight } = this.#kernel;
    const close = whenToClose('batch', closeWhen, item, { items, weight, itemWeight });
    if (close === 'before') this.#close('closeWhen');
    this.#place(item, itemWeight);
    if (close === 'after') this.#close('closeWhen');
  }

  #place(item: T, weight: number): void {
    if (weight > this.#settings.maxWeight) {
      this.#placeOversize(item, weight);
      return;
    }
    if (!this.#kernel.fits(weight)) this.#close('weight');
    const full = this.#kernel.add(item, weight);
    if (full !== undefined) this.#close(full);
    else if (this.#kernel.size === 1) this.#open();
  }

  #placeOversize(item: T, weight: number): void {
    const { oversize, splitItem, maxWeight, onEvent } = this.#settings;
    if (oversize === 'alone') this.#emitAlone(item, weight);
    else if (oversize === 'drop') onEvent?.({ type: 'dropped', operator: 'batch', lane: DEFAULT_LANE, policy: 'oversize' });
    else if (oversize === 'split' && splitItem !== undefined) this.#placeParts(partsOf('batch', splitItem, item));
    else throw new ItemTooHeavyError('batch', weight, maxWeight);
  }

  /** Parts are never cut again: one that is still too heavy travels alone. */
  #placeParts(parts: readonly T[]): void {
    const { weigh, maxWeight } = this.#settings;
    for (const part of parts) {
      const weight = weightOf('batch', weigh, part);
      if (weight > maxWeight) this.#emitAlone(part, weight);
      else this.#place(part, weight);
    }
  }

  #emitAlone(item: T, weight: number): void {
    if (weight > this.#settings.hardMaxWeight) throw new ItemTooHeavyError('batch', weight, this.#settings.hardMaxWeight);
    this.#close('weight');
    this.#emit([item], weight, 'oversize');
  }

  /** A batch got its first item and is not full: its time runs from here. */
  #open(): void {
    const { maxWaitMs, burst, onEvent } = this.#settings;
    if (maxWaitMs === 0 && burst === 'sync') {
      this.#close('time');
      return;
    }
    if (this.#to.closed || (maxWaitMs === Infinity && onEvent === undefined)) return;
    this.#openedAt = this.#alarm.now();
    this.#alarm.set(this.#openedAt + maxWaitMs);
  }

  /** The timer is left alone: the next batch sets it later, and when it fires early it looks again. */
  #close(reason: FlushReason): void {
    const { size, weight } = this.#kernel;
    // The batch is taken before it is emitted, so re-entrant input starts a fresh one.
    if (size > 0) this.#emit(this.#kernel.take(), weight, reason);
  }

  #emit(items: T[], weight: number, reason: FlushReason): void {
    // The parts of a split item go on after the consumer has left.
    if (this.#to.closed) return;
    const { onEvent } = this.#settings;
    if (onEvent !== undefined) {
      const waitMs = this.#openedAt === undefined ? 0 : this.#alarm.now() - this.#openedAt;
      onEvent({ type: 'batchFormed', operator: 'batch', lane: DEFAULT_LANE, reason, size: items.length, weight, waitMs });
    }
    this.#openedAt = undefined;
    this.#to.next(items);
  }

  #fail(error: unknown): void {
    if (this.#settings.onSourceError === 'flush') this.#close('error');
    this.#to.error(error);
  }
}

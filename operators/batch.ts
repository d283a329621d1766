import type { ObservableInput, OperatorFunction, SchedulerLike } from 'rxjs';
import { Observable, Subscriber } from 'rxjs';
import type { CloseWhen } from './options/ask.js';
import { weightOf, whenToClose } from './options/ask.js';
import type { FlowSink, FlushReason, Note } from './options/events.js';
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
  /** Weight of one item, for example its token count: finite and >= 0. An `ItemTooHeavyError` that it throws is the stream's. @defaultValue `() => 1` */
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
      const batcher = new Batcher(settings, subscriber);
      subscriber.add(batcher);
      // `flush` first: a source that emits at once may make its consumer ask for one.
      if (settings.flush !== undefined) {
        const next = (): void => {
          batcher.flush();
        };
        const error = (failure: unknown): void => {
          batcher.error(failure);
        };
        subscriber.add((settings.flush as Observable<unknown>).subscribe({ next, error }));
      }
      attach(source, batcher);
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

/**
 * One subscription of `batch`: the subscriber of the source and its open batch in one. It is busy while it emits, and while it asks a callback: what
 * arrives meanwhile is done afterwards, in a loop.
 *
 * Without `#private`, and asked for itself: RxJS 5 and 6 call it through an object made with `Object.create`. It has a tag, because Vue's
 * `reactive` leaves alone what has one, and would hand out proxies of the batches.
 */
// eslint-disable-next-line rxjs-x/no-subclass -- an object less on the way of every item, and it can be left while its source subscribes
class Batcher<T> extends Subscriber<T> {
  private readonly self = this;
  private readonly maxSize: number;
  private readonly maxWeight: number;
  /** Nothing but the size is looked at, and what it weighs is its size. */
  private readonly isPlain: boolean;
  private readonly weigh: ((item: T) => number) | undefined;
  private readonly closeWhen: CloseWhen<T> | undefined;
  private readonly alarm: Alarm | undefined;
  private readonly tell: ((note: Note) => void) | undefined;
  private items: T[] = [];
  private weight = 0;
  /** When the open batch got its first item; unknown when no limit and no listener asks for it. */
  private openedAt: number | undefined;
  private isBusy = false;
  private readonly later: (() => void)[] = [];

  constructor(
    private readonly settings: Settings<T>,
    private readonly to: Subscriber<T[]>,
  ) {
    // eslint-disable-next-line @typescript-eslint/no-deprecated -- as above
    super();
    const { maxSize, maxWeight, maxWaitMs, weigh, closeWhen, onEvent, scheduler } = settings;
    this.maxSize = maxSize;
    this.maxWeight = maxWeight;
    this.weigh = weigh;
    this.closeWhen = closeWhen;
    this.isPlain = (weigh ?? closeWhen) === undefined && maxWeight === Infinity;
    if (maxWaitMs === Infinity && !onEvent) return;
    const alarm = new Alarm(scheduler, () => {
      this.turn(() => {
        this.close('time');
      });
    });
    this.alarm = alarm;
    this.tell = teller(NAME, settings, () => alarm.now());
  }

  get [Symbol.toStringTag](): string {
    return 'Batcher';
  }

  flush(): void {
    this.turn(() => {
      this.close('flush');
    });
  }

  /** The consumer has left, or the stream has ended. */
  override unsubscribe(): void {
    const { alarm, items, tell } = this.self;
    super.unsubscribe();
    alarm?.clear();
    if (items.length > 0) tell?.({ type: 'cancelled', lane: DEFAULT_LANE, count: items.length });
    items.length = 0;
  }

  protected override _next(item: T): void {
    const { self } = this;
    if (self.isBusy) {
      self.later.push(() => {
        self.accept(item);
      });
    } else if (self.isPlain) {
      const size = self.items.push(item);
      if (size < self.maxSize && (size > 1 || self.alarm === undefined)) return;
      self.turn(() => {
        self.grown(size);
      });
    } else {
      self.isBusy = true;
      self.accept(item);
      self.free();
    }
    // The consumer has left: ours has stopped by itself, a source of RxJS 5 or 6 that emits while it is being subscribed to has not.
    if (self.closed) this.unsubscribe();
  }

  protected override _error(error: unknown): void {
    const { self } = this;
    self.turn(() => {
      self.fail(error);
    });
  }

  protected override _complete(): void {
    const { self } = this;
    self.turn(() => {
      self.close('complete');
      self.to.complete();
    });
  }

  /** Does it now, or after what it is busy with. */
  private turn(command: () => void): void {
    if (this.isBusy) this.later.push(command);
    else {
      this.isBusy = true;
      command();
      this.free();
    }
  }

  /** What was asked for meanwhile is done first. */
  private free(): void {
    const { later, to } = this;
    while (later.length > 0) for (const command of later.splice(0)) if (!to.closed) command();
    this.isBusy = false;
  }

  private accept(item: T): void {
    const { weigh, closeWhen } = this;
    try {
      const weight = weigh === undefined ? 1 : weightOf(NAME, weigh, item);
      const sum = this.weight + weight;
      if (sum < this.maxWeight && closeWhen === undefined) {
        // The way of most items.
        this.weight = sum;
        const size = this.items.push(item);
        if (size >= this.maxSize || (size === 1 && this.alarm !== undefined)) this.grown(size);
        return;
      }
      const end = closeWhen && whenToClose(NAME, closeWhen, item, { items: this.items, weight: this.weight, itemWeight: weight });
      if (end === 'before') this.close('closeWhen');
      if (this.weight + weight > this.maxWeight) this.close('weight');
      this.weight += weight;
      this.grown(this.items.push(item));
      if (end === 'after') this.close('closeWhen');
    } catch (error) {
      this.fail(error);
    }
  }

  /** There is one item more: the batch is full, or its time runs from now. */
  private grown(size: number): void {
    const { alarm, to, weight, maxSize } = this;
    const { maxWeight, maxWaitMs } = this.settings;
    if (weight > maxWeight) this.close('oversize');
    else if (size >= maxSize) this.close('size');
    else if (weight >= maxWeight) this.close('weight');
    else if (size === 1 && alarm && !to.closed) {
      this.openedAt = alarm.now();
      alarm.set(this.openedAt + maxWaitMs);
    }
  }

  /** The timer is left alone: the next batch sets it later, and when it fires early it looks again. */
  private close(reason: FlushReason): void {
    const { alarm, items, openedAt, tell, to } = this;
    const size = items.length;
    const weight = this.isPlain ? size : this.weight;
    if (size === 0 || to.closed) return;
    // The batch is taken before it is emitted, so that what comes meanwhile starts a new one.
    this.items = [];
    this.weight = 0;
    this.openedAt = undefined;
    if (tell && alarm)
      tell({ type: 'batchFormed', lane: DEFAULT_LANE, reason, size, weight, waitMs: openedAt === undefined ? 0 : alarm.now() - openedAt });
    to.next(items);
  }

  private fail(error: unknown): void {
    if (this.settings.onSourceError === 'flush') this.close('error');
    this.to.error(error);
  }
}

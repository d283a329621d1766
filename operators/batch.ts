import type { ObservableInput, Observer, OperatorFunction, SchedulerLike, Subscriber } from 'rxjs';
import { Observable, Subscription, timer } from 'rxjs';
import type { CloseWhen } from './options/ask.js';
import { answering, weightOf } from './options/ask.js';
import type { FlowSink, FlushReason } from './options/events.js';
import { EVENT_CHECKS, teller } from './options/events.js';
import { DEFAULT_LANE } from './options/lanes.js';
import { callback, checked, count, durationMs, oneOf, positive } from './options/options.js';
import { attach } from './shell/connect.js';
import { notifier } from './shell/notifier.js';
import { LONGEST_DELAY_MS, schedulerOption } from './shell/scheduler.js';

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
      attach(source, subscriber, new OpenBatch(settings, subscriber));
    });
}

type Settings<T> = ReturnType<typeof readOptions<T>>;

function readOptions<T>(options: BatchOptions<T>) {
  const defaults = { maxSize: 16, maxWaitMs: 20, maxWeight: Infinity, onSourceError: 'flush' } as const;
  return checked(NAME, options, defaults, {
    maxSize: count,
    maxWaitMs: durationMs,
    maxWeight: positive,
    onSourceError: oneOf('flush', 'abort'),
    weigh: callback,
    closeWhen: answering<BatchOptions<T>['closeWhen']>(
      "'before', 'after' or false",
      (end) => end === 'before' || end === 'after' || end === false,
    ),
    flush: notifier,
    scheduler: schedulerOption,
    ...EVENT_CHECKS,
  });
}

/** One subscription. */
class OpenBatch<T> implements Observer<T> {
  private items: T[] = [];
  private weight = 0;
  /** With fewer items, the next one needs no look. */
  private room = 0;
  /** That of every batch; none unless nothing but the size is looked at. */
  private readonly unlooked: number;
  /** When it got its first item. */
  private openedAt = Infinity;
  private timer = Subscription.EMPTY;
  private readonly tell: ReturnType<typeof teller>;
  /** What is to be handed on, oldest first. */
  private readonly due: (() => void)[] = [];
  private isHandingOn = false;

  constructor(
    private readonly settings: Settings<T>,
    private readonly to: Subscriber<T[]>,
  ) {
    const { weigh, closeWhen, maxSize, maxWeight, flush, scheduler } = settings;
    this.unlooked = (weigh ?? closeWhen) || maxWeight < Infinity ? 0 : maxSize - 1;
    this.tell = teller(NAME, settings, () => scheduler.now());
    // Not for Vue to make a proxy of.
    Object.preventExtensions(this);
    to.add(() => {
      this.timer.unsubscribe();
      if (this.items.length > 0) this.tell?.({ type: 'cancelled', lane: DEFAULT_LANE, count: this.items.length });
      this.items = [];
    });
    // Before the source: one that emits at once may make its consumer ask for one.
    to.add(
      (flush as Observable<unknown> | undefined)?.subscribe({
        next: () => {
          this.close('flush');
          this.handOn();
        },
        error: (error) => {
          this.error(error);
        },
      }),
    );
  }

  next(item: T): void {
    const { items } = this;
    if (items.length < this.room) items.push(item);
    else this.look(item);
  }

  /** Small enough to be compiled into what calls it: half of the time of batches by weight. */
  private look(item: T): void {
    const { maxSize, maxWeight, weigh, closeWhen } = this.settings;
    let itemWeight: number;
    let end: ReturnType<CloseWhen<T>> = false;
    try {
      itemWeight = weightOf(NAME, weigh, item);
      if (closeWhen) end = closeWhen(item, { items: this.items, weight: this.weight, itemWeight });
    } catch (error) {
      this.error(error);
      return;
    }
    const { items } = this;
    const size = items.length + 1;
    const weight = this.weight + itemWeight;
    if (size > 1 && size < maxSize && weight < maxWeight && !end) {
      items.push(item);
      this.weight = weight;
    } else this.put(item, itemWeight, end);
  }

  private put(item: T, itemWeight: number, end: ReturnType<CloseWhen<T>>): void {
    const { maxSize, maxWeight } = this.settings;
    if (end === 'before') this.close('closeWhen');
    if (this.weight + itemWeight > maxWeight) this.close('weight');
    const weight = (this.weight += itemWeight);
    const size = this.items.push(item);
    if (weight > maxWeight) this.close('oversize');
    else if (size >= maxSize) this.close('size');
    else if (weight >= maxWeight) this.close('weight');
    else if (end === 'after') this.close('closeWhen');
    else if (size === 1) this.open();
    this.handOn();
  }

  error(error: unknown): void {
    if (this.settings.onSourceError === 'flush') this.close('error');
    this.due.push(() => {
      this.to.error(error);
    });
    this.handOn();
  }

  complete(): void {
    this.close('complete');
    this.due.push(() => {
      this.to.complete();
    });
    this.handOn();
  }

  private open(): void {
    // A callback may have made the consumer leave.
    if (this.to.closed) return;
    this.openedAt = this.settings.scheduler.now();
    this.room = this.unlooked;
    // The timer of the batch before is left alone: it looks again when it fires.
    if (this.timer.closed) this.wait(this.settings.maxWaitMs);
  }

  private wait(delayMs: number): void {
    if (delayMs === Infinity) return;
    this.timer = timer(Math.min(Math.ceil(delayMs), LONGEST_DELAY_MS), this.settings.scheduler).subscribe(() => {
      this.ring();
    });
  }

  private ring(): void {
    const { maxWaitMs, scheduler } = this.settings;
    this.timer.unsubscribe();
    if (this.items.length === 0) return;
    const leftMs = this.openedAt + maxWaitMs - scheduler.now();
    // More than that is left when the clock was put back: nobody knows how long the batch has waited.
    if (leftMs > 0 && leftMs <= maxWaitMs) this.wait(leftMs);
    else {
      this.close('time');
      this.handOn();
    }
  }

  private close(reason: FlushReason): void {
    const { items, openedAt } = this;
    const size = items.length;
    const weight = this.unlooked > 0 ? size : this.weight;
    if (size === 0) return;
    this.items = [];
    this.weight = this.room = 0;
    this.openedAt = Infinity;
    this.due.push(() => {
      this.tell?.({
        type: 'batchFormed',
        lane: DEFAULT_LANE,
        reason,
        size,
        weight,
        waitMs: Math.max(0, this.settings.scheduler.now() - openedAt),
      });
      this.to.next(items);
    });
  }

  /** In a loop: what the consumer sends meanwhile is handed on afterwards. */
  private handOn(): void {
    const { due } = this;
    if (this.isHandingOn) return;
    this.isHandingOn = true;
    for (const step of due) if (!this.to.closed) step();
    due.length = 0;
    this.isHandingOn = false;
  }
}

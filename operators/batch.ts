import type { ObservableInput, Observer, OperatorFunction, SchedulerLike, Subscriber } from 'rxjs';
import { Observable, Subscription } from 'rxjs';
import type { CloseWhen } from './options/ask.js';
import { weightOf, whenToClose } from './options/ask.js';
import { BATCH } from './options/defaults.js';
import type { FlowSink, FlushReason } from './options/events.js';
import { EVENT_CHECKS, teller } from './options/events.js';
import { DEFAULT_LANE } from './options/lanes.js';
import { callback, checked, count, durationMs, oneOf, positive } from './options/options.js';
import { attach } from './shell/streams/connect.js';
import { notifier } from './shell/streams/notifier.js';
import { LONGEST_DELAY_MS, schedulerOption } from './shell/time/scheduler.js';

export type { BatchState } from './options/ask.js';

/** @stable */
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
  /** Listener for every batch (`batchFormed`) and for a cancelled open batch (`cancelled`). @defaultValue none */
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
 * @stable
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
  return checked(NAME, options, BATCH, {
    maxSize: count,
    maxWaitMs: durationMs,
    maxWeight: positive,
    onSourceError: oneOf('flush', 'abort'),
    weigh: callback,
    closeWhen: callback,
    flush: notifier,
    scheduler: schedulerOption,
    ...EVENT_CHECKS,
  });
}

/** One subscription. What arrives while a batch is emitted, or a callback asked, is done afterwards. */
class OpenBatch<T> implements Observer<T> {
  private timer: Subscription | undefined = undefined;
  private readonly tell: ReturnType<typeof teller>;
  private readonly later: (() => void)[] = [];
  private isBusy = false;
  private items: T[] = [];
  /** Theirs; not kept when nothing but the size is looked at. */
  private weight = 0;
  /** When the open batch got its first item; recorded only with `maxWaitMs` or a listener. */
  private openedAt = Infinity;
  /** With fewer items there is nothing to do but to take one more. */
  private room = 0;
  /** That of every batch once it is open; 0 unless nothing but the size is looked at. */
  private readonly openRoom: number;

  constructor(
    private readonly settings: Settings<T>,
    private readonly to: Subscriber<T[]>,
  ) {
    const { weigh, closeWhen, maxSize, maxWeight, flush, scheduler } = settings;
    this.openRoom = (weigh ?? closeWhen) || maxWeight < Infinity ? 0 : maxSize - 1;
    this.tell = teller(NAME, settings, () => scheduler.now());
    // Not for Vue to make a proxy of.
    Object.preventExtensions(this);
    to.add(() => {
      this.timer?.unsubscribe();
      if (this.items.length > 0) this.tell?.({ type: 'cancelled', lane: DEFAULT_LANE, count: this.items.length });
      this.items = [];
    });
    // Before the source: one that emits at once may make its consumer ask for one.
    const next = (): void => {
      this.turn(() => {
        this.close('flush');
      });
    };
    const error = this.error.bind(this);
    to.add((flush as Observable<unknown> | undefined)?.subscribe({ next, error }));
  }

  next(item: T): void {
    const { items } = this;
    if (items.length < this.room) items.push(item);
    else this.enter(item);
  }

  error(error: unknown): void {
    this.turn(() => {
      this.fail(error);
    });
  }

  complete(): void {
    this.turn(() => {
      this.close('complete');
      this.to.complete();
    });
  }

  private enter(item: T): void {
    if (this.isBusy) {
      this.later.push(this.accept.bind(this, item));
      return;
    }
    this.isBusy = true;
    if (this.openRoom > 0) this.put(item, 1, false);
    else this.accept(item);
    if (this.later.length > 0) this.free();
    this.isBusy = false;
  }

  /** Does it now, or after what it is busy with. */
  private turn(step: () => void): void {
    this.later.push(step);
    if (!this.isBusy) this.free();
  }

  private free(): void {
    this.isBusy = true;
    while (this.later.length > 0) for (const step of this.later.splice(0)) if (!this.to.closed) step();
    this.isBusy = false;
  }

  /** Apart from {@link put}, so that it is small enough to be compiled into what calls it: half of the time of batches by weight. */
  private accept(item: T): void {
    const { items, weight } = this;
    const { maxSize, maxWeight, weigh, closeWhen } = this.settings;
    let itemWeight: number;
    let end: ReturnType<CloseWhen<T>> = false;
    try {
      itemWeight = weightOf(NAME, weigh, item);
      if (closeWhen) end = whenToClose(NAME, closeWhen, item, { items, weight, itemWeight });
    } catch (error) {
      this.fail(error);
      return;
    }
    const sum = weight + itemWeight;
    const size = items.length + 1;
    if (size > 1 && size < maxSize && sum < maxWeight && !end) {
      this.weight = sum;
      items.push(item);
    } else this.put(item, itemWeight, end);
  }

  private put(item: T, added: number, end: ReturnType<CloseWhen<T>>): void {
    const { maxSize, maxWeight } = this.settings;
    if (end === 'before') this.close('closeWhen');
    if (this.weight + added > maxWeight) this.close('weight');
    const sum = (this.weight += added);
    const size = this.items.push(item);
    if (sum > maxWeight) this.close('oversize');
    else if (size >= maxSize) this.close('size');
    else if (sum >= maxWeight) this.close('weight');
    else if (end === 'after') this.close('closeWhen');
    else if (size === 1) this.open();
  }

  private open(): void {
    const { maxWaitMs, scheduler } = this.settings;
    this.room = this.openRoom;
    // A callback may have made the consumer leave.
    if (this.to.closed || (maxWaitMs === Infinity && !this.tell)) return;
    this.openedAt = scheduler.now();
    // The timer of the batch before is left alone: it looks again when it fires.
    if (!this.timer) this.wait(maxWaitMs);
  }

  private wait(delayMs: number): void {
    if (delayMs === Infinity) return;
    // Made first: some schedulers run a delay of 0 at once, and the next batch may have its timer then.
    const timer = (this.timer = new Subscription());
    timer.add(
      this.settings.scheduler.schedule(
        () => {
          this.ring();
        },
        Math.min(Math.ceil(delayMs), LONGEST_DELAY_MS),
      ),
    );
  }

  private ring(): void {
    const { maxWaitMs, scheduler } = this.settings;
    this.timer = undefined;
    if (this.items.length === 0) return;
    const leftMs = this.openedAt + maxWaitMs - scheduler.now();
    // More than `maxWaitMs` is left when the clock was set back: how long the batch has waited is then unknown, so it closes now.
    if (leftMs > 0 && leftMs <= maxWaitMs) this.wait(leftMs);
    else
      this.turn(() => {
        this.close('time');
      });
  }

  private close(reason: FlushReason): void {
    const { items, openedAt } = this;
    const size = items.length;
    if (size === 0 || this.to.closed) return;
    const weight = this.openRoom > 0 ? size : this.weight;
    // The batch is taken before it is emitted, so that what comes meanwhile starts a new one.
    this.items = [];
    this.weight = this.room = 0;
    this.openedAt = Infinity;
    this.tell?.({
      type: 'batchFormed',
      lane: DEFAULT_LANE,
      reason,
      size,
      weight,
      waitMs: Math.max(0, this.settings.scheduler.now() - openedAt),
    });
    this.to.next(items);
  }

  private fail(error: unknown): void {
    if (this.settings.onSourceError === 'flush') this.close('error');
    this.to.error(error);
  }
}

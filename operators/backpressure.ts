import type { MonoTypeOperatorFunction, ObservableInput } from 'rxjs';
import { Observable } from 'rxjs';
import { Backlog } from './kernel/queues/line.js';
import type { Refusal } from './kernel/waiting/bounds.js';
import { boundsOf, overweight, pushEvicting, refusal } from './kernel/waiting/bounds.js';
import { BACKPRESSURE } from './options/defaults.js';
import { FlowConfigError } from './options/errors.js';
import type { FlowSink } from './options/events.js';
import { DEFAULT_LANE } from './options/lanes.js';
import { checked, countFromZero, oneOf, unchecked } from './options/options.js';
import type { Overflow } from './options/types.js';
import { overflowed } from './options/waiting-errors.js';
import { asked } from './shell/calls/asked.js';
import { READY_CHECKS, ReadyGate } from './shell/gates/ready-gate.js';
import { waterMarks } from './shell/gates/water-marks.js';

/** @stable */
export interface BackpressureOptions<T> {
  /**
   * Whether the consumer takes items as they come: a level, busy until the first value. Looked at after every item that is handed on.
   * Its completion keeps the last level, its error is the stream's.
   */
  readonly ready: ObservableInput<boolean>;
  /** Most total weight waiting, in the unit `weigh` returns. @defaultValue Infinity */
  readonly maxWeight?: number;
  /** Weight of one item, finite and >= 0; asked only of items that have to wait. @defaultValue `() => 1` */
  readonly weigh?: (item: T) => number;
  /**
   * What an error of the source does to what waits: `'flush'` hands it on as the consumer gets ready and errors then, `'abort'` drops it
   * and errors at once. @defaultValue 'abort'
   */
  readonly onSourceError?: 'flush' | 'abort';
  /** What events call it, as `instance`. @defaultValue a number of its own */
  readonly name?: string;
  /** Most items waiting; 0, with `overflow` 'latest' or 'dropNewest', passes items only while the consumer is idle. @defaultValue 1000 */
  readonly maxQueued?: number;
  /**
   * What happens when one item too many has to wait: `'error'` errors the stream, `'dropOldest'` makes room for it, `'dropNewest'` drops
   * it, and `'latest'` drops all that waits in its favour. A function is asked each time. @defaultValue 'error'
   */
  readonly overflow?: Exclude<Overflow, 'dropLowest'> | (() => Exclude<Overflow, 'dropLowest'>);
  /** Items waiting from which on the pressure is high. @defaultValue 0.8 of `maxQueued` */
  readonly highWater?: number;
  /** Items waiting from which down it is low again. @defaultValue 0.5 of `maxQueued` */
  readonly lowWater?: number;
  /** Called with every item that is dropped for want of room, and why: the `overflow`, or `'oversize'` for one above `maxWeight`. @defaultValue none */
  readonly onDrop?: (item: T, policy: 'dropOldest' | 'dropNewest' | 'latest' | 'oversize') => void;
  /** Listener for pressure (`pressure`), dropped items (`dropped`) and items that still waited when the stream was unsubscribed from (`cancelled`). @defaultValue none */
  readonly onEvent?: FlowSink;
}

const NAME = 'backpressure';

/**
 * Keeps items for a consumer that is busy at times, within a bound, and hands them on as it gets ready.
 *
 * ```text marbles/backpressure
 * source  -a-b-c-d-------e-|
 * ready   t---f-----t------!
 *         backpressure({ ready })
 * result  -a-b------(cd)-e-|
 *         t = true
 *         f = false
 * ```
 *
 * - **Emits when** an item comes and the consumer is ready, or when it gets ready and something waits: one after the other, in the order
 *   they came, for as long as `ready` says true. The level is looked at after every item, so a consumer that says false while it is handed
 *   one gets one at a time.
 * - **Holds at most** `maxQueued` items and `maxWeight` weight. What the consumer itself sends in while it is handed an item counts. What
 *   `weigh` or `onDrop` sends in joins when it has returned; what a listener of `pressure` events sends in joins at once, so that it sees how far it can go.
 * - **Drops** what `overflow` says; every dropped item is reported to `onDrop` and as an event.
 * - **Completes when** the source has completed and nothing waits any more.
 * - **Errors when** the source errors (with `onSourceError: 'flush'` after what waits), `ready` errors, there is no room under `overflow:
 *   'error'` (`OverflowError`, `ItemTooHeavyError`), or a callback throws or returns something unusable (`CallbackError`).
 * - **On unsubscribe** what waits is dropped, and a `pressure` event says that it is low.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is missing, unknown or out of range.
 * @example
 * ```ts
 * import { BehaviorSubject, of } from 'rxjs';
 * import { backpressure } from 'sluice/operators';
 *
 * const ready = new BehaviorSubject(false);
 * const seen: number[] = [];
 * of(1, 2, 3, 4)
 *   .pipe(backpressure({ ready, maxQueued: 2, overflow: 'dropOldest' }))
 *   .subscribe((item) => seen.push(item));
 * ready.next(true);
 * seen; // => [3, 4]
 * ```
 * @see {@link conflateWhileBusy} when what waits can be made into one. {@link bulkheadMap} when the consumer is a call with a limit: it has
 *   the queue and the limit in one, and `dropLowest`. RxJS's `auditTime`, `throttleTime`, `debounceTime` and `sample` when time decides, not the consumer.
 */
export function backpressure<T>(options: BackpressureOptions<T>): MonoTypeOperatorFunction<T> {
  const settings = readOptions(options);
  return (source) =>
    new Observable((subscriber) => {
      new Queue(settings, subscriber).listen(source);
    });
}

type Settings<T> = ReturnType<typeof readOptions<T>>;

function readOptions<T>(options: BackpressureOptions<T>) {
  const settings = checked(NAME, options, BACKPRESSURE, {
    ...READY_CHECKS,
    maxQueued: countFromZero,
    overflow: asked(oneOf('error', 'dropOldest', 'dropNewest', 'latest'), 'error'),
    highWater: unchecked,
    lowWater: unchecked,
  });
  const { maxQueued, overflow } = settings;
  if (maxQueued === 0 && (overflow === 'error' || overflow === 'dropOldest'))
    throw new FlowConfigError(NAME, 'maxQueued', "a whole number >= 1 or Infinity (0 with `overflow` 'latest' or 'dropNewest')", maxQueued);
  return { ...settings, ...waterMarks(NAME, options, maxQueued), bounds: boundsOf(settings), operator: NAME };
}

interface Queued<T> {
  readonly item: T;
  readonly weight: number;
}

/** What waits in one subscription. */
class Queue<T> extends ReadyGate<T, T, Settings<T>> {
  readonly #queued = new Backlog<Queued<T>>();
  #weight = 0;
  #isHigh = false;

  get length(): number {
    return this.#queued.length;
  }

  push(entry: Queued<T>): void {
    this.#queued.push(entry);
    this.#weight += entry.weight;
  }

  shift(): Queued<T> {
    const entry = this.#queued.shift() as Queued<T>;
    // No rounding errors stay behind in an empty queue.
    this.#weight = this.length === 0 ? 0 : this.#weight - entry.weight;
    return entry;
  }

  protected pass(item: T): T {
    return item;
  }

  /** @throws OverflowError, or CallbackError when `onDrop` throws */
  protected hold(item: T, weight: number): void {
    const { bounds } = this.settings;
    const full = (): Refusal | undefined => refusal(bounds, this.length) ?? overweight(bounds, this.#weight + weight);
    const refused = full();
    if (refused === undefined) {
      this.push({ item, weight });
      return;
    }
    if (refused.policy === 'error') throw overflowed(NAME, refused);
    const dropped = pushEvicting(this, { item, weight }, refused, () => full() !== undefined);
    this.drop(
      dropped.map((entry) => entry.item),
      refused.policy,
    );
  }

  protected take(): T {
    return this.shift().item;
  }

  protected clear(): void {
    this.#queued.clear();
    this.#weight = 0;
  }

  /** Tells when the pressure has become high, or low again: by number, and in the same proportions by weight. */
  protected override changed(): void {
    const { highWater, lowWater, maxWeight, tell } = this.settings;
    const { length: queued } = this;
    const swings = this.#isHigh
      ? queued <= lowWater && this.#weight <= maxWeight * 0.5
      : queued >= highWater || this.#weight >= maxWeight * 0.8;
    if (!swings) return;
    this.#isHigh = !this.#isHigh;
    tell?.({ type: 'pressure', lane: DEFAULT_LANE, high: this.#isHigh, queued });
  }
}

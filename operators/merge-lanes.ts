import type { ObservableInput, ObservedValueOf, SchedulerLike } from 'rxjs';
import { asapScheduler, Observable } from 'rxjs';
import type { Fairness, FairnessRule } from './kernel/queues/discipline.js';
import type { Overflow } from './kernel/queues/queue.js';
import type { LaneOptions } from './lanes.js';
import { fairnessOf } from './lanes.js';
import type { FlowSink } from './options/events.js';
import { EVENT_CHECKS } from './options/events.js';
import { checkedLanes } from './options/lanes.js';
import { callback, checked, count, flag, oneOf, optional, positive, unchecked } from './options/options.js';
import { schedulerOption } from './shell/alarm.js';
import { connect } from './shell/connect.js';
import type { LaneBatch, LaneMergerConfig } from './shell/lane-merger.js';
import { LaneMerger } from './shell/lane-merger.js';
import { notifier, stream } from './shell/notifier.js';

export type { LaneBatch } from './shell/lane-merger.js';

/** A lane and where its items come from. */
export interface MergeLane<T, N extends string = string> extends Omit<LaneOptions, 'name' | 'overflow'> {
  readonly name: N;
  /** The items of the lane: an Observable, promise or iterable. */
  readonly source: ObservableInput<T>;
  /** Longest an item waits for company, in ms. 0 = until the end of the frame. @defaultValue 0 for the first lane, 50 for the second, 500 for all others */
  readonly maxWaitMs?: number;
  /** What happens at the lane's bound. @defaultValue the operator's `overflow` */
  readonly overflow?: LaneOverflow;
}

/** A lane that is full makes room in itself: bounds are never shared, so there is no lower lane to drop from. */
export type LaneOverflow = Exclude<Overflow, 'dropLowest'>;

export interface MergeLanesOptions<T> {
  /** Most items in one batch. @defaultValue 16 */
  readonly maxSize?: number;
  /** Most total weight in one batch, in the unit `weigh` returns; an item that is heavier is emitted alone. @defaultValue Infinity */
  readonly maxWeight?: number;
  /** Weight of one item, for example its token count: finite and >= 0. @defaultValue `() => 1` */
  readonly weigh?: (item: T) => number;
  /** Which lane leads a batch that is full, and in which order lanes fill it up. @defaultValue `strictWithFloor()` */
  readonly fairness?: Fairness;
  /** Emits all that waits at each of its values. Its completion is ignored, its error is the stream's. @defaultValue none */
  readonly flush?: ObservableInput<unknown>;
  /** Most items waiting in each lane; never a bound that lanes share. @defaultValue Infinity */
  readonly maxQueued?: number;
  /** What happens at a lane's bound: `'error'` errors the stream, the others drop an item of that lane. @defaultValue 'error' */
  readonly overflow?: LaneOverflow;
  /** The error of one lane errors the stream, or ends that lane alone and is reported as `swallowed`. @defaultValue 'propagate' */
  readonly laneError?: 'propagate' | 'isolate';
  /** Completes with the first lane that does, instead of the last. @defaultValue false */
  readonly eagerComplete?: boolean;
  /** Whether all that waits is emitted before an error (of a lane, a callback or `flush`) or dropped. @defaultValue 'flush' */
  readonly onSourceError?: 'flush' | 'abort';
  /** Clock and timer. @defaultValue `asyncScheduler`, and `asapScheduler` for the end of the frame */
  readonly scheduler?: SchedulerLike;
  /** Told of every batch (`batchFormed`), dropped item (`dropped`), isolated error (`swallowed`) and lane given up (`cancelled`). @defaultValue none */
  readonly onEvent?: FlowSink;
  /** Stands in every event as `instance`. @defaultValue a number */
  readonly name?: string;
}

const DEFAULTS = {
  maxSize: 16,
  maxWeight: Infinity,
  maxQueued: Infinity,
  overflow: 'error',
  laneError: 'propagate',
  eagerComplete: false,
  onSourceError: 'flush',
} as const;

/** How long the first lane waits, the second, and all others. */
const WAITS_MS = [0, 50, 500] as const;

const NAME = 'mergeLanes';
const OVERFLOWS = ['error', 'dropOldest', 'dropNewest', 'latest'] as const satisfies readonly LaneOverflow[];

/**
 * Merges streams of different urgency into batches: an urgent item sends a batch at once, and whatever waits in the lower lanes rides
 * along in the places that are left.
 *
 * ```text marbles/mergeLanes
 * high    ------(AB)--------------C---|
 * low     --a---b---c---d---e---f-----|
 *         mergeLanes([high, low]) with maxWaitMs 0 and 12
 * result  ------x---------------y-z---|
 *         x = "ABab by high: urgent"
 *         y = "cdef by low: time"
 *         z = "C by high: urgent"
 * ```
 *
 * - **Emits when** a lane's oldest item is `maxWaitMs` old, the lanes together reach `maxSize` or `maxWeight`, or `flush` emits. Never an
 *   empty batch. The batch starts with the oldest item of the lane that triggered it; the rest is filled by `fairness`, first in, first
 *   out inside a lane. An item that does not fit closes its lane for this batch; others may still fill it up.
 * - **Holds at most** `maxQueued` items of each lane, and what the consumer itself sends into a lane while it is handed a batch.
 * - **Drops** nothing, unless a lane's `overflow` says so.
 * - **Completes when** all lanes have completed (with `eagerComplete` the first), after what still waits.
 * - **Errors when** a lane errors (unless `laneError: 'isolate'`) or `flush` does, `weigh` throws or returns something unusable
 *   (`CallbackError`), or a lane overflows (`OverflowError`); what waits is emitted first,
 *   unless `onSourceError: 'abort'`.
 * - **On unsubscribe** all lanes are left, what waits is dropped and the timers are cleared.
 *
 * The loop is open: priority acts when a batch is not afterwards. Behind `mergeMap(call, 4)` an urgent batch queues up like any
 * other.
 *
 * @param lanes - Most urgent first; they are subscribed to in this order.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when a lane or an option is unknown or out of range.
 * @example
 * ```ts
 * import { of } from 'rxjs';
 * import { mergeLanes } from 'sluice/operators';
 *
 * const seen: string[][] = [];
 * mergeLanes([
 *   { name: 'person', source: of('question') },
 *   { name: 'nightly', source: of('report', 'backup') },
 * ]).subscribe(({ items }) => seen.push(items));
 * seen; // => [['question', 'report', 'backup']]
 * ```
 * @see {@link batchMap} with `queue: lanes([…])` when the batches are calls with a limit on how many run at once: there an urgent item goes before
 *   everything that has not been sent. {@link batch} when all items are alike.
 */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- a lane of whatever items; which, is inferred
export function mergeLanes<const L extends readonly MergeLane<any>[]>(
  lanes: L,
  options: MergeLanesOptions<ObservedValueOf<L[number]['source']>> = {},
): Observable<LaneBatch<ObservedValueOf<L[number]['source']>, L[number]['name']>> {
  type Item = ObservedValueOf<L[number]['source']>;
  const config = readOptions<Item>(lanes, options);
  const sources = lanes.map(({ source }, i) => stream<Item>(NAME, `lanes[${String(i)}].source`, source as ObservableInput<Item>));
  const flush$ = notifier(NAME, 'flush', options.flush);

  return new Observable((subscriber) => {
    const merger = new LaneMerger<Item, L[number]['name']>(config, subscriber);
    subscriber.add(() => {
      merger.stop();
    });
    // `flush` first: a lane that emits at once may make its consumer ask for one.
    if (flush$) {
      connect(flush$, subscriber, {
        next: () => {
          merger.flush();
        },
        error: (error) => {
          merger.error(error);
        },
        // No more flushes; the batches go on.
        complete: () => undefined,
      });
    }
    for (const [lane, source] of sources.entries()) {
      if (subscriber.closed) return;
      connect(source, subscriber, {
        next: (item) => {
          merger.next(lane, item);
        },
        error: (error) => {
          merger.laneError(lane, error);
        },
        complete: () => {
          merger.laneComplete();
        },
      });
    }
  });
}

function readOptions<T>(list: readonly MergeLane<unknown>[], options: MergeLanesOptions<T>): LaneMergerConfig<T> {
  const { maxQueued, overflow, fairness, ...settings } = checked(NAME, options, DEFAULTS, {
    maxSize: count,
    maxWeight: positive,
    fairness: fairnessOf,
    maxQueued: count,
    overflow: oneOf(...OVERFLOWS),
    laneError: oneOf('propagate', 'isolate'),
    eagerComplete: flag,
    onSourceError: oneOf('flush', 'abort'),
    weigh: callback,
    flush: notifier,
    scheduler: schedulerOption,
    ...EVENT_CHECKS,
  });
  const rule = fairness as FairnessRule;
  const own = { source: unchecked, overflow: optional(oneOf(...OVERFLOWS)), maxQueued: optional(count) };
  const lanes = checkedLanes(NAME, list, rule, own).map((lane, i) => ({
    ...lane,
    waitMs: lane.maxWaitMs ?? WAITS_MS[i] ?? WAITS_MS[2],
    maxQueued: lane.maxQueued ?? maxQueued,
    overflow: lane.overflow ?? overflow,
  }));
  return { ...settings, operator: NAME, lanes, fairness: rule, frames: options.scheduler ?? asapScheduler };
}

import type { ObservableInput, ObservedValueOf, SchedulerLike, Subscriber } from 'rxjs';
import { asapScheduler, noop, Observable, Subscription } from 'rxjs';
import type { Fairness, FairnessRule } from './kernel/queues/discipline.js';
import { LanesQueue } from './kernel/queues/lanes-queue.js';
import type { Overflow, Waiter } from './kernel/queues/queue.js';
import { boundsOf, evictable, refusal } from './kernel/waiting/bounds.js';
import type { LaneOptions } from './lanes.js';
import { fairnessOf } from './lanes.js';
import { weightOf } from './options/ask.js';
import { MERGE_LANES, MERGE_LANES_WAIT_MS } from './options/defaults.js';
import type { FlowSink, FlushReason } from './options/events.js';
import { EVENT_CHECKS, teller } from './options/events.js';
import type { CheckedLane } from './options/lanes.js';
import { checkedLanes } from './options/lanes.js';
import { callback, checked, count, oneOf, optional, positive } from './options/options.js';
import { overflowed } from './options/waiting-errors.js';
import { attach } from './shell/streams/connect.js';
import { notifier, stream } from './shell/streams/notifier.js';
import type { Trampoline } from './shell/streams/trampoline.js';
import { trampoline } from './shell/streams/trampoline.js';
import { Alarm, schedulerOption } from './shell/time/alarm.js';
import { after } from './shell/time/timer.js';

/**
 * One batch made of several lanes.
 * @stable
 */
export interface LaneBatch<T, N extends string = string> {
  /** The lane that triggered the batch: the one whose wait was over, else the one whose turn it was. Its oldest item is the first. */
  readonly lane: N;
  /** Why the batch was closed. */
  readonly reason: FlushReason;
  /** Total weight of the items. */
  readonly weight: number;
  readonly items: T[];
  /** The lane of each item, in the order of `items`. */
  readonly lanes: N[];
}

/**
 * A lane and where its items come from.
 * @stable
 */
export interface MergeLane<T, N extends string = string> extends Omit<LaneOptions, 'name' | 'overflow' | 'reserve'> {
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

/** @stable */
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
  readonly errors?: 'propagate' | 'isolate';
  /** Whether all that waits is emitted before an error (of a lane, a callback or `flush`) or dropped. @defaultValue 'flush' */
  readonly onSourceError?: 'flush' | 'abort';
  /** Clock and timer. @defaultValue `asyncScheduler`, and `asapScheduler` for the end of the frame */
  readonly scheduler?: SchedulerLike;
  /** Listener for every batch (`batchFormed`), dropped item (`dropped`), isolated error (`swallowed`) and cancelled lane (`cancelled`). @defaultValue none */
  readonly onEvent?: FlowSink;
  /** Stands in every event as `instance`. @defaultValue a number */
  readonly name?: string;
}

const NAME = 'mergeLanes';
const OVERFLOWS = ['error', 'dropOldest', 'dropNewest', 'latest'] as const satisfies readonly LaneOverflow[];

/**
 * Merges streams of different urgency into batches: an urgent item sends a batch at once, and whatever waits in the lower lanes rides
 * along in the places that are left.
 *
 * ```text marbles/mergeLanes
 * high    ------(AB)--------------C---|
 * low     --a---b---c---d---e---f-----|
 *         mergeLanes([high, low]), low = { maxWaitMs: 12 }
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
 * - **Completes when** all lanes have completed after what still waits.
 * - **Errors when** a lane errors (unless `errors: 'isolate'`) or `flush` does, `weigh` throws or returns something unusable
 *   (`CallbackError`), or a lane overflows (`OverflowError`); what waits is emitted first,
 *   unless `onSourceError: 'abort'`.
 * - **On unsubscribe** all lanes are left, what waits is dropped and the timers are cleared.
 *
 * The loop is open: priority acts when a batch is not afterwards. Behind `mergeMap(call, 4)` an urgent batch queues up like any
 * other.
 *
 * @stable
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
  const settings = readOptions<ObservedValueOf<L[number]['source']>>(lanes, options);
  return new Observable((subscriber) => {
    new LaneMerger(settings, subscriber).start();
  });
}

type Settings<T> = ReturnType<typeof readOptions<T>>;

function readOptions<T>(list: readonly MergeLane<unknown>[], options: MergeLanesOptions<T>) {
  const settings = checked(NAME, options, MERGE_LANES, {
    maxSize: count,
    maxWeight: positive,
    fairness: fairnessOf,
    maxQueued: count,
    overflow: oneOf(...OVERFLOWS),
    errors: oneOf('propagate', 'isolate'),
    onSourceError: oneOf('flush', 'abort'),
    weigh: callback,
    flush: notifier,
    scheduler: schedulerOption,
    ...EVENT_CHECKS,
  });
  const fairness = settings.fairness as FairnessRule;
  const own = { source: stream, overflow: optional(oneOf(...OVERFLOWS)), maxQueued: optional(count) };
  const lanes = (checkedLanes(NAME, list, fairness, own) as readonly (CheckedLane & { source: Observable<T> })[]).map((lane, i) => ({
    ...lane,
    /** How long its items wait for company, in ms. */
    waitMs: lane.maxWaitMs ?? MERGE_LANES_WAIT_MS[i] ?? MERGE_LANES_WAIT_MS[2],
  }));
  // Each lane by itself: there is no bound that they share.
  const { maxQueued: most, overflow: policy } = settings;
  const bounds = boundsOf({ lanes: lanes.map(({ name, maxQueued = most, overflow = policy }) => ({ name, maxQueued, overflow })) });
  const flush = settings.flush as Observable<unknown> | undefined;
  // Until the end of the current frame an urgent item waits for the rest of its burst.
  return { ...settings, lanes, bounds, fairness, flush, frames: options.scheduler ?? asapScheduler };
}

class WaitingItem<T> implements Waiter<WaitingItem<T>> {
  previous: WaitingItem<T> | undefined = undefined;
  next: WaitingItem<T> | undefined = undefined;

  constructor(
    readonly item: T,
    readonly lane: number,
    readonly weight: number,
    readonly at: number,
    readonly seq: number,
  ) {}
}

/**
 * One subscription: items wait in their lanes until a batch is due, which takes those of other lanes along.
 * Everything that happens while a batch is being handed out waits its turn.
 */
class LaneMerger<T, N extends string> {
  private readonly queue: LanesQueue<WaitingItem<T>>;
  private readonly alarm: Alarm;
  private readonly tell: ReturnType<typeof teller>;
  private readonly enqueue: Trampoline;
  /** Total weight of what waits. */
  private weight = 0;
  /** Lanes that may still send. */
  private open: number;
  /** Ends the current frame. */
  private frame: Subscription | undefined = undefined;
  private accepted = 0;
  private batches = 0;

  constructor(
    private readonly settings: Settings<T>,
    private readonly to: Subscriber<LaneBatch<T, N>>,
  ) {
    const { lanes, fairness, maxSize, scheduler } = settings;
    this.enqueue = trampoline(to);
    this.queue = new LanesQueue(lanes, fairness, maxSize, false);
    this.open = lanes.length;
    this.alarm = new Alarm(scheduler, () => {
      this.enqueue(this.ring);
    });
    this.tell = teller(NAME, settings, () => this.alarm.now());
  }

  start(): void {
    const { to, enqueue, fail } = this;
    const { flush, lanes, errors } = this.settings;
    to.add(() => {
      this.stop();
    });
    const error = (thrown: unknown): void => {
      enqueue(fail, thrown);
    };
    // `flush` first: a lane that emits at once may make its consumer ask for one. When it has completed there are no more, and the batches go on.
    if (flush) {
      const next = (): void => {
        enqueue(this.emitAll, 'flush');
      };
      attach(flush, to, { next, error, complete: noop });
    }
    for (const [lane, { source, name }] of lanes.entries()) {
      if (to.closed) return;
      attach(source, to, {
        next: (item) => {
          enqueue(this.accept, item, lane);
        },
        error:
          errors === 'propagate'
            ? error
            : () => {
                enqueue(() => {
                  this.tell?.({ type: 'swallowed', lane: name });
                  this.ended();
                });
              },
        complete: () => {
          enqueue(this.ended);
        },
      });
    }
  }

  /** The consumer has left, or the stream has ended. */
  private stop(): void {
    const { queue, tell } = this;
    this.alarm.clear();
    this.frame?.unsubscribe();
    if (tell === undefined) return;
    for (let lane = queue.after(-1); lane !== -1; lane = queue.after(lane))
      tell({ type: 'cancelled', lane: this.nameOf(lane), count: queue.count(lane) });
  }

  // ---- accepting ----------------------------------------------------------------------------------------------------

  private readonly accept = (item: T, lane: number): void => {
    const { weigh, maxSize, maxWeight } = this.settings;
    const { queue } = this;
    let isFirst: boolean;
    try {
      const weight = weightOf(NAME, weigh, item);
      if (!this.makeRoom(lane)) return;
      isFirst = queue.count(lane) === 0;
      queue.push(new WaitingItem(item, lane, weight, this.alarm.now(), this.accepted++));
      this.weight += weight;
    } catch (error) {
      this.fail(error);
      return;
    }
    while (!this.to.closed && (queue.size >= maxSize || this.weight >= maxWeight))
      this.emit(queue.lead(), queue.size >= maxSize ? 'size' : 'weight');
    // Whatever waits ahead of it in its lane is awaited already, and is due earlier.
    if (isFirst && queue.count(lane) > 0) this.await(lane);
  };

  /** Applies the lane's overflow policy; false when the newcomer is the one to go. @throws OverflowError */
  private makeRoom(lane: number): boolean {
    const { queue } = this;
    const { bounds } = this.settings;
    const refused = refusal(bounds, queue.size, lane, queue.count(lane));
    if (refused === undefined) return true;
    const { policy } = refused;
    if (policy === 'error') throw overflowed(NAME, refused);
    const name = this.nameOf(lane);
    const evicted = evictable(queue, lane, bounds, refused);
    for (const entry of evicted) {
      queue.remove(entry);
      this.less(entry.weight);
      this.tell?.({ type: 'dropped', lane: name, policy, seq: entry.seq });
    }
    if (evicted.length > 0) return true;
    this.tell?.({ type: 'dropped', lane: name, policy, seq: this.accepted++ });
    return false;
  }

  /** Sees to it that the lane's oldest item does not wait too long. */
  private await(lane: number): void {
    if (this.to.closed) return;
    if (this.laneAt(lane).waitMs > 0) this.alarm.setBy(this.dueFrom(lane));
    else if (this.frame === undefined) {
      // Kept first: some schedulers run a delay of 0 at once.
      this.frame = new Subscription();
      after(this.settings.frames, 0, this.endFrame, this.frame);
    }
  }

  private readonly endFrame = (): void => {
    this.frame = undefined;
    this.enqueue(this.ring);
  };

  private readonly ring = (): void => {
    const { queue, alarm } = this;
    const now = alarm.now();
    for (let lane = this.due(now); lane !== -1; lane = this.due(now)) this.emit(lane, this.laneAt(lane).waitMs === 0 ? 'urgent' : 'time');
    let at = Infinity;
    for (let lane = queue.after(-1); lane !== -1; lane = queue.after(lane)) at = Math.min(at, this.dueFrom(lane));
    if (!this.to.closed) alarm.set(at);
  };

  // ---- emitting -----------------------------------------------------------------------------------------------------

  private readonly emitAll = (reason: FlushReason): void => {
    const { queue, to } = this;
    while (!to.closed && queue.size > 0) this.emit(queue.lead(), reason);
  };

  /** The lane whose turn it is, if its oldest item has waited long enough, else the most urgent lane whose oldest item has; -1 when there is none, or the subscriber has left. */
  private due(now: number): number {
    const { queue, to } = this;
    const lead = queue.lead();
    if (to.closed || lead === -1) return -1;
    if (this.dueFrom(lead) <= now) return lead;
    for (let lane = queue.after(-1); lane !== -1; lane = queue.after(lane)) if (this.dueFrom(lane) <= now) return lane;
    return -1;
  }

  /** When the oldest item of a lane that is not empty has waited long enough. */
  private dueFrom(lane: number): number {
    return (this.queue.oldest(lane) as WaitingItem<T>).at + this.laneAt(lane).waitMs;
  }

  /** Emits one batch. */
  private emit(trigger: number, reason: FlushReason): void {
    const { maxSize, maxWeight } = this.settings;
    const entries = this.queue.plan(trigger, maxSize, maxWeight);
    const weight = entries.reduce((sum, entry) => sum + entry.weight, 0);
    // Taken before it is emitted, so what the consumer sends back goes into a fresh batch.
    this.queue.takeAll(entries);
    this.less(weight);
    const why = weight > maxWeight ? 'oversize' : reason;
    const lane = this.nameOf(trigger);
    this.tell?.({
      type: 'batchFormed',
      lane,
      batchId: `b${this.batches++}`,
      reason: why,
      size: entries.length,
      weight,
      waitMs: this.alarm.now() - (entries[0] as WaitingItem<T>).at,
      seqs: entries.map(({ seq }) => seq),
    });
    const items = entries.map(({ item }) => item);
    this.to.next({ lane, reason: why, weight, items, lanes: entries.map((entry) => this.nameOf(entry.lane)) });
  }

  private less(weight: number): void {
    // Sums of fractions drift: an empty queue weighs nothing.
    this.weight = this.queue.size === 0 ? 0 : this.weight - weight;
  }

  /** One lane less. */
  private readonly ended = (): void => {
    if (--this.open > 0) return;
    this.emitAll('complete');
    this.to.complete();
  };

  private readonly fail = (error: unknown): void => {
    if (this.settings.onSourceError === 'flush') this.emitAll('error');
    this.to.error(error);
  };

  private nameOf(lane: number): N {
    return this.laneAt(lane).name as N;
  }

  private laneAt(lane: number): Settings<T>['lanes'][number] {
    return this.settings.lanes[lane] as Settings<T>['lanes'][number];
  }
}

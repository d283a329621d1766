import type { SchedulerLike, Subscriber, Subscription } from 'rxjs';
import type { FairnessRule, LaneClaim } from '../kernel/queues/discipline.js';
import { LanesQueue } from '../kernel/queues/lanes-queue.js';
import { victims } from '../kernel/queues/overflow.js';
import type { Overflow, Waiter } from '../kernel/queues/queue.js';
import { weightOf } from '../options/ask.js';
import { OverflowError } from '../options/errors.js';
import type { FlowSink, FlushReason } from '../options/events.js';
import { teller } from '../options/events.js';
import { Alarm } from './alarm.js';
import type { Trampoline } from './trampoline.js';
import { trampoline } from './trampoline.js';

/** One batch made of several lanes. */
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

/** A lane, checked and with its defaults. */
interface MergedLane extends LaneClaim {
  readonly name: string;
  /** How long its items wait for company, in ms. */
  readonly waitMs: number;
  readonly maxQueued: number;
  readonly overflow: Overflow;
}

/** The options, checked and with their defaults. */
export interface LaneMergerConfig<T> {
  readonly operator: string;
  readonly lanes: readonly MergedLane[];
  readonly fairness: FairnessRule;
  readonly maxSize: number;
  readonly maxWeight: number;
  readonly weigh: ((item: T) => number) | undefined;
  readonly laneError: 'propagate' | 'isolate';
  readonly eagerComplete: boolean;
  readonly onSourceError: 'flush' | 'abort';
  readonly scheduler: SchedulerLike;
  /** Ends the current frame. */
  readonly frames: SchedulerLike;
  readonly onEvent: FlowSink | undefined;
  readonly name: string | undefined;
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
 * One subscription of `mergeLanes`: items wait in their lanes until a batch is due, which takes those of other lanes along.
 * Everything that happens while a batch is being handed out waits its turn.
 */
export class LaneMerger<T, N extends string> {
  private readonly queue: LanesQueue<WaitingItem<T>>;
  private readonly alarm: Alarm;
  private readonly tell: ReturnType<typeof teller>;
  private readonly enqueue: Trampoline;
  /** Total weight of what waits. */
  private weight = 0;
  /** Lanes that may still send. */
  private open: number;
  /** Ends the current frame; until then an urgent item waits for the rest of its burst. */
  private frame: Subscription | undefined = undefined;
  private isFramed = false;
  private accepted = 0;
  private batches = 0;

  constructor(
    private readonly config: LaneMergerConfig<T>,
    private readonly to: Subscriber<LaneBatch<T, N>>,
  ) {
    const { operator, lanes, fairness, maxSize, scheduler } = config;
    this.enqueue = trampoline(to);
    this.queue = new LanesQueue(lanes, fairness, maxSize, false);
    this.open = lanes.length;
    this.alarm = new Alarm(scheduler, () => {
      this.enqueue(this.ring);
    });
    this.tell = teller(operator, config, () => this.alarm.now());
  }

  next(lane: number, item: T): void {
    this.enqueue(this.accept, item, lane);
  }

  /** A lane has failed. */
  laneError(lane: number, error: unknown): void {
    this.enqueue(() => {
      if (this.config.laneError === 'propagate') {
        this.fail(error);
        return;
      }
      this.tell?.({ type: 'swallowed', lane: this.nameOf(lane) });
      this.ended(false);
    });
  }

  laneComplete(): void {
    this.enqueue(() => {
      this.ended(this.config.eagerComplete);
    });
  }

  /** Something that is no lane has failed. */
  error(error: unknown): void {
    this.enqueue(() => {
      this.fail(error);
    });
  }

  flush(): void {
    this.enqueue(() => {
      this.emitAll('flush');
    });
  }

  /** The consumer has left, or the stream has ended. */
  stop(): void {
    const { queue, tell } = this;
    this.alarm.clear();
    this.endFrame();
    if (tell === undefined) return;
    for (let lane = queue.after(-1); lane !== -1; lane = queue.after(lane))
      tell({ type: 'cancelled', lane: this.nameOf(lane), count: queue.count(lane) });
  }

  // ---- accepting ----------------------------------------------------------------------------------------------------

  private readonly accept = (item: T, lane: number): void => {
    const { operator, weigh, maxSize, maxWeight } = this.config;
    const { queue } = this;
    let isFirst: boolean;
    try {
      const weight = weightOf(operator, weigh, item);
      if (!this.makeRoom(lane)) return;
      isFirst = queue.count(lane) === 0;
      queue.push(new WaitingItem(item, lane, weight, this.alarm.now(), this.accepted++));
      this.weight += weight;
    } catch (error) {
      this.fail(error);
      return;
    }
    if (queue.size >= maxSize || this.weight >= maxWeight) this.emitFull();
    // Whatever waits ahead of it in its lane is awaited already, and is due earlier.
    if (isFirst && queue.count(lane) > 0) this.await(lane);
  };

  /** Applies the lane's overflow policy; false when the newcomer is the one to go. @throws OverflowError */
  private makeRoom(lane: number): boolean {
    const { name, maxQueued, overflow: policy } = this.laneAt(lane);
    if (this.queue.count(lane) < maxQueued) return true;
    if (policy === 'error') throw new OverflowError(this.config.operator, maxQueued, policy);
    const leaving = victims(this.queue, lane, policy, true);
    for (const victim of leaving) {
      this.queue.remove(victim);
      this.less(victim.weight);
      this.tell?.({ type: 'dropped', lane: name, policy, seq: victim.seq });
    }
    if (leaving.length > 0) return true;
    this.tell?.({ type: 'dropped', lane: name, policy, seq: this.accepted++ });
    return false;
  }

  /** Sees to it that the lane's oldest item does not wait too long. */
  private await(lane: number): void {
    if (this.to.closed) return;
    if (this.laneAt(lane).waitMs === 0) this.startFrame();
    else this.alarm.setBy(this.dueFrom(lane));
  }

  private startFrame(): void {
    if (this.isFramed) return;
    this.isFramed = true;
    const frame = this.config.frames.schedule(() => {
      this.endFrame();
      this.enqueue(this.ring);
    }, 0);
    // Some schedulers (`queueScheduler`) run a delay of 0 at once.
    if (this.isFramed as boolean) this.frame = frame;
  }

  private endFrame(): void {
    this.isFramed = false;
    this.frame?.unsubscribe();
    this.frame = undefined;
  }

  private readonly ring = (): void => {
    const { queue } = this;
    this.emitDue();
    let at = Infinity;
    for (let lane = queue.after(-1); lane !== -1; lane = queue.after(lane)) at = Math.min(at, this.dueFrom(lane));
    if (!this.to.closed) this.alarm.set(at);
  };

  // ---- emitting -----------------------------------------------------------------------------------------------------

  private emitFull(): void {
    const { maxSize, maxWeight } = this.config;
    while (this.queue.size >= maxSize || this.weight >= maxWeight) {
      if (!this.emit(this.queue.lead(), this.queue.size >= maxSize ? 'size' : 'weight')) return;
    }
  }

  /** Emits until no lane's oldest item has waited long enough. */
  private emitDue(): void {
    const now = this.alarm.now();
    for (let lane = this.due(now); lane !== -1; lane = this.due(now)) {
      if (!this.emit(lane, this.laneAt(lane).waitMs === 0 ? 'urgent' : 'time')) return;
    }
  }

  private emitAll(reason: FlushReason): void {
    for (let lane = this.queue.lead(); lane !== -1; lane = this.queue.lead()) if (!this.emit(lane, reason)) return;
  }

  /** The lane whose turn it is, if its oldest item has waited long enough, else the most urgent of those; -1 when there is none. */
  private due(now: number): number {
    const { queue } = this;
    const lead = queue.lead();
    if (lead === -1 || this.dueFrom(lead) <= now) return lead;
    for (let lane = queue.after(-1); lane !== -1; lane = queue.after(lane)) if (this.dueFrom(lane) <= now) return lane;
    return -1;
  }

  /** When the oldest item of a lane that is not empty has waited long enough. */
  private dueFrom(lane: number): number {
    return (this.queue.oldest(lane) as WaitingItem<T>).at + this.laneAt(lane).waitMs;
  }

  /** Emits one batch; false when the consumer has left. */
  private emit(trigger: number, reason: FlushReason): boolean {
    if (this.to.closed) return false;
    const { maxSize, maxWeight } = this.config;
    const entries = this.queue.plan(trigger, maxSize, maxWeight);
    const weight = entries.reduce((sum, entry) => sum + entry.weight, 0);
    // Taken before it is emitted, so what the consumer sends back goes into a fresh batch.
    this.queue.takeAll(entries);
    this.less(weight);
    const why = weight > maxWeight ? 'oversize' : reason;
    const name = this.nameOf(trigger);
    const batchId = `b${String(this.batches++)}`;
    this.tell?.({
      type: 'batchFormed',
      lane: name,
      batchId,
      reason: why,
      size: entries.length,
      weight,
      waitMs: this.alarm.now() - (entries[0] as WaitingItem<T>).at,
      seqs: entries.map(({ seq }) => seq),
    });
    const items = entries.map(({ item }) => item);
    this.to.next({ lane: name, reason: why, weight, items, lanes: entries.map(({ lane }) => this.nameOf(lane)) });
    return !this.to.closed;
  }

  private less(weight: number): void {
    // Sums of fractions drift: an empty queue weighs nothing.
    this.weight = this.queue.size === 0 ? 0 : this.weight - weight;
  }

  /** One lane less. */
  private ended(isOver: boolean): void {
    if (--this.open > 0 && !isOver) return;
    this.emitAll('complete');
    this.to.complete();
  }

  private fail(error: unknown): void {
    if (this.config.onSourceError === 'flush') this.emitAll('error');
    this.to.error(error);
  }

  private nameOf(lane: number): N {
    return this.laneAt(lane).name as N;
  }

  private laneAt(lane: number): MergedLane {
    return this.config.lanes[lane] as MergedLane;
  }
}

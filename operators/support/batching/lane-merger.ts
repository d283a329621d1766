import type { SchedulerLike, Subscriber, Subscription } from 'rxjs';
import { LaneQueue } from '../../kernel/queues/lane-queue.js';
import { weightOf } from '../../options/ask.js';
import { ItemTooHeavyError, OverflowError } from '../../options/errors.js';
import type { FlowSink, FlushReason } from '../../options/events.js';
import type { Lane, LaneTable } from '../../options/lanes.js';
import { Alarm } from '../../shell/alarm.js';
import { InTurn } from '../../shell/in-turn.js';

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

/** The options, checked and with their defaults. */
export interface LaneMergerConfig<T> {
  readonly operator: string;
  readonly table: LaneTable;
  /** How long each lane waits, in ms. */
  readonly waitsMs: readonly number[];
  readonly maxSize: number;
  readonly maxWeight: number;
  readonly hardMaxWeight: number;
  readonly weigh: ((item: T) => number) | undefined;
  readonly oversize: 'alone' | 'reject' | 'drop' | 'error';
  readonly burst: 'asap' | 'sync';
  readonly isolates: boolean;
  readonly eagerComplete: boolean;
  readonly onSourceError: 'flush' | 'abort';
  readonly scheduler: SchedulerLike;
  /** Ends the current frame. */
  readonly frameScheduler: SchedulerLike;
  readonly onEvent: FlowSink | undefined;
}

interface Waiter<T> {
  readonly item: T;
  readonly weight: number;
  readonly at: number;
}

/**
 * One subscription of `mergeLanes`: items wait in their lanes until a batch is due, which takes those of other lanes along.
 * Everything that happens while a batch is being handed out waits its turn.
 */
export class LaneMerger<T, N extends string> {
  readonly #config: LaneMergerConfig<T>;
  readonly #to: Subscriber<LaneBatch<T, N>>;
  readonly #queue: LaneQueue<Waiter<T>>;
  readonly #alarm: Alarm;
  /** Total weight of what waits. */
  #weight = 0;
  /** Lanes that may still send. */
  #open: number;
  /** Nobody is due before. */
  #dueAt = Infinity;
  /** Ends the current frame; until then an urgent item waits for the rest of its burst. */
  #frame: Subscription | undefined;
  #inFrame = false;
  readonly #turn: InTurn;

  constructor(config: LaneMergerConfig<T>, to: Subscriber<LaneBatch<T, N>>) {
    this.#config = config;
    this.#to = to;
    this.#turn = new InTurn(to);
    this.#queue = new LaneQueue(config.table.fairness, config.maxSize === Infinity ? 1 : config.maxSize, () => true);
    this.#open = config.table.lanes.length;
    this.#alarm = new Alarm(config.scheduler, () => {
      this.#turn.do(() => {
        this.#ring();
      });
    });
  }

  next(lane: number, item: T): void {
    this.#turn.take(this.#accept, item, lane);
  }

  /** A lane has failed. */
  laneError(lane: number, error: unknown): void {
    this.#turn.do(() => {
      const { isolates, operator, onEvent } = this.#config;
      if (!isolates) {
        this.#fail(error);
        return;
      }
      onEvent?.({ type: 'swallowed', operator, lane: this.#lane(lane).name });
      this.#ended(false);
    });
  }

  laneComplete(): void {
    this.#turn.do(() => {
      this.#ended(this.#config.eagerComplete);
    });
  }

  /** Something that is no lane has failed. */
  error(error: unknown): void {
    this.#turn.do(() => {
      this.#fail(error);
    });
  }

  flush(): void {
    this.#turn.do(() => {
      this.#emitAll('flush');
    });
  }

  /** The consumer has left, or the stream has ended. */
  stop(): void {
    this.#alarm.clear();
    this.#landFrame();
    const { operator, onEvent } = this.#config;
    if (onEvent === undefined) return;
    const { nonEmpty } = this.#queue;
    for (let lane = nonEmpty.first(); lane !== -1; lane = nonEmpty.after(lane))
      onEvent({ type: 'cancelled', operator, lane: this.#lane(lane).name, count: this.#queue.count(lane) });
  }

  // ---- accepting ----------------------------------------------------------------------------------------------------

  readonly #accept = (item: T, lane: number): void => {
    const { operator, weigh, maxSize, maxWeight } = this.#config;
    let isFirst: boolean;
    try {
      const weight = weightOf(operator, weigh, item);
      if ((weight > maxWeight && !this.#mayGoAlone(lane, weight)) || !this.#makeRoom(lane)) return;
      isFirst = this.#queue.count(lane) === 0;
      this.#queue.push(lane, { item, weight, at: this.#alarm.now() });
      this.#weight += weight;
    } catch (error) {
      this.#fail(error);
      return;
    }
    if (this.#queue.size >= maxSize || this.#weight >= maxWeight) this.#emitFull();
    // Whatever waits ahead of it in its lane is awaited already, and is due earlier.
    if (isFirst && this.#queue.count(lane) > 0) this.#await(lane);
  };

  /** False for an item that is left out. @throws ItemTooHeavyError */
  #mayGoAlone(lane: number, weight: number): boolean {
    const { operator, oversize, maxWeight, hardMaxWeight, onEvent } = this.#config;
    if (oversize === 'drop') {
      onEvent?.({ type: 'dropped', operator, lane: this.#lane(lane).name, policy: 'oversize' });
      return false;
    }
    const heaviest = oversize === 'alone' ? hardMaxWeight : maxWeight;
    if (weight > heaviest) throw new ItemTooHeavyError(operator, weight, heaviest);
    return true;
  }

  /** Applies the lane's overflow policy; false when the newcomer is the one to go. @throws OverflowError */
  #makeRoom(lane: number): boolean {
    const { name, maxQueued, overflow: policy } = this.#lane(lane);
    if (this.#queue.count(lane) < maxQueued) return true;
    const { operator, onEvent } = this.#config;
    if (policy === 'error') throw new OverflowError(operator, maxQueued, policy);
    const losers = policy === 'latest' ? this.#queue.count(lane) : 1;
    for (let n = 0; n < losers; n++) {
      if (policy !== 'dropNewest') this.#take(lane);
      onEvent?.({ type: 'dropped', operator, lane: name, policy });
    }
    return policy !== 'dropNewest';
  }

  /** Sees to it that the lane's oldest item does not wait too long. */
  #await(lane: number): void {
    const { burst, frameScheduler } = this.#config;
    const at = this.#dueFrom(lane);
    if (at === Infinity || this.#to.closed) return;
    if (this.#config.waitsMs[lane] !== 0) {
      if (at >= this.#dueAt) return;
      this.#dueAt = at;
      this.#alarm.set(at);
    } else if (burst === 'sync') {
      this.#emitDue();
    } else {
      this.#startFrame(frameScheduler);
    }
  }

  #startFrame(scheduler: SchedulerLike): void {
    if (this.#inFrame) return;
    this.#inFrame = true;
    const frame = scheduler.schedule(() => {
      this.#landFrame();
      this.#turn.do(() => {
        this.#emitDue();
      });
    }, 0);
    // Some schedulers (`queueScheduler`) run a delay of 0 at once.
    if (this.#inFrame as boolean) this.#frame = frame;
  }

  #landFrame(): void {
    this.#inFrame = false;
    this.#frame?.unsubscribe();
    this.#frame = undefined;
  }

  #ring(): void {
    this.#emitDue();
    this.#dueAt = Infinity;
    const { nonEmpty } = this.#queue;
    for (let lane = nonEmpty.first(); lane !== -1; lane = nonEmpty.after(lane)) this.#dueAt = Math.min(this.#dueAt, this.#dueFrom(lane));
    if (!this.#to.closed) this.#alarm.set(this.#dueAt);
  }

  // ---- emitting -----------------------------------------------------------------------------------------------------

  #emitFull(): void {
    const { maxSize, maxWeight } = this.#config;
    while (this.#queue.size >= maxSize || this.#weight >= maxWeight) {
      if (!this.#emit(this.#queue.lead(), this.#queue.size >= maxSize ? 'size' : 'weight')) return;
    }
  }

  /** Emits until no lane's oldest item has waited long enough. */
  #emitDue(): void {
    const now = this.#alarm.now();
    for (let lane = this.#due(now); lane !== -1; lane = this.#due(now)) {
      if (!this.#emit(lane, this.#config.waitsMs[lane] === 0 ? 'urgent' : 'time')) return;
    }
  }

  #emitAll(reason: FlushReason): void {
    for (let lane = this.#queue.lead(); lane !== -1; lane = this.#queue.lead()) if (!this.#emit(lane, reason)) return;
  }

  /** The lane whose turn it is, if its oldest item has waited long enough, else the most urgent of those; -1 when there is none. */
  #due(now: number): number {
    const { nonEmpty } = this.#queue;
    const lead = this.#queue.lead();
    if (lead === -1 || this.#dueFrom(lead) <= now) return lead;
    for (let lane = nonEmpty.first(); lane !== -1; lane = nonEmpty.after(lane)) if (this.#dueFrom(lane) <= now) return lane;
    return -1;
  }

  /** When the lane's oldest item has waited long enough; Infinity without one. */
  #dueFrom(lane: number): number {
    const head = this.#queue.peek(lane);
    return head === undefined ? Infinity : head.at + (this.#config.waitsMs[lane] as number);
  }

  /** Emits one batch; false when the consumer has left. */
  #emit(trigger: number, reason: FlushReason): boolean {
    if (this.#to.closed) return false;
    const { operator, maxSize, maxWeight, onEvent } = this.#config;
    const waitedFrom = this.#queue.peek(trigger)?.at ?? 0;
    const items: T[] = [];
    const lanes: N[] = [];
    const from: number[] = [];
    let weight = 0;
    this.#queue.plan(trigger, { places: maxSize, rides: this.#lane(trigger).piggyback }, (waiter, lane) => {
      if (items.length > 0 && weight + waiter.weight > maxWeight) return false;
      items.push(waiter.item);
      lanes.push(this.#lane(lane).name as N);
      from.push(lane);
      weight += waiter.weight;
      return true;
    });
    // Taken before it is emitted, so what the consumer sends back goes into a fresh batch.
    for (const lane of from) this.#take(lane);
    this.#queue.turnPlanned();
    const why = weight > maxWeight ? 'oversize' : reason;
    const name = this.#lane(trigger).name as N;
    const size = items.length;
    onEvent?.({ type: 'batchFormed', operator, lane: name, reason: why, size, weight, waitMs: this.#alarm.now() - waitedFrom });
    this.#to.next({ lane: name, reason: why, weight, items, lanes });
    return !this.#to.closed;
  }

  #take(lane: number): void {
    const waiter = this.#queue.shift(lane);
    // Sums of fractions drift: an empty queue weighs nothing.
    this.#weight = this.#queue.size === 0 ? 0 : this.#weight - (waiter?.weight ?? 0);
  }

  /** One lane less. */
  #ended(isOver: boolean): void {
    if (--this.#open > 0 && !isOver) return;
    this.#emitAll('complete');
    this.#to.complete();
  }

  #fail(error: unknown): void {
    if (this.#config.onSourceError === 'flush') this.#emitAll('error');
    this.#to.error(error);
  }

  #lane(lane: number): Lane {
    return this.#config.table.lanes[lane] as Lane;
  }
}

import type { FlowEvent } from '../../operators/types.js';
import type { FlowCounters, LaneView, Sums } from './counters.js';
import { addSums, countersOf, laneView, noSums } from './counters.js';
import type { Told } from './event-log.js';
import { EventLog } from './event-log.js';
import type { ItemState } from './flow-parts.js';
import { callOf, FlowBatch, FlowInstance, FlowItem, FlowLane, labelOf, sortLanes } from './flow-parts.js';
import type { LimitSample, LimitView } from './limits.js';
import { Limits } from './limits.js';
import { isFault, readEvent } from './read-event.js';

type Of<K extends FlowEvent['type']> = Extract<FlowEvent, { readonly type: K }>;

/** Everything the model keeps has a bound. */
const KEPT = { events: 2000, samples: 120, items: 20_000, instances: 200, lanes: 50 };
const SHOWN = { finished: 400, ended: 60, trees: 50, children: 100, leavers: 500 };

export interface FlowModelOptions {
  /** Names of lanes, most urgent first. @defaultValue `P0`, `P1`, … in this order, then the others as they come */
  readonly lanes?: readonly string[] | undefined;
  /** Most items in a batch, for `meanFill`. @defaultValue what the first full batch has */
  readonly maxBatchSize?: number | undefined;
}

/**
 * What a pipeline does, as its events tell it: items in lanes, calls and who is in them, trees of splits and repeats, totals. It has no page and no
 * clock, and holds numbers and names only: at most the last 2,000 events, 20,000 items without a result, 50 trees.
 *
 * @example
 * ```ts
 * import { from } from 'rxjs';
 * import { batchMap } from 'sluice';
 * import { FlowModel } from 'sluice/inspector';
 *
 * const model = new FlowModel();
 * const onEvent = (event) => model.add(event);
 * await from([1, 2, 3, 4]).pipe(batchMap(async (xs) => xs, { maxSize: 4, onEvent })).forEach(() => undefined);
 * const { accepted, settled, calls, callsSaved, lost } = model.counters;
 * [accepted, settled, calls, callsSaved, lost]; // => [4, 4, 1, 3, 0]
 * ```
 */
export class FlowModel {
  /** The time of the last event. */
  now = 0;
  /** Changes with whatever is added. */
  version = 0;
  /** What had been counted before the first event that is kept; of a recording that does not begin at the beginning. */
  before: Sums = noSums();
  /** Until when everything is paused, as a limiter said last. */
  pausedUntil = 0;
  /** What a breaker said last. */
  breaker: 'closed' | 'open' | 'halfOpen' = 'closed';
  /** Tokens as records count them. */
  recordedTokens: number | undefined = undefined;
  /** Calls under way; by slot, with gaps. */
  readonly slots: (FlowBatch | undefined)[] = [];
  /** Calls that are over while some of their items have no result yet: those to be repeated or cut up. */
  readonly returned = new Set<FlowBatch>();
  /** The last that are over, newest last. */
  readonly ended: FlowBatch[] = [];
  /** How many items have come to their end; the last of them stand in `finished`, newest last. */
  finishedCount = 0;
  readonly finished: FlowItem[] = [];
  /** The first calls of what was repeated or cut up, newest last. */
  readonly trees: FlowBatch[] = [];
  readonly samples: LimitSample[] = [];
  readonly #log = new EventLog(KEPT.events);
  readonly #sums = noSums();
  readonly #lanes = new Map<string, FlowLane>();
  #sorted: readonly FlowLane[] | undefined;
  readonly #instances = new Map<string, FlowInstance>();
  readonly #limits = new Limits();
  readonly #order: readonly string[];
  #fullSize: number | undefined;
  #isWeighed = false;
  #keys = 0;
  #tracked = 0;

  constructor({ lanes = [], maxBatchSize }: FlowModelOptions = {}) {
    this.#order = lanes;
    this.#fullSize = maxBatchSize;
  }

  /** Takes the next event. Whatever is no event is ignored. */
  add(told: FlowEvent): void {
    const event = readEvent(told);
    if (isFault(event)) return;
    this.version++;
    this.now = Math.max(this.now, event.at ?? 0);
    this.#log.add(event);
    this.#apply(event);
  }

  /** Takes what a limiter says of this moment. */
  sample(sample: LimitSample): void {
    this.version++;
    this.#limits.add(sample);
    this.samples.push(sample);
    if (this.samples.length > KEPT.samples) this.samples.shift();
  }

  /** Events that tell all about what is open now, and the last 2,000: from these the same picture is made again. */
  get history(): readonly FlowEvent[] {
    const kept: Told[] = [];
    for (const { items } of this.#instances.values()) {
      for (const item of items.values()) {
        if (!item.isOpen) continue;
        if (item.told) kept.push(item.told);
        for (let batch = item.batch; batch; batch = batch.parent) kept.push(...batch.told);
      }
    }
    return this.#log.behind(kept);
  }

  /** What had been counted of a lane before the first event. */
  laneBefore(name: string, accepted: number, settled: number): void {
    const lane = this.#lane(name);
    lane.accepted += accepted;
    lane.settled += settled;
  }

  /** The last 2,000 events, oldest first. */
  get events(): readonly FlowEvent[] {
    return this.#log.events;
  }

  get limits(): readonly LimitView[] {
    return this.#limits.views;
  }

  get sums(): Sums {
    return addSums(this.#sums, this.before, 1);
  }

  get counters(): FlowCounters {
    const { sums } = this;
    const tokens = this.recordedTokens ?? (this.#isWeighed ? sums.weight : 0);
    return countersOf(sums, this.laneParts[0], this.#fullSize, tokens);
  }

  /** All lanes, most urgent first. */
  get lanes(): readonly LaneView[] {
    return this.laneParts.map(laneView);
  }

  /** The same, to draw. */
  get laneParts(): readonly FlowLane[] {
    this.#sorted ??= sortLanes([...this.#lanes.values()], this.#order);
    return this.#sorted;
  }

  // ---- what each event means ------------------------------------------------------------------------------------------

  #apply(event: FlowEvent): void {
    switch (event.type) {
      case 'accepted':
        this.#accepted(event);
        return;
      case 'batchFormed':
        this.#formed(event);
        return;
      case 'attemptStarted':
        this.#started(event);
        return;
      case 'attemptEnded':
        this.#over(event);
        return;
      case 'settled':
        this.#settled(event);
        return;
      case 'dropped':
      case 'expired':
        this.#sums[event.type]++;
        this.#giveUp(event, event.type);
        return;
      case 'cancelled':
        this.#cancelled(event);
        return;
      case 'retryScheduled':
        this.#sums.retries++;
        return;
      case 'split':
        this.#sums.splits++;
        this.#cut(event, event.parts);
        return;
      case 'blamed':
        this.#sums.splits++;
        this.#cut(event, 2);
        return;
      case 'hedged':
        this.#sums.hedged++;
        return;
      case 'throttled':
        this.pausedUntil = Math.max(this.pausedUntil, this.now + event.pauseMs);
        return;
      case 'breakerChanged':
        this.breaker = event.state;
        return;
      case 'swallowed':
        this.#swallowed(event);
        return;
      case 'drained':
        this.#drained(event);
        return;
      default:
    }
  }

  #accepted(event: Of<'accepted'>): void {
    const lane = this.#lane(event.lane);
    lane.accepted++;
    this.#sums.accepted++;
    const instance = this.#instance(event);
    const id = event.seq ?? event.batchId;
    // A queue that hands its items on without a word.
    if (id === undefined) return;
    if (this.#tracked >= KEPT.items) {
      instance.untracked++;
      this.#sums.waiting++;
    } else this.#track(instance, id, lane, this.#log.last);
  }

  #track(instance: FlowInstance, id: string | number, lane: FlowLane, told: Told | undefined): FlowItem {
    const item = new FlowItem(this.#keys++, id, lane, this.now, told);
    instance.items.set(id, item);
    this.#tracked++;
    this.#sums.waiting++;
    lane.waiting.add(item);
    return item;
  }

  #formed(event: Of<'batchFormed'>): void {
    const { size, reason } = event;
    if (reason === 'size') this.#fullSize ??= size;
    if (reason !== 'retry' && reason !== 'split') {
      this.#sums.batches++;
      this.#sums.batched += size;
    }
    if (event.batchId !== undefined) this.#batch(event, event.batchId, reason).told.push(this.#log.last);
  }

  #batch(event: Of<'batchFormed' | 'attemptStarted'>, id: string, reason: string): FlowBatch {
    const instance = this.#instance(event);
    const { operator, size, weight, parentBatchId, seq } = event;
    const seqs = event.seqs ?? (seq === undefined ? [] : [seq]);
    const ids: readonly (string | number)[] = seqs.length > 0 ? seqs : [id];
    const lane = this.#lane(event.lane);
    const items = ids.flatMap((name) => this.#found(instance, name, lane) ?? []);
    const parent = instance.batches.get(parentBatchId ?? id);
    const label = labelOf(seqs, size, id);
    const batch = new FlowBatch(this.#keys++, id, operator, instance.name, lane, size, weight, reason, parent, items, label, this.now);
    if (parent) this.#adopt(parent, batch);
    instance.batches.set(id, batch);
    for (const item of items) {
      const before = item.batch;
      item.batch = batch;
      if (before) this.#maybeGone(before);
    }
    return batch;
  }

  #found(instance: FlowInstance, id: string | number, lane: FlowLane): FlowItem | undefined {
    const item = instance.items.get(id);
    if (item !== undefined) return item;
    if (instance.untracked > 0) {
      instance.untracked--;
      this.#sums.waiting--;
    } else if (this.before.waiting > 0) this.before = { ...this.before, waiting: this.before.waiting - 1 };
    else return undefined;
    return this.#track(instance, id, lane, undefined);
  }

  #adopt(parent: FlowBatch, child: FlowBatch): void {
    let root = parent;
    while (root.parent) root = root.parent;
    if (parent.children.length < SHOWN.children) parent.children.push(child);
    else parent.more++;
    if (this.trees.includes(root)) return;
    this.trees.push(root);
    if (this.trees.length > SHOWN.trees) this.trees.shift();
  }

  #started(event: Of<'attemptStarted'>): void {
    const { batchId, attempt, splitDepth, size, weight, parentBatchId } = event;
    const instance = this.#instance(event);
    const known = instance.batches.get(batchId);
    const isNew = known !== undefined && known.outcome === 'executing' && !known.isExecuting;
    const batch = isNew ? known : this.#batch(event, batchId, attempt > 1 ? 'retry' : 'call');
    batch.told.push(this.#log.last);
    batch.attempt = attempt;
    batch.depth = splitDepth;
    batch.startedAt = this.now;
    const free = this.slots.indexOf(undefined);
    batch.slot = free === -1 ? this.slots.length : free;
    this.slots[batch.slot] = batch;
    instance.calls.set(callOf(batchId, attempt), batch);
    this.#sums.calls++;
    this.#sums.executing++;
    this.#sums.weight += weight;
    if (weight !== size) this.#isWeighed = true;
    if (attempt === 1 && splitDepth === 0 && parentBatchId === undefined) this.#sums.sent += size;
    for (const item of batch.items) {
      item.calls++;
      this.#move(item, 'executing');
    }
  }

  #over(event: Of<'attemptEnded'>): void {
    const { batchId, attempt, outcome, latencyMs } = event;
    if (outcome === 'throttled') this.#sums.throttled++;
    const instance = this.#instance(event);
    const call = callOf(batchId, attempt);
    const batch = instance.calls.get(call);
    // It was under way before anybody listened.
    if (batch === undefined) return;
    instance.calls.delete(call);
    batch.told.push(this.#log.last);
    this.#end(instance, batch, outcome, latencyMs);
  }

  #end(instance: FlowInstance, batch: FlowBatch, outcome: string, latencyMs: number): void {
    this.slots[batch.slot] = undefined;
    batch.slot = -1;
    batch.outcome = outcome;
    batch.latencyMs = latencyMs;
    batch.endedAt = this.now;
    this.#sums.executing--;
    this.ended.push(batch);
    if (this.ended.length > SHOWN.ended) this.ended.shift();
    for (const item of batch.items) {
      // Another call of a hedge goes on.
      if (--item.calls > 0 || item.state !== 'executing') continue;
      if (outcome === 'cancelled') this.#leave(instance, item, 'cancelled');
      else this.#move(item, 'returned');
    }
    if (batch.open > 0 && outcome !== 'cancelled') this.returned.add(batch);
    this.#maybeGone(batch);
  }

  #cut(event: Of<'split' | 'blamed'>, parts: number): void {
    const batch = this.#instance(event).batches.get(event.batchId ?? '');
    if (batch === undefined) return;
    batch.parts = parts;
    batch.told.push(this.#log.last);
  }

  #settled(event: Of<'settled'>): void {
    const { outcome, totalMs } = event;
    const instance = this.#instance(event);
    const lane = this.#lane(event.lane);
    lane.settled++;
    lane.times.add(totalMs);
    this.#sums[outcome]++;
    const id = event.seq ?? event.batchId;
    const item = id === undefined ? undefined : this.#found(instance, id, lane);
    if (id === undefined || item === undefined) return;
    this.#move(item, outcome);
    instance.items.delete(id);
  }

  /** It will not be sent; a result may be told all the same. */
  #giveUp(event: Of<'dropped' | 'expired'>, state: 'dropped' | 'expired'): void {
    const id = event.seq ?? event.batchId;
    const instance = this.#instance(event);
    const item = id === undefined ? undefined : this.#found(instance, id, this.#lane(event.lane));
    if (item?.isOpen) this.#leave(instance, item, state);
  }

  #cancelled(event: Of<'cancelled'>): void {
    const instance = this.#instance(event);
    const id = event.seq ?? event.batchId;
    const named = id === undefined ? undefined : this.#found(instance, id, this.#lane(event.lane));
    if (named !== undefined) {
      if (named.isOpen) this.#leave(instance, named, 'cancelled');
      return;
    }
    // Those that were given up with their calls have been counted.
    const open = [...instance.items.values()].filter((item) => item.isOpen);
    const leaving =
      event.count < open.length + instance.untracked ? open.filter(({ state }) => state !== 'executing').slice(0, event.count) : open;
    for (const item of leaving) this.#leave(instance, item, 'cancelled');
    const unseen = event.count - leaving.length;
    const untracked = Math.min(unseen, instance.untracked);
    instance.untracked -= untracked;
    this.#sums.waiting -= untracked;
    this.#sums.cancelled += unseen;
    for (const [call, batch] of instance.calls) {
      if (batch.open > 0) continue;
      instance.calls.delete(call);
      this.#end(instance, batch, 'cancelled', this.now - batch.startedAt);
    }
  }

  /** Of these nobody will ever hear. */
  #swallowed(event: Of<'swallowed'>): void {
    const { items } = this.#instance(event);
    for (const id of event.seqs ?? [event.seq ?? event.batchId ?? -1]) {
      const item = items.get(id);
      if (item?.isOpen) this.#move(item, 'lost');
    }
  }

  #drained(event: Of<'drained'>): void {
    const instance = this.#instance(event);
    for (const item of instance.items.values()) if (item.isOpen) this.#move(item, 'lost');
    this.#sums.lost += instance.untracked;
    this.#sums.waiting -= instance.untracked;
    this.#forget(instance);
  }

  // ---- items ----------------------------------------------------------------------------------------------------------

  /** Somebody has given it up. It is still known for a while, because of what is told of it afterwards. */
  #leave(instance: FlowInstance, item: FlowItem, state: 'cancelled' | 'dropped' | 'expired'): void {
    this.#move(item, state);
    if (state !== 'cancelled') return;
    this.#sums.cancelled++;
    instance.leavers.push(item.id);
    const over = instance.leavers.length > SHOWN.leavers ? instance.leavers.shift() : undefined;
    if (over !== undefined) instance.items.delete(over);
  }

  /** The one place where an item changes. */
  #move(item: FlowItem, state: ItemState): void {
    const { state: was, lane, isOpen } = item;
    if (was === state) return;
    if (was === 'waiting') lane.waiting.delete(item);
    if (was === 'waiting' || was === 'returned') this.#sums.waiting--;
    if (was === 'executing') lane.executing--;
    // A result is told of what was given up before.
    if (was === 'cancelled') this.#sums.cancelled--;
    item.state = state;
    item.since = this.now;
    if (state === 'returned') this.#sums.waiting++;
    if (state === 'executing') lane.executing++;
    if (state === 'lost') this.#sums.lost++;
    if (!isOpen || item.isOpen) return;
    this.#tracked--;
    this.finishedCount++;
    this.finished.push(item);
    if (this.finished.length > SHOWN.finished) this.finished.shift();
    for (let batch = item.batch; batch; batch = batch.parent) {
      batch.open--;
      this.#maybeGone(batch);
    }
  }

  /** What is over, and has nobody left to be sent again, is remembered as a line of its tree only. */
  #maybeGone(batch: FlowBatch): void {
    const { open, isExecuting, items, endedAt } = batch;
    if (isExecuting || endedAt === Infinity) return;
    const isEmpty = open <= 0;
    if (isEmpty || !items.some((item) => item.batch === batch && item.isOpen)) this.returned.delete(batch);
    if (!isEmpty) return;
    batch.items = [];
    batch.told.length = 0;
    const instance = this.#instances.get(batch.instance);
    if (instance?.batches.get(batch.id) === batch) instance.batches.delete(batch.id);
  }

  // ---- who and where --------------------------------------------------------------------------------------------------

  #instance({ operator, instance: told }: FlowEvent): FlowInstance {
    const name = `${operator}/${told ?? ''}`;
    let instance = this.#instances.get(name);
    if (instance !== undefined) return instance;
    instance = new FlowInstance(name, operator);
    this.#instances.set(name, instance);
    if (this.#instances.size > KEPT.instances) this.#forgetOldest();
    return instance;
  }

  #forgetOldest(): void {
    for (const instance of this.#instances.values()) {
      if (instance.calls.size > 0 || [...instance.items.values()].some((item) => item.isOpen)) continue;
      this.#forget(instance);
      return;
    }
  }

  #forget(instance: FlowInstance): void {
    for (const [, batch] of instance.calls) this.#end(instance, batch, 'cancelled', 0);
    this.#instances.delete(instance.name);
  }

  #lane(name: string): FlowLane {
    let lane = this.#lanes.get(name);
    if (lane !== undefined) return lane;
    if (this.#lanes.size >= KEPT.lanes && name !== 'other') return this.#lane('other');
    lane = new FlowLane(name);
    this.#lanes.set(name, lane);
    this.#sorted = undefined;
    return lane;
  }
}

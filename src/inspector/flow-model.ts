import type { FlowEvent } from '../../operators/types.js';
import type { FlowCounters, LaneView, Sums } from './counters.js';
import { addSums, countersOf, laneView, noSums } from './counters.js';
import type { FlowBatch, FlowItem, ItemState, Told } from './flow-parts.js';
import { callOf, FlowInstance, FlowLane, labelOf, sortLanes } from './flow-parts.js';
import type { LimitSample, LimitView } from './limits.js';
import { Limits } from './limits.js';
import type { EventOf } from './read-event.js';
import { isFault, readEvent } from './read-event.js';

/** Everything the model keeps has a bound. */
const KEPT = { events: 2000, samples: 120, items: 20_000, instances: 200, lanes: 50 };
const SHOWN = { finished: 400, ended: 60, trees: 50, children: 100, levels: 100, leavers: 500 };

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
  /** The last events, each in the place of one that is too old. */
  readonly #log: Told[] = [];
  #told = 0;
  #last: Told | undefined;
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
    this.#last = { event, order: this.version };
    this.#log[this.#told++ % KEPT.events] = this.#last;
    this.#apply(event);
  }

  /** Takes what a limiter says of this moment. */
  sample(sample: LimitSample): void {
    this.version++;
    this.#limits.add(sample);
    keepLast(this.samples, sample, KEPT.samples);
  }

  /** Events that tell all about what is open now, and the last 2,000: from these the same picture is made again. */
  get history(): readonly FlowEvent[] {
    const kept = new Set(this.#log);
    for (const { items } of this.#instances.values()) {
      for (const item of items.values()) {
        if (!item.isOpen) continue;
        if (item.told) kept.add(item.told);
        for (let batch = item.batch; batch; batch = batch.parent) for (const told of batch.told) kept.add(told);
      }
    }
    return inOrder(kept);
  }

  /** What had been counted of a lane before the first event. */
  laneBefore(name: string, accepted: number, settled: number): void {
    const lane = this.#lane(name);
    lane.accepted += accepted;
    lane.settled += settled;
  }

  /** The last 2,000 events, oldest first. */
  get events(): readonly FlowEvent[] {
    return inOrder(this.#log);
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
    const sums = this.#sums;
    switch (event.type) {
      case 'accepted':
        this.#accepted(event);
        break;
      case 'batchFormed':
        this.#formed(event);
        break;
      case 'attemptStarted':
        this.#started(event);
        break;
      case 'attemptEnded':
        this.#over(event);
        break;
      case 'settled':
        this.#settled(event);
        break;
      case 'dropped':
      case 'expired': {
        sums[event.type]++;
        // It will not be sent; a result may be told all the same.
        const item = this.#named(event);
        if (item?.isOpen) this.#move(item, event.type);
        break;
      }
      case 'cancelled':
        this.#cancelled(event);
        break;
      case 'retryScheduled':
        sums.retries++;
        break;
      case 'split':
      case 'blamed': {
        sums.splits++;
        const batch = this.#instance(event).batches.get(event.batchId ?? '');
        if (!batch) break;
        batch.parts = event.type === 'split' ? event.parts : 2;
        this.#keep(batch);
        break;
      }
      case 'hedged':
        sums.hedged++;
        break;
      case 'throttled':
        this.pausedUntil = Math.max(this.pausedUntil, this.now + event.pauseMs);
        break;
      case 'breakerChanged':
        this.breaker = event.state;
        break;
      // Of these nobody will ever hear.
      case 'swallowed':
        for (const id of event.seqs ?? [idOf(event)]) this.#lose(this.#instance(event).items.get(id ?? ''));
        break;
      case 'drained': {
        const instance = this.#instance(event);
        for (const item of instance.items.values()) this.#lose(item);
        sums.lost += instance.untracked;
        sums.waiting -= instance.untracked;
        this.#forget(instance);
        break;
      }
      default:
    }
  }

  #accepted(event: EventOf<'accepted'>): void {
    const lane = this.#lane(event.lane);
    lane.accepted++;
    this.#sums.accepted++;
    const instance = this.#instance(event);
    const id = idOf(event);
    // A queue that hands its items on without a word.
    if (id === undefined) return;
    if (this.#tracked >= KEPT.items) {
      instance.untracked++;
      this.#sums.waiting++;
    } else this.#track(instance, id, lane, this.#last);
  }

  #track(instance: FlowInstance, id: string | number, lane: FlowLane, told?: Told): FlowItem {
    const item: FlowItem = { key: this.#keys++, id, lane, state: 'waiting', isOpen: true, batch: undefined, calls: 0, told };
    instance.items.set(id, item);
    this.#tracked++;
    this.#sums.waiting++;
    lane.waiting.add(item);
    return item;
  }

  #formed(event: EventOf<'batchFormed'>): void {
    const { size, reason, batchId } = event;
    if (reason === 'size') this.#fullSize ??= size;
    if (reason !== 'retry' && reason !== 'split') {
      this.#sums.batches++;
      this.#sums.batched += size;
    }
    if (batchId !== undefined) this.#keep(this.#batch(event, batchId));
  }

  #batch(event: EventOf<'batchFormed' | 'attemptStarted'>, id: string): FlowBatch {
    const instance = this.#instance(event);
    const { operator, size, weight, parentBatchId, seq, seqs = seq === undefined ? [] : [seq] } = event;
    const lane = this.#lane(event.lane);
    const items = (seqs.length > 0 ? seqs : [id]).flatMap((name) => this.#found(instance, name, lane) ?? []);
    const before = instance.batches.get(parentBatchId ?? id);
    // What is sent again without end stands side by side from there.
    const parent = before && before.level >= SHOWN.levels ? before.parent : before;
    const root = parent && (parent.root ?? parent);
    const batch: FlowBatch = {
      ...{ key: this.#keys++, id, operator, instance, lane, size, weight, parent, items, label: labelOf(seqs, size, id) },
      ...{ startedAt: this.now, attempt: 1, depth: 0, outcome: 'executing', latencyMs: 0, slot: -1 },
      ...{ parts: 0, children: [], root, level: parent ? parent.level + 1 : 0, calls: 1, running: 0, open: items.length, told: [] },
    };
    if (root) {
      root.calls++;
      if (parent.children.length < SHOWN.children) parent.children.push(batch);
      if (!this.trees.includes(root)) keepLast(this.trees, root, SHOWN.trees);
    }
    instance.batches.set(id, batch);
    for (const item of items) {
      const before = item.batch;
      item.batch = batch;
      if (before) this.#maybeGone(before);
    }
    return batch;
  }

  /** Remembers the last event as one of this batch. */
  #keep(batch: FlowBatch): void {
    batch.told.push(this.#last as Told);
  }

  /** The item that an event names. */
  #named(event: FlowEvent & { readonly lane: string }): FlowItem | undefined {
    const id = idOf(event);
    return id === undefined ? id : this.#found(this.#instance(event), id, this.#lane(event.lane));
  }

  #found(instance: FlowInstance, id: string | number, lane: FlowLane): FlowItem | undefined {
    const item = instance.items.get(id);
    if (item) return item;
    if (instance.untracked > 0) {
      instance.untracked--;
      this.#sums.waiting--;
    } else if (this.before.waiting > 0) this.before = { ...this.before, waiting: this.before.waiting - 1 };
    else return undefined;
    return this.#track(instance, id, lane);
  }

  #started(event: EventOf<'attemptStarted'>): void {
    const { batchId, attempt, splitDepth, size, weight, parentBatchId } = event;
    const instance = this.#instance(event);
    const known = instance.batches.get(batchId);
    const batch = known?.outcome === 'executing' && known.slot < 0 ? known : this.#batch(event, batchId);
    const free = this.slots.indexOf(undefined);
    const slot = free < 0 ? this.slots.length : free;
    this.#keep(batch);
    Object.assign(batch, { attempt, depth: splitDepth, startedAt: this.now, slot });
    (batch.root ?? batch).running++;
    this.slots[slot] = batch;
    instance.calls.set(callOf(batchId, attempt), batch);
    const sums = this.#sums;
    sums.calls++;
    sums.executing++;
    sums.weight += weight;
    if (weight !== size) this.#isWeighed = true;
    if (attempt === 1 && splitDepth === 0 && parentBatchId === undefined) sums.sent += size;
    for (const item of batch.items) {
      item.calls++;
      this.#move(item, 'executing');
    }
  }

  #over(event: EventOf<'attemptEnded'>): void {
    const { batchId, attempt, outcome, latencyMs } = event;
    if (outcome === 'throttled') this.#sums.throttled++;
    const instance = this.#instance(event);
    const call = callOf(batchId, attempt);
    const batch = instance.calls.get(call);
    // It was under way before anybody listened.
    if (!batch) return;
    instance.calls.delete(call);
    this.#keep(batch);
    this.#end(batch, outcome, latencyMs);
  }

  #end(batch: FlowBatch, outcome: string, latencyMs: number): void {
    this.slots[batch.slot] = undefined;
    Object.assign(batch, { slot: -1, outcome, latencyMs });
    (batch.root ?? batch).running--;
    this.#sums.executing--;
    keepLast(this.ended, batch, SHOWN.ended);
    const isCancelled = outcome === 'cancelled';
    for (const item of batch.items) {
      // Another call of a hedge goes on.
      if (--item.calls > 0 || item.state !== 'executing') continue;
      if (isCancelled) this.#leave(batch.instance, item);
      else this.#move(item, 'returned');
    }
    if (batch.open > 0 && !isCancelled) this.returned.add(batch);
    this.#maybeGone(batch);
  }

  #settled(event: EventOf<'settled'>): void {
    const { outcome, totalMs } = event;
    const lane = this.#lane(event.lane);
    lane.settled++;
    lane.times.add(totalMs);
    this.#sums[outcome]++;
    const item = this.#named(event);
    if (!item) return;
    this.#move(item, outcome);
    this.#instance(event).items.delete(item.id);
  }

  #cancelled(event: EventOf<'cancelled'>): void {
    const instance = this.#instance(event);
    const named = this.#named(event);
    if (named) {
      if (named.isOpen) this.#leave(instance, named);
      return;
    }
    // Those that were given up with their calls have been counted.
    const open = [...instance.items.values()].filter((item) => item.isOpen);
    const isPart = event.count < open.length + instance.untracked;
    const leaving = isPart ? open.filter(({ state }) => state !== 'executing').slice(0, event.count) : open;
    for (const item of leaving) this.#leave(instance, item);
    const unseen = Math.max(0, event.count - leaving.length);
    const untracked = Math.min(unseen, instance.untracked);
    instance.untracked -= untracked;
    this.#sums.waiting -= untracked;
    this.#sums.cancelled += unseen;
    for (const [call, batch] of instance.calls) {
      if (batch.open > 0) continue;
      instance.calls.delete(call);
      this.#end(batch, 'cancelled', this.now - batch.startedAt);
    }
  }

  // ---- items ----------------------------------------------------------------------------------------------------------

  #lose(item: FlowItem | undefined): void {
    if (item?.isOpen) this.#move(item, 'lost');
  }

  /** Somebody has given it up. It is still known for a while, because of what is told of it afterwards. */
  #leave({ leavers, items }: FlowInstance, item: FlowItem): void {
    this.#move(item, 'cancelled');
    this.#sums.cancelled++;
    const over = keepLast(leavers, item.id, SHOWN.leavers);
    if (over !== undefined) items.delete(over);
  }

  /** The one place where an item changes. */
  #move(item: FlowItem, state: ItemState): void {
    const { state: was, isOpen, lane } = item;
    const sums = this.#sums;
    if (was === state) return;
    if (was === 'waiting') lane.waiting.delete(item);
    if (was === 'waiting' || was === 'returned') sums.waiting--;
    if (was === 'executing') lane.executing--;
    // A result is told of what was given up before.
    if (was === 'cancelled') sums.cancelled--;
    item.state = state;
    item.isOpen = state === 'returned' || state === 'executing';
    if (state === 'returned') sums.waiting++;
    if (state === 'executing') lane.executing++;
    if (state === 'lost') sums.lost++;
    if (!isOpen || item.isOpen) return;
    this.#tracked--;
    this.finishedCount++;
    keepLast(this.finished, item, SHOWN.finished);
    for (let batch = item.batch; batch; batch = batch.parent) {
      batch.open--;
      this.#maybeGone(batch);
    }
  }

  /** What is over, and has nobody left to be sent again, is remembered as a line of its tree only. */
  #maybeGone(batch: FlowBatch): void {
    if (batch.outcome === 'executing') return;
    const isEmpty = batch.open <= 0;
    if (isEmpty || !batch.items.some((item) => item.batch === batch && item.isOpen)) this.returned.delete(batch);
    if (!isEmpty) return;
    batch.items = [];
    batch.told = [];
    const { batches } = batch.instance;
    if (batches.get(batch.id) === batch) batches.delete(batch.id);
  }

  // ---- who and where --------------------------------------------------------------------------------------------------

  #instance({ operator, instance: told }: FlowEvent): FlowInstance {
    const name = `${operator}/${told ?? ''}`;
    let instance = this.#instances.get(name);
    if (instance) return instance;
    if (this.#instances.size >= KEPT.instances) {
      const idle = [...this.#instances.values()].find(
        ({ calls, items }) => calls.size === 0 && ![...items.values()].some((item) => item.isOpen),
      );
      if (idle) this.#forget(idle);
    }
    instance = new FlowInstance(name);
    this.#instances.set(name, instance);
    return instance;
  }

  #forget(instance: FlowInstance): void {
    for (const batch of instance.calls.values()) this.#end(batch, 'cancelled', 0);
    this.#instances.delete(instance.name);
  }

  #lane(name: string): FlowLane {
    let lane = this.#lanes.get(name);
    if (lane) return lane;
    if (this.#lanes.size >= KEPT.lanes && name !== 'other') return this.#lane('other');
    lane = new FlowLane(name);
    this.#lanes.set(name, lane);
    this.#sorted = undefined;
    return lane;
  }
}

/** The item of an event, by number, or by the name of its call. */
function idOf({ seq, batchId }: FlowEvent): number | string | undefined {
  return seq ?? batchId;
}

function inOrder(told: Iterable<Told>): FlowEvent[] {
  return [...told].sort((a, b) => a.order - b.order).map(({ event }) => event);
}

/** Adds to a list that has a bound; answers with what had to go. */
function keepLast<T>(list: T[], last: T, most: number): T | undefined {
  list.push(last);
  return list.length > most ? list.shift() : undefined;
}

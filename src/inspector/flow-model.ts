import type { FlowEvent } from '../../operators/index.js';
import { keepLast, MOST_CHILDREN, MOST_ENDED, MOST_INSTANCES, MOST_ITEMS, MOST_LEVELS, MOST_SAMPLES, MOST_TREES } from './bounds.js';
import type { FlowCounters, LaneSums, LaneView, Sums } from './counters.js';
import { countersOf, laneView, NO_SUMS } from './counters.js';
import { EventLog } from './event-log.js';
import { FlowItems } from './flow-items.js';
import { FlowLanes } from './flow-lanes.js';
import type { FlowBatch, FlowInstance, FlowItem, FlowLane } from './flow-parts.js';
import { callOf, idOf, labelOf, nameOf, openItems } from './flow-parts.js';
import type { LimitSample, LimitView } from './limits.js';
import { Limits } from './limits.js';
import type { EventOf } from './read-event.js';
import { readEvent } from './read-event.js';

export interface FlowModelOptions {
  /** Names of lanes, most urgent first. @defaultValue `user`, `normal`, … in this order, then the others as they come */
  readonly lanes?: readonly string[] | undefined;
  /** Most items in a batch, for `meanFill`. @defaultValue what the first full batch has */
  readonly maxBatchSize?: number | undefined;
}

/**
 * What a pipeline does, as its events tell it: items in lanes, calls and who is in them, trees of splits and repeats, totals. It has no page and no
 * clock, and holds numbers and names only: at most the last 2,000 events, 20,000 items without a result, 50 trees.
 */
export class FlowModel {
  /** The time of the last event. */
  now = 0;
  /** Changes with whatever is added. */
  version = 0;
  /** Tokens as records count them. */
  recordedTokens: number | undefined = undefined;
  /** Calls under way; by slot, with gaps. */
  readonly slots: (FlowBatch | undefined)[] = [];
  /** Calls that are over while some of their items have no result yet: those to be repeated or cut up. */
  readonly returned = new Set<FlowBatch>();
  /** The last that are over, newest last. */
  readonly ended: FlowBatch[] = [];
  /** The first calls of what was repeated or cut up, newest last. */
  readonly trees: FlowBatch[] = [];
  readonly samples: LimitSample[] = [];
  readonly sums: Sums = { ...NO_SUMS };
  readonly #log = new EventLog((event) => this.#isOpen(event));
  readonly #lanes: FlowLanes;
  readonly #items = new FlowItems(this.sums, this.returned);
  readonly #instances = new Map<string, FlowInstance>();
  readonly #limits = new Limits();
  #fullSize: number | undefined;
  #isWeighed = false;
  /** All slots below it are taken. */
  #firstFree = 0;

  constructor({ lanes = [], maxBatchSize }: FlowModelOptions = {}) {
    this.#lanes = new FlowLanes(lanes);
    this.#fullSize = maxBatchSize;
  }

  /** Takes the next event. Whatever is no event is ignored. */
  add(told: FlowEvent): void {
    const event = readEvent(told);
    if (!event) return;
    this.version++;
    this.now = Math.max(this.now, event.at ?? 0);
    this.#log.add(event);
    this.#apply(event);
  }

  /** Takes what a limiter says of this moment. */
  sample(sample: LimitSample): void {
    this.version++;
    this.#limits.add(sample);
    keepLast(this.samples, sample, MOST_SAMPLES);
  }

  /** Adds what somebody else has counted. Its items that wait are known when they are first named. */
  addCounted(sums: Sums, lanes: readonly LaneSums[]): void {
    for (const name of Object.keys(sums) as (keyof Sums)[]) this.sums[name] += sums[name];
    this.#items.untracked += sums.waiting;
    for (const { name, accepted, settled } of lanes) {
      const lane = this.#lanes.of(name);
      lane.accepted += accepted;
      lane.settled += settled;
    }
  }

  /** Events that tell about what is open now, and the last 2,000: from these the same picture is made again. */
  get history(): FlowEvent[] {
    return this.#log.history;
  }

  /** The last 2,000 events, oldest first. */
  get events(): readonly FlowEvent[] {
    return this.#log.last;
  }

  get limits(): readonly LimitView[] {
    return [...this.#limits.views.values()];
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
    return this.#lanes.sorted;
  }

  // ---- what each event means ------------------------------------------------------------------------------------------

  #apply(event: FlowEvent): void {
    const sums = this.sums;
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
        if (item?.isOpen) this.#items.move(item, event.type);
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
        if (batch) batch.parts = event.type === 'split' ? event.parts : 2;
        break;
      }
      case 'hedged':
        sums.hedged++;
        break;
      // Of these nobody will ever hear.
      case 'swallowed':
        for (const id of event.seqs ?? [idOf(event) ?? '']) {
          const item = this.#instance(event).items.get(id);
          if (item?.isOpen) this.#items.move(item, 'lost');
        }
        break;
      case 'drained': {
        const instance = this.#instance(event);
        for (const item of openItems(instance)) this.#items.move(item, 'lost');
        this.#forget(instance);
        break;
      }
      default:
    }
  }

  #accepted(event: EventOf<'accepted'>): void {
    const lane = this.#lanes.of(event.lane);
    lane.accepted++;
    this.sums.accepted++;
    const instance = this.#instance(event);
    const id = idOf(event);
    // A queue that hands its items on without a word.
    if (id === undefined) return;
    this.sums.waiting++;
    if (this.#items.tracked < MOST_ITEMS) this.#items.track(instance, id, lane);
    else this.#items.untracked++;
  }

  #formed(event: EventOf<'batchFormed'>): void {
    const { size, reason, batchId } = event;
    if (reason === 'size') this.#fullSize ??= size;
    if (reason !== 'retry' && reason !== 'split') {
      this.sums.batches++;
      this.sums.batched += size;
    }
    if (batchId !== undefined) this.#batch(event, batchId);
  }

  #batch(event: EventOf<'batchFormed' | 'attemptStarted'>, id: string): FlowBatch {
    const instance = this.#instance(event);
    const { operator, size, parentBatchId, seq, seqs = seq === undefined ? [] : [seq] } = event;
    const lane = this.#lanes.of(event.lane);
    const items = (seqs.length > 0 ? seqs : [id]).flatMap((name) => this.#items.found(instance, name, lane) ?? []);
    const before = instance.batches.get(parentBatchId ?? id);
    // What is sent again without end stands side by side from there.
    const parent = before && before.level >= MOST_LEVELS ? before.parent : before;
    const root = parent && (parent.root ?? parent);
    const batch: FlowBatch = {
      ...{ id, operator, instance, lane, size, parent, items, label: labelOf(seqs, size, id) },
      ...{ startedAt: this.now, attempt: 1, depth: 0, outcome: 'executing', latencyMs: 0, slot: -1 },
      ...{ parts: 0, children: [], root, level: parent ? parent.level + 1 : 0, calls: 1, open: items.length },
    };
    if (root) {
      root.calls++;
      if (parent.children.length < MOST_CHILDREN) parent.children.push(batch);
      if (!this.trees.includes(root)) keepLast(this.trees, root, MOST_TREES);
    }
    instance.batches.set(id, batch);
    for (const item of items) {
      const before = item.batch;
      item.batch = batch;
      if (before) this.#items.maybeGone(before);
    }
    return batch;
  }

  /** The item that an event names. */
  #named(event: FlowEvent & { readonly lane: string }): FlowItem | undefined {
    const id = idOf(event);
    return id === undefined ? id : this.#items.found(this.#instance(event), id, this.#lanes.of(event.lane));
  }

  #started(event: EventOf<'attemptStarted'>): void {
    const { batchId, attempt, splitDepth, size, weight, parentBatchId } = event;
    const instance = this.#instance(event);
    const known = instance.batches.get(batchId);
    const batch = known?.outcome === 'executing' && known.slot < 0 ? known : this.#batch(event, batchId);
    while (this.slots[this.#firstFree] !== undefined) this.#firstFree++;
    const slot = this.#firstFree;
    Object.assign(batch, { attempt, depth: splitDepth, startedAt: this.now, slot });
    this.slots[slot] = batch;
    instance.calls.set(callOf(batchId, attempt), batch);
    const sums = this.sums;
    sums.calls++;
    sums.executing++;
    sums.weight += weight;
    if (weight !== size) this.#isWeighed = true;
    if (attempt === 1 && splitDepth === 0 && parentBatchId === undefined) sums.sent += size;
    for (const item of batch.items) {
      item.calls++;
      this.#items.move(item, 'executing');
    }
  }

  #over(event: EventOf<'attemptEnded'>): void {
    const { batchId, attempt, outcome, latencyMs } = event;
    if (outcome === 'throttled') this.sums.throttled++;
    const instance = this.#instance(event);
    const call = callOf(batchId, attempt);
    const batch = instance.calls.get(call);
    // It was under way before anybody listened.
    if (!batch) return;
    instance.calls.delete(call);
    this.#end(batch, outcome, latencyMs);
  }

  #end(batch: FlowBatch, outcome: string, latencyMs: number): void {
    this.slots[batch.slot] = undefined;
    this.#firstFree = Math.min(this.#firstFree, batch.slot);
    Object.assign(batch, { slot: -1, outcome, latencyMs });
    this.sums.executing--;
    keepLast(this.ended, batch, MOST_ENDED);
    const isCancelled = outcome === 'cancelled';
    for (const item of batch.items) {
      // Another call of a hedge goes on.
      if (--item.calls > 0 || item.state !== 'executing') continue;
      if (isCancelled) this.#items.leave(batch.instance, item);
      else this.#items.move(item, 'returned');
    }
    if (batch.open > 0 && !isCancelled) this.returned.add(batch);
    this.#items.maybeGone(batch);
  }

  #settled(event: EventOf<'settled'>): void {
    const { outcome, totalMs } = event;
    const lane = this.#lanes.of(event.lane);
    lane.settled++;
    lane.times.add(totalMs);
    this.sums[outcome]++;
    const item = this.#named(event);
    if (!item) return;
    this.#items.move(item, outcome);
    this.#instance(event).items.delete(item.id);
  }

  #cancelled(event: EventOf<'cancelled'>): void {
    const instance = this.#instance(event);
    const named = this.#named(event);
    if (named) {
      if (named.isOpen) this.#items.leave(instance, named);
      return;
    }
    // Those that were given up with their calls have been counted.
    const open = openItems(instance);
    const leaving = event.count < open.length ? open.filter(({ state }) => state !== 'executing').slice(0, event.count) : open;
    for (const item of leaving) this.#items.leave(instance, item);
    const unseen = Math.max(0, event.count - leaving.length);
    const untracked = Math.min(unseen, this.#items.untracked);
    this.#items.untracked -= untracked;
    this.sums.waiting -= untracked;
    this.sums.cancelled += unseen;
    for (const [call, batch] of instance.calls) {
      if (batch.open > 0) continue;
      instance.calls.delete(call);
      this.#end(batch, 'cancelled', this.now - batch.startedAt);
    }
  }

  // ---- who and where --------------------------------------------------------------------------------------------------

  /** Has what this event is about no end yet? Of a call that is made again the newest attempt is enough. */
  #isOpen(event: FlowEvent): boolean {
    const instance = this.#instances.get(nameOf(event));
    const { type, batchId = '', attempt = Infinity } = event as FlowEvent & { readonly attempt?: number };
    if (!instance || type === 'accepted') return instance?.items.get(idOf(event) ?? '')?.isOpen ?? false;
    const newest = instance.batches.get(batchId)?.attempt;
    return (newest !== undefined && newest <= attempt) || instance.calls.has(callOf(batchId, attempt));
  }

  #instance(event: FlowEvent): FlowInstance {
    const name = nameOf(event);
    let instance = this.#instances.get(name);
    if (instance) return instance;
    if (this.#instances.size >= MOST_INSTANCES) {
      const all = [...this.#instances.values()];
      const oldest = all.find(({ calls, open }) => calls.size === 0 && open === 0) ?? all.find(({ calls }) => calls.size === 0) ?? all[0];
      if (oldest) this.#forget(oldest);
    }
    instance = { name, items: new Map(), batches: new Map(), calls: new Map(), leavers: [], open: 0 };
    this.#instances.set(name, instance);
    return instance;
  }

  #forget(instance: FlowInstance): void {
    for (const batch of instance.calls.values()) this.#end(batch, 'cancelled', 0);
    // They still wait, and are known again when they are named again.
    for (const item of instance.open > 0 ? openItems(instance) : []) {
      item.lane.waiting.delete(item);
      this.#items.tracked--;
      this.#items.untracked++;
    }
    this.#instances.delete(instance.name);
  }
}

import type { BatchNote, BatchRules, Overflow, Repair, Search, Verdict } from '../../operators/kernel/index.js';
import type { Cure, Fault } from './batch-cures.js';
import { decide, UNCLEAR, verdictOf } from './batch-cures.js';

/** No search of these tests asks about it. */
const NO_ORIGIN = undefined as never;

/** One item. */
export class Item {
  state: 'new' | 'waiting' | 'flying' | 'done' = 'new';
  attempts = 0;
  failed = false;
  outcome: unknown = undefined;
  group: Group | undefined = undefined;
  parts: readonly Item[] | undefined = undefined;
  whole: Item | undefined = undefined;
  place: { readonly key: unknown; readonly item: Item; is: 'open' | 'ready' | 'left'; counts: boolean } | undefined = undefined;

  constructor(
    readonly index: number,
    readonly at: number,
    public lane: number,
    readonly weight: number,
    readonly deadlineAt: number,
  ) {}

  get isDone(): boolean {
    return this.state === 'done';
  }
}

/** Items of one call, under way or sent again. */
export interface Group {
  readonly id: string;
  readonly lane: number;
  readonly attempt: number;
  readonly depth: number;
  readonly search: Search<Item> | undefined;
  /** What the search goes through. */
  readonly origin: Group | undefined;
  items: readonly Item[];
  children: number;
  startedAt: number;
}

/** The rules of a machine, with the bounds that they were made of. */
export interface ModelRules extends BatchRules<number> {
  readonly maxQueued: number;
  readonly overflow: Overflow;
}

/** What a batch machine is to do, by hand: lists, searched from the beginning each time. Its lanes go strictly by their order. */
export class Model {
  now = 0;
  accepted = 0;
  isFramed = false;
  isFinishing = false;
  charges = false;
  cure: Cure = 'none';
  flushedBelow = 0;
  latencyMs: number | undefined = undefined;
  overflowed: unknown = undefined;
  refusal: { readonly error: unknown } | undefined = undefined;
  isCleared = false;
  fresh: Item[] = [];
  returned: Group[] = [];
  paused: { readonly until: number; readonly group: Group }[] = [];
  calls: Group[] = [];
  results: Item[] = [];
  /** Told, stopped and paused since this was emptied last, and what rules were told. */
  events: BatchNote[] = [];
  stopped: string[] = [];
  pauses: number[] = [];
  told: unknown[] = [];
  private held: Group[] = [];
  private places: NonNullable<Item['place']>[] = [];
  private timed: Item[] = [];
  private batches = 0;

  constructor(readonly rules: ModelRules) {}

  // What can be seen of it.

  get waiting(): Item[] {
    const groups = [...this.returned, ...this.paused.map(({ group }) => group), ...this.held];
    return [...this.fresh, ...groups.flatMap((group) => this.members(group))];
  }

  get freshWeight(): number {
    return weightOf(this.fresh);
  }

  get heldBack(): number {
    return this.places.filter(({ is, counts }) => is === 'ready' && counts).length;
  }

  get isFull(): boolean {
    return this.fresh.length >= this.rules.maxSize || this.freshWeight >= this.rules.maxWeight;
  }

  get isBlocked(): boolean {
    const { order, maxQueued } = this.rules;
    return order?.gates === true && this.heldBack >= (maxQueued === Infinity ? 1000 : maxQueued);
  }

  get isUrgent(): boolean {
    return this.returned.length > 0 || this.isBlocked || (this.isFinishing && !this.isCleared) || this.isFull;
  }

  get lead(): number {
    if (!this.isBlocked) return this.first;
    if (this.returned.length > 0) return Math.min(...this.returned.map(({ lane }) => lane));
    const head = this.places[0]?.item;
    return (head?.parts ?? [head]).find((item) => item && this.fresh.includes(item))?.lane ?? -1;
  }

  /** The first lane in which anything waits. */
  private get first(): number {
    const lanes = [...this.returned, ...this.fresh].map(({ lane }) => lane);
    return lanes.length === 0 ? -1 : Math.min(...lanes);
  }

  /** When the next batch is due. */
  dueAt(windowMs: number): number {
    if (this.isUrgent) return -Infinity;
    if (this.isFramed) return Infinity;
    const due = this.oldest.map(({ index, at, lane }) =>
      index < this.flushedBelow ? -Infinity : at + (this.rules.queue.lanes[lane]?.maxWaitMs ?? windowMs),
    );
    return Math.min(...due);
  }

  get oldestAt(): number {
    return Math.min(...this.oldest.map(({ at }) => at));
  }

  get shrinkAt(): number {
    const { latencyMs } = this;
    return Math.min(
      ...this.oldest.map(({ at, deadlineAt }) => (deadlineAt < Infinity ? deadlineAt - (latencyMs ?? (deadlineAt - at) / 2) : Infinity)),
    );
  }

  get reason(): string | undefined {
    const { lead, rules } = this;
    const back = this.returned.find(({ lane }) => lane === lead);
    if (lead === -1) return undefined;
    if (back) return back.attempt > 1 ? 'retry' : 'split';
    if (this.isFull) return this.fresh.length >= rules.maxSize ? 'size' : 'weight';
    if (this.isFinishing) return 'complete';
    if ((this.ofLane(lead)[0] as Item).index < this.flushedBelow) return 'flush';
    return rules.queue.lanes[lead]?.maxWaitMs === 0 ? 'urgent' : 'time';
  }

  /** What is bid for the next batch, and what it may weigh then. */
  bid(affordable: number): readonly [wanted: number, budget: number] {
    const { lead, charges } = this;
    const { maxWeight } = this.rules;
    const back = this.returned.find(({ lane }) => lane === lead);
    if (!charges) return [0, maxWeight];
    if (back) return [weightOf(this.members(back)), maxWeight];
    const whole = weightOf(this.plan(lead, maxWeight));
    const part = weightOf(this.plan(lead, affordable));
    if (whole <= affordable || this.now < this.shrinkAt) return [whole, maxWeight];
    return [part, Math.max(affordable, Math.min(part, maxWeight))];
  }

  /** The next time at which something happens by itself. */
  get nextAt(): number {
    const deadlines = this.timed.filter(({ isDone }) => !isDone).map(({ deadlineAt }) => deadlineAt);
    return Math.min(...deadlines, ...this.paused.map(({ until }) => until), ...this.calls.map((call) => this.timeoutAt(call)));
  }

  timeoutAt({ startedAt }: Group): number {
    return startedAt + this.rules.timeoutMs;
  }

  // What happens to it.

  enter(item: Item, key: unknown, fault: unknown): 'round' | 'nothing' | 'frame' {
    const { order } = this.rules;
    if (!this.isCleared)
      this.events.push({ type: 'accepted', lane: this.laneName(item.lane), queued: this.waiting.length, seq: item.index });
    if (order) this.places.push((item.place = { key: order.gates ? undefined : key, item, is: 'open', counts: false }));
    const refusal = this.refusal ?? (fault === undefined ? undefined : { error: fault });
    if (refusal) this.settle(item, true, refusal.error);
    else {
      item.state = 'waiting';
      for (const part of item.parts ?? [item]) if (!part.isDone && (this.rules.isPulled || this.makeRoom(part))) this.queue(part);
    }
    if (item.isDone || this.isFinishing || this.isCleared || this.isFull) return 'round';
    if (this.isFramed) return 'nothing';
    this.isFramed = true;
    return 'frame';
  }

  take(budget: number): Group {
    const { lead } = this;
    let group = this.returned.find(({ lane }) => lane === lead);
    if (group) {
      this.returned = without(this.returned, group);
      group.items = this.members(group);
    } else {
      const items = this.plan(lead, budget);
      this.fresh = this.fresh.filter((item) => !items.includes(item));
      group = {
        id: `b${this.batches++}`,
        lane: lead,
        attempt: 1,
        depth: 0,
        search: undefined,
        origin: undefined,
        items,
        children: 0,
        startedAt: 0,
      };
    }
    for (const item of group.items) Object.assign(item, { state: 'flying', group });
    group.startedAt = this.now;
    this.calls.push(group);
    return group;
  }

  sent(group: Group): void {
    group.items = this.members(group);
    for (const item of group.items) item.attempts++;
    for (const whole of new Set(group.items.map((item) => item.whole))) if (whole) whole.attempts++;
  }

  /** The call has an answer: a fault for each item that failed alone. */
  answered(group: Group, faults: ReadonlyMap<Item, Fault>): void {
    this.calls = without(this.calls, group);
    const tookMs = this.now - group.startedAt;
    if (this.charges) this.latencyMs = 0.2 * tookMs + 0.8 * (this.latencyMs ?? tookMs);
    const again: Item[] = [];
    let slowest: Verdict | undefined;
    let isGood = true;
    const items = group.items.filter(({ state }) => state === 'flying');
    for (const item of items) {
      if (item.isDone) continue;
      const fault = faults.get(item);
      isGood &&= fault === undefined;
      const { verdict, reason } = fault && this.rules.repair.length > 0 ? judge(fault) : { verdict: undefined, reason: fault };
      if (fault === undefined) this.settle(item, false, `done ${item.index}`);
      else if (verdict && ['throttled', 'transient', 'timeout'].includes(verdict.class)) {
        item.outcome = reason;
        again.push(item);
        if ((verdict.retryAfterMs ?? 0) > (slowest?.retryAfterMs ?? -1)) slowest = verdict;
      } else this.settle(item, true, reason);
    }
    if (slowest) this.repair(group, again, slowest, true);
    const { search } = group;
    if (search) this.apply(group, search.next(isGood ? group.items : undefined, NO_ORIGIN), search);
  }

  /** The call has failed. */
  failed(group: Group, error: Fault): void {
    this.calls = without(this.calls, group);
    const items = group.items.filter(({ state }) => state === 'flying');
    const { verdict, reason } = this.rules.repair.length > 0 ? judge(error) : { verdict: undefined, reason: error };
    for (const item of items) item.outcome = reason;
    if (verdict?.class === 'throttled' && verdict.retryAfterMs !== undefined) this.pauses.push(verdict.retryAfterMs);
    if (verdict && !this.repair(group, items, verdict, false)) this.inconclusive(group);
    for (const item of items) if (item.state === 'flying' && item.group === group) this.settle(item, true, reason);
  }

  wake(): void {
    for (const item of this.timed.toSorted((a, b) => a.deadlineAt - b.deadlineAt)) {
      if (item.isDone || item.deadlineAt > this.now) continue;
      this.remove(item);
      this.events.push({ type: 'expired', lane: this.laneName(item.lane), deadlineMs: item.deadlineAt - item.at, seq: item.index });
      this.settle(item, true, `late at ${this.now}`);
    }
    for (const { group, until } of [...this.paused]) {
      if (until > this.now) continue;
      this.paused = this.paused.filter((pause) => pause.group !== group);
      this.returned.push(group);
    }
  }

  leave(item: Item): void {
    if (item.place) this.close(item.place, 'left');
    this.remove(item);
    this.events.push({ type: 'cancelled', lane: this.laneName(item.lane), count: 1, seq: item.index });
  }

  promote(item: Item, lane: number): void {
    for (const part of item.parts ?? [item]) {
      if (!this.fresh.includes(part) || lane >= part.lane) continue;
      this.fresh = [...without(this.fresh, part), part];
      part.lane = lane;
    }
  }

  rejectAll(error: unknown): void {
    this.refusal = { error };
    for (const call of this.calls) for (const item of this.members(call)) this.settle(item, true, error);
    this.stopped.push(...this.calls.map(({ id }) => id));
    this.calls = [];
    for (const item of this.waiting) if (!item.isDone) this.refuse(item, error);
    this.returned = [];
    this.paused = [];
    this.held = [];
  }

  /** Rejects every waiting item, and ends each search that has no items left. */
  refuseWaiting(error: unknown): void {
    for (let { first } = this; first !== -1; first = this.first) {
      const back = this.returned.find(({ lane }) => lane === first);
      for (const item of back ? this.members(back) : this.ofLane(first).slice(0, 1)) if (!item.isDone) this.refuse(item, error);
    }
  }

  clear(): void {
    const { length } = this.waiting;
    this.isCleared = true;
    this.rejectAll(undefined);
    this.results = [];
    this.places = [];
    if (length > 0) this.events.push({ type: 'cancelled', lane: this.laneName(0), count: length });
  }

  // How it is done.

  members(group: Group): Item[] {
    return group.items.filter((item) => item.group === group && !item.isDone);
  }

  private ofLane(lane: number): Item[] {
    return this.fresh.filter((item) => item.lane === lane);
  }

  /** The first of each lane. */
  private get oldest(): Item[] {
    return this.rules.queue.lanes.flatMap((_, lane) => this.ofLane(lane).slice(0, 1));
  }

  private laneName(lane: number): string {
    return this.rules.queue.lanes[lane]?.name as string;
  }

  private plan(lead: number, budget: number): Item[] {
    const planned: Item[] = [];
    const first = this.ofLane(lead)[0] as Item;
    for (const lane of this.rules.queue.lanes.keys()) {
      if (this.returned.some((group) => group.lane === lane)) continue;
      for (const item of this.ofLane(lane)) {
        if (item === first) continue;
        const all = [first, ...planned, item];
        if (all.length > this.rules.maxSize || weightOf(all) > budget) break;
        planned.push(item);
      }
    }
    return [first, ...planned];
  }

  private queue(item: Item): void {
    item.state = 'waiting';
    this.fresh.push(item);
    if (item.deadlineAt < Infinity) this.timed.push(item);
  }

  private makeRoom(item: Item): boolean {
    const { rules } = this;
    const lane = rules.queue.lanes[item.lane] as ModelRules['queue']['lanes'][number];
    const { maxQueued = Infinity, overflow = rules.overflow } = lane;
    const isLaneFull = this.waiting.filter((other) => other.lane === item.lane).length >= maxQueued;
    if (!isLaneFull && this.waiting.length + this.heldBack < rules.maxQueued) return true;
    const own = this.ofLane(item.lane);
    const below = this.fresh.filter((other) => other.lane > item.lane);
    const lowest = below.filter((other) => below.every(({ lane: at }) => at <= other.lane));
    const found: Partial<Record<typeof overflow, Item[]>> = {
      dropOldest: own.slice(0, 1),
      latest: own,
      dropLowest: isLaneFull ? [] : lowest.slice(-1),
    };
    const losers = found[overflow] ?? [];
    const error = `over ${isLaneFull ? maxQueued : rules.maxQueued} ${overflow}`;
    for (const loser of losers.length > 0 ? losers : [item]) {
      if (loser.isDone) continue;
      this.events.push({ type: 'dropped', lane: this.laneName(loser.lane), policy: overflow, seq: loser.index });
      if (loser !== item) this.detach(loser);
      this.settle(loser, true, error, false);
    }
    if (overflow === 'error') this.overflowed = error;
    return !item.isDone;
  }

  private settle(item: Item, failed: boolean, outcome: unknown, counts = true): void {
    const { whole, place } = item;
    Object.assign(item, { state: 'done', group: undefined, failed, outcome });
    if (whole) {
      if (whole.isDone) return;
      if (failed) {
        this.settle(whole, true, outcome, counts);
        for (const part of whole.parts as Item[]) this.remove(part);
      } else if (whole.parts?.every(({ isDone }) => isDone)) this.settle(whole, false, `done ${whole.index}`);
      return;
    }
    if (this.isCleared) return;
    if (place) this.close(place, 'ready', counts);
    else this.results.push(item);
    const type = failed ? 'rejected' : 'fulfilled';
    this.events.push({
      type: 'settled',
      lane: this.laneName(item.lane),
      outcome: type,
      attempts: item.attempts,
      totalMs: this.now - item.at,
      seq: item.index,
    });
  }

  private close(place: NonNullable<Item['place']>, is: 'ready' | 'left', counts = false): void {
    if (place.is !== 'open') return;
    Object.assign(place, { is, counts });
    for (;;) {
      const first = this.places.find(({ key }) => key === place.key);
      if (first === undefined || first.is === 'open') return;
      this.places = without(this.places, first);
      if (first.is === 'ready') this.results.push(first.item);
    }
  }

  private remove(item: Item): void {
    const { state, parts, group } = item;
    if (state === 'done') return;
    if (state === 'waiting' && !parts) this.detach(item);
    item.state = 'done';
    for (const part of parts ?? []) this.remove(part);
    if (state !== 'flying' || !group || !this.calls.includes(group) || this.members(group).length > 0) return;
    this.calls = without(this.calls, group);
    this.stopped.push(group.id);
    this.inconclusive(group);
  }

  private detach(item: Item): void {
    const { group } = item;
    item.state = 'done';
    item.group = undefined;
    this.fresh = this.fresh.filter((other) => other !== item);
    if (group === undefined || this.members(group).length > 0) return;
    this.returned = this.returned.filter((other) => other !== group);
    this.paused = this.paused.filter((pause) => pause.group !== group);
    this.held = without(this.held, group);
    this.inconclusive(group);
  }

  private refuse(item: Item, error: unknown): void {
    this.detach(item);
    this.settle(item, true, error);
  }

  private inconclusive(group: Group): void {
    if (group.search && this.refusal === undefined) this.apply(group, group.search.next(undefined, NO_ORIGIN), group.search);
  }

  private repair(group: Group, items: readonly Item[], verdict: Verdict, isPartial: boolean): boolean {
    const { attempt, depth, search } = group;
    let repair: Repair<Item> | undefined;
    const retrying = this.calls.filter((call) => call.attempt > 1).length;
    if (items.length > 0)
      this.told.push([this.calls.length, retrying, this.paused.length, ...group.items.map(({ index }) => String(index))]);
    try {
      if (items.length > 0)
        repair = decide(this.cure, {
          jobs: items,
          verdict,
          attempt,
          depth,
          search: isPartial ? undefined : search,
          isPartial,
          origin: { jobs: (group.origin ?? group).items },
        });
    } catch (fault) {
      for (const item of items) item.outcome = fault;
    }
    const isAgain = repair?.parts?.length && (repair.attempt ?? 1) > 1;
    const next = repair?.search ?? (isAgain && !isPartial ? search : undefined);
    if (repair) this.apply(group, repair, next);
    for (const item of items) if (item.state === 'flying') this.settle(item, true, item.outcome);
    return next !== undefined;
  }

  private apply(group: Group, repair: Repair<Item>, search: Search<Item> | undefined): void {
    const { parts = [], attempt = 1, depth = group.depth, delayMs = 0, pauseMs, rejected = [], held = [], note } = repair;
    if (pauseMs !== undefined) this.pauses.push(pauseMs);
    const going = rejected.filter(({ job: { state, group: at = group } }) => state === 'waiting' || (state === 'flying' && at === group));
    for (const { job } of going) {
      if (job.state === 'waiting') this.detach(job);
      job.state = 'done';
    }
    let isSent = false;
    for (const part of parts) {
      const again = this.regroup(group, part, attempt, depth, search);
      if (again === undefined) continue;
      isSent = true;
      if (delayMs > 0) this.paused.push({ until: this.now + delayMs, group: again });
      else this.returned.push(again);
    }
    const rest = this.regroup(group, held, 1, depth, undefined);
    if (rest) this.held.push(rest);
    for (const { job, reason } of going) this.settle(job, true, reason);
    if (note) this.events.push({ ...note, lane: this.laneName(group.lane), batchId: group.id });
    if (search && parts.length > 0 && !isSent) this.apply(group, search.next(undefined, NO_ORIGIN), search);
  }

  private regroup(
    before: Group,
    members: readonly Item[],
    attempt: number,
    depth: number,
    search: Search<Item> | undefined,
  ): Group | undefined {
    const items = members.filter(({ state, group }) => state === 'flying' || (group && this.held.includes(group)));
    if (items.length === 0) return undefined;
    const origin = before.origin ?? before;
    const from = search && !items.every((item) => before.items.includes(item)) ? origin : before;
    const id = `${from.id}.${++from.children}`;
    for (const item of items) if (item.state === 'waiting') this.detach(item);
    const group: Group = { id, lane: from.lane, attempt, depth, search, origin, items, children: 0, startedAt: 0 };
    for (const item of items) Object.assign(item, { state: 'waiting', group });
    return group;
  }
}

function judge(error: Fault): { readonly verdict: Verdict; readonly reason: unknown } {
  return error.isUnclear ? { verdict: { class: 'fatal' }, reason: UNCLEAR } : { verdict: verdictOf(error), reason: error };
}

const without = <E>(all: readonly E[], one: E): E[] => all.filter((each) => each !== one);
const weightOf = (items: readonly Item[]): number => items.reduce((sum, { weight }) => sum + weight, 0);

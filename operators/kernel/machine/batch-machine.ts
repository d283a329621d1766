import { DeadlineHeap } from '../queues/deadline-heap.js';
import type { Order } from '../queues/order.js';
import { losers } from '../queues/overflow.js';
import type { LaneRule, Overflow, Queue, QueueRule } from '../queues/queue.js';
import type { ReorderBuffer } from '../queues/reorder-buffer.js';
import type { Failure, Repair, RepairNote, RepairRule, Search } from '../repair/rule.js';
import type { Verdict } from '../repair/verdict.js';
import { mayPass } from '../repair/verdict.js';
import type { Entry } from './job.js';
import { ACCEPTED, Batch, DONE, FLYING, ItemFailure, Job, WAITING } from './job.js';

/** What an operator says of its batches. */
export interface BatchRules<T> {
  readonly maxSize: number;
  readonly maxWeight: number;
  readonly maxQueued: number;
  readonly overflow: Overflow;
  readonly queue: QueueRule<T>;
  readonly order: Order<T> | undefined;
  readonly repair: readonly RepairRule[];
  readonly timeoutMs: number;
}

/** What happens to items; whoever drives the machine adds who tells it and when. */
export type BatchNote =
  | { readonly type: 'dropped'; readonly lane: string; readonly policy: string; readonly seq: number }
  | { readonly type: 'queueLong'; readonly lane: string; readonly queued: number }
  | { readonly type: 'expired'; readonly lane: string; readonly deadlineMs: number; readonly seq: number }
  | { readonly type: 'cancelled'; readonly lane: string; readonly count: number }
  | {
      readonly type: 'settled';
      readonly lane: string;
      readonly outcome: 'fulfilled' | 'rejected';
      readonly attempts: number;
      readonly totalMs: number;
      readonly seq: number;
    }
  | (RepairNote & { readonly lane: string; readonly batchId: string });

/** What a failure is, and what its items are to be told. */
export interface Judgement {
  readonly verdict: Verdict;
  readonly reason: unknown;
}

/** Whoever drives a machine: asked for what a machine cannot know, and told what is to be done outside once this step is over. */
export interface BatchHost<T, R> {
  readonly operator: string;
  /** Undefined when nobody listens. */
  readonly tell: ((note: BatchNote) => void) | undefined;
  /** False for whoever pulls: that is done while there is room, and what was on its way when repairs came back is still taken. */
  readonly isBounded: boolean;
  /** Sorts an error; asks a callback, which may do anything. */
  judge(error: unknown, size: number, attempt: number): Judgement;
  /** A random number; asks a callback. */
  draw(): number;
  deadlineError(job: Job<T, R>, now: number): unknown;
  overflowError(limit: number, policy: Overflow): unknown;
  /** Nobody is to send anything for a while. */
  pause(pauseMs: number): void;
  /** Everybody has left the call. */
  stop(batch: Batch<T, R>): void;
}

/** Most results held back while `maxQueued` is no bound. */
const MOST_HELD = 1000;
/** So many that whoever sends them should be looked at. */
const LONG = 10_000;

/**
 * Everything about batches that is a decision: what waits, whose turn it is, when a batch is due and what is in it, what becomes of its failure,
 * and in which order results go out. It is told the time (`now`) and what happens, one thing after the other; it never waits, calls or throws.
 */
export class BatchMachine<T, R> {
  /** The time of what is being told, in ms. */
  now = 0;
  /** What a batch may weigh: `maxWeight`, or less when that can never be granted. */
  aim: number;
  /** Whether weights are tokens of a limit, which a batch may have to save up for. */
  charges = false;
  /** Whether the rest of a burst may still come, which what has come waits for. */
  isFramed = false;
  /** Whether nothing more will come, so that nothing waits for company. */
  isFinishing = false;
  /** Items accepted so far; the index of the next. */
  accepted = 0;
  /** Accepted and not on its way: fresh, between attempts, or waiting as part of a search. */
  queued = 0;
  /** Those of them that were never sent, and their weight. */
  fresh = 0;
  freshWeight = 0;
  /** Calls under way, and those of them that are not a first attempt. */
  readonly calls: Batch<T, R>[] = [];
  retrying = 0;
  /** Calls that are over, and whose members are being seen to. */
  readonly ending: Batch<T, R>[] = [];
  /** An item was too much, and the operator is to fail. */
  overflowed: { readonly error: unknown } | undefined = undefined;
  /** Rejects everything that comes. */
  refusal: { readonly error: unknown } | undefined = undefined;

  private readonly lanes: readonly LaneRule[];
  private readonly queue: Queue<Entry<T, R>>;
  private readonly order: ReorderBuffer<Job<T, R>> | undefined;
  /** Items waiting in each lane, whatever for. */
  private readonly laneQueued: number[];
  /** The open stretch of each lane, and the index below which `closeWhen` and `flush` have made its items due. */
  private readonly stretches: number[];
  private readonly closedBelow: number[];
  private flushedBelow = 0;
  /** Deadlines of items, and batches between two attempts. */
  private readonly wakes = new DeadlineHeap<Entry<T, R>>();
  /** Length at which settled items are swept out of them. */
  private sweepAt = 1024;
  private pausing = 0;
  private readyBatches = 0;
  private readonly held = new Map<Search<Job<T, R>>, Batch<T, R>>();
  /** Results that can be handed out. */
  private readonly results: Job<T, R>[] = [];
  private resultsAt = 0;
  /** Parts whose item has been rejected. */
  private readonly orphans: Job<T, R>[] = [];
  /** No call takes too long before this; it may be the time of one that is over. */
  private timeoutAt = Infinity;
  /** How long calls take, smoothed; undefined before the first. */
  private latencyMs: number | undefined = undefined;
  private batches = 0;
  private isLong = false;

  constructor(
    private readonly rules: BatchRules<T>,
    private readonly host: BatchHost<T, R>,
  ) {
    const { lanes } = rules.queue;
    this.lanes = lanes;
    this.aim = rules.maxWeight;
    this.queue = rules.queue.create<Entry<T, R>>(rules.maxSize === Infinity ? 1 : rules.maxSize);
    this.order = rules.order?.lines<Job<T, R>>((job) => this.results.push(job));
    this.laneQueued = lanes.map(() => 0);
    this.stretches = lanes.map(() => 0);
    this.closedBelow = lanes.map(() => 0);
  }

  laneName(lane: number): string {
    return this.lanes[lane]?.name ?? '';
  }

  // ---- accepting ----------------------------------------------------------------------------------------------------

  /** Accepts an item that is like all others. */
  stamp(job: Job<T, R>): void {
    job.index = this.accepted++;
    job.acceptedAt = this.now;
    job.lane = this.lanes.length - 1;
    job.state = ACCEPTED;
  }

  /** Accepts and queues one for which there is room, see `spare`. */
  join(job: Job<T, R>): void {
    this.stamp(job);
    this.add(job);
  }

  /** Gives the next item its place in the order of results. */
  place(job: Job<T, R>, key: unknown): void {
    if (this.order === undefined) return;
    const place = this.order.enter(key);
    place.item = job;
    job.extras.place = place;
  }

  /** Queues an item, or all its parts, between the boundaries around it; false when it has its result already. */
  enter(job: Job<T, R>): boolean {
    const { more, lane, index } = job;
    if (more?.closes === 'before') this.close(lane, index);
    const refusal = this.refusal ?? more?.fault;
    if (refusal) this.reject(job, refusal.error);
    else if (job.whole) {
      job.state = WAITING;
      for (const part of job.whole.parts) this.enqueue(part);
    } else this.enqueue(job);
    if (more?.closes === 'after') this.close(lane, index + 1);
    return job.state === WAITING;
  }

  /** How many more items of weight 1 neither fill a batch nor leave no room for one more. */
  get spare(): number {
    const { maxSize, maxQueued } = this.rules;
    const last = this.lanes.length - 1;
    const inLane = (this.lanes[last]?.maxQueued ?? Infinity) - (this.laneQueued[last] as number);
    return Math.min(maxSize - this.fresh, maxQueued - this.queued, this.aim - this.freshWeight, inLane) - 1;
  }

  get room(): number {
    return this.rules.maxQueued - this.queued - this.waitingResults;
  }

  /** The items in front of the one that `closeWhen` is asked about. */
  openBatch({ lane }: Job<T, R>): Job<T, R>[] {
    const jobs: Job<T, R>[] = [];
    this.queue.each(lane, (entry) => {
      if (entry.stretch === this.stretches[lane]) jobs.push(entry as Job<T, R>);
      return true;
    });
    return jobs;
  }

  private close(lane: number, below: number): void {
    (this.stretches[lane] as number)++;
    this.closedBelow[lane] = below;
  }

  private enqueue(job: Job<T, R>): void {
    const { tell, isBounded } = this.host;
    // The whole was rejected because another of its parts was.
    if (job.more?.whole?.job.state === DONE) job.state = DONE;
    else if (isBounded && !this.hasRoom(job.lane) && !this.makeRoom(job)) return;
    else {
      this.add(job);
      if (this.queued === 1) this.isLong = false;
      if (tell === undefined || this.isLong || this.queued < LONG || !isBounded || this.rules.maxQueued !== Infinity) return;
      this.isLong = true;
      tell({ type: 'queueLong', lane: this.laneName(job.lane), queued: this.queued });
    }
  }

  private add(job: Job<T, R>): void {
    const { lane, more } = job;
    job.state = WAITING;
    job.stretch = this.stretches[lane] as number;
    this.queue.push(job);
    this.queued++;
    (this.laneQueued[lane] as number)++;
    this.fresh++;
    this.freshWeight += job.weight;
    if (more === undefined || more.deadlineAt === Infinity) return;
    this.wakes.push(more.deadlineAt, job);
    if (this.wakes.length < this.sweepAt) return;
    this.wakes.keep((entry) => entry instanceof Batch || entry.state !== DONE);
    this.sweepAt = Math.max(1024, 2 * this.wakes.length);
  }

  private isLaneFull(lane: number): boolean {
    return (this.laneQueued[lane] as number) >= (this.lanes[lane]?.maxQueued ?? Infinity);
  }

  /** What is held back takes up room as well. */
  private hasRoom(lane: number): boolean {
    return this.queued + this.heldBack < this.rules.maxQueued && !this.isLaneFull(lane);
  }

  /** Applies the overflow policy for one more item; false when the newcomer is the one to go. */
  private makeRoom(job: Job<T, R>): boolean {
    const { maxQueued, overflow } = this.rules;
    const rule = this.lanes[job.lane];
    const policy = rule?.overflow ?? overflow;
    const error = this.host.overflowError(Math.min(maxQueued, rule?.maxQueued ?? Infinity), policy);
    const found = losers(this.queue, job.lane, policy, this.isLaneFull(job.lane)) as readonly Job<T, R>[];
    for (const loser of found.length > 0 ? found : [job]) {
      this.host.tell?.({ type: 'dropped', lane: this.laneName(loser.lane), policy, seq: loser.index });
      if (loser !== job) this.detach(loser);
      this.reject(loser, error, false);
    }
    if (policy === 'error') this.overflowed = { error };
    return found.length > 0;
  }

  // ---- when ---------------------------------------------------------------------------------------------------------

  /** Makes everything that was accepted due, whatever its window. */
  flush(): void {
    this.flushedBelow = this.accepted;
  }

  get isFull(): boolean {
    return this.fresh >= this.rules.maxSize || this.freshWeight >= this.aim;
  }

  /** The lane whose turn it is, or -1. With no room for more results, only repairs and the item that all wait for may go. */
  get lead(): number {
    const { queue } = this;
    if (!this.isBlocked) return queue.lead();
    if (this.readyBatches > 0) return this.lanes.findIndex((_, lane) => queue.isReturned(lane));
    return this.order?.head(undefined)?.freshLane ?? -1;
  }

  /** Whether the window has to be asked before `dueAt` can tell. */
  get wantsWindow(): boolean {
    if (this.isFramed) return false;
    for (let lane = this.queue.after(-1); lane !== -1; lane = this.queue.after(lane)) {
      if (this.lanes[lane]?.maxWaitMs === undefined && this.whyDue(this.queue.oldest(lane)) !== 'flush') return true;
    }
    return false;
  }

  /** When the oldest fresh item of some lane has been held long enough. */
  dueAt(windowMs: number): number {
    let at = Infinity;
    for (let lane = this.queue.after(-1); lane !== -1; lane = this.queue.after(lane)) {
      const head = this.queue.oldest(lane) as Job<T, R>;
      const why = this.whyDue(head);
      if (why === 'closeWhen' || (why === 'flush' && !this.isFramed)) return -Infinity;
      if (!this.isFramed) at = Math.min(at, head.acceptedAt + (this.lanes[lane]?.maxWaitMs ?? windowMs));
    }
    return at;
  }

  /** What is due whatever its window. */
  get isUrgent(): boolean {
    return this.readyBatches > 0 || this.isBlocked || this.isFinishing || this.isFull;
  }

  /** When the oldest fresh item came; now, when there is none. */
  get oldestAt(): number {
    let at = this.now;
    for (let lane = this.queue.after(-1); lane !== -1; lane = this.queue.after(lane)) {
      at = Math.min(at, (this.queue.oldest(lane) as Job<T, R>).acceptedAt);
    }
    return at;
  }

  /** When to look again at deadlines, pauses and calls that take too long; Infinity when there are none. */
  get nextAt(): number {
    for (let entry = this.wakes.peek(); entry && !isAwaited(entry); entry = this.wakes.peek()) this.wakes.pop();
    return Math.min(this.wakes.peekAt(), this.timeoutAt);
  }

  private whyDue(head: Entry<T, R> | undefined): 'flush' | 'closeWhen' | undefined {
    const { index, lane } = head as Job<T, R>;
    if (index < this.flushedBelow) return 'flush';
    return index < (this.closedBelow[lane] as number) ? 'closeWhen' : undefined;
  }

  /** Sees to deadlines and pauses that are over. */
  wake(): void {
    while (this.wakes.peekAt() <= this.now) {
      const entry = this.wakes.pop() as Entry<T, R>;
      if (!isAwaited(entry)) continue;
      if (entry instanceof Batch) {
        this.pausing--;
        this.ready(entry);
      } else {
        this.remove(entry);
        this.host.tell?.({
          type: 'expired',
          lane: this.laneName(entry.lane),
          deadlineMs: entry.deadlineAt - entry.acceptedAt,
          seq: entry.index,
        });
        this.reject(entry, this.host.deadlineError(entry, this.now));
      }
    }
  }

  /** A call that has taken too long. */
  overdue(): Batch<T, R> | undefined {
    if (this.now < this.timeoutAt) return undefined;
    const late = this.calls.find(({ timeoutAt }) => timeoutAt <= this.now);
    if (late === undefined) this.timeoutAt = this.calls.reduce((at, call) => Math.min(at, call.timeoutAt), Infinity);
    return late;
  }

  // ---- sending ------------------------------------------------------------------------------------------------------

  /** Tokens wanted for the next batch; less than it weighs only when a deadline would pass while saving up for it. */
  bid(affordable: number): { readonly tokens: number; readonly budget: number } {
    const { lead, queue, aim } = this;
    if (queue.isReturned(lead)) return { tokens: weightOf((queue.head(lead) as Batch<T, R>).jobs), budget: aim };
    const { maxSize } = this.rules;
    const whole = queue.plan(lead, maxSize, aim).weight;
    if (whole > affordable && this.now >= this.shrinkAt) {
      const part = queue.plan(lead, maxSize, affordable).weight;
      if (part <= affordable) return { tokens: part, budget: affordable };
    }
    return { tokens: whole, budget: aim };
  }

  /** From when on saving up for a whole batch would cost a waiting item its deadline, judging by how long calls have taken. */
  get shrinkAt(): number {
    let at = Infinity;
    for (let lane = this.queue.after(-1); lane !== -1; lane = this.queue.after(lane)) {
      const { deadlineAt, acceptedAt } = this.queue.oldest(lane) as Job<T, R>;
      if (deadlineAt !== Infinity) at = Math.min(at, deadlineAt - (this.latencyMs ?? (deadlineAt - acceptedAt) / 2));
    }
    return at;
  }

  /** Why the next batch, led by this lane, leaves. */
  reason(lead: number): 'size' | 'weight' | 'complete' | 'flush' | 'closeWhen' | 'urgent' | 'time' | 'retry' | 'split' {
    if (this.queue.isReturned(lead)) return (this.queue.head(lead) as Batch<T, R>).attempt > 1 ? 'retry' : 'split';
    if (this.fresh >= this.rules.maxSize) return 'size';
    if (this.freshWeight >= this.aim) return 'weight';
    if (this.isFinishing) return 'complete';
    return this.whyDue(this.queue.oldest(lead)) ?? (this.lanes[lead]?.maxWaitMs === 0 ? 'urgent' : 'time');
  }

  /** Takes the batch whose turn it is; it is on its way from now on. */
  take(lead: number, budget: number): Batch<T, R> {
    const { queue } = this;
    let batch: Batch<T, R>;
    if (queue.isReturned(lead)) {
      batch = queue.takeHead(lead, (queue.head(lead) as Batch<T, R>).live) as Batch<T, R>;
      this.readyBatches--;
      batch.isReady = false;
      batch.tidy();
    } else {
      const { entries, weight } = queue.plan(lead, this.rules.maxSize, budget);
      queue.takePlanned();
      this.freshGone(entries.length, weight);
      const jobs = entries as Job<T, R>[];
      batch = new Batch<T, R>(jobs, lead, weight, `b${String(this.batches++)}`, undefined, undefined, 1, 0, undefined);
    }
    for (const job of batch.jobs) {
      this.unqueue(job.lane);
      job.state = FLYING;
      job.batch = batch;
      if (job.more?.whole) job.more.whole.job.state = FLYING;
    }
    batch.startedAt = this.now;
    batch.timeoutAt = this.now + this.rules.timeoutMs;
    this.timeoutAt = Math.min(this.timeoutAt, batch.timeoutAt);
    if (batch.attempt > 1) this.retrying++;
    batch.slot = this.calls.push(batch) - 1;
    return batch;
  }

  /** The work is called now, for those who have not left. */
  sent(batch: Batch<T, R>): void {
    batch.tidy();
    for (const job of batch.jobs) {
      job.attempts++;
      job.more?.whole?.sent(batch);
    }
  }

  /** The call is over. */
  over(batch: Batch<T, R>): void {
    const last = this.calls.pop() as Batch<T, R>;
    if (last !== batch) {
      this.calls[batch.slot] = last;
      last.slot = batch.slot;
    }
    batch.slot = -1;
    if (this.calls.length === 0) this.timeoutAt = Infinity;
    if (batch.attempt > 1) this.retrying--;
  }

  // ---- what became of a call ----------------------------------------------------------------------------------------

  /** Its answer has one outcome for each of its items, in their order. */
  succeeded(batch: Batch<T, R>, outcomes: readonly (R | ItemFailure)[]): void {
    const { jobs, search, attempt, origin } = batch;
    const { repair } = this.rules;
    if (this.charges) {
      const tookMs = this.now - batch.startedAt;
      this.latencyMs = this.latencyMs === undefined ? tookMs : this.latencyMs + 0.2 * (tookMs - this.latencyMs);
    }
    for (const rule of repair) rule.succeeded?.(origin);
    const again: Job<T, R>[] = [];
    let slowest: Judgement | undefined;
    let allGood = true;
    for (let i = 0; i < jobs.length; i++) {
      const job = jobs[i] as Job<T, R>;
      if (job.state !== FLYING) continue;
      const outcome = outcomes[i] as R | ItemFailure;
      if (!(outcome instanceof ItemFailure)) {
        this.fulfil(job, outcome);
        continue;
      }
      allGood = false;
      job.outcome = outcome.reason;
      if (repair.length > 0) {
        const judged = this.host.judge(outcome.reason, 1, attempt);
        // The callback may have made it leave.
        if (job.isDone) continue;
        job.outcome = judged.reason;
        if (mayPass(judged.verdict)) {
          again.push(job);
          if ((judged.verdict.retryAfterMs ?? 0) > (slowest?.verdict.retryAfterMs ?? -1)) slowest = judged;
          continue;
        }
      }
      this.reject(job, job.outcome);
    }
    if (slowest) this.repair(batch, again, slowest, true);
    if (search) this.apply(batch, allGood ? search.succeeded(jobs, origin) : search.untold(origin));
  }

  /** It failed as a whole; without a verdict nothing can be repaired. */
  failed(batch: Batch<T, R>, reason: unknown, verdict: Verdict | undefined): void {
    const jobs = batch.jobs.filter(({ state }) => state === FLYING);
    for (const job of jobs) job.outcome = reason;
    if (verdict?.class === 'throttled' && verdict.retryAfterMs !== undefined) this.host.pause(verdict.retryAfterMs);
    if (verdict === undefined || !this.repair(batch, jobs, { verdict, reason }, false)) {
      for (const job of jobs) if (job.state === FLYING) this.reject(job, job.outcome);
      this.untold(batch);
    }
  }

  /** Asks the rules; true when that was the next step of the call's search. */
  private repair(batch: Batch<T, R>, jobs: readonly Job<T, R>[], { verdict, reason }: Judgement, isPartial: boolean): boolean {
    const { jobs: call, attempt, depth, origin } = batch;
    const { host, now, retrying, pausing } = this;
    const search = isPartial ? undefined : batch.search;
    const about = { operator: host.operator, now, error: reason, verdict, call, jobs, isPartial, attempt, depth, origin, search };
    const failure: Failure<Job<T, R>> = {
      ...about,
      executing: this.calls.length,
      retrying,
      waiting: pausing,
      ids: () => call.map(({ id }) => id),
      draw: () => host.draw(),
    };
    let repair: Repair<Job<T, R>> | undefined;
    try {
      for (const rule of this.rules.repair) if (jobs.length > 0) repair ??= rule.failed(failure);
    } catch (fault) {
      for (const job of jobs) job.outcome = fault;
    }
    if (repair) this.apply(batch, repair);
    for (const job of jobs) if (job.state === FLYING) this.reject(job, job.outcome);
    return repair?.search !== undefined;
  }

  /** Does what a rule has decided. The items are where they belong before anybody is told. */
  private apply(batch: Batch<T, R>, { parts = [], attempt = 1, delayMs = 0, rejected = [], search, ...repair }: Repair<Job<T, R>>): void {
    const { origin } = batch;
    const { depth = batch.depth, held, pauseMs, note } = repair;
    const was = search && held && this.held.get(search);
    if (pauseMs !== undefined) this.host.pause(pauseMs);
    if (was) {
      this.held.delete(search);
      for (const job of was.jobs) if (job.batch === was) this.release(job);
    }
    // Those that are in another call have their end there.
    const settled = rejected.filter(({ job: { state, batch: at } }) => state === WAITING || (state === FLYING && (at ?? batch) === batch));
    for (const { job } of settled) {
      if (job.state === WAITING) this.detach(job);
      job.state = DONE;
    }
    let isSent = false;
    for (const part of parts) {
      const jobs = part.filter(({ state }) => state === FLYING);
      if (jobs.length === 0) continue;
      if (attempt === 1) origin.calls++;
      const again = this.regroup(batch, jobs, attempt, depth, search);
      isSent = true;
      if (delayMs > 0) {
        again.isPausing = true;
        this.pausing++;
        this.wakes.push(this.now + delayMs, again);
      } else this.ready(again);
    }
    if (search && held && held.length > 0) this.held.set(search, this.regroup(batch, held, 1, depth, undefined));
    for (const { job, reason } of settled) this.reject(job, reason);
    if (was) for (const job of was.jobs) if (job.state === FLYING) this.reject(job, job.outcome);
    if (note) this.host.tell?.({ ...note, lane: this.laneName(batch.lane), batchId: batch.id });
    // Everybody in the part has left while the rule was asked.
    if (search && !isSent && this.held.has(search)) this.apply(batch, search.untold(origin));
  }

  /** Items that are to be sent again, as a batch of their own. */
  private regroup(
    batch: Batch<T, R>,
    jobs: readonly Job<T, R>[],
    attempt: number,
    depth: number,
    search: Batch<T, R>['search'],
  ): Batch<T, R> {
    const id = `${batch.id}.${String(++batch.children)}`;
    const again = new Batch<T, R>(jobs, batch.lane, weightOf(jobs), id, batch.origin, batch.id, attempt, depth, search);
    for (const job of jobs) {
      job.state = WAITING;
      job.batch = again;
      this.queued++;
      (this.laneQueued[job.lane] as number)++;
    }
    return again;
  }

  private ready(batch: Batch<T, R>): void {
    batch.isPausing = false;
    batch.isReady = true;
    this.readyBatches++;
    this.queue.pushReturned(batch);
  }

  /** The batch's search goes on without an answer. */
  private untold(batch: Batch<T, R>): void {
    const { search, origin } = batch;
    if (search && this.refusal === undefined) this.apply(batch, search.untold(origin));
  }

  // ---- results ------------------------------------------------------------------------------------------------------

  /** Results that wait for those of earlier items. */
  get heldBack(): number {
    return this.order === undefined ? 0 : this.order.held;
  }

  /** Results that are not handed out. */
  get waitingResults(): number {
    return this.results.length - this.resultsAt + this.heldBack;
  }

  /** Whether there is nothing to hand out and nothing to clear away. */
  get isIdle(): boolean {
    return this.resultsAt === this.results.length && this.orphans.length === 0;
  }

  /** Items in calls. */
  get inCalls(): number {
    return this.calls.reduce((sum, { live }) => sum + live, 0);
  }

  /** The next result to be handed out. */
  shift(): Job<T, R> | undefined {
    const { results } = this;
    if (this.resultsAt === results.length) {
      if (results.length > 0) results.length = this.resultsAt = 0;
      return undefined;
    }
    return results[this.resultsAt++];
  }

  /** Takes out the parts whose item has been rejected. */
  clearOrphans(): void {
    for (let part = this.orphans.pop(); part; part = this.orphans.pop()) this.remove(part);
  }

  /** Gives the item a result of its own that has not been in a call, or has failed there for good. */
  reject(job: Job<T, R>, reason: unknown, counts = true): void {
    const whole = job.more?.whole;
    if (whole === undefined || whole.job === job) this.settle(job, true, reason, counts);
    else {
      job.state = DONE;
      if (whole.job.state === DONE) return;
      this.settle(whole.job, true, reason, counts);
      this.orphans.push(...whole.parts);
    }
  }

  private fulfil(job: Job<T, R>, value: R): void {
    const whole = job.more?.whole;
    if (whole === undefined) {
      this.settle(job, false, value, true);
      return;
    }
    job.state = DONE;
    const joined = whole.job.state === DONE ? undefined : whole.fulfilled(job, value);
    // Joining asks a callback, which may have given the item up.
    if (joined && !whole.job.isDone) this.settle(whole.job, joined.failed, joined.outcome, true);
  }

  /** The one place where an item gets its result. */
  private settle(job: Job<T, R>, failed: boolean, outcome: unknown, counts: boolean): void {
    job.state = DONE;
    job.batch = undefined;
    job.failed = failed;
    job.outcome = outcome;
    const place = job.more?.place;
    if (place === undefined) this.results.push(job);
    // What was dropped takes up no room.
    else this.order?.ready(place, counts);
    this.host.tell?.({
      type: 'settled',
      lane: this.laneName(job.lane),
      outcome: failed ? 'rejected' : 'fulfilled',
      attempts: job.attempts,
      totalMs: this.now - job.acceptedAt,
      seq: job.index,
    });
  }

  // ---- leaving ------------------------------------------------------------------------------------------------------

  /** Takes an item that is not done out of wherever it is. */
  remove(job: Job<T, R>): void {
    const { whole, batch, state } = job;
    if (state === DONE) return;
    if (whole) {
      for (const part of whole.parts) this.remove(part);
      job.state = DONE;
    } else if (state === WAITING) this.detach(job);
    else {
      job.state = DONE;
      if (batch && --batch.live === 0 && batch.slot !== -1) this.abandon(batch);
    }
  }

  /** Nobody waits for the item any more: those behind it need not either. */
  leave(job: Job<T, R>): void {
    const place = job.more?.place;
    if (place) this.order?.leave(place);
    if (job.state === ACCEPTED) {
      job.state = DONE;
      return;
    }
    this.remove(job);
    this.host.tell?.({ type: 'cancelled', lane: this.laneName(job.lane), count: 1 });
  }

  /** Moves what waits of an item to the end of a more urgent lane. */
  hurry(job: Job<T, R>, lane: number): void {
    for (const part of job.whole?.parts ?? [job]) {
      if (part.state !== WAITING || part.batch || lane >= part.lane) continue;
      this.queue.remove(part);
      this.unqueue(part.lane);
      this.freshGone(1, part.weight);
      part.lane = lane;
      this.add(part);
    }
  }

  /** Everybody has left the call, or is to. */
  private abandon(batch: Batch<T, R>): void {
    this.over(batch);
    this.host.stop(batch);
    this.untold(batch);
  }

  /** Rejects everything that is not settled yet, and all that comes from now on; the calls under way are stopped. */
  rejectAll(error: unknown): void {
    this.refusal = { error };
    for (const { jobs } of [...this.ending, ...this.calls]) for (const job of jobs) if (job.state === FLYING) this.reject(job, error);
    for (const batch of [...this.calls]) this.abandon(batch);
    for (const job of this.takeAll()) this.reject(job, error);
  }

  /** Rejects what waits to be sent, but for what is between two attempts. */
  refuseWaiting(error: unknown): void {
    const { queue } = this;
    for (let lane = queue.lead(); lane !== -1; lane = queue.lead()) {
      const head = queue.head(lane) as Entry<T, R>;
      const jobs = head instanceof Batch ? head.jobs.filter((job) => job.batch === head) : [head];
      for (const job of jobs) {
        this.detach(job);
        this.reject(job, error);
      }
    }
  }

  /** Forgets everything; nothing is told any more but how many have waited. */
  clear(): void {
    this.refusal = { error: undefined };
    for (const { jobs } of this.ending) for (const job of jobs) job.state = DONE;
    for (const batch of [...this.calls]) this.abandon(batch);
    this.results.length = this.resultsAt = this.orphans.length = 0;
    this.order?.clear();
    const count = this.takeAll().length;
    if (count > 0) this.host.tell?.({ type: 'cancelled', lane: this.laneName(0), count });
  }

  /** Takes all out that waits, in the order in which it would have left. */
  private takeAll(): Job<T, R>[] {
    const { queue } = this;
    const all: Job<T, R>[] = [];
    const batches: Batch<T, R>[] = [];
    for (let lane = queue.lead(); lane !== -1; lane = queue.lead()) {
      const entry = queue.takeHead(lane);
      if (entry instanceof Batch) batches.push(entry);
      else all.push(entry);
    }
    for (let entry = this.wakes.pop(); entry; entry = this.wakes.pop()) if (entry instanceof Batch) batches.push(entry);
    batches.push(...this.held.values());
    this.held.clear();
    for (const batch of batches) for (const job of batch.jobs) if (job.batch === batch) all.push(job);
    for (const job of all) job.state = DONE;
    this.laneQueued.fill(0);
    this.queued = this.fresh = this.freshWeight = this.readyBatches = this.pausing = 0;
    return all;
  }

  /** Takes a waiting item out. */
  private detach(job: Job<T, R>): void {
    const { batch } = job;
    job.state = DONE;
    this.unqueue(job.lane);
    if (batch === undefined) {
      this.queue.remove(job);
      this.freshGone(1, job.weight);
      return;
    }
    job.batch = undefined;
    if (--batch.live > 0) return;
    if (batch.isReady) {
      this.queue.remove(batch);
      this.readyBatches--;
    }
    if (batch.isPausing) this.pausing--;
    batch.isReady = batch.isPausing = false;
    this.untold(batch);
  }

  /** An item that waited for a later step of a search is in no batch, and about to be put into one. */
  private release(job: Job<T, R>): void {
    this.unqueue(job.lane);
    job.state = FLYING;
    job.batch = undefined;
  }

  private freshGone(size: number, weight: number): void {
    this.fresh -= size;
    // Sums of fractions drift: an empty queue weighs nothing.
    this.freshWeight = this.fresh === 0 ? 0 : this.freshWeight - weight;
  }

  private unqueue(lane: number): void {
    this.queued--;
    (this.laneQueued[lane] as number)--;
  }

  /** Whether so many results are held back that only the item they wait for may be worked on. */
  get isBlocked(): boolean {
    const { maxQueued, order } = this.rules;
    return order?.gates === true && this.heldBack >= (maxQueued === Infinity ? MOST_HELD : maxQueued);
  }
}

/** Whether somebody still waits for it. */
function isAwaited<T, R>(entry: Entry<T, R>): boolean {
  return entry instanceof Batch ? entry.live > 0 : entry.state !== DONE;
}

function weightOf(jobs: readonly { readonly weight: number }[]): number {
  return jobs.reduce((sum, { weight }) => sum + weight, 0);
}

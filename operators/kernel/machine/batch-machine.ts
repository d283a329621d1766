import { DeadlineHeap } from '../queues/deadline-heap.js';
import { Backlog, Chain, LONG_QUEUE, MAX_HELD } from '../queues/line.js';
import type { OrderRule } from '../queues/order.js';
import { victims } from '../queues/overflow.js';
import type { LaneRule, Queue } from '../queues/queue.js';
import type { OrderedPlace, ReorderBuffer } from '../queues/reorder-buffer.js';
import type { FailedAlone, Judgement, Repairer } from '../repair/repairer.js';
import type { Verdict } from '../repair/verdict.js';
import type { BatchHost, BatchRules } from './batch-host.js';
import type { Burst, Entry } from './job.js';
import { ACCEPTED, Batch, DONE, IN_FLIGHT, ItemFailure, Job, WAITING, weightOf } from './job.js';

/**
 * All decisions about batches: what waits, whose turn it is, when a batch is due and what is in it, what becomes of its failure, and in which order results
 * go out. It is told the time (`now`) and what happens, one thing after the other. It never waits, throws or calls the work.
 */
export class BatchMachine<T, R> {
  /** The time of the current step, in ms. */
  now = 0;
  /** What a batch may weigh: `maxWeight`, or less when that can never be granted; and the one that was bid for last. */
  aim: number;
  budget = Infinity;
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
  /** An item was too much, and the operator is to fail. */
  overflowed: { readonly error: unknown } | undefined = undefined;
  /** Rejects everything that comes. */
  refusal: { readonly error: unknown } | undefined = undefined;
  /** Calls under way, in the order in which they began. */
  readonly underWay = new Chain<Entry<T, R>>();
  /** Calls that are over, while their items are being settled. */
  readonly ending: Batch<T, R>[] = [];
  /** Results that can be handed out. */
  readonly results = new Backlog<Job<T, R>>();
  readonly order: ReorderBuffer<Job<T, R>> | undefined;
  readonly queue: Queue<Entry<T, R>>;
  /** What `push` has let in and is not in the queue yet, and how many of them came when. */
  private readonly pushed = new Backlog<T>();
  private readonly bursts = new Backlog<Burst>();
  private burst: Burst = { at: 0, count: 0 };
  private readonly lanes: readonly LaneRule[];
  /** Items waiting in each lane, whatever for. */
  private readonly laneQueued: number[];
  /** The index below which `flush` has made everything due. */
  private flushedBelow = 0;
  /** How long calls take, smoothed; undefined before the first. */
  latencyMs: number | undefined = undefined;
  private isLong = false;
  private isCleared = false;
  /** Deadlines of items, made for the first that has one; and the length at which settled items are swept out of them. */
  private deadlines: DeadlineHeap<Job<T, R>> | undefined = undefined;
  private sweepAt = 1024;
  private batches = 0;
  /** Repairs failed calls; undefined without a `repair`. */
  readonly repairer: Repairer<T, R> | undefined;

  constructor(
    readonly rules: BatchRules<T>,
    readonly host: BatchHost<T, R>,
  ) {
    const { queue, maxSize, maxWeight, order, repair } = rules;
    this.lanes = queue.lanes;
    this.aim = maxWeight;
    this.queue = queue.create<Entry<T, R>>(maxSize);
    this.laneQueued = this.lanes.map(() => 0);
    this.order = (order as OrderRule<T> | undefined)?.lines<Job<T, R>>((job) => {
      this.results.push(job);
    });
    this.repairer = repair[0]?.createRepairer(this as never, repair) as Repairer<T, R> | undefined;
  }

  laneName(lane: number): string {
    return this.laneRule(lane).name;
  }

  private laneRule(lane: number): LaneRule {
    return this.lanes[lane] as LaneRule;
  }

  // ---- accepting ----------------------------------------------------------------------------------------------------

  /** The item stands in this place in the order of results. */
  place(job: Job<T, R>, place: OrderedPlace<Job<T, R>>): void {
    job.extras.place = place;
  }

  /** Accepts an item that is like all others. */
  stamp(job: Job<T, R>): void {
    job.index = this.accepted++;
    job.acceptedAt = this.now;
    job.lane = this.lanes.length - 1;
    job.state = ACCEPTED;
  }

  /** Queues an item, or all its parts; false when it has its result already. */
  enter(job: Job<T, R>): boolean {
    const refusal = this.refusal ?? job.more?.fault;
    if (refusal) this.settle(job, true, refusal.error);
    else {
      const { parts } = job;
      job.state = WAITING;
      if (parts) for (const part of parts) this.enqueue(part);
      else this.enqueue(job);
    }
    return job.state === WAITING;
  }

  /**
   * Accepts and queues an item where all are alike, and there are neither bounds nor lanes. A million of them may wait: a job is only made of those that
   * can be in the next batch.
   */
  push(input: T): void {
    if (this.pushed.length === 0 && this.fresh < this.rules.maxSize) this.queueJob(input, this.accepted, this.now);
    else {
      this.pushed.push(input);
      if (this.burst.at !== this.now || this.burst.count === 0) this.bursts.push((this.burst = { at: this.now, count: 0 }));
      this.burst.count++;
    }
    this.accepted++;
    this.fresh++;
    this.freshWeight++;
    this.count(0, 1);
  }

  private queueJob(input: T, index: number, acceptedAt: number): void {
    const job = new Job<T, R>(input);
    job.index = index;
    job.acceptedAt = acceptedAt;
    job.state = WAITING;
    this.queue.push(job);
  }

  /** How many more are let in. */
  get room(): number {
    return this.rules.maxQueued - this.queued - this.results.length - this.heldBack;
  }

  private enqueue(job: Job<T, R>): void {
    const { maxQueued, isPulled } = this.rules;
    // Dropped together with another part of its item, for which there was no room.
    if (job.isDone || !(isPulled || this.makeRoom(job))) return;
    this.add(job);
    if (this.queued === 1) this.isLong = false;
    if (this.queued < LONG_QUEUE || this.isLong || maxQueued !== Infinity) return;
    this.isLong = true;
    this.host.tell?.({ type: 'queueLong', lane: this.laneName(job.lane), queued: this.queued });
  }

  add(job: Job<T, R>): void {
    const { lane, deadlineAt } = job;
    job.state = WAITING;
    this.queue.push(job);
    this.count(lane, 1);
    this.fresh++;
    this.freshWeight += job.weight;
    if (deadlineAt === Infinity) return;
    const deadlines = (this.deadlines ??= new DeadlineHeap());
    deadlines.push(deadlineAt, job);
    if (deadlines.length < this.sweepAt) return;
    deadlines.keep(({ state }) => state !== DONE);
    this.sweepAt = Math.max(1024, 2 * deadlines.length);
  }

  /** Applies the overflow policy for one more item; false when that is the one to go. What is held back takes up room as well. */
  private makeRoom(job: Job<T, R>): boolean {
    const { queue, rules } = this;
    const { maxQueued: most = Infinity, overflow: policy = rules.overflow } = this.laneRule(job.lane);
    const isLaneFull = (this.laneQueued[job.lane] as number) >= most;
    if (!isLaneFull && this.queued + this.heldBack < rules.maxQueued) return true;
    const error = this.host.overflowError(Math.min(rules.maxQueued, most), policy);
    const found = victims(queue, job.lane, policy, isLaneFull) as readonly Job<T, R>[];
    for (const victim of found.length > 0 ? found : [job]) {
      if (victim.state === DONE) continue;
      this.host.tell?.({ type: 'dropped', lane: this.laneName(victim.lane), policy, seq: victim.index });
      if (victim !== job) this.detach(victim);
      this.settle(victim, true, error, false);
    }
    if (policy === 'error') this.overflowed = { error };
    return !job.isDone;
  }

  // ---- when, and whose turn -----------------------------------------------------------------------------------------

  /** Makes everything that was accepted due, whatever its window. */
  flush(): void {
    this.flushedBelow = this.accepted;
  }

  get isFull(): boolean {
    return this.fresh >= this.rules.maxSize || this.freshWeight >= this.aim;
  }

  /** Results that wait for those of earlier items. */
  get heldBack(): number {
    return this.order?.held ?? 0;
  }

  /** Whether so many results are held back that only the item they wait for may be worked on. */
  get isBlocked(): boolean {
    const { maxQueued, order } = this.rules;
    return order?.gates === true && this.heldBack >= (maxQueued === Infinity ? MAX_HELD : maxQueued);
  }

  /** Whether batches have come back. */
  private get isReturned(): boolean {
    return this.queue.size > this.fresh - this.pushed.length;
  }

  /** The lane whose turn it is, or -1. With no room for more results, only repairs and the item that all wait for may go. */
  get lead(): number {
    const { queue } = this;
    if (!this.isBlocked) return queue.lead();
    if (this.isReturned) return this.lanes.findIndex((_, lane) => queue.isReturned(lane));
    const head = (this.order as ReorderBuffer<Job<T, R>>).head(undefined) as Job<T, R>;
    const isFresh = (job: Job<T, R>): boolean => job.state === WAITING && job.batch === undefined;
    // Parts may have moved to another lane than the one their item came in.
    return (head.parts ?? [head]).find(isFresh)?.lane ?? -1;
  }

  /** What is due whatever its window. */
  get isUrgent(): boolean {
    return this.isReturned || this.isBlocked || this.isFinishing || this.isFull;
  }

  /** When the oldest fresh item of some lane has been held long enough; asks for the window only where it matters. */
  dueAt(windowMs: () => number): number {
    if (this.isFramed) return Infinity;
    let asked: number | undefined;
    return this.least((head, lane) => {
      return this.isFlushed(head) ? -Infinity : head.acceptedAt + (this.laneRule(lane).maxWaitMs ?? (asked ??= windowMs()));
    });
  }

  /** When the oldest fresh item came; Infinity, when there is none. */
  get oldestAt(): number {
    return this.least(({ acceptedAt }) => acceptedAt);
  }

  /** The least of what is said of the lanes' oldest fresh items. */
  least(of: (head: Job<T, R>, lane: number) => number): number {
    const { queue } = this;
    let least = Infinity;
    for (let lane = queue.after(-1); lane !== -1; lane = queue.after(lane)) {
      least = Math.min(least, of(queue.oldest(lane) as Job<T, R>, lane));
    }
    return least;
  }

  private isFlushed({ index }: Job<T, R>): boolean {
    return index < this.flushedBelow;
  }

  /** Why the next batch, led by this lane, leaves. */
  reason(lead: number): 'size' | 'weight' | 'complete' | 'flush' | 'urgent' | 'time' | 'retry' | 'split' {
    const { queue } = this;
    if (queue.isReturned(lead)) return (queue.head(lead) as Batch<T, R>).attempt > 1 ? 'retry' : 'split';
    if (this.isFull) return this.fresh >= this.rules.maxSize ? 'size' : 'weight';
    if (this.isFinishing) return 'complete';
    if (this.isFlushed(queue.oldest(lead) as Job<T, R>)) return 'flush';
    return this.laneRule(lead).maxWaitMs === 0 ? 'urgent' : 'time';
  }

  /** When to look again at deadlines, pauses and calls that take too long; Infinity when there are none. */
  get nextAt(): number {
    const { deadlines, repairer } = this;
    const oldest = this.underWay.first as Batch<T, R> | undefined;
    while (deadlines?.peek()?.state === DONE) deadlines.pop();
    return Math.min(oldest?.timeoutAt ?? Infinity, deadlines?.peekAt() ?? Infinity, repairer?.nextAt ?? Infinity);
  }

  /** Sees to deadlines and pauses that are over. */
  wake(): void {
    const { deadlines, host, now } = this;
    while (deadlines && deadlines.peekAt() <= now) {
      const job = deadlines.pop() as Job<T, R>;
      if (job.isDone) continue;
      this.remove(job);
      host.tell?.({ type: 'expired', lane: this.laneName(job.lane), deadlineMs: job.deadlineAt - job.acceptedAt, seq: job.index });
      this.settle(job, true, host.deadlineError(job, now));
    }
    this.repairer?.wake();
  }

  // ---- calls --------------------------------------------------------------------------------------------------------

  get calls(): readonly Batch<T, R>[] {
    return this.underWay.members as Batch<T, R>[];
  }

  /** A call that has taken too long. */
  overdue(): Batch<T, R> | undefined {
    const first = this.underWay.first as Batch<T, R> | undefined;
    return first && first.timeoutAt <= this.now ? first : undefined;
  }

  /** Takes the batch whose turn it is; it is on its way from now on. */
  take(lead: number, budget: number): Batch<T, R> {
    const { queue, rules } = this;
    let batch: Batch<T, R>;
    if (queue.isReturned(lead)) {
      batch = queue.takeHead(lead, (queue.head(lead) as Batch<T, R>).live) as Batch<T, R>;
      batch.tidy();
    } else {
      const jobs = queue.plan(lead, rules.maxSize, budget) as Job<T, R>[];
      queue.takeAll(jobs);
      batch = new Batch(jobs, lead, weightOf(jobs), `b${String(this.batches++)}`);
      this.freshGone(jobs.length, batch.weight);
    }
    for (const job of batch.jobs) {
      this.count(job.lane, -1);
      job.state = IN_FLIGHT;
      job.batch = batch;
    }
    batch.startedAt = this.now;
    batch.timeoutAt = this.now + rules.timeoutMs;
    batch.isUnderWay = true;
    this.underWay.push(batch);
    return batch;
  }

  /** The work is called now, for those who have not left. Answers their inputs. */
  sent(batch: Batch<T, R>): T[] {
    batch.tidy();
    return batch.jobs.map((job) => {
      job.attempts++;
      job.more?.whole?.sent(batch);
      return job.input;
    });
  }

  /** The call is over. */
  over(batch: Batch<T, R>): void {
    batch.isUnderWay = false;
    this.underWay.remove(batch);
  }

  /** Its answer has one outcome for each of its items, in their order. */
  succeeded(batch: Batch<T, R>, outcomes: readonly (R | ItemFailure)[]): void {
    const { jobs } = batch;
    const { repairer } = this;
    const tookMs = this.now - batch.startedAt;
    if (this.charges) this.latencyMs = 0.2 * tookMs + 0.8 * (this.latencyMs ?? tookMs);
    const alone = repairer?.answered(batch);
    let allGood = true;
    for (let i = 0; i < jobs.length; i++) {
      const job = jobs[i] as Job<T, R>;
      const outcome = outcomes[i];
      const hasFailed = outcome instanceof ItemFailure;
      if (job.state !== IN_FLIGHT) continue;
      if (hasFailed) allGood = false;
      if (hasFailed && repairer) repairer.failedAlone(batch, job, outcome, alone as FailedAlone<T, R>);
      else this.settle(job, hasFailed, hasFailed ? outcome.reason : outcome);
    }
    repairer?.concluded(batch, alone as FailedAlone<T, R>, allGood);
  }

  /** It failed as a whole; without a verdict nothing can be repaired. */
  failed(batch: Batch<T, R>, reason: unknown, verdict: Verdict | undefined): void {
    const jobs = batch.jobs.filter(({ state }) => state === IN_FLIGHT);
    for (const job of jobs) job.outcome = reason;
    if (verdict) this.repairer?.failed(batch, jobs, reason, verdict);
    for (const job of jobs) if (job.state === IN_FLIGHT) this.settle(job, true, reason);
  }

  /** What a failure is; undefined where nothing is repaired. Asks a callback, which may do anything. */
  judge(error: unknown, { jobs, attempt }: Batch<T, R>): Judgement | undefined {
    return this.repairer?.judge(error, jobs.length, attempt);
  }

  /** Puts a batch ahead of everything fresh in its lane. */
  bringBack(batch: Batch<T, R>): void {
    batch.isReady = true;
    this.queue.pushReturned(batch);
  }

  // ---- results, and leaving -----------------------------------------------------------------------------------------

  /** The one place where an item gets its result, once; it is handed out at once, or when those before it have theirs. */
  settle(job: Job<T, R>, failed: boolean, outcome: unknown, counts = true): void {
    const whole = job.more?.whole;
    const place = job.more?.place;
    job.state = DONE;
    job.batch = undefined;
    if (whole && whole.job !== job) {
      whole.settled(this, job, failed, outcome, counts);
      return;
    }
    job.failed = failed;
    job.outcome = outcome;
    if (this.isCleared) return;
    if (place === undefined) this.results.push(job);
    // What was dropped takes up no room.
    else (this.order as ReorderBuffer<Job<T, R>>).ready(place, counts);
    const { lane, attempts, acceptedAt, index } = job;
    this.host.tell?.({
      ...{ type: 'settled', lane: this.laneName(lane), outcome: failed ? 'rejected' : 'fulfilled', attempts },
      ...{ totalMs: this.now - acceptedAt, seq: index },
    });
  }

  /** Takes an item out of wherever it is; one that is done is nowhere. */
  remove(job: Job<T, R>): void {
    const { parts, batch, state } = job;
    if (state === WAITING && !parts) this.detach(job);
    job.state = DONE;
    for (const part of parts ?? []) this.remove(part);
    if (state === IN_FLIGHT && batch && --batch.live === 0 && batch.isUnderWay) this.abandon(batch);
  }

  /** Takes a waiting item out. */
  detach(job: Job<T, R>): void {
    const { batch } = job;
    job.state = DONE;
    this.count(job.lane, -1);
    if (batch === undefined) {
      this.queue.remove(job);
      this.freshGone(1, job.weight);
      return;
    }
    job.batch = undefined;
    if (--batch.live > 0) return;
    if (batch.isReady) this.queue.remove(batch);
    (this.repairer as Repairer<T, R>).emptied(batch);
  }

  /** Rejects everything that is not settled yet, and all that comes from now on; the calls under way are stopped. */
  rejectAll(error: unknown): void {
    this.refusal = { error };
    for (const { jobs } of [...this.ending, ...this.calls])
      for (const job of jobs) if (job.state === IN_FLIGHT) this.settle(job, true, error);
    for (const batch of this.calls) this.abandon(batch);
    this.refuseWaiting(error);
    for (const batch of this.repairer?.takeAll() ?? []) this.refuse(batch, error);
  }

  /** Rejects what waits to be sent, but for what is between two attempts. */
  refuseWaiting(error: unknown): void {
    const { queue } = this;
    for (let lane = queue.lead(); lane !== -1; lane = queue.lead()) this.refuse(queue.head(lane) as Entry<T, R>, error);
  }

  private refuse(entry: Entry<T, R>, error: unknown): void {
    for (const job of entry instanceof Batch ? entry.jobs : [entry]) {
      if (job.isDone) continue;
      this.detach(job);
      this.settle(job, true, error);
    }
  }

  /** Forgets everything; nothing is told any more but how many have waited. */
  clear(): void {
    const { queued } = this;
    this.isCleared = true;
    this.pushed.clear();
    this.rejectAll(undefined);
    this.results.clear();
    this.order?.clear();
    if (queued > 0) this.host.tell?.({ type: 'cancelled', lane: this.laneName(0), count: queued });
  }

  /** Everybody has left the call, or is to. */
  private abandon(batch: Batch<T, R>): void {
    this.over(batch);
    this.host.stop(batch);
    this.repairer?.inconclusive(batch);
  }

  /** Fresh items were sent, or have left. */
  private freshGone(size: number, weight: number): void {
    this.fresh -= size;
    // Sums of fractions drift: an empty queue weighs nothing.
    this.freshWeight = this.fresh === 0 ? 0 : this.freshWeight - weight;
    const { accepted, pushed } = this;
    while (pushed.length > 0 && this.fresh - pushed.length < this.rules.maxSize) {
      const burst = this.bursts.peek() as Burst;
      if (--burst.count === 0) this.bursts.shift();
      this.queueJob(pushed.shift() as T, accepted - pushed.length - 1, burst.at);
    }
  }

  /** One more item waits in the lane, or one less. */
  count(lane: number, change: number): void {
    this.queued += change;
    (this.laneQueued[lane] as number) += change;
  }
}

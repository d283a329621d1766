import { DeadlineHeap } from '../queues/deadline-heap.js';
import { losers } from '../queues/overflow.js';
import type { Queue } from '../queues/queue.js';
import type { BatchHost, BatchRules } from './batch-results.js';
import { BatchResults } from './batch-results.js';
import type { Batch, Entry, Job } from './job.js';
import { ACCEPTED, DONE, WAITING } from './job.js';

/** So many that whoever sends them should be looked at. */
const LONG = 10_000;

/** Everything that was accepted and is not on its way: what there is room for, when the next batch is due, and what it may weigh. */
export abstract class BatchWaiting<T, R> extends BatchResults<T, R> {
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
  /** An item was too much, and the operator is to fail. */
  overflowed: { readonly error: unknown } | undefined = undefined;
  protected readonly queue: Queue<Entry<T, R>>;
  /** Items waiting in each lane, whatever for. */
  protected readonly laneQueued: number[];
  /** The open stretch of each lane, and the index below which `closeWhen` and `flush` have made its items due. */
  protected readonly stretches: number[];
  protected readonly closedBelow: number[];
  protected flushedBelow = 0;
  /** Length at which settled items are swept out of them. */
  private sweepAt = 1024;
  protected readyBatches = 0;
  /** How long calls take, smoothed; undefined before the first. */
  protected latencyMs: number | undefined = undefined;
  private isLong = false;

  /** Deadlines of items; made for the first that has one. */
  protected deadlines: DeadlineHeap<Job<T, R>> | undefined = undefined;

  constructor(rules: BatchRules<T>, host: BatchHost<T, R>) {
    super(rules, host);
    const { lanes } = this;
    this.aim = rules.maxWeight;
    this.queue = rules.queue.create<Entry<T, R>>(rules.maxSize === Infinity ? 1 : rules.maxSize);
    this.laneQueued = lanes.map(() => 0);
    this.stretches = lanes.map(() => 0);
    this.closedBelow = lanes.map(() => 0);
  }

  /** Takes a waiting item out. */
  abstract detach(job: Job<T, R>): void;

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

  protected add(job: Job<T, R>): void {
    const { lane, more } = job;
    job.state = WAITING;
    job.stretch = this.stretches[lane] as number;
    this.queue.push(job);
    this.queued++;
    (this.laneQueued[lane] as number)++;
    this.fresh++;
    this.freshWeight += job.weight;
    if (more === undefined || more.deadlineAt === Infinity) return;
    const deadlines = (this.deadlines ??= new DeadlineHeap());
    deadlines.push(more.deadlineAt, job);
    if (deadlines.length < this.sweepAt) return;
    deadlines.keep(({ state }) => state !== DONE);
    this.sweepAt = Math.max(1024, 2 * deadlines.length);
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

  private whyDue(head: Entry<T, R> | undefined): 'flush' | 'closeWhen' | undefined {
    const { index, lane } = head as Job<T, R>;
    if (index < this.flushedBelow) return 'flush';
    return index < (this.closedBelow[lane] as number) ? 'closeWhen' : undefined;
  }

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

  protected freshGone(size: number, weight: number): void {
    this.fresh -= size;
    // Sums of fractions drift: an empty queue weighs nothing.
    this.freshWeight = this.fresh === 0 ? 0 : this.freshWeight - weight;
  }

  /** One more item waits in the lane, or one less. */
  count(lane: number, change: number): void {
    this.queued += change;
    (this.laneQueued[lane] as number) += change;
  }
}

export function weightOf(jobs: readonly { readonly weight: number }[]): number {
  return jobs.reduce((sum, { weight }) => sum + weight, 0);
}

import type { Mending } from '../repair/mending.js';
import type { Verdict } from '../repair/verdict.js';
import type { BatchHost, BatchRules } from './batch-results.js';
import { BatchWaiting } from './batch-waiting.js';
import type { Entry, Job } from './job.js';
import { ACCEPTED, Batch, DONE, FLYING, ItemFailure, WAITING } from './job.js';

export type { BatchHost, BatchNote, BatchRules, Judgement } from './batch-results.js';

/**
 * Everything about batches that is a decision: what waits, whose turn it is, when a batch is due and what is in it, what becomes of its failure,
 * and in which order results go out. It is told the time (`now`) and what happens, one thing after the other; it never waits, calls or throws.
 */
export class BatchMachine<T, R> extends BatchWaiting<T, R> {
  /** Calls under way, and those of them that are not a first attempt. */
  readonly calls: Batch<T, R>[] = [];
  retrying = 0;
  /** Calls that are over, and whose members are being seen to. */
  readonly ending: Batch<T, R>[] = [];
  /** No call takes too long before this; it may be the time of one that is over. */
  private timeoutAt = Infinity;
  private batches = 0;
  /** What is done about failures; undefined when nothing is. */
  private readonly mending: Mending<T, R> | undefined;

  constructor(rules: BatchRules<T>, host: BatchHost<T, R>) {
    super(rules, host);
    this.mending = rules.repair[0]?.mend(this as never, rules.repair) as Mending<T, R> | undefined;
  }

  /** When to look again at deadlines, pauses and calls that take too long; Infinity when there are none. */
  get nextAt(): number {
    const { deadlines, mending } = this;
    let at = this.timeoutAt;
    if (deadlines) {
      while (deadlines.peek()?.state === DONE) deadlines.pop();
      at = Math.min(at, deadlines.peekAt());
    }
    return mending ? Math.min(at, mending.nextAt) : at;
  }

  /** Sees to deadlines and pauses that are over. */
  wake(): void {
    const { deadlines, host, now } = this;
    while (deadlines && deadlines.peekAt() <= now) {
      const job = deadlines.pop() as Job<T, R>;
      if (job.state === DONE) continue;
      this.remove(job);
      const deadlineMs = job.deadlineAt - job.acceptedAt;
      host.tell?.({ type: 'expired', lane: this.laneName(job.lane), deadlineMs, seq: job.index });
      this.reject(job, host.deadlineError(job, now));
    }
    this.mending?.wake();
  }

  /** A call that has taken too long. */
  overdue(): Batch<T, R> | undefined {
    if (this.now < this.timeoutAt) return undefined;
    const late = this.calls.find(({ timeoutAt }) => timeoutAt <= this.now);
    if (late === undefined) this.timeoutAt = this.calls.reduce((at, call) => Math.min(at, call.timeoutAt), Infinity);
    return late;
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
      this.count(job.lane, -1);
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

  /** Its answer has one outcome for each of its items, in their order. */
  succeeded(batch: Batch<T, R>, outcomes: readonly (R | ItemFailure)[]): void {
    const { jobs } = batch;
    const { mending } = this;
    if (this.charges) {
      const tookMs = this.now - batch.startedAt;
      this.latencyMs = this.latencyMs === undefined ? tookMs : this.latencyMs + 0.2 * (tookMs - this.latencyMs);
    }
    const alone = mending?.answered(batch);
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
      if (mending && alone) mending.failedAlone(batch, job, outcome, alone);
      else this.reject(job, outcome.reason);
    }
    if (alone) mending?.concluded(batch, alone, allGood);
  }

  /** It failed as a whole; without a verdict nothing can be repaired. */
  failed(batch: Batch<T, R>, reason: unknown, verdict: Verdict | undefined): void {
    const jobs = batch.jobs.filter(({ state }) => state === FLYING);
    for (const job of jobs) job.outcome = reason;
    if (verdict) this.mending?.failed(batch, jobs, reason, verdict);
    for (const job of jobs) if (job.state === FLYING) this.reject(job, reason);
  }

  /** Puts a batch ahead of everything fresh in its lane. */
  bringBack(batch: Batch<T, R>): void {
    batch.isReady = true;
    this.readyBatches++;
    this.queue.pushReturned(batch);
  }

  /** Items in calls. */
  get inCalls(): number {
    return this.calls.reduce((sum, { live }) => sum + live, 0);
  }

  /** Takes out the parts whose item has been rejected. */
  clearOrphans(): void {
    for (let part = this.orphans.pop(); part; part = this.orphans.pop()) this.remove(part);
  }

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
      this.count(part.lane, -1);
      this.freshGone(1, part.weight);
      part.lane = lane;
      this.add(part);
    }
  }

  /** Everybody has left the call, or is to. */
  private abandon(batch: Batch<T, R>): void {
    this.over(batch);
    this.host.stop(batch);
    this.mending?.untold(batch);
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
    if (this.mending) batches.push(...this.mending.takeAll());
    for (const batch of batches) for (const job of batch.jobs) if (job.batch === batch) all.push(job);
    for (const job of all) job.state = DONE;
    this.laneQueued.fill(0);
    this.queued = this.fresh = this.freshWeight = this.readyBatches = 0;
    return all;
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
    if (batch.isReady) {
      this.queue.remove(batch);
      this.readyBatches--;
    }
    batch.isReady = false;
    this.mending?.emptied(batch);
  }
}

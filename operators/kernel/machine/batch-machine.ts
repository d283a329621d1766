import { Backlog, Chain } from '../queues/line.js';
import type { OrderRule } from '../queues/order.js';
import type { LaneRule, Queue } from '../queues/queue.js';
import type { ReorderBuffer } from '../queues/reorder-buffer.js';
import type { FailedAlone, Repairer } from '../repair/repairer.js';
import type { Verdict } from '../repair/verdict.js';
import { isUnbounded } from '../waiting/bounds.js';
import type { Deadlines, LongMark } from '../waiting/deadlines.js';
import { enter, stamp } from './accept.js';
import type { BatchHost, BatchRules, Fault } from './batch-host.js';
import type { Burst, Entry } from './job.js';
import { Batch, DONE, IN_FLIGHT, ItemFailure, Job, matchAnswer, WAITING } from './job.js';
import type { Arrival, Step } from './step.js';
import { ASK, CLOSED, FINISHING, FRAME, HAND_OUT, NOTHING, OPEN, REST, ROUND, STAY, WITHDRAW } from './step.js';
import { bid, dueAtOf, freshGone, jobOf, leadOf, nextBidAt, readCapacity, reasonOf, takeBatch } from './turn.js';

/**
 * All decisions about batches: what waits, whose turn it is, when a batch is due and what is in it, what becomes of its failure, and in which order results
 * go out. Its host sends it events, one after the other, and asks `next` what is to be done. It never waits, throws or calls the work.
 */
export class BatchMachine<T, R> {
  /** The time of the current event, in ms. */
  now = 0;
  /** The lane for which a permit is awaited; -1 while none is. */
  waitsIn = -1;
  /** Whether a frame is open, whose end waiting items wait for. */
  isFramed = false;
  /** Items accepted so far; the index of the next. */
  accepted = 0;
  /** Accepted and not on its way: fresh, between attempts, or waiting as part of a search. */
  queued = 0;
  /** Those of them that were never sent, and their weight. */
  fresh = 0;
  freshWeight = 0;
  /** What a batch may weigh: `maxWeight`, or less when that can never be granted; and the one that was bid for last. */
  aim: number;
  budget = Infinity;
  /** Whether weights are tokens of a limit, which a batch may have to save up for. */
  charges = false;
  /** How long calls take, smoothed; undefined before the first. */
  latencyMs: number | undefined = undefined;
  /** The index below which `flush` has made everything due. */
  flushedBelow = 0;
  /** Batches made of fresh items. */
  batches = 0;
  /** Rejects everything that comes. */
  refusal: Fault | undefined = undefined;
  /** Results that can be handed out. */
  readonly results = new Backlog<Job<T, R>>();
  readonly order: ReorderBuffer<Job<T, R>> | undefined;
  readonly lines: Queue<Entry<T, R>>;
  /** Inputs that are all alike and cannot be in the next batch, and how many of them came when. A million may wait: jobs of them would double the CPU. */
  readonly inputs = new Backlog<T>();
  readonly bursts = new Backlog<Burst>();
  private burst: Burst = { at: 0, count: 0 };
  /** Calls under way, in the order in which they began. */
  readonly underWay = new Chain<Entry<T, R>>();
  /** Calls that are over, while their items are being settled. */
  readonly ending: Batch<T, R>[] = [];
  /** Repairs failed calls; undefined without a `repair`. */
  readonly repairer: Repairer<T, R> | undefined;
  phase: typeof OPEN | typeof FINISHING | typeof CLOSED = OPEN;
  /** Items that are being accepted, and not queued yet. */
  entering = 0;
  /** When the open batch is due, as `next` has found it. */
  dueAt = Infinity;
  /** Items waiting in each lane, whatever for. */
  readonly inLane: number[];
  /** Whether nothing is refused or told of items that are alike. */
  private readonly isPlain: boolean;
  /** Made for the first item that has a deadline. */
  deadlines: Deadlines<Job<T, R>> | undefined = undefined;
  long: LongMark | undefined = undefined;

  constructor(
    readonly rules: BatchRules<T>,
    readonly host: BatchHost<T, R>,
  ) {
    const { bounds, isPulled, queue, maxSize, maxWeight, order, repair } = rules;
    this.aim = maxWeight;
    this.lines = queue.create<Entry<T, R>>(maxSize);
    this.inLane = queue.lanes.map(() => 0);
    this.isPlain = !host.tell && (isPulled === true || isUnbounded(bounds));
    this.order = (order as OrderRule<T> | undefined)?.lines<Job<T, R>>((job) => {
      this.results.push(job);
    });
    this.repairer = repair[0]?.createRepairer(this as never, repair) as Repairer<T, R> | undefined;
  }

  laneName(lane: number): string {
    return (this.rules.queue.lanes[lane] as LaneRule).name;
  }

  get lead(): number {
    return leadOf(this);
  }

  get isFull(): boolean {
    return this.fresh >= this.rules.maxSize || this.freshWeight >= this.aim;
  }

  /** Results that wait for those of earlier items. */
  get heldBack(): number {
    return this.order?.held ?? 0;
  }

  /** It is this time now. */
  tick(now: number): void {
    this.now = now;
  }

  // ---- accepting ----------------------------------------------------------------------------------------------------

  /** Accepts and queues an item where all are alike. A job is only made of those that can be in the next batch. */
  push(input: T, now: number): Arrival {
    if (!this.isPlain || this.refusal) {
      const job = new Job<T, R>(input);
      stamp(this, job, now);
      return enter(this, job);
    }
    this.now = now;
    if (this.fresh < this.rules.maxSize) this.lines.push(jobOf(input, this.accepted, now));
    else {
      this.inputs.push(input);
      if (this.burst.at !== now || this.burst.count === 0) this.bursts.push((this.burst = { at: now, count: 0 }));
      this.burst.count++;
    }
    this.accepted++;
    this.queued++;
    (this.inLane[0] as number) += 1;
    this.fresh++;
    this.freshWeight++;
    return this.arrived(0);
  }

  /** An item has come into the lane. Behind others, while a permit is awaited or a frame is open, it changes nothing yet. */
  arrived(lane: number, isTimed = false): Arrival {
    const { waitsIn } = this;
    if (this.phase !== OPEN || (waitsIn === -1 ? this.isFull : isTimed || lane < waitsIn)) return ROUND;
    if (waitsIn !== -1 || this.isFramed) return NOTHING;
    this.isFramed = true;
    return FRAME;
  }

  // ---- what is next -------------------------------------------------------------------------------------------------

  /** What is to be done now; asked again until the answer is `REST`. Deadlines, pauses and calls that take too long come first. */
  next(now: number): Step {
    const { limiter, weigh } = this.rules;
    let isLate = this.wake(now);
    if (this.underWay.first) isLate = this.timeOut() || isLate;
    if (isLate || this.results.length > 0) return HAND_OUT;
    if (weigh) readCapacity(this);
    const { waitsIn } = this;
    const lead = leadOf(this);
    this.dueAt = Infinity;
    if (waitsIn === -1) {
      const dueAt = lead === -1 ? Infinity : dueAtOf(this);
      if (dueAt > now) {
        this.dueAt = dueAt;
        return REST;
      }
      // The window may have changed anything.
      if (this.rules.window && leadOf(this) !== lead) return HAND_OUT;
    } else if (lead === -1 || (limiter && lead !== waitsIn)) {
      // What was urgent has left, or something more urgent has come.
      this.waitsIn = -1;
      return WITHDRAW;
    } else if (limiter) return STAY;
    this.waitsIn = lead;
    this.budget = this.aim;
    return ASK;
  }

  /** The end of the frame that an arrival has asked for. */
  frameOver(): void {
    this.isFramed = false;
  }

  /** Makes everything that was accepted due, whatever its window. */
  flush(): void {
    this.flushedBelow = this.accepted;
  }

  /** The permit that is awaited was refused. */
  refused(): void {
    this.waitsIn = -1;
  }

  /** When to look again, after the answer `REST`; Infinity when only an event changes anything. */
  get wakesAt(): number {
    const { dueAt, deadlines, repairer, rules, underWay, waitsIn } = this;
    const first = underWay.first as Batch<T, R> | undefined;
    const turnAt = waitsIn === -1 ? dueAt : rules.limiter ? nextBidAt(this) : Infinity;
    return Math.min(turnAt, first?.timeoutAt ?? Infinity, deadlines?.nextAt ?? Infinity, repairer?.nextAt ?? Infinity);
  }

  /** Sees to pauses and deadlines that are over; true when an item has expired. */
  private wake(now: number): boolean {
    const { deadlines, host } = this;
    let isLate = false;
    this.now = now;
    for (let job = deadlines?.takeLate(now); job; job = deadlines?.takeLate(now)) {
      isLate = true;
      this.remove(job);
      host.tell?.({ type: 'expired', lane: this.laneName(job.lane), deadlineMs: job.deadlineAt - job.acceptedAt, seq: job.index });
      this.settle(job, true, host.deadlineError(job, now));
    }
    this.repairer?.wake();
    return isLate;
  }

  /** Stops calls that have taken too long; true when there was one. */
  private timeOut(): boolean {
    const { host, now, underWay } = this;
    let hasStopped = false;
    for (let batch = underWay.first; batch instanceof Batch && batch.timeoutAt <= now; batch = underWay.first) {
      const fault = { error: host.timeoutError() };
      hasStopped = true;
      host.stop(batch, fault);
      this.ended(batch, undefined, fault);
    }
    return hasStopped;
  }

  /** No more items will come: what waits leaves as soon as permits allow. */
  finish(): void {
    if (this.phase === OPEN) this.phase = FINISHING;
  }

  /** True once, when all items are settled after `finish`. */
  drained(): boolean {
    if (this.phase !== FINISHING || this.queued + this.underWay.size + this.entering > 0) return false;
    this.phase = CLOSED;
    return true;
  }

  // ---- calls --------------------------------------------------------------------------------------------------------

  get calls(): readonly Batch<T, R>[] {
    return this.underWay.members as Batch<T, R>[];
  }

  /** Tokens wanted for the permit that is awaited, undefined when nothing is to be sent any more; the time is left out inside another step. */
  bid(affordable: number, now?: number): number | undefined {
    if (now !== undefined) {
      this.now = now;
      // What comes back now, after a pause that was for all, goes first. Deadlines are seen to by `next`, because that stops calls.
      this.repairer?.wake();
    }
    const lead = leadOf(this);
    if (lead !== -1) return bid(this, lead, affordable);
    this.waitsIn = -1;
    return undefined;
  }

  /** A permit has come. Answers the batch whose turn it is, which is under way from now on; undefined when nothing is to be sent any more. */
  granted(budget = this.budget, now?: number): Batch<T, R> | undefined {
    if (now !== undefined) this.wake(now);
    const { host } = this;
    const lead = leadOf(this);
    this.waitsIn = -1;
    if (lead === -1) return undefined;
    const reason = host.tell && reasonOf(this, lead);
    const batch = takeBatch(this, lead, budget);
    this.queued -= batch.jobs.length;
    for (const job of batch.jobs) {
      (this.inLane[job.lane] as number) -= 1;
      job.state = IN_FLIGHT;
      job.batch = batch;
    }
    batch.reason = reason;
    batch.startedAt = this.now;
    batch.timeoutAt = this.now + this.rules.timeoutMs;
    batch.isUnderWay = true;
    this.underWay.push(batch);
    return batch;
  }

  /** A call is over, with an answer or a fault. Decides what becomes of its items; asks callbacks on the way, which may do anything. */
  ended(batch: Batch<T, R>, answer: unknown, fault: Fault | undefined, now = this.now): void {
    if (!batch.isUnderWay) return;
    this.now = now;
    const { host, ending, repairer, underWay } = this;
    const { jobs, attempt } = batch;
    let outcomes: readonly (R | ItemFailure)[] = [];
    batch.isUnderWay = false;
    underWay.remove(batch);
    ending.push(batch);
    if (!fault) {
      try {
        outcomes = matchAnswer(jobs, answer, (received, problem) => host.shapeError(jobs.length, received, problem));
      } catch (error) {
        fault = { error };
      }
    }
    const judged = fault && repairer?.judge(fault.error, jobs.length, attempt);
    host.ended(batch, fault ? (judged?.verdict.class ?? 'failed') : 'ok', fault);
    if (fault) this.failed(batch, judged ? judged.reason : fault.error, judged?.verdict);
    else this.succeeded(batch, outcomes);
    ending.pop();
  }

  /** Its answer has one outcome for each of its items, in their order. */
  private succeeded(batch: Batch<T, R>, outcomes: readonly (R | ItemFailure)[]): void {
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
  private failed(batch: Batch<T, R>, reason: unknown, verdict: Verdict | undefined): void {
    const jobs = batch.jobs.filter(({ state }) => state === IN_FLIGHT);
    for (const job of jobs) job.outcome = reason;
    if (verdict) this.repairer?.failed(batch, jobs, reason, verdict);
    for (const job of jobs) if (job.state === IN_FLIGHT) this.settle(job, true, reason);
  }

  /** Puts a batch ahead of everything fresh in its lane. */
  bringBack(batch: Batch<T, R>): void {
    batch.isReady = true;
    this.lines.pushReturned(batch);
  }

  // ---- results, and leaving -----------------------------------------------------------------------------------------

  /** The one place where an item gets its result, once; it is handed out at once, or when those before it have theirs. */
  settle(job: Job<T, R>, failed: boolean, outcome: unknown, counts = true): void {
    const { more } = job;
    const whole = more?.whole;
    const place = more?.place;
    job.state = DONE;
    job.batch = undefined;
    if (whole && whole.job !== job) {
      whole.settled(this, job, failed, outcome, counts);
      return;
    }
    job.failed = failed;
    job.outcome = outcome;
    if (this.phase === CLOSED) return;
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
      this.lines.remove(job);
      freshGone(this, 1, job.weight);
      return;
    }
    job.batch = undefined;
    if (--batch.live > 0) return;
    if (batch.isReady) this.lines.remove(batch);
    (this.repairer as Repairer<T, R>).emptied(batch);
  }

  /** All items have left the call, or are to. */
  abandon(batch: Batch<T, R>): void {
    batch.isUnderWay = false;
    this.underWay.remove(batch);
    this.host.stop(batch);
    this.repairer?.inconclusive(batch);
  }

  /** One more item waits in the lane, or one less. */
  count(lane: number, change: number): void {
    this.queued += change;
    (this.inLane[lane] as number) += change;
  }
}

/** A machine as its host sees it, which sends events and writes nothing. */
export type DrivenMachine<T, R> = Readonly<BatchMachine<T, R>>;

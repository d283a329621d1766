import type { ObservableInput, SchedulerLike, Subscription } from 'rxjs';
import { asapScheduler, asyncScheduler } from 'rxjs';
import { retryDelayMs } from '../kernel/backoff.js';
import { Bag } from '../kernel/bag.js';
import { dividePlan } from '../kernel/divide-plan.js';
import { Ring } from '../kernel/ring.js';
import { Alarm } from './alarm.js';
import type { EngineConfig } from './batch-options.js';
import { BatchQueue } from './batch-queue.js';
import { Context } from './context.js';
import {
  AttemptTimeoutError,
  BatchShapeError,
  CallbackError,
  DeadlineError,
  ItemTooHeavyError,
  OverflowError,
  SplitBudgetError,
} from './errors.js';
import type { FlowEvent, FlushReason } from './events.js';
import type { Root } from './job.js';
import { Call, DONE, FLYING, Group, Job, NEW, totalWeight, WAITING } from './job.js';
import type { Bidder, Lease, Limiter, Place } from './limiter.js';
import { positionsOf, stitch } from './stitch.js';
import type { BatchResult, CallContext, ErrorClass, Verdict } from './types.js';
import { startWork } from './work.js';

export type { Job } from './job.js';

/** Sends one batch: as many results as items, in one of the shapes `BatchResult` names. */
export type BatchWork<T, R> = (items: readonly T[], context: CallContext) => ObservableInput<BatchResult<R>>;

/** Who owns an engine: told what to hand on, one thing at a time, never from inside another of its calls. */
export interface EngineHost<T, R> {
  settled(job: Job<T, R>): void;
  /** Nothing is waiting or under way, and `finish` was called. */
  finished(): void;
  /** A rule of yours threw: the engine cannot go on. */
  failed(error: unknown): void;
  /** A bound was passed under `overflow: 'error'`; the item has been rejected. */
  overflowed?(error: unknown): void;
  /** There may be room for more. */
  room?(): void;
}

/**
 * The one drain engine behind every gated operator: accepts items into lanes, forms a batch when a permit is granted (never
 * before), runs it, repairs what fails, and settles every accepted item exactly once.
 *
 * One loop does everything. Whatever happens while it runs (a sink that feeds the source, work that completes at once, a
 * lease granted inside a release) changes state and lets the loop come round again, so nothing recurses.
 */
export class BatchEngine<T, R> implements Bidder {
  readonly #config: EngineConfig<T>;
  readonly #work: BatchWork<T, R>;
  readonly #host: EngineHost<T, R>;
  readonly #limiter: Limiter;
  readonly #ownsLimiter: boolean;
  readonly #frameScheduler: SchedulerLike;
  readonly #alarm: Alarm;
  readonly #queue: BatchQueue<T, R>;
  readonly #calls = new Bag<Call<T, R>>();
  readonly #outbox = new Ring<Job<T, R>>();
  /** Leases of finished calls, released after their results went out. */
  readonly #spent = new Ring<Lease>();
  /** What the batch that was bid for may weigh. */
  #budget = Infinity;
  #place: Place | undefined;
  #placeLane = -1;
  #enlisting = false;
  /** Ends the current frame; until then a batch that is not full waits for the rest of its burst. */
  #frame: Subscription | undefined;
  #accepted = 0;
  #batches = 0;
  #retrying = 0;
  /** Items accepted before this index are due, whatever their window. */
  #flushBelow = 0;
  /** How long calls take, smoothed; undefined before the first. */
  #latencyMs: number | undefined;
  #busy = false;
  #again = false;
  #finishing = false;
  #over = false;
  #refusal: { readonly error: unknown } | undefined;
  /** A bound was passed and the host does not know yet. */
  #overflow: { readonly error: unknown } | undefined;

  constructor(config: EngineConfig<T>, work: BatchWork<T, R>, host: EngineHost<T, R>) {
    this.#config = config;
    this.#work = work;
    this.#host = host;
    this.#ownsLimiter = typeof config.limiter === 'function';
    this.#limiter = typeof config.limiter === 'function' ? config.limiter() : config.limiter;
    this.#frameScheduler = config.scheduler ?? asapScheduler;
    this.#alarm = new Alarm(config.scheduler ?? asyncScheduler, () => {
      this.#run();
    });
    this.#queue = new BatchQueue(config.table, config.maxSize, config.maxQueued);
  }

  /** Accepted and not on its way: fresh, between attempts, or waiting as part of a split. */
  get queued(): number {
    return this.#queue.queued;
  }

  /** Calls under way. */
  get executing(): number {
    return this.#calls.size;
  }

  get room(): number {
    return this.#queue.room - this.#outbox.length;
  }

  /** What keeps the waiting items from leaving now. */
  get heldBy(): 'slot' | 'rate' | 'window' {
    if (this.#place === undefined) return 'window';
    return this.#limiter.executing >= this.#limiter.concurrency ? 'slot' : 'rate';
  }

  /** Changes the concurrency of a limiter of its own. */
  setConcurrency(concurrency: number): void {
    this.#limiter.setLimits({ concurrency });
    this.#run();
  }

  /** @throws LaneUnknownError */
  checkLane(laneName: string | undefined): void {
    this.#config.table.at(laneName);
  }

  // ---- accepting ----------------------------------------------------------------------------------------------------

  /** Accepts one item. It will be settled, through the host, exactly once. */
  offer(input: T): void {
    this.submit(this.accept(input, undefined));
  }

  /** The first half of `offer`, for an owner that must know the job before anything can happen to it. */
  accept(input: T, owner: unknown, laneName?: string, deadlineMs?: number): Job<T, R> {
    const { operator, table, id, lane: laneOf, weigh, itemDeadlineMs, hardMaxWeight } = this.#config;
    const now = this.#alarm.now();
    const index = this.#accepted++;
    let name: string | undefined;
    let asked: string | undefined;
    try {
      asked = 'id';
      if (id) name = id(input);
      asked = 'lane';
      const named = laneName ?? laneOf?.(input);
      asked = 'weigh';
      const weight = weigh ? weigh(input) : 1;
      asked = 'itemDeadlineMs';
      const waitMs = deadlineMs ?? itemDeadlineMs(input);
      asked = undefined;
      const lane = table.at(named);
      if (!isDuration(weight) || weight === Infinity) throw unusable(operator, 'weigh', 'a finite number >= 0', weight);
      if (!isDuration(waitMs)) throw unusable(operator, 'itemDeadlineMs', 'a number of ms >= 0', waitMs);
      const heaviest = this.#charges && !this.#limiter.borrows ? Math.min(hardMaxWeight, this.#limiter.tokenCapacity) : hardMaxWeight;
      if (weight > heaviest) throw new ItemTooHeavyError(operator, weight, heaviest);
      return new Job<T, R>(input, index, lane, weight, now, now + waitMs, name, owner);
    } catch (thrown) {
      const job = new Job<T, R>(input, index, table.lanes.length - 1, 0, now, Infinity, name, owner);
      job.fault = { error: asked === undefined ? thrown : new CallbackError(operator, asked, 'threw', thrown) };
      return job;
    }
  }

  /** The second half of `offer`; does nothing for a job that was given up in between. */
  submit(job: Job<T, R>): void {
    if (job.state !== NEW || this.#over) return;
    this.#tell?.({ type: 'accepted', operator: this.#config.operator, lane: this.#laneName(job.lane), queued: this.#queue.queued });
    const refusal = this.#refusal ?? job.fault;
    if (refusal) {
      this.#settle(job, refusal.error);
      this.#run();
    } else if (this.#makeRoom(job)) {
      this.#enqueue(job);
    } else {
      this.#run();
    }
  }

  /** Moves an item that waits to a more urgent lane; the returned job takes its place. */
  hurry(job: Job<T, R>, laneName: string): Job<T, R> {
    const lane = this.#config.table.at(laneName);
    if (job.state !== WAITING || job.group || lane >= job.lane) return job;
    this.#queue.remove(job);
    const moved = new Job<T, R>(job.input, job.index, lane, job.weight, job.acceptedAt, job.deadlineAt, job.name, job.owner);
    this.#enqueue(moved);
    return moved;
  }

  /** Gives an item up on behalf of its owner: it is not settled any more. A call is aborted when its last member has left. */
  leave(job: Job<T, R>): void {
    if (job.state === DONE) return;
    if (job.state === NEW) {
      job.state = DONE;
      return;
    }
    this.#remove(job);
    this.#tell?.({ type: 'cancelled', operator: this.#config.operator, lane: this.#laneName(job.lane), count: 1 });
    this.#run();
  }

  /** Makes everything that waits now due, whatever its window. */
  flush(): void {
    this.#flushBelow = this.#accepted;
    this.#landFrame();
    this.#run();
  }

  /** No more items will come: what waits leaves as soon as permits allow, then the host is told. */
  finish(): void {
    this.#finishing = true;
    this.#landFrame();
    this.#run();
  }

  /** Rejects everything that is not settled yet and aborts the calls under way. */
  rejectAll(error: unknown): void {
    this.#refusal = { error };
    this.#withdraw();
    for (const call of [...this.#calls.items]) {
      for (const job of call.jobs) if (job.state === FLYING) this.#settle(job, error);
      this.#abandon(call);
    }
    for (const job of this.#queue.removeAll()) this.#settle(job, error);
    this.#run();
  }

  /** Leaves at once: timers, queue and calls are gone, nothing is reported any more. */
  close(): void {
    if (this.#over) return;
    this.#over = true;
    this.#withdraw();
    this.#landFrame();
    this.#alarm.clear();
    for (const call of [...this.#calls.items]) this.#abandon(call);
    for (let lease = this.#spent.shift(); lease; lease = this.#spent.shift()) lease.release();
    this.#outbox.clear();
    const count = this.#queue.removeAll().length;
    if (count > 0) this.#tell?.({ type: 'cancelled', operator: this.#config.operator, lane: this.#laneName(0), count });
    if (this.#ownsLimiter) this.#limiter.close();
  }

  #enqueue(job: Job<T, R>): void {
    job.state = WAITING;
    this.#queue.add(job);
    const full = this.#queue.isFull(this.#aim);
    if (this.#config.burst === 'asap' && this.#frame === undefined && !full && this.#place === undefined) {
      this.#frame = this.#frameScheduler.schedule(() => {
        this.#landFrame();
        this.#run();
      }, 0);
    }
    // With a place in the limiter's queue, or a frame to wait for, one more item behind others changes nothing yet.
    const waits = this.#place === undefined ? this.#frame !== undefined && !full : job.lane >= this.#placeLane;
    if (this.#busy || !waits || job.deadlineAt !== Infinity || this.#outbox.length > 0) this.#run();
  }

  /** Applies the overflow policy for one more item; false when the newcomer is the one to go. Tells nobody: the loop does. */
  #makeRoom(job: Job<T, R>): boolean {
    // Whoever pulls did so while there was room; what was on its way when repairs came back is still taken.
    const losers = this.#host.room ? undefined : this.#queue.losers(job);
    if (losers === undefined) return true;
    const { operator } = this.#config;
    const error = new OverflowError(operator, losers.limit, losers.policy);
    for (const loser of losers.jobs) {
      this.#tell?.({ type: 'dropped', operator, lane: this.#laneName(loser.lane), policy: losers.policy });
      if (loser !== job) this.#queue.remove(loser);
      this.#settle(loser, error);
    }
    if (losers.policy === 'error') this.#overflow = { error };
    return !losers.jobs.includes(job);
  }

  #landFrame(): void {
    this.#frame?.unsubscribe();
    this.#frame = undefined;
  }

  // ---- the loop -----------------------------------------------------------------------------------------------------

  #run(): void {
    if (this.#busy) {
      this.#again = true;
      return;
    }
    if (this.#over) return;
    this.#busy = true;
    do {
      this.#again = false;
      this.#deliver();
      if (this.#isOver()) break;
      const now = this.#alarm.now();
      this.#expire(now);
      this.#queue.wake(now);
      this.#dispatch(now);
      this.#host.room?.();
    } while ((this.#again as boolean) || this.#outbox.length > 0 || this.#spent.length > 0);
    this.#busy = false;
    if (this.#isOver()) return;
    this.#arm();
    if (this.#finishing && this.#queue.queued === 0 && this.#calls.size === 0) {
      this.#tell?.({ type: 'drained', operator: this.#config.operator });
      this.#host.finished();
    }
  }

  /** Hands out results first, then frees the slots they held: a result is never overtaken by the next call's. */
  #deliver(): void {
    while (this.#outbox.length > 0) {
      this.#host.settled(this.#outbox.shift() as Job<T, R>);
      if (this.#isOver()) return;
    }
    const overflow = this.#overflow;
    this.#overflow = undefined;
    if (overflow) this.#host.overflowed?.(overflow.error);
    this.#spent.shift()?.release();
  }

  #expire(now: number): void {
    const { operator, attemptTimeoutMs } = this.#config;
    for (let job = this.#queue.takeExpired(now); job; job = this.#queue.takeExpired(now)) {
      this.#remove(job);
      this.#tell?.({ type: 'expired', operator, lane: this.#laneName(job.lane), deadlineMs: job.deadlineMs });
      this.#settle(job, new DeadlineError(operator, job.deadlineMs, now - job.acceptedAt));
    }
    // From the end: what takes the place of one that is over has been looked at already.
    for (let i = this.#calls.size - 1; i >= 0; i--) {
      const call = this.#calls.items[i];
      if (call === undefined || call.timeoutAt > now) continue;
      this.#stop(call);
      this.#fail(call, new AttemptTimeoutError(operator, attemptTimeoutMs));
    }
  }

  #dispatch(now: number): void {
    while (this.#place === undefined && this.#outbox.length === 0 && this.#isDue(now)) {
      this.#placeLane = this.#queue.lead;
      this.#enlisting = true;
      const place = this.#limiter.enlist(this, this.#config.table.isDeclared ? this.#laneName(this.#placeLane) : undefined);
      if (!(this.#enlisting as boolean)) continue;
      this.#enlisting = false;
      this.#place = place;
    }
    if (this.#place === undefined) return;
    if (this.#queue.lead === this.#placeLane) {
      this.#place.poke();
      return;
    }
    // Something more urgent has come, or what was urgent has left: stand in the right lane instead.
    this.#withdraw();
    this.#again = this.#queue.lead !== -1;
  }

  #isDue(now: number): boolean {
    if (this.#queue.lead === -1) return false;
    if (this.#finishing || this.#queue.hasReadyGroups || this.#queue.isFull(this.#aim)) return true;
    // A window that fails on the way leaves nothing to send.
    return this.#frame === undefined && this.#heldUntil(now) <= now && this.#queue.lead !== -1;
  }

  /** When the first lane's oldest item has been held long enough. */
  #heldUntil(now: number): number {
    let until = Infinity;
    let windowMs: number | undefined;
    this.#queue.heads((head, lane) => {
      const holdMs = lane.maxWaitMs ?? (windowMs ??= this.#windowMs(now));
      until = Math.min(until, head.index < this.#flushBelow ? -Infinity : head.acceptedAt + holdMs);
    });
    return until;
  }

  #windowMs(now: number): number {
    const { executing, concurrency } = this.#limiter;
    let oldest = now;
    this.#queue.heads((head) => {
      oldest = Math.min(oldest, head.acceptedAt);
    });
    let fault: CallbackError;
    try {
      const windowMs = this.#config.window({
        executing,
        concurrency,
        queued: this.#queue.fresh,
        queuedWeight: this.#queue.freshWeight,
        oldestMs: now - oldest,
      });
      if (isDuration(windowMs)) return windowMs;
      fault = unusable(this.#config.operator, 'window', 'a number of ms >= 0', windowMs);
    } catch (error) {
      fault = new CallbackError(this.#config.operator, 'window', 'threw', error);
    }
    this.#host.failed(fault);
    return Infinity;
  }

  /** One timer for everything that will be due. */
  #arm(): void {
    let at = this.#queue.nextWakeAt();
    for (const call of this.#calls.items) at = Math.min(at, call.timeoutAt);
    if (this.#place === undefined && this.#frame === undefined && this.#queue.fresh > 0)
      at = Math.min(at, this.#heldUntil(this.#alarm.now()));
    if (this.#place !== undefined && this.#charges) at = Math.min(at, Math.max(this.#shrinkAt(), this.#alarm.now() + 1));
    if (!this.#isOver()) this.#alarm.set(at);
  }

  /** Narrowing does not see that a host's callback may have closed the engine. */
  #isOver(): boolean {
    return this.#over;
  }

  // ---- the limiter's side -------------------------------------------------------------------------------------------

  /** Wants what the next batch weighs; less only when a deadline would pass while saving up for it. */
  bid(affordable: number): number | undefined {
    const lead = this.#queue.lead;
    if (lead === -1) {
      this.#place = undefined;
      return undefined;
    }
    this.#budget = this.#aim;
    if (!this.#charges) return 0;
    const group = this.#queue.groupOf(lead);
    if (group) return totalWeight(group.members);
    const whole = this.#queue.plan(lead, this.#aim).weight;
    if (whole <= affordable || this.#alarm.now() < this.#shrinkAt()) return whole;
    const part = this.#queue.plan(lead, affordable).weight;
    if (part > affordable) return whole;
    this.#budget = affordable;
    return part;
  }

  granted(lease: Lease): void {
    this.#place = undefined;
    this.#enlisting = false;
    const lead = this.#over ? -1 : this.#queue.lead;
    const group = lead === -1 ? undefined : this.#queue.groupOf(lead);
    if (lead === -1) lease.release('unused');
    else if (group) this.#launchGroup(group, lead, lease);
    else this.#launchFresh(lead, lease);
    this.#run();
  }

  refused(error: unknown): void {
    this.#place = undefined;
    this.#enlisting = false;
    this.rejectAll(error);
  }

  #withdraw(): void {
    const place = this.#place;
    this.#place = undefined;
    place?.withdraw();
  }

  /** What a batch may weigh: no more than the limiter can ever grant at once. */
  get #aim(): number {
    return this.#charges ? Math.min(this.#config.maxWeight, this.#limiter.tokenCapacity) : this.#config.maxWeight;
  }

  /** Without `weigh` a weight is a count, not a number of tokens. */
  get #charges(): boolean {
    return this.#config.weigh !== undefined && this.#limiter.tokenCapacity !== Infinity;
  }

  /** From when on saving up for a whole batch would cost a waiting item its deadline, judging by how long calls have taken. */
  #shrinkAt(): number {
    let at = Infinity;
    this.#queue.heads(({ deadlineAt, deadlineMs }) => {
      if (deadlineAt !== Infinity) at = Math.min(at, deadlineAt - (this.#latencyMs ?? deadlineMs / 2));
    });
    return at;
  }

  // ---- running ------------------------------------------------------------------------------------------------------

  #launchFresh(lead: number, lease: Lease): void {
    const reason = this.#reason(lead);
    const { jobs, weight } = this.#queue.plan(lead, this.#budget);
    this.#queue.take();
    const root: Root = { id: `b${String(this.#batches++)}`, size: jobs.length, calls: 1, blameRounds: 0 };
    this.#launch(jobs, lead, root, 1, 0, weight, lease, reason);
  }

  #launchGroup(group: Group<T, R>, lead: number, lease: Lease): void {
    const jobs = this.#queue.takeGroup(lead, group);
    this.#launch(jobs, lead, group.root, group.attempt, group.depth, totalWeight(jobs), lease, group.reason);
  }

  #launch(
    jobs: readonly Job<T, R>[],
    lane: number,
    root: Root,
    attempt: number,
    depth: number,
    weight: number,
    lease: Lease,
    reason: FlushReason,
  ): void {
    const { operator, attemptTimeoutMs } = this.#config;
    const now = this.#alarm.now();
    const size = jobs.length;
    const laneName = this.#laneName(lane);
    const call = new Call<T, R>(jobs, lane, root, attempt, depth, weight, lease, now, now + attemptTimeoutMs);
    this.#calls.add(call);
    if (attempt > 1) this.#retrying++;
    this.#tell?.({ type: 'batchFormed', operator, lane: laneName, reason, size, weight, waitMs: now - (jobs[0] as Job<T, R>).acceptedAt });
    this.#tell?.({
      type: 'attemptStarted',
      operator,
      lane: laneName,
      batchId: root.id,
      size,
      weight,
      attempt,
      splitDepth: depth,
      executing: this.#limiter.executing,
    });
    const context = new Context(call, laneName, this.#limiter);
    const items = jobs.map((job) => job.input);
    call.running = startWork(() => this.#work(items, context), {
      done: (answer: BatchResult<R>, empty) => {
        if (call.over) return;
        if (empty) this.#fail(call, new BatchShapeError(operator, size, 0, 'the work completed without an answer'));
        else this.#succeed(call, answer);
        this.#run();
      },
      failed: (error) => {
        if (call.over) return;
        this.#fail(call, error);
        this.#run();
      },
    });
    // The work may have made its last member leave before it returned.
    if (call.abort.aborted) this.#letGo(call);
  }

  /** The call is over; its lease goes back once its results are out. */
  #end(call: Call<T, R>, outcome: 'ok' | 'cancelled' | ErrorClass): void {
    call.over = true;
    this.#calls.delete(call);
    if (call.attempt > 1) this.#retrying--;
    if (!call.abort.aborted) this.#spent.push(call.lease);
    const { operator } = this.#config;
    const { attempt, root, jobs } = call;
    const latencyMs = this.#alarm.now() - call.startedAt;
    if (outcome === 'ok')
      this.#latencyMs = this.#latencyMs === undefined ? latencyMs : this.#latencyMs + 0.2 * (latencyMs - this.#latencyMs);
    this.#tell?.({
      type: 'attemptEnded',
      operator,
      lane: this.#laneName(call.lane),
      batchId: root.id,
      size: jobs.length,
      attempt,
      outcome,
      latencyMs,
    });
  }

  /** Everybody has left the call. */
  #abandon(call: Call<T, R>): void {
    if (call.over) return;
    this.#stop(call);
    this.#end(call, 'cancelled');
  }

  /** Stops listening to the call and aborts it: what the work says to that is not its answer. */
  #stop(call: Call<T, R>): void {
    call.over = true;
    call.running?.cancel();
    call.abort.abort();
    if (call.running) this.#letGo(call);
  }

  /** An Observable has stopped, so its slot is free; a promise goes on, and keeps it for a while. */
  #letGo({ running, lease }: Call<T, R>): void {
    running?.cancel();
    if (running?.settled && !(this.#over && this.#ownsLimiter)) lease.releaseAfter(running.settled);
    else lease.release('cancelled');
  }

  /** Takes a job that is not done out of wherever it is. */
  #remove(job: Job<T, R>): void {
    const { call } = job;
    if (call === undefined) {
      this.#queue.remove(job);
    } else {
      job.state = DONE;
      if (--call.live === 0) this.#abandon(call);
    }
  }

  // ---- settling and repairing ---------------------------------------------------------------------------------------

  #succeed(call: Call<T, R>, answer: BatchResult<R>): void {
    let outcomes;
    try {
      outcomes = stitch(this.#config.operator, answer, () => call.jobs.map((job) => job.id), call.jobs.length);
    } catch (error) {
      this.#fail(call, error);
      return;
    }
    this.#end(call, 'ok');
    const again: Job<T, R>[] = [];
    let slowest: Verdict | undefined;
    for (const [i, outcome] of outcomes.entries()) {
      const job = call.jobs[i] as Job<T, R>;
      if (job.state !== FLYING) continue;
      if (outcome.ok) {
        job.value = outcome.value;
        this.#settle(job);
        continue;
      }
      const verdict = this.#classify(outcome.reason, 1, call.attempt);
      if (!isRetryable(verdict) || !this.#mayRetry(call)) {
        this.#settle(job, outcome.reason);
        continue;
      }
      job.reason = outcome.reason;
      again.push(job);
      if (slowest === undefined || (verdict.retryAfterMs ?? 0) > (slowest.retryAfterMs ?? 0)) slowest = verdict;
    }
    if (slowest) this.#retry(call, again, slowest);
  }

  #fail(call: Call<T, R>, error: unknown): void {
    const verdict = this.#classify(error, call.jobs.length, call.attempt);
    this.#end(call, verdict.class);
    if (verdict.class === 'throttled' && verdict.retryAfterMs !== undefined) this.#limiter.penalize(verdict.retryAfterMs);
    const live = call.jobs.filter((job) => job.state === FLYING);
    if (live.length === 0) return;
    for (const job of live) job.reason = error;
    if (isRetryable(verdict) && this.#mayRetry(call)) this.#retry(call, live, verdict);
    else if (this.#config.split && (verdict.class === 'itemFault' || verdict.class === 'tooLarge')) this.#divide(call, verdict, error);
    else for (const job of live) this.#settle(job, error);
  }

  #classify(error: unknown, size: number, attempt: number): Verdict {
    try {
      return usable(
        this.#config.classify(error, { size, attempt, aborted: false, epochMs: (this.#config.scheduler ?? asyncScheduler).now() }),
      );
    } catch {
      // The failure that was to be classified is what the callers need to see.
      return { class: 'fatal' };
    }
  }

  #mayRetry(call: Call<T, R>): boolean {
    const { retry } = this.#config;
    if (retry === undefined || call.attempt >= retry.maxAttempts) return false;
    const waiting = this.#queue.backingOff;
    // At least one: no budget at all (Infinity) times no other call would not be a number.
    return this.#retrying + waiting < Math.max(3, retry.budget * Math.max(1, this.#calls.size + waiting));
  }

  /** Sends the jobs again as they were, after a pause in which they hold no slot. */
  #retry(call: Call<T, R>, jobs: readonly Job<T, R>[], verdict: Verdict): void {
    const { retry, operator } = this.#config;
    if (retry === undefined) return;
    const now = this.#alarm.now();
    let delayMs: number;
    try {
      delayMs = retryDelayMs(call.attempt, verdict.retryAfterMs, retry, this.#random());
    } catch (fault) {
      for (const job of jobs) this.#settle(job, fault);
      return;
    }
    // A 429 is about the account, not about this batch: everybody waits.
    if (verdict.class === 'throttled') this.#limiter.penalize(delayMs);
    const inTime: Job<T, R>[] = [];
    for (const job of jobs) {
      if (now + delayMs < job.deadlineAt) inTime.push(job);
      else this.#settle(job, new DeadlineError(operator, job.deadlineMs, now - job.acceptedAt, job.reason));
    }
    if (inTime.length === 0) return;
    const attempt = call.attempt + 1;
    this.#queue.addBackoff(new Group(inTime, call.lane, call.root, attempt, call.depth, 'retry'), now + delayMs);
    this.#tell?.({
      type: 'retryScheduled',
      operator,
      lane: this.#laneName(call.lane),
      class: verdict.class,
      size: inTime.length,
      attempt,
      delayMs,
    });
  }

  /** @throws CallbackError */
  #random(): number {
    const { operator, random } = this.#config;
    let drawn: unknown;
    try {
      drawn = random();
    } catch (error) {
      throw new CallbackError(operator, 'random', 'threw', error);
    }
    if (typeof drawn === 'number' && drawn >= 0 && drawn <= 1) return drawn;
    throw unusable(operator, 'random', 'a number from 0 to 1', drawn);
  }

  /** Rejects what the error names, or cuts the batch up, until the bad item stands alone. */
  #divide(call: Call<T, R>, verdict: Verdict, error: unknown): void {
    const { split, operator } = this.#config;
    const { root, jobs, depth } = call;
    const limits = split?.(root.size);
    if (limits === undefined) return;
    const size = jobs.length;
    const plan = dividePlan(
      {
        size,
        weights: jobs.map((job) => job.weight),
        blame: verdict.blame && positionsOf(verdict.blame, () => jobs.map((job) => job.id), size),
        tooLarge: verdict.class === 'tooLarge' ? (verdict.tooLarge ?? true) : undefined,
        depth,
        calls: root.calls,
        blameRounds: root.blameRounds,
      },
      limits,
    );
    const live = (positions: readonly number[]): Job<T, R>[] =>
      positions.map((i) => jobs[i] as Job<T, R>).filter((job) => job.state === FLYING);
    for (const job of live(plan.reject)) this.#settle(job, error);
    for (const job of live(plan.giveUp)) this.#settle(job, new SplitBudgetError(operator, limits.maxCalls, root.calls, error));
    const parts = plan.parts.map(live).filter((part) => part.length > 0);
    root.calls += parts.length;
    if (plan.blamed) root.blameRounds++;
    for (const part of parts) this.#queue.addReady(new Group(part, call.lane, root, 1, depth + 1, 'split'));
    const lane = this.#laneName(call.lane);
    if (plan.blamed) this.#tell?.({ type: 'blamed', operator, lane, size, blamed: plan.reject.length, round: root.blameRounds });
    else if (parts.length > 0) this.#tell?.({ type: 'split', operator, lane, size, parts: parts.length, depth: depth + 1 });
  }

  /** The one place where an item gets its result. */
  #settle(job: Job<T, R>, ...reason: [] | [unknown]): void {
    job.state = DONE;
    job.group = undefined;
    job.call = undefined;
    job.failed = reason.length > 0;
    job.reason = reason[0];
    this.#outbox.push(job);
    const outcome = job.failed ? 'rejected' : 'fulfilled';
    this.#tell?.({
      type: 'settled',
      operator: this.#config.operator,
      lane: this.#laneName(job.lane),
      outcome,
      attempts: job.attempts,
      totalMs: this.#alarm.now() - job.acceptedAt,
    });
  }

  // ---- telling ------------------------------------------------------------------------------------------------------

  get #tell(): ((event: FlowEvent) => void) | undefined {
    return this.#config.onEvent;
  }

  #reason(lead: number): FlushReason {
    if (this.#queue.fresh >= this.#config.maxSize) return 'size';
    if (this.#queue.freshWeight >= this.#aim) return 'weight';
    if (this.#finishing) return 'complete';
    const head = this.#queue.head(lead);
    if (head && head.index < this.#flushBelow) return 'flush';
    return this.#config.table.lanes[lead]?.maxWaitMs === 0 ? 'urgent' : 'time';
  }

  #laneName(lane: number): string {
    return this.#config.table.lanes[lane]?.name ?? '';
  }
}

/** Also for weights: a number that is not negative. */
function isDuration(value: unknown): value is number {
  return typeof value === 'number' && value >= 0;
}

/** Tells the type only of what is no number: it may be a payload. */
function unusable(operator: string, name: string, wanted: string, value: unknown): CallbackError {
  const returned = typeof value === 'number' ? String(value) : `a ${typeof value}`;
  return new CallbackError(operator, name, `must return ${wanted}, returned ${returned}`);
}

/** What a classifier answered, without the parts nobody can act on. */
function usable({ class: found, retryAfterMs, blame, tooLarge }: Verdict): Verdict {
  return {
    class: found,
    ...(Number.isFinite(retryAfterMs) && isDuration(retryAfterMs) && { retryAfterMs }),
    ...(Array.isArray(blame) && { blame }),
    ...(tooLarge && { tooLarge }),
  };
}

function isRetryable(verdict: Verdict): boolean {
  return verdict.class === 'throttled' || verdict.class === 'transient' || verdict.class === 'timeout';
}

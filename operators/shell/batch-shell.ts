import type { SchedulerLike, Subscription } from 'rxjs';
import { asapScheduler } from 'rxjs';
import { captureContext } from '#async-context';
import type { BatchHost, BatchNote, Judgement } from '../kernel/machine/batch-machine.js';
import { BatchMachine } from '../kernel/machine/batch-machine.js';
import type { Batch, ItemFailure } from '../kernel/machine/job.js';
import { ACCEPTED, DONE, Job, NEW } from '../kernel/machine/job.js';
import type { Overflow } from '../kernel/queues/queue.js';
import { isAmount, unusable } from '../options/answers.js';
import { ask, drawnFrom, verdictOf, weightOf, whenToClose } from '../options/ask.js';
import { AttemptTimeoutError, DeadlineError, ItemTooHeavyError, isFlowError, LaneUnknownError, OverflowError } from '../options/errors.js';
import { teller } from '../options/events.js';
import type { SplitAndJoin } from '../options/oversize.js';
import type { Bidder, Permit, Permits, Place } from '../options/permits.js';
import type { BatchResult, ErrorClass } from '../options/types.js';
import { Alarm } from './alarm.js';
import { BatchCall } from './batch-call.js';
import type { BatchConfig, BatchWork } from './batch-options.js';
import { Slots } from './slots.js';
import { stitch } from './stitch.js';

/** Something to be done to the outside once a step is over: an event told, a call started or stopped. */
interface Act {
  run(): void;
}

/** Longest that a promise which was given up keeps its slot, in ms. */
const ABORT_GRACE_MS = 1000;

/**
 * Drives a batch machine: asks your callbacks about each item, waits for permits and for time, makes the calls, and hands out the results. Whoever
 * extends it says what is done with these, one thing at a time.
 *
 * One loop does everything. Whatever happens while it runs (a sink that feeds the source, work that completes at once, a permit granted inside a
 * release) changes the machine and lets the loop come round again, so nothing recurses. Listeners are told, and calls started and stopped, between
 * its steps, so whoever is reached may do anything.
 */
export abstract class BatchShell<T, R> implements Bidder, BatchHost<T, R> {
  readonly operator: string;
  readonly tell: ((note: BatchNote) => void) | undefined;
  readonly machine: BatchMachine<T, R>;
  readonly permits: Permits;
  protected isOver = false;
  private readonly own: Slots | undefined;
  private readonly alarm: Alarm;
  /** Of whoever made this: a batch has items of several callers, and must not run as whoever freed the slot. */
  private readonly context = captureContext();
  private readonly say: ReturnType<typeof teller>;
  private readonly frames: SchedulerLike;
  /** Whether all items are alike: nothing is asked about them, none is too heavy, and results keep no order. */
  private readonly isUniform: boolean;
  /** How many more items may come before anything has to be looked at. */
  private spare = 0;
  /** Items about which callbacks are being asked: nothing is over before they are in. */
  private entering = 0;
  private isBusy = false;
  private again = false;
  private isFinished = false;
  /** Acts that wait, from `actsAt` on. */
  private readonly acts: Act[] = [];
  private actsAt = 0;
  private isActing = false;
  /** Calls whose permits are to be given back. */
  private readonly spent: BatchCall<T, R>[] = [];
  private spentAt = 0;
  /** Its place in the queue for permits, the lane it has there, and what the batch that was bid for may weigh. */
  private place: Place | undefined = undefined;
  private placeLane = -1;
  private isEnlisting = false;
  private budget = Infinity;
  private unwatch: (() => void) | undefined = undefined;
  /** Ends the current frame; until then a batch that is not full waits for the rest of its burst. */
  private frame: Subscription | undefined = undefined;
  private readonly frameEnded = (): void => {
    this.landFrame();
    this.run();
  };

  constructor(
    protected readonly config: BatchConfig<T>,
    private readonly work: BatchWork<T, R>,
  ) {
    const { operator, scheduler, limiter, concurrency, weigh, maxWeight, order, queue, id, closeWhen, deadlineMs } = config;
    this.operator = operator;
    this.alarm = new Alarm(scheduler, () => {
      this.run();
    });
    this.say = teller(operator, config, () => this.alarm.now());
    const { say } = this;
    if (say) {
      this.tell = (note) => {
        this.act(() => {
          say(note);
        });
      };
    }
    this.own = limiter ? undefined : new Slots(concurrency, scheduler, ABORT_GRACE_MS);
    this.permits = limiter ?? (this.own as Slots);
    this.frames = config.frames;
    this.machine = new BatchMachine<T, R>(config, this);
    this.isUniform =
      (weigh ?? order ?? id ?? queue.laneOf ?? queue.keyOf ?? closeWhen) === undefined && deadlineMs === Infinity && maxWeight >= 1;
  }

  // ---- what is done with results ------------------------------------------------------------------------------------

  /** An item has its result. */
  protected abstract settled(job: Job<T, R>): void;
  /** Nothing is waiting or under way, and `finish` was called. */
  protected abstract finished(): void;
  /** A callback for all items has thrown: it cannot go on. */
  protected abstract failed(error: unknown): void;
  /** An item was too much, under `overflow: 'error'`; it has been rejected. */
  protected overflowed?(error: unknown): void;
  /** There may be room for more. */
  protected hasRoom?(): void;

  get isBounded(): boolean {
    return true;
  }

  // ---- accepting ----------------------------------------------------------------------------------------------------

  /** Accepts one item. It will be settled exactly once. */
  add(job: Job<T, R>): void {
    if (this.spare > 0) {
      this.spare--;
      this.machine.join(job);
    } else {
      this.accept(job);
      this.submit(job);
      this.spare = this.spareRoom();
    }
  }

  /** The first half of `add`, in which callbacks are asked about the item. */
  accept(job: Job<T, R>, lane?: string, deadlineMs?: number): void {
    const { machine } = this;
    this.spare = 0;
    this.entering++;
    // The items of a frame came at one time: to look at the clock costs more than to queue one.
    if (!machine.isFramed || this.frames !== asapScheduler) machine.now = this.alarm.now();
    if (this.isUniform && lane === undefined && deadlineMs === undefined) machine.stamp(job);
    else this.describe(job, lane, deadlineMs);
  }

  /** The second half of `add`; queues nothing for an item that was given up in between. */
  submit(job: Job<T, R>): void {
    const { machine } = this;
    let changes = false;
    if (job.state === ACCEPTED && !this.isOver) {
      this.tellAccepted(job);
      changes = !machine.enter(job) || this.changes(job);
    }
    this.entering--;
    if (changes || machine.isFinishing) this.run();
    else if (!this.isBusy && this.acts.length > 0) this.step(() => undefined);
  }

  private tellAccepted({ lane, index }: Job<T, R>): void {
    if (this.say === undefined) return;
    const { say, machine } = this;
    const note = { type: 'accepted', lane: machine.laneName(lane), queued: machine.queued, seq: index } as const;
    this.act(() => {
      say(note);
    });
  }

  /** Whether there is something to do because this item has come. */
  private changes({ lane, acceptedAt, deadlineAt }: Job<T, R>): boolean {
    // With a place in the queue for permits, or a frame to wait for, one more item behind others changes nothing yet.
    const waits = this.place ? lane >= this.placeLane : this.waitsForFrame(acceptedAt);
    return this.isBusy || !waits || deadlineAt !== Infinity || this.config.closeWhen !== undefined || !this.machine.isIdle;
  }

  /** Whether an item that has come waits for the end of its frame. */
  private waitsForFrame(acceptedAt: number): boolean {
    const { machine } = this;
    if (machine.isFull) return false;
    if (!machine.isFramed) {
      machine.isFramed = true;
      machine.now = acceptedAt;
      const frame = this.frames.schedule(this.frameEnded, 0);
      // Some schedulers (`queueScheduler`) do it at once.
      if (machine.isFramed as boolean) this.frame = frame;
    }
    return machine.isFramed;
  }

  private landFrame(): void {
    this.frame?.unsubscribe();
    this.frame = undefined;
    this.machine.isFramed = false;
  }

  /** While a frame is open, nothing has to be looked at as long as items are all alike, fill no batch, and nobody hears of them. */
  private spareRoom(): number {
    const { machine } = this;
    const isQuiet = machine.isFramed && !machine.isFinishing && !this.isBusy && this.place === undefined && this.say === undefined;
    return isQuiet && this.isUniform && machine.refusal === undefined ? machine.spare : 0;
  }

  /** Asks the callbacks. Never throws: what is wrong with an item is its `fault`. */
  private describe(job: Job<T, R>, laneName: string | undefined, deadlineMs: number | undefined): void {
    const { machine, operator } = this;
    const { order, id } = this.config;
    const at = machine.now;
    // What `key` sends in its turn is accepted before the item, and has its place before it.
    job.index = machine.accepted;
    try {
      if (order) machine.place(job, order.keyOf && ask(operator, 'key', order.keyOf, job.input));
    } catch (error) {
      this.spoil(job, error);
    }
    job.index = machine.accepted++;
    job.acceptedAt = at;
    try {
      if (id && !job.more?.fault) job.extras.name = ask(operator, 'id', id, job.input);
      if (!job.more?.fault) this.measure(job, laneName, deadlineMs);
    } catch (error) {
      this.spoil(job, error);
    }
    job.state = ACCEPTED;
  }

  /** Something about it went wrong: of what was said of it only its name and its place stand. */
  private spoil(job: Job<T, R>, error: unknown): void {
    const { name, place } = job.extras;
    job.more = undefined;
    job.lane = this.config.queue.lanes.length - 1;
    job.weight = 0;
    job.extras.name = name;
    job.extras.place = place;
    job.extras.fault = { error };
  }

  private measure(job: Job<T, R>, laneName: string | undefined, deadlineMs: number | undefined): void {
    const { operator, queue, weigh, deadlineMs: within, closeWhen, oversize, maxWeight } = this.config;
    const { input, acceptedAt } = job;
    const { machine } = this;
    const named = laneName ?? (queue.laneOf && ask(operator, 'lane', queue.laneOf, input));
    const weight = weightOf(operator, weigh, input);
    const waitMs = deadlineMs ?? (typeof within === 'function' ? ask(operator, 'deadlineMs', within, input) : within);
    if (!isAmount(waitMs)) throw unusable(operator, 'deadlineMs', 'a number of ms >= 0', waitMs);
    job.lane = this.laneAt(named);
    job.weight = weight;
    if (queue.keyOf) job.extras.key = ask(operator, 'key', queue.keyOf, input);
    if (waitMs !== Infinity) job.extras.deadlineAt = acceptedAt + waitMs;
    const heaviest = this.look();
    if (weight > machine.aim && typeof oversize === 'object') (oversize as SplitAndJoin<T, R>).cut(operator, job, this.config, heaviest);
    else if (weight > heaviest) throw new ItemTooHeavyError(operator, weight, heaviest);
    else if (weight > maxWeight && oversize === 'reject') throw new ItemTooHeavyError(operator, weight, Math.min(maxWeight, heaviest));
    if (closeWhen) job.extras.closes = whenToClose(operator, closeWhen, input, openBatch(machine, job));
  }

  /** @throws LaneUnknownError */
  protected laneAt(name: string | undefined): number {
    const { queue } = this.config;
    const lane = queue.at(name);
    if (lane !== -1) return lane;
    const known = queue.lanes.map((rule) => rule.name);
    throw new LaneUnknownError(this.operator, String(name), known);
  }

  /** Looks at what can be granted at all: answers what one item may weigh. */
  private look(): number {
    const { machine, permits } = this;
    const { weigh, maxWeight } = this.config;
    if (weigh === undefined || this.own) return Infinity;
    machine.charges = permits.tokenCapacity !== Infinity;
    machine.aim = Math.min(maxWeight, permits.tokenCapacity);
    return permits.borrows ? Infinity : permits.tokenCapacity;
  }

  // ---- what may happen ----------------------------------------------------------------------------------------------

  /** Changes the number of its own slots. */
  setConcurrency(concurrency: number): void {
    if (this.own) this.own.concurrency = concurrency;
    this.run();
  }

  /** Makes everything that waits now due, whatever its window. */
  flush(): void {
    this.machine.flush();
    this.landFrame();
    this.run();
  }

  /** No more items will come: what waits leaves as soon as permits allow. */
  finish(): void {
    this.machine.isFinishing = true;
    this.landFrame();
    this.run();
  }

  /** Rejects everything that is not settled yet and aborts the calls under way. */
  rejectAll(error: unknown): void {
    this.spare = 0;
    this.step(() => {
      this.machine.rejectAll(error);
      this.withdraw();
    });
    this.run();
    this.performNow();
  }

  /** Leaves at once: timers, queue and calls are gone, nothing is reported any more. */
  close(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.spare = 0;
    this.landFrame();
    this.alarm.clear();
    this.machine.clear();
    this.withdraw();
    this.performNow();
    this.releaseAll();
    this.watch(false);
    this.own?.close();
  }

  /** What keeps the waiting items from leaving now. */
  get heldBy(): 'slot' | 'rate' | 'window' {
    if (this.place === undefined) return 'window';
    return this.permits.executing >= this.permits.concurrency ? 'slot' : 'rate';
  }

  /** Accepted and not handed out. */
  get unsettled(): number {
    const { machine } = this;
    return machine.queued + machine.inCalls + machine.waitingResults;
  }

  // ---- the loop -----------------------------------------------------------------------------------------------------

  /** Does something whole before anything is made of it; then the outside hears of it. */
  protected step(change: () => void): void {
    if (this.isBusy) {
      change();
      return;
    }
    this.isBusy = true;
    change();
    this.perform();
    this.isBusy = false;
    if (this.again) this.run();
  }

  protected run(): void {
    this.again = true;
    if (this.isBusy) return;
    this.spare = 0;
    this.isBusy = true;
    while (!this.isOver && this.comeRound());
    this.isBusy = false;
    if (!this.isOver) return;
    // Work that ended while everything was left.
    this.perform();
    this.releaseAll();
  }

  /** Does what there is to do; true when that has made more. */
  private comeRound(): boolean {
    const { machine } = this;
    // Whatever has happened until now is seen to in this round.
    this.again = false;
    this.perform();
    this.deliver();
    if (this.hasLeft()) return false;
    machine.now = this.alarm.now();
    this.look();
    machine.wake();
    this.stopOverdue();
    this.perform();
    this.dispatch();
    if (!this.hasLeft()) this.hasRoom?.();
    if (this.hasLeft() || this.hasMore()) return true;
    // The window is asked, and may do anything.
    this.arm();
    if (this.hasLeft() || this.hasMore()) return true;
    this.endIfDone();
    return this.hasMore();
  }

  /** Narrowing does not see that a callback may have closed this. */
  private hasLeft(): boolean {
    return this.isOver;
  }

  private hasMore(): boolean {
    return this.again || this.acts.length > 0 || !this.machine.isIdle || this.spent.length > 0;
  }

  private endIfDone(): void {
    const { machine } = this;
    if (!machine.isFinishing || this.isFinished || machine.queued + machine.calls.length + this.entering > 0) return;
    this.isFinished = true;
    this.say?.({ type: 'drained' });
    if (!this.hasLeft()) this.finished();
  }

  /** Hands out results first, then frees the slots they held: a result is never overtaken by the next call's. */
  private deliver(): void {
    const { machine } = this;
    machine.clearOrphans();
    for (let job = machine.shift(); job; job = machine.shift()) {
      this.settled(job);
      if (this.isOver) return;
    }
    const { overflowed } = machine;
    machine.overflowed = undefined;
    if (overflowed) this.overflowed?.(overflowed.error);
    // What a consumer sent in may have cost others their place, and a slot that comes free goes to what waits.
    machine.clearOrphans();
    this.release();
  }

  private stopOverdue(): void {
    const { machine, operator } = this;
    for (let batch = machine.overdue(); batch; batch = machine.overdue()) {
      const call = batch.call as BatchCall<T, R>;
      const error = new AttemptTimeoutError(operator, this.config.timeoutMs);
      call.fault = { error };
      this.stop(batch);
      this.ended(call, undefined, call.fault);
    }
  }

  private dispatch(): void {
    const { machine } = this;
    const stood = this.place !== undefined;
    while (!this.hasLeft() && this.place === undefined && machine.isIdle && this.isDue()) {
      this.enlist();
      this.perform();
    }
    // Results first: the loop comes round again.
    if (this.hasLeft() || this.place === undefined || !machine.isIdle) return;
    const { lead } = machine;
    if (lead === this.placeLane || (this.own && lead !== -1)) {
      // Without tokens what is wanted never changes, and who left is to make way at the end of the frame only.
      if (stood && machine.charges) this.place.poke();
      return;
    }
    // Something more urgent has come, or what was urgent has left: stand in the right lane instead.
    this.withdraw();
    this.again = lead !== -1;
  }

  private isDue(): boolean {
    const { machine } = this;
    if (machine.lead === -1) return false;
    // A window that fails on the way leaves nothing to send.
    return machine.isUrgent || (this.dueAt() <= machine.now && machine.lead !== -1);
  }

  /** When the oldest items have been held long enough; asks the window again. */
  private dueAt(): number {
    const { machine } = this;
    return machine.dueAt(machine.wantsWindow ? this.windowMs() : Infinity);
  }

  private windowMs(): number {
    const { operator, window } = this.config;
    const { machine, permits } = this;
    const { executing, concurrency, load } = permits;
    let fault: unknown;
    try {
      const oldestMs = machine.now - machine.oldestAt;
      const ms = ask(operator, 'window', window, {
        ...{ executing, concurrency, load, queued: machine.fresh, queuedWeight: machine.freshWeight, oldestMs },
      });
      if (isAmount(ms)) return ms;
      fault = unusable(operator, 'window', 'a number of ms >= 0', ms);
    } catch (error) {
      fault = error;
    }
    this.failed(fault);
    return Infinity;
  }

  /** One timer for everything that will be due. */
  private arm(): void {
    const { machine } = this;
    const isHeld = this.place === undefined && machine.fresh > 0;
    let at = machine.nextAt;
    if (this.place && machine.charges) at = Math.min(at, Math.max(machine.shrinkAt, machine.now + 1));
    if (isHeld && !machine.isBlocked) at = Math.min(at, this.dueAt());
    if (this.hasLeft()) return;
    this.watch(isHeld);
    this.alarm.set(at);
  }

  // ---- permits ------------------------------------------------------------------------------------------------------

  /** Asks for a permit; it may be granted before this returns. */
  private enlist(): void {
    const { machine, permits } = this;
    this.watch(false);
    this.placeLane = machine.lead;
    this.budget = machine.aim;
    const permit = this.own?.take();
    if (permit) {
      this.launch(permit);
      return;
    }
    this.isEnlisting = true;
    const place = permits.enlist(this, this.config.queue.isDeclared ? machine.laneName(this.placeLane) : undefined);
    if (!(this.isEnlisting as boolean)) return;
    this.isEnlisting = false;
    this.place = place;
  }

  private withdraw(): void {
    const { place } = this;
    this.place = undefined;
    place?.withdraw();
  }

  /** Listens to permits that others use as well, while a window holds what waits; slots of its own say nothing new. */
  private watch(on: boolean): void {
    if (this.own || on === (this.unwatch !== undefined)) return;
    this.unwatch?.();
    this.unwatch = on
      ? this.permits.watch?.(() => {
          this.run();
        })
      : undefined;
  }

  bid(affordable: number): number | undefined {
    const { machine } = this;
    if (machine.lead === -1) {
      this.place = undefined;
      return undefined;
    }
    this.budget = machine.aim;
    if (!machine.charges) return 0;
    machine.now = this.alarm.now();
    const { tokens, budget } = machine.bid(affordable);
    this.budget = budget;
    return tokens;
  }

  granted(permit: Permit): void {
    this.place = undefined;
    this.isEnlisting = false;
    this.launch(permit);
    this.run();
  }

  refused(error: unknown): void {
    this.place = undefined;
    this.isEnlisting = false;
    if (!isFlowError(error, 'FLOW_CLEARED')) {
      this.rejectAll(error);
      return;
    }
    this.machine.refuseWaiting(error);
    this.run();
  }

  // ---- calls --------------------------------------------------------------------------------------------------------

  private launch(permit: Permit): void {
    const { machine } = this;
    machine.clearOrphans();
    const lead = this.isOver ? -1 : machine.lead;
    if (lead === -1) {
      permit.release('unused');
      return;
    }
    if (!this.isBusy) machine.now = this.alarm.now();
    const reason = this.say && machine.reason(lead);
    const batch = machine.take(lead, permit.budget ?? this.budget);
    const call = new BatchCall<T, R>(this, batch, permit, reason);
    batch.call = call;
    this.acts.push(call);
  }

  /** Makes the call, for those who have not left meanwhile. */
  begin(call: BatchCall<T, R>): void {
    const { machine, say } = this;
    const { batch, reason } = call;
    if (say && reason) {
      batch.tidy();
      const { jobs, id: batchId, parentId, attempt, depth: splitDepth, weight, startedAt } = batch;
      const size = jobs.length;
      const ids = { lane: machine.laneName(batch.lane), batchId, ...(parentId !== undefined && { parentBatchId: parentId }) };
      const seqs = jobs.map(({ index }) => index);
      say({ type: 'batchFormed', ...ids, reason, size, weight, waitMs: startedAt - (jobs[0] as Job<T, R>).acceptedAt, seqs });
      call.isAnnounced = true;
      const { executing } = this.permits;
      say({ type: 'attemptStarted', ...ids, size, weight, attempt, splitDepth, executing, seqs });
      // A listener may have made everybody leave.
      if (batch.slot === -1) {
        call.release('unused');
        return;
      }
    }
    machine.sent(batch);
    call.begin(this.context);
  }

  /** Calls the work. */
  send(call: BatchCall<T, R>): ReturnType<BatchWork<T, R>> {
    const { work } = this;
    return work(
      call.batch.jobs.map((job) => job.input),
      call.context(this.machine.laneName(call.batch.lane)),
    );
  }

  /** The call is over, with an answer or a failure. */
  ended(call: BatchCall<T, R>, answer: BatchResult<R> | undefined, failure: { readonly error: unknown } | undefined): void {
    const { machine, operator } = this;
    const { batch } = call;
    if (batch.slot === -1) return;
    const wasBusy = this.isBusy;
    this.isBusy = true;
    machine.over(batch);
    machine.ending.push(batch);
    if (!wasBusy) machine.now = this.alarm.now();
    let outcomes: readonly (R | ItemFailure)[] | undefined;
    if (failure === undefined) {
      try {
        outcomes = stitch(operator, answer as BatchResult<R>, () => batch.jobs.map(({ id }) => id), batch.jobs.length);
      } catch (error) {
        failure = { error };
      }
    }
    if (failure) this.repair(call, failure);
    else {
      this.tellEnd(call, 'ok');
      this.spent.push(call);
      machine.succeeded(batch, outcomes as readonly (R | ItemFailure)[]);
    }
    machine.ending.pop();
    if (wasBusy) this.again = true;
    else {
      this.isBusy = false;
      this.run();
    }
  }

  private repair(call: BatchCall<T, R>, failure: { readonly error: unknown }): void {
    const { machine } = this;
    const { batch } = call;
    const judged = this.config.repair.length > 0 ? this.judge(failure.error, batch.jobs.length, batch.attempt) : undefined;
    this.tellEnd(call, judged?.verdict.class ?? 'failed');
    // One that was stopped gives its permit back as the work lets it.
    if (call.fault === undefined) {
      call.fault = failure;
      this.spent.push(call);
    }
    machine.failed(batch, judged?.reason ?? failure.error, judged?.verdict);
  }

  private tellEnd(call: BatchCall<T, R>, outcome: 'ok' | 'failed' | ErrorClass): void {
    if (!call.isAnnounced || this.say === undefined) return;
    const { say, machine } = this;
    const { id: batchId, parentId, jobs, attempt, lane, startedAt } = call.batch;
    const latencyMs = this.alarm.now() - startedAt;
    const ids = { lane: machine.laneName(lane), batchId, ...(parentId !== undefined && { parentBatchId: parentId }) };
    this.act(() => {
      say({ type: 'attemptEnded', ...ids, size: jobs.length, attempt, outcome, latencyMs });
    });
  }

  // ---- for the machine ----------------------------------------------------------------------------------------------

  /** That `classify` failed in its turn is for the items' owners to know as well. */
  judge(error: unknown, size: number, attempt: number): Judgement {
    const { operator, classify, repair, scheduler } = this.config;
    const sort = classify ?? repair.find((rule) => rule.classify)?.classify;
    if (sort === undefined) return { verdict: { class: 'fatal' }, reason: error };
    try {
      return { verdict: verdictOf(operator, sort, error, { size, attempt, aborted: false, epochMs: scheduler.now() }), reason: error };
    } catch (fault) {
      return { verdict: { class: 'fatal' }, reason: fault };
    }
  }

  draw(): number {
    return drawnFrom(this.operator, this.config.random);
  }

  deadlineError({ deadlineAt, acceptedAt }: Job<T, R>, now: number): unknown {
    return new DeadlineError(this.operator, deadlineAt - acceptedAt, now - acceptedAt);
  }

  overflowError(limit: number, policy: Overflow): unknown {
    return new OverflowError(this.operator, limit, policy);
  }

  pause(pauseMs: number): void {
    // A pause of 0 would end one that somebody else has asked for.
    if (pauseMs === 0) return;
    this.act(() => {
      this.permits.penalize(pauseMs);
    });
  }

  stop(batch: Batch<T, R>): void {
    const call = batch.call as BatchCall<T, R>;
    call.isStopping = true;
    this.acts.push(call);
    if (call.fault === undefined) this.tellEnd(call, 'cancelled');
  }

  // ---- the outside --------------------------------------------------------------------------------------------------

  private act(run: () => void): void {
    this.acts.push({ run });
  }

  /** Does all that waits, and what comes of it. Asked from inside one of them, the rest comes after it. */
  private perform(): void {
    if (this.isActing || this.acts.length === 0) return;
    this.isActing = true;
    this.performNow();
    this.isActing = false;
  }

  /** The same at once, also from inside one of them: for whoever must have come to an end before it returns. */
  protected performNow(): void {
    const { acts } = this;
    while (this.actsAt < acts.length) {
      const act = acts[this.actsAt++] as Act;
      if (this.actsAt === acts.length) acts.length = this.actsAt = 0;
      act.run();
    }
  }

  /** Gives one permit back. */
  private release(): void {
    const { spent } = this;
    const call = spent[this.spentAt++];
    if (this.spentAt >= spent.length) spent.length = this.spentAt = 0;
    call?.giveUpPermit();
  }

  private releaseAll(): void {
    while (this.spent.length > 0) this.release();
  }
}

/** What `closeWhen` is told. Looked up only when asked for. */
function openBatch<T, R>(machine: BatchMachine<T, R>, job: Job<T, R>) {
  return {
    itemWeight: job.weight,
    get items() {
      return machine.openBatch(job).map(({ input }) => input);
    },
    get weight() {
      return machine.openBatch(job).reduce((sum, { weight }) => sum + weight, 0);
    },
  };
}

export { DONE, Job, NEW };

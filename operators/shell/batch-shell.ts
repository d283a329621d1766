import { captureContext } from '#async-context';
import type { BatchHost, Judgement } from '../kernel/machine/batch-machine.js';
import type { Batch, Job } from '../kernel/machine/job.js';
import type { Overflow } from '../kernel/queues/queue.js';
import { isAmount, unusable } from '../options/answers.js';
import { ask, drawnFrom, verdictOf } from '../options/ask.js';
import { AttemptTimeoutError, DeadlineError, isFlowError, OverflowError } from '../options/errors.js';
import type { Bidder, Permit } from '../options/permits.js';
import type { BatchResult } from '../options/types.js';
import { BatchCall } from './batch-call.js';
import { BatchIntake } from './batch-intake.js';
import type { BatchConfig, BatchWork } from './batch-options.js';

/** Of the window when none is given, which grows with the load. */
const LONGEST_WINDOW_MS = 100;

/** Something to be done to the outside once a step is over: an event told, a call started or stopped. */
interface Act {
  run(): void;
}

/**
 * Drives a batch machine: asks your callbacks about each item, waits for permits and for time, makes the calls, and hands out the results. Whoever
 * extends it says what is done with these, one thing at a time.
 *
 * One loop does everything. Whatever happens while it runs (a sink that feeds the source, work that completes at once, a permit granted inside a
 * release) changes the machine and lets the loop come round again, so nothing recurses. Listeners are told, and calls started and stopped, between
 * its steps, so whoever is reached may do anything.
 */
export abstract class BatchShell<T, R> extends BatchIntake<T, R> implements Bidder, BatchHost<T, R> {
  /** Of whoever made this: a batch has items of several callers, and must not run as whoever freed the slot. */
  readonly context = captureContext();
  private again = false;
  private isFinished = false;
  /** Acts that wait, from `actsAt` on. */
  private readonly acts: Act[] = [];
  private actsAt = 0;
  private isActing = false;
  /** Calls whose permits are to be given back. */
  private readonly spent: BatchCall<T, R>[] = [];
  private spentAt = 0;
  private isEnlisting = false;
  private budget = Infinity;
  private unwatch: (() => void) | undefined = undefined;

  constructor(
    config: BatchConfig<T>,
    readonly work: BatchWork<T, R>,
  ) {
    super(config);
  }

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
    if (!this.deliver()) return false;
    machine.now = this.alarm.now();
    this.look();
    machine.wake();
    this.stopOverdue();
    this.perform();
    this.dispatch();
    if (!this.isOver) this.hasRoom?.();
    if (this.isOver || this.hasMore()) return true;
    // The window is asked, and may do anything.
    this.arm();
    if (this.hasMore()) return true;
    this.endIfDone();
    return this.hasMore();
  }

  private hasMore(): boolean {
    return this.again || this.acts.length > 0 || !this.machine.isIdle || this.spent.length > 0;
  }

  private endIfDone(): void {
    const { machine } = this;
    if (this.isOver || !machine.isFinishing || this.isFinished || machine.queued + machine.calls.length + this.entering > 0) return;
    this.isFinished = true;
    this.say?.({ type: 'drained' });
    if (!this.isLeft()) this.finished();
  }

  /** Narrowing does not see that a listener may have left it. */
  private isLeft(): boolean {
    return this.isOver;
  }

  /** Hands out results first, then frees the slots they held: a result is never overtaken by the next call's. False when it has been left. */
  private deliver(): boolean {
    const { machine } = this;
    machine.clearOrphans();
    for (let job = machine.shift(); job; job = machine.shift()) {
      this.settled(job);
      if (this.isOver) return false;
    }
    const { overflowed } = machine;
    machine.overflowed = undefined;
    if (overflowed) this.overflowed?.(overflowed.error);
    // What a consumer sent in may have cost others their place, and a slot that comes free goes to what waits.
    machine.clearOrphans();
    this.release();
    return !this.isOver;
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
    let { lead } = machine;
    // A window that fails on the way leaves nothing to send.
    while (this.place === undefined && lead !== -1 && machine.isIdle && this.isDue() && !this.isOver) {
      this.enlist(lead);
      this.perform();
      lead = machine.lead;
    }
    // Results first: the loop comes round again.
    if (this.isOver || this.place === undefined || !machine.isIdle) return;
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
    return machine.isUrgent || this.dueAt() <= machine.now;
  }

  /** When the oldest items have been held long enough; asks the window again. */
  private dueAt(): number {
    const { machine } = this;
    return machine.dueAt(machine.wantsWindow ? this.windowMs() : Infinity);
  }

  private windowMs(): number {
    const { operator, window } = this.config;
    const { machine, permits } = this;
    const { load } = permits;
    if (window === undefined) return load === 0 ? 0 : LONGEST_WINDOW_MS * load;
    const { executing, concurrency } = permits;
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
    if (this.isOver) return;
    if (this.own === undefined) this.watch(isHeld);
    this.alarm.set(at);
  }

  /** Asks for a permit; it may be granted before this returns. */
  private enlist(lead: number): void {
    const { machine, own, permits } = this;
    if (own === undefined) this.watch(false);
    this.placeLane = lead;
    this.budget = machine.aim;
    const permit = own?.take();
    if (permit) {
      this.launch(permit, lead);
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
    const { machine } = this;
    this.place = undefined;
    this.isEnlisting = false;
    machine.clearOrphans();
    const lead = this.isOver ? -1 : machine.lead;
    if (!this.isBusy) machine.now = this.alarm.now();
    if (lead === -1) permit.release('unused');
    else this.launch(permit, lead);
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

  private launch(permit: Permit, lead: number): void {
    const { machine } = this;
    const reason = this.say && machine.reason(lead);
    const batch = machine.take(lead, permit.budget ?? this.budget);
    const call = new BatchCall<T, R>(this, batch, permit, reason);
    batch.call = call;
    this.acts.push(call);
  }

  /** A call is over: what becomes of its items is decided before anything else is made of it. */
  ended(call: BatchCall<T, R>, answer: BatchResult<R> | undefined, fault: { readonly error: unknown } | undefined): void {
    const { machine } = this;
    const { batch } = call;
    if (batch.slot === -1) return;
    const wasBusy = this.isBusy;
    this.isBusy = true;
    machine.over(batch);
    machine.ending.push(batch);
    if (!wasBusy) machine.now = this.alarm.now();
    call.conclude(answer, fault);
    machine.ending.pop();
    if (wasBusy) this.again = true;
    else {
      this.isBusy = false;
      this.run();
    }
  }

  /** Its permit goes back once its results are out. */
  spend(call: BatchCall<T, R>): void {
    this.spent.push(call);
  }

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
    if (call.fault === undefined) call.tellEnd('cancelled');
  }

  act(run: () => void): void {
    this.acts.push({ run });
  }

  protected hasActs(): boolean {
    return this.acts.length > 0;
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

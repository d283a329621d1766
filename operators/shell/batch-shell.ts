import type { Subscription } from 'rxjs';
import { asapScheduler } from 'rxjs';
import { captureContext } from '#async-context';
import type { BatchHost } from '../kernel/machine/batch-host.js';
import { BatchMachine } from '../kernel/machine/batch-machine.js';
import { bid, nextBidAt } from '../kernel/machine/bid.js';
import type { Batch, Job } from '../kernel/machine/job.js';
import { ACCEPTED } from '../kernel/machine/job.js';
import { Backlog } from '../kernel/queues/line.js';
import type { Overflow } from '../kernel/queues/queue.js';
import { AttemptTimeoutError, DeadlineError, isFlowError, OverflowError } from '../options/errors.js';
import type { Note } from '../options/events.js';
import { teller } from '../options/events.js';
import type { Bidder, Outcome, Permit, Permits, Place } from '../options/permits.js';
import type { BatchResult } from '../options/types.js';
import { Alarm } from './alarm.js';
import type { Effect } from './batch-call.js';
import { BatchCall } from './batch-call.js';
import type { BatchConfig, BatchWork } from './batch-options.js';
import { LONGEST_WINDOW_MS } from './batch-options.js';
import type { ItemOptions } from './describe-item.js';
import { describe } from './describe-item.js';
import { Slots } from './slots.js';

/**
 * Drives a batch machine: calls your callbacks for each item, collects the items of one frame, waits for permits and timers, makes the calls, and hands
 * out the results one by one. A subclass says what is done with them.
 *
 * One loop does everything. Whatever happens while it runs (work that completes at once, a permit granted inside a release) changes the machine and makes
 * it go round again, so nothing recurses. Side effects (events, calls) run between its steps, so the callbacks they reach may do anything.
 */
export abstract class BatchShell<T, R> implements Bidder, BatchHost<T, R> {
  readonly operator: string;
  /** The context in which this was made. A batch has items of several callers, and must not run in the context of whoever freed the slot. */
  readonly context = captureContext();
  readonly machine: BatchMachine<T, R>;
  readonly permits: Omit<Permits, 'enlist'>;
  /** Tells an event at once; `tell` does after the current step. Undefined when nobody listens. */
  readonly tellNow: ReturnType<typeof teller>;
  readonly tell: ((note: Note) => void) | undefined = undefined;
  private readonly slots: Slots | undefined;
  private readonly alarm: Alarm;
  /** Whether all items are alike: nothing is asked about them, none is too heavy, and results keep no order. */
  private readonly isUniform: boolean;
  /** Whether there are no bounds either, and nobody listens. */
  protected readonly isPlain: boolean;
  /** Items that are being accepted: it cannot finish before they are queued. */
  private entering = 0;
  /** Closed. */
  private isOver = false;
  private isFinished = false;
  private isBusy = false;
  private again = false;
  private readonly effects = new Backlog<Effect>();
  /** Calls whose permits are released once their results are out. */
  readonly toRelease = new Backlog<BatchCall<T, R>>();
  /** Its place in the queue of a limiter. */
  private place: Place | undefined = undefined;
  /** The lane for which it waits for a permit or a slot; -1 while it does not. */
  protected waitsIn = -1;
  /** Whoever has left may be the first of many: none of its own slots is given away before the frame ends, to somebody who leaves as well. */
  private isHeld = false;
  private unwatch: (() => void) | undefined = undefined;
  /** Ends the current frame; until then a batch that is not full waits for the rest of its burst. */
  private frame: Subscription | undefined = undefined;

  constructor(
    readonly config: BatchConfig<T>,
    readonly work: BatchWork<T, R>,
  ) {
    const { operator, scheduler, limiter, concurrency, weigh, maxWeight, order, queue, id, deadlineMs, isPulled, maxQueued } = config;
    this.operator = operator;
    this.alarm = new Alarm(scheduler, () => {
      this.isHeld = false;
      this.run();
    });
    const say = teller(operator, config, () => this.alarm.now());
    this.tellNow = say;
    if (say)
      this.tell = (note) => {
        this.effects.push({ run: say.bind(undefined, note) });
      };
    this.slots = limiter ? undefined : new Slots(concurrency, this.alarm, scheduler, this.freed.bind(this));
    this.permits = limiter ?? (this.slots as Slots);
    this.machine = new BatchMachine<T, R>(config, this);
    this.isUniform =
      (weigh ?? order ?? id ?? queue.laneOf ?? queue.keyOf) === undefined && !queue.isDeclared && deadlineMs === Infinity && maxWeight >= 1;
    this.isPlain = this.isUniform && !say && (isPulled || maxQueued === Infinity);
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

  // ---- items --------------------------------------------------------------------------------------------------------

  /** Accepts one item. It will be settled exactly once. */
  add(job: Job<T, R>): void {
    if (this.isPlain && !this.machine.refusal) {
      this.readClock();
      this.machine.stamp(job);
      this.machine.add(job);
      this.added(0);
    } else {
      this.accept(job);
      this.submit(job);
    }
  }

  /** The same where all items are alike. */
  protected push(input: T): void {
    this.readClock();
    this.machine.push(input);
    this.added(0);
  }

  /** The first half of `add`, in which callbacks are asked about the item. */
  accept(job: Job<T, R>, options?: ItemOptions): void {
    this.entering++;
    this.readClock();
    if (this.isUniform && options?.lane === undefined && options?.deadlineMs === undefined) this.machine.stamp(job);
    else describe(job, this, options);
  }

  /** The second half of `add`; queues nothing for an item that was given up in between. */
  submit(job: Job<T, R>): void {
    const { machine } = this;
    this.entering--;
    if (job.state === ACCEPTED && !this.isOver) {
      this.tell?.({ type: 'accepted', lane: machine.laneName(job.lane), queued: machine.queued, seq: job.index });
      if (machine.enter(job)) this.added(job.lane);
      else this.run();
      if (job.deadlineAt !== Infinity || machine.results.length > 0) this.run();
    } else if (machine.isFinishing) this.run();
    if (!this.isBusy && this.effects.length > 0) this.step();
  }

  /** One more item waits. Behind others, with a place in the queue for permits or in an open frame, it changes nothing yet. */
  private added(lane: number): void {
    const { machine, waitsIn } = this;
    const waits = waitsIn === -1 ? !machine.isFull && (machine.isFramed || this.openFrame()) : lane >= waitsIn;
    if (!waits || this.isBusy || machine.isFinishing) this.run();
  }

  /** All items of a frame have the same time: reading the clock costs more than queueing an item. */
  private readClock(): void {
    const { machine, config } = this;
    if (!machine.isFramed || config.frames !== asapScheduler) machine.now = this.alarm.now();
  }

  /** Reads what the permits can grant at most, for the weight of a batch. Answers the most that one item may weigh. */
  readCapacity(): number {
    const { machine, permits, config } = this;
    if (!config.weigh) return Infinity;
    const { tokenCapacity } = permits;
    machine.charges = tokenCapacity !== Infinity;
    machine.aim = Math.min(config.maxWeight, tokenCapacity);
    return permits.borrows ? Infinity : tokenCapacity;
  }

  /** What has come waits for the end of its frame; false when that is over already. Apart, or its closure would cost each item an object. */
  private openFrame(): boolean {
    const { machine } = this;
    machine.isFramed = true;
    const frame = this.config.frames.schedule(() => {
      this.endFrame();
      if (machine.fresh > 0) this.run();
    }, 0);
    // Some schedulers (`queueScheduler`) run it at once.
    if (machine.isFramed as boolean) this.frame = frame;
    return machine.isFramed;
  }

  private endFrame(): void {
    this.machine.isFramed = false;
    this.frame?.unsubscribe();
    this.frame = undefined;
  }

  // ---- from outside -------------------------------------------------------------------------------------------------

  setConcurrency(concurrency: number): void {
    if (this.slots) this.slots.concurrency = concurrency;
    this.run();
  }

  /** Makes everything that waits now due, whatever its window. */
  flush(): void {
    this.machine.flush();
    this.endFrame();
    this.run();
  }

  /** No more items will come: what waits leaves as soon as permits allow. */
  finish(): void {
    this.machine.isFinishing = true;
    this.endFrame();
    this.run();
  }

  /** Rejects everything that is not settled yet and aborts the calls under way. */
  rejectAll(error: unknown): void {
    this.step(() => {
      this.machine.rejectAll(error);
      this.withdraw();
    });
    this.run();
    this.runEffects();
  }

  /** Stops at once: clears timers and queue, cancels the calls, hands out nothing more. */
  close(): void {
    const { isOver, machine } = this;
    this.isOver = true;
    if (!isOver) {
      this.endFrame();
      this.alarm.clear();
      machine.now = this.alarm.now();
      const { calls } = machine;
      machine.clear();
      this.withdraw();
      // Before any listener is told, which may leave as well.
      for (const { call } of calls) (call as BatchCall<T, R>).run();
    }
    // Also when it is called again by a listener of the first time: no signal is left to abort later.
    this.runEffects();
    this.releaseAll();
    this.watch(false);
    this.slots?.close();
  }

  // ---- the loop -----------------------------------------------------------------------------------------------------

  /** Makes a change as one step, then runs the effects and the loop. */
  protected step(change?: () => void): void {
    const { isBusy: wasBusy, machine } = this;
    this.isBusy = true;
    if (change && !wasBusy) machine.now = this.alarm.now();
    change?.();
    if (wasBusy) return;
    this.runEffects();
    this.isBusy = false;
    if (this.again) this.run();
  }

  protected run(): void {
    this.again = true;
    if (this.isBusy) return;
    this.isBusy = true;
    while (!this.isOver && this.round());
    this.isBusy = false;
    if (!this.isOver) return;
    // Work may have ended while it was closed.
    this.runEffects();
    this.releaseAll();
  }

  /** One round of the loop; true when there is more to do. */
  private round(): boolean {
    const { machine } = this;
    this.runEffects();
    if (!this.deliver()) return false;
    // This round deals with all that has happened until now.
    this.again = false;
    machine.now = this.alarm.now();
    this.readCapacity();
    machine.wake();
    for (let batch = machine.overdue(); batch; batch = machine.overdue()) {
      const call = batch.call as BatchCall<T, R>;
      call.fault = { error: new AttemptTimeoutError(this.operator, this.config.timeoutMs) };
      this.stop(batch);
      this.ended(call, undefined, call.fault);
    }
    this.runEffects();
    this.dispatch();
    if (!this.isOver) this.hasRoom?.();
    if (this.isOver || this.hasMore()) return true;
    // This calls the window, which may do anything.
    this.arm();
    if (!this.hasMore()) this.endIfDone();
    return this.hasMore();
  }

  private hasMore(): boolean {
    return this.again || this.effects.length + this.machine.results.length + this.toRelease.length > 0;
  }

  private endIfDone(): void {
    const { machine } = this;
    if (this.isOver || !machine.isFinishing || this.isFinished || machine.queued + machine.underWay.size + this.entering > 0) return;
    this.isFinished = true;
    this.tellNow?.({ type: 'drained' });
    // A listener may have left it.
    if (!(this.isOver as boolean)) this.finished();
  }

  /** Hands out results, then releases their permits, so that the next call's results cannot overtake them. False when it was closed. */
  private deliver(): boolean {
    const { machine } = this;
    while (machine.results.length > 0) {
      this.settled(machine.results.shift() as Job<T, R>);
      if (this.isOver) return false;
    }
    const { overflowed } = machine;
    machine.overflowed = undefined;
    if (overflowed) this.overflowed?.(overflowed.error);
    this.releaseAll();
    return !this.isOver;
  }

  private releaseAll(): void {
    while (this.toRelease.length > 0) this.toRelease.shift()?.releasePermit();
  }

  /** Sends what is due, or asks for permits for it. Results go out first: with some the loop comes round again. */
  private dispatch(): void {
    const { machine, slots } = this;
    const stood = this.waitsIn !== -1;
    while (!this.isOver && machine.results.length === 0) {
      const { lead } = machine;
      // Something more urgent has come, or what was urgent has left.
      if (lead === -1 || (this.place && lead !== this.waitsIn)) this.withdraw();
      if (lead === -1) return;
      if (this.waitsIn === -1 ? !this.isDue(lead) : !slots) {
        // Without tokens the bid never changes. After items have left, others are granted only at the end of the frame.
        if (stood && machine.charges) this.place?.poke();
        return;
      }
      this.watch(false);
      this.waitsIn = lead;
      machine.budget = machine.aim;
      if (!slots) this.enlist(lead);
      else {
        const permit = this.isHeld ? undefined : slots.take();
        if (!permit) return;
        this.launch(permit, lead);
      }
      this.runEffects();
    }
  }

  private isDue(lead: number): boolean {
    const { machine, config } = this;
    if (machine.isUrgent) return true;
    // The window may have failed, or changed anything, after another lane was found to be due.
    return machine.dueAt(this.windowMs) <= machine.now && (!config.window || (machine.results.length === 0 && machine.lead === lead));
  }

  /** How long a batch that is not full is held now. */
  private readonly windowMs = (): number => {
    const { executing, concurrency, load } = this.permits;
    if (!this.config.window) return LONGEST_WINDOW_MS * load;
    const { fresh: queued, freshWeight: queuedWeight, now, oldestAt } = this.machine;
    try {
      return this.config.window({ executing, concurrency, load, queued, queuedWeight, oldestMs: now - oldestAt });
    } catch (fault) {
      this.failed(fault);
      return Infinity;
    }
  };

  /** One timer for everything that will be due. */
  private arm(): void {
    const { machine } = this;
    const hasWindow = this.waitsIn === -1 && machine.fresh > 0;
    let at = machine.nextAt;
    if (this.place) at = Math.min(at, nextBidAt(machine));
    if (this.slots && this.waitsIn !== -1) at = Math.min(at, this.isHeld ? machine.now : this.slots.resumesAt);
    if (hasWindow && !machine.isBlocked) at = Math.min(at, machine.dueAt(this.windowMs));
    if (this.isOver) return;
    this.watch(hasWindow);
    this.alarm.set(at);
  }

  // ---- permits ------------------------------------------------------------------------------------------------------

  /** Asks for a permit; it may be granted or refused before this returns, and then there is no place to keep. */
  private enlist(lead: number): void {
    const { queue, limiter } = this.config;
    const place = (limiter as Permits).enlist(this, queue.isDeclared ? this.machine.laneName(lead) : undefined);
    if (this.waitsIn !== -1) this.place = place;
  }

  private withdraw(): void {
    const { place, slots } = this;
    // Without either it is just being enlisted, and will have a place.
    if (place ?? slots) this.leaveQueue();
    place?.withdraw();
  }

  private leaveQueue(): void {
    this.place = undefined;
    this.isHeld = false;
    this.waitsIn = -1;
  }

  /** Watches a shared limiter while a window holds items back. Its own slots need no watching. */
  private watch(on: boolean): void {
    if (on === (this.unwatch !== undefined)) return;
    this.unwatch?.();
    this.unwatch = on ? this.permits.watch?.(this.run.bind(this)) : undefined;
  }

  bid(affordable: number): number | undefined {
    const { machine } = this;
    if (!this.isBusy) {
      machine.now = this.alarm.now();
      // What comes back now, after a pause that was for all, goes first. Who is too late is seen to in a round, which stops calls at once.
      machine.repairer?.wake();
    }
    if (machine.lead !== -1) return bid(machine, affordable);
    this.leaveQueue();
    return undefined;
  }

  private freed(outcome?: Outcome): void {
    this.isHeld = outcome === 'cancelled' && this.waitsIn !== -1;
    this.run();
  }

  granted(permit: Permit): void {
    const { machine, isBusy, isOver } = this;
    if (!isBusy) {
      machine.now = this.alarm.now();
      machine.wake();
    }
    const lead = isOver ? -1 : machine.lead;
    if (lead === -1) {
      this.leaveQueue();
      permit.release('unused');
    } else this.launch(permit, lead);
    this.run();
  }

  refused(error: unknown): void {
    this.leaveQueue();
    if (isFlowError(error, 'FLOW_CLEARED')) {
      this.step(this.machine.refuseWaiting.bind(this.machine, error));
      this.run();
    } else this.rejectAll(error);
  }

  private launch(permit: Permit, lead: number): void {
    const { machine } = this;
    this.leaveQueue();
    const reason = this.tellNow && machine.reason(lead);
    const batch = machine.take(lead, permit.budget ?? machine.budget);
    const call = new BatchCall<T, R>(this, batch, permit, reason);
    batch.call = call;
    this.effects.push(call);
  }

  // ---- calls --------------------------------------------------------------------------------------------------------

  /** A call is over. What becomes of its items is decided before anything else happens. */
  ended(call: BatchCall<T, R>, answer: BatchResult<R> | undefined, fault: { readonly error: unknown } | undefined): void {
    const { machine, isBusy } = this;
    if (!call.batch.isUnderWay) return;
    this.isBusy = true;
    machine.over(call.batch);
    machine.ending.push(call.batch);
    if (!isBusy) machine.now = this.alarm.now();
    call.conclude(answer, fault);
    machine.ending.pop();
    this.isBusy = isBusy;
    this.run();
  }

  deadlineError({ deadlineAt, acceptedAt }: Job<T, R>, now: number): unknown {
    return new DeadlineError(this.operator, deadlineAt - acceptedAt, now - acceptedAt);
  }

  overflowError(limit: number, policy: Overflow): unknown {
    return new OverflowError(this.operator, limit, policy);
  }

  pause(pauseMs: number): void {
    // A pause of 0 would end one that somebody else has asked for.
    if (pauseMs > 0) this.effects.push({ run: this.permits.penalize.bind(this.permits, pauseMs) });
  }

  stop(batch: Batch<T, R>): void {
    const call = batch.call as BatchCall<T, R>;
    call.isStopping = true;
    this.effects.push(call);
    if (call.fault === undefined) call.tellEnd('cancelled');
  }

  /** Runs all side effects; from inside one of them, the others before it goes on. */
  protected runEffects(): void {
    while (this.effects.length > 0) this.effects.shift()?.run();
  }
}

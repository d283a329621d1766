import type { Subscription } from 'rxjs';
import { asapScheduler } from 'rxjs';
import { captureContext } from '#async-context';
import type { BatchHost } from '../kernel/machine/batch-host.js';
import { BatchMachine } from '../kernel/machine/batch-machine.js';
import { bid, shrinkAt } from '../kernel/machine/bid.js';
import type { Batch, Job } from '../kernel/machine/job.js';
import { ACCEPTED } from '../kernel/machine/job.js';
import { Backlog } from '../kernel/queues/line.js';
import type { Overflow } from '../kernel/queues/queue.js';
import { AttemptTimeoutError, DeadlineError, isFlowError, OverflowError } from '../options/errors.js';
import { teller } from '../options/events.js';
import type { Bidder, Permit, Permits, Place } from '../options/permits.js';
import type { BatchResult } from '../options/types.js';
import { Alarm } from './alarm.js';
import type { Effect } from './batch-call.js';
import { BatchCall } from './batch-call.js';
import type { BatchConfig, BatchWork } from './batch-options.js';
import { describe } from './describe-item.js';
import { Slots } from './slots.js';

/** Longest that a batch which is not full is held when no window is given. */
const LONGEST_WINDOW_MS = 100;

/**
 * Drives a batch machine: calls your callbacks for each item, collects the items of one frame, waits for permits and timers, makes the calls, and hands
 * out the results one by one. A subclass says what is done with them.
 *
 * One loop does everything. Whatever happens while it runs (a consumer that feeds the source, work that completes at once, a permit granted inside a
 * release) changes the machine and makes the loop go round again, so nothing recurses. Side effects (events, starting and stopping calls) run between
 * its steps, so the callbacks they reach may do anything.
 */
export abstract class BatchShell<T, R> implements Bidder, BatchHost<T, R> {
  readonly operator: string;
  /** The context in which this was made. A batch has items of several callers, and must not run in the context of whoever freed the slot. */
  readonly context = captureContext();
  readonly machine: BatchMachine<T, R>;
  readonly permits: Permits;
  /** Tells an event at once; `tell` does after the current step. Undefined when nobody listens. */
  readonly tellNow: ReturnType<typeof teller>;
  readonly tell: ReturnType<typeof teller> = undefined;
  protected readonly slots: Slots | undefined;
  private readonly alarm: Alarm;
  /** Whether all items are alike: nothing is asked about them, none is too heavy, and results keep no order. */
  private readonly isUniform: boolean;
  /** How many more items may come before anything has to be looked at. */
  private spare = 0;
  /** Items that are being accepted: it cannot finish before they are queued. */
  private entering = 0;
  /** Closed. */
  private isOver = false;
  private isFinished = false;
  private isBusy = false;
  private again = false;
  private readonly effects = new Backlog<Effect>();
  private isRunning = false;
  /** Calls whose permits are released once their results are out. */
  readonly toRelease = new Backlog<BatchCall<T, R>>();
  /** Its place in the queue for permits, and the lane it has there. */
  protected place: Place | undefined = undefined;
  private placeLane = -1;
  private isEnlisting = false;
  private unwatch: (() => void) | undefined = undefined;
  /** Ends the current frame; until then a batch that is not full waits for the rest of its burst. */
  private frame: Subscription | undefined = undefined;

  constructor(
    readonly config: BatchConfig<T>,
    readonly work: BatchWork<T, R>,
  ) {
    const { operator, scheduler, limiter, concurrency, weigh, maxWeight, order, queue, id, deadlineMs } = config;
    this.operator = operator;
    this.alarm = new Alarm(scheduler, () => {
      this.run();
    });
    const say = teller(operator, config, () => this.alarm.now());
    this.tellNow = say;
    if (say)
      this.tell = (note) => {
        this.effects.push({ run: say.bind(undefined, note) });
      };
    this.slots = limiter ? undefined : new Slots(concurrency, scheduler);
    this.permits = limiter ?? (this.slots as Slots);
    this.machine = new BatchMachine<T, R>(config, this);
    this.isUniform =
      (weigh ?? order ?? id ?? queue.laneOf ?? queue.keyOf) === undefined && !queue.isDeclared && deadlineMs === Infinity && maxWeight >= 1;
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
    const { machine } = this;
    if (this.spare > 0) {
      this.spare--;
      machine.stamp(job);
      machine.add(job);
      return;
    }
    this.accept(job);
    this.submit(job);
    // While a frame is open, items that are all alike, fill no batch and cause no event need no further look.
    const isQuiet = machine.isFramed && !machine.isFinishing && !machine.refusal && !this.isBusy && !this.place;
    if (isQuiet && this.isUniform && !this.tellNow) this.spare = machine.spare;
  }

  /** The first half of `add`, in which callbacks are asked about the item. */
  accept(job: Job<T, R>, laneName?: string, deadlineMs?: number): void {
    const { machine, config } = this;
    this.spare = 0;
    this.entering++;
    // All items of a frame have the same time: reading the clock costs more than queueing an item.
    if (!machine.isFramed || config.frames !== asapScheduler) machine.now = this.alarm.now();
    if (this.isUniform && laneName === undefined && deadlineMs === undefined) machine.stamp(job);
    else describe(job, this, laneName, deadlineMs);
  }

  /** The second half of `add`; queues nothing for an item that was given up in between. */
  submit(job: Job<T, R>): void {
    const { machine } = this;
    const { lane, index, acceptedAt, deadlineAt } = job;
    let changes = false;
    if (job.state === ACCEPTED && !this.isOver) {
      this.tell?.({ type: 'accepted', lane: machine.laneName(lane), queued: machine.queued, seq: index });
      // With a place in the queue for permits, or an open frame, one more item behind others changes nothing yet.
      changes = !machine.enter(job) || (this.place ? lane < this.placeLane : !this.waitsForFrame(acceptedAt));
      changes ||= this.isBusy || deadlineAt !== Infinity || machine.results.length > 0;
    }
    this.entering--;
    if (changes || machine.isFinishing) this.run();
    else if (!this.isBusy && this.effects.length > 0) this.step();
  }

  /** Reads what the permits can grant at most, for the weight of a batch. Answers the most that one item may weigh. */
  readCapacity(): number {
    const { machine, permits } = this;
    const { weigh, maxWeight } = this.config;
    const { tokenCapacity } = permits;
    if (!weigh) return Infinity;
    machine.charges = tokenCapacity !== Infinity;
    machine.aim = Math.min(maxWeight, tokenCapacity);
    return permits.borrows ? Infinity : tokenCapacity;
  }

  /** Whether an item that has come waits for the end of its frame. */
  private waitsForFrame(acceptedAt: number): boolean {
    const { machine } = this;
    if (machine.isFull) return false;
    if (!machine.isFramed) {
      machine.isFramed = true;
      machine.now = acceptedAt;
      const frame = this.config.frames.schedule(() => {
        this.endFrame();
        this.run();
      }, 0);
      // Some schedulers (`queueScheduler`) run it at once.
      if (machine.isFramed as boolean) this.frame = frame;
    }
    return machine.isFramed;
  }

  private endFrame(): void {
    this.machine.isFramed = false;
    this.frame?.unsubscribe();
    this.frame = undefined;
  }

  // ---- from outside -------------------------------------------------------------------------------------------------

  /** Changes the number of its own slots. */
  setConcurrency(concurrency: number): void {
    const { slots } = this;
    if (slots) slots.concurrency = concurrency;
    slots?.poke();
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
    this.runEffectsNow();
  }

  /** Stops at once: clears timers and queue, cancels the calls, hands out nothing more. */
  close(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.spare = 0;
    this.endFrame();
    this.alarm.clear();
    this.machine.clear();
    this.withdraw();
    this.runEffectsNow();
    this.releaseAll();
    this.watch(false);
    this.slots?.close();
  }

  // ---- the loop -----------------------------------------------------------------------------------------------------

  /** Makes a change as one step, then runs the effects and the loop. */
  protected step(change?: () => void): void {
    const wasBusy = this.isBusy;
    this.spare = 0;
    this.isBusy = true;
    change?.();
    if (wasBusy) return;
    this.runEffects();
    this.isBusy = false;
    if (this.again) this.run();
  }

  protected run(): void {
    this.again = true;
    if (this.isBusy) return;
    this.spare = 0;
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
    // This round deals with all that has happened until now.
    this.again = false;
    this.runEffects();
    if (!this.deliver()) return false;
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
    if (this.isOver || !machine.isFinishing || this.isFinished || machine.queued + machine.calls.length + this.entering > 0) return;
    this.isFinished = true;
    this.tellNow?.({ type: 'drained' });
    // A listener may have left it.
    if (!(this.isOver as boolean)) this.finished();
  }

  /** Hands out results, then releases their permits, so that the next call's results cannot overtake them. False when it was closed. */
  private deliver(): boolean {
    const { machine } = this;
    for (let job = machine.results.shift(); job; job = machine.results.shift()) {
      this.settled(job);
      if (this.isOver) return false;
    }
    const { overflowed } = machine;
    machine.overflowed = undefined;
    if (overflowed) this.overflowed?.(overflowed.error);
    this.toRelease.shift()?.releasePermit();
    return !this.isOver;
  }

  private releaseAll(): void {
    for (let call = this.toRelease.shift(); call; call = this.toRelease.shift()) call.releasePermit();
  }

  private dispatch(): void {
    const { machine } = this;
    const stood = this.place !== undefined;
    let { lead } = machine;
    while (!this.place && lead !== -1 && machine.results.length === 0 && this.isDue(lead) && !this.isOver) {
      this.enlist(lead);
      this.runEffects();
      lead = machine.lead;
    }
    // Results first: the loop comes round again.
    if (this.isOver || !this.place || machine.results.length > 0) return;
    if (lead === this.placeLane || (this.slots && lead !== -1)) {
      // Without tokens the bid never changes. After items have left, others are granted only at the end of the frame.
      if (stood && machine.charges) this.place.poke();
      return;
    }
    // Something more urgent has come, or what was urgent has left: take a place in the right lane instead.
    this.withdraw();
    this.again = lead !== -1;
  }

  private isDue(lead: number): boolean {
    const { machine, config } = this;
    if (machine.isUrgent) return true;
    if (machine.dueAt(this.windowMs) > machine.now) return false;
    // The window may have failed, or changed anything, after another lane was found to be due.
    return !config.window || (machine.results.length === 0 && machine.lead === lead);
  }

  /** How long a batch that is not full is held now. */
  private readonly windowMs = (): number => {
    const { config, machine, permits } = this;
    try {
      const { executing, concurrency, load } = permits;
      if (!config.window) return LONGEST_WINDOW_MS * load;
      const { fresh: queued, freshWeight: queuedWeight, now, oldestAt } = machine;
      return config.window({ executing, concurrency, load, queued, queuedWeight, oldestMs: now - oldestAt });
    } catch (fault) {
      this.failed(fault);
      return Infinity;
    }
  };

  /** One timer for everything that will be due. */
  private arm(): void {
    const { machine } = this;
    const isHeld = !this.place && machine.fresh > 0;
    let at = machine.nextAt;
    if (this.place && machine.charges) at = Math.min(at, Math.max(shrinkAt(machine), machine.now + 1));
    if (isHeld && !machine.isBlocked) at = Math.min(at, machine.dueAt(this.windowMs));
    if (this.isOver) return;
    this.watch(isHeld);
    this.alarm.set(at);
  }

  // ---- permits ------------------------------------------------------------------------------------------------------

  /** Asks for a permit; it may be granted before this returns. */
  private enlist(lead: number): void {
    const { machine, permits } = this;
    this.watch(false);
    this.placeLane = lead;
    machine.budget = machine.aim;
    const permit = this.slots?.take();
    if (permit) {
      this.launch(permit, lead);
      return;
    }
    this.isEnlisting = true;
    const place = permits.enlist(this, this.config.queue.isDeclared ? machine.laneName(lead) : undefined);
    if (this.isEnlisting as boolean) this.place = place;
    this.isEnlisting = false;
  }

  private withdraw(): void {
    const { place } = this;
    this.place = undefined;
    place?.withdraw();
  }

  /** Watches a shared limiter while a window holds items back. Its own slots need no watching. */
  private watch(on: boolean): void {
    if (on === (this.unwatch !== undefined)) return;
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
    if (machine.charges) machine.now = this.alarm.now();
    return bid(machine, affordable);
  }

  granted(permit: Permit): void {
    const { machine } = this;
    const lead = this.isOver ? -1 : machine.lead;
    this.place = undefined;
    this.isEnlisting = false;
    if (!this.isBusy) machine.now = this.alarm.now();
    if (lead === -1) permit.release('unused');
    else this.launch(permit, lead);
    this.run();
  }

  refused(error: unknown): void {
    this.place = undefined;
    this.isEnlisting = false;
    if (isFlowError(error, 'FLOW_CLEARED')) {
      this.machine.refuseWaiting(error);
      this.run();
    } else this.rejectAll(error);
  }

  private launch(permit: Permit, lead: number): void {
    const { machine } = this;
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
    const { batch } = call;
    if (batch.slot === -1) return;
    this.isBusy = true;
    machine.over(batch);
    machine.ending.push(batch);
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
    if (pauseMs > 0)
      this.effects.push({
        run: () => {
          this.permits.penalize(pauseMs);
        },
      });
  }

  stop(batch: Batch<T, R>): void {
    const call = batch.call as BatchCall<T, R>;
    call.isStopping = true;
    this.effects.push(call);
    if (call.fault === undefined) call.tellEnd('cancelled');
  }

  // ---- effects------------------------------------------------------------------------------------------------------

  /** Runs all effects. Called from inside one of them, the rest runs after that one. */
  private runEffects(): void {
    if (this.isRunning || this.effects.length === 0) return;
    this.isRunning = true;
    this.runEffectsNow();
    this.isRunning = false;
  }

  /** The same at once, also from inside an effect: for what must be done before the caller returns. */
  protected runEffectsNow(): void {
    for (let effect = this.effects.shift(); effect; effect = this.effects.shift()) effect.run();
  }
}

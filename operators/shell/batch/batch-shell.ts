import type { Subscription } from 'rxjs';
import { asapScheduler } from 'rxjs';
import { captureContext } from '#async-context';
import { enter, stamp } from '../../kernel/machine/accept.js';
import type { BatchHost, Fault } from '../../kernel/machine/batch-host.js';
import type { DrivenMachine } from '../../kernel/machine/batch-machine.js';
import { BatchMachine } from '../../kernel/machine/batch-machine.js';
import type { Batch } from '../../kernel/machine/job.js';
import { Job } from '../../kernel/machine/job.js';
import { clear, refuseWaiting, rejectAll } from '../../kernel/machine/leave.js';
import type { Arrival } from '../../kernel/machine/step.js';
import { ASK, FINISHING, FRAME, HAND_OUT, ROUND, STAY, WITHDRAW } from '../../kernel/machine/step.js';
import { oldestMs } from '../../kernel/machine/turn.js';
import { Backlog } from '../../kernel/queues/line.js';
import type { Refusal } from '../../kernel/waiting/bounds.js';
import { LONGEST_WINDOW_MS } from '../../options/defaults.js';
import { AttemptTimeoutError, BatchShapeError, isFlowError } from '../../options/errors.js';
import type { Note } from '../../options/events.js';
import { teller } from '../../options/events.js';
import type { Bidder, Outcome, Permit, Permits, Place } from '../../options/permits.js';
import type { ErrorClass } from '../../options/types.js';
import { deadlinePassed, overflowed } from '../../options/waiting-errors.js';
import type { ItemOptions } from '../calls/describe-item.js';
import { describe } from '../calls/describe-item.js';
import { Alarm } from '../time/alarm.js';
import type { Effect } from './batch-call.js';
import { BatchCall } from './batch-call.js';
import type { BatchConfig, BatchWork } from './batch-options.js';
import { Slots } from './slots.js';

/** Where the results of a batch shell go. */
export interface BatchOutput<T, R> {
  /** An item has its result. */
  settled(job: Job<T, R>): void;
  /** All items are settled after `finish`. */
  finished(): void;
  /** A callback for all items has thrown: it cannot continue. */
  failed(error: unknown): void;
  /** An item was too much under `overflow: 'error'`; it has been rejected. */
  overflowed?(error: unknown): void;
  /** There may be room for more. */
  readonly hasRoom?: (() => void) | undefined;
}

/** Model and key of all the calls, for a limiter with limits per model, or with lanes that keys share. */
export interface CallOwner {
  readonly model?: string | undefined;
  readonly key?: unknown;
}

/**
 * Drives a batch machine: calls your callbacks for each item, keeps the frame and the timer, asks for permits, makes the calls, and hands out the results one
 * by one. It sends the machine events and does what that says is next.
 *
 * One loop does everything. Whatever happens while it runs (work that completes at once, a permit granted inside a release) changes the machine and makes
 * it go round again, so nothing recurses. Side effects (events, calls) run between its steps, so the callbacks they reach may do anything.
 */
export class BatchShell<T, R> implements Bidder, BatchHost<T, R> {
  readonly operator: string;
  /** A batch has items of several callers, and must not run in the context of the caller who freed the slot. */
  readonly context = captureContext();
  readonly machine: DrivenMachine<T, R>;
  readonly permits: Omit<Permits, 'enlist'>;
  /** Emits an event at once; `tell` does after the current step. Undefined without a listener. */
  readonly tellNow: ReturnType<typeof teller>;
  readonly tell: ((note: Note) => void) | undefined = undefined;
  readonly model: string | undefined;
  readonly key: unknown;
  private readonly slots: Slots | undefined;
  private readonly alarm: Alarm;
  /** Whether all items are alike: nothing is asked about them, none is too heavy, and results keep no order. */
  private readonly isUniform: boolean;
  /** Closed. */
  private isOver = false;
  private isArmed = false;
  private isBusy = false;
  private again = false;
  private readonly effects = new Backlog<Effect>();
  /** What happens once the results are out: releases of permits, so that the next call's results cannot overtake them, and the end after an overflow. */
  private readonly afterResults = new Backlog<Effect>();
  /** Its place in the queue of a limiter. */
  private place: Place | undefined = undefined;
  /** Cancellations come in groups, so own slots are granted again only at the end of the frame. */
  private isHeld = false;
  private unwatch: (() => void) | undefined = undefined;
  /** Ends the current frame; until then a batch that is not full waits for the rest of its burst. */
  private frame: Subscription | undefined = undefined;
  /** Whether all items of the current frame have the same time. */
  private isSameTime = false;

  constructor(
    readonly config: BatchConfig<T>,
    readonly work: BatchWork<T, R>,
    private readonly output: BatchOutput<T, R>,
    { model, key }: CallOwner = {},
  ) {
    const { operator, scheduler, limiter, concurrency, weigh, maxWeight, order, queue, id, deadlineMs } = config;
    this.operator = operator;
    this.model = model;
    this.key = key;
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
  }

  // ---- items --------------------------------------------------------------------------------------------------------

  /** Accepts one item. It will be settled exactly once. */
  add(job: Job<T, R>): void {
    this.accept(job);
    this.submit(job);
  }

  /** The same for an item of a stream, which is its input and no more. */
  push(input: T): void {
    const { machine } = this;
    if (this.isUniform) this.arrived(machine.push(input, this.isSameTime ? machine.now : this.alarm.now()));
    else this.add(new Job(input));
  }

  /** The first half of `add`, in which callbacks are asked about the item. */
  accept(job: Job<T, R>, options?: ItemOptions): void {
    const { machine } = this;
    // Reading the clock costs more than queueing an item.
    const time = this.isSameTime ? machine.now : this.alarm.now();
    if (this.isUniform && options?.lane === undefined && options?.deadlineMs === undefined) stamp(machine, job, time);
    else describe(job, this, time, options);
  }

  /** The second half of `add`; queues nothing for an item that was cancelled in between. */
  submit(job: Job<T, R>): void {
    this.arrived(enter(this.machine, job));
  }

  private arrived(arrival: Arrival): void {
    if (arrival === FRAME) this.openFrame();
    if (arrival === ROUND || this.isBusy || this.machine.results.length > 0) this.run();
    else if (this.effects.length > 0) this.tellAll();
  }

  /** Apart, or its closure would cost each item an object. */
  private openFrame(): void {
    const { frames } = this.config;
    this.isSameTime = frames === asapScheduler;
    const frame = frames.schedule(() => {
      this.endFrame();
      this.run();
    }, 0);
    // Some schedulers (`queueScheduler`) run it at once.
    if (this.machine.isFramed) this.frame = frame;
  }

  private endFrame(): void {
    this.machine.frameOver();
    this.isSameTime = false;
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
    this.machine.finish();
    this.endFrame();
    this.run();
  }

  /** Rejects everything that is not settled yet and aborts the calls under way. */
  rejectAll(error: unknown): void {
    this.change(() => {
      rejectAll(this.machine, error);
      this.withdraw();
    });
    this.runEffects();
  }

  /** Stops at once: clears timers and queue, cancels the calls, hands out nothing more. */
  close(): void {
    const { isOver, machine } = this;
    this.isOver = true;
    if (!isOver) {
      this.endFrame();
      this.alarm.clear();
      const { calls } = machine;
      clear(machine, this.alarm.now());
      this.withdraw();
      // Before listeners are called, which may unsubscribe as well.
      for (const { call } of calls) (call as BatchCall<T, R>).run();
    }
    // Also when it is called again by a listener of the first time: no signal is left to abort later.
    runAll(this.effects);
    runAll(this.afterResults);
    this.watch(false);
    this.slots?.close();
  }

  // ---- the loop -----------------------------------------------------------------------------------------------------

  /** Makes a change as one step: whatever it leads to happens afterwards. */
  change(make: () => void): void {
    const { isBusy } = this;
    this.isBusy = true;
    if (!isBusy) this.machine.tick(this.alarm.now());
    make();
    this.isBusy = isBusy;
    this.run();
  }

  private run(): void {
    this.again = true;
    if (this.isBusy) return;
    this.isBusy = true;
    while (!this.isOver && this.round());
    this.isBusy = false;
    if (!this.isOver) return;
    // Work may have ended while it was closed.
    runAll(this.effects);
    runAll(this.afterResults);
  }

  /** One round of the loop; true when there is more to do. */
  private round(): boolean {
    const { machine, output, slots } = this;
    if (this.effects.length > 0) runAll(this.effects);
    while (!this.isOver && machine.results.length > 0) output.settled(machine.results.shift() as Job<T, R>);
    if (!this.isOver && this.afterResults.length > 0) runAll(this.afterResults);
    if (this.isOver) return false;
    // What follows deals with all that has happened until now.
    this.again = false;
    const step = machine.next(this.alarm.now());
    if (step === HAND_OUT || (step === ASK && this.ask())) return true;
    if (step === WITHDRAW) {
      this.withdraw();
      return true;
    }
    // Without tokens the bid never changes.
    if (step === STAY && machine.charges) this.place?.poke();
    if (!(this.isOver as boolean)) output.hasRoom?.();
    if ((this.isOver as boolean) || this.hasMore) return true;
    // Nothing can be done now: one timer for everything that will be due.
    const isWaiting = machine.waitsIn !== -1;
    if (!slots) this.watch(!isWaiting && machine.fresh > 0);
    const at = Math.min(machine.wakesAt, !slots || !isWaiting ? Infinity : this.isHeld ? -Infinity : slots.resumesAt);
    if (at < Infinity || this.isArmed) this.alarm.set(at);
    this.isArmed = at < Infinity;
    if (machine.phase === FINISHING && !(this.hasMore as boolean) && machine.drained()) {
      this.tellNow?.({ type: 'drained' });
      // A listener may have left it.
      if (!(this.isOver as boolean)) output.finished();
    }
    return this.again;
  }

  private get hasMore(): boolean {
    return this.again || this.effects.length + this.machine.results.length + this.afterResults.length > 0;
  }

  /** Runs all side effects; from inside one of them, the others before it continues. */
  runEffects(): void {
    runAll(this.effects);
  }

  /** Emits the events of an item that changes nothing yet. */
  private tellAll(): void {
    this.isBusy = true;
    this.runEffects();
    this.isBusy = false;
    if (this.again) this.run();
  }

  // ---- permits ------------------------------------------------------------------------------------------------------

  /** Asks for a permit; true when a batch has left with it. A limiter may grant or refuse before it returns, and then there is no place to keep. */
  private ask(): boolean {
    const { config, machine, slots } = this;
    if (slots) {
      const permit = this.isHeld ? undefined : slots.take();
      if (permit) this.launch(permit);
      return permit !== undefined;
    }
    this.watch(false);
    const { queue, limiter } = config;
    const place = (limiter as Permits).enlist(this, queue.isDeclared ? machine.laneName(machine.waitsIn) : undefined);
    if (machine.waitsIn !== -1) this.place = place;
    return false;
  }

  private launch(permit: Permit, now?: number): void {
    const batch = this.machine.granted(permit.budget, now);
    this.place = undefined;
    this.isHeld = false;
    if (!batch) permit.release('unused');
    else {
      const call = new BatchCall<T, R>(this, batch, permit);
      batch.call = call;
      this.effects.push(call);
    }
  }

  private withdraw(): void {
    const { place } = this;
    this.leaveQueue();
    place?.withdraw();
  }

  private leaveQueue(): void {
    this.place = undefined;
    this.isHeld = false;
  }

  /** Watches a shared limiter while a window holds items back. */
  private watch(on: boolean): void {
    if (on === (this.unwatch !== undefined)) return;
    this.unwatch?.();
    this.unwatch = on ? this.permits.watch?.(this.run.bind(this)) : undefined;
  }

  /** The time; undefined inside a step, in which it stands still. */
  private get clock(): number | undefined {
    return this.isBusy ? undefined : this.alarm.now();
  }

  bid(affordable: number): number | undefined {
    const wanted = this.machine.bid(affordable, this.clock);
    if (wanted === undefined) this.leaveQueue();
    return wanted;
  }

  granted(permit: Permit): void {
    this.launch(permit, this.clock);
    this.run();
  }

  refused(error: unknown): void {
    this.leaveQueue();
    this.machine.refused();
    if (isFlowError(error, 'FLOW_CLEARED')) {
      this.change(() => {
        refuseWaiting(this.machine, error);
      });
    } else this.rejectAll(error);
  }

  private freed(outcome?: Outcome): void {
    this.isHeld = outcome === 'cancelled' && this.machine.waitsIn !== -1;
    this.run();
  }

  // ---- calls --------------------------------------------------------------------------------------------------------

  /** A call has ended by itself. What becomes of its items is decided before anything else happens. */
  answered({ batch }: BatchCall<T, R>, answer: unknown, fault?: Fault): void {
    const { isBusy } = this;
    this.isBusy = true;
    this.machine.ended(batch, answer, fault, isBusy ? undefined : this.alarm.now());
    this.isBusy = isBusy;
    this.run();
  }

  ended(batch: Batch<T, R>, outcome: 'ok' | 'failed' | ErrorClass, fault: Fault | undefined): void {
    const call = batch.call as BatchCall<T, R>;
    if (this.tell) call.tellEnd(outcome);
    // A call that was stopped has released its permit already, or will when its work ends.
    if (call.fault) return;
    call.fault = fault;
    this.afterResults.push({ run: call.releasePermit.bind(call) });
  }

  stop(batch: Batch<T, R>, fault?: Fault): void {
    const call = batch.call as BatchCall<T, R>;
    call.isStopping = true;
    call.fault ??= fault;
    this.effects.push(call);
    if (call.fault === undefined) call.tellEnd('cancelled');
  }

  overflowed(error: unknown): void {
    const { output } = this;
    if (output.overflowed) this.afterResults.push({ run: output.overflowed.bind(output, error) });
  }

  pause(pauseMs: number): void {
    // A pause of 0 would end one that another operator has asked for.
    if (pauseMs > 0) this.effects.push({ run: this.permits.penalize.bind(this.permits, pauseMs) });
  }

  // ---- what only the shell knows ------------------------------------------------------------------------------------

  windowMs(): number {
    const { config, machine, permits } = this;
    const { executing, concurrency, load } = permits;
    if (!config.window) return LONGEST_WINDOW_MS * load;
    const { fresh: queued, freshWeight: queuedWeight } = machine;
    try {
      return config.window({ executing, concurrency, load, queued, queuedWeight, oldestMs: oldestMs(machine) });
    } catch (fault) {
      this.output.failed(fault);
      return Infinity;
    }
  }

  deadlineError({ deadlineAt, acceptedAt }: Job<T, R>, now: number): unknown {
    return deadlinePassed(this.operator, deadlineAt - acceptedAt, now - acceptedAt);
  }

  overflowError(refused: Refusal): unknown {
    return overflowed(this.operator, refused);
  }

  timeoutError(): unknown {
    return new AttemptTimeoutError(this.operator, this.config.timeoutMs);
  }

  shapeError(expected: number, received: number, problem?: string): unknown {
    return new BatchShapeError(this.operator, expected, received, problem);
  }
}

function runAll(effects: Backlog<Effect>): void {
  while (effects.length > 0) effects.shift()?.run();
}

import type { OperatorFunction, Subscriber } from 'rxjs';
import { noop, Observable } from 'rxjs';
import type { AsyncContext } from '#async-context';
import { captureContext } from '#async-context';
import { ItemMachine } from '../kernel/machine/item-machine.js';
import type { KeyLane, LaneItem } from '../kernel/queues/key-lane.js';
import { Backlog, Chain, LONG_QUEUE, MAX_HELD } from '../kernel/queues/line.js';
import type { OrderedValues } from '../kernel/queues/ordered-values.js';
import { ask } from '../options/ask.js';
import { AttemptTimeoutError, DeadlineError, isFlowError, OverflowError } from '../options/errors.js';
import type { LanelessNote, Note } from '../options/events.js';
import { teller } from '../options/events.js';
import { DEFAULT_LANE } from '../options/lanes.js';
import { count } from '../options/options.js';
import type { Bidder, Permit, Permits, Place } from '../options/permits.js';
import type { Settled } from '../options/types.js';
import { Alarm } from './alarm.js';
import { settledOf } from './call.js';
import type { Handlers } from './connect.js';
import { connect } from './connect.js';
import type { ItemOwner } from './item-call.js';
import { ItemCall } from './item-call.js';
import type { ItemConfig } from './item-options.js';

/** Stands for a place while `enlist` is running. */
const ENLISTING: Place = { poke: noop, withdraw: noop };

/** The operator that does one piece of work per item. */
export function perItem<T, R>(config: ItemConfig<T, R>): OperatorFunction<T, Settled<T, R> | R> {
  return (source) =>
    new Observable((to) => {
      const shell = new ItemShell<T, R>(config, to);
      // When it has completed, its last value stays in force.
      if (config.concurrency$) connect(config.concurrency$, to, { next: shell.setConcurrency, error: shell.fail, complete: noop });
      connect(source, to, shell);
      shell.isSubscribing = false;
    });
}

/**
 * Takes items, starts their work as the machine decides and permits come, and emits its values.
 *
 * One loop starts everything and runs all side effects. These (events, results, releases, the end) wait in the order in which they came up, and run
 * before anything else starts. Whatever happens meanwhile (a consumer that feeds the source, a listener that leaves, an inner stream that completes at
 * once) changes state and makes the loop go round again, so nothing recurses and no callback sees half a change. Callbacks for an item (`key`,
 * `perKey`) are called before it counts; items that come meanwhile wait behind it.
 */
class ItemShell<T, R> implements Bidder, Handlers<T>, ItemOwner<T, R> {
  /** Items that come now belong to the context of the subscriber. */
  isSubscribing = true;
  // Copied from the options: they are read for each item, and V8 does not know the shape of an object made anew for each operator.
  readonly settles: boolean;
  private readonly permits: Permits | undefined;
  private readonly hasKeys: boolean;
  /** The clock is only read with a timeout, a deadline or a listener. */
  private readonly isTimed: boolean;
  private readonly machine: ItemMachine<T>;
  /** Running calls, in the order in which they started, and calls that can be used again. */
  private readonly calls = new Chain<ItemCall<T, R>>();
  private readonly idle: ItemCall<T, R>[] = [];
  private readonly alarm: Alarm;
  private readonly tellNow: ReturnType<typeof teller>;
  private readonly tell: ((note: LanelessNote) => void) | undefined;
  private readonly effects = new Backlog<() => void>();
  /** Puts results in order; only with an `order`. */
  private readonly ordered: OrderedValues<Settled<T, R> | R> | undefined;
  /** Items that came while a callback was running. */
  private readonly deferred: [item: T, context: AsyncContext][] = [];
  private context: AsyncContext | undefined = undefined;
  /** Its place in the queue for permits, and a permit that was granted and is not used yet. */
  private place: Place | undefined = undefined;
  private permit: Permit | undefined = undefined;
  private arrived = 0;
  private unsettled = 0;
  private isLong = false;
  private isRunning = false;
  private isBusy = false;
  private isInCallback = false;
  /** How the output is to end, once the source has. */
  private end: (() => void) | undefined = undefined;
  private isOver = false;

  constructor(
    readonly config: ItemConfig<T, R>,
    private readonly to: Subscriber<Settled<T, R> | R>,
  ) {
    const { operator, key, order, scheduler, permits, settles, timeoutMs, deadlineMs } = config;
    this.settles = settles;
    this.permits = permits;
    this.hasKeys = (key ?? order?.keyOf) !== undefined;
    this.machine = new ItemMachine(config);
    this.alarm = new Alarm(scheduler, () => {
      this.expire();
    });
    const say = (this.tellNow = teller(operator, config, () => this.alarm.now()));
    this.tell =
      say &&
      ((note) => {
        this.effects.push(() => {
          say({ lane: DEFAULT_LANE, ...note } as Note);
        });
      });
    this.isTimed = (say ?? Math.min(timeoutMs, deadlineMs)) !== Infinity;
    this.ordered = order?.values((value) => {
      this.emitLater(value);
    });
  }

  readonly setConcurrency = (concurrency: number): void => {
    try {
      this.machine.concurrency = count(this.config.operator, 'concurrency', concurrency);
      this.run();
    } catch (error) {
      this.fail(error);
    }
  };

  next(input: T): void {
    const { deferred } = this;
    if (this.isInCallback) {
      deferred.push([input, captureContext()]);
      return;
    }
    // With the first item, and so behind the link to the source, which is torn down before the inner streams, as in `mergeMap`.
    if (this.arrived === 0) this.stopWithConsumer();
    this.admit(input);
    if (deferred.length > 0) {
      // Grows while it is gone through, and is emptied when the consumer leaves.
      for (let at = 0; at < deferred.length; at++) this.admit(...(deferred[at] as (typeof deferred)[0]));
      deferred.length = 0;
    }
    // Behind others, or with no place free, one more item changes nothing yet.
    if (this.machine.free > 0 || this.effects.length > 0) this.run();
  }

  error(error: unknown): void {
    this.end = () => {
      this.fail(error);
    };
    if (this.config.drains) this.run();
    else this.end();
  }

  complete(): void {
    this.end = () => {
      this.to.complete();
    };
    this.run();
  }

  /** Calls the callbacks first: they may send items, leave, or end running work. */
  private admit(input: T, context?: AsyncContext): void {
    const { machine, ordered, permits } = this;
    let lane = machine.only;
    let key: unknown;
    let line: unknown;
    let limit = Infinity;
    let fault: { readonly error: unknown } | undefined;
    if (this.hasKeys) {
      const { operator, key: keyOf, limitOf, order } = this.config;
      this.isInCallback = true;
      try {
        if (order?.keyOf) line = ask(operator, 'key', order.keyOf, input);
        if (keyOf) {
          key = ask(operator, 'key', keyOf, input);
          lane = machine.find(key);
          // `limitOf` may have made the lane.
          if (lane === undefined) [limit, lane] = [limitOf(key), machine.find(key)];
        }
      } catch (error) {
        fault = { error };
      }
      this.isInCallback = false;
      if (this.isOver) return;
    }
    const index = this.arrived++;
    const at = this.now();
    this.unsettled++;
    this.tell?.({ type: 'accepted', seq: index, queued: machine.queued });
    ordered?.enter(index, line);
    fault ??= lane?.stopped;
    const places = permits ? Number(!(this.isBusy || this.place || this.permit)) : machine.free;
    let bound = fault ? undefined : machine.judge(lane, ordered?.held ?? 0, places);
    // With a bounded queue, an item needs no room only if there is a permit for it.
    if (!fault && machine.isNext && permits?.take && this.config.maxQueued !== Infinity && !(this.permit ??= permits.take()))
      bound = machine.judge(lane, ordered?.held ?? 0, 0);
    for (let lost = machine.lost.shift(); lost; lost = machine.lost.shift()) this.overflow(lost, 'maxQueued');
    if (fault ?? bound) {
      const item = { input, index, at };
      if (bound) this.overflow(item, bound);
      else this.reject(item, fault?.error);
      return;
    }
    // Work that starts inside this call runs in the sender's context anyway, unless permits or a listener can put it off.
    const waits = !machine.isNext || this.isBusy || permits !== undefined || this.tellNow !== undefined;
    machine.accept(lane ?? machine.open(key, limit), input, index, at, context ?? (waits ? this.contextNow() : undefined));
    if (this.isTimed) this.alarm.setBy(at + this.config.deadlineMs);
    if (this.tell === undefined || this.config.maxQueued !== Infinity) return;
    if (machine.queued >= LONG_QUEUE && !this.isLong) this.tell({ type: 'queueLong', queued: machine.queued });
    this.isLong = machine.queued >= LONG_QUEUE || (this.isLong && machine.queued > 1);
  }

  /** All items that come during `subscribe` share one context. */
  private contextNow(): AsyncContext {
    return this.isSubscribing ? (this.context ??= captureContext()) : captureContext();
  }

  private now(): number {
    return this.isTimed ? this.alarm.now() : 0;
  }

  /** Rejects the waiting items that the machine has given up. */
  private rejectLost(why: (item: LaneItem<T>) => unknown): void {
    for (let item = this.machine.lost.shift(); item; item = this.machine.lost.shift()) this.reject(item, why(item));
  }

  /** Drops an item by the overflow policy: a waiting one, or the new one. */
  private overflow(item: LaneItem<T>, bound: 'maxQueued' | 'maxKeys'): void {
    const { operator, overflow, [bound]: limit } = this.config;
    const error = new OverflowError(operator, limit, overflow, bound);
    this.tell?.({ type: 'dropped', seq: item.index, policy: overflow });
    this.settle(item.input, item.index, item.at, true, error, 0);
    if (overflow === 'error') this.failLater(error);
  }

  /** Rejects an item that was never started; with `errors: 'propagate'` the output fails instead. */
  private reject({ input, index, at }: LaneItem<T>, error: unknown): void {
    if (this.settles) this.settle(input, index, at, true, error, 0);
    else this.failLater(error);
  }

  // ---- the loop -----------------------------------------------------------------------------------------------------

  private run(): void {
    if (this.isBusy || this.isInCallback || this.isOver) return;
    this.isBusy = true;
    do this.runEffects();
    while (this.startNext());
    // Listeners called at the end start nothing more.
    const end = !(this.isOver as boolean) && this.machine.isEmpty ? this.end : undefined;
    if (end) {
      this.end = undefined;
      this.tellNow?.({ type: 'drained' });
    }
    this.isBusy = false;
    if (!(this.isOver as boolean)) end?.();
  }

  /** Runs all effects. Called from inside one of them, the rest runs after that one. */
  private runEffects(): void {
    if (this.isRunning || this.effects.length === 0) return;
    this.isRunning = true;
    this.runEffectsNow();
    this.isRunning = false;
  }

  /** The same at once, also from inside an effect: for what must be done before the caller returns. */
  private runEffectsNow(): void {
    for (let effect = this.effects.shift(); effect; effect = this.effects.shift()) effect();
  }

  /** Fails the output. Stops first, so that nothing the consumer does on the error starts more work. */
  readonly fail = (error: unknown): void => {
    this.stop();
    this.to.error(error);
  };

  private failLater(error: unknown): void {
    this.effects.push(() => {
      this.fail(error);
    });
  }

  /** Starts one item, or asks for its permit; false when there is nothing left to do. */
  private startNext(): boolean {
    if (this.isOver) return false;
    const lane = this.nextLane();
    const permit = lane && this.take();
    // The item that it was granted for has left.
    if (lane === undefined && this.permit) this.leavePermits();
    if (lane === undefined || (this.permits && permit === undefined)) return this.effects.length > 0;
    this.start(lane, permit);
    return true;
  }

  /** The lane whose item starts next. None when too many results are held and the item they wait for is already running. */
  private nextLane(): KeyLane<T> | undefined {
    const lane = this.machine.next();
    const { ordered } = this;
    if (lane === undefined || ordered === undefined || ordered.held < MAX_HELD || this.config.maxQueued !== Infinity) return lane;
    return ordered.isHeadStarted(lane.headIndex) ? undefined : lane;
  }

  private start(lane: KeyLane<T>, permit: Permit | undefined): void {
    const call = this.idle.pop() ?? new ItemCall<T, R>(this);
    // The sender's context, when the item had to wait.
    const context = lane.headNote as AsyncContext | undefined;
    call.take(lane, permit, this.now());
    call.input = this.machine.start(lane);
    this.calls.push(call);
    const { index } = call;
    this.ordered?.started(index);
    if (this.isTimed) this.alarm.setBy(call.startedAt + this.config.timeoutMs);
    if (this.tell) {
      this.tell({ type: 'attemptStarted', ...call.fields, weight: 1, splitDepth: 0, executing: this.machine.running });
      this.runEffects();
    }
    // Not when a listener has made the consumer leave.
    call.begin(context);
  }

  /** The permit for the next item; undefined while it is waited for, and where none is needed. */
  private take(): Permit | undefined {
    const { permits } = this;
    if (permits && this.place === undefined) this.permit ??= permits.take?.();
    if (permits && this.place === undefined && this.permit === undefined) {
      this.place = ENLISTING;
      const place = permits.enlist(this);
      // Granted or refused at once, there is no place to keep.
      if ((this.place as Place | undefined) === ENLISTING) this.place = place;
    }
    const { permit } = this;
    this.permit = undefined;
    return permit;
  }

  private leavePermits(): void {
    const { place, permit } = this;
    this.place = this.permit = undefined;
    place?.withdraw();
    permit?.release('unused');
  }

  bid(): number | undefined {
    if (!this.isOver && this.nextLane()) return 0;
    this.place = undefined;
    return undefined;
  }

  granted(permit: Permit): void {
    this.place = undefined;
    this.permit = permit;
    if (this.isOver) this.leavePermits();
    else this.run();
  }

  refused(error: unknown): void {
    this.place = undefined;
    if (this.isOver) return;
    this.machine.expire(Infinity);
    this.rejectLost(() => error);
    this.run();
  }

  // ---- calls --------------------------------------------------------------------------------------------------------

  /** An inner stream has a value that is handed on. */
  emitted({ index }: ItemCall<T, R>, value: R): void {
    if (this.isOver) return;
    if (this.ordered === undefined) {
      this.to.next(value);
      return;
    }
    this.ordered.push(index, value);
    // Inside the loop as well, or a synchronous inner stream without an end could never be stopped.
    if (this.isBusy) this.runEffects();
    else this.run();
  }

  /** The call is over before its result goes out: a consumer that leaves then aborts nothing. */
  ended(call: ItemCall<T, R>, failed: boolean, outcome: unknown, isEmpty = false): void {
    // The teardown of one inner stream may end another.
    if (this.isOver) return;
    const { input, index, at, permit } = call;
    const { isBusy, machine } = this;
    const lane = call.lane as KeyLane<T>;
    const reason: unknown = failed && this.config.stopped?.(outcome);
    if (this.tell) {
      const isLate = failed && (isFlowError(outcome, 'FLOW_ATTEMPT_TIMEOUT') || isFlowError(outcome, 'FLOW_DEADLINE'));
      this.tellEnd(call, isLate ? 'timeout' : failed ? 'failed' : 'ok');
    }
    if (failed && !this.settles) {
      call.lane = undefined;
      // The consumer gets the error first; the teardown then stops all inner streams, as in `mergeMap`.
      this.failLater(outcome);
      this.run();
      return;
    }
    machine.end(lane);
    if (reason) machine.stop(lane, reason);
    // Nobody hears of it before the rest of its key is refused.
    this.isBusy ||= Boolean(reason);
    this.calls.remove(call);
    if (call.recycle()) this.idle.push(call);
    this.settle(input as T, index, at, failed, outcome, 1, isEmpty);
    if (reason) this.rejectLost(() => reason);
    this.isBusy = isBusy;
    if (permit) {
      // After the result, so that the next item's result cannot overtake it.
      this.effects.push(() => {
        if (failed) permit.release('error', outcome);
        else permit.release('ok');
      });
      // The consumer has left on the result.
      if (this.isOver as boolean) this.runEffectsNow();
    }
    this.run();
  }

  private tellEnd(call: ItemCall<T, R>, outcome: 'ok' | 'failed' | 'timeout' | 'cancelled'): void {
    this.tell?.({ type: 'attemptEnded', ...call.fields, outcome, latencyMs: this.now() - call.startedAt });
  }

  private settle(input: T, index: number, at: number, failed: boolean, outcome: unknown, attempts: number, isEmpty = false): void {
    this.unsettled--;
    this.tell?.({ type: 'settled', seq: index, outcome: failed ? 'rejected' : 'fulfilled', attempts, totalMs: this.now() - at });
    if (this.settles) this.emit(index, settledOf<T, R>({ input, index, id: String(index), attempts }, failed, outcome), attempts === 0);
    else if (!failed && !isEmpty) this.emit(index, outcome as R);
    this.ordered?.close(index);
  }

  /** Emits a value, now or when its turn has come. That of an item that was not started waits until the state is whole. */
  private emit(index: number, value: Settled<T, R> | R, waits = false): void {
    if (this.ordered) this.ordered.push(index, value);
    else if (waits || this.isBusy || this.tellNow) this.emitLater(value);
    else {
      this.isBusy = true;
      this.to.next(value);
      this.isBusy = false;
    }
  }

  private emitLater(value: Settled<T, R> | R): void {
    this.effects.push(() => {
      this.to.next(value);
    });
  }

  /** Rejects the items and cancels the calls that have taken too long. */
  private expire(): void {
    const { operator, timeoutMs, deadlineMs } = this.config;
    const { machine } = this;
    const now = this.alarm.now();
    const late = (at: number): DeadlineError => new DeadlineError(operator, deadlineMs, now - at);
    this.isBusy = true;
    machine.expire(now);
    this.rejectLost((item) => {
      this.tell?.({ type: 'expired', seq: item.index, deadlineMs });
      return late(item.at);
    });
    this.eachCall((call) => {
      const { at, startedAt } = call;
      // The abort of one may have ended others.
      if (call.lane === undefined || this.isOver) return;
      if (!machine.isLate(at, now) && startedAt + timeoutMs > now) return;
      const error = machine.isLate(at, now) ? late(at) : new AttemptTimeoutError(operator, timeoutMs);
      call.stop();
      call.release('error', error);
      // A listener to the abort may have made the consumer leave.
      this.ended(call, true, error);
    });
    this.isBusy = false;
    this.run();
    if (this.isOver) return;
    // Set once: setting it per call would put the timer behind timers that the work has just set.
    let dueAt = machine.deadlineAt;
    for (let call = this.calls.first; call; call = call.next) dueAt = Math.min(dueAt, call.startedAt + timeoutMs, call.at + deadlineMs);
    this.alarm.set(dueAt);
  }

  /** Visits all calls, in the order in which they started. On a copy: a visit may end any of them. */
  private eachCall(look: (call: ItemCall<T, R>) => void): void {
    const all: ItemCall<T, R>[] = [];
    for (let call = this.calls.first; call; call = call.next) all.push(call);
    all.forEach(look);
  }

  private stop(): void {
    this.isOver = true;
    this.leavePermits();
    this.alarm.clear();
  }

  private stopWithConsumer(): void {
    this.to.add(() => {
      this.stop();
      this.ordered?.clear();
      this.deferred.length = 0;
      if (this.unsettled > 0) this.tell?.({ type: 'cancelled', count: this.unsettled });
      this.machine.clear();
      this.eachCall((call) => {
        if (call.lane) this.tellEnd(call, 'cancelled');
        call.cancel();
      });
      // Nobody gets results any more, but permits are released and events told.
      this.runEffectsNow();
    });
  }
}

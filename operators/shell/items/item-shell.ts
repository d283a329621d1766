import type { OperatorFunction, Subscriber } from 'rxjs';
import { noop, Observable } from 'rxjs';
import type { AsyncContext } from '#async-context';
import { captureContext } from '#async-context';
import { ItemMachine } from '../../kernel/machine/item-machine.js';
import type { KeyLane, LaneItem } from '../../kernel/queues/key-lane.js';
import { Backlog, Chain } from '../../kernel/queues/line.js';
import type { OrderedValues } from '../../kernel/queues/ordered-values.js';
import type { Refusal } from '../../kernel/waiting/bounds.js';
import { holdsTooMuch, isUnbounded } from '../../kernel/waiting/bounds.js';
import { isOver, LongMark } from '../../kernel/waiting/deadlines.js';
import { ask } from '../../options/ask.js';
import { AttemptTimeoutError, isFlowError } from '../../options/errors.js';
import type { LanelessNote, Note } from '../../options/events.js';
import { teller } from '../../options/events.js';
import { DEFAULT_LANE } from '../../options/lanes.js';
import type { Bidder, Permit, Permits, Place } from '../../options/permits.js';
import type { Settled } from '../../options/types.js';
import { deadlinePassed, overflowed } from '../../options/waiting-errors.js';
import { settledOf } from '../calls/call.js';
import { tearDown } from '../calls/report.js';
import type { Handlers } from '../streams/connect.js';
import { connect } from '../streams/connect.js';
import { Alarm } from '../time/alarm.js';
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
 * Everything that comes in (an item, the end of a call, a permit, the time) is a step. One step runs at a time, and changes the state before it calls
 * anybody; what comes in meanwhile (from a consumer that feeds the source, from a listener, from an inner stream that ends at once) runs after it, in a
 * loop, and so does the start of the next item. So nothing recurses, and no step sees half a change. Only leaving is not put off: after each call to the
 * outside, the rest of a step may find that all is over.
 */
class ItemShell<T, R> implements Bidder, Handlers<T>, ItemOwner<T, R> {
  /** Items that come now belong to the context of the subscriber. */
  isSubscribing = true;
  // Copied from the options: they are read for each item, and V8 does not know the shape of an object made anew for each operator.
  readonly settles: boolean;
  private readonly permits: Permits | undefined;
  /** The clock is only read with a timeout, a deadline or a listener. */
  private readonly isTimed: boolean;
  private readonly machine: ItemMachine<T>;
  /** Running calls, in the order in which they started, and calls that can be used again. */
  private readonly calls = new Chain<ItemCall<T, R>>();
  private readonly idle: ItemCall<T, R>[] = [];
  private readonly alarm: Alarm;
  private readonly tell: ((note: LanelessNote) => void) | undefined;
  /** Puts results in order; only with an `order`. */
  private readonly ordered: OrderedValues<Settled<T, R> | R> | undefined;
  /** Steps that came up during another one. */
  private readonly later = new Backlog<() => void>();
  private isBusy = false;
  private context: AsyncContext | undefined = undefined;
  /** Its place in the queue for permits, and a permit that was granted and is not used yet. */
  private place: Place | undefined = undefined;
  private permit: Permit | undefined = undefined;
  private arrived = 0;
  private unsettled = 0;
  /** Reports a long queue; only with a listener and without a bound. */
  private readonly longMark: LongMark | undefined;
  /** How the output is to end, once the source has. */
  private end: (() => void) | undefined = undefined;
  private isOver = false;

  constructor(
    readonly config: ItemConfig<T, R>,
    private readonly to: Subscriber<Settled<T, R> | R>,
  ) {
    const { operator, order, scheduler, permits, settles, timeoutMs, deadlineMs, bounds } = config;
    this.settles = settles;
    this.permits = permits;
    this.machine = new ItemMachine(config);
    this.alarm = new Alarm(scheduler, () => {
      this.step(this.expire);
    });
    const say = teller(operator, config, () => this.alarm.now());
    this.tell =
      say &&
      ((note) => {
        if (!this.isOver || note.type === 'cancelled' || note.type === 'attemptEnded') say({ lane: DEFAULT_LANE, ...note } as Note);
      });
    this.longMark = say && isUnbounded(bounds) ? new LongMark() : undefined;
    this.isTimed = (say ?? Math.min(timeoutMs, deadlineMs)) !== Infinity;
    this.ordered = order?.values((value) => {
      to.next(value);
    });
  }

  readonly setConcurrency = (concurrency: number): void => {
    this.machine.concurrency = concurrency;
    this.step();
  };

  next(input: T): void {
    if (this.isBusy) {
      const context = captureContext();
      this.later.push(() => {
        this.admit(input, context);
      });
      return;
    }
    this.isBusy = true;
    this.admit(input, undefined);
    this.goOn();
  }

  error(error: unknown): void {
    this.end = () => {
      this.fail(error);
    };
    if (this.config.drains) this.step();
    else this.end();
  }

  complete(): void {
    this.end = () => {
      this.to.complete();
    };
    this.step();
  }

  /** Fails the output. Stops first, so that nothing the consumer does on the error starts more work. */
  readonly fail = (error: unknown): void => {
    this.stop();
    this.to.error(error);
  };

  // ---- the loop -----------------------------------------------------------------------------------------------------

  private step(run: () => void = noop): void {
    if (this.isBusy) {
      this.later.push(run);
    } else if (!this.isOver) {
      this.isBusy = true;
      run();
      this.goOn();
    }
  }

  /** After a step: runs those that came up meanwhile, and starts what can start. */
  private goOn(): void {
    do for (let step = this.later.shift(); step; step = this.later.shift()) if (!this.isOver) step();
    while (this.startNext());
    const { end } = this;
    if (end && this.machine.isEmpty) {
      this.end = undefined;
      this.tell?.({ type: 'drained' });
      if (!this.isOver) end();
    }
    this.isBusy = false;
  }

  /** Starts one item, or asks for its permit; false when there is nothing left to do. */
  private startNext(): boolean {
    if (this.isOver) return false;
    const lane = this.nextLane();
    const permit = lane && this.permits && this.take(this.permits);
    // The item that it was granted for has left.
    if (lane === undefined && this.permit) this.leavePermits();
    if (lane === undefined || (this.permits && permit === undefined)) return this.later.length > 0;
    this.start(lane, permit);
    return true;
  }

  /** The lane whose item starts next. None when too many results are held and the item they wait for is already running. */
  private nextLane(): KeyLane<T> | undefined {
    const lane = this.machine.next();
    const { ordered } = this;
    const { bounds } = this.config;
    if (lane === undefined || ordered === undefined || !isUnbounded(bounds) || !holdsTooMuch(bounds, ordered.held)) return lane;
    return ordered.isHeadStarted(lane.headIndex) ? undefined : lane;
  }

  // ---- items --------------------------------------------------------------------------------------------------------

  /** An item comes in. Its callbacks are asked before it counts. */
  private admit(input: T, context: AsyncContext | undefined): void {
    const { machine, ordered, permits, tell } = this;
    const { operator, key: keyOf, limitOf, order, deadlineMs } = this.config;
    // With the first item, and so behind the link to the source, which is torn down before the inner streams, as in `mergeMap`.
    if (this.arrived === 0) this.stopWithConsumer();
    let lane = machine.only;
    let key: unknown;
    let line: unknown;
    let limit = Infinity;
    let fault: { readonly error: unknown } | undefined;
    try {
      if (order?.keyOf) line = ask(operator, 'key', order.keyOf, input);
      if (keyOf) {
        key = ask(operator, 'key', keyOf, input);
        lane = machine.find(key);
        if (lane === undefined) limit = limitOf(key);
      }
    } catch (error) {
      fault = { error };
    }
    if (this.isOver) return;
    const index = this.arrived++;
    const at = this.now();
    this.unsettled++;
    ordered?.enter(index, line);
    tell?.({ type: 'accepted', seq: index, queued: machine.queued });
    if (this.isOver as boolean) return;
    fault ??= lane?.stopped;
    if (fault) {
      this.reject({ input, index, at }, fault.error);
      return;
    }
    const held = ordered?.held ?? 0;
    const isNext = machine.isNext(lane, held);
    const refused = machine.refusal(lane, held);
    // What can start now needs no room, but a key of its own.
    const isFull = refused !== undefined && (refused.bound === 'maxKeys' || !(isNext && this.hasPlace()));
    const evicted = isFull ? machine.evictable(lane, refused) : undefined;
    if (isFull && evicted === undefined) {
      this.evict({ input, index, at }, refused);
      return;
    }
    // Work that starts inside this call runs in the sender's context anyway, unless permits or a listener can put it off.
    if (!isNext || permits || tell) context ??= this.contextNow();
    machine.accept(lane ?? machine.open(key, limit), input, index, at, context);
    if (this.isTimed) this.alarm.setBy(at + deadlineMs);
    if (evicted) for (let { count } = evicted; count > 0; count--) this.evict(machine.drop(evicted.line), refused as Refusal);
    if (this.longMark?.isReachedAt(machine.queued)) tell?.({ type: 'queueLong', queued: machine.queued });
  }

  /** All items that come during `subscribe` share one context. */
  private contextNow(): AsyncContext {
    return this.isSubscribing ? (this.context ??= captureContext()) : captureContext();
  }

  private now(): number {
    return this.isTimed ? this.alarm.now() : 0;
  }

  /** Drops an item by the overflow policy: a waiting one, or the new one. */
  private evict(item: LaneItem<T>, refused: Refusal): void {
    const { policy } = refused;
    const error = overflowed(this.config.operator, refused);
    this.tell?.({ type: 'dropped', seq: item.index, policy });
    this.settle(item, true, error, 0);
    if (policy === 'error') this.fail(error);
  }

  /** Rejects an item that was never started; with `errors: 'propagate'` the output fails instead. */
  private reject(item: LaneItem<T>, error: unknown): void {
    if (this.settles) this.settle(item, true, error, 0);
    else this.fail(error);
  }

  /** Rejects what waits in a lane. */
  private rejectAll(lane: KeyLane<T>, error: unknown): void {
    while (lane.length > 0) this.reject(this.machine.drop(lane), error);
  }

  private settle(item: LaneItem<T>, failed: boolean, outcome: unknown, attempts: number, isEmpty = false): void {
    const { index, input, at } = item;
    const { settles, ordered, to } = this;
    this.unsettled--;
    this.tell?.({ type: 'settled', seq: index, outcome: failed ? 'rejected' : 'fulfilled', attempts, totalMs: this.now() - at });
    if (this.isOver) return;
    if (settles || (!failed && !isEmpty)) {
      const value = settles ? settledOf<T, R>({ input, index, id: String(index), attempts }, failed, outcome) : (outcome as R);
      if (ordered) ordered.push(index, value);
      else to.next(value);
    }
    if (!(this.isOver as boolean)) ordered?.close(index);
  }

  // ---- permits ------------------------------------------------------------------------------------------------------

  /** Whether an item can start that is next: with permits of others, when there is one for it. */
  private hasPlace(): boolean {
    if (this.permits === undefined) return true;
    if (this.place || this.permit) return false;
    this.permit = this.permits.take?.();
    return this.permit !== undefined;
  }

  /** The permit for the next item; undefined while it is waited for. */
  private take(permits: Permits): Permit | undefined {
    if (this.place === undefined && (this.permit ??= permits.take?.()) === undefined) {
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
    else this.step();
  }

  refused(error: unknown): void {
    this.place = undefined;
    this.step(() => {
      for (const lane of this.machine.lanes.values()) this.rejectAll(lane, error);
    });
  }

  // ---- calls --------------------------------------------------------------------------------------------------------

  private start(lane: KeyLane<T>, permit: Permit | undefined): void {
    const { machine } = this;
    const call = this.idle.pop() ?? new ItemCall<T, R>(this);
    const context = lane.headNote as AsyncContext | undefined;
    call.take(lane, permit, this.now());
    call.input = machine.start(lane);
    this.calls.push(call);
    this.ordered?.started(call.index);
    if (this.isTimed) this.alarm.setBy(call.startedAt + this.config.timeoutMs);
    this.tell?.({ type: 'attemptStarted', ...fieldsOf(call), weight: 1, splitDepth: 0, executing: machine.running });
    // Not when a listener has made the consumer leave.
    call.begin(context);
  }

  /** An inner stream has a value that is handed on. */
  emitted({ index }: ItemCall<T, R>, value: R): void {
    if (this.isOver) return;
    if (this.ordered) this.ordered.push(index, value);
    else this.to.next(value);
  }

  ended(call: ItemCall<T, R>, failed: boolean, outcome: unknown, isEmpty = false): void {
    if (this.isBusy) {
      this.later.push(() => {
        this.finish(call, failed, outcome, isEmpty);
      });
    } else if (!this.isOver) {
      this.isBusy = true;
      this.finish(call, failed, outcome, isEmpty);
      this.goOn();
    }
  }

  /** The call is over before its result goes out: a consumer that leaves then aborts nothing. */
  private finish(call: ItemCall<T, R>, failed: boolean, outcome: unknown, isEmpty: boolean): void {
    const lane = call.lane as KeyLane<T>;
    // From now on nobody tells its end.
    call.lane = undefined;
    if (this.tell) {
      const isLate = failed && (isFlowError(outcome, 'FLOW_ATTEMPT_TIMEOUT') || isFlowError(outcome, 'FLOW_DEADLINE'));
      this.tellEnd(call, isLate ? 'timeout' : failed ? 'failed' : 'ok');
    }
    if (failed && !this.settles) {
      // The consumer gets the error first; the teardown then stops all inner streams in turn, as in `mergeMap`.
      this.fail(outcome);
      return;
    }
    const reason: unknown = failed && this.config.stopped?.(outcome);
    this.calls.remove(call);
    this.machine.end(lane, reason ? { error: reason } : undefined);
    this.settle(call, failed, outcome, 1, isEmpty);
    if (reason) this.rejectAll(lane, reason);
    // After the result, so that the next item's result cannot overtake it.
    if (failed) call.release('error', outcome);
    else call.release();
    if (call.recycle()) this.idle.push(call);
  }

  private tellEnd(call: ItemCall<T, R>, outcome: 'ok' | 'failed' | 'timeout' | 'cancelled'): void {
    this.tell?.({ type: 'attemptEnded', ...fieldsOf(call), outcome, latencyMs: this.now() - call.startedAt });
  }

  // ---- the end ------------------------------------------------------------------------------------------------------

  /** Cancels the calls and rejects the items that have taken too long. */
  private readonly expire = (): void => {
    const { operator, timeoutMs, deadlineMs } = this.config;
    const now = this.alarm.now();
    let dueAt = Infinity;
    const errorAt = (at: number, startedAt: number): Error | undefined => {
      if (isOver(at + deadlineMs, now)) return deadlinePassed(operator, deadlineMs, now - at);
      if (isOver(startedAt + timeoutMs, now)) return new AttemptTimeoutError(operator, timeoutMs);
      dueAt = Math.min(dueAt, at + deadlineMs, startedAt + timeoutMs);
      return undefined;
    };
    const late: [ItemCall<T, R>, Error][] = [];
    for (let call = this.calls.first; call; call = call.next) {
      const error = errorAt(call.at, call.startedAt);
      if (error) late.push([call, error]);
    }
    // All are stopped before anybody hears of it. The abort of one may end others by themselves, or make the consumer leave.
    const stopped = late.filter(([call, error]) => {
      if (!call.isOpen) return false;
      call.stop();
      call.release('error', error);
      return true;
    });
    for (const lane of this.machine.lanes.values()) {
      while (lane.length > 0) {
        const error = errorAt(lane.headAt, Infinity);
        if (error === undefined) break;
        this.tell?.({ type: 'expired', seq: lane.headIndex, deadlineMs });
        this.reject(this.machine.drop(lane), error);
      }
    }
    for (const [call, error] of stopped) if (!this.isOver) this.finish(call, true, error, false);
    if (!this.isOver) this.alarm.set(dueAt);
  };

  private stop(): void {
    this.isOver = true;
    this.leavePermits();
    this.alarm.clear();
  }

  private stopWithConsumer(): void {
    this.to.add(() => {
      // At an end of its own, what a teardown throws has no other way than to be reported.
      if (this.isOver) this.cleanUp();
      else tearDown(this.cleanUp.bind(this));
    });
  }

  private cleanUp(): void {
    this.stop();
    this.later.clear();
    this.ordered?.clear();
    if (this.unsettled > 0) this.tell?.({ type: 'cancelled', count: this.unsettled });
    this.machine.clear();
    for (let call = this.calls.first; call; call = call.next) {
      if (call.lane) this.tellEnd(call, 'cancelled');
      call.cancel();
    }
  }
}

/** What events say of a call: it has one item and is not repeated. */
function fieldsOf({ index }: LaneItem<unknown>) {
  return { seq: index, batchId: String(index), size: 1, attempt: 1 };
}

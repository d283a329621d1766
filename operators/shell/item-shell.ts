import type { Observable, ObservableInput, Subscriber } from 'rxjs';
import type { AsyncContext } from '#async-context';
import { captureContext } from '#async-context';
import { ItemMachine } from '../kernel/machine/item-machine.js';
import type { Linked } from '../kernel/queues/chain.js';
import { Chain } from '../kernel/queues/chain.js';
import type { KeyLane, Lost } from '../kernel/queues/key-lane.js';
import { Rotation } from '../kernel/queues/keyed-lanes.js';
import type { OrderedValues } from '../kernel/queues/ordered-values.js';
import { ask } from '../options/ask.js';
import { AttemptTimeoutError, DeadlineError, OverflowError } from '../options/errors.js';
import { teller } from '../options/events.js';
import { count } from '../options/options.js';
import type { Bidder, Permit, Permits, Place } from '../options/permits.js';
import type { ItemContext, Settled, WorkResult } from '../options/types.js';
import { Alarm } from './alarm.js';
import type { Handlers } from './connect.js';
import { connect } from './connect.js';
import type { ItemOwner } from './item-call.js';
import { ItemCall } from './item-call.js';
import type { ItemConfig } from './item-options.js';
import { ItemReports } from './item-reports.js';

/** Without a `maxQueued`, so many results wait for an earlier one at most: then nothing starts that would have to wait as well. */
const MOST_HELD = 1000;

/** An item that was sent in the middle of a callback. */
interface Caller<T> {
  readonly item: T;
  readonly context: AsyncContext;
}

/** A permit of work that is over. */
interface Spent extends Linked<Spent> {
  readonly permit: Permit;
  readonly failure: { readonly error: unknown } | undefined;
}

/** One subscription of an operator that does one piece of work per item. */
export function runItems<T, R>(config: ItemConfig<T, R>, source: Observable<T>, to: Subscriber<Settled<T, R> | R>): void {
  const shell = new ItemShell<T, R>(config, to);
  if (config.concurrency$) {
    connect(config.concurrency$, to, {
      next: (concurrency) => {
        shell.setConcurrency(concurrency);
      },
      error: (error) => {
        shell.fail(error);
      },
      // The last value stays in force.
      complete: () => undefined,
    });
  }
  shell.subscribing(() => {
    connect(source, to, shell);
  });
}

/**
 * Takes items, starts their work as the machine says and permits come, and hands on what it says.
 *
 * One loop starts everything and tells everybody. Whatever happens while it runs (a consumer that feeds the source, a listener that leaves, an
 * inner stream that completes at once) changes state and lets the loop come round again, so nothing recurses and nobody is called
 * while the state is half changed. Callbacks that judge an item (`key`, `priority`, `perKey`) are asked before it counts; what is sent
 * meanwhile waits at the door, behind it.
 */
class ItemShell<T, R> implements Bidder, Handlers<T>, ItemOwner<T, R> {
  readonly settles: boolean;
  private readonly config: ItemConfig<T, R>;
  private readonly to: Subscriber<Settled<T, R> | R>;
  private readonly machine: ItemMachine<T>;
  /** Calls under way, in the order in which they started. */
  private readonly running = new Chain<ItemCall<T, R>>();
  private readonly idle: ItemCall<T, R>[] = [];
  private readonly alarm: Alarm;
  private readonly reports: ItemReports | undefined;
  /** What is to be handed out now. */
  private readonly outbox: (Settled<T, R> | R)[] = [];
  /** Puts that in order, where it is asked for. */
  private readonly ordered: OrderedValues<Settled<T, R> | R> | undefined;
  private readonly spent = new Chain<Spent>();
  private readonly door: Caller<T>[] = [];
  /** Of all items that are sent while the source is being subscribed to. */
  private context: AsyncContext | undefined = undefined;
  private isSubscribing = false;
  /** Whether callbacks are asked about items. */
  private readonly isAsking: boolean;
  private place: Place | undefined = undefined;
  private isEnlisting = false;
  private arrived = 0;
  private isBusy = false;
  private isJudging = false;
  /** Whether there is anything to hand out, to give back or to fail with. */
  private isNews = false;
  private isHandingOut = false;
  private isFinishing = false;
  private isFinished = false;
  private isOver = false;
  /** Ends the output when what is to go out has gone. */
  private failure: { readonly error: unknown } | undefined = undefined;
  private sourceFailure: { readonly error: unknown } | undefined = undefined;

  constructor(config: ItemConfig<T, R>, to: Subscriber<Settled<T, R> | R>) {
    const { fairness, key, order, overflow, maxQueued } = config;
    this.config = config;
    this.to = to;
    this.settles = config.settles;
    this.isAsking = (key ?? fairness?.levelOf ?? order?.keyOf) !== undefined;
    const turns = fairness ? fairness.turns<T>(overflow === 'dropLowest') : new Rotation<T>();
    this.machine = new ItemMachine({ ...config, turns, isKeyed: key !== undefined });
    this.alarm = new Alarm(config.scheduler, () => {
      this.expire();
    });
    const tell = teller(config.operator, config, () => this.alarm.now());
    this.reports = tell && new ItemReports(tell, this.alarm, maxQueued !== Infinity);
    this.ordered = order?.values((value) => {
      this.putOut(value);
    });
  }

  setConcurrency(concurrency: number): void {
    try {
      this.machine.concurrency = count(this.config.operator, 'concurrency', concurrency);
      this.run();
    } catch (error) {
      this.fail(error);
    }
  }

  /** What is sent meanwhile is of whoever subscribes. */
  subscribing(subscribe: () => void): void {
    this.isSubscribing = true;
    subscribe();
    this.isSubscribing = false;
    this.context = undefined;
  }

  // ---- the source ---------------------------------------------------------------------------------------------------

  next(item: T): void {
    if (this.isJudging) {
      this.door.push({ item, context: captureContext() });
      return;
    }
    // With the first item, and so behind the link to the source, which is torn down before the inner streams, as in `mergeMap`.
    if (this.arrived === 0) this.stopWithConsumer();
    if (this.isAsking) this.ask(item);
    else this.admit(item, this.arrived++, undefined, this.machine.find(undefined), 0, Infinity, undefined);
    // Behind others, or with no place free, one more item changes nothing yet.
    if (this.machine.free > 0 || this.hasNews()) this.run();
  }

  error(error: unknown): void {
    if (!this.config.drains) {
      this.fail(error);
      return;
    }
    this.sourceFailure = { error };
    this.complete();
  }

  complete(): void {
    this.isFinishing = true;
    this.run();
  }

  private ask(item: T): void {
    const { door } = this;
    this.judge(item, undefined);
    // Grows while it is gone through, and is emptied when the consumer leaves.
    for (let at = 0; at < door.length; at++) {
      const { item: next, context } = door[at] as Caller<T>;
      this.judge(next, context);
    }
    door.length = 0;
  }

  /** Everything that is asked of callbacks comes first: they may send, leave, or end work that is under way. */
  private judge(item: T, context: AsyncContext | undefined): void {
    const { key: keyOf, operator, fairness, limitOf, order } = this.config;
    const index = this.arrived++;
    let key: unknown;
    let lane: KeyLane<T> | undefined;
    let level = 0;
    let limit = Infinity;
    let line: unknown;
    this.isJudging = true;
    try {
      if (fairness?.levelOf) level = fairness.levelOf(operator, item);
      if (order?.keyOf) line = ask(operator, 'key', order.keyOf, item);
      if (keyOf) {
        key = ask(operator, 'key', keyOf, item);
        lane = this.machine.find(key);
        if (lane === undefined) limit = limitOf(key);
      }
    } catch (error) {
      this.isJudging = false;
      if (this.isOver) return;
      this.arrive(index, line);
      this.refuse(item, index, error);
      return;
    }
    this.isJudging = false;
    // Asking for the limit may have ended or begun what the key had.
    if (lane === undefined) lane = this.machine.find(key);
    this.admit(item, index, key, lane, level, limit, context, line);
  }

  private arrive(index: number, line: unknown): void {
    this.reports?.accepted(index, this.machine.queued);
    this.ordered?.enter(index, line);
  }

  private admit(
    item: T,
    index: number,
    key: unknown,
    lane: KeyLane<T> | undefined,
    level: number,
    limit: number,
    context: AsyncContext | undefined,
    line?: unknown,
  ): void {
    if (this.isOver) return;
    const { machine, reports, ordered } = this;
    const { permits, deadlineMs } = this.config;
    this.arrive(index, line);
    const places = permits === undefined ? machine.free : this.isBusy || this.place ? 0 : 1;
    const refusal = machine.judge(key, lane, level, ordered === undefined ? 0 : ordered.held, places);
    if (machine.lost.length > 0) this.makeWay();
    if (refusal === 'stopped') {
      this.refuse(item, index, machine.whyStopped(key));
    } else if (refusal !== undefined) {
      this.overflow(item, index, refusal);
    } else {
      // What starts inside this very call is in its sender's context, unless permits or a listener can put it off.
      const waits = !machine.isNext || this.isBusy || permits !== undefined || reports !== undefined;
      machine.accept(lane ?? machine.open(key, limit), item, index, level, context ?? (waits ? this.contextNow() : undefined));
      reports?.queued(machine.queued);
      if (deadlineMs === Infinity) return;
      const now = this.alarm.now();
      machine.arrived(index, now);
      this.alarm.setBy(now + deadlineMs);
    }
  }

  /** Not where items are admitted: a function in there would be made for each. */
  private makeWay(): void {
    this.giveUpLost(({ item, index }) => {
      this.overflow(item, index, 'maxQueued');
    });
  }

  private contextNow(): AsyncContext {
    if (!this.isSubscribing) return captureContext();
    return (this.context ??= captureContext());
  }

  /** Those that waited and go without their turn. */
  private refuseLost(error: unknown): void {
    this.giveUpLost(({ item, index }) => {
      this.refuse(item, index, error);
    });
  }

  private giveUpLost(giveUp: (lost: Lost<T>) => void): void {
    for (const lost of this.machine.lost.splice(0)) giveUp(lost);
  }

  /** Gives up an item that waits, or came too late to. */
  private overflow(item: T, index: number, bound: 'maxQueued' | 'maxKeys'): void {
    const { operator, overflow, [bound]: limit } = this.config;
    const error = new OverflowError(operator, limit, overflow, bound);
    this.reports?.dropped(index, overflow);
    if (this.settles) this.reject(item, index, error, 0);
    else this.pass(index, 'rejected', 0);
    if (overflow === 'error') this.failWith(error);
  }

  /** Rejects an item that is not even tried; an error of the output where there are no rejections. */
  private refuse(item: T, index: number, error: unknown): void {
    if (this.settles) this.reject(item, index, error, 0);
    else this.failWith(error);
  }

  // ---- the loop -----------------------------------------------------------------------------------------------------

  private run(): void {
    if (this.isBusy || this.isJudging || this.isOver) return;
    this.isBusy = true;
    do if (this.hasNews()) this.deliver();
    while (this.startNext());
    this.isBusy = false;
    if (this.isFinishing && this.machine.isEmpty) this.finish();
  }

  private finish(): void {
    if (this.isOver || this.isFinished) return;
    this.isFinished = true;
    this.reports?.drained();
    this.tell();
    if (this.sourceFailure) this.fail(this.sourceFailure.error);
    else this.to.complete();
  }

  /** The end of the output. The consumer hears of it before it is gone: whatever it does then starts nothing more. */
  fail(error: unknown): void {
    this.stop();
    this.to.error(error);
  }

  private hasNews(): boolean {
    return this.isNews || this.reports?.hasNews === true;
  }

  /** Hands out results first, then frees permits: a result is never overtaken by the next item's. */
  private deliver(): void {
    this.isNews = false;
    this.tell();
    this.handOut();
    if (this.failure) this.fail(this.failure.error);
    this.releaseSpent();
  }

  private handOut(): void {
    if (this.isHandingOut) return;
    this.isHandingOut = true;
    const { outbox } = this;
    // Emptied when the consumer leaves.
    for (let at = 0; at < outbox.length; at++) this.to.next(outbox[at] as R);
    outbox.length = 0;
    this.isHandingOut = false;
  }

  /** Gives back the permit that has waited longest, if there is one. */
  private releaseSpent(): void {
    const spent = this.spent.first;
    if (spent === undefined) return;
    this.spent.delete(spent);
    if (this.spent.length > 0) this.isNews = true;
    if (spent.failure) spent.permit.release('error', spent.failure.error);
    else spent.permit.release();
  }

  /** Whatever listeners do is for the loop to go on with. */
  private tell(): void {
    if (this.reports === undefined) return;
    const isOutermost = !this.isBusy;
    this.isBusy = true;
    this.reports.tell();
    if (isOutermost) this.isBusy = false;
  }

  /** Starts one item, or asks for its permit; false when there is nothing left to do. */
  private startNext(): boolean {
    if (this.isOver) return false;
    if (this.hasNews()) return true;
    if (this.place !== undefined) return false;
    const lane = this.nextLane();
    if (lane === undefined) return false;
    const { permits } = this.config;
    const permit = permits?.take?.();
    if (permits && permit === undefined) this.enlist(permits);
    else this.start(lane, permit);
    return true;
  }

  /** Not when so many results are held back that the item would only add its own: what they wait for is under way. */
  private nextLane(): KeyLane<T> | undefined {
    const lane = this.machine.next();
    const { ordered } = this;
    if (lane === undefined || ordered === undefined || ordered.held < MOST_HELD || this.config.maxQueued !== Infinity) return lane;
    return ordered.isHeadStarted(lane.headIndex) ? undefined : lane;
  }

  private start(lane: KeyLane<T>, permit: Permit | undefined): void {
    const { timeoutMs } = this.config;
    const index = lane.headIndex;
    // In which it was sent, when it had to wait.
    const context = lane.headNote as AsyncContext | undefined;
    const call = this.idle.pop() ?? new ItemCall<T, R>(this);
    call.take(lane, this.machine.start(lane), index, permit);
    this.running.add(call);
    this.ordered?.started(index);
    if (timeoutMs !== Infinity) {
      call.expiresAt = this.alarm.now() + timeoutMs;
      this.alarm.setBy(call.expiresAt);
    }
    if (this.reports) {
      this.reports.started(index, this.running.length);
      this.tell();
    }
    // Not when a listener has made the consumer leave.
    call.begin(context);
  }

  // ---- what calls say -----------------------------------------------------------------------------------------------

  project(item: T, context: ItemContext): WorkResult<R> | ObservableInput<R> {
    return this.config.project(item, context);
  }

  /** An inner stream has a value that is handed on. */
  emitted(index: number, value: R): void {
    if (this.isOver) return;
    if (this.ordered === undefined) {
      this.to.next(value);
      return;
    }
    this.ordered.push(index, value);
    // Inside the loop as well, or an inner stream that emits at once for ever would never be left.
    if (this.isBusy) this.handOut();
    else this.run();
  }

  /** Its place is free before the result goes out: whoever leaves then has nothing to abort. */
  done(call: ItemCall<T, R>, value: R, isEmpty: boolean): void {
    // The teardown of one inner stream may end another.
    if (this.isOver) return;
    const { index } = call;
    const item = call.item as T;
    this.reports?.ended(index, 'ok');
    this.free(call, undefined);
    if (this.settles) this.emit(index, { status: 'fulfilled', value, input: item, index, id: String(index), attempts: 1 });
    else if (!isEmpty) this.emit(index, value);
    this.pass(index, 'fulfilled', 1);
    this.run();
  }

  failed(call: ItemCall<T, R>, error: unknown): void {
    if (this.isOver) return;
    const { index, lane } = call;
    this.reports?.failed(index, error);
    if (!this.settles) {
      this.tell();
      // The consumer hears of it first; its leaving tears down the inner streams, this one included, as in `mergeMap`.
      this.fail(error);
      return;
    }
    const { stopped } = this.config;
    const item = call.item as T;
    this.free(call, { error });
    this.reject(item, index, error, 1);
    if (stopped) {
      const reason = stopped(error);
      this.machine.stop(lane as KeyLane<T>, reason);
      this.refuseLost(reason);
    }
    this.run();
  }

  private reject(input: T, index: number, reason: unknown, attempts: number): void {
    this.emit(index, { status: 'rejected', reason, input, index, id: String(index), attempts });
    this.pass(index, 'rejected', attempts);
  }

  /** On its way out, or waiting for its turn. */
  private emit(index: number, value: Settled<T, R> | R): void {
    if (this.ordered) {
      this.ordered.push(index, value);
    } else if (this.isBusy || this.reports) {
      this.putOut(value);
    } else {
      this.isBusy = true;
      this.to.next(value);
      this.isBusy = false;
    }
  }

  private putOut(value: Settled<T, R> | R): void {
    this.outbox.push(value);
    this.isNews = true;
  }

  /** Ends the output when what is to go out has gone. */
  private failWith(error: unknown): void {
    this.failure ??= { error };
    this.isNews = true;
  }

  /** An item is over. */
  private pass(index: number, outcome: 'fulfilled' | 'rejected', attempts: number): void {
    this.reports?.settled(index, outcome, attempts);
    this.ordered?.close(index);
  }

  /** A place is free; the permit goes back once the result is out. */
  private free(call: ItemCall<T, R>, failure: { readonly error: unknown } | undefined): void {
    const { permit, lane } = call;
    if (permit) {
      call.permit = undefined;
      this.spent.add({ permit, failure, previous: undefined, next: undefined });
      this.isNews = true;
    }
    this.running.delete(call);
    this.machine.end(lane as KeyLane<T>);
    if (call.isFree()) this.idle.push(call);
  }

  // ---- time ---------------------------------------------------------------------------------------------------------

  /** Gives up what has taken too long. */
  private expire(): void {
    const { operator, timeoutMs, deadlineMs } = this.config;
    const { machine, alarm } = this;
    const now = alarm.now();
    const elapsedMs = now - machine.deadlineAt + deadlineMs;
    const late = (): DeadlineError => new DeadlineError(operator, deadlineMs, elapsedMs);
    const calls: ItemCall<T, R>[] = this.underWay();
    this.isBusy = true;
    const below = machine.expire(now);
    this.giveUpLost(({ item, index }) => {
      this.reports?.expired(index, deadlineMs);
      this.refuse(item, index, late());
    });
    for (const call of calls) {
      if (call.index < below) this.cut(call, late());
      else if (call.expiresAt <= now) this.cut(call, new AttemptTimeoutError(operator, timeoutMs));
    }
    this.isBusy = false;
    this.run();
    // All have the same time, so the call that started first is due first.
    if (!this.isOver) alarm.set(Math.min(this.running.first?.expiresAt ?? Infinity, machine.deadlineAt));
  }

  private cut(call: ItemCall<T, R>, error: unknown): void {
    if (this.isOver || call.lane === undefined) return;
    call.stop();
    call.release('error', error);
    // A listener to the abort may have made the consumer leave.
    this.failed(call, error);
  }

  /** A copy: whoever looks at them ends them. */
  private underWay(): ItemCall<T, R>[] {
    const calls: ItemCall<T, R>[] = [];
    for (let call = this.running.first; call; call = call.next) calls.push(call);
    return calls;
  }

  // ---- permits ------------------------------------------------------------------------------------------------------

  private enlist(permits: Permits): void {
    this.isEnlisting = true;
    const place = permits.enlist(this);
    // Granted or refused at once, there is no place to keep.
    if (this.isEnlisting as boolean) this.place = place;
    this.isEnlisting = false;
  }

  bid(): number | undefined {
    if (!this.isOver && this.nextLane()) return 0;
    this.place = undefined;
    return undefined;
  }

  granted(permit: Permit): void {
    this.leaveQueue();
    const lane = this.isOver ? undefined : this.machine.next();
    const isOutermost = !this.isBusy;
    this.isBusy = true;
    if (lane) this.start(lane, permit);
    else permit.release('unused');
    if (isOutermost) this.isBusy = false;
    this.run();
  }

  refused(error: unknown): void {
    this.leaveQueue();
    if (this.isOver) return;
    this.machine.refuseAll();
    this.refuseLost(error);
    this.run();
  }

  private leaveQueue(): void {
    this.place = undefined;
    this.isEnlisting = false;
  }

  // ---- leaving ------------------------------------------------------------------------------------------------------

  private stop(): void {
    this.isOver = true;
    this.place?.withdraw();
    this.place = undefined;
    this.alarm.clear();
  }

  private stopWithConsumer(): void {
    this.to.add(() => {
      this.stop();
      this.outbox.length = 0;
      this.ordered?.clear();
      this.door.length = 0;
      this.reports?.left();
      this.machine.clear();
      while (this.spent.length > 0) this.releaseSpent();
      for (const call of this.underWay()) call.cancel();
      this.reports?.tell();
    });
  }
}

import type { Observable, ObservableInput, Subscriber } from 'rxjs';
import type { AsyncContext } from '#async-context';
import { captureContext } from '#async-context';
import { ItemMachine } from '../kernel/machine/item-machine.js';
import type { KeyLane, Lost } from '../kernel/queues/key-lane.js';
import type { OrderedValues } from '../kernel/queues/ordered-values.js';
import { AttemptTimeoutError, DeadlineError, OverflowError } from '../options/errors.js';
import type { Note } from '../options/events.js';
import { teller } from '../options/events.js';
import { count } from '../options/options.js';
import type { Outcome, Permit } from '../options/permits.js';
import type { ItemContext, Settled, WorkResult } from '../options/types.js';
import { Alarm } from './alarm.js';
import type { Wanting } from './bidding.js';
import { Bidding } from './bidding.js';
import type { Handlers } from './connect.js';
import { connect } from './connect.js';
import type { ItemOwner } from './item-call.js';
import { ItemCall } from './item-call.js';
import { ItemJudge } from './item-judge.js';
import type { ItemConfig } from './item-options.js';
import { ItemReports } from './item-reports.js';
import { News } from './news.js';

/** Without a `maxQueued`, so many results wait for an earlier one at most: then nothing starts that would have to wait as well. */
const MOST_HELD = 1000;

/** An item that was sent in the middle of a callback. */
interface Caller<T> {
  readonly item: T;
  readonly context: AsyncContext;
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
  shell.isSubscribing = true;
  connect(source, to, shell);
  shell.isSubscribing = false;
}

/**
 * Takes items, starts their work as the machine says and permits come, and hands on what it says.
 *
 * One loop starts everything and tells everybody: what is to be told (events, results, permits that go back, the end) waits in the order in which
 * it happened, and is told before anything else starts. Whatever happens meanwhile (a consumer that feeds the source, a listener that leaves, an inner
 * stream that completes at once) changes state and lets the loop come round again, so nothing recurses and nobody is called while the state is half
 * changed. Callbacks that judge an item (`key`, `priority`, `perKey`) are asked before it counts; what is sent meanwhile waits at the door, behind it.
 */
class ItemShell<T, R> implements Wanting, Handlers<T>, ItemOwner<T, R> {
  readonly settles: boolean;
  /** What is sent now is of whoever subscribes. */
  isSubscribing = false;
  private readonly config: ItemConfig<T, R>;
  private readonly to: Subscriber<Settled<T, R> | R>;
  private readonly machine: ItemMachine<T>;
  /** Those under way, as many as the machine says, and behind them those that are used again. */
  private readonly calls: (ItemCall<T, R> | undefined)[] = [];
  private readonly alarm: Alarm;
  private readonly reports: ItemReports | undefined;
  private readonly news = new News();
  /** Puts results in order, where it is asked for. */
  private readonly ordered: OrderedValues<Settled<T, R> | R> | undefined;
  private readonly door: Caller<T>[] = [];
  private context: AsyncContext | undefined = undefined;
  private readonly judged: ItemJudge<T>;
  private readonly bidding: Bidding | undefined;
  private arrived = 0;
  private started = 0;
  private isBusy = false;
  private isJudging = false;
  /** How the source has ended, and then the output is to. */
  private end: (() => void) | undefined = undefined;
  private isOver = false;

  constructor(config: ItemConfig<T, R>, to: Subscriber<Settled<T, R> | R>) {
    const { operator, key, order, maxQueued, permits } = config;
    this.config = config;
    this.to = to;
    this.settles = config.settles;
    this.machine = new ItemMachine({ ...config, isKeyed: key !== undefined });
    this.bidding = permits && new Bidding(permits, this);
    this.judged = new ItemJudge(config as ItemConfig<T, never>, this.machine);
    this.alarm = new Alarm(config.scheduler, () => {
      this.expire();
    });
    const now = (): number => this.alarm.now();
    const tell = teller(operator, config, now);
    if (tell) {
      const tellLater = (note: Note): void => {
        this.news.add(() => {
          tell(note);
        });
      };
      this.reports = new ItemReports(tellLater, now, maxQueued !== Infinity);
    }
    this.ordered = order?.values((value) => {
      this.emitLater(value);
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

  next(item: T): void {
    if (this.isJudging) {
      this.door.push({ item, context: captureContext() });
      return;
    }
    // With the first item, and so behind the link to the source, which is torn down before the inner streams, as in `mergeMap`.
    if (this.arrived === 0) this.stopWithConsumer();
    if (this.judged.isAsking) this.letIn(item);
    else this.admit(item, undefined);
    // Behind others, or with no place free, one more item changes nothing yet.
    if (this.machine.free > 0 || this.news.length > 0) this.run();
  }

  error(error: unknown): void {
    const fail = (): void => {
      this.fail(error);
    };
    if (this.config.drains) this.endWith(fail);
    else fail();
  }

  complete(): void {
    this.endWith(() => {
      this.to.complete();
    });
  }

  private endWith(end: () => void): void {
    this.end = end;
    this.run();
  }

  /** What callbacks send comes behind the item they were asked about. */
  private letIn(item: T): void {
    const { door } = this;
    this.judge(item, undefined);
    // Emptying an array is no small thing, and it nearly always is.
    if (door.length === 0) return;
    // Grows while it is gone through, and is emptied when the consumer leaves.
    for (let at = 0; at < door.length; at++) {
      const caller = door[at] as Caller<T>;
      this.judge(caller.item, caller.context);
    }
    door.length = 0;
  }

  /** Everything that is asked of callbacks comes first: they may send, leave, or end work that is under way. */
  private judge(item: T, context: AsyncContext | undefined): void {
    this.isJudging = true;
    this.judged.judge(item);
    this.isJudging = false;
    if (!this.isOver) this.admit(item, context);
  }

  private admit(item: T, context: AsyncContext | undefined): void {
    const { machine, reports, ordered, bidding } = this;
    const { deadlineMs } = this.config;
    const { key, lane, limit, line, failure } = this.judged;
    const index = this.arrived++;
    reports?.accepted(index, machine.queued);
    ordered?.enter(index, line);
    if (failure) {
      this.refuse(item, index, failure.error);
      return;
    }
    const places = bidding === undefined ? machine.free : this.isBusy || bidding.isWaiting ? 0 : 1;
    const refusal = machine.judge(key, lane, ordered === undefined ? 0 : ordered.held, places);
    if (machine.lost.length > 0) this.makeWay();
    if (refusal === 'stopped') {
      this.refuse(item, index, machine.whyStopped(key));
    } else if (refusal) {
      this.overflow(item, index, refusal);
    } else {
      // What starts inside this very call is in its sender's context, unless permits or a listener can put it off.
      const waits = !machine.isNext || this.isBusy || bidding !== undefined || reports !== undefined;
      machine.accept(lane ?? machine.open(key, limit), item, index, context ?? (waits ? this.contextNow() : undefined));
      reports?.queued(machine.queued);
      if (deadlineMs === Infinity) return;
      const now = this.alarm.now();
      machine.arrived(index, now);
      this.alarm.setBy(now + deadlineMs);
    }
  }

  /** One for all that come while the source is being subscribed to. */
  private contextNow(): AsyncContext {
    if (!this.isSubscribing) return captureContext();
    return (this.context ??= captureContext());
  }

  /** Not where items are admitted: a function in there would be made for each. */
  private makeWay(): void {
    this.giveUpLost(({ item, index }) => {
      this.overflow(item, index, 'maxQueued');
    });
  }

  private refuseLost(error: unknown): void {
    this.giveUpLost(({ item, index }) => {
      this.refuse(item, index, error);
    });
  }

  /** Those that waited and go without their turn. */
  private giveUpLost(giveUp: (lost: Lost<T>) => void): void {
    for (const lost of this.machine.lost.splice(0)) giveUp(lost);
  }

  /** Gives up an item that waits, or came too late to. */
  private overflow(item: T, index: number, bound: 'maxQueued' | 'maxKeys'): void {
    const { operator, overflow, [bound]: limit } = this.config;
    const error = new OverflowError(operator, limit, overflow, bound);
    this.reports?.dropped(index, overflow);
    this.reject(item, index, error, 0);
    if (overflow === 'error') this.failLater(error);
  }

  /** Rejects an item that is not even tried; an error of the output where there are no rejections. */
  private refuse(item: T, index: number, error: unknown): void {
    if (this.settles) this.reject(item, index, error, 0);
    else this.failLater(error);
  }

  // ---- the loop -----------------------------------------------------------------------------------------------------

  private run(): void {
    if (this.isBusy || this.isJudging || this.isOver) return;
    this.isBusy = true;
    do this.news.tell();
    while (this.startNext());
    this.isBusy = false;
    if (this.end && !(this.isOver as boolean) && this.machine.isEmpty) this.finish(this.end);
  }

  private finish(end: () => void): void {
    this.end = undefined;
    // Whatever listeners do starts nothing more.
    this.isBusy = true;
    this.reports?.drained();
    this.news.tell();
    this.isBusy = false;
    if (!this.isOver) end();
  }

  /** The end of the output. The consumer hears of it before it is gone: whatever it does then starts nothing more. */
  fail(error: unknown): void {
    this.stop();
    this.to.error(error);
  }

  private failLater(error: unknown): void {
    this.news.add(() => {
      this.fail(error);
    });
  }

  /** Starts one item, or asks for its permit; false when there is nothing left to do. */
  private startNext(): boolean {
    if (this.isOver) return false;
    const { bidding } = this;
    const lane = this.nextLane();
    if (lane === undefined) {
      // Granted for what is gone.
      if (bidding?.isGranted) bidding.leave();
      return this.news.length > 0;
    }
    const permit = bidding?.take();
    if (bidding && permit === undefined) return this.news.length > 0;
    this.start(lane, permit);
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
    const place = this.machine.running;
    const call = (this.calls[place] ??= new ItemCall<T, R>(this));
    call.startedAs = this.started++;
    call.take(place, lane, this.machine.start(lane), index, permit);
    this.ordered?.started(index);
    if (timeoutMs !== Infinity) {
      call.expiresAt = this.alarm.now() + timeoutMs;
      this.alarm.setBy(call.expiresAt);
    }
    if (this.reports) {
      this.reports.started(index, this.machine.running);
      this.news.tell();
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
    if (this.isBusy) this.news.tell();
    else this.run();
  }

  /** Its place is free before the result goes out: whoever leaves then has nothing to abort. */
  done(call: ItemCall<T, R>, value: R, isEmpty: boolean): void {
    // The teardown of one inner stream may end another.
    if (this.isOver) return;
    const { index, permit } = call;
    const item = call.item as T;
    this.reports?.ended(index, 'ok');
    this.free(call);
    this.reports?.settled(index, 'fulfilled', 1);
    if (this.settles) this.emit(index, { status: 'fulfilled', value, input: item, index, id: String(index), attempts: 1 });
    else if (!isEmpty) this.emit(index, value);
    this.ordered?.close(index);
    if (permit) this.releaseLater(permit, 'ok');
    this.run();
  }

  failed(call: ItemCall<T, R>, error: unknown): void {
    if (this.isOver) return;
    const { index, lane, permit } = call;
    this.reports?.failed(index, error);
    if (!this.settles) {
      // The consumer hears of it first; its leaving tears down the inner streams, this one included, as in `mergeMap`.
      this.failLater(error);
      this.run();
      return;
    }
    const { stopped } = this.config;
    const item = call.item as T;
    this.free(call);
    this.reject(item, index, error, 1);
    if (stopped) {
      const reason = stopped(error);
      this.machine.stop(lane as KeyLane<T>, reason);
      this.refuseLost(reason);
    }
    if (permit) this.releaseLater(permit, 'error', error);
    this.run();
  }

  private reject(input: T, index: number, reason: unknown, attempts: number): void {
    this.reports?.settled(index, 'rejected', attempts);
    if (this.settles) this.emit(index, { status: 'rejected', reason, input, index, id: String(index), attempts });
    this.ordered?.close(index);
  }

  /** On its way out, or waiting for its turn. */
  private emit(index: number, value: Settled<T, R> | R): void {
    if (this.ordered) this.ordered.push(index, value);
    else if (this.isBusy || this.reports) this.emitLater(value);
    else {
      this.isBusy = true;
      this.to.next(value);
      this.isBusy = false;
    }
  }

  private emitLater(value: Settled<T, R> | R): void {
    this.news.add(() => {
      this.to.next(value);
    });
  }

  /** A place is free. */
  private free(call: ItemCall<T, R>): void {
    const { calls, machine } = this;
    const { place } = call;
    call.permit = undefined;
    machine.end(call.lane as KeyLane<T>);
    const last = calls[machine.running] as ItemCall<T, R>;
    calls[place] = last;
    last.place = place;
    calls[machine.running] = call.isFree() ? call : undefined;
  }

  /** A result is never overtaken by that of the next item. */
  private releaseLater(permit: Permit, outcome: Outcome, error?: unknown): void {
    this.news.add(() => {
      permit.release(outcome, error);
    });
    // Whoever heard of the result has left.
    if (this.isOver) this.news.tellNow();
  }

  /** Gives up what has taken too long. */
  private expire(): void {
    const { operator, timeoutMs, deadlineMs } = this.config;
    const { machine, alarm } = this;
    const now = alarm.now();
    const elapsedMs = now - machine.deadlineAt + deadlineMs;
    const late = (): DeadlineError => new DeadlineError(operator, deadlineMs, elapsedMs);
    this.isBusy = true;
    const below = machine.expire(now);
    this.giveUpLost(({ item, index }) => {
      this.reports?.expired(index, deadlineMs);
      this.refuse(item, index, late());
    });
    for (const call of this.underWay()) {
      if (call.index < below) this.cut(call, late());
      else if (call.expiresAt <= now) this.cut(call, new AttemptTimeoutError(operator, timeoutMs));
    }
    this.isBusy = false;
    this.run();
    // All have the same time, so the call that started first is due first.
    if (!this.isOver) alarm.set(Math.min(this.underWay()[0]?.expiresAt ?? Infinity, machine.deadlineAt));
  }

  private cut(call: ItemCall<T, R>, error: unknown): void {
    if (this.isOver || call.lane === undefined) return;
    call.stop();
    call.release('error', error);
    // A listener to the abort may have made the consumer leave.
    this.failed(call, error);
  }

  /** In the order in which they started. A copy: whoever looks at them ends them. */
  private underWay(): ItemCall<T, R>[] {
    const calls = this.calls.slice(0, this.machine.running) as ItemCall<T, R>[];
    return calls.sort((a, b) => a.startedAs - b.startedAs);
  }

  isWanting(): boolean {
    return !this.isOver && this.nextLane() !== undefined;
  }

  permitted(): void {
    if (this.isOver) this.bidding?.leave();
    else this.run();
  }

  refused(error: unknown): void {
    if (this.isOver) return;
    this.machine.refuseAll();
    this.refuseLost(error);
    this.run();
  }

  private stop(): void {
    this.isOver = true;
    this.bidding?.leave();
    this.alarm.clear();
  }

  private stopWithConsumer(): void {
    this.to.add(() => {
      this.stop();
      this.ordered?.clear();
      this.door.length = 0;
      this.reports?.left();
      this.machine.clear();
      for (const call of this.underWay()) call.cancel();
      // Results are not heard any more; permits go back, and events are told.
      this.news.tellNow();
    });
  }
}

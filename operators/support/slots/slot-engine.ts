import type { Observable, ObservableInput, Subscriber } from 'rxjs';
import { from } from 'rxjs';
import type { AsyncContext } from '#async-context';
import { captureContext } from '#async-context';
import { Chain } from '../../kernel/queues/chain.js';
import type { KeyLane } from '../../kernel/queues/keyed-lanes.js';
import { KeyedLanes } from '../../kernel/queues/keyed-lanes.js';
import { Ring } from '../../kernel/queues/ring.js';
import { ask } from '../../options/ask.js';
import { AttemptTimeoutError, KeyStoppedError, OverflowError } from '../../options/errors.js';
import type { ItemContext, Settled } from '../../options/types.js';
import { Alarm } from '../../shell/alarm.js';
import type { Handlers } from '../../shell/connect.js';
import { isPromise, onlyOnce, streamOf } from '../../shell/work.js';
import type { Bidder, Lease, Place } from '../limiting/limiter-types.js';
import { SpentLeases } from '../limiting/spent-leases.js';
import { Slot } from './slot.js';
import type { SlotConfig } from './slot-options.js';
import { SlotOutput } from './slot-output.js';
import { SlotReports } from './slot-reports.js';

/** The key of everything when there is no `key`. */
const NO_KEY = undefined;

/** An item that was sent in the middle of a callback. */
interface Caller<T> {
  readonly item: T;
  readonly context: AsyncContext;
}

/**
 * The engine behind the operators that run one piece of work per item: accepts items under their keys, starts them as slots, keys and
 * permits allow, and hands on what they say.
 *
 * One loop starts everything and tells everybody. Whatever happens while it runs (a sink that feeds the source, a listener that leaves, an
 * inner stream that completes at once) changes state and lets the loop come round again, so nothing recurses and nobody is called
 * while the state is half changed. Callbacks that judge an item (`key`, `priority`, `perKey`) are asked before it counts; what is sent
 * meanwhile waits at the door, behind it.
 */
export class SlotEngine<T, R> implements Bidder, Handlers<T> {
  readonly #config: SlotConfig<T, R>;
  readonly #to: Subscriber<Settled<T, R> | R>;
  readonly #lanes: KeyedLanes<T>;
  readonly #only: KeyLane<T> | undefined;
  /** Keys that have failed under `onError: 'stopKey'`, and why. */
  readonly #stopped: Map<unknown, unknown> | undefined;
  /** Slots under way, in the order in which they started. */
  readonly #running = new Chain<Slot<T, R>>();
  readonly #idle: Slot<T, R>[] = [];
  readonly #alarm: Alarm;
  readonly #out: SlotOutput<T, R>;
  readonly #reports: SlotReports | undefined;
  /** Leases of work that is over. */
  readonly #spent = new SpentLeases();
  readonly #door = new Ring<Caller<T>>();
  #concurrency: number;
  #place: Place | undefined;
  #enlisting = false;
  #accepted = 0;
  #alarmIsSet = false;
  #busy = false;
  #judging = false;
  #finishing = false;
  #finished = false;
  #over = false;
  /** Ends the output when what is in the outbox has gone out. */
  #failure: { readonly error: unknown } | undefined;
  #sourceFailure: { readonly error: unknown } | undefined;

  constructor(config: SlotConfig<T, R>, to: Subscriber<Settled<T, R> | R>) {
    this.#config = config;
    this.#to = to;
    this.#concurrency = config.concurrency;
    this.#lanes = new KeyedLanes(config.fairness, config.overflow === 'dropLowest');
    if (config.key === undefined) {
      this.#only = this.#lanes.open(NO_KEY, config.limitOf(NO_KEY));
      this.#only.stays = true;
    }
    if (config.onError === 'stopKey') this.#stopped = new Map();
    this.#alarm = new Alarm(config.scheduler, () => {
      this.#expire();
    });
    if (config.onEvent) this.#reports = new SlotReports(config.operator, config.onEvent, this.#alarm, config.maxQueued !== Infinity);
    this.#out = new SlotOutput(config, to, this.#reports);
  }

  setConcurrency(concurrency: number): void {
    this.#concurrency = concurrency;
    this.#run();
  }

  // ---- the source ---------------------------------------------------------------------------------------------------

  next(item: T): void {
    if (this.#judging) {
      this.#door.push({ item, context: captureContext() });
      return;
    }
    // With the first item, and so behind the link to the source, which is torn down before the inner streams, as in `mergeMap`.
    if (this.#accepted === 0) this.#stopWithConsumer();
    this.#admit(item, undefined);
    for (let caller = this.#door.shift(); caller; caller = this.#door.shift()) this.#admit(caller.item, caller.context);
    // Behind others, or with no slot free, one more item changes nothing yet.
    if (this.#running.length < this.#concurrency || this.#hasNews()) this.#run();
  }

  error(error: unknown): void {
    if (!this.#config.drains) {
      this.fail(error);
      return;
    }
    this.#sourceFailure = { error };
    this.complete();
  }

  complete(): void {
    this.#finishing = true;
    this.#run();
  }

  /** Everything that is asked of callbacks comes first: they may send, leave, or end work that is under way. */
  #admit(item: T, context: AsyncContext | undefined): void {
    const { key: keyOf, operator, priority, limitOf, maxKeys, overflow } = this.#config;
    const index = this.#accepted++;
    let key: unknown = NO_KEY;
    let level = 0;
    let lane = this.#only;
    let limit = Infinity;
    let failure: { readonly error: unknown } | undefined;
    this.#judging = true;
    try {
      if (priority) level = priority(item);
      if (keyOf) {
        key = ask(operator, 'key', keyOf, item);
        lane = this.#lanes.find(key);
        if (lane === undefined) limit = limitOf(key);
      }
    } catch (error) {
      failure = { error };
    }
    this.#judging = false;
    if (this.#over) return;
    this.#reports?.accepted(index, this.#lanes.queued);
    this.#out.enter(index, failure ? NO_KEY : key);
    if (failure) this.#refuse(item, index, failure.error);
    else if (this.#stopped?.has(key)) this.#refuse(item, index, new KeyStoppedError(operator, this.#stopped.get(key)));
    else if (lane === undefined && this.#isFullOfKeys()) this.#drop(item, index, new OverflowError(operator, maxKeys, overflow, 'maxKeys'));
    else this.#accept(lane ?? this.#lanes.open(key, limit), item, index, level, context);
  }

  #isFullOfKeys(): boolean {
    return this.#lanes.size + (this.#stopped?.size ?? 0) >= this.#config.maxKeys;
  }

  #accept(lane: KeyLane<T>, item: T, index: number, level: number, context: AsyncContext | undefined): void {
    const { held } = this.#out;
    const atOnce = this.#goesAtOnce(lane, held);
    if (this.#lanes.queued + held < this.#config.maxQueued || atOnce || this.#makeRoom(lane, item, index, level)) {
      // What starts inside this very call is in its sender's context, unless a limiter or a listener can put it off.
      const waits = !atOnce || this.#busy || this.#config.limiter !== undefined || this.#reports !== undefined;
      this.#lanes.push(lane, item, index, level, waits ? (context ?? captureContext()) : context);
      this.#reports?.queued(this.#lanes.queued);
    } else {
      this.#lanes.forget(lane);
    }
  }

  /** Applies the overflow policy for one more item; false when the newcomer is the one to go. */
  #makeRoom(lane: KeyLane<T>, item: T, index: number, level: number): boolean {
    const { operator, maxQueued, overflow } = this.#config;
    const error = new OverflowError(operator, maxQueued, overflow);
    if (this.#makeWay(lane, level, error)) return true;
    this.#drop(item, index, error);
    return false;
  }

  /** Whether an item of this lane would start now, so that it needs no room to wait in. */
  #goesAtOnce(lane: KeyLane<T>, held: number): boolean {
    if (held > 0 && held >= this.#config.maxQueued) return false;
    if (lane.running + lane.length >= lane.limit) return false;
    // In the middle of something those that wait have not had their turn yet.
    const ahead = this.#lanes.next() === undefined ? 0 : this.#lanes.queued;
    if (this.#config.limiter) return ahead === 0 && !this.#busy && this.#place === undefined;
    return this.#running.length + ahead < this.#concurrency;
  }

  /** Drops others for a newcomer: of its own key where some wait, else of the key with the longest queue, which fills the room. */
  #makeWay(lane: KeyLane<T>, level: number, error: OverflowError): boolean {
    const { overflow } = this.#config;
    if (overflow === 'dropLowest') {
      const lowest = this.#lanes.dropLowest(level);
      if (lowest === undefined) return false;
      this.#drop(lowest.item, lowest.index, error);
      // That of the newcomer is needed.
      if (lowest.lane !== lane) this.#lanes.forget(lowest.lane);
      return true;
    }
    if (overflow !== 'dropOldest' && overflow !== 'latest') return false;
    const full = lane.length > 0 ? lane : this.#lanes.longest();
    if (full === undefined) return false;
    do this.#dropFirst(full, error);
    while (overflow === 'latest' && full === lane && lane.length > 0);
    if (full !== lane) this.#lanes.forget(full);
    return true;
  }

  #dropFirst(lane: KeyLane<T>, error: OverflowError): void {
    const index = lane.headIndex as number;
    this.#drop(this.#lanes.drop(lane), index, error);
  }

  /** Gives up an item that waits, or came too late to. */
  #drop(item: T, index: number, error: OverflowError): void {
    this.#reports?.dropped(error.policy);
    if (this.#config.settles) this.#out.reject(item, index, error, 0);
    else this.#out.pass(index, 'rejected', 0);
    if (error.policy === 'error') this.#failure ??= { error };
  }

  /** Rejects an item that is not even tried; an error of the output where there are no rejections. */
  #refuse(item: T, index: number, error: unknown): void {
    if (this.#config.settles) this.#out.reject(item, index, error, 0);
    else this.#failure ??= { error };
  }

  // ---- the loop -----------------------------------------------------------------------------------------------------

  #run(): void {
    if (this.#busy || this.#judging || this.#over) return;
    this.#busy = true;
    do if (this.#hasNews()) this.#deliver();
    while (this.#startNext());
    this.#busy = false;
    if (this.#finishing && this.#running.length === 0 && this.#lanes.queued === 0) this.#finish();
  }

  #finish(): void {
    if (this.#over || this.#finished) return;
    this.#finished = true;
    this.#reports?.drained();
    this.#tell();
    if (this.#sourceFailure) this.fail(this.#sourceFailure.error);
    else this.#to.complete();
  }

  /** The end of the output. The consumer hears of it before it is gone: whatever it does then starts nothing more. */
  fail(error: unknown): void {
    this.#stop();
    this.#to.error(error);
  }

  #hasNews(): boolean {
    return this.#out.length > 0 || this.#spent.length > 0 || this.#failure !== undefined || this.#reports?.hasNews === true;
  }

  /** Hands out results first, then frees permits: a result is never overtaken by the next item's. */
  #deliver(): void {
    this.#tell();
    this.#out.handOut();
    if (this.#failure) this.fail(this.#failure.error);
    this.#spent.release();
  }

  /** Whatever listeners do is for the loop to go on with. */
  #tell(): void {
    if (this.#reports === undefined) return;
    const outermost = !this.#busy;
    this.#busy = true;
    this.#reports.tell();
    if (outermost) this.#busy = false;
  }

  /** Starts one item, or asks for its permit; false when there is nothing left to do. */
  #startNext(): boolean {
    if (this.#over) return false;
    if (this.#hasNews()) return true;
    if (this.#running.length >= this.#concurrency || this.#place !== undefined) return false;
    const lane = this.#lanes.next();
    if (lane === undefined || this.#out.isHeldUp(lane.key)) return false;
    if (this.#config.limiter) this.#enlist(this.#config.limiter);
    else this.#start(lane, undefined);
    return true;
  }

  #start(lane: KeyLane<T>, lease: Lease | undefined): void {
    const { timeoutMs } = this.#config;
    const index = lane.headIndex as number;
    // In which it was sent, when it had to wait.
    const context = lane.headNote as AsyncContext | undefined;
    const item = this.#lanes.take(lane);
    const slot = this.#idle.pop() ?? new Slot<T, R>(this);
    const call = slot.begin(lane, item, index, lease);
    this.#running.add(slot);
    this.#out.started(index);
    if (timeoutMs !== Infinity) this.#setTimeout(slot, timeoutMs);
    this.#reports?.started(index, this.#running.length);
    this.#tell();
    // A listener may have made the consumer leave.
    if (!slot.isTaken) return;
    if (context === undefined) {
      this.#perform(slot, item, call);
      return;
    }
    context.run(() => {
      this.#perform(slot, item, call);
    }, undefined);
  }

  #perform(slot: Slot<T, R>, item: T, call: ItemContext): void {
    const { project, settles } = this.#config;
    let stream: Observable<R> | undefined;
    let answer: unknown;
    try {
      answer = project(item, call);
      if (isPromise(answer)) {
        slot.follow(onlyOnce(answer) as Promise<R>);
        return;
      }
      stream = streamOf(answer);
      // Every value is handed on as RxJS would.
      if (stream === undefined && !settles) stream = from(answer as ObservableInput<R>);
    } catch (error) {
      this.failed(slot, error);
      return;
    }
    // `project` itself may have made the consumer leave.
    if (!slot.isTaken) return;
    if (stream) slot.subscribeTo(stream);
    else this.resolved(slot, answer as R);
  }

  // ---- what slots report --------------------------------------------------------------------------------------------

  /** An inner stream has a value. */
  emitted(slot: Slot<T, R>, value: R): void {
    if (this.#over) return;
    if (this.#config.settles) slot.value = value;
    else if (!this.#out.value(slot.index, value)) this.#to.next(value);
    // Inside the loop as well, or an inner stream that emits at once for ever would never be left.
    else if (this.#busy) this.#out.handOut();
    else this.#run();
  }

  /** A promise has its value: the only one, and its end. The slot is free before it goes out: whoever leaves then has nothing to abort. */
  resolved(slot: Slot<T, R>, value: R): void {
    if (this.#over) return;
    const { item, index } = slot;
    this.#succeed(slot);
    if (this.#config.settles) this.#out.fulfil(item as T, index, value);
    else this.#out.last(index, value);
    this.#run();
  }

  completed(slot: Slot<T, R>): void {
    // The teardown of one inner stream may end another.
    if (this.#over) return;
    const { item, index, value } = slot;
    this.#succeed(slot);
    if (this.#config.settles) this.#out.fulfil(item as T, index, value as R);
    else this.#out.pass(index, 'fulfilled', 1);
    this.#run();
  }

  failed(slot: Slot<T, R>, error: unknown): void {
    if (this.#over) return;
    slot.failure = { error };
    this.#reports?.failed(slot.index, error);
    if (!this.#config.settles) {
      slot.hasEnded = true;
      this.#tell();
      // The consumer hears of it first; its leaving tears down the inner streams, this one included, as in `mergeMap`.
      this.fail(error);
      return;
    }
    slot.leave();
    // A teardown may have made the consumer leave.
    if (!slot.isTaken) return;
    const { item, index, lane } = slot;
    this.#free(slot);
    this.#out.reject(item as T, index, error, 1);
    if (this.#config.onError === 'error') this.#failure ??= { error };
    if (this.#stopped) this.#stopKey(this.#stopped, lane as KeyLane<T>, error);
    this.#run();
  }

  #succeed(slot: Slot<T, R>): void {
    this.#reports?.ended(slot.index, 'ok');
    this.#free(slot);
  }

  /** A slot is free; its lease goes back once the result is out. */
  #free(slot: Slot<T, R>): void {
    if (slot.lease) this.#spent.push(slot.lease, slot.failure);
    this.#running.delete(slot);
    this.#lanes.end(slot.lane as KeyLane<T>);
    slot.end();
    if (slot.isReusable) this.#idle.push(slot);
  }

  #stopKey(stopped: Map<unknown, unknown>, lane: KeyLane<T>, cause: unknown): void {
    stopped.set(lane.key, cause);
    this.#refuseAll(lane, () => new KeyStoppedError(this.#config.operator, cause));
  }

  #refuseAll(lane: KeyLane<T>, errorFor: () => unknown): void {
    while (lane.length > 0) {
      const index = lane.headIndex as number;
      this.#refuse(this.#lanes.drop(lane), index, errorFor());
    }
    this.#lanes.forget(lane);
  }

  // ---- time ---------------------------------------------------------------------------------------------------------

  /** All have the same time, so the one that started first is due first. */
  #setTimeout(slot: Slot<T, R>, timeoutMs: number): void {
    slot.expiresAt = this.#alarm.now() + timeoutMs;
    if (this.#alarmIsSet) return;
    this.#alarmIsSet = true;
    this.#alarm.set(slot.expiresAt);
  }

  #expire(): void {
    const { operator, timeoutMs } = this.#config;
    const now = this.#alarm.now();
    this.#alarmIsSet = false;
    for (let slot = this.#running.first; slot && slot.expiresAt <= now && !this.#over; slot = this.#running.first) {
      const error = new AttemptTimeoutError(operator, timeoutMs);
      slot.failure = { error };
      slot.letGo();
      if (slot.isTaken) this.failed(slot, error);
    }
    const { first } = this.#running;
    if (this.#over || !first) return;
    this.#alarmIsSet = true;
    this.#alarm.set(first.expiresAt);
  }

  // ---- the limiter --------------------------------------------------------------------------------------------------

  #enlist(limiter: NonNullable<SlotConfig<T, R>['limiter']>): void {
    this.#enlisting = true;
    const place = limiter.enlist(this);
    // Granted or refused at once, there is no place to keep.
    if (this.#enlisting as boolean) this.#place = place;
    this.#enlisting = false;
  }

  bid(): number | undefined {
    const lane = this.#over ? undefined : this.#lanes.next();
    if (lane && !this.#out.isHeldUp(lane.key)) return 0;
    this.#place = undefined;
    return undefined;
  }

  granted(lease: Lease): void {
    this.#place = undefined;
    this.#enlisting = false;
    const lane = this.#over ? undefined : this.#lanes.next();
    const outermost = !this.#busy;
    this.#busy = true;
    if (lane) this.#start(lane, lease);
    else lease.release('unused');
    if (outermost) this.#busy = false;
    this.#run();
  }

  refused(error: unknown): void {
    this.#place = undefined;
    this.#enlisting = false;
    if (this.#over) return;
    for (const lane of this.#lanes.lanes) this.#refuseAll(lane, () => error);
    this.#run();
  }

  // ---- leaving ------------------------------------------------------------------------------------------------------

  #stop(): void {
    this.#over = true;
    this.#place?.withdraw();
    this.#place = undefined;
    this.#alarm.clear();
  }

  #stopWithConsumer(): void {
    this.#to.add(() => {
      this.#stop();
      this.#out.clear();
      this.#door.clear();
      this.#reports?.left();
      this.#lanes.clear();
      this.#spent.releaseAll();
      for (let slot = this.#running.first; slot; slot = slot.next) {
        slot.letGo();
        slot.end();
      }
      this.#reports?.tell();
    });
  }
}

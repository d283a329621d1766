import type { ObservableInput, Subscriber } from 'rxjs';
import { from, Subscription } from 'rxjs';
import { Chain } from '../../kernel/chain.js';
import type { KeyLane } from '../../kernel/keyed-lanes.js';
import { KeyedLanes } from '../../kernel/keyed-lanes.js';
import { Ring } from '../../kernel/ring.js';
import { Alarm } from '../alarm.js';
import { ask } from '../ask.js';
import type { Handlers } from '../connect.js';
import { AttemptTimeoutError, KeyStoppedError, OverflowError } from '../errors.js';
import type { Bidder, Lease, Place } from '../limiting/limiter-types.js';
import { SpentLeases } from '../limiting/spent-leases.js';
import type { Settled } from '../types.js';
import { isPromise } from '../work.js';
import { OrderedOutput } from './ordered-output.js';
import { Slot } from './slot.js';
import type { SlotConfig } from './slot-options.js';
import { SlotReports } from './slot-reports.js';

/** The key of everything when there is no `key`. */
const NO_KEY = undefined;

/**
 * The engine behind the operators that run one piece of work per item: accepts items under their keys, starts them as slots, keys and
 * permits allow, and hands on what they say.
 *
 * One loop starts everything. Whatever happens while it runs (a sink that feeds the source, an inner stream that completes at once)
 * changes state and lets the loop come round again, so nothing recurses.
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
  readonly #outbox = new Ring<Settled<T, R> | R>();
  readonly #ordered: OrderedOutput<Settled<T, R> | R> | undefined;
  readonly #reports: SlotReports | undefined;
  /** Leases of work that is over. */
  readonly #spent = new SpentLeases();
  #concurrency: number;
  #place: Place | undefined;
  #enlisting = false;
  #accepted = 0;
  #alarmIsSet = false;
  #busy = false;
  #handingOut = false;
  #finishing = false;
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
    if (config.order !== 'completion')
      this.#ordered = new OrderedOutput((value) => {
        this.#outbox.push(value);
      });
    if (config.onError === 'stopKey') this.#stopped = new Map();
    this.#alarm = new Alarm(config.scheduler, () => {
      this.#expire();
    });
    if (config.onEvent) this.#reports = new SlotReports(config.operator, config.onEvent, this.#alarm);
  }

  setConcurrency(concurrency: number): void {
    this.#concurrency = concurrency;
    this.#run();
  }

  // ---- the source ---------------------------------------------------------------------------------------------------

  next(item: T): void {
    const index = this.#accepted++;
    // With the first item, and so behind the link to the source, which is torn down before the inner streams, as in `mergeMap`.
    if (index === 0) this.#stopWithConsumer();
    this.#reports?.accepted(index, this.#lanes.queued);
    try {
      this.#enqueue(item, index);
    } catch (error) {
      this.#enter(index, NO_KEY);
      this.#refuse(item, index, error);
    }
    // Behind others, or with no slot free, one more item changes nothing yet.
    if (this.#running.length < this.#concurrency || this.#hasNews()) this.#run();
  }

  error(error: unknown): void {
    if (!this.#config.drains) {
      this.#to.error(error);
      return;
    }
    this.#sourceFailure = { error };
    this.complete();
  }

  complete(): void {
    this.#finishing = true;
    this.#run();
  }

  /** @throws CallbackError when a callback throws or answers something unusable */
  #enqueue(item: T, index: number): void {
    const { key: keyOf, operator, priority, maxKeys, limitOf, overflow } = this.#config;
    const level = priority ? priority(item) : 0;
    if (keyOf === undefined) {
      this.#enter(index, NO_KEY);
      this.#accept(this.#only as KeyLane<T>, item, index, level);
      return;
    }
    const key = ask(operator, 'key', keyOf, item);
    const known = this.#lanes.find(key);
    const limit = known ? known.limit : limitOf(key);
    this.#enter(index, key);
    if (this.#stopped?.has(key)) {
      this.#refuse(item, index, new KeyStoppedError(operator, this.#stopped.get(key)));
    } else if (known === undefined && this.#lanes.size + (this.#stopped?.size ?? 0) >= maxKeys) {
      this.#drop(item, index, new OverflowError(operator, maxKeys, overflow, 'maxKeys'));
    } else {
      this.#accept(known ?? this.#lanes.open(key, limit), item, index, level);
    }
  }

  #enter(index: number, key: unknown): void {
    this.#ordered?.open(index, this.#config.order === 'perKey' ? key : NO_KEY);
  }

  #accept(lane: KeyLane<T>, item: T, index: number, level: number): void {
    const held = this.#ordered === undefined ? 0 : this.#ordered.held;
    if (this.#lanes.queued + held < this.#config.maxQueued || this.#goesAtOnce(lane, held) || this.#makeRoom(lane, item, index, level))
      this.#lanes.push(lane, item, index, level);
    else this.#lanes.forget(lane);
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
    if (this.#config.limiter) return !this.#busy && this.#place === undefined;
    // Inside the loop those that wait have not had their turn yet.
    return this.#running.length + (this.#busy ? this.#lanes.queued : 0) < this.#concurrency;
  }

  /** Drops others for a newcomer: of its own key where some wait, else of the key with the longest queue, which fills the room. */
  #makeWay(lane: KeyLane<T>, level: number, error: OverflowError): boolean {
    const { overflow } = this.#config;
    if (overflow === 'dropLowest') {
      const lowest = this.#lanes.dropLowest(level);
      if (lowest) this.#drop(lowest.item, lowest.index, error);
      return lowest !== undefined;
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
    if (this.#config.settles) this.#reject(item, index, error, 0);
    else this.#pass(index, 'rejected', 0);
    if (error.policy === 'error') this.#failure ??= { error };
  }

  /** Rejects an item that is not even tried; an error of the output where there are no rejections. */
  #refuse(item: T, index: number, error: unknown): void {
    if (this.#config.settles) this.#reject(item, index, error, 0);
    else this.#failure ??= { error };
  }

  // ---- the loop -----------------------------------------------------------------------------------------------------

  #run(): void {
    if (this.#busy || this.#over) return;
    this.#busy = true;
    do if (this.#hasNews()) this.#deliver();
    while (this.#startNext());
    this.#busy = false;
    if (this.#finishing && this.#running.length === 0 && this.#lanes.queued === 0) this.#finish();
  }

  #finish(): void {
    if (this.#over) return;
    this.#reports?.drained();
    if (this.#sourceFailure) this.#to.error(this.#sourceFailure.error);
    else this.#to.complete();
  }

  #hasNews(): boolean {
    return this.#outbox.length > 0 || this.#spent.length > 0 || this.#failure !== undefined;
  }

  /** Hands out results first, then frees permits: a result is never overtaken by the next item's. */
  #deliver(): void {
    this.#handOut();
    if (this.#failure) this.#to.error(this.#failure.error);
    this.#spent.release();
  }

  #handOut(): void {
    if (this.#handingOut) return;
    this.#handingOut = true;
    while (this.#outbox.length > 0 && !this.#over) this.#to.next(this.#outbox.shift() as Settled<T, R> | R);
    this.#handingOut = false;
  }

  /** Starts one item, or asks for its permit; false when there is nothing left to do. */
  #startNext(): boolean {
    if (this.#over) return false;
    if (this.#hasNews()) return true;
    if (this.#running.length >= this.#concurrency || this.#place !== undefined) return false;
    const lane = this.#lanes.next();
    if (lane === undefined) return false;
    if (this.#config.limiter) this.#enlist(this.#config.limiter);
    else this.#start(lane, undefined);
    return true;
  }

  #start(lane: KeyLane<T>, lease: Lease | undefined): void {
    const { project, timeoutMs } = this.#config;
    const index = lane.headIndex as number;
    const item = this.#lanes.take(lane);
    const slot = this.#idle.pop() ?? new Slot<T, R>(this);
    const context = slot.begin(lane, item, index, lease);
    this.#running.add(slot);
    this.#reports?.started(index, this.#running.length);
    if (timeoutMs !== Infinity) this.#setTimeout(slot, timeoutMs);
    let work: ObservableInput<R>;
    try {
      work = project(item, context);
    } catch (error) {
      this.failed(slot, error);
      return;
    }
    this.#listen(slot, work);
  }

  #listen(slot: Slot<T, R>, work: ObservableInput<R>): void {
    if (work instanceof Promise) slot.follow(work as Promise<R>);
    // One that is no real promise may answer twice, and the slot's next item would get the second answer.
    else if (isPromise(work)) slot.follow(Promise.resolve(work));
    // `project` itself may have made the consumer leave.
    else if (slot.lane) slot.subscribeTo(() => from(work));
  }

  // ---- what slots report --------------------------------------------------------------------------------------------

  /** An inner stream has a value. */
  emitted(slot: Slot<T, R>, value: R): void {
    if (this.#over) return;
    if (this.#config.settles) {
      slot.value = value;
    } else if (this.#ordered) {
      this.#ordered.next(slot.index, value);
      // Inside the loop as well, or an inner stream that emits at once for ever would never be left.
      if (this.#busy) this.#handOut();
      else this.#run();
    } else {
      this.#to.next(value);
    }
  }

  /** A promise has its value: the only one, and its end. */
  resolved(slot: Slot<T, R>, value: R): void {
    if (!this.#config.settles) this.emitted(slot, value);
    if (slot.lane) this.#complete(slot, value);
  }

  completed(slot: Slot<T, R>): void {
    // The teardown of one inner stream may end another.
    if (!this.#over) this.#complete(slot, slot.value);
  }

  #complete(slot: Slot<T, R>, value: R | undefined): void {
    const { item, index } = slot;
    this.#reports?.ended(index, 'ok');
    this.#free(slot);
    if (this.#config.settles) this.#fulfil(item as T, index, value as R);
    else this.#pass(index, 'fulfilled', 1);
    this.#run();
  }

  failed(slot: Slot<T, R>, error: unknown): void {
    if (this.#over) return;
    slot.failure = { error };
    this.#reports?.failed(slot.index, error);
    if (!this.#config.settles) {
      // The consumer hears of it first; its leaving tears down the inner streams, this one included, as in `mergeMap`.
      this.#to.error(error);
      return;
    }
    slot.leave();
    const { item, index, lane } = slot;
    this.#free(slot);
    this.#reject(item as T, index, error, 1);
    if (this.#config.onError === 'error') this.#failure ??= { error };
    if (this.#stopped) this.#stopKey(this.#stopped, lane as KeyLane<T>, error);
    this.#run();
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
    const { operator } = this.#config;
    stopped.set(lane.key, cause);
    while (lane.length > 0) {
      const index = lane.headIndex as number;
      this.#reject(this.#lanes.drop(lane), index, new KeyStoppedError(operator, cause), 0);
    }
    this.#lanes.forget(lane);
  }

  /** An item is over that has no result of its own. */
  #pass(index: number, outcome: 'fulfilled' | 'rejected', attempts: number): void {
    this.#reports?.settled(index, outcome, attempts);
    this.#ordered?.close(index);
  }

  #fulfil(input: T, index: number, value: R): void {
    this.#settle(index, { status: 'fulfilled', value, input, index, id: String(index), attempts: 1 });
  }

  #reject(input: T, index: number, reason: unknown, attempts: number): void {
    this.#settle(index, { status: 'rejected', reason, input, index, id: String(index), attempts });
  }

  #settle(index: number, settled: Settled<T, R>): void {
    this.#reports?.settled(index, settled.status, settled.attempts);
    if (this.#ordered) {
      this.#ordered.next(index, settled);
      this.#ordered.close(index);
    } else {
      this.#outbox.push(settled);
    }
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
      this.failed(slot, error);
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
    if (this.#lanes.next()) return 0;
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
    for (const lane of this.#lanes.lanes) {
      while (lane.length > 0) {
        const index = lane.headIndex as number;
        this.#refuse(this.#lanes.drop(lane), index, error);
      }
      this.#lanes.forget(lane);
    }
    this.#run();
  }

  // ---- leaving ------------------------------------------------------------------------------------------------------

  #stopWithConsumer(): void {
    this.#to.add(() => {
      this.#over = true;
      this.#place?.withdraw();
      this.#alarm.clear();
      this.#outbox.clear();
      this.#ordered?.clear();
      this.#reports?.left(this.#running.length + this.#lanes.queued);
      this.#lanes.clear();
      this.#spent.releaseAll();
      // A subscription of its own, because it goes on to the next when a teardown throws.
      const all = new Subscription();
      for (let slot = this.#running.first; slot; slot = slot.next) all.add(this.#giveUp(slot));
      all.unsubscribe();
    });
  }

  #giveUp(slot: Slot<T, R>): () => void {
    return () => {
      slot.letGo();
      slot.end();
    };
  }
}

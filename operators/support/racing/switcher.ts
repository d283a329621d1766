import type { ObservableInput, SchedulerLike } from 'rxjs';
import { from, Subscriber } from 'rxjs';
import { captureContext } from '#async-context';
import { Ring } from '../../kernel/queues/ring.js';
import { ask } from '../../options/ask.js';
import { OverflowError } from '../../options/errors.js';
import type { FlowSink } from '../../options/events.js';
import { DEFAULT_LANE } from '../../options/lanes.js';
import type { ItemContext } from '../../options/types.js';
import { Alarm } from '../../shell/alarm.js';
import type { AsyncContext } from '../../shell/async-context.js';
import type { Handlers } from '../../shell/connect.js';
import { report } from '../../shell/report.js';
import { isPromise, onlyOnce, streamOf } from '../../shell/work.js';
import { ItemCall } from './item-call.js';

const NAME = 'switchLatest';

export interface SwitchSettings<T, R> {
  readonly project: (item: T, context: ItemContext) => ObservableInput<R>;
  readonly key: ((item: T) => unknown) | undefined;
  readonly maxKeys: number;
  readonly keepLast: boolean;
  readonly debounceMs: number;
  readonly drains: boolean;
  readonly scheduler: SchedulerLike;
  readonly onEvent: FlowSink | undefined;
}

/** What one key has under way. */
interface Slot<T, R> {
  readonly key: unknown;
  /** The newest call. */
  current: Call<T, R> | undefined;
  /** With `keepLast`: the call that goes on until the newest one has something to show. */
  old: Call<T, R> | undefined;
  /** Items of this key that have not been started. */
  pending: number;
}

interface Arrived<T> {
  readonly item: T;
  readonly index: number;
  /** Of whoever sent it: it is started in a timer, or in a call of the consumer's. */
  readonly context: AsyncContext;
}

/** An item that waits for its start. */
interface Pending<T, R> extends Arrived<T> {
  readonly slot: Slot<T, R>;
  readonly dueAt: number;
}

/**
 * One subscription of `switchLatest`. One loop starts the calls: what the consumer or `project` sends into the source meanwhile
 * supersedes at once, and is started when the loop comes round.
 */
export class Switcher<T, R> implements Handlers<T> {
  readonly #settings: SwitchSettings<T, R>;
  readonly #to: Subscriber<R>;
  /** The only slot when there is no `key`. */
  readonly #slot: Slot<T, R> = emptySlot(undefined);
  readonly #slots = new Map<unknown, Slot<T, R>>();
  /** Items that arrived while another was being started or handed on. */
  readonly #later = new Ring<Pending<T, R>>();
  /** Items that wait for their `debounceMs` to pass; the first is due first, because all wait equally long. */
  readonly #quiet = new Map<Slot<T, R>, Pending<T, R>>();
  /** What `key` itself has sent: it comes after the item whose key was asked for. */
  readonly #arrived = new Ring<Arrived<T>>();
  readonly #alarm: Alarm;
  #index = 0;
  #live = 0;
  #busy = false;
  #isAsking = false;
  #done = false;
  #failure: { readonly error: unknown } | undefined;

  constructor(settings: SwitchSettings<T, R>, to: Subscriber<R>) {
    this.#settings = settings;
    this.#to = to;
    this.#alarm = new Alarm(settings.scheduler, () => {
      this.#startUntil(this.#alarm.now());
      this.#arm();
    });
  }

  next(item: T): void {
    const index = this.#index++;
    if (index === 0) this.#stopWithConsumer();
    if (this.#isAsking || this.#arrived.length > 0) {
      this.#arrived.push({ item, index, context: captureContext() });
      return;
    }
    this.#take(item, index);
    while (this.#arrived.length > 0) {
      const next = this.#arrived.shift() as Arrived<T>;
      this.#take(next.item, next.index, next.context);
    }
  }

  error(error: unknown): void {
    if (!this.#settings.drains) {
      this.#to.error(error);
      return;
    }
    this.#failure = { error };
    this.complete();
  }

  complete(): void {
    this.#done = true;
    this.#startUntil(Infinity);
    this.#alarm.clear();
    if (!this.#busy) this.#endWhenDone();
  }

  /** A call has a value. */
  emit(call: Call<T, R>, value: R): void {
    const outermost = !this.#busy;
    this.#busy = true;
    if (!call.hasValue) {
      call.hasValue = true;
      this.#supersede(call.slot.old);
    }
    this.#to.next(value);
    if (outermost) this.#finish();
  }

  /** A call is over. As in `switchMap`, the result completes first and the inner stream is torn down afterwards. */
  ended(call: Call<T, R>): void {
    this.#remove(call);
    this.#free(call.slot);
    if (!this.#busy) this.#endWhenDone();
  }

  failed(call: Call<T, R>, error: unknown): void {
    const isNewest = call.slot.current === call;
    this.#remove(call);
    if (isNewest) {
      this.#to.error(error);
      return;
    }
    this.swallow();
    this.#free(call.slot);
    if (!this.#busy) this.#endWhenDone();
  }

  /** An error that nobody waits for: of a call that was superseded. */
  swallow(): void {
    this.#settings.onEvent?.({ type: 'swallowed', operator: NAME, lane: DEFAULT_LANE });
  }

  /** Registered with the first item: the link to the source is torn down before the calls, as in `switchMap`. */
  #stopWithConsumer(): void {
    this.#to.add(() => {
      this.#alarm.clear();
      this.#arrived.clear();
      this.#later.clear();
      this.#quiet.clear();
      for (const slot of [this.#slot, ...this.#slots.values()]) {
        this.#supersede(slot.old);
        this.#supersede(slot.current);
      }
      this.#slots.clear();
    });
  }

  #take(item: T, index: number, context?: AsyncContext): void {
    const slot = this.#settings.key === undefined ? this.#slot : this.#slotOf(this.#settings.key, item);
    // `key` itself may have made the consumer leave, or have ended the source.
    if (this.#to.closed) return;
    if (this.#settings.debounceMs === 0 || this.#done) this.#request(slot, item, index, context);
    else this.#postpone(slot, item, index, context);
  }

  #slotOf(keyOf: (item: T) => unknown, item: T): Slot<T, R> {
    this.#isAsking = true;
    const key = ask(NAME, 'key', keyOf, item);
    this.#isAsking = false;
    const found = this.#slots.get(key);
    if (found !== undefined) return found;
    const { maxKeys } = this.#settings;
    if (this.#slots.size >= maxKeys) throw new OverflowError(NAME, maxKeys, 'error', 'maxKeys');
    const slot = emptySlot<T, R>(key);
    this.#slots.set(key, slot);
    return slot;
  }

  #postpone(slot: Slot<T, R>, item: T, index: number, context = captureContext()): void {
    const { debounceMs, onEvent } = this.#settings;
    const passedOver = this.#quiet.delete(slot);
    if (!passedOver) slot.pending++;
    this.#quiet.set(slot, { slot, item, index, dueAt: this.#alarm.now() + debounceMs, context });
    this.#arm();
    // Told last: a listener may send the next item.
    if (passedOver) onEvent?.({ type: 'dropped', operator: NAME, lane: DEFAULT_LANE, policy: 'latest' });
  }

  #arm(): void {
    const [first] = this.#quiet.values();
    this.#alarm.set(first?.dueAt ?? Infinity);
  }

  /** Starts the items that have waited long enough by `now`. */
  #startUntil(now: number): void {
    for (const { slot, item, index, dueAt, context } of this.#quiet.values()) {
      if (dueAt > now) return;
      this.#quiet.delete(slot);
      slot.pending--;
      this.#request(slot, item, index, context);
    }
  }

  #request(slot: Slot<T, R>, item: T, index: number, context?: AsyncContext): void {
    if (this.#busy) {
      slot.pending++;
      this.#later.push({ slot, item, index, dueAt: 0, context: context ?? captureContext() });
      // At once: the rest of what it emits synchronously is old already.
      if (!this.#settings.keepLast) this.#supersede(slot.current);
      return;
    }
    this.#busy = true;
    this.#start(slot, item, index, context);
    this.#finish();
  }

  /** A loop, so that a consumer which feeds its own source cannot overflow the stack. */
  #finish(): void {
    while (this.#later.length > 0) {
      const { slot, item, index, context } = this.#later.shift() as Pending<T, R>;
      slot.pending--;
      this.#start(slot, item, index, context);
    }
    this.#busy = false;
    this.#endWhenDone();
  }

  /** Without a context, in the one of now. */
  #start(slot: Slot<T, R>, item: T, index: number, context?: AsyncContext): void {
    const { keepLast } = this.#settings;
    const { current } = slot;
    // Whoever hears of the old call may end the last one of this key, which would be forgotten.
    slot.pending++;
    if (keepLast && current?.hasValue === true) slot.old = current;
    else this.#supersede(current);
    // The signal of the old call may have made the consumer leave.
    if (this.#to.closed) return;
    const call = new Call<T, R>(this, slot, new ItemCall(index, slot.key));
    slot.current = call;
    slot.pending--;
    this.#live++;
    if (context === undefined) this.#follow(call, item);
    else
      context.run(() => {
        this.#follow(call, item);
      }, undefined);
  }

  #follow(call: Call<T, R>, item: T): void {
    try {
      call.follow(this.#settings.project(item, call.context));
    } catch (error) {
      if (call.closed || call.isSuperseded) this.swallow();
      else this.failed(call, error);
    }
  }

  #supersede(call: Call<T, R> | undefined): void {
    if (call === undefined) return;
    this.#remove(call);
    // Before anybody is told: what it says to that is old already.
    call.isSuperseded = true;
    // One that has answered is left, not given up.
    if (!call.isAnswered) this.#settings.onEvent?.({ type: 'cancelled', operator: NAME, lane: DEFAULT_LANE, count: 1 });
    call.supersede();
  }

  #remove(call: Call<T, R>): void {
    const { slot } = call;
    if (slot.current === call) slot.current = undefined;
    else if (slot.old === call) slot.old = undefined;
    this.#live--;
  }

  /** Forgets a key that has nothing under way. */
  #free(slot: Slot<T, R>): void {
    if (slot.current === undefined && slot.old === undefined && slot.pending === 0) this.#slots.delete(slot.key);
  }

  #endWhenDone(): void {
    if (!this.#done || this.#live > 0 || this.#quiet.size > 0 || this.#isAsking || this.#arrived.length > 0) return;
    if (this.#failure === undefined) this.#to.complete();
    else this.#to.error(this.#failure.error);
  }
}

function emptySlot<T, R>(key: unknown): Slot<T, R> {
  return { key, current: undefined, old: undefined, pending: 0 };
}

/**
 * One call of `project`, and the subscriber of what it returned. A subclass, because `work.ts` tears down before it tells: here the
 * result ends first and the inner stream is torn down afterwards, as `switchMap` does, and a call costs one object less.
 *
 * Without `#private`, and asked for itself: what subscribes may sit behind a proxy that is not the object it stands for.
 */
class Call<T, R> extends Subscriber<R> {
  hasValue = false;
  /** A promise that was fulfilled: there is nothing left to abort. */
  isAnswered = false;
  isSuperseded = false;
  private readonly self = (): this => this;

  constructor(
    readonly owner: Switcher<T, R>,
    readonly slot: Slot<T, R>,
    readonly context: ItemCall,
  ) {
    super();
  }

  /** The signal first, so that the work ends for this reason and not for want of a listener. */
  supersede(): void {
    this.isSuperseded = true;
    if (!this.isAnswered) this.context.abort();
    this.unsubscribe();
  }

  /** Subscribes to what `project` returned, unless it has been superseded in the meantime. */
  follow(input: ObservableInput<R>): void {
    if (isPromise(input)) {
      onlyOnce(input).then(
        (value) => {
          this.isAnswered = true;
          this.next(value);
          this.complete();
        },
        (error: unknown) => {
          // `error` of a closed subscriber would be silent.
          if (this.closed) this.owner.swallow();
          else this.error(error);
        },
      );
    } else if (!this.closed) {
      (streamOf<R>(input) ?? from(input)).subscribe(this);
    }
  }

  /** A teardown of yours that throws must not keep the next call from being made. */
  override unsubscribe(): void {
    try {
      super.unsubscribe();
    } catch (error) {
      report(error);
    }
  }

  protected override _next(value: R): void {
    const call = this.self();
    if (!call.isSuperseded) call.owner.emit(call, value);
  }

  protected override _error(error: unknown): void {
    const call = this.self();
    if (call.isSuperseded) call.owner.swallow();
    else call.owner.failed(call, error);
    call.unsubscribe();
  }

  protected override _complete(): void {
    const call = this.self();
    if (!call.isSuperseded) call.owner.ended(call);
    call.unsubscribe();
  }
}

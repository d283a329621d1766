import type { ObservableInput, OperatorFunction, SchedulerLike, Subscriber } from 'rxjs';
import { Observable } from 'rxjs';
import { captureContext } from '#async-context';
import { ask } from './options/ask.js';
import { OverflowError } from './options/errors.js';
import type { FlowSink, Note } from './options/events.js';
import { listened, teller } from './options/events.js';
import { DEFAULT_LANE } from './options/lanes.js';
import { callback, checked, count, durationMs, flag, ofKeys, required, words } from './options/options.js';
import type { ItemContext, Settled, WorkResult } from './options/types.js';
import { Alarm, schedulerOption } from './shell/alarm.js';
import type { AsyncContext } from './shell/async-context.js';
import { Call } from './shell/call.js';
import type { Handlers } from './shell/connect.js';
import { connect } from './shell/connect.js';
import type { Reading } from './shell/work.js';

const NAME = 'switchLatest';

export interface SwitchLatestOptions<T> {
  /**
   * What becomes of a newest call that fails: `'propagate'` hands on values and ends with its error, `'settle'` makes one `Settled` of every newest
   * call, so that a failure is a result and the next item is still served. @defaultValue 'propagate'
   */
  readonly errors?: 'settle' | 'propagate';
  /** Switches within a key only: one newest call for each, and keys do not disturb each other. @defaultValue one for all */
  readonly key?: (item: T) => unknown;
  /** Most keys with something under way at a time; one more errors the stream with `OverflowError`. Needs a `key`. @defaultValue 1000 */
  readonly maxKeys?: number;
  /** Lets the old call go on until the new one has its first value, so that a screen is never empty in between. @defaultValue false */
  readonly keepLast?: boolean;
  /** How long an item must be the newest before its call starts, in ms; 0 = at once, Infinity = when the source completes. @defaultValue 0 */
  readonly debounceMs?: number;
  /** At an error of the source: abort what is under way, or let it end first; items in `debounceMs` are then started. @defaultValue 'abort' */
  readonly onSourceError?: 'flush' | 'abort' | 'drain';
  /** Clock and timer of `debounceMs`. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Told of every call given up (`cancelled`), item passed over by `debounceMs` (`dropped`) and late error (`swallowed`). @defaultValue none */
  readonly onEvent?: FlowSink;
  /** What events call this operator, as `instance`. @defaultValue a number of its own */
  readonly name?: string;
}

/**
 * Starts a call for every item and gives up the one before: the newest wins, and the old call is told by its signal.
 *
 * ```text marbles/switchLatest
 * source  -a-----b------|
 *         switchLatest(call)
 * a        --1--2!
 * b              --4--5|
 * result  ---1--2--4--5-|
 * ```
 *
 * - **Emits when** the newest call (of its key) does. What a superseded call still says is dropped, its error as well.
 * - **Holds at most** one call for each of `maxKeys` keys (two with `keepLast`), one item each while `debounceMs` runs, and what the
 *   consumer itself sends into the source while it is handed a value.
 * - **Drops** items that did not stay the newest for `debounceMs`.
 * - **Completes when** the source has completed and the last calls have ended.
 * - **Errors when** the source, a newest call or `project` errors, with that same error (the last two not with `errors: 'settle'`); when `key` throws (`CallbackError`) or there
 *   are more than `maxKeys` keys (`OverflowError`).
 * - **On unsubscribe** every call's signal aborts, then it is unsubscribed from. The same happens to a superseded call before the
 *   next one starts. The signal of a promise that has answered stays as it is: the answer may be a body that is still to be read.
 *
 * A call starts in the asynchronous context of whoever sent its item. What `project` returns is read as RxJS's `from` does: a list is its items. With
 * `errors: 'settle'` every newest call has one result, `Settled`, with its last value: an answer that is no promise and no stream is the value itself.
 * A promise cannot be unsubscribed from: pass `context.signal` to whatever makes it. One that ignores its signal runs on, and is paid
 * for, but its result is dropped.
 *
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { NEVER, of } from 'rxjs';
 * import { switchLatest } from 'sluice/operators';
 *
 * const seen: string[] = [];
 * const search = (text: string, { signal }: { signal: AbortSignal }) => {
 *   signal.addEventListener('abort', () => seen.push(`${text}: aborted`));
 *   return text === 'cats' ? of(`${text}: found`) : NEVER;
 * };
 * of('c', 'ca', 'cats').pipe(switchLatest(search)).subscribe((line) => seen.push(line));
 * seen; // => ['c: aborted', 'ca: aborted', 'cats: found']
 * ```
 * @example One question that fails does not end the next ones.
 * ```ts
 * import { of, throwError } from 'rxjs';
 * import { switchLatest } from 'sluice/operators';
 *
 * const ask = (text: string) => (text === '' ? throwError(() => new Error('empty')) : of(`found ${text}`));
 * const seen: string[] = [];
 * of('', 'cats').pipe(switchLatest(ask, { errors: 'settle' })).subscribe(({ status }) => seen.push(status));
 * seen; // => ['rejected', 'fulfilled']
 * ```
 * @see {@link bulkheadMap} when every item counts and only so many may run at once.
 * @see {@link conflateWhileBusy} when the running call should end first, and take in all that came meanwhile next.
 */
export function switchLatest<T, R>(
  project: (item: T, context: ItemContext) => WorkResult<R>,
  options: SwitchLatestOptions<T> & { readonly errors: 'settle' },
): OperatorFunction<T, Settled<T, R>>;
export function switchLatest<T, R>(
  project: (item: T, context: ItemContext) => ObservableInput<R>,
  options?: SwitchLatestOptions<T> & { readonly errors?: 'propagate' },
): OperatorFunction<T, R>;
export function switchLatest<T, R>(project: Project<T, R>, options: SwitchLatestOptions<T> = {}): OperatorFunction<T, R | Settled<T, R>> {
  const settings = readOptions(required(NAME, 'project', project), options);
  return (source) =>
    new Observable((subscriber) => {
      connect(source, subscriber, new Switcher<T, R>(settings, subscriber));
    });
}

type Project<T, R> = (item: T, context: ItemContext) => ObservableInput<R> | WorkResult<R>;
type Settings<T, R> = ReturnType<typeof readOptions<T, R>>;

function readOptions<T, R>(project: Project<T, R>, options: SwitchLatestOptions<T>) {
  const defaults = { errors: 'propagate', maxKeys: 1000, keepLast: false, debounceMs: 0, onSourceError: 'abort' } as const;
  const settings = checked(NAME, options, defaults, {
    errors: words('settle', 'propagate'),
    maxKeys: count,
    keepLast: flag,
    debounceMs: durationMs,
    onSourceError: words('flush', 'abort', 'drain'),
    key: callback,
    scheduler: schedulerOption,
    ...listened,
  });
  ofKeys(NAME, 'maxKeys', options.maxKeys, settings.key !== undefined, settings.maxKeys);
  return { ...settings, project };
}

/** What one key has under way. */
interface Slot<T, R> {
  readonly key: unknown;
  /** The newest call. */
  current: Run<T, R> | undefined;
  /** With `keepLast`: the call that goes on until the newest one has something to show. */
  old: Run<T, R> | undefined;
  /** Items of this key that have not been started. */
  pending: number;
}

/** An item that has not been started, and who sent it: it is started in a timer, or in a call of the consumer's. */
interface Arrived<T> {
  readonly item: T;
  readonly index: number;
  readonly context: AsyncContext;
}

interface Pending<T, R> extends Arrived<T> {
  readonly slot: Slot<T, R>;
  readonly dueAt: number;
}

/**
 * One subscription. One loop starts the calls: what the consumer or `project` sends into the source meanwhile supersedes at once, and is started
 * when the loop comes round.
 */
class Switcher<T, R> implements Handlers<T> {
  readonly settings: Settings<T, R>;
  readonly tell: ((note: Note) => void) | undefined;
  readonly #to: Subscriber<R | Settled<T, R>>;
  /** The only slot when there is no `key`. */
  readonly #slot = emptySlot<T, R>(undefined);
  readonly #slots = new Map<unknown, Slot<T, R>>();
  readonly #alarm: Alarm;
  /** Items that wait for their `debounceMs` to pass; the first is due first, because all wait equally long. */
  readonly #quiet = new Map<Slot<T, R>, Pending<T, R>>();
  /** Items that arrived while another was being started or handed on. */
  #later: Pending<T, R>[] = [];
  /** What `key` itself has sent: it comes after the item whose key was asked for. */
  #arrived: Arrived<T>[] = [];
  #index = 0;
  #live = 0;
  #busy = false;
  #isAsking = false;
  /** How it ends, once the source has. */
  #end: (() => void) | undefined;

  constructor(settings: Settings<T, R>, to: Subscriber<R | Settled<T, R>>) {
    this.settings = settings;
    this.#to = to;
    this.#alarm = new Alarm(settings.scheduler, () => {
      this.#startUntil(this.#alarm.now());
      this.#arm();
    });
    this.tell = teller(NAME, settings, () => this.#alarm.now());
  }

  next(item: T): void {
    const index = this.#index++;
    if (index === 0) this.#stopWithConsumer();
    if (this.#isAsking || this.#arrived.length > 0) {
      this.#arrived.push({ item, index, context: captureContext() });
      return;
    }
    this.#take(item, index);
    if (this.#arrived.length === 0) return;
    // It grows meanwhile.
    for (const arrived of this.#arrived) this.#take(arrived.item, arrived.index, arrived.context);
    this.#arrived = [];
    this.#endWhenDone();
  }

  error(error: unknown): void {
    const end = (): void => {
      this.#to.error(error);
    };
    if (this.settings.onSourceError === 'abort') end();
    else this.#ends(end);
  }

  complete(): void {
    this.#ends(() => {
      this.#to.complete();
    });
  }

  /** A call has something to show. */
  emit(run: Run<T, R>, value: R | Settled<T, R>): void {
    const isOutermost = !this.#busy;
    this.#busy = true;
    if (!run.hasValue) {
      run.hasValue = true;
      this.#supersede(run.slot.old);
    }
    this.#to.next(value);
    if (isOutermost) this.#finish();
  }

  /** A call is over. As in `switchMap`, the result completes first and the inner stream is torn down afterwards. */
  ended(run: Run<T, R>): void {
    this.#remove(run);
    const { current, old, pending, key } = run.slot;
    // A key that has nothing under way is forgotten.
    if (current === undefined && old === undefined && pending === 0) this.#slots.delete(key);
    this.#endWhenDone();
  }

  failed(run: Run<T, R>, error: unknown): void {
    if (run.slot.current !== run) {
      this.tell?.({ type: 'swallowed', lane: DEFAULT_LANE });
      this.ended(run);
      return;
    }
    this.#remove(run);
    this.#to.error(error);
  }

  #ends(end: () => void): void {
    this.#end = end;
    this.#startUntil(Infinity);
    this.#alarm.clear();
    this.#endWhenDone();
  }

  /** Registered with the first item: the link to the source is torn down before the calls, as in `switchMap`. */
  #stopWithConsumer(): void {
    this.#to.add(() => {
      this.#alarm.clear();
      this.#arrived = [];
      this.#later = [];
      this.#quiet.clear();
      for (const { old, current } of [this.#slot, ...this.#slots.values()]) {
        this.#supersede(old);
        this.#supersede(current);
      }
      this.#slots.clear();
    });
  }

  #take(item: T, index: number, context?: AsyncContext): void {
    const { key, debounceMs } = this.settings;
    const slot = key === undefined ? this.#slot : this.#slotOf(key, item);
    // `key` itself may have made the consumer leave, or have ended the source.
    if (this.#to.closed) return;
    if (debounceMs === 0 || this.#end !== undefined) {
      this.#request(slot, item, index, context);
      return;
    }
    const isPassedOver = this.#quiet.delete(slot);
    if (!isPassedOver) slot.pending++;
    this.#quiet.set(slot, { slot, item, index, dueAt: this.#alarm.now() + debounceMs, context: context ?? captureContext() });
    this.#arm();
    // Told last: a listener may send the next item.
    if (isPassedOver) this.tell?.({ type: 'dropped', lane: DEFAULT_LANE, policy: 'latest' });
  }

  #slotOf(keyOf: (item: T) => unknown, item: T): Slot<T, R> {
    this.#isAsking = true;
    const key = ask(NAME, 'key', keyOf, item);
    this.#isAsking = false;
    const found = this.#slots.get(key);
    if (found !== undefined) return found;
    const { maxKeys } = this.settings;
    if (this.#slots.size >= maxKeys) throw new OverflowError(NAME, maxKeys, 'error', 'maxKeys');
    const slot = emptySlot<T, R>(key);
    this.#slots.set(key, slot);
    return slot;
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
      if (!this.settings.keepLast) this.#supersede(slot.current);
      return;
    }
    this.#busy = true;
    this.#start(slot, item, index, context);
    this.#finish();
  }

  /** A loop, so that a consumer which feeds its own source cannot overflow the stack. */
  #finish(): void {
    while (this.#later.length > 0) {
      const later = this.#later;
      this.#later = [];
      for (const { slot, item, index, context } of later) {
        slot.pending--;
        this.#start(slot, item, index, context);
      }
    }
    this.#busy = false;
    this.#endWhenDone();
  }

  /** Without a context, in the one of now. */
  #start(slot: Slot<T, R>, item: T, index: number, context?: AsyncContext): void {
    if (this.#to.closed) return;
    const { current } = slot;
    // Whoever hears of the old call may end the last one of this key, which would be forgotten.
    slot.pending++;
    if (this.settings.keepLast && current?.hasValue === true) slot.old = current;
    else this.#supersede(current);
    // The signal of the old call may have made the consumer leave.
    if (this.#to.closed as boolean) return;
    const run = new Run<T, R>(this, slot, item, index);
    slot.current = run;
    slot.pending--;
    this.#live++;
    run.begin(context);
  }

  #supersede(run: Run<T, R> | undefined): void {
    if (run === undefined) return;
    this.#remove(run);
    // Before anybody is told: what it says to that is old already.
    run.isOld = true;
    // One that has answered is left, not given up.
    if (!run.hasEnded) this.tell?.({ type: 'cancelled', lane: DEFAULT_LANE, count: 1 });
    run.stop();
  }

  #remove(run: Run<T, R>): void {
    const { slot } = run;
    if (slot.current === run) slot.current = undefined;
    else if (slot.old === run) slot.old = undefined;
    this.#live--;
  }

  #endWhenDone(): void {
    if (this.#busy || this.#live > 0 || this.#quiet.size > 0 || this.#isAsking || this.#arrived.length > 0) return;
    this.#end?.();
  }
}

function emptySlot<T, R>(key: unknown): Slot<T, R> {
  return { key, current: undefined, old: undefined, pending: 0 };
}

/** One call of `project`, and what its work is told. */
class Run<T, R> extends Call<R> implements ItemContext {
  hasValue = false;
  /** Superseded, and maybe not told yet. */
  isOld = false;

  constructor(
    readonly owner: Switcher<T, R>,
    readonly slot: Slot<T, R>,
    readonly item: T,
    readonly index: number,
  ) {
    super();
  }

  get key(): unknown {
    return this.slot.key;
  }

  get settles(): boolean {
    return this.owner.settings.errors === 'settle';
  }

  override get reading(): Reading {
    return this.settles ? 'value' : 'input';
  }

  work(): ObservableInput<R> | WorkResult<R> {
    return this.owner.settings.project(this.item, this);
  }

  override said(value: R, isWhole: boolean): void {
    if (this.settles) super.said(value, isWhole);
    else if (!this.isOld) this.owner.emit(this, value);
  }

  /** A stream of values ends before it is torn down, as in `switchMap`. */
  override completed(): void {
    if (this.settles) super.completed();
    else this.done(undefined as R);
  }

  override broken(error: unknown): void {
    if (this.settles) super.broken(error);
    else this.failed(error);
  }

  done(value: R): void {
    if (this.settles) this.settle({ status: 'fulfilled', value });
    else if (!this.isOld) this.owner.ended(this);
  }

  failed(error: unknown): void {
    if (this.isOld) {
      this.failedUnheard();
    } else if (this.settles) {
      this.settle({ status: 'rejected', reason: error });
    } else {
      this.owner.failed(this, error);
    }
  }

  override failedUnheard(): void {
    this.owner.tell?.({ type: 'swallowed', lane: DEFAULT_LANE });
  }

  private settle(
    result: { readonly status: 'fulfilled'; readonly value: R } | { readonly status: 'rejected'; readonly reason: unknown },
  ): void {
    const { item, index } = this;
    if (this.isOld) return;
    this.owner.emit(this, { ...result, input: item, index, id: String(index), attempts: 1 });
    // What the consumer was handed may have superseded it.
    if (!(this.isOld as boolean)) this.owner.ended(this);
  }
}

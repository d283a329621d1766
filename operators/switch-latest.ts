import type { ObservableInput, OperatorFunction, ReadableStreamLike, SchedulerLike, Subscriber } from 'rxjs';
import { Observable } from 'rxjs';
import { captureContext } from '#async-context';
import { ask } from './options/ask.js';
import { OverflowError } from './options/errors.js';
import type { FlowSink } from './options/events.js';
import { listened, teller } from './options/events.js';
import { DEFAULT_LANE } from './options/lanes.js';
import { callback, checked, count, ofKeys, required, words } from './options/options.js';
import type { Fulfilled, ItemContext, Rejected, Settled, WorkResult } from './options/types.js';
import { schedulerOption } from './shell/alarm.js';
import type { AsyncContext } from './shell/async-context.js';
import type { Reading } from './shell/call.js';
import { Call } from './shell/call.js';
import { connect } from './shell/connect.js';

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
  /** At an error of the source: abort what is under way, or let it end first (`'drain'` and `'flush'` are the same here). @defaultValue 'abort' */
  readonly onSourceError?: 'flush' | 'abort' | 'drain';
  /** Clock of the events. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Told of every call given up (`cancelled`) and late error (`swallowed`). @defaultValue none */
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
 * - **Holds at most** one call for each of `maxKeys` keys, and what the consumer itself sends into the source while it is handed a value.
 * - **Drops** nothing but what superseded calls still say.
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
export function switchLatest<T, R>(
  project: (item: T, context: ItemContext) => Observable<R> | PromiseLike<R> | AsyncIterable<R> | ReadableStreamLike<R>,
  options: SwitchLatestOptions<T>,
): OperatorFunction<T, R | Settled<T, R>>;
export function switchLatest<T, R>(project: Project<T, R>, options: SwitchLatestOptions<T> = {}): OperatorFunction<T, R | Settled<T, R>> {
  const settings = readOptions(required(NAME, 'project', project), options);
  return (source) =>
    new Observable((subscriber) => {
      switchInto(settings, source, subscriber);
    });
}

type Project<T, R> = (item: T, context: ItemContext) => ObservableInput<R> | WorkResult<R>;
type Settings<T, R> = ReturnType<typeof readOptions<T, R>>;

function readOptions<T, R>(project: Project<T, R>, options: SwitchLatestOptions<T>) {
  const defaults = { errors: 'propagate', maxKeys: 1000, onSourceError: 'abort' } as const;
  const settings = checked(NAME, options, defaults, {
    errors: words('settle', 'propagate'),
    maxKeys: count,
    onSourceError: words('flush', 'abort', 'drain'),
    key: callback,
    scheduler: schedulerOption,
    ...listened,
  });
  ofKeys(NAME, 'maxKeys', options.maxKeys, settings.key !== undefined, settings.maxKeys);
  return { ...settings, project };
}

/** What one key has under way; forgotten when that is nothing. */
interface Slot<T, R> {
  readonly key: unknown;
  /** The newest call. */
  current: Run<T, R> | undefined;
  /** Items that have not been started. */
  waiting: number;
}

/** An item that has not been started, and who sent it: it may be started in a call of the consumer's. */
interface Waiting<T, R> {
  readonly slot: Slot<T, R>;
  readonly item: T;
  readonly index: number;
  readonly context: AsyncContext;
}

/**
 * One subscription. One loop starts the calls: what the consumer or `project` sends into the source meanwhile supersedes at once, and is started
 * when the loop comes round.
 */
function switchInto<T, R>(settings: Settings<T, R>, source: Observable<T>, to: Subscriber<R | Settled<T, R>>): void {
  const { errors, key: keyOf, maxKeys, onSourceError, project, scheduler } = settings;
  const slots = new Map<unknown, Slot<T, R>>();
  const tell = teller(NAME, settings, () => scheduler.now());
  const told: Told<T, R> = { settles: errors === 'settle', project, emit, over, swallowed };
  /** What waits for the loop. */
  let later: Waiting<T, R>[] = [];
  let isBusy = false;
  /** What `key` itself has brought about: it comes after the item whose key was asked for. */
  let afterKey: (() => void)[] = [];
  let isAsking = false;
  let index = 0;
  /** How it ends, once the source has. */
  let end: (() => void) | undefined;

  connect(source, to, {
    next: (item) => {
      // With the first item: the link to the source is torn down before the calls, as in `switchMap`.
      if (index === 0) to.add(stop);
      const at = index++;
      const context = captureContext();
      inOrder(() => {
        take(item, at, context);
      });
    },
    error: (error) => {
      const fail = (): void => {
        to.error(error);
      };
      if (onSourceError === 'abort') fail();
      else ends(fail);
    },
    complete: () => {
      ends(() => {
        to.complete();
      });
    },
  });

  function inOrder(step: () => void): void {
    if (isAsking || afterKey.length > 0) {
      afterKey.push(step);
      return;
    }
    step();
    // It grows meanwhile.
    for (const next of afterKey) next();
    afterKey = [];
  }

  function ends(how: () => void): void {
    inOrder(() => {
      end = how;
      endWhenDone();
    });
  }

  function stop(): void {
    for (const { current } of slots.values()) supersede(current);
  }

  function take(item: T, at: number, context: AsyncContext): void {
    const slot = slotOf(item);
    // `key` itself may have made the consumer leave.
    if (to.closed) return;
    slot.waiting++;
    later.push({ slot, item, index: at, context });
    if (!isBusy) loop();
    // At once: the rest of what it emits synchronously is old already.
    else supersede(slot.current);
  }

  function slotOf(item: T): Slot<T, R> {
    isAsking = true;
    const key = keyOf && ask(NAME, 'key', keyOf, item);
    isAsking = false;
    let slot = slots.get(key);
    if (slot) return slot;
    if (slots.size >= maxKeys) throw new OverflowError(NAME, maxKeys, 'error', 'maxKeys');
    slot = { key, current: undefined, waiting: 0 };
    slots.set(key, slot);
    return slot;
  }

  /** A loop, so that a consumer which feeds its own source cannot overflow the stack. */
  function loop(): void {
    isBusy = true;
    while (later.length > 0) {
      const now = later;
      later = [];
      for (const waiting of now) start(waiting);
    }
    isBusy = false;
    endWhenDone();
  }

  function start({ slot, item, index: at, context }: Waiting<T, R>): void {
    supersede(slot.current);
    // The signal of the old call may have made the consumer leave.
    if (to.closed) return;
    const run = new Run<T, R>(told, slot, item, at);
    slot.current = run;
    slot.waiting--;
    run.begin(context);
  }

  function supersede(run: Run<T, R> | undefined): void {
    if (!run) return;
    run.slot.current = undefined;
    // One that has answered is left, not given up.
    if (!run.hasEnded) tell?.({ type: 'cancelled', lane: DEFAULT_LANE, count: 1 });
    run.stop();
  }

  /** A call has something to show; of one that is superseded, and maybe not stopped yet because a listener is being told, it is dropped. */
  function emit(run: Run<T, R>, value: R | Settled<T, R>): void {
    if (!run.isNewest) return;
    const isOutermost = !isBusy;
    isBusy = true;
    to.next(value);
    if (isOutermost) loop();
  }

  /** A call is over. As in `switchMap`, the result completes first and the inner stream is torn down afterwards. */
  function over(run: Run<T, R>, outcome: Outcome<R>): void {
    const { slot, item, index: at } = run;
    if (outcome.status === 'rejected' && !(told.settles && run.isNewest)) {
      if (run.isNewest) to.error(outcome.reason);
      else swallowed();
    } else if (told.settles) emit(run, { ...outcome, input: item, index: at, id: String(at), attempts: 1 });
    // What the consumer was handed may have superseded it.
    if (!run.isNewest) return;
    slot.current = undefined;
    if (slot.waiting === 0) slots.delete(slot.key);
    endWhenDone();
  }

  function swallowed(): void {
    tell?.({ type: 'swallowed', lane: DEFAULT_LANE });
  }

  function endWhenDone(): void {
    if (!isBusy && slots.size === 0) end?.();
  }
}

type Outcome<R> = Pick<Fulfilled<unknown, R>, 'status' | 'value'> | Pick<Rejected<unknown>, 'status' | 'reason'>;

/** Who is told of a call. */
interface Told<T, R> {
  readonly settles: boolean;
  readonly project: Project<T, R>;
  emit(run: Run<T, R>, value: R): void;
  over(run: Run<T, R>, outcome: Outcome<R>): void;
  swallowed(): void;
}

/** One call of `project`, and what its work is told. */
class Run<T, R> extends Call<R> implements ItemContext {
  constructor(
    readonly told: Told<T, R>,
    readonly slot: Slot<T, R>,
    readonly item: T,
    readonly index: number,
  ) {
    super();
  }

  get key(): unknown {
    return this.slot.key;
  }

  get isNewest(): boolean {
    return this.slot.current === this;
  }

  override get reading(): Reading {
    return this.told.settles ? 'value' : 'input';
  }

  work(): ObservableInput<R> | WorkResult<R> {
    return this.told.project(this.item, this);
  }

  override said(value: R, isWhole: boolean): void {
    if (this.told.settles) super.said(value, isWhole);
    else this.told.emit(this, value);
  }

  /** A stream of values ends before it is torn down, as in `switchMap`. */
  override completed(): void {
    if (this.told.settles) super.completed();
    else this.done(undefined as R);
  }

  override broken(error: unknown): void {
    if (this.told.settles) super.broken(error);
    else this.failed(error);
  }

  done(value: R): void {
    this.told.over(this, { status: 'fulfilled', value });
  }

  failed(reason: unknown): void {
    this.told.over(this, { status: 'rejected', reason });
  }

  override failedUnheard(): void {
    this.told.swallowed();
  }
}

import type { ObservableInput, OperatorFunction, ReadableStreamLike, SchedulerLike, Subscriber } from 'rxjs';
import { Observable } from 'rxjs';
import { captureContext } from '#async-context';
import { ask } from './options/ask.js';
import { SWITCH_LATEST } from './options/defaults.js';
import type { FlowSink } from './options/events.js';
import { EVENT_CHECKS, teller } from './options/events.js';
import { DEFAULT_LANE } from './options/lanes.js';
import { callback, checked, oneOf, requiredFunction } from './options/options.js';
import type { InputOutcome, ItemContext, Settled, WorkOutcome, WorkResult } from './options/types.js';
import type { AsyncContext } from './shell/calls/async-context.js';
import { inputOf, settledOf } from './shell/calls/call.js';
import type { CallOwner } from './shell/calls/owned-call.js';
import { OwnedCall } from './shell/calls/owned-call.js';
import { tearDown } from './shell/calls/report.js';
import { attach } from './shell/streams/connect.js';
import { schedulerOption } from './shell/time/scheduler.js';

const NAME = 'switchLatest';

/** @stable */
export interface SwitchLatestOptions<T> {
  /**
   * What becomes of a newest call that fails: `'propagate'` hands on values and ends with its error, `'settle'` makes one `Settled` of every newest
   * call, so that a failure is a result and the next item is still served. @defaultValue 'propagate'
   */
  readonly errors?: 'settle' | 'propagate';
  /** Switches within a key only: one newest call for each, and keys do not disturb each other. @defaultValue one for all */
  readonly key?: (item: T) => unknown;
  /**
   * Called with every item that a newer one has superseded, after its signal has aborted and before the newer call starts; also with one whose own call
   * never started, because a newer item came first. @defaultValue none
   */
  readonly onSuperseded?: (item: T) => void;
  /** At an error of the source: abort what is under way, or let it end first (`'drain'` and `'flush'` are the same here). @defaultValue 'abort' */
  readonly onSourceError?: 'flush' | 'abort' | 'drain';
  /** Clock of the events. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Listener for every cancelled call (`cancelled`) and late error (`swallowed`). @defaultValue none */
  readonly onEvent?: FlowSink;
  /** What events call this operator, as `instance`. @defaultValue a number of its own */
  readonly name?: string;
}

/**
 * Starts a call for every item and cancels the one before: the newest wins, and the superseded call's signal aborts.
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
 * - **Holds at most** one call for each key, and what the consumer itself sends into the source while it is handed a value.
 * - **Drops** nothing but what superseded calls still say.
 * - **Completes when** the source has completed and the last calls have ended.
 * - **Errors when** the source, a newest call or `project` errors, with that same error (the last two not with `errors: 'settle'`); when `key` or `onSuperseded`
 *   throws (`CallbackError`).
 * - **On unsubscribe** every call's signal aborts, then it is unsubscribed from. The same happens to a superseded call before the
 *   next one starts. The signal of a promise that has answered stays as it is: the answer may be a body that is still to be read.
 *
 * A call starts in the asynchronous context in which its item was sent. What `project` returns is read as RxJS's `from` does: a list is its items.
 * With `errors: 'settle'` every newest call has one result, `Settled`, with its last value: an answer that is no promise and no stream is the value
 * itself. A promise cannot be unsubscribed from: pass `context.signal` to whatever makes it. One that ignores its signal runs on, and is paid
 * for, but its result is dropped.
 *
 * @stable
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
export function switchLatest<T, R, W = never>(
  project: ((item: T, context: ItemContext) => WorkResult<R>) | ((item: T, context: ItemContext) => W),
  options: SwitchLatestOptions<T> & { readonly errors: 'settle' },
): OperatorFunction<T, Settled<T, WorkOutcome<R, W>>>;
export function switchLatest<T, R, W extends ObservableInput<unknown> = never>(
  project: ((item: T, context: ItemContext) => ObservableInput<R>) | ((item: T, context: ItemContext) => W),
  options?: SwitchLatestOptions<T> & { readonly errors?: 'propagate' },
): OperatorFunction<T, InputOutcome<R, W>>;
export function switchLatest<
  T,
  R,
  W extends Observable<unknown> | PromiseLike<unknown> | AsyncIterable<unknown> | ReadableStreamLike<unknown> = never,
>(
  project:
    | ((item: T, context: ItemContext) => Observable<R> | PromiseLike<R> | AsyncIterable<R> | ReadableStreamLike<R>)
    | ((item: T, context: ItemContext) => W),
  options: SwitchLatestOptions<T>,
): OperatorFunction<T, InputOutcome<R, W> | Settled<T, InputOutcome<R, W>>>;
export function switchLatest<T, R>(project: Project<T, R>, options: SwitchLatestOptions<T> = {}): OperatorFunction<T, R | Settled<T, R>> {
  const settings = readOptions(requiredFunction(NAME, 'project', project), options);
  return (source) =>
    new Observable((subscriber) => {
      switchInto(settings, source, subscriber);
    });
}

type Project<T, R> = (item: T, context: ItemContext) => ObservableInput<R> | WorkResult<R>;
type Settings<T, R> = ReturnType<typeof readOptions<T, R>>;

function readOptions<T, R>(project: Project<T, R>, options: SwitchLatestOptions<T>) {
  const settings = checked(NAME, options, SWITCH_LATEST, {
    errors: oneOf('settle', 'propagate'),
    onSourceError: oneOf('flush', 'abort', 'drain'),
    key: callback,
    onSuperseded: callback,
    scheduler: schedulerOption,
    ...EVENT_CHECKS,
  });
  return { ...settings, project };
}

/**
 * One subscription. One loop starts the calls: what the consumer, `key` or `project` sends into the source meanwhile supersedes at once, and is started
 * when the loop comes round.
 */
function switchInto<T, R>(settings: Settings<T, R>, source: Observable<T>, to: Subscriber<R | Settled<T, R>>): void {
  const { errors, key: keyOf, onSourceError, onSuperseded, project, scheduler } = settings;
  const tell = teller(NAME, settings, () => scheduler.now());
  const settles = errors === 'settle';
  const newest: Newest<Run<T, R>> = keyOf ? new Map() : new One();
  /** What waits for the loop. */
  const later: Run<T, R>[] = [];
  let isBusy = false;
  let isEnding = false;
  let index = 0;
  /** How it ends, once the source has. */
  let end: (() => void) | undefined;

  const owner: RunOwner<T, R> = {
    settles,
    work: (run) => project(run.input, run),
    got: emit,
    done: (run, value) => {
      if (settles) emit(run, resultOf(run, false, value));
      over(run);
    },
    failed: (run, reason) => {
      if (!isNewest(run)) swallowed();
      else if (settles) emit(run, resultOf(run, true, reason));
      else fail(reason);
      over(run);
    },
    swallowed,
  };

  attach<T>(source, to, {
    next: (item) => {
      // With the first item: the link to the source is torn down before the calls, as in `switchMap`.
      if (index === 0) to.add(stop);
      const run = new Run(owner, item, index++);
      if (isBusy || keyOf) {
        enqueue(run);
        return;
      }
      isBusy = true;
      start(run);
      loop();
    },
    error: (error) => {
      end = () => {
        fail(error);
      };
      if (onSourceError === 'abort') end();
      else endWhenDone();
    },
    complete: () => {
      end = () => {
        to.complete();
      };
      endWhenDone();
    },
  });

  function enqueue(run: Run<T, R>): void {
    run.context = captureContext();
    const isOutermost = !isBusy;
    isBusy = true;
    // Before its key is asked for: what that sends comes behind it.
    later.push(run);
    try {
      run.key = keyOf && ask(NAME, 'key', keyOf, run.input);
    } catch (error) {
      fail(error);
    }
    // What `key` itself has sent is newer.
    if (later.at(-1) !== run && isOld(run)) run.stop();
    if (isOutermost) loop();
    // At once: the rest of what it emits synchronously is old already.
    else supersede(run.key);
  }

  function stop(): void {
    const cleanUp = (): void => {
      for (const key of newest.keys()) leave(key);
    };
    // At an end of its own, what a teardown throws has no other way than to be reported.
    if (isEnding) cleanUp();
    else tearDown(cleanUp);
  }

  function fail(error: unknown): void {
    isEnding = true;
    to.error(error);
  }

  /** A loop, so that a consumer which feeds its own source cannot overflow the stack. */
  function loop(): void {
    while (later.length > 0) for (const run of later.splice(0)) start(run);
    isBusy = false;
    endWhenDone();
  }

  function start(run: Run<T, R>): void {
    if (run.isOpen) supersede(run.key);
    // A listener that heard of the end of the old call may have made the consumer leave, or sent a newer item.
    if (to.closed) return;
    if (!run.isOpen || isOld(run)) {
      cancelled();
      superseded(run);
      return;
    }
    newest.set(run.key, run);
    run.begin(run.context);
  }

  function supersede(key: unknown): void {
    const run = leave(key);
    if (run && !run.hasEnded) superseded(run);
  }

  /** Leaves the newest call of a key. */
  function leave(key: unknown): Run<T, R> | undefined {
    const run = newest.get(key);
    if (!run) return undefined;
    newest.delete(key);
    // A call that has answered is left, not cancelled.
    if (!run.hasEnded) cancelled();
    run.stop();
    return run;
  }

  function superseded({ input }: Run<T, R>): void {
    if (!onSuperseded || to.closed) return;
    try {
      ask(NAME, 'onSuperseded', onSuperseded, input);
    } catch (error) {
      fail(error);
    }
  }

  function cancelled(): void {
    tell?.({ type: 'cancelled', lane: DEFAULT_LANE, count: 1 });
  }

  /** Whether a newer item of its key waits. */
  function isOld(run: Run<T, R>): boolean {
    return later.length > 0 && later.some((other) => other.index > run.index && other.key === run.key);
  }

  function isNewest(run: Run<T, R>): boolean {
    return newest.get(run.key) === run;
  }

  /** A call has something to show; of one that is superseded, and maybe not stopped yet because a listener is being told, it is dropped. */
  function emit(run: Run<T, R>, value: R | Settled<T, R>): void {
    if (!isNewest(run)) return;
    const isOutermost = !isBusy;
    isBusy = true;
    to.next(value);
    if (isOutermost) loop();
  }

  /** As in `switchMap`, the result completes first and the inner stream is torn down afterwards. */
  function over(run: Run<T, R>): void {
    // What the consumer was handed may have superseded it.
    if (!isNewest(run)) return;
    newest.delete(run.key);
    endWhenDone();
  }

  function swallowed(): void {
    tell?.({ type: 'swallowed', lane: DEFAULT_LANE });
  }

  function endWhenDone(): void {
    if (!isBusy && newest.size === 0) end?.();
  }
}

/** The newest call of each key. */
type Newest<R> = Pick<Map<unknown, R>, 'get' | 'set' | 'delete' | 'keys' | 'size'>;

/** The only one, where all items have the same key: half the time of a `Map`. */
class One<R> implements Pick<Newest<R>, 'get' | 'delete' | 'size'> {
  private run: R | undefined = undefined;

  get size(): 0 | 1 {
    return this.run ? 1 : 0;
  }

  get(): R | undefined {
    return this.run;
  }

  set(_key: unknown, run: R): never {
    this.run = run;
    return this as never;
  }

  delete(): boolean {
    this.run = undefined;
    return true;
  }

  keys(): never {
    return [undefined] as never;
  }
}

function resultOf<T, R>({ input, index }: Run<T, R>, failed: boolean, outcome: unknown): Settled<T, R> {
  return settledOf({ input, index, id: String(index), attempts: 1 }, failed, outcome);
}

interface RunOwner<T, R> extends CallOwner<Run<T, R>, R> {
  readonly settles: boolean;
  /** A cancelled call has failed. */
  swallowed(): void;
}

/** One call of `project`, and the context of its work. */
class Run<T, R> extends OwnedCall<R> implements ItemContext {
  key: unknown = undefined;
  /** Of the code that sent the item, when it starts later. */
  context: AsyncContext | undefined = undefined;

  constructor(
    protected override readonly owner: RunOwner<T, R>,
    readonly input: T,
    readonly index: number,
  ) {
    super(owner);
  }

  protected override streamIn(answer: unknown): Observable<R> | undefined {
    return this.owner.settles ? super.streamIn(answer) : inputOf(answer);
  }

  /** A result is the last value. */
  override got(value: R): void {
    if (this.owner.settles) this.last = value;
    else super.got(value);
  }

  /** A stream that has ended is torn down when that was told, as in `switchMap`. */
  protected override leave(): void {
    if (!this.hasEnded) super.leave();
  }

  override failedLate(): void {
    this.owner.swallowed();
  }
}

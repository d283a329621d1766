import type { ObservableInput, OperatorFunction, ReadableStreamLike, SchedulerLike, Subscriber } from 'rxjs';
import { Observable } from 'rxjs';
import { captureContext } from '#async-context';
import { ask } from './options/ask.js';
import type { FlowSink } from './options/events.js';
import { EVENT_CHECKS, teller } from './options/events.js';
import { DEFAULT_LANE } from './options/lanes.js';
import { callback, checked, oneOf, requiredFunction } from './options/options.js';
import type { ItemContext, Settled, WorkResult } from './options/types.js';
import type { AsyncContext } from './shell/async-context.js';
import type { Reading } from './shell/call.js';
import { Call, settledOf } from './shell/call.js';
import { attach } from './shell/connect.js';
import { schedulerOption } from './shell/scheduler.js';

const NAME = 'switchLatest';

export interface SwitchLatestOptions<T> {
  /**
   * What becomes of a newest call that fails: `'propagate'` hands on values and ends with its error, `'settle'` makes one `Settled` of every newest
   * call, so that a failure is a result and the next item is still served. @defaultValue 'propagate'
   */
  readonly errors?: 'settle' | 'propagate';
  /** Switches within a key only: one newest call for each, and keys do not disturb each other. @defaultValue one for all */
  readonly key?: (item: T) => unknown;
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
 * - **Holds at most** one call for each key, and what the consumer itself sends into the source while it is handed a value.
 * - **Drops** nothing but what superseded calls still say.
 * - **Completes when** the source has completed and the last calls have ended.
 * - **Errors when** the source, a newest call or `project` errors, with that same error (the last two not with `errors: 'settle'`); when `key` throws (`CallbackError`).
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
  const settings = readOptions(requiredFunction(NAME, 'project', project), options);
  return (source) =>
    new Observable((subscriber) => {
      switchInto(settings, source, subscriber);
    });
}

type Project<T, R> = (item: T, context: ItemContext) => ObservableInput<R> | WorkResult<R>;
type Settings<T, R> = ReturnType<typeof readOptions<T, R>>;

function readOptions<T, R>(project: Project<T, R>, options: SwitchLatestOptions<T>) {
  const defaults = { errors: 'propagate', onSourceError: 'abort' } as const;
  const settings = checked(NAME, options, defaults, {
    errors: oneOf('settle', 'propagate'),
    onSourceError: oneOf('flush', 'abort', 'drain'),
    key: callback,
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
  const { errors, key: keyOf, onSourceError, project, scheduler } = settings;
  const tell = teller(NAME, settings, () => scheduler.now());
  const told: Told<T, R> = { settles: errors === 'settle', project, newest: new Map(), emit, over, swallowed };
  const { newest } = told;
  /** What waits for the loop. */
  const later: Run<T, R>[] = [];
  let isBusy = false;
  let index = 0;
  /** How it ends, once the source has. */
  let end: (() => void) | undefined;

  attach<T>(source, to, {
    next: (item) => {
      // With the first item: the link to the source is torn down before the calls, as in `switchMap`.
      if (index === 0) to.add(stop);
      const run = new Run(told, item, index++, captureContext());
      const isOutermost = !isBusy;
      isBusy = true;
      // Before its key is asked for: what that sends comes behind it.
      later.push(run);
      try {
        run.key = keyOf && ask(NAME, 'key', keyOf, item);
      } catch (error) {
        to.error(error);
      }
      // What `key` itself has sent is newer.
      if (later.at(-1) !== run && later.some((other) => other.index > run.index && other.key === run.key)) run.stop();
      if (isOutermost) loop();
      // At once: the rest of what it emits synchronously is old already.
      else supersede(run.key);
    },
    error: (error) => {
      if (onSourceError === 'abort') {
        to.error(error);
        return;
      }
      end = () => {
        to.error(error);
      };
      endWhenDone();
    },
    complete: () => {
      end = () => {
        to.complete();
      };
      endWhenDone();
    },
  });

  function stop(): void {
    for (const key of newest.keys()) supersede(key);
  }

  /** A loop, so that a consumer which feeds its own source cannot overflow the stack. */
  function loop(): void {
    while (later.length > 0) for (const run of later.splice(0)) start(run);
    isBusy = false;
    endWhenDone();
  }

  function start(run: Run<T, R>): void {
    if (!run.isOpen) return;
    supersede(run.key);
    // The signal of the old call may have made the consumer leave.
    if (to.closed) return;
    newest.set(run.key, run);
    run.begin(run.context);
  }

  function supersede(key: unknown): void {
    const run = newest.get(key);
    if (!run) return;
    newest.delete(key);
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
  function over(run: Run<T, R>, failed: boolean, outcome: unknown): void {
    const { input, index: at } = run;
    if (failed && !run.isNewest) swallowed();
    else if (told.settles) emit(run, settledOf<T, R>({ input, index: at, id: String(at), attempts: 1 }, failed, outcome));
    else if (failed) to.error(outcome);
    // What the consumer was handed may have superseded it.
    if (!run.isNewest) return;
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

/** Who is told of a call. */
interface Told<T, R> {
  readonly settles: boolean;
  readonly project: Project<T, R>;
  /** The newest call of each key. */
  readonly newest: Map<unknown, Run<T, R>>;
  emit(run: Run<T, R>, value: R): void;
  over(run: Run<T, R>, failed: boolean, outcome: unknown): void;
  swallowed(): void;
}

/** One call of `project`, and what its work is told. */
class Run<T, R> extends Call<R> implements ItemContext {
  key: unknown = undefined;

  constructor(
    readonly told: Told<T, R>,
    readonly input: T,
    readonly index: number,
    /** Of whoever sent the item: it may be started in a call of the consumer's. */
    readonly context: AsyncContext,
  ) {
    super();
  }

  get isNewest(): boolean {
    return this.told.newest.get(this.key) === this;
  }

  override get reading(): Reading {
    return this.told.settles ? 'value' : 'input';
  }

  work(): ObservableInput<R> | WorkResult<R> {
    return this.told.project(this.input, this);
  }

  override got(value: R, isWhole: boolean): void {
    if (this.told.settles) super.got(value, isWhole);
    else this.told.emit(this, value);
  }

  /** A stream that has ended is torn down when that was told, as in `switchMap`. */
  protected override leave(): void {
    if (!this.hasEnded) super.leave();
  }

  done(value: R): void {
    this.told.over(this, false, value);
  }

  failed(reason: unknown): void {
    this.told.over(this, true, reason);
  }

  override failedLate(): void {
    this.told.swallowed();
  }
}

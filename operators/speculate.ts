import type { ObservableInput, SchedulerLike, Subscriber } from 'rxjs';
import { from, Observable, Subscription } from 'rxjs';
import type { AsyncContext } from '#async-context';
import { captureContext } from '#async-context';
import { Backlog } from './kernel/queues/line.js';
import { boundsOf, room } from './kernel/waiting/bounds.js';
import { ask } from './options/ask.js';
import { SPECULATE } from './options/defaults.js';
import type { FlowSink } from './options/events.js';
import { EVENT_CHECKS, teller } from './options/events.js';
import { DEFAULT_LANE } from './options/lanes.js';
import { checked, count, durationMs, requiredFunction } from './options/options.js';
import type { WorkOutcome, WorkResult } from './options/types.js';
import type { CallOwner } from './shell/calls/owned-call.js';
import { OwnedCall } from './shell/calls/owned-call.js';
import { attach } from './shell/streams/connect.js';
import { stream } from './shell/streams/notifier.js';
import { trampoline } from './shell/streams/trampoline.js';
import { schedulerOption } from './shell/time/alarm.js';
import { after } from './shell/time/timer.js';

const NAME = 'speculate';

/** Context of a run. */
export interface SpeculateContext {
  /** Aborts when the prediction turned out wrong or too old, or the subscriber has left. */
  readonly signal: AbortSignal;
  /** True when the run was started on a prediction: nothing it does may be visible before it is confirmed. */
  readonly isSpeculative: boolean;
}

type Work<C, R> = (call: C, context: SpeculateContext) => R;

/** @beta */
export interface SpeculateOptions<P, T> {
  /** Calls that are likely to come; each is run at once. Its completion is ignored, its error is the result's. */
  readonly predict: ObservableInput<P>;
  /** Calls that are really wanted; each has a result. */
  readonly confirm: ObservableInput<T>;
  /** Whether the predicted call is the confirmed one, so that its result may stand for it. */
  readonly match: (predicted: P, confirmed: T) => boolean;
  /** Longest a predicted call runs, or its result is kept, without being confirmed, in ms. @defaultValue 30000 */
  readonly ttlMs?: number;
  /** Most predicted calls at a time; one more replaces the oldest. @defaultValue 1 */
  readonly concurrency?: number;
  /** Most values kept of one predicted call; one more gives it up. @defaultValue 1000 */
  readonly maxQueued?: number;
  /** Clock and timer. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Listener for predicted calls that are cancelled (`cancelled`), too old (`expired`), too long (`dropped`) or failed (`swallowed`). @defaultValue none */
  readonly onEvent?: FlowSink;
  /** What events call it, as `instance`. @defaultValue a number of its own */
  readonly name?: string;
}

/**
 * Runs a predicted call early and keeps its result until the call is confirmed: what was guessed right has no wait, and what was
 * guessed wrong is never seen.
 *
 * ```text marbles/speculate
 * predict  -a-----------!
 * confirm  ------a------|
 *          speculate(run, { predict, confirm, match })
 * a         ---1--2--3|
 * result   ------12--3--|
 * ```
 *
 * - **Emits when** a call is confirmed: the values of its predicted run so far, then its further values. Without a prediction that
 *   matches, the call is run now.
 * - **Holds at most** `maxQueued` values of each of `concurrency` predicted calls, and what the consumer itself predicts or confirms while it is
 *   handed a value.
 * - **Drops** the results of predicted calls that were not confirmed within `ttlMs`. A confirmation cancels every prediction it does not match, a
 *   prediction too many the oldest one; the same prediction again (`Object.is`) keeps its call, and the time it has left.
 * - **Completes when** `confirm` has completed and the confirmed calls have ended.
 * - **Errors when** `predict`, `confirm` or a confirmed call errors, with that same error; when `match` throws (`CallbackError`). A predicted
 *   call that fails before it is confirmed is forgotten, and run again when it is.
 * - **On unsubscribe** every call's signal aborts, its results are dropped and the timer is cleared.
 *
 * @beta
 * @param run - Makes a call, predicted or confirmed. A predicted one must have no effect that a user can see. Promises, Observables, async iterables
 *   and streams are awaited; anything else is the result.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when `run` is no function, or an option is missing, unknown or out of range.
 * @example
 * ```ts
 * import { of, Subject } from 'rxjs';
 * import { speculate } from 'sluice/operators';
 *
 * const guessed = new Subject<string>();
 * const asked = new Subject<string>();
 * const log: string[] = [];
 * const search = (text: string) => {
 *   log.push(`search ${text}`);
 *   return of(`found ${text}`);
 * };
 * speculate(search, { predict: guessed, confirm: asked, match: (guess, text) => guess === text }).subscribe((line) => log.push(line));
 * guessed.next('cats');
 * log.push('nothing is shown');
 * asked.next('cats');
 * log; // => ['search cats', 'nothing is shown', 'found cats']
 * ```
 * @see {@link hedge} when the call is certain and only slow.
 * @see {@link switchLatest} when nothing has to be held back.
 */
export function speculate<T, R, P = T, W = never>(
  run: Work<P | T, WorkResult<R>> | Work<P | T, W>,
  options: SpeculateOptions<P, T>,
): Observable<WorkOutcome<R, W>>;
export function speculate<T, R, P = T>(run: Work<P | T, WorkResult<R>>, options: SpeculateOptions<P, T>): Observable<R> {
  requiredFunction(NAME, 'run', run);
  const settings = readOptions(options);
  return new Observable((subscriber) => {
    speculateInto(run, settings, subscriber);
  });
}

type Settings<P, T> = ReturnType<typeof readOptions<P, T>>;

function readOptions<P, T>(options: SpeculateOptions<P, T>) {
  const settings = checked(NAME, options, SPECULATE, {
    predict: stream,
    confirm: stream,
    match: requiredFunction,
    ttlMs: durationMs,
    concurrency: count,
    maxQueued: count,
    scheduler: schedulerOption,
    ...EVENT_CHECKS,
  });
  return { ...settings, bounds: boundsOf(settings) };
}

/** One subscription. What is predicted or confirmed while the consumer, or a listener, is busy with something else waits its turn. */
function speculateInto<P, T, R>(work: Work<P | T, WorkResult<R>>, settings: Settings<P, T>, to: Subscriber<R>): void {
  const { predict, confirm, match, ttlMs, concurrency, bounds, scheduler } = settings;
  const enqueue = trampoline(to);
  const tell = teller(NAME, settings, () => scheduler.now());
  /** Runs that are not confirmed, oldest first. */
  const guesses = new Set<Run<P | T, R>>();
  /** Confirmed runs under way. */
  const confirmed = new Set<Run<P | T, R>>();
  /** The values for the consumer. */
  const ready = new Backlog<() => void>();
  let isTelling = false;
  /** Nothing will be confirmed any more. */
  let isDone = false;

  const owner: CallOwner<Run<P | T, R>, R> = {
    work: (run) => work(run.call, run),
    got: (run, value) => {
      if (confirmed.has(run)) {
        say(() => {
          to.next(value);
        });
      } else if (room(bounds, run.held.push(value)) < 0) {
        // Forgotten first: a listener may confirm the very call.
        forget(run);
        tell?.({ type: 'dropped', lane: DEFAULT_LANE, policy: 'maxQueued' });
        run.stop();
      }
    },
    done: (run) => {
      run.isDone = true;
      confirmed.delete(run);
      completeIfOver();
    },
    failed: (run, error) => {
      if (confirmed.delete(run)) {
        say(() => {
          to.error(error);
        });
        return;
      }
      // A prediction that could not be run says nothing about the real call: that one is made when it is confirmed.
      forget(run);
      tell?.({ type: 'swallowed', lane: DEFAULT_LANE });
    },
  };

  to.add(() => {
    // A confirmed run that has answered already is not counted as cancelled.
    giveUp([...guesses, ...[...confirmed].filter((run) => run.isOpen)]);
  });
  // Predictions first: of two synchronous streams, they have to be there when their call is confirmed.
  attach(from(predict), to, {
    next: (predicted) => {
      act(speculateOn, predicted, captureContext());
    },
    error: fail,
    complete: () => undefined,
  });
  attach(from(confirm), to, {
    next: (wanted) => {
      act(confirmCall, wanted, captureContext());
    },
    error: fail,
    complete: () => {
      act(() => {
        isDone = true;
        giveUp([...guesses]);
      });
    },
  });

  function act<A>(step: (one: A, context: AsyncContext) => void, one?: A, context?: AsyncContext): void {
    enqueue(step, one, context);
    completeIfOver();
  }

  function completeIfOver(): void {
    if (isDone && confirmed.size === 0 && !enqueue.isBusy) to.complete();
  }

  function fail(error: unknown): void {
    to.error(error);
  }

  function speculateOn(predicted: P, context: AsyncContext): void {
    if (isDone || [...guesses].some(({ call }) => Object.is(call, predicted))) return;
    const [oldest] = guesses;
    if (oldest && guesses.size >= concurrency) giveUp([oldest]);
    // A listener may have made the consumer leave, and so may a signal.
    if (to.closed) return;
    const run = new Run<P | T, R>(owner, predicted, true);
    guesses.add(run);
    run.timer = after(scheduler, ttlMs, () => {
      act(expire, run);
    });
    run.begin(context);
  }

  function expire(run: Run<P | T, R>): void {
    if (!forget(run)) return;
    tell?.({ type: 'expired', lane: DEFAULT_LANE, deadlineMs: ttlMs });
    run.stop();
  }

  function confirmCall(wanted: T, context: AsyncContext): void {
    const found = [...guesses].find(({ call }) => ask(NAME, 'match', match, call as P, wanted));
    // A guess that has failed meanwhile, or is about to tell how it ended, is made again.
    const isGuessed = found !== undefined && forget(found) && (found.isOpen || found.isDone);
    const run = isGuessed ? found : new Run<P | T, R>(owner, wanted, false);
    for (const value of run.held) {
      ready.push(() => {
        to.next(value);
      });
    }
    if (run.isOpen) confirmed.add(run);
    giveUp([...guesses]);
    if (to.closed) return;
    if (isGuessed) handOn();
    else run.begin(context);
  }

  /** Inside a turn as well, or a run that emits at once for ever would never be left; but not while the consumer has a value in hand. */
  function say(step: () => void): void {
    ready.push(step);
    if (isTelling) return;
    if (enqueue.isBusy) handOn();
    else act(handOn);
  }

  function handOn(): void {
    isTelling = true;
    for (let step = ready.shift(); step; step = ready.shift()) step();
    isTelling = false;
  }

  function forget(run: Run<P | T, R>): boolean {
    run.timer.unsubscribe();
    return guesses.delete(run);
  }

  function giveUp(runs: readonly Run<P | T, R>[]): void {
    if (runs.length === 0) return;
    for (const run of runs) forget(run);
    tell?.({ type: 'cancelled', lane: DEFAULT_LANE, count: runs.length });
    for (const run of runs) run.stop();
  }
}

/** One run of a call, predicted or confirmed; also the context of its work. */
class Run<C, R> extends OwnedCall<R> implements SpeculateContext {
  /** What it has said before it was confirmed. */
  readonly held: R[] = [];
  /** It has completed: all that it says is in `held`. */
  isDone = false;
  /** Ends a prediction. */
  timer = Subscription.EMPTY;

  constructor(
    owner: CallOwner<Run<C, R>, R>,
    readonly call: C,
    readonly isSpeculative: boolean,
  ) {
    super(owner);
  }
}

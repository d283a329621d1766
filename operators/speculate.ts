import type { ObservableInput, SchedulerLike, Subscriber } from 'rxjs';
import { from, Observable } from 'rxjs';
import { captureContext } from '#async-context';
import { Ring } from './kernel/queues/ring.js';
import { ask } from './options/ask.js';
import type { FlowSink, Note } from './options/events.js';
import { EVENT_CHECKS, teller } from './options/events.js';
import { DEFAULT_LANE } from './options/lanes.js';
import { callback, checked, count, durationMs, ofKeys, requiredFunction } from './options/options.js';
import type { WorkResult } from './options/types.js';
import { Alarm, schedulerOption } from './shell/alarm.js';
import { Call } from './shell/call.js';
import { connect } from './shell/connect.js';
import { stream } from './shell/notifier.js';
import type { Trampoline } from './shell/trampoline.js';
import { trampoline } from './shell/trampoline.js';

const NAME = 'speculate';

/** What a run is told. */
export interface SpeculateContext {
  /** Aborts when the prediction turned out wrong or too old, or nobody wants the result any more. */
  readonly signal: AbortSignal;
  /** True when the run was started on a prediction: nothing it does may be visible before it is confirmed. */
  readonly isSpeculative: boolean;
}

export interface SpeculateOptions<P, T, R> {
  /** Calls that are likely to come; each is run at once. Its completion is ignored, its error is the result's. */
  readonly predict: ObservableInput<P>;
  /** Calls that are really wanted; each has a result. */
  readonly confirm: ObservableInput<T>;
  /** Whether the predicted call is the confirmed one, so that its result may stand for it. */
  readonly match: (predicted: P, confirmed: T) => boolean;
  /** Whether a prediction says the same as one before it, whose call is then kept and not made again. @defaultValue `Object.is` */
  readonly isEqual?: (predicted: P, again: P) => boolean;
  /** What a call is about, say its conversation: calls of different keys do not disturb each other. @defaultValue one for all */
  readonly key?: (call: P | T) => unknown;
  /**
   * Makes a call, predicted or confirmed. A predicted one must have no effect that anybody can see. Promises, Observables, async iterables and
   * streams are awaited; anything else is the result.
   */
  readonly run: (call: P | T, context: SpeculateContext) => WorkResult<R>;
  /** Longest a predicted call runs, or its result is kept, without being confirmed, in ms. @defaultValue 30000 */
  readonly ttlMs?: number;
  /** Most predicted calls of a key at a time; one more replaces the oldest. @defaultValue 1 */
  readonly maxInFlight?: number;
  /** More predicted calls than `maxInFlight` for each of so many keys replace the oldest of all. Needs a `key`. @defaultValue 1000 */
  readonly maxKeys?: number;
  /** Most values kept of one predicted call; one more gives it up. @defaultValue 1000 */
  readonly maxHeld?: number;
  /** Clock and timer. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Told of predicted calls given up (`cancelled`), too old (`expired`), too long (`dropped`) or failed (`swallowed`). @defaultValue none */
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
 *          speculate({ predict, confirm, match, run })
 * a         ---1--2--3|
 * result   ------12--3--|
 * ```
 *
 * - **Emits when** a call is confirmed: what its predicted run has said so far, then what it goes on to say. Without a prediction that
 *   matches, the call is run now.
 * - **Holds at most** `maxHeld` values of each of `maxInFlight` predicted calls (of a key), and what the consumer itself predicts or confirms while
 *   it is handed a value.
 * - **Drops** the results of predicted calls that were not confirmed within `ttlMs`. A confirmation gives up every prediction (of its key) it does not
 *   match, a prediction too many the oldest one; one that says the same again keeps its call, and the time it has left.
 * - **Completes when** `confirm` has completed and the confirmed calls have ended.
 * - **Errors when** `predict`, `confirm` or a confirmed call errors, with that same error; when `match`, `isEqual` or `key` throws (`CallbackError`). A
 *   predicted call that fails before it is confirmed is forgotten, and run again when it is.
 * - **On unsubscribe** every call's signal aborts, its results are dropped and the timer is cleared.
 *
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is missing, unknown or out of range.
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
 * speculate({ predict: guessed, confirm: asked, match: (guess, text) => guess === text, run: search }).subscribe((line) => log.push(line));
 * guessed.next('cats');
 * log.push('nothing is shown');
 * asked.next('cats');
 * log; // => ['search cats', 'nothing is shown', 'found cats']
 * ```
 * @see {@link hedge} when the call is certain and only slow.
 * @see {@link switchLatest} when nothing has to be held back.
 */
export function speculate<T, R, P = T>(options: SpeculateOptions<P, T, R>): Observable<R> {
  const { predict, confirm, ...settings } = readOptions(options);
  return new Observable((subscriber) => {
    const speculator = new Speculator<P, T, R>(settings, subscriber);
    subscriber.add(() => {
      speculator.stop();
    });
    // Predictions first: of two synchronous streams, they have to be there when their call is confirmed.
    connect(from(predict), subscriber, {
      next: (predicted) => {
        speculator.predict(predicted);
      },
      complete: () => undefined,
    });
    connect(from(confirm), subscriber, {
      next: (confirmed) => {
        speculator.confirm(confirmed);
      },
      complete: () => {
        speculator.complete();
      },
    });
  });
}

type Settings<P, T, R> = Omit<ReturnType<typeof readOptions<P, T, R>>, 'predict' | 'confirm'>;

function readOptions<P, T, R>(options: SpeculateOptions<P, T, R>) {
  const settings = checked(
    NAME,
    options,
    { isEqual: Object.is, ttlMs: 30_000, maxInFlight: 1, maxKeys: 1000, maxHeld: 1000 },
    {
      predict: stream,
      confirm: stream,
      match: requiredFunction,
      isEqual: requiredFunction,
      key: callback,
      run: requiredFunction,
      ttlMs: durationMs,
      maxInFlight: count,
      maxKeys: count,
      maxHeld: count,
      scheduler: schedulerOption,
      ...EVENT_CHECKS,
    },
  );
  ofKeys(NAME, 'maxKeys', options.maxKeys, settings.key !== undefined, settings.maxKeys);
  return settings;
}

/** Who hears of a run. */
interface Owner<R> {
  toldMore(run: Run<R>): void;
  failed(run: Run<R>, error: unknown): void;
}

/** One subscription of `speculate`. What the consumer predicts or confirms while it is handed a value waits its turn. */
class Speculator<P, T, R> implements Owner<R> {
  readonly #settings: Settings<P, T, R>;
  readonly #tellEvent: ((note: Note) => void) | undefined;
  readonly #to: Subscriber<R>;
  readonly #alarm: Alarm;
  /** Runs that are not confirmed, oldest first. */
  readonly #open = new Map<Run<R>, { readonly predicted: P; readonly key: unknown; readonly expiresAt: number }>();
  /** Confirmed runs under way. */
  readonly #confirmed = new Set<Run<R>>();
  readonly #enqueue: Trampoline;
  /** Whether the consumer is being handed a value. */
  #telling = false;
  #done = false;

  constructor(settings: Settings<P, T, R>, to: Subscriber<R>) {
    this.#settings = settings;
    this.#to = to;
    this.#tellEvent = teller(NAME, settings, () => this.#alarm.now());
    this.#enqueue = trampoline(to);
    this.#alarm = new Alarm(settings.scheduler, () => {
      this.#do(() => {
        this.#expire();
      });
    });
  }

  predict(predicted: P): void {
    this.#doHere(() => {
      if (!this.#done) this.#speculate(predicted);
    });
  }

  confirm(confirmed: T): void {
    this.#doHere(() => {
      this.#confirm(confirmed);
    });
  }

  /** Nothing will be confirmed any more. */
  complete(): void {
    this.#do(() => {
      const unconfirmed = [...this.#open.keys()];
      this.#done = true;
      this.#open.clear();
      this.#alarm.clear();
      this.#giveUp(unconfirmed);
    });
  }

  stop(): void {
    // Whoever leaves with an answer gives nothing up.
    const running = [...this.#open.keys(), ...[...this.#confirmed].filter((run) => !run.hasEnded)];
    this.#alarm.clear();
    this.#open.clear();
    this.#confirmed.clear();
    this.#giveUp(running);
  }

  /** A run has more to show than is handed on. */
  toldMore(run: Run<R>): void {
    if (this.#confirmed.has(run)) {
      this.#tell(() => {
        this.#handOn(run);
      });
    } else if (run.held.length > this.#settings.maxHeld) {
      // Forgotten first: a listener may confirm the very call.
      this.#forget(run);
      this.#tellEvent?.({ type: 'dropped', lane: DEFAULT_LANE, policy: 'maxHeld' });
      run.stop();
    }
  }

  failed(run: Run<R>, error: unknown): void {
    if (this.#confirmed.delete(run)) {
      this.#tell(() => {
        this.#handOn(run);
        this.#to.error(error);
      });
      return;
    }
    // A prediction that could not be run says nothing about the real call: that one is made when it is confirmed.
    this.#forget(run);
    this.#tellEvent?.({ type: 'swallowed', lane: DEFAULT_LANE });
  }

  /** In the asynchronous context of now, also when it has to wait its turn. */
  #doHere(command: () => void): void {
    const context = captureContext();
    this.#do(() => {
      context.run(command, undefined);
    });
  }

  #do(command: () => void): void {
    this.#enqueue(command);
    if (this.#done && !this.#enqueue.isBusy && this.#confirmed.size === 0 && !this.#to.closed) this.#to.complete();
  }

  /** Inside a turn as well, or a run that emits at once for ever would never be left; but not while the consumer has a value in hand. */
  #tell(command: () => void): void {
    if (this.#enqueue.isBusy && !this.#telling) command();
    else this.#do(command);
  }

  #speculate(predicted: P): void {
    const { isEqual, maxInFlight, maxKeys, ttlMs } = this.#settings;
    const key = this.#keyOf(predicted);
    const alike = this.#predictionsOf(key);
    if (alike.some(([, before]) => ask(NAME, 'isEqual', isEqual, before.predicted, predicted))) return;
    // A callback may have made the consumer leave, and so may a signal.
    if (this.#to.closed) return;
    const [oldest] = alike.length >= maxInFlight ? alike : this.#open.size >= maxInFlight * maxKeys ? this.#open : [];
    if (oldest !== undefined) {
      this.#open.delete(oldest[0]);
      this.#giveUp([oldest[0]]);
      if (this.#to.closed as boolean) return;
    }
    const run = new Run<R>(this, true, (context) => this.#settings.run(predicted, context));
    this.#open.set(run, { predicted, key, expiresAt: this.#alarm.now() + ttlMs });
    this.#arm();
    run.begin();
  }

  #confirm(confirmed: T): void {
    const { match } = this.#settings;
    const guesses = this.#predictionsOf(this.#keyOf(confirmed));
    const found = guesses.find(([, { predicted }]) => ask(NAME, 'match', match, predicted, confirmed))?.[0];
    const wrong = guesses.flatMap(([run]) => (run === found ? [] : [run]));
    for (const [guess] of guesses) this.#open.delete(guess);
    this.#arm();
    const run = found ?? new Run<R>(this, false, (context) => this.#settings.run(confirmed, context));
    this.#confirmed.add(run);
    this.#giveUp(wrong);
    if (this.#to.closed) return;
    if (found === undefined) run.begin();
    else this.#handOn(run);
  }

  #keyOf(call: P | T): unknown {
    const { key } = this.#settings;
    return key && ask(NAME, 'key', key, call);
  }

  #predictionsOf(key: unknown) {
    return [...this.#open].filter(([, prediction]) => Object.is(prediction.key, key));
  }

  #handOn(run: Run<R>): void {
    this.#telling = true;
    while (run.held.length > 0) this.#to.next(run.held.shift() as R);
    this.#telling = false;
    if (run.isOver) this.#confirmed.delete(run);
  }

  #expire(): void {
    const { ttlMs } = this.#settings;
    const now = this.#alarm.now();
    for (const [run, { expiresAt }] of this.#open) {
      // They are in the order of their time, because all have the same.
      if (expiresAt > now) break;
      this.#open.delete(run);
      this.#tellEvent?.({ type: 'expired', lane: DEFAULT_LANE, deadlineMs: ttlMs });
      run.stop();
    }
    this.#arm();
  }

  #arm(): void {
    const [first] = this.#open.values();
    this.#alarm.set(first?.expiresAt ?? Infinity);
  }

  #forget(run: Run<R>): void {
    this.#open.delete(run);
    this.#arm();
  }

  #giveUp(runs: readonly Run<R>[]): void {
    if (runs.length === 0) return;
    this.#tellEvent?.({ type: 'cancelled', lane: DEFAULT_LANE, count: runs.length });
    for (const run of runs) run.stop();
  }
}

/** One run of a call: what it is told, and what it has said so far. */
class Run<R> extends Call<R> implements SpeculateContext {
  /** What it said and nobody was told. */
  readonly held = new Ring<R>();
  isOver = false;

  constructor(
    readonly owner: Owner<R>,
    readonly isSpeculative: boolean,
    private readonly run: (context: SpeculateContext) => WorkResult<R>,
  ) {
    super();
  }

  work(): WorkResult<R> {
    return this.run(this);
  }

  override got(value: R): void {
    this.held.push(value);
    this.owner.toldMore(this);
  }

  done(): void {
    this.isOver = true;
    this.owner.toldMore(this);
  }

  failed(error: unknown): void {
    this.isOver = true;
    this.owner.failed(this, error);
  }
}

import type { ObservableInput, SchedulerLike } from 'rxjs';
import { from, Observable } from 'rxjs';
import type { FlowSink } from './options/events.js';
import { listener } from './options/events.js';
import { checked, count, durationMs, required } from './options/options.js';
import type { WorkResult } from './options/types.js';
import { schedulerOption } from './shell/alarm.js';
import { connect } from './shell/connect.js';
import { stream } from './shell/notifier.js';
import type { SpeculateContext } from './support/racing/speculator.js';
import { Speculator } from './support/racing/speculator.js';

export type { SpeculateContext } from './support/racing/speculator.js';

export interface SpeculateOptions<P, T, R> {
  /** Calls that are likely to come; each is run at once. Its completion is ignored, its error is the result's. */
  readonly predict: ObservableInput<P>;
  /** Calls that are really wanted; each has a result. */
  readonly confirm: ObservableInput<T>;
  /** Whether the predicted call is the confirmed one, so that its result may stand for it. */
  readonly match: (predicted: P, confirmed: T) => boolean;
  /**
   * Makes a call, predicted or confirmed. A predicted one must have no effect that anybody can see. Promises, Observables, async iterables and
   * streams are awaited; anything else is the result.
   */
  readonly run: (call: P | T, context: SpeculateContext) => WorkResult<R>;
  /** Longest a predicted call runs, or its result is kept, without being confirmed, in ms. @defaultValue 30000 */
  readonly ttlMs?: number;
  /** Most predicted calls at a time; one more replaces the oldest. @defaultValue 1 */
  readonly maxInFlight?: number;
  /** Most values kept of one predicted call; one more gives it up. @defaultValue 1000 */
  readonly maxHeld?: number;
  /** Clock and timer. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Told of predicted calls given up (`cancelled`), too old (`expired`), too long (`dropped`) or failed (`swallowed`). @defaultValue none */
  readonly onEvent?: FlowSink;
}

/** What {@link speculate} does when an option is left out. */
export const SPECULATE_DEFAULTS = { ttlMs: 30_000, maxInFlight: 1, maxHeld: 1000 } as const;

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
 * - **Holds at most** `maxHeld` values of each of `maxInFlight` predicted calls, and what the consumer itself predicts or confirms while
 *   it is handed a value.
 * - **Drops** the results of predicted calls that were not confirmed within `ttlMs`. A confirmation gives up every prediction it does not
 *   match, a prediction too many the oldest one.
 * - **Completes when** `confirm` has completed and the confirmed calls have ended.
 * - **Errors when** `predict`, `confirm` or a confirmed call errors, with that same error; when `match` throws (`CallbackError`). A
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

function readOptions<P, T, R>(options: SpeculateOptions<P, T, R>) {
  return checked('speculate', options, SPECULATE_DEFAULTS, {
    predict: stream,
    confirm: stream,
    match: required,
    run: required,
    ttlMs: durationMs,
    maxInFlight: count,
    maxHeld: count,
    scheduler: schedulerOption,
    onEvent: listener,
  });
}

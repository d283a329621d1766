/**
 * `sluice/operators/build`: what authors of operators and pipelines build with. The pipelines and adapters of this package import nothing else of the
 * operators than this and `sluice/operators`.
 */

import { accountOptions } from './create-account.js';
import { isAmount, unusable } from './options/answers.js';
import { drawnFrom, verdictOrFatal } from './options/ask.js';
import { listener } from './options/events.js';
import { RETRIED_HINTS } from './options/hints.js';
import { DEFAULT_LANE } from './options/lanes.js';
import { laneOption, limiterOption, requiredLimiter } from './options/limiter-option.js';
import { nearest } from './options/nearest.js';
import {
  callback,
  checked,
  count,
  countFromZero,
  durationMs,
  excludes,
  flag,
  group,
  madeBy,
  misused,
  needs,
  nonEmpty,
  oneOf,
  onlyKnown,
  optional,
  orDefault,
  positive,
  ratio,
  requiredFunction,
  unchecked,
} from './options/options.js';
import { retryRule } from './options/retry.js';
import { show } from './options/show.js';
import { requiredStore } from './options/store-option.js';
import { requiredSignal } from './shell/calls/abort.js';
import { isPromise } from './shell/calls/call.js';
import { retriesOption } from './shell/policy/retries.js';
import { concurrencyOption } from './shell/streams/notifier.js';
import { checkPullSource } from './shell/streams/pull.js';
import { schedulerOption } from './shell/time/alarm.js';

/**
 * Checks of options, and of what callbacks return: one home for all that an author asks of them. A check is `(operator, option, value)`; it returns the
 * value, or throws `FlowConfigError`, whose message names the function, the option, what was expected and the repair. No message contains the value of
 * an object or array.
 *
 * `check.options` runs a check for every option at once, fills in defaults and rejects unknown names. Numbers take Infinity for "no limit"; durations are
 * in ms. `undefined` counts as left out, `null` does not.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) from all but `isAmount`, `isPromise`, `nearest`, `show` and `verdict`; `drawn` throws CallbackError.
 * @example
 * ```ts
 * import { check } from 'sluice/operators/build';
 *
 * interface Options { readonly maxSize?: number; readonly deadlineMs?: number }
 * const read = (options: Options) =>
 *   check.options('createTranslator', options, { maxSize: 10, deadlineMs: Infinity }, { maxSize: check.count, deadlineMs: check.durationMs });
 * read({ maxSize: 5 }); // => { maxSize: 5, deadlineMs: Infinity }
 * let message = '';
 * try { read({ maxsize: 5 } as Options) } catch (error) { message = String(error) }
 * message; // => 'FlowConfigError: createTranslator: unknown option `maxsize`. Did you mean `maxSize`?'
 * ```
 */
export const check = {
  /** Rejects an option that `createAccount` does not have, but for names of your own. */
  account: accountOptions,
  /** A function, or nothing. */
  callback,
  /** A number of calls at a time, or an Observable of such numbers: one that emits something else errors. Or nothing. */
  concurrency: concurrencyOption,
  /** A whole number >= 1, or Infinity. */
  count,
  /** A whole number >= 0, or Infinity. */
  countFromZero,
  /** The lane of a limiter or queue without lanes, `'default'`. */
  defaultLane: DEFAULT_LANE,
  /** Calls a `random` option; throws CallbackError unless it returns a number from 0 to 1. */
  drawn: drawnFrom,
  /** A number of milliseconds >= 0, or Infinity. */
  durationMs,
  /** Rejects an option that cannot be combined with another one. */
  excludes,
  /** True or false. */
  flag,
  /** Options under one name: an object, or nothing. */
  group,
  /** Whether a value is a number >= 0. */
  isAmount,
  /** Whether a value is a promise, and not an Observable with a `then`. */
  isPromise,
  /** The `lane` option: a lane of the limiter, or nothing. */
  lane: laneOption,
  /** The `limiter` option: one made by `createLimiter` or `createAccount`, or nothing; not together with a `concurrency`. */
  limiter: limiterOption,
  /** The `onEvent` option; what the listener throws is ignored. */
  listener,
  /** Makes a check for values of one function, known by a method of theirs. */
  madeBy,
  /** Makes the error of an option that makes no sense: a problem, and a repair. */
  misused,
  /** The name that a misspelt one was probably meant to be. */
  nearest,
  /** Rejects an option that needs another one. */
  needs,
  /** A string with at least one character. */
  nonEmpty,
  /** Makes a check for one of these strings. */
  oneOf,
  /** Rejects unknown names, for an object without defaults. */
  onlyKnown,
  /** Makes a check for an option without a default. */
  optional,
  /** All options of a function: checked, with defaults, unknown names rejected. */
  options: checked,
  /** The value, or the default when it was left out. */
  orDefault,
  /** A number > 0, or Infinity. */
  positive,
  /** A list, an async iterable or a web stream. */
  pullSource: checkPullSource,
  /** A number from 0 to 1, or between bounds of its own. */
  ratio,
  /** A function. */
  requiredFunction,
  /** The `limiter` argument: one made by `createLimiter` or `createAccount`. */
  requiredLimiter,
  /** An AbortSignal, of any realm. */
  requiredSignal,
  /** The `retry` option, as the value that `policy` takes; undefined for false. */
  retries: retriesOption,
  /** Hints for `options`, for functions with a `limiter` and `retry`: what other libraries call them. */
  retriedHints: RETRIED_HINTS,
  /** The `retry` option with its defaults; undefined for false. */
  retry: retryRule,
  /** An RxJS scheduler. Default: `asyncScheduler`. */
  scheduler: schedulerOption,
  /** A value as an error message may show it: short, and never a payload. */
  show,
  /** A store of credit: `ask`, `correct` and `hold`. */
  store: requiredStore,
  /** Accepts anything, for an option that is checked elsewhere. */
  unchecked,
  /** Makes the CallbackError of an answer that cannot be used. */
  unusable,
  /** Calls a `classify` option; one that throws or answers nonsense makes the failure final. */
  verdict: verdictOrFatal,
};

export type { HeaderReader } from './kernel/limits/headers.js';
export { headerReader } from './kernel/limits/headers.js';
export { ask } from './options/ask.js';
export type { Teller } from './options/events.js';
export { teller } from './options/events.js';
export { onAbort } from './shell/calls/abort.js';
export type { Evidence } from './shell/calls/error-evidence.js';
export { evidenceOf } from './shell/calls/error-evidence.js';
export { report } from './shell/calls/report.js';
export type { Shutdown, ShutdownHost } from './shell/calls/shutdown.js';
export { ShutdownHandle } from './shell/calls/shutdown.js';
export { AbortCalls } from './shell/calls/signal-groups.js';
export { listenTo } from './shell/limiter/listeners.js';
export { connect } from './shell/streams/connect.js';
export type { Pull } from './shell/streams/pull.js';
export { openPull } from './shell/streams/pull.js';
export { selectFrom } from './shell/streams/snapshot-store.js';
export { streamOf } from './shell/streams/stream-of.js';
export type { Trampoline } from './shell/streams/trampoline.js';
export { trampoline } from './shell/streams/trampoline.js';
export { Alarm } from './shell/time/alarm.js';

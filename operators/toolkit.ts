/** What operators are made with, for the pipelines and adapters of this package: checks, clocks, ways to start and end work. */

export { boundedHintMs, headerReader } from './kernel/limits/headers.js';
export { isWithinShare, refusalDelayMs, retryDelayMs } from './kernel/repair/backoff.js';
export { fieldOf } from './kernel/repair/field-of.js';
export { Refusals } from './kernel/repair/refusals.js';
export { mayPass } from './kernel/repair/verdict.js';
export { isAmount, unusable } from './options/answers.js';
export { ask, drawnFrom, verdictOrFatal } from './options/ask.js';
export { EVENT_CHECKS, instanceOf, listener, safeSink, teller } from './options/events.js';
export { checkedLanes, DEFAULT_LANE } from './options/lanes.js';
export { laneOption, limiterOption, requiredLimiter } from './options/limiter-option.js';
export {
  callback,
  checked,
  count,
  countFromZero,
  durationMs,
  flag,
  group,
  madeBy,
  nonEmpty,
  oneOf,
  onlyKnown,
  optional,
  orDefault,
  positive,
  ratio,
  requiredFunction,
  startingRate,
  unchecked,
} from './options/options.js';
export { mostThrottledMs, retryRule } from './options/retry.js';
export { show } from './options/show.js';
export { abortReason, LazySignal, onAbort, requiredSignal } from './shell/abort.js';
export { Alarm, schedulerOption } from './shell/alarm.js';
export { batchConfig } from './shell/batch-options.js';
export { Call, isPromise } from './shell/call.js';
export { attach, connect } from './shell/connect.js';
export { currentReader, readBy } from './shell/demand.js';
export { evidenceOf, isA, linksOf } from './shell/error-evidence.js';
export { lastOf } from './shell/last-value.js';
export { limiterName, listenTo } from './shell/limiter/listeners.js';
export { boundedTo, whenGivenUp } from './shell/limiter/ticket.js';
export { createPace } from './shell/pace.js';
export { checkPullSource, openPull } from './shell/pull.js';
export { report } from './shell/report.js';
export { Shutdown, ShutdownHandle } from './shell/shutdown.js';
export { AbortCalls } from './shell/signal-groups.js';
export { selected } from './shell/snapshot-store.js';
export { streamOf } from './shell/stream-of.js';
export { trampoline } from './shell/trampoline.js';

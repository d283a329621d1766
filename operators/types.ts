/** The types that the pipelines and adapters of this package share with its operators. */

export type { Breaker, WatchedBreaker } from './options/breaker.js';
export type { FlowEvent, FlowSink } from './options/events.js';
export type { Cost, Lease, LeaseContext, Limiter, LimiterJob, LimiterSnapshot } from './options/limiter.js';
export type { Bidder, Place } from './options/permits.js';
export type { RetryOptions, RetryRule } from './options/retry.js';
export type {
  BatchResult,
  CallContext,
  Classify,
  Drained,
  DrainOptions,
  ErrorClass,
  Handle,
  LaneOptions,
  ResponseLike,
  Settled,
  Usage,
  Verdict,
  WorkOutcome,
  WorkResult,
} from './options/types.js';
export type { AsyncContext, ContextVariable } from './shell/async-context.js';
export type { BatchWork, GateOptions } from './shell/batch-options.js';
export type { PullSource, ReadableStreamLike } from './shell/pull.js';

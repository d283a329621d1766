export type { AdaptiveLimitOptions, LimitRule, LimitSample, LimitState, OverloadClass } from './adaptive-limit.js';
export { adaptiveLimit } from './adaptive-limit.js';
export type { BackpressureOptions } from './backpressure.js';
export { backpressure } from './backpressure.js';
export type { BatchOptions, BatchState } from './batch.js';
export { batch } from './batch.js';
export type { BatchMapOptions } from './batch-map.js';
export { batchMap } from './batch-map.js';
export type { BatchMapFromOptions } from './batch-map-from.js';
export { batchMapFrom } from './batch-map-from.js';
export type { BulkheadMapOptions } from './bulkhead-map.js';
export { bulkheadMap } from './bulkhead-map.js';
export { childOf } from './child-of.js';
export { classifyError } from './classify-error.js';
export type { CoalesceOptions } from './coalesce.js';
export { coalesce } from './coalesce.js';
export type { ConflateWhileBusyOptions } from './conflate-while-busy.js';
export { conflateWhileBusy } from './conflate-while-busy.js';
export type { AccountOptions, AccountRates, ModelLimits } from './create-account.js';
export { createAccount } from './create-account.js';
export type {
  Batcher,
  BatcherOptions,
  BatcherSnapshot,
  LoadOptions,
} from './create-batcher.js';
export { createBatcher } from './create-batcher.js';
export type {
  Breaker,
  BreakerContext,
  BreakerOptions,
  BreakerSnapshot,
  BreakerState,
  CircuitState,
  CloseRule,
  CountedClass,
  OpenRule,
} from './create-breaker.js';
export { createBreaker } from './create-breaker.js';
export type { Intake, IntakeOptions, IntakeSnapshot, OfferOptions } from './create-intake.js';
export { createIntake } from './create-intake.js';
export { createLimiter } from './create-limiter.js';
export type { FromHeadersOptions } from './from-headers.js';
export { fromHeaders } from './from-headers.js';
export type { StreamLike } from './from-stream.js';
export { fromStream } from './from-stream.js';
export type { HedgeAttempt, HedgeContext, HedgeOptions } from './hedge.js';
export { hedge } from './hedge.js';
export { heldBy } from './held-by.js';
export type { ReserveRule } from './kernel/limits/limit.js';
export type { ItemNote } from './kernel/machine/batch-host.js';
export type { GrantQueue, KeyTurn, LaneRule, Queue, QueueRule, Waiter } from './kernel/queues/queue.js';
export type { BackoffOptions } from './kernel/repair/backoff.js';
export type { FailedJob, Failure, Origin, Repair, RepairNote, Search } from './kernel/repair/rule.js';
export type { KeyedJob, KeyedLimiter, KeyedLimiterOptions } from './keyed-limiter.js';
export { keyedLimiter } from './keyed-limiter.js';
export type { ByCostOptions, KeyFairness, LanesOptions } from './lanes.js';
export { byCost, lanes, roundRobin, strictWithFloor, weighted } from './lanes.js';
export type { LoadCache, LruCacheOptions } from './lru-cache.js';
export { lruCache } from './lru-cache.js';
export type { LaneBatch, LaneOverflow, MergeLane, MergeLanesOptions } from './merge-lanes.js';
export { mergeLanes } from './merge-lanes.js';
export type { CloseWhen } from './options/ask.js';
export type { BudgetExceededError, FlowErrorCode, FlowErrors, UnfinishedToolCallError } from './options/errors.js';
export {
  AttemptTimeoutError,
  BatchShapeError,
  BreakerOpenError,
  CallbackError,
  ClosedError,
  DeadlineError,
  FlowConfigError,
  FlowError,
  GuardRefusedError,
  ItemTooHeavyError,
  isFlowError,
  LaneUnknownError,
  NestedAcquireError,
  OverflowError,
  RateLimitError,
  RetryShareError,
  SequenceError,
  SplitLimitError,
} from './options/errors.js';
export type { FlowEvent, FlowEventBody, FlowEventHeader, FlowSink, FlushReason } from './options/events.js';
export type * from './options/limiter.js';
export type { PartRules, SplitItem } from './options/oversize.js';
export type { Bidder, Permit, Permits, Place } from './options/permits.js';
export type * from './options/types.js';
export type { Order } from './orders.js';
export { inputOrder, orderPerKey } from './orders.js';
export type { DayStart } from './per-day.js';
export { perDay } from './per-day.js';
export type { Fallback, FallbackContext, Policy, PolicyCallOptions, PolicyContext, PolicyOptions, PolicyWork } from './policy.js';
export { policy } from './policy.js';
export type { RateLimitOptions } from './rate-limit.js';
export { rateLimit } from './rate-limit.js';
export type { Quota, RateOptions } from './rates.js';
export { perMinute, slidingWindow, tokenBucket } from './rates.js';
export type {
  DivideOptions,
  DivideStrategy,
  RepairRule,
  RetryOptions,
  RobustOptions,
  SequentialSearchOptions,
} from './repair.js';
export { divideAndConquer, retryFailed, robust, sequentialSearch } from './repair.js';
export type { ResequenceOptions } from './resequence.js';
export { resequence } from './resequence.js';
export type { Guard, SettleAllOptions } from './settle-all.js';
export { settleAll } from './settle-all.js';
export type { BatchWork, GateOptions, Repairs, Window, WindowContext } from './shell/batch-options.js';
export type { BatchStreamOptions } from './shell/batch-stream.js';
export type { ItemOptions } from './shell/item-options.js';
export type { PullSource, ReadableStreamLike } from './shell/pull.js';
export type { SpeculateContext, SpeculateOptions } from './speculate.js';
export { speculate } from './speculate.js';
export type { SplitItemOptions } from './split-item.js';
export { splitItem } from './split-item.js';
export type { SwitchLatestOptions } from './switch-latest.js';
export { switchLatest } from './switch-latest.js';
export type { ObservableIterable, ObservableIterator, ToAsyncIterableOptions } from './to-async-iterable.js';
export { toAsyncIterable } from './to-async-iterable.js';
export type { ToReadableStreamOptions } from './to-readable-stream.js';
export { toReadableStream } from './to-readable-stream.js';
export type { Store, StoreStatus, ToStoreOptions } from './to-store.js';
export { toStore } from './to-store.js';
export type { UnwrapOptions } from './unwrap.js';
export { unwrap } from './unwrap.js';
export { fixed, graded, natural } from './windows.js';

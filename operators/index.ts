export type { AdaptiveLimitOptions } from './adaptive-limit.js';
export { adaptiveLimit } from './adaptive-limit.js';
export type { BackpressureOptions } from './backpressure.js';
export { backpressure } from './backpressure.js';
export type { BatchOptions } from './batch.js';
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
  CacheMap,
} from './create-batcher.js';
export { createBatcher } from './create-batcher.js';
export type { Breaker, BreakerOptions, BreakerSnapshot } from './create-breaker.js';
export { createBreaker } from './create-breaker.js';
export type { Intake, IntakeOptions, IntakeSnapshot, OfferOptions } from './create-intake.js';
export { createIntake } from './create-intake.js';
export { createLimiter } from './create-limiter.js';
export type { FromHeadersOptions } from './from-headers.js';
export { fromHeaders } from './from-headers.js';
export type { StreamLike } from './from-stream.js';
export { fromStream } from './from-stream.js';
export type { HedgeOptions } from './hedge.js';
export { hedge } from './hedge.js';
export type { HedgingOptions } from './hedging.js';
export { hedging } from './hedging.js';
export { heldBy } from './held-by.js';
export type { GrantQueueRule, QueueRule } from './kernel/queues/queue.js';
export type { KeyedLimiter, KeyedLimiterOptions } from './keyed-limiter.js';
export { keyedLimiter } from './keyed-limiter.js';
export type { KeyFairness, LanesOptions } from './lanes.js';
export { byCost, lanes, roundRobin, strictWithFloor, weighted } from './lanes.js';
export type { LoadFromOptions } from './load-from.js';
export { loadFrom } from './load-from.js';
export type { LoadCache, LruCacheOptions } from './lru-cache.js';
export { lruCache } from './lru-cache.js';
export type { MemoryStore, MemoryStoreOptions } from './memory-store.js';
export { memoryStore } from './memory-store.js';
export type { LaneBatch, MergeLane, MergeLanesOptions } from './merge-lanes.js';
export { mergeLanes } from './merge-lanes.js';
export type {
  Credit,
  CreditCorrection,
  CreditCorrections,
  CreditLimit,
  CreditQuestion,
  CreditStore,
  CreditWait,
  SavedCredit,
  SharedOptions,
  SharedStore,
} from './options/credit-store.js';
export type { BudgetRefusal, FlowErrorCode } from './options/errors.js';
export {
  AttemptTimeoutError,
  BatchShapeError,
  BreakerOpenError,
  BudgetExceededError,
  CallbackError,
  ClosedError,
  DeadlineError,
  FlowConfigError,
  FlowError,
  GuardRefusedError,
  ItemTooHeavyError,
  isFlowError,
  JournalError,
  LaneUnknownError,
  NestedAcquireError,
  OverflowError,
  RateLimitError,
  RetryShareError,
  SequenceError,
  SplitLimitError,
  UnfinishedToolCallError,
} from './options/errors.js';
export type { FlowEvent, FlowSink } from './options/events.js';
export type {
  ChildLimiterOptions,
  Cost,
  LearnRule,
  Lease,
  LeaseHolder,
  Limiter,
  LimiterJob,
  LimiterOptions,
  LimiterSnapshot,
  ObserveOptions,
  RateRule,
  SavedLimits,
} from './options/limiter.js';
export type { SplitItem } from './options/oversize.js';
export type { Permits } from './options/permits.js';
export type {
  BatchResult,
  CallContext,
  Classify,
  ClassifyContext,
  ErrorClass,
  Fairness,
  Fulfilled,
  Handle,
  ItemContext,
  LaneOptions,
  NamedLanes,
  Overflow,
  Rejected,
  ResponseLike,
  Settled,
  Usage,
  Verdict,
  WorkOutcome,
  WorkResult,
} from './options/types.js';
export type { Order } from './orders.js';
export { inputOrder, orderPerKey } from './orders.js';
export { partitionSettled } from './partition-settled.js';
export type { DayStart } from './per-day.js';
export { perDay } from './per-day.js';
export type { HedgeRule, Policy, PolicyCallOptions, PolicyContext, PolicyGuard, PolicyGuardContext, PolicyOptions } from './policy.js';
export { policy } from './policy.js';
export { ranked } from './ranked.js';
export type { RateLimitOptions } from './rate-limit.js';
export { rateLimit } from './rate-limit.js';
export type { RateOptions } from './rates.js';
export { perMinute, slidingWindow, tokenBucket } from './rates.js';
export type {
  DivideOptions,
  DivideStrategy,
  RepairRule,
  RetryOptions,
  RobustOptions,
} from './repair.js';
export { classifyByStatus, divideAndConquer, retryFailed, robust, sequentialSearch } from './repair.js';
export type { ResequenceOptions } from './resequence.js';
export { resequence } from './resequence.js';
export type { Guard, SettleAllOptions } from './settle-all.js';
export { settleAll } from './settle-all.js';
export { shared, sharedStore } from './shared.js';
export type { BatchWork, Window, WindowContext } from './shell/batch/batch-options.js';
export type { LoadOptions } from './shell/batch/loads.js';
export type { PullSource } from './shell/streams/pull.js';
export type { SpeculateOptions } from './speculate.js';
export { speculate } from './speculate.js';
export { splitItem } from './split-item.js';
export type { SwitchLatestOptions } from './switch-latest.js';
export { switchLatest } from './switch-latest.js';
export type { ObservableIterable, ToAsyncIterableOptions } from './to-async-iterable.js';
export { toAsyncIterable } from './to-async-iterable.js';
export type { ToReadableStreamOptions } from './to-readable-stream.js';
export { toReadableStream } from './to-readable-stream.js';
export type { Store, StoreStatus, ToStoreOptions } from './to-store.js';
export { toStore } from './to-store.js';
export type { UnwrapOptions } from './unwrap.js';
export { unwrap } from './unwrap.js';
export { fixed, graded, natural } from './windows.js';

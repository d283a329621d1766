export type { BatchOptions, BatchState } from './batch.js';
export { BATCH_DEFAULTS, batch } from './batch.js';
export type { BatchMapOptions } from './batch-map.js';
export { BATCH_MAP_DEFAULTS, batchMap } from './batch-map.js';
export type { BatchMapFromOptions } from './batch-map-from.js';
export { BATCH_MAP_FROM_DEFAULTS, batchMapFrom } from './batch-map-from.js';
export type { BulkheadMapOptions } from './bulkhead-map.js';
export { BULKHEAD_MAP_DEFAULTS, bulkheadMap } from './bulkhead-map.js';
export { classifyError } from './classify-error.js';
export type { ConcatMapByOptions } from './concat-map-by.js';
export { CONCAT_MAP_BY_DEFAULTS, concatMapBy } from './concat-map-by.js';
export type { Batcher, BatcherOptions, BatcherSnapshot, LoadOptions } from './create-batcher.js';
export { createBatcher } from './create-batcher.js';
export type {
  Bidder,
  Cost,
  Lease,
  LeaseContext,
  Limiter,
  LimiterJob,
  LimiterLimits,
  LimiterOptions,
  LimiterSnapshot,
  Place,
} from './create-limiter.js';
export { createLimiter, LIMITER_DEFAULTS } from './create-limiter.js';
export type { DivideRetryContext, DivideRetryOptions } from './divide-retry.js';
export { DIVIDE_RETRY_DEFAULTS, divideRetry } from './divide-retry.js';
export type { ReadableLike, ReaderLike, StreamLike } from './from-stream.js';
export { fromStream } from './from-stream.js';
export type { HedgeAttempt, HedgeContext, HedgeOptions } from './hedge.js';
export { HEDGE_DEFAULTS, HedgeStats, hedge } from './hedge.js';
export type { LaneBatch, LaneOverflow, MergeLane, MergeLanesOptions } from './merge-lanes.js';
export { MERGE_LANES_DEFAULTS, mergeLanes } from './merge-lanes.js';
export type { Guard, SettleAllOptions } from './settle-all.js';
export { SETTLE_ALL_DEFAULTS, settleAll } from './settle-all.js';
export type { SpeculateContext, SpeculateOptions } from './speculate.js';
export { SPECULATE_DEFAULTS, speculate } from './speculate.js';
export type { BatchWork } from './support/batching/batch-engine.js';
export type { GatedBatchOptions, RetryOptions, SplitOptions, Window, WindowContext } from './support/batching/batch-options.js';
export * from './support/errors.js';
export type { FlowEvent, FlowSink, FlushReason } from './support/events.js';
export type { PullSource, ReadableStreamLike } from './support/pull.js';
export type { SlotOptions } from './support/slots/slot-options.js';
export type * from './support/types.js';
export type { SwitchLatestOptions } from './switch-latest.js';
export { SWITCH_LATEST_DEFAULTS, switchLatest } from './switch-latest.js';
export type { UnwrapOptions } from './unwrap.js';
export { unwrap } from './unwrap.js';

/** `createBatcher`, `divideRetry`, `mergeLanes`. */

export type {
  Batcher,
  BatcherOptions,
  CachedLoad,
  DivideRetryOptions,
  LaneBatch,
  LoadOptions,
  MergeLane,
  MergeLanesOptions,
} from '../../operators/index.js';
export { createBatcher, divideRetry, mergeLanes } from '../../operators/index.js';

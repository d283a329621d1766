/** Unstable: the pure decisions behind the operators, for those who build their own. */

export type { BackoffOptions } from './backoff.js';
export { backoffDelayMs, retryDelayMs } from './backoff.js';
export type { SearchLimits, SearchSpent, SearchStep } from './bad-item-search.js';
export { BadItemSearch } from './bad-item-search.js';
export type { Slotted } from './bag.js';
export { Bag } from './bag.js';
export { BatchKernel } from './batch-kernel.js';
export { DeadlineHeap } from './deadline-heap.js';
export type { DivideInput, DivideLimits, DividePlan } from './divide-plan.js';
export { dividePlan, trustedBlame } from './divide-plan.js';
export type { LaneFairness } from './fairness.js';
export { FaultWatch } from './fault-watch.js';
export type { KeyFairness, KeyLane } from './keyed-lanes.js';
export { KeyedLanes } from './keyed-lanes.js';
export type { Answer } from './lane-plan.js';
export type { FillLimits } from './lane-queue.js';
export { LaneQueue } from './lane-queue.js';
export { LaneSet } from './lane-set.js';
export { PriorityQueue } from './priority-queue.js';
export type { OrderedPlace } from './reorder-buffer.js';
export { ReorderBuffer } from './reorder-buffer.js';
export { Ring } from './ring.js';
export type { SequenceWait } from './sequence-buffer.js';
export { SequenceBuffer } from './sequence-buffer.js';
export { TokenBucket } from './token-bucket.js';

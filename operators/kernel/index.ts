/** Unstable: the pure decisions behind the operators, for those who build their own. */

export type { BackoffOptions } from './backoff.js';
export { backoffDelayMs, retryDelayMs } from './backoff.js';
export type { Slotted } from './bag.js';
export { Bag } from './bag.js';
export { BatchKernel } from './batch-kernel.js';
export { DeadlineHeap } from './deadline-heap.js';
export type { DivideInput, DivideLimits, DividePlan } from './divide-plan.js';
export { dividePlan } from './divide-plan.js';
export { LaneQueue } from './lane-queue.js';
export { Ring } from './ring.js';
export { TokenBucket } from './token-bucket.js';

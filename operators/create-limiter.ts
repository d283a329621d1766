import { FlowLimiter } from './support/limiting/limiter.js';
import type { Limiter, LimiterOptions } from './support/limiting/limiter-types.js';

export { LIMITER_DEFAULTS } from './support/limiting/limiter-options.js';
export type * from './support/limiting/limiter-types.js';

/**
 * One queue for everything an account limits: slots, requests per minute and tokens per minute. Waiting for the rate holds no
 * slot, urgent lanes go first, and nobody who arrives later with a smaller wish goes past the one whose turn it is.
 *
 * - **Grants when** a slot is free, both buckets can pay and nobody goes first: then at once, in the same call stack.
 * - **Holds at most** `maxQueued` waiting jobs, per lane when the lane says so; `acquireAsync` and `runAsync` wait for room. Without a bound
 *   (the default) it holds everything, and tells once when 10,000 wait.
 * - **Errors when** the queue overflows (`OverflowError`), the wait is too long or `maxQueued` is 0 (`RateLimitError`),
 *   a job can never be paid (`ItemTooHeavyError`) the limiter is cleared (`ClearedError`), or closed (`ClosedError`), which also ends the work of `run`.
 * - **On unsubscribe** a waiting job leaves and costs nothing; a lease that could not be delivered is released.
 *
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is out of range.
 * @example
 * ```ts
 * import { createLimiter } from 'sluice/operators';
 *
 * const limiter = createLimiter({ concurrency: 1, requestsPerMinute: 600 });
 * const first = limiter.tryAcquire();
 * limiter.tryAcquire(); // => undefined
 * first?.release();
 * limiter.snapshot().executing; // => 0
 * ```
 */
export function createLimiter(options: LimiterOptions = {}): Limiter {
  return new FlowLimiter(options);
}

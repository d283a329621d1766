import type { Limiter, LimiterOptions } from './options/limiter.js';
import { FlowLimiter } from './shell/limiter/limiter.js';
import { limiterSettings } from './shell/limiter/settings.js';

export type * from './options/limiter.js';

/**
 * One queue for everything an account limits: slots, and any number of rates over any window. Waiting for a rate holds no
 * slot, urgent lanes go first, and nobody who arrives later with a smaller wish goes past the one whose turn it is.
 *
 * - **Grants when** a slot is free, all rates can pay and nobody goes first: then at once, in the same call stack.
 * - **Holds at most** `maxQueued` waiting jobs, per lane when the lane says so; `acquireAsync` and `runAsync` wait for room. Without a bound
 *   (the default) it holds everything, and tells once when 10,000 wait.
 * - **Errors when** the queue overflows (`OverflowError`), the wait is longer than the job's `deadlineMs` (`DeadlineError`), there is no permit now and `maxQueued` or `deadlineMs` is 0 (`RateLimitError`),
 *   a job can never be paid (`ItemTooHeavyError`), the limiter is cleared or closed (`ClosedError`), which also ends the work of `run`.
 * - **On unsubscribe** a waiting job leaves and costs nothing; a lease that could not be delivered is released.
 *
 * What is not used costs nothing: rates (`perMinute`, `tokenBucket`, `slidingWindow`), `queue: lanes([...])`, `learn: fromHeaders()` are values,
 * {@link childOf} and {@link keyedLimiter} functions. `createAccount` has them all, from plain data.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is out of range.
 * @example
 * ```ts
 * import { createLimiter, perMinute } from 'sluice/operators';
 *
 * const limiter = createLimiter({ concurrency: 1, rates: [perMinute('requests', 600)] });
 * const first = limiter.tryAcquire();
 * limiter.tryAcquire(); // => undefined
 * first?.release();
 * limiter.snapshot().executing; // => 0
 * ```
 */
export function createLimiter(options: LimiterOptions = {}): Limiter {
  return new FlowLimiter(limiterSettings(options));
}

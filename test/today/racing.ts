/** Calls that race, and the rules of one call. */

export type { Breaker, BreakerOptions, PolicyContext, PolicyOptions } from '../../operators/index.js';
export { createBreaker, policy } from '../../operators/index.js';

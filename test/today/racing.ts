/** Calls that race, and the rules of one call. */

export type {
  Breaker,
  BreakerOptions,
  HedgeOptions,
  PolicyContext,
  PolicyOptions,
  SpeculateContext,
  SpeculateOptions,
  SwitchLatestOptions,
} from '../../operators/index.js';
export { createBreaker, HedgeStats, hedge, policy, speculate, switchLatest } from '../../operators/index.js';

/** Limiters and what drives or asks them. */

export type {
  AdaptiveLimitOptions,
  ChildLimiterOptions,
  Cost,
  Lease,
  Limiter,
  LimiterJob,
  LimiterOptions,
  LimitRule,
  LimitSample,
  LimitState,
  Outcome,
  Place,
  RateLimitOptions,
  Release,
} from '../../operators/index.js';
export { ADAPTIVE_LIMIT_DEFAULTS, adaptiveLimit, createLimiter, RATE_LIMIT_DEFAULTS, rateLimit } from '../../operators/index.js';

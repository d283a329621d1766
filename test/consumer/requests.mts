import { type Observable, of } from 'rxjs';
import {
  type Breaker,
  BreakerOpenError,
  type BreakerOptions,
  type BreakerSnapshot,
  createBreaker,
  createLimiter,
  type Policy,
  type PolicyCallOptions,
  type PolicyOptions,
  policy,
  retryFailed,
} from 'sluice/operators';

// createBreaker
const opens = { share: 0.5, minCalls: 20 };
const closes = { probes: 2, share: 0.5 };
export const waitMs = (error: unknown): number => (error instanceof BreakerOpenError ? error.retryAfterMs : 0);
const perCall: PolicyCallOptions = { job: { cost: { tokens: 5 } }, idempotent: false };

import { type Observable, of } from 'rxjs';
import {
  BREAKER_DEFAULTS,
  type Breaker,
  type BreakerCallOptions,
  type BreakerContext,
  BreakerOpenError,
  type BreakerOptions,
  type BreakerSnapshot,
  type CircuitState,
  type CountedClass,
  createBreaker,
  createLimiter,
  type Fallback,
  type FallbackContext,
  POLICY_DEFAULTS,
  type Policy,
  type PolicyCallOptions,
  type PolicyContext,
  type PolicyOptions,
  type PolicyWork,
  policy,
} from 'sluice/operators';

// createBreaker
const counts: readonly CountedClass[] = ['transient', 'fatal'];
const breakerOptions: BreakerOptions = { minCalls: BREAKER_DEFAULTS.minCalls, counts };
const breaker: Breaker = createBreaker(breakerOptions);
same<Observable<boolean>>()(breaker.run(({ signal }: BreakerContext) => of(signal.aborted)));
const callOptions: BreakerCallOptions = { signal: new AbortController().signal };
same<Promise<number>>()(breaker.runAsync(() => Promise.resolve(1), callOptions));
same<CircuitState>()(breaker.state);
same<BreakerSnapshot>()(breaker.snapshot());
export const waitMs = (error: unknown): number => (error instanceof BreakerOpenError ? error.retryAfterMs : 0);
// @ts-expect-error -- a cancelled call never counts
createBreaker({ counts: ['cancelled'] });

// policy
const fallback: Fallback<string> = (_error: unknown, { attempts, signal }: FallbackContext) => of(`${attempts} ${String(signal.aborted)}`);
const policyOptions: PolicyOptions<string> = {
  fallback,
  breaker,
  limiter: createLimiter(),
  retry: POLICY_DEFAULTS.retry,
  deadlineMs: 60_000,
};
const careful: Policy<string> = policy(policyOptions);
const work: PolicyWork<number> = ({ attempt, deadlineAt, lease, reconcile, observe }: PolicyContext) => {
  reconcile({ outputTokens: 5 });
  observe({ status: 200, headers: {} });
  lease?.settle({});
  return Promise.resolve(attempt + deadlineAt);
};
const perCall: PolicyCallOptions = { job: { cost: { tokens: 5 } }, idempotent: false };
same<Observable<number | string>>()(careful(work, perCall));
same<Observable<number>>()(policy()(work));

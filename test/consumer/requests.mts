import { type Observable, of } from 'rxjs';
import {
  type Breaker,
  type BreakerContext,
  BreakerOpenError,
  type BreakerOptions,
  type BreakerSnapshot,
  type BreakerState,
  type CircuitState,
  type CloseRule,
  type CountedClass,
  createBreaker,
  createLimiter,
  type Fallback,
  type FallbackContext,
  type OpenRule,
  type Policy,
  type PolicyCallOptions,
  type PolicyContext,
  type PolicyOptions,
  type PolicyWork,
  policy,
  retryFailed,
} from 'sluice/operators';

// createBreaker
const counts: readonly CountedClass[] = ['transient', 'fatal'];
const opens: OpenRule = { share: 0.5, minCalls: 20 };
const closes: CloseRule = { probes: 2, share: 0.5 };
const breakerOptions: BreakerOptions = { opens, closes, counts };
const breaker: Breaker = createBreaker(breakerOptions);
same<Observable<boolean>>()(breaker.run(({ signal }: BreakerContext) => of(signal.aborted)));
same<Promise<number>>()(breaker.runAsync(() => Promise.resolve(1)));
same<CircuitState>()(breaker.state);
same<BreakerSnapshot>()(breaker.snapshot());
same<BreakerState>()(breaker.save());
createBreaker({ opens: { inARow: 5 }, state: breaker.save() });
export const waitMs = (error: unknown): number => (error instanceof BreakerOpenError ? error.retryAfterMs : 0);
// @ts-expect-error -- a cancelled call never counts
createBreaker({ counts: ['cancelled'] });

// policy
const fallback: Fallback<string> = (_error: unknown, { attempts, signal }: FallbackContext) => of(`${attempts} ${String(signal.aborted)}`);
const policyOptions: PolicyOptions<string> = {
  fallback,
  breaker,
  limiter: createLimiter(),
  retry: retryFailed(),
  deadlineMs: 60_000,
};
const careful: Policy<string> = policy(policyOptions);
const work: PolicyWork<number> = ({ attempt, deadlineAt, lease, settle, observe }: PolicyContext) => {
  settle({ outputTokens: 5 });
  observe({ status: 200, headers: {} });
  lease?.settle({});
  return Promise.resolve(attempt + deadlineAt);
};
const perCall: PolicyCallOptions = { job: { cost: { tokens: 5 } }, idempotent: false };
same<Observable<number | string>>()(careful(work, perCall));
same<Observable<number>>()(policy()(work));

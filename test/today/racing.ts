/** Calls that race, and the rules of one call. */
import * as operators from '../../operators/index.js';
import { unstamped } from './events.js';

export type { Breaker } from '../../operators/index.js';

export interface BreakerOptions extends Omit<operators.BreakerOptions, 'opens' | 'closes'> {
  readonly failureRatio?: number;
  readonly minCalls?: number;
  readonly windowMs?: number;
  readonly probes?: number;
}
export function createBreaker(options: BreakerOptions = {}): operators.Breaker {
  const { failureRatio, minCalls, windowMs, probes, ...same } = unstamped(options);
  return operators.createBreaker({
    classify: operators.classifyError,
    ...same,
    opens: {
      ...(failureRatio !== undefined && { share: failureRatio }),
      ...(minCalls !== undefined && { minCalls }),
      ...(windowMs !== undefined && { windowMs }),
    },
    ...(probes !== undefined && { closes: { probes } }),
  });
}

export interface PolicyContext extends Omit<operators.PolicyContext, 'settle'> {
  readonly reconcile: operators.PolicyContext['settle'];
}
export interface PolicyOptions<F = never> extends Omit<operators.PolicyOptions<F>, 'retry' | 'timeoutMs'> {
  readonly retry?: operators.RetryOptions | false;
  readonly attemptTimeoutMs?: number;
}
/** Tries again unless told not to. */
export function policy<F = never>(options: PolicyOptions<F> = {}) {
  const { retry, attemptTimeoutMs, ...same } = unstamped(options);
  const careful = operators.policy<F>({
    classify: operators.classifyError,
    ...same,
    ...(retry !== false && { retry: operators.retryFailed({ budget: 0.2, ...retry }) }),
    ...(attemptTimeoutMs !== undefined && { timeoutMs: attemptTimeoutMs }),
  });
  return <R>(work: (context: PolicyContext) => operators.WorkResult<R>, call?: operators.PolicyCallOptions | number) =>
    careful<R>(
      typeof work === 'function'
        ? (context) => {
            Object.defineProperty(context, 'reconcile', { value: context.settle });
            return work(context as unknown as PolicyContext);
          }
        : work,
      call,
    );
}

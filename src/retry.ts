import type { RepairRule } from '../operators/repair.js';
import { retryFailed } from '../operators/repair.js';
import { retryRule } from '../operators/toolkit.js';
import type { RetryOptions } from '../operators/types.js';

/** Retries at a time as a share of the calls under way: a backend that is down must not be asked three times as often. */
const BUDGET = 0.2;

/** Retries by their options, or as the value that `policy` takes. */
export type Retry = RetryOptions | RepairRule | false;

/** The `retry` option of whatever makes calls, as the value that `policy` takes; undefined when it is turned off. @throws FlowConfigError */
export function retryOf(operator: string, retry: Retry | undefined, budget = BUDGET): RepairRule | undefined {
  if (typeof (Object(retry) as Partial<RepairRule>).failed === 'function') return retry as RepairRule;
  const rule = retryRule(operator, retry as RetryOptions | false | undefined, budget);
  return rule && retryFailed(rule);
}

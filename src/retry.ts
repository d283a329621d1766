import { check } from '../operators/build.js';
import type { RepairRule, RetryOptions } from '../operators/index.js';
import { retryFailed } from '../operators/index.js';

/** Retries at a time as a share of the calls under way: a backend that is down must not be asked three times as often. */
const BUDGET = 0.2;

/** Retries by their options, or as the value that `policy` takes. */
export type Retry = RetryOptions | RepairRule | false;

/** The `retry` option of whatever makes calls, as the value that `policy` takes; undefined when it is turned off. @throws FlowConfigError */
export function retryOf(operator: string, retry: Retry | undefined, budget = BUDGET, option = 'retry'): ReturnType<typeof check.retries> {
  if (isRule(retry)) return retry;
  return check.retries(operator, option, retry, budget);
}

/** The same as the value that batches take, without a budget. */
export function repairOf(operator: string, retry: Retry | undefined): RepairRule | undefined {
  if (isRule(retry)) return retry;
  const rule = check.retry(operator, 'retry', retry, Infinity);
  return rule && retryFailed(rule);
}

function isRule(retry: Retry | undefined): retry is RepairRule {
  return typeof (Object(retry) as Partial<RepairRule>).failed === 'function';
}

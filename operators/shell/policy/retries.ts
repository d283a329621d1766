import type { BackoffOptions } from '../../kernel/repair/backoff.js';
import { isWithinShare, refusalDelayMs, retryDelayMs } from '../../kernel/repair/backoff.js';
import type { FailedJob, RetryDecision } from '../../kernel/repair/rule.js';
import { mayPass } from '../../kernel/repair/verdict.js';
import { isOver } from '../../kernel/waiting/deadlines.js';
import { delayFrom } from '../../options/ask.js';
import { isFlowError, RetryShareError } from '../../options/errors.js';
import type { RetryOptions, RetryRule } from '../../options/retry.js';
import { mostThrottledMs, retryRule } from '../../options/retry.js';
import { deadlinePassed } from '../../options/waiting-errors.js';

/** The `retry` option of what makes calls, as the value that a policy takes; undefined when it is turned off. @throws FlowConfigError */
export function retriesOption(
  operator: string,
  option: string,
  retry: RetryOptions | false | undefined,
  maxShare: number,
): RetryDecision | undefined {
  const rule = retryRule(operator, option, retry, maxShare);
  return rule && retriesOf(rule);
}

/** A function says how long each pause is, and a number how the pauses grow. @throws CallbackError of `delayMs` */
function backoffAt(step: number, operator: string, { delayMs, maxMs, jitter }: RetryRule): BackoffOptions {
  return { delayMs: delayFrom(operator, delayMs, step), factor: typeof delayMs === 'function' ? 1 : 2, maxMs, jitter };
}

/** What `retryFailed` decides, without what batches need to act on it. */
export function retriesOf(rule: RetryRule): RetryDecision {
  return {
    failed: (failure) => {
      const { operator, verdict, error, attempt, now, jobs, executing, retrying, waiting, refusals, refusedMs } = failure;
      // The backend has refused the call, not a limiter of ours.
      const isRefusal = verdict.class === 'throttled' && !isFlowError(error);
      if (!mayPass(verdict) || (!isRefusal && attempt >= rule.maxAttempts)) return undefined;
      if (!isRefusal && !isWithinShare(retrying + waiting, executing + waiting, rule.maxShare)) {
        return { rejected: jobs.map((job) => ({ job, reason: new RetryShareError(operator, rule.maxShare, error) })) };
      }
      const step = isRefusal ? refusals : attempt;
      const delayMs = (isRefusal ? refusalDelayMs : retryDelayMs)(
        step,
        verdict.retryAfterMs,
        backoffAt(step, operator, rule),
        failure.draw(),
      );
      const isInTime = ({ deadlineAt }: FailedJob): boolean => !isOver(deadlineAt, now + delayMs);
      const mayWait = ({ deadlineAt }: FailedJob): boolean =>
        !isRefusal || refusedMs + delayMs <= mostThrottledMs(rule, deadlineAt < Infinity);
      const again = jobs.filter((job) => isInTime(job) && mayWait(job));
      const size = again.length;
      const next = isRefusal ? attempt : attempt + 1;
      const rejected = jobs
        .filter((job) => !isInTime(job) && mayWait(job))
        .map((job) => {
          const { deadlineAt, acceptedAt } = job;
          return { job, reason: deadlinePassed(operator, deadlineAt - acceptedAt, now - acceptedAt, failure.error) };
        });
      return {
        parts: size > 0 ? [again] : [],
        attempt: next,
        delayMs,
        // It is about the account, not about this batch.
        ...(verdict.class === 'throttled' && !verdict.isTierOnly && { pauseMs: delayMs }),
        isRefusal,
        rejected,
        note: size > 0 ? { type: 'retryScheduled', class: verdict.class, size, attempt: next, delayMs } : undefined,
      };
    },
  };
}

import { Observable } from 'rxjs';
import { classifyError } from '../../../operators/classify-error.js';
import { heldBy } from '../../../operators/held-by.js';
import type { AttemptPolicy, PolicyCallOptions, PolicyOptions } from '../../../operators/policy.js';
import { policyOf } from '../../../operators/policy.js';
import type { RepairRule } from '../../../operators/repair.js';
import { onlyKnown, orDefault, positive, schedulerOption, whenGivenUp } from '../../../operators/toolkit.js';
import type { Limiter, RetryOptions, WorkResult } from '../../../operators/types.js';
import { ledgerOf } from '../../account/ledger.js';
import type { CallKind } from '../../pipelines/limited.js';
import { permitAround, underPermit } from '../../pipelines/limited.js';
import { retryOf } from '../../retry.js';
import type { AccountedCall } from './call-job.js';
import type { EnteredAttempt } from './entered-attempt.js';
import { entering } from './entered-attempt.js';

type Same = 'limiter' | 'breaker' | 'whenOpen' | 'classify' | 'deadlineMs' | 'onEvent' | 'scheduler' | 'random';

/** What surrounds every call of an adapter. All attempts are ours: the client's own retries are off, or do not add to them. */
export interface CallRules extends Pick<PolicyOptions, Same> {
  /** When and how often a failed attempt is made again. @defaultValue 3 attempts, 200 ms doubling to 20 s with full jitter, a budget of 0.2 */
  readonly retry?: RetryOptions | RepairRule | false;
  /** Longest single attempt from its permit to its end, in ms; a stream's end, too. @defaultValue Infinity: the client has a time limit of its own */
  readonly timeoutMs?: number;
}

const SAME: readonly Same[] = ['limiter', 'breaker', 'whenOpen', 'classify', 'deadlineMs', 'onEvent', 'scheduler', 'random'];

const RULES: readonly (keyof CallRules)[] = [
  'limiter',
  'retry',
  'breaker',
  'whenOpen',
  'classify',
  'deadlineMs',
  'timeoutMs',
  'onEvent',
  'scheduler',
  'random',
];

/** What an adapter does when an option is left out; the rest is that of `policy`. */
export const CALL_RULES_DEFAULTS = { timeoutMs: Infinity } as const;

/** Makes calls of an adapter, with all attempts of each. */
export type CallPolicy = <R>(work: (attempt: EnteredAttempt) => WorkResult<R>, call: AccountedCall) => Observable<R>;

/**
 * The policy of an adapter, under its name.
 *
 * @param others - names of the options that are the adapter's own
 * @param kind - whether the calls are requests, or tools that may make some
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) when an option is unknown or out of range
 */
export function callPolicy(adapter: string, options: CallRules, others: readonly string[], kind: CallKind = 'request'): CallPolicy {
  onlyKnown(adapter, options, [...RULES, ...others]);
  const retry = retryOf(adapter, options.retry);
  const rules: Partial<Record<keyof PolicyOptions, unknown>> = {
    timeoutMs: positive(adapter, 'timeoutMs', orDefault(options.timeoutMs, CALL_RULES_DEFAULTS.timeoutMs)),
    classify: classifyError,
    ...(retry && { retry }),
  };
  for (const name of SAME) if (options[name] !== undefined) rules[name] = options[name];
  const policy = policyOf(adapter, rules as PolicyOptions);
  const { limiter, classify = classifyError } = options;
  const scheduler = schedulerOption(adapter, 'scheduler', options.scheduler);
  const enters = entering(adapter, { ledger: ledgerOf(limiter), classify, now: () => scheduler.now() });
  const ending: AttemptPolicy = limiter ? endingWith(adapter, kind, limiter, policy) : policy;
  return (work, { facts, ...call }) => ending(enters(work, facts), call);
}

/**
 * The same calls, which also end when the limiter is closed, or its time to drain is over: whoever has a client has no other handle. One that would
 * wait for a permit of the call that it is part of is refused.
 */
function endingWith(operator: string, kind: CallKind, limiter: Limiter, policy: AttemptPolicy): AttemptPolicy {
  return (work, call, id) => {
    const given: PolicyCallOptions = typeof call === 'object' ? call : {};
    const rules = { operator, kind, limiter, slots: given.job?.cost?.slots };
    return new Observable((subscriber) => {
      const around = permitAround(rules);
      const how = around ? { ...given, job: { ...given.job, holder: heldBy(around) } } : given;
      const calls = policy((attempt) => underPermit(rules, attempt.lease, () => work(attempt)), how, id);
      const giveUp = (error: unknown): void => {
        subscriber.error(error);
      };
      subscriber.add(whenGivenUp(limiter, giveUp));
      calls.subscribe(subscriber);
    });
  };
}

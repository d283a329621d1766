import { Observable } from 'rxjs';
import { classifyError } from '../../../operators/classify-error.js';
import type { AttemptPolicy, PolicyOptions } from '../../../operators/policy.js';
import { policyOf } from '../../../operators/policy.js';
import type { RepairRule } from '../../../operators/repair.js';
import { onlyKnown, orDefault, positive, whenGivenUp } from '../../../operators/toolkit.js';
import type { Limiter, RetryOptions } from '../../../operators/types.js';
import { retryOf } from '../../retry.js';

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

/**
 * The policy of an adapter, under its name.
 *
 * @param others - names of the options that are the adapter's own
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) when an option is unknown or out of range
 */
export function callPolicy(adapter: string, options: CallRules, others: readonly string[]): AttemptPolicy {
  onlyKnown(adapter, options, [...RULES, ...others]);
  const retry = retryOf(adapter, options.retry);
  const rules: Partial<Record<keyof PolicyOptions, unknown>> = {
    timeoutMs: positive(adapter, 'timeoutMs', orDefault(options.timeoutMs, CALL_RULES_DEFAULTS.timeoutMs)),
    classify: classifyError,
    ...(retry && { retry }),
  };
  for (const name of SAME) if (options[name] !== undefined) rules[name] = options[name];
  const policy = policyOf(adapter, rules as PolicyOptions);
  const { limiter } = options;
  return limiter ? endingWith(limiter, policy) : policy;
}

/** The same calls, which also end when the limiter is closed, or its time to drain is over: whoever has a client has no other handle. */
function endingWith(limiter: Limiter, policy: AttemptPolicy): AttemptPolicy {
  return (work, call, id) => {
    const calls = policy(work, call, id);
    return new Observable((subscriber) => {
      const giveUp = (error: unknown): void => {
        subscriber.error(error);
      };
      subscriber.add(whenGivenUp(limiter, giveUp));
      calls.subscribe(subscriber);
    });
  };
}

import { Observable } from 'rxjs';
import { check, listenTo } from '../../../operators/build.js';
import type {
  Limiter,
  Policy,
  PolicyCallOptions,
  PolicyContext,
  PolicyOptions,
  RepairRule,
  RetryOptions,
  WorkResult,
} from '../../../operators/index.js';
import { classifyError, heldBy, policy } from '../../../operators/index.js';
import { ledgerOf } from '../../account/ledger.js';
import type { CallKind } from '../../pipelines/limited.js';
import { permitAround, underPermit } from '../../pipelines/limited.js';
import { retryOf } from '../../retry.js';
import type { AccountedCall } from './accounted-call.js';
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
  check.onlyKnown(adapter, options, [...RULES, ...others], 'options', '', check.retriedHints);
  const retry = retryOf(adapter, options.retry);
  const rules: Partial<Record<keyof PolicyOptions, unknown>> = {
    timeoutMs: check.positive(adapter, 'timeoutMs', check.orDefault(options.timeoutMs, CALL_RULES_DEFAULTS.timeoutMs)),
    classify: classifyError,
    ...(retry && { retry }),
  };
  for (const name of SAME) if (options[name] !== undefined) rules[name] = options[name];
  const calls = policy({ ...rules, operator: adapter } as PolicyOptions);
  const { limiter, classify = classifyError } = options;
  const scheduler = check.scheduler(adapter, 'scheduler', options.scheduler);
  const enters = entering(adapter, { ledger: ledgerOf(limiter), classify, now: () => scheduler.now() });
  return (work, { facts, ...call }) => {
    const entered = enters(work, facts);
    return limiter ? endingWith({ operator: adapter, kind, limiter, calls }, entered, call) : calls(entered, call);
  };
}

interface Ending {
  readonly operator: string;
  readonly kind: CallKind;
  readonly limiter: Limiter;
  readonly calls: Policy;
}

/**
 * A call that also ends when the limiter is closed, or its time to drain is over: the user of a client has no other handle. One that would wait for a
 * permit of the call that it is part of is refused.
 */
function endingWith<R>(
  { calls, ...held }: Ending,
  work: (context: PolicyContext) => WorkResult<R>,
  call: PolicyCallOptions,
): Observable<R> {
  const rules = { ...held, slots: call.job?.cost?.slots };
  return new Observable((subscriber) => {
    const around = permitAround(rules);
    const how = around ? { ...call, job: { ...call.job, holder: heldBy(around) } } : call;
    const ended = (error: unknown): void => {
      subscriber.error(error);
    };
    subscriber.add(listenTo(held.limiter, { ended }));
    calls<R>((attempt) => underPermit(rules, attempt.lease, () => work(attempt)), how).subscribe(subscriber);
  });
}

import { FlowConfigError } from '../../../operators/errors.js';
import type { PolicyCallOptions } from '../../../operators/policy.js';
import { ask, callback, laneOption } from '../../../operators/toolkit.js';
import type { Cost, Limiter, LimiterJob } from '../../../operators/types.js';
import type { CallRules } from './call-rules.js';

/** What a call takes from the limiter. */
export interface JobRules<Q> extends CallRules {
  /** Lane of the limiter, or how to tell it from the request. @defaultValue the last, least urgent one */
  readonly lane?: string | ((request: Q) => string);
  /**
   * What a request takes from the limiter. @defaultValue one request, and the tokens of its prompts (estimated, 15 % more to be safe)
   * with those of the longest answer it allows
   */
  readonly cost?: (request: Q) => Cost;
}

/**
 * What a policy is told about a request: its job under the limiter, if there is one, and its signal.
 *
 * @param estimate - its tokens, when there is no `cost`
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) for a `lane` or a `cost` that is none, or has no limiter; what it returns throws
 *   CallbackError (`FLOW_CALLBACK`) when one of them does
 */
export function callOptionsOf<Q>(
  adapter: string,
  rules: JobRules<Q>,
  estimate: (request: Q, model?: string) => number,
): (request: Q, signal: AbortSignal | null | undefined, model?: string) => PolicyCallOptions {
  const { limiter, lane, cost } = rules;
  for (const name of ['lane', 'cost'] as const) needsLimiter(adapter, name, rules[name], limiter);
  const laneOf = typeof lane === 'function' ? lane : laneOption(adapter, lane, limiter);
  const given = callback(adapter, 'cost', cost);
  const costOf = (request: Q, model: string | undefined): Cost => (given ? given(request) : { tokens: estimate(request, model) });
  const jobOf = (request: Q, model: string | undefined): LimiterJob => ({
    ...(laneOf !== undefined && { lane: typeof laneOf === 'function' ? ask(adapter, 'lane', laneOf, request) : laneOf }),
    cost: ask(adapter, 'cost', () => costOf(request, model)),
  });
  return (request, signal, model) => ({ ...(limiter && { job: jobOf(request, model) }), ...(signal && { signal }) });
}

/** The `lane` of an adapter that knows but one, checked. @throws FlowConfigError */
export function onlyLane(adapter: string, lane: string | undefined, limiter: Limiter | undefined): string | undefined {
  const found = laneOption(adapter, lane, limiter);
  needsLimiter(adapter, 'lane', lane, limiter);
  return found;
}

function needsLimiter(adapter: string, option: string, value: unknown, limiter: Limiter | undefined): void {
  if (limiter === undefined && value !== undefined) throw new FlowConfigError(adapter, option, 'absent without a `limiter`', value);
}

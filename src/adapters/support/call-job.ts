import { ask } from '../../../operators/support/ask.js';
import { FlowConfigError } from '../../../operators/support/errors.js';
import { laneOption } from '../../../operators/support/limiting/limiter-option.js';
import type { Cost, LimiterJob } from '../../../operators/support/limiting/limiter-types.js';
import { callback } from '../../../operators/support/options.js';
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
 * The job of a request under the limiter; undefined without one.
 *
 * @param estimate - its tokens, when there is no `cost`
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) for a `lane` or a `cost` that is none, or has no limiter; what it returns throws
 *   CallbackError (`FLOW_CALLBACK`) when one of them does
 */
export function jobOf<Q>(adapter: string, rules: JobRules<Q>, estimate: (request: Q) => number): (request: Q) => LimiterJob | undefined {
  const { limiter, lane, cost } = rules;
  for (const name of ['lane', 'cost'] as const) {
    if (limiter === undefined && rules[name] !== undefined)
      throw new FlowConfigError(adapter, name, 'absent without a `limiter`', rules[name]);
  }
  const laneOf = typeof lane === 'function' ? lane : laneOption(adapter, lane, limiter);
  const costOf = callback(adapter, 'cost', cost) ?? ((request: Q): Cost => ({ tokens: estimate(request) }));
  return (request) =>
    limiter && {
      ...(laneOf !== undefined && { lane: typeof laneOf === 'function' ? ask(adapter, 'lane', laneOf, request) : laneOf }),
      cost: ask(adapter, 'cost', costOf, request),
    };
}

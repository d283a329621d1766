import { FlowConfigError } from './options/errors.js';
import type { ChildLimiterOptions, Limiter } from './options/limiter.js';
import { laneOption } from './options/limiter-option.js';
import { excludes, oneOf } from './options/options.js';
import { Places } from './shell/limiter/child.js';
import { FlowLimiter } from './shell/limiter/limiter.js';
import { limiterSettings } from './shell/limiter/settings.js';

const NAME = 'childOf';

/**
 * A limiter with limits of its own, whose leases also count in the one above: a model of an account, a tenant of a model. It gives a lease when
 * both can, and holds nothing of one while it waits for the other.
 *
 * - **Takes its turns** among the jobs of the limiter above, in the lane of the job that is next, in the order they came.
 * - **Shares** the clock of the limiter above, and its lanes if it has declared any; a `queue` of its own is only for a child of one without.
 * - **Enforces** its own limits, also below a limiter with `enforce: false`, unless it has that option as well.
 * - **Pauses, learns and overflows** by itself. Closing or draining the limiter above does the same to it.
 *
 * @stable
 * @param limiter - Made by `createLimiter`, `createAccount` or `childOf`.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when the limiter is none or an option is unknown or out of range.
 * @example
 * ```ts
 * import { childOf, createLimiter } from 'sluice/operators';
 *
 * const account = createLimiter({ concurrency: 8 });
 * const model = childOf(account, { concurrency: 1 });
 * const lease = model.tryAcquire();
 * model.tryAcquire(); // => undefined
 * account.executing; // => 1
 * lease?.release();
 * ```
 */
export function childOf(limiter: Limiter, options: ChildLimiterOptions = {}): Limiter {
  return limiterBelow(limiter, options, NAME);
}

/** @throws FlowConfigError */
export function limiterBelow(limiter: Limiter, options: ChildLimiterOptions, operator: string): FlowLimiter {
  // It may be one of another copy of this package.
  const { grants: parent } = Object(limiter) as Partial<FlowLimiter>;
  if (parent === undefined) throw new FlowConfigError(operator, 'limiter', 'a limiter made by createLimiter or createAccount', limiter);
  const { abortGraceMs, queue, scheduler } = parent.settings;
  const { lane, pauses = 'self', ...rest } = Object(options) as ChildLimiterOptions;
  laneOption(operator, 'lane', lane, limiter);
  oneOf('self', 'parent')(operator, 'pauses', pauses);
  const shared = { scheduler, ...(queue.isDeclared && lane === undefined && { queue }) };
  const own = limiterSettings(Object(options) === options ? { abortGraceMs, ...rest } : options, operator);
  for (const name of Object.keys(shared)) {
    excludes(
      operator,
      name,
      (options as Record<string, unknown>)[name],
      'a parent limiter that has one',
      `Remove it: the child uses the \`${name}\` of its parent.`,
    );
  }
  const child = new FlowLimiter({ ...own, ...shared }, (below) => new Places(parent, below, lane, pauses === 'parent'));
  child.parent = limiter;
  return child;
}

import { FlowConfigError } from './options/errors.js';
import type { ChildLimiterOptions, Limiter } from './options/limiter.js';
import { ChildLimiter } from './shell/limiter/child.js';
import type { FlowLimiter } from './shell/limiter/limiter.js';
import { limiterSettings, NAME } from './shell/limiter/settings.js';

/**
 * A limiter with limits of its own, whose leases also count in the one above: a model of an account, a tenant of a model. It gives a lease when
 * both can, and holds nothing of one while it waits for the other.
 *
 * - **Takes its turns** among the jobs of the limiter above, in the lane of the job that is next, in the order they came.
 * - **Shares** the clock of the limiter above, and its lanes if it has declared any; a `queue` of its own is only for a child of one without.
 * - **Enforces** its own limits, also below a limiter with `enforce: false`, unless it has that option as well.
 * - **Pauses, learns and overflows** by itself. Closing or draining the limiter above does the same to it.
 *
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
  return limiterBelow(limiter, options);
}

/** @throws FlowConfigError */
export function limiterBelow(limiter: Limiter, options: ChildLimiterOptions): FlowLimiter {
  const { settings } = Object(limiter) as Partial<FlowLimiter>;
  if (settings === undefined) throw new FlowConfigError('childOf', 'limiter', 'a limiter made by createLimiter', limiter);
  const { queue, scheduler } = settings;
  const shared = { scheduler, ...(queue.isDeclared && { queue }) };
  const own = limiterSettings(options);
  for (const name of Object.keys(shared)) {
    const given = (options as Record<string, unknown>)[name];
    if (given !== undefined) throw new FlowConfigError(NAME, name, 'absent: a child has that of its parent', given);
  }
  // eslint-disable-next-line @typescript-eslint/no-unsafe-class-instance-assignment -- it is one, or one of another copy of this package
  return new ChildLimiter(limiter as FlowLimiter, { ...own, ...shared });
}

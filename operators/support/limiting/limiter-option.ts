import { FlowConfigError } from '../errors.js';
import type { Limiter } from './limiter-types.js';

/** The `limiter` option of an operator: one made by `createLimiter`, in place of a `concurrency`, or none. */
export function limiterOption(operator: string, limiter: Limiter | undefined, concurrency?: unknown): Limiter | undefined {
  if (limiter === undefined) return undefined;
  if (concurrency !== undefined) throw new FlowConfigError(operator, 'concurrency', 'absent when a `limiter` is given', concurrency);
  if (typeof (limiter as Partial<Limiter> | null)?.enlist !== 'function')
    throw new FlowConfigError(operator, 'limiter', 'a limiter made by createLimiter', limiter);
  return limiter;
}

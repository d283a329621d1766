import type { Refusal } from '../kernel/waiting/bounds.js';
import { DeadlineError, OverflowError } from './errors.js';

/** The error of an entry that a bound refused or evicted. */
export function overflowed(operator: string, { limit, policy, bound }: Pick<Refusal, 'bound' | 'limit' | 'policy'>): OverflowError {
  return new OverflowError(operator, limit, policy, bound);
}

/** The error of an entry whose deadline is over; `elapsedMs` is the time since it was accepted. */
export function deadlinePassed(operator: string, deadlineMs: number, elapsedMs: number, cause?: unknown): DeadlineError {
  return new DeadlineError(operator, deadlineMs, elapsedMs, cause);
}

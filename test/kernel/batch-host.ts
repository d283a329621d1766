import type { BatchHost, Capacity } from '../../operators/kernel/index.js';
import { ItemFailure } from '../../operators/kernel/index.js';

/** Slots without end, and no limit of tokens. */
export const FREE: Capacity = { concurrency: Infinity, executing: 0, load: 0, tokenCapacity: Infinity, borrows: true };

/** A host that knows errors by a word, hears nothing and does nothing; `given` is what a test wants otherwise. */
export function hostOf<T, R>(given: Partial<BatchHost<T, R>> = {}): BatchHost<T, R> {
  const nothing = (): void => undefined;
  return {
    operator: 'test',
    permits: FREE,
    tell: undefined,
    windowMs: () => 0,
    deadlineError: () => 'late',
    overflowError: () => 'over',
    timeoutError: () => 'timeout',
    shapeError: (expected, received, problem) => problem ?? `${String(received)} of ${String(expected)}`,
    overflowed: nothing,
    pause: nothing,
    stop: nothing,
    ended: nothing,
    ...given,
  };
}

/** The answer of a call with these outcomes, one for each of its items. */
export function answerOf<R>(outcomes: readonly (R | ItemFailure)[]): PromiseSettledResult<R>[] {
  return outcomes.map((outcome) =>
    outcome instanceof ItemFailure ? { status: 'rejected', reason: outcome.reason } : { status: 'fulfilled', value: outcome },
  );
}

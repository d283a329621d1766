import type { Subscriber } from 'rxjs';

/**
 * Calls `step` with these two arguments: now, or after the step that is running.
 * @beta
 */
export interface Trampoline {
  <A, B>(step: (one: A, other: B) => void, one?: A, other?: B): void;
  isBusy: boolean;
}

type Step = (one: unknown, other: unknown) => void;

/**
 * Makes the function that runs the steps of one subscription, one at a time: for state that a consumer may change while it is notified of a change,
 * as when it feeds its own source.
 *
 * - **Runs** a step at once, with the arguments given after it. A step that is asked for inside another runs after it, in a loop, so it cannot overflow
 *   the stack.
 * - **On unsubscribe, and after the end** no step runs.
 * - **Errors:** what a step throws goes to `fail`.
 *
 * @beta
 * @param to - the subscriber of the output
 * @param fail - gets what a step throws. @defaultValue `to.error`
 * @example
 * ```ts
 * import { Observable } from 'rxjs';
 * import { trampoline } from 'sluice/operators/build';
 *
 * const order: string[] = [];
 * new Observable((subscriber) => {
 *   const run = trampoline(subscriber);
 *   run(() => {
 *     run(() => order.push('asked for inside'));
 *     order.push('first');
 *   });
 * }).subscribe();
 * order; // => ['first', 'asked for inside']
 * ```
 */
export function trampoline(
  to: Subscriber<unknown>,
  fail = (error: unknown): void => {
    to.error(error);
  },
): Trampoline {
  const later: (() => void)[] = [];
  const attempt = (step: Step, one: unknown, other: unknown): void => {
    try {
      if (!to.closed) step(one, other);
    } catch (error) {
      fail(error);
    }
  };
  const run = (step: Step, one?: unknown, other?: unknown): void => {
    if (run.isBusy) {
      // Not a closure: it would cost every call an object.
      later.push(attempt.bind(undefined, step, one, other));
      return;
    }
    run.isBusy = true;
    attempt(step, one, other);
    while (later.length > 0) for (const next of later.splice(0)) next();
    run.isBusy = false;
  };
  run.isBusy = false;
  return run as Trampoline;
}

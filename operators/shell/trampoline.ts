import type { Subscriber } from 'rxjs';

/** Calls `step` with these two arguments: now, or after the step that is running. */
export interface Trampoline {
  <A, B>(step: (one: A, other: B) => void, one?: A, other?: B): void;
  isBusy: boolean;
}

type Step = (one: unknown, other: unknown) => void;

/**
 * Runs one step at a time, for one subscription. A step that is asked for meanwhile (by a consumer that feeds its own source) runs afterwards, in a
 * loop, so it cannot overflow the stack. No step runs after the end. What a step throws goes to `fail`.
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

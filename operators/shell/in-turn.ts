import type { Subscriber } from 'rxjs';

/** Calls `step` with these two, or has it called later. */
export interface InTurn {
  <A, B>(step: (one: A, other: B) => void, one?: A, other?: B): void;
  isBusy: boolean;
}

type Step = (one: unknown, other: unknown) => void;

/**
 * Does one thing at a time, for one subscription: what is asked for meanwhile (by a consumer that feeds its own source) is done
 * afterwards, in a loop, so that it cannot overflow the stack. Nothing is done after the end; what is thrown is told to `fail`.
 */
export function inTurn(
  to: Subscriber<unknown>,
  fail = (error: unknown): void => {
    to.error(error);
  },
): InTurn {
  const later: (() => void)[] = [];
  const attempt = (step: Step, one: unknown, other: unknown): void => {
    try {
      if (!to.closed) step(one, other);
    } catch (error) {
      fail(error);
    }
  };
  const turn = (step: Step, one?: unknown, other?: unknown): void => {
    if (turn.isBusy) {
      // Not a closure: it would cost every call an object.
      later.push(attempt.bind(undefined, step, one, other));
      return;
    }
    turn.isBusy = true;
    attempt(step, one, other);
    while (later.length > 0) for (const next of later.splice(0)) next();
    turn.isBusy = false;
  };
  turn.isBusy = false;
  return turn as InTurn;
}

import type { Subscriber } from 'rxjs';
import { Observable } from 'rxjs';
import { ask } from '../../options/ask.js';
import { CallbackError, GuardRefusedError } from '../../options/errors.js';
import type { ItemContext, WorkResult } from '../../options/types.js';
import { isPromise, Relay } from '../calls/call.js';

/**
 * Whether a call may be made: yes, no, or no with a reason.
 * @stable
 */
export type Guard<T> = (call: T, context: ItemContext) => boolean | string | PromiseLike<boolean | string>;

type Project<T, R> = (call: T, context: ItemContext) => WorkResult<R>;

/** The work behind its guard. An answer that is no promise takes no time. */
export function guarded<T, R>(operator: string, guard: Guard<T>, project: Project<T, R>): Project<T, R> {
  return (call, context) => {
    const pass = (answer: unknown): WorkResult<R> => {
      if (answer === true) return project(call, context);
      if (answer === false) throw new GuardRefusedError(operator, context.index, undefined);
      if (typeof answer === 'string') throw new GuardRefusedError(operator, context.index, answer);
      throw new CallbackError(operator, 'guard', 'must answer true, false or a reason');
    };
    const answer = ask(operator, 'guard', guard, call, context);
    if (!isPromise(answer)) return pass(answer);
    const asked = Promise.resolve(answer);
    // When the guard itself has made the consumer leave, nobody listens to its failure.
    asked.catch(() => undefined);
    return new Observable((subscriber) => {
      asked.then(
        (allowed) => {
          if (!subscriber.closed) new GuardedCall(() => pass(allowed), subscriber).begin();
        },
        (cause: unknown) => {
          subscriber.error(new CallbackError(operator, 'guard', 'threw', cause));
        },
      );
    });
  };
}

/** A call whose guard answers later. */
class GuardedCall<R> extends Relay<R> {
  constructor(
    override readonly work: () => WorkResult<R>,
    to: Subscriber<R>,
  ) {
    super(to);
  }
}

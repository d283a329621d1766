import { from, mergeMap, of } from 'rxjs';
import { ask } from './ask.js';
import { CallbackError, GuardRefusedError } from './errors.js';
import type { ItemContext, WorkResult } from './types.js';
import { isPromise, onlyOnce, streamOf } from './work.js';

/** Whether a call may be made: yes, no, or no with a reason. */
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
    // Never rejects: when the guard itself has made the consumer leave, nobody listens.
    const next = Promise.resolve(answer).then(
      (allowed) => () => pass(allowed),
      (cause: unknown) => () => {
        throw new CallbackError(operator, 'guard', 'threw', cause);
      },
    );
    return from(next).pipe(
      mergeMap((go) => {
        const work = go();
        return isPromise(work) ? from(onlyOnce(work)) : (streamOf<R>(work) ?? of(work as R));
      }),
    );
  };
}

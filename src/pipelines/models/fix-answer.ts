import type { Observable, SchedulerLike } from 'rxjs';
import { catchError, subscribeOn } from 'rxjs';
import { ask, check } from '../../../operators/build.js';
import { FlowConfigError } from '../../../operators/index.js';
import type { FixAnswerOptions } from './model-types.js';
import { NAME } from './name.js';
import { ParseFault } from './parse-fault.js';

/** The option `fixAnswer`, checked and with its default. */
export type AnswerFix<Q, R> = Required<FixAnswerOptions<Q, R>>;

export function fixAnswerOption<Q, R>(
  operator: string,
  option: string,
  fix: FixAnswerOptions<Q, R> | undefined,
): AnswerFix<Q, R> | undefined {
  if (fix === undefined) return undefined;
  check.onlyKnown(operator, fix, ['rounds', 'ask'], option, `${option}.`);
  const { rounds = 1 } = fix;
  if (!Number.isSafeInteger(rounds) || rounds < 1) throw new FlowConfigError(operator, `${option}.rounds`, 'a whole number >= 1', rounds);
  return { rounds, ask: check.requiredFunction(operator, `${option}.ask`, fix.ask) };
}

/** A call, and others as long as its answer cannot be read. */
export function fixed<Q, R, P>(
  { rounds, ask: next }: AnswerFix<Q, R>,
  request: Q,
  call: (request: Q) => Observable<P>,
  scheduler: SchedulerLike,
): Observable<P> {
  return call(request).pipe(
    catchError((error: unknown) => {
      if (rounds === 0 || !ParseFault.is(error)) throw error;
      const again = ask(NAME, 'fixAnswer.ask', next, request, error.answer as R, error.cause);
      // The permit of this round comes back first.
      return fixed({ rounds: rounds - 1, ask: next }, again, call, scheduler).pipe(subscribeOn(scheduler));
    }),
  );
}

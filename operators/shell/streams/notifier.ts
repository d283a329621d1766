import type { ObservableInput } from 'rxjs';
import { from, isObservable, Observable } from 'rxjs';
import { FlowConfigError } from '../../options/errors.js';
import { count, optional } from '../../options/options.js';
import { connect } from './connect.js';

/** An option that is whatever `from` takes. @throws FlowConfigError */
export function stream<V>(operator: string, option: string, input: ObservableInput<V>): Observable<V> {
  try {
    // An Observable of another copy of RxJS may have another symbol than `from` looks for.
    return isObservable(input) ? input : from(input);
  } catch {
    throw new FlowConfigError(operator, option, 'an Observable, promise or iterable', input);
  }
}

/** The same, or nothing: the `flush` option. @throws FlowConfigError */
export const notifier = /* @__PURE__ */ optional(stream<unknown>);

/**
 * A number of calls at a time, or a stream of such numbers, of which the first that is none becomes its error; nothing where the operator has its own
 * default. Whatever follows it: each value counts at once, the last one stays in force when the stream completes, and its error is the end of the
 * operator, with all that it has accepted. @throws FlowConfigError
 */
export function concurrencyOption<C extends number | Observable<number> | undefined>(operator: string, option: string, given: C): C;
export function concurrencyOption(operator: string, option: string, given: number | Observable<number> | undefined) {
  if (given === undefined) return given;
  if (!isObservable(given)) return count(operator, option, given);
  return new Observable<number>((to) => {
    connect(given, to, {
      next: (value) => {
        to.next(count(operator, option, value));
      },
    });
  });
}

import type { Observable, ObservableInput } from 'rxjs';
import { from, isObservable } from 'rxjs';
import { FlowConfigError } from '../../options/errors.js';
import { count, optional } from '../../options/options.js';

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

/** A number of calls at a time, or a stream of such numbers; nothing where the operator has its own default. @throws FlowConfigError */
export function concurrencyOption(operator: string, option: string, given: number | Observable<number> | undefined) {
  return given === undefined || isObservable(given) ? given : count(operator, option, given);
}

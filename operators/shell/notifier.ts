import type { Observable, ObservableInput } from 'rxjs';
import { from, isObservable } from 'rxjs';
import { FlowConfigError } from '../options/errors.js';

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
export function notifier(operator: string, option: string, input: ObservableInput<unknown> | undefined): Observable<unknown> | undefined {
  return input === undefined ? undefined : stream(operator, option, input);
}

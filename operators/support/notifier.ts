import type { Observable, ObservableInput } from 'rxjs';
import { from } from 'rxjs';
import { FlowConfigError } from './errors.js';

/** The `flush` option: whatever `from` takes. @throws FlowConfigError */
export function notifier(operator: string, flush: ObservableInput<unknown> | undefined): Observable<unknown> | undefined {
  if (flush === undefined) return undefined;
  try {
    return from(flush);
  } catch {
    throw new FlowConfigError(operator, 'flush', 'an Observable, promise or iterable', flush);
  }
}

/** Calls that race, and the rules of one call. */
import type { Observable, ObservableInput, OperatorFunction } from 'rxjs';
import * as operators from '../../operators/index.js';
import { unstamped } from './events.js';

export type {
  Breaker,
  BreakerOptions,
  HedgeOptions,
  PolicyContext,
  PolicyOptions,
  SpeculateContext,
  SpeculateOptions,
} from '../../operators/index.js';
export { createBreaker, HedgeStats, policy } from '../../operators/index.js';

export type SwitchLatestOptions<T> = Omit<operators.SwitchLatestOptions<T>, 'errors'>;
export function switchLatest<T, R>(
  project: (item: T, context: operators.ItemContext) => ObservableInput<R>,
  options: SwitchLatestOptions<T> = {},
): OperatorFunction<T, R> {
  return operators.switchLatest(project, unstamped(options));
}

export function hedge<R>(attempt: operators.HedgeAttempt<R>, options: operators.HedgeOptions = {}): Observable<R> {
  return operators.hedge(attempt, unstamped(options));
}

export function speculate<T, R, P = T>(options: operators.SpeculateOptions<P, T, R>): Observable<R> {
  return operators.speculate(unstamped(options));
}

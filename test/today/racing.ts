/** Calls that race, and the rules of one call. */
import type { ObservableInput, OperatorFunction } from 'rxjs';
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
export { createBreaker, HedgeStats, hedge, policy, speculate } from '../../operators/index.js';

export type SwitchLatestOptions<T> = Omit<operators.SwitchLatestOptions<T>, 'errors'>;
export function switchLatest<T, R>(
  project: (item: T, context: operators.ItemContext) => ObservableInput<R>,
  options: SwitchLatestOptions<T> = {},
): OperatorFunction<T, R> {
  return operators.switchLatest(project, unstamped(options));
}

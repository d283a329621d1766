/** Queues of streams, without work. */
import type { MonoTypeOperatorFunction, Observable, OperatorFunction } from 'rxjs';
import * as operators from '../../operators/index.js';
import { unstamped } from './events.js';

export type {
  BackpressureOptions,
  CoalesceOptions,
  ConflateWhileBusyOptions,
  Intake,
  IntakeOptions,
  OfferOptions,
  ResequenceOptions,
  Store,
} from '../../operators/index.js';

export const backpressure = <T>(options: operators.BackpressureOptions<T>): MonoTypeOperatorFunction<T> =>
  operators.backpressure(given(options));
export const coalesce = <T>(options: operators.CoalesceOptions<T>): MonoTypeOperatorFunction<T> => operators.coalesce(given(options));
export const conflateWhileBusy = <T, A>(options: operators.ConflateWhileBusyOptions<T, A>): OperatorFunction<T, A> =>
  operators.conflateWhileBusy(given(options));
export const createIntake = <T>(options: operators.IntakeOptions<T> = {}): operators.Intake<T> => operators.createIntake(given(options));
export const resequence = <T>(options: operators.ResequenceOptions<T>): MonoTypeOperatorFunction<T> => operators.resequence(given(options));
export const toStore = <T, S = T, E = never>(
  source: Observable<T>,
  initial: S,
  options: operators.ToStoreOptions<E> = {},
): operators.Store<T | S | E> => operators.toStore(source, initial, throwing(given(options)));

/** Where `getSnapshot` throws was the default. */
function throwing<O extends object>(options: O): O {
  return typeof options === 'object' && (options as unknown) !== null ? { errors: 'propagate', ...options } : options;
}

/** Whatever is no object is refused as it is. */
function given<O extends object>(options: O): O {
  return typeof options === 'object' && (options as unknown) !== null ? unstamped(options) : options;
}

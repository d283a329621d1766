import type { Observable } from 'rxjs';
import type { CircuitSnapshot as BreakerSnapshot, BreakerState, CircuitState } from '../kernel/limits/circuit.js';
import type { WorkOutcome, WorkResult } from './types.js';

export type { BreakerState, CircuitSnapshot as BreakerSnapshot } from '../kernel/limits/circuit.js';

/** Context of work behind a breaker. */
export interface BreakerContext {
  /** Aborts when the caller has left. Made on the first look. */
  readonly signal: AbortSignal;
}

/** The same for a policy. The breaker may be one of another copy of this package, which knows less. */
export interface PolicyBreakerContext extends BreakerContext {
  /** The call is about to be ended from outside: that says nothing, whatever it has answered. */
  cutOff?(): void;
  /** The call is about to end well. Said before its permit goes to the next call, which asks the breaker. */
  endsWell?(): void;
}

/** @stable */
export interface Breaker {
  /** Makes the call for every subscriber, unless the circuit is open. Unsubscribing aborts the signal, unless there is an answer already. */
  run<R, W = never>(work: ((context: BreakerContext) => WorkResult<R>) | ((context: BreakerContext) => W)): Observable<WorkOutcome<R, W>>;
  /** The same as a promise of the last value; rejects with RxJS's `EmptyError` when there is none. */
  runAsync<R, W = never>(work: ((context: BreakerContext) => WorkResult<R>) | ((context: BreakerContext) => W)): Promise<WorkOutcome<R, W>>;
  /** `'halfOpen'` as soon as the next call would be a probe. */
  readonly state: CircuitState;
  snapshot(): BreakerSnapshot;
  /** For the option `state` of another breaker with the same rules. */
  save(): BreakerState;
  /** Opens it by hand, until `reset`: for a backend that is known to be down. */
  trip(): void;
  /** Closes it by hand, and forgets every failure. */
  reset(): void;
}

/** The same for a policy. The breaker may be one of another copy of this package, or none of ours. */
export interface WatchedBreaker extends Breaker {
  /** Calls the listener after everything that may change what the next call would find, but for time; the returned function stops that. */
  watch?(listener: () => void): () => void;
}

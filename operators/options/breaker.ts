import type { Observable } from 'rxjs';
import type { BreakerState, CircuitState } from '../kernel/limits/circuit.js';
import type { WorkResult } from './types.js';

export type { BreakerState } from '../kernel/limits/circuit.js';

export interface BreakerSnapshot {
  /** `'halfOpen'` as soon as the next call would be a probe. */
  readonly state: CircuitState;
  /** Calls that count, as success or as failure. */
  readonly calls: number;
  readonly failures: number;
  /** Probes under way that are waited for. */
  readonly probing: number;
  /** When the next call may be let through, from now, in ms: 0 when one is now, Infinity after `trip`. */
  readonly retryAfterMs: number;
}

/** What work behind a breaker is told. */
export interface BreakerContext {
  /** Aborts when nobody wants the result any more. Made on the first look. */
  readonly signal: AbortSignal;
}

/** The same for a policy. The breaker may be one of another copy of this package, which knows less. */
export interface PolicyBreakerContext extends BreakerContext {
  /** The call is about to be ended from outside: that says nothing, whatever it has answered. */
  cutOff?(): void;
}

export interface BreakerCallOptions {
  /** Gives the call up when it aborts; the promise rejects with its reason. */
  readonly signal?: AbortSignal;
}

export interface Breaker {
  /** Makes the call for every subscriber, unless the circuit is open. Unsubscribing aborts the signal, unless there is an answer already. */
  run<R>(work: (context: BreakerContext) => WorkResult<R>): Observable<R>;
  /** The same as a promise of the last value; rejects with RxJS's `EmptyError` when there is none. */
  runAsync<R>(work: (context: BreakerContext) => WorkResult<R>, options?: BreakerCallOptions): Promise<R>;
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

import { Observable } from 'rxjs';
import type { Breaker, WatchedBreaker } from '../../options/breaker.js';
import { BreakerOpenError } from '../../options/errors.js';
import type { LeaseContext, Limiter, LimiterJob } from '../../options/limiter.js';
import type { WorkResult } from '../../options/types.js';

/** Runs work under a permit. */
export type PermittedRun = <R>(work: (context: LeaseContext) => WorkResult<R>, job: LimiterJob | undefined) => Observable<R>;

/** Permits of a limiter for the attempts of hedges. An attempt asks the breaker when it has its permit, and leaves the queue when the circuit opens. */
export class GuardedPermits {
  readonly #limiter: Limiter;
  readonly #breaker: WatchedBreaker | undefined;
  /** What attempts were refused with here. */
  readonly #refusals = new WeakSet();

  constructor(limiter: Limiter, breaker: Breaker | undefined) {
    this.#limiter = limiter;
    this.#breaker = breaker;
  }

  /** Whether the error says that the breaker has refused an attempt here. */
  readonly isRefusal = (error: unknown): boolean => this.#refusals.has(Object(error) as object);

  readonly run: PermittedRun = (work, job) => {
    const breaker = this.#breaker;
    return breaker ? this.#guarded(breaker, work, job) : this.#limiter.run(work, job);
  };

  #guarded<R>(breaker: WatchedBreaker, work: (context: LeaseContext) => WorkResult<R>, job: LimiterJob | undefined): Observable<R> {
    return new Observable((subscriber) => {
      const stop = breaker.watch?.(() => {
        if (breaker.state === 'open') subscriber.error(this.#refused(breaker));
      });
      subscriber.add(stop);
      const permitted = (context: LeaseContext): Observable<R> => {
        stop?.();
        let isRefused = true;
        const call = breaker.run(() => {
          isRefused = false;
          return work(context);
        });
        return new Observable((inner) => {
          const fail = (error: unknown): void => {
            // Nothing was sent.
            if (isRefused) context.lease.release('unused');
            inner.error(isRefused ? this.#refused(breaker) : error);
          };
          const next = (value: R): void => {
            inner.next(value);
          };
          const complete = (): void => {
            inner.complete();
          };
          inner.add(call.subscribe({ next, error: fail, complete }));
        });
      };
      subscriber.add(this.#limiter.run(permitted, job).subscribe(subscriber));
    });
  }

  #refused(breaker: Breaker): BreakerOpenError {
    const error = new BreakerOpenError('createBreaker', breaker.snapshot().retryAfterMs);
    this.#refusals.add(error);
    return error;
  }
}

import { defer, from, isObservable, noop, Observable, of, retry, switchMap, tap, throwError } from 'rxjs';
import { check, streamOf } from '../../../operators/build.js';
import type { PolicyContext, WorkResult } from '../../../operators/index.js';
import { isFlowError } from '../../../operators/index.js';
import type { BudgetCall, BudgetPort, Reservation } from './budget-types.js';

/** What a budget answers: at once, or later when other processes share it. */
export type Reserving = Reservation | Observable<Reservation>;

/** Asks a budget. While calls under way are all that is in the way, it is asked again whenever one of them is over. */
export function reservationOf(budget: BudgetPort, call: BudgetCall): Reserving {
  try {
    const reserving = budget.reserve(call);
    return isObservable(reserving) ? inTime(reserving) : reserving;
  } catch (error) {
    if (freedBy(error) === undefined) throw error;
    return inTime(
      defer(() => {
        const reserving = budget.reserve(call);
        return isObservable(reserving) ? reserving : of(reserving);
      }),
    );
  }
}

/** Asks again when that is worth it. */
function inTime(asking: Observable<Reservation>): Observable<Reservation> {
  return asking.pipe(retry({ delay: (refusal: Error) => freedBy(refusal) ?? throwError(() => refusal) }));
}

/** When to ask again; undefined when that is of no use, or when the wait would keep a permit from calls that the limit is not about. */
function freedBy(error: unknown): Observable<unknown> | undefined {
  if (!isFlowError(error, 'FLOW_BUDGET_EXCEEDED')) return undefined;
  return error.key === undefined && error.model === undefined ? error.freed : undefined;
}

/** Work that begins when its reservation is there. `holder` holds the permit. */
export function withReservation<R>(
  reserving: Reserving | undefined,
  holder: Pick<PolicyContext, 'giveBack' | 'pauseTimeout'>,
  work: (reservation: Reservation | undefined) => WorkResult<R>,
): WorkResult<R> {
  if (!isObservable(reserving)) return work(reserving);
  // The time of an attempt is that of its call.
  const resume = holder.pauseTimeout();
  return after(reserving, (reservation) => {
    resume();
    const answer = work(reservation);
    // A cancelled promise keeps its permit until it settles.
    if (check.isPromise(answer)) holder.giveBack = afterwards(answer);
    return answer;
  });
}

function afterwards(promise: PromiseLike<unknown>): PolicyContext['giveBack'] {
  return (release) => {
    promise.then(release, release);
  };
}

/** Work on a value that comes later, once. `failed` is called when it does not come. */
export function after<T, R>(
  source: Observable<T>,
  work: (value: T) => WorkResult<R>,
  failed: (error: unknown) => void = noop,
): Observable<R> {
  return source.pipe(
    tap({ error: failed }),
    switchMap((value) => resultOf(work(value))),
  );
}

/** An answer that comes at once or later, as an Observable. */
export function resultOf<R>(result: WorkResult<R>): Observable<R> {
  return streamOf<R>(result) ?? (check.isPromise(result) ? from(result) : of(result as R));
}

/** The reservation of two budgets: the first is returned when the second refuses. */
export function bothOf(first: Reserving, second: () => Reserving): Reserving {
  if (isObservable(first)) return after(first, (one) => bothOf(one, second));
  let other: Reserving;
  try {
    other = second();
  } catch (error) {
    first.release();
    throw error;
  }
  if (!isObservable(other)) return both(other, first);
  const isLater = other;
  return new Observable((subscriber) => {
    let isThere = false;
    subscriber.add(() => {
      if (!isThere) first.release();
    });
    after(isLater, (reservation) => {
      isThere = true;
      return both(reservation, first);
    }).subscribe(subscriber);
  });
}

function both(one: Reservation, other: Reservation): Reservation {
  return {
    get costUsd() {
      return one.costUsd ?? other.costUsd;
    },
    settle: (usage) => {
      one.settle(usage);
      other.settle(usage);
    },
    release: () => {
      one.release();
      other.release();
    },
  };
}

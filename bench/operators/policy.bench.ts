import { mergeMap, Observable, of, range, retry, throwError, timeout, timer } from 'rxjs';
import { policy } from '../../operators/policy.js';
import type { Case } from '../harness.js';
import { assertCount } from '../harness.js';

const ATTEMPTS = 3;
const TIMEOUT_MS = 30_000;

/** Counts the answers of `n` calls, one after the other. */
function answers(what: string, n: number, call: () => Observable<number>): void {
  let count = 0;
  range(0, n)
    .pipe(mergeMap(call))
    .subscribe((value) => (count += value));
  assertCount(what, count, n);
}

/** The least anybody could do: a loop with a timer for the attempt and one for the pause. */
function byHand(work: () => Observable<number>): Observable<number> {
  return new Observable((subscriber) => {
    let timerId: ReturnType<typeof setTimeout> | undefined;
    let running: { unsubscribe(): void } | undefined;
    const attempt = (number: number): void => {
      const failed = (error: unknown): void => {
        clearTimeout(timerId);
        running?.unsubscribe();
        if (number === ATTEMPTS) subscriber.error(error);
        else timerId = setTimeout(attempt, Math.random() * 200 * 2 ** (number - 1), number + 1);
      };
      timerId = setTimeout(failed, TIMEOUT_MS, new Error('timeout'));
      running = work().subscribe({
        next: (value) => {
          subscriber.next(value);
        },
        error: failed,
        complete: () => {
          clearTimeout(timerId);
          subscriber.complete();
        },
      });
    };
    attempt(1);
    return () => {
      clearTimeout(timerId);
      running?.unsubscribe();
    };
  });
}

/** What retry and timeouts cost a call that needs neither. */
function atOnce(n: number): Case {
  const answer = (): Observable<number> => of(1);
  return {
    name: `a call that answers at once, ${n.toLocaleString('en')} calls`,
    n,
    contestants: {
      'by hand': () => {
        answers('by hand', n, () => byHand(answer));
      },
      'sluice policy': () => {
        const careful = policy();
        answers('policy', n, () => careful(answer));
      },
      'rxjs timeout and retry': () => {
        const pause = { count: ATTEMPTS - 1, delay: (_error: unknown, n: number) => timer(Math.random() * 200 * 2 ** (n - 1)) };
        answers('rxjs', n, () => answer().pipe(timeout(TIMEOUT_MS), retry(pause)));
      },
    },
  };
}

/** What it costs to fail with an error that is not worth another try: it is sorted. */
function refused(n: number): Case {
  const error = Object.assign(new Error('bad request'), { status: 400 });
  const fails = (): Observable<never> => throwError(() => error);
  const failures = (what: string, call: () => Observable<number>): void => {
    let count = 0;
    for (let i = 0; i < n; i++) call().subscribe({ error: () => (count += 1) });
    assertCount(what, count, n);
  };
  return {
    name: `a call that is refused at once (400), ${n.toLocaleString('en')} calls`,
    n,
    contestants: {
      'by hand': () => {
        const isFinal = (thrown: unknown): boolean => (thrown as { readonly status?: number }).status === 400;
        failures(
          'by hand',
          () =>
            new Observable((subscriber) =>
              fails().subscribe({
                error: (thrown: unknown) => {
                  if (isFinal(thrown)) subscriber.error(thrown);
                },
              }),
            ),
        );
      },
      'sluice policy': () => {
        const careful = policy();
        failures('policy', () => careful(fails));
      },
    },
  };
}

export const cases: readonly (() => Case)[] = [() => atOnce(1e5), () => refused(1e4)];

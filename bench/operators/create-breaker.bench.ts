import { mergeMap, Observable, of, range } from 'rxjs';
import { createBreaker } from '../../operators/create-breaker.js';
import type { Case } from '../harness.js';
import { assertCount } from '../harness.js';

const answer = (): Observable<number> => of(1);

/** Counts the answers of `n` calls, one after the other. */
function answers(what: string, n: number, call: () => Observable<number>): void {
  let count = 0;
  range(0, n)
    .pipe(mergeMap(call))
    .subscribe((value) => (count += value));
  assertCount(what, count, n);
}

/** The least anybody could do: two counts that are halved every 30 s, a time until which it is open, and no way to tell errors apart. */
class NaiveBreaker {
  #calls = 0;
  #failures = 0;
  #since = Date.now();
  #openUntil = 0;

  run<R>(work: () => Observable<R>): Observable<R> {
    return new Observable((subscriber) => {
      if (Date.now() < this.#openUntil) {
        subscriber.error(new Error('open'));
        return undefined;
      }
      return work().subscribe({
        next: (value) => {
          subscriber.next(value);
        },
        error: (error: unknown) => {
          this.#count(true);
          subscriber.error(error);
        },
        complete: () => {
          this.#count(false);
          subscriber.complete();
        },
      });
    });
  }

  #count(hasFailed: boolean): void {
    const now = Date.now();
    if (now - this.#since > 30_000) {
      this.#calls /= 2;
      this.#failures /= 2;
      this.#since = now;
    }
    this.#calls += 1;
    if (!hasFailed) return;
    this.#failures += 1;
    if (this.#calls >= 10 && this.#failures / this.#calls >= 0.5) this.#openUntil = now + 5000;
  }
}

/** What a breaker costs a call that goes well. */
function closed(n: number): Case {
  return {
    name: `a call behind a closed breaker that answers at once, ${n.toLocaleString('en')} calls`,
    n,
    contestants: {
      'by hand': () => {
        const breaker = new NaiveBreaker();
        answers('by hand', n, () => breaker.run(answer));
      },
      'sluice createBreaker': () => {
        const breaker = createBreaker();
        answers('createBreaker', n, () => breaker.run(answer));
      },
    },
  };
}

export const cases: readonly (() => Case)[] = [() => closed(1e5)];

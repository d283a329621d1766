import { merge, mergeMap, Observable, of, range, switchMap, take, timer } from 'rxjs';
import { hedge } from '../../operators/hedge.js';
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

/** What hedging costs a call that needs none: it answers at once. */
function neverHedged(n: number): Case {
  return {
    name: `a hedged call that answers at once, ${n.toLocaleString('en')} calls`,
    n,
    contestants: {
      'by hand': () => {
        const byHand = (): Observable<number> =>
          new Observable((subscriber) => {
            let second: { unsubscribe(): void } | undefined;
            const timeout = setTimeout(() => (second = answer().subscribe(subscriber)), 50);
            const first = answer().subscribe(subscriber);
            return () => {
              clearTimeout(timeout);
              first.unsubscribe();
              second?.unsubscribe();
            };
          });
        answers('by hand', n, byHand);
      },
      'sluice hedge': () => {
        answers('hedge', n, () => hedge(answer, { delayMs: 50 }));
      },
      'rxjs merge of a timer': () => {
        answers('merge', n, () => merge(answer(), timer(50).pipe(switchMap(answer))).pipe(take(1)));
      },
    },
  };
}

export const cases: readonly (() => Case)[] = [() => neverHedged(1e5)];

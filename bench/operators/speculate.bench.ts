import type { Observable } from 'rxjs';
import { of, Subject, switchMap } from 'rxjs';
import { speculate } from '../../operators/speculate.js';
import type { Case } from '../harness.js';
import { assertCount } from '../harness.js';

const run = (call: number): Observable<number> => of(call);

function follow(calls: Observable<number>, held: number[]): void {
  calls.subscribe((value) => held.push(value));
}

/** Every call is predicted, run, and then confirmed. */
function allPredicted(n: number): Case {
  const drive = (predict: Subject<number>, confirm: Subject<number>): void => {
    for (let call = 0; call < n; call++) {
      predict.next(call);
      confirm.next(call);
    }
  };
  return {
    name: `every call is predicted and then confirmed, ${n.toLocaleString('en')} calls`,
    n,
    contestants: {
      'by hand': () => {
        const [predict, confirm] = [new Subject<number>(), new Subject<number>()];
        let count = 0;
        let predicted = -1;
        let held: number[] = [];
        predict.subscribe((call) => {
          predicted = call;
          held = [];
          follow(run(call), held);
        });
        confirm.subscribe((call) => {
          if (call === predicted) count += held.length;
        });
        drive(predict, confirm);
        assertCount('by hand', count, n);
      },
      'sluice speculate': () => {
        const [predict, confirm] = [new Subject<number>(), new Subject<number>()];
        let count = 0;
        speculate({ predict, confirm, match: (a: number, b: number) => a === b, run }).subscribe(() => count++);
        drive(predict, confirm);
        assertCount('speculate', count, n);
      },
      'rxjs switchMap, nothing run early': () => {
        const [predict, confirm] = [new Subject<number>(), new Subject<number>()];
        let count = 0;
        confirm.pipe(switchMap(run)).subscribe(() => count++);
        drive(predict, confirm);
        assertCount('switchMap', count, n);
      },
    },
  };
}

export const cases: readonly (() => Case)[] = [() => allPredicted(1e5)];

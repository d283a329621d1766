import type { Observable } from 'rxjs';
import { catchError, defer, forkJoin, map, of, throwError } from 'rxjs';
import { divideRetry } from '../../operators/divide-retry.js';
import { FaultWatch } from '../../operators/kernel/repair/fault-watch.js';
import type { Case } from '../harness.js';
import { assertCount, numbers } from '../harness.js';

const SIZE = 20;
const refused = Object.assign(new Error('refused'), { status: 400 });
/** The last of every twenty is bad. */
const isBad = (item: number): boolean => item % SIZE === SIZE - 1;

type Outcome = { readonly value: number } | { readonly reason: unknown };

/** Up to four contiguous parts. */
function quarters(items: readonly number[]): number[][] {
  const parts = Math.min(4, items.length);
  return Array.from({ length: parts }, (_, p) =>
    items.slice(Math.floor((p * items.length) / parts), Math.floor(((p + 1) * items.length) / parts)),
  );
}

/** The least there is: call, and on a failure call four times with less. */
function byHand(items: readonly number[]): Outcome[] {
  try {
    if (items.some(isBad)) throw refused;
    return items.map((value) => ({ value }));
  } catch (reason) {
    return items.length === 1 ? [{ reason }] : quarters(items).flatMap(byHand);
  }
}

const work = (items: readonly number[]): Observable<readonly number[]> => (items.some(isBad) ? throwError(() => refused) : of(items));

/** The same with Observables, as one would write it without a library: no limit, no budget, no look at the error. */
function withRxjs(items: readonly number[]): Observable<Outcome[]> {
  return defer(() => work(items)).pipe(
    map((values): Outcome[] => values.map((value) => ({ value }))),
    catchError((reason: unknown) =>
      items.length === 1 ? of<Outcome[]>([{ reason }]) : forkJoin(quarters(items).map(withRxjs)).pipe(map((lists) => lists.flat())),
    ),
  );
}

/** No installed peer repairs a failed batch: a loader rejects it whole. */
function oneInTwenty(n: number): Case {
  const lists = Array.from({ length: n / SIZE }, (_, list) => numbers(SIZE).map((i) => list * SIZE + i));
  const divides = (what: string, each: (items: readonly number[], take: (count: number) => void) => void) => (): void => {
    let count = 0;
    for (const list of lists) each(list, (more) => (count += more));
    assertCount(what, count, n);
  };
  const parallel = divideRetry(work);
  const sequential = divideRetry(work, { split: { strategy: 'sequential' } });
  return {
    name: `lists of ${SIZE} with one bad item each, work that answers at once, ${n.toLocaleString('en')} items`,
    n,
    contestants: {
      'by hand': divides('by hand', (items, take) => {
        take(byHand(items).length);
      }),
      'sluice divideRetry': divides('divideRetry', (items, take) => {
        parallel(items).subscribe((settled) => {
          take(settled.length);
        });
      }),
      'sluice divideRetry, sequential': divides('sequential', (items, take) => {
        sequential(items).subscribe((settled) => {
          take(settled.length);
        });
      }),
      'rxjs catchError + forkJoin': divides('rxjs', (items, take) => {
        withRxjs(items).subscribe((outcomes) => {
          take(outcomes.length);
        });
      }),
    },
  };
}

/** Long messages that make a careless pattern go back over them again and again; items are characters. */
function hostile(unit: string, n: number): Case {
  const message = unit.repeat(n / unit.length);
  const error = new Error(message);
  return {
    name: `comparing messages of ${n.toLocaleString('en')} characters, all \`${unit}\``,
    n,
    contestants: {
      'by hand (one walk)': () => {
        let sum = 0;
        for (let i = 0; i < message.length; i++) sum += message.charCodeAt(i);
        assertCount('by hand', sum > 0 ? n : 0, n);
      },
      'sluice FaultWatch': () => {
        const watch = new FaultWatch(4);
        watch.cut(0, 4);
        watch.failed(error, 2, 0);
        assertCount('FaultWatch', watch.alone === 0 ? n : 0, n);
      },
    },
  };
}

const HOSTILE = ['a', '5', 'f5', '-', '12:', '0x', ' 5 ', 'é5'];

export const cases: readonly (() => Case)[] = [() => oneInTwenty(1e5), ...HOSTILE.map((unit) => () => hostile(unit, 2.4e5))];

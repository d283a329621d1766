import type { Observable } from 'rxjs';
import { from, mergeMap, scan } from 'rxjs';
import { resequence } from '../../operators/resequence.js';
import type { Case } from '../harness.js';
import { assertCount, numbers } from '../harness.js';

const sequence = (item: number): number => item;

/** The least there is: a map of those that came early. */
function byHand(items: readonly number[], out: (item: number) => void): void {
  const early = new Map<number, number>();
  let next = 0;
  for (const item of items) {
    if (item !== next) {
      early.set(item, item);
      continue;
    }
    out(item);
    for (next++; early.size > 0 && early.delete(next); next++) out(next);
  }
}

interface State {
  readonly early: Map<number, number>;
  readonly next: number;
  readonly ready: readonly number[];
}

/** The same as RxJS operators: what became ready with each item. */
function scanned(source: Observable<number>): Observable<number> {
  const start: State = { early: new Map(), next: 0, ready: [] };
  return source.pipe(
    scan(({ early, next: from }, item): State => {
      early.set(item, item);
      const ready: number[] = [];
      let next = from;
      for (; early.delete(next); next++) ready.push(next);
      return { early, next, ready };
    }, start),
    mergeMap(({ ready }) => ready),
  );
}

/** Counts what comes, as long as it comes in order. */
function inOrder(what: string, n: number, run: (out: (item: number) => void) => void): void {
  let wanted = 0;
  run((item) => {
    if (item === wanted) wanted++;
  });
  assertCount(what, wanted, n);
}

function ordered(name: string, items: readonly number[]): Case {
  const n = items.length;
  return {
    name: `${n.toLocaleString('en')} items, ${name}`,
    n,
    contestants: {
      'by hand': () => {
        inOrder('by hand', n, (out) => {
          byHand(items, out);
        });
      },
      'sluice resequence': () => {
        inOrder('resequence', n, (out) => from(items).pipe(resequence({ sequence })).subscribe(out));
      },
      'rxjs scan, mergeMap': () => {
        inOrder('scan, mergeMap', n, (out) => scanned(from(items)).subscribe(out));
      },
    },
  };
}

/** Blocks of `size`, each in reverse: every item but the last of a block waits. */
function reversed(n: number, size: number): number[] {
  return numbers(n).map((i) => i - (i % size) + (size - 1 - (i % size)));
}

/** The first of each block comes last: one gap, with the rest of the block behind it. */
function delayed(n: number, size: number): number[] {
  return numbers(n).map((i) => (i % size === size - 1 ? i - size + 1 : i + 1));
}

export const cases: readonly (() => Case)[] = [
  () => ordered('in order', numbers(1e6)),
  () => ordered('one in ten late by nine', delayed(1e6, 10)),
  () => ordered('blocks of ten in reverse', reversed(1e6, 10)),
];

import { bufferCount, from, mergeMap } from 'rxjs';
import { batchMap } from '../../operators/batch-map.js';
import { batchBySize, mapList } from '../by-hand.js';
import type { Case } from '../harness.js';
import { assertCount, countValues, numbers } from '../harness.js';

const double = (x: number): Promise<number> => Promise.resolve(2 * x);
const doubleAll = (xs: readonly number[]): Promise<number[]> => Promise.resolve(xs.map((x) => 2 * x));

function callsOfOne(n: number): Case {
  const items = numbers(n);
  return {
    name: `calls at concurrency 10, one item each, ${n.toLocaleString('en')} items`,
    n,
    contestants: {
      'by hand': async () => {
        let count = 0;
        await mapList(items, 10, double, () => count++);
        assertCount('by hand', count, n);
      },
      'sluice batchMap': () =>
        countValues('batchMap', from(items).pipe(batchMap(doubleAll, { maxSize: 1, concurrency: 10, maxQueued: Infinity })), n),
      'rxjs mergeMap': () => countValues('mergeMap', from(items).pipe(mergeMap(double, 10)), n),
    },
  };
}

function callsOfTwenty(n: number): Case {
  const items = numbers(n);
  return {
    name: `batches of 20 into calls at concurrency 10, ${n.toLocaleString('en')} items`,
    n,
    contestants: {
      'by hand': async () => {
        let count = 0;
        const batches: number[][] = [];
        batchBySize(items, 20, (batch) => batches.push(batch));
        await mapList(batches, 10, doubleAll, (values) => {
          for (const _ of values) count++;
        });
        assertCount('by hand', count, n);
      },
      'sluice batchMap': () =>
        countValues('batchMap', from(items).pipe(batchMap(doubleAll, { maxSize: 20, concurrency: 10, maxQueued: Infinity })), n),
      'rxjs bufferCount + mergeMap': () =>
        countValues(
          'mergeMap',
          from(items).pipe(
            bufferCount(20),
            mergeMap(doubleAll, 10),
            mergeMap((values) => values),
          ),
          n,
        ),
    },
  };
}

export const cases: readonly (() => Case)[] = [() => callsOfOne(1e4), () => callsOfTwenty(1e5)];

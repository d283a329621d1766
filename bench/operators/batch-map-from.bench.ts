import { from, mergeMap } from 'rxjs';
import { batch, transform } from 'streaming-iterables';
import { batchMapFrom } from '../../operators/batch-map-from.js';
import { mapList } from '../by-hand.js';
import type { Case } from '../harness.js';
import { assertCount, countValues, numbers } from '../harness.js';

const doubleAll = (xs: readonly number[]): Promise<number[]> => Promise.resolve(xs.map((x) => 2 * x));

function pulled(n: number): Case {
  const items = numbers(n);
  const chunks = (): number[][] => Array.from({ length: n / 20 }, (_, i) => items.slice(20 * i, 20 * (i + 1)));
  return {
    name: `pulled from a list into calls of 20 at concurrency 10, ${n.toLocaleString('en')} items`,
    n,
    contestants: {
      'by hand': async () => {
        let count = 0;
        await mapList(chunks(), 10, doubleAll, (values) => {
          for (const _ of values) count++;
        });
        assertCount('by hand', count, n);
      },
      'sluice batchMapFrom': () => countValues('batchMapFrom', batchMapFrom(items, doubleAll, { maxSize: 20, concurrency: 10 }), n),
      'rxjs mergeMap': () =>
        countValues(
          'mergeMap',
          from(chunks()).pipe(
            mergeMap(doubleAll, 10),
            mergeMap((values) => values),
          ),
          n,
        ),
      'streaming-iterables transform': async () => {
        let count = 0;
        for await (const values of transform(10, doubleAll, batch<number, number[]>(20, items))) for (const _ of values) count++;
        assertCount('streaming-iterables', count, n);
      },
    },
  };
}

export const cases: readonly (() => Case)[] = [() => pulled(1e5)];

import { queue } from 'async';
import { concatMap, from, groupBy, mergeMap } from 'rxjs';
import { concatMapBy } from '../../operators/concat-map-by.js';
import { mapInLanes } from '../by-hand.js';
import type { Case } from '../harness.js';
import { assertCount, countValues, numbers } from '../harness.js';

const double = (x: number): Promise<number> => Promise.resolve(2 * x);

function serial(n: number, keys: number): Case {
  const items = numbers(n);
  const key = (x: number): number => x % keys;
  const options = { concurrency: Infinity, maxQueued: Infinity };
  return {
    name: `promises one after the other under ${keys} key(s), ${n.toLocaleString('en')} items`,
    n,
    contestants: {
      'by hand': async () => {
        let count = 0;
        await mapInLanes(items, key, 1, double, () => count++);
        assertCount('by hand', count, n);
      },
      "sluice concatMapBy 'settle'": () => countValues('concatMapBy', from(items).pipe(concatMapBy(key, double, options)), n),
      "sluice concatMapBy 'propagate'": () =>
        countValues('concatMapBy', from(items).pipe(concatMapBy(key, double, { ...options, errors: 'propagate' })), n),
      'rxjs groupBy + concatMap': () =>
        countValues(
          'concatMap',
          from(items).pipe(
            groupBy(key),
            mergeMap((group) => group.pipe(concatMap(double))),
          ),
          n,
        ),
      'async queue per key': async () => {
        let count = 0;
        const queues = Array.from({ length: keys }, () =>
          queue((x: number, done: () => void) => {
            void double(x).then(() => {
              count++;
              done();
            });
          }, 1),
        );
        for (const x of items) void queues[key(x)]!.push(x);
        await Promise.all(queues.map((each) => each.drain()));
        assertCount('async queue', count, n);
      },
    },
  };
}

export const cases: readonly (() => Case)[] = [() => serial(1e5, 100), () => serial(1e4, 1)];

import { eachLimit } from 'async';
import pLimit from 'p-limit';
import PQueue from 'p-queue';
import { from, mergeMap } from 'rxjs';
import { bulkheadMap } from '../../operators/bulkhead-map.js';
import { mapInLanes, mapList } from '../by-hand.js';
import type { Case, Contestant } from '../harness.js';
import { assertCount, countValues, numbers } from '../harness.js';

const double = (x: number): Promise<number> => Promise.resolve(2 * x);

/** A call with a callback, as `async` has them, around the same promise. */
const doubleInto = (x: number, done: (error?: Error | null) => void): void => {
  double(x).then(() => {
    done();
  }, done);
};

function list(n: number, withSlow: boolean): Case {
  const items = numbers(n);
  const slow: Record<string, Contestant> = {
    'rxjs mergeMap': () => countValues('mergeMap', from(items).pipe(mergeMap(double, 10)), n),
    'p-limit': async () => {
      const limit = pLimit(10);
      assertCount('p-limit', (await Promise.all(items.map((x) => limit(double, x)))).length, n);
    },
    'p-queue': async () => {
      const queue = new PQueue({ concurrency: 10 });
      assertCount('p-queue', (await Promise.all(items.map((x) => queue.add(() => double(x))))).length, n);
    },
  };
  return {
    name: `promises at concurrency 10, ${n.toLocaleString('en')} items`,
    n,
    contestants: {
      'by hand': async () => {
        let count = 0;
        await mapList(items, 10, double, () => count++);
        assertCount('by hand', count, n);
      },
      "sluice bulkheadMap 'settle'": () =>
        countValues('bulkheadMap', from(items).pipe(bulkheadMap(double, { concurrency: 10, maxQueued: Infinity })), n),
      "sluice bulkheadMap 'propagate'": () =>
        countValues('bulkheadMap', from(items).pipe(bulkheadMap(double, { concurrency: 10, maxQueued: Infinity, errors: 'propagate' })), n),
      'async eachLimit': async () => {
        let count = 0;
        await eachLimit(items, 10, (x: number, done: (error?: Error | null) => void) => {
          count++;
          doubleInto(x, done);
        });
        assertCount('eachLimit', count, n);
      },
      ...(withSlow && slow),
    },
  };
}

function keyed(n: number): Case {
  const items = numbers(n);
  const key = (x: number): number => x % 100;
  const options = { key, perKey: 10, concurrency: Infinity, maxQueued: Infinity };
  return {
    name: `promises under 100 keys, ten at a time each, ${n.toLocaleString('en')} items`,
    n,
    contestants: {
      'by hand': async () => {
        let count = 0;
        await mapInLanes(items, key, 10, double, () => count++);
        assertCount('by hand', count, n);
      },
      "sluice bulkheadMap 'settle'": () => countValues('bulkheadMap', from(items).pipe(bulkheadMap(double, options)), n),
      "sluice bulkheadMap 'propagate'": () =>
        countValues('bulkheadMap', from(items).pipe(bulkheadMap(double, { ...options, errors: 'propagate' })), n),
    },
  };
}

export const cases: readonly (() => Case)[] = [() => list(1e4, true), () => list(1e5, false), () => keyed(1e5)];

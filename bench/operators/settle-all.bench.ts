import pLimit from 'p-limit';
import { forkJoin, lastValueFrom } from 'rxjs';
import { settleAll } from '../../operators/settle-all.js';
import type { Case } from '../harness.js';
import { assertCount } from '../harness.js';

const double = (x: number): Promise<number> => Promise.resolve(2 * x);

/** The least there is: a few workers that take the next call from the list. */
async function byHand(list: readonly number[], concurrency: number): Promise<PromiseSettledResult<number>[]> {
  const results = new Array<PromiseSettledResult<number>>(list.length);
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < list.length) {
      const index = next++;
      try {
        results[index] = { status: 'fulfilled', value: await double(list[index] as number) };
      } catch (reason) {
        results[index] = { status: 'rejected', reason };
      }
    }
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
  return results;
}

function listOfCalls(n: number): Case {
  const list = Array.from({ length: n }, (_, i) => i);
  return {
    name: `a list of ${n.toLocaleString('en')} calls, 10 at a time`,
    n,
    contestants: {
      'by hand': async () => {
        assertCount('by hand', (await byHand(list, 10)).length, n);
      },
      'sluice settleAll': async () => {
        assertCount('settleAll', (await lastValueFrom(settleAll(list, double, { concurrency: 10 }))).length, n);
      },
      'rxjs forkJoin, all at once': async () => {
        assertCount('forkJoin', (await lastValueFrom(forkJoin(list.map(double)))).length, n);
      },
      'p-limit with Promise.allSettled': async () => {
        const limit = pLimit(10);
        assertCount('p-limit', (await Promise.allSettled(list.map((x) => limit(double, x)))).length, n);
      },
    },
  };
}

export const cases: readonly (() => Case)[] = [() => listOfCalls(1e4)];

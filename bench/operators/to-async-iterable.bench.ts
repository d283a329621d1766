import { Observable } from 'rxjs';
import { toAsyncIterable } from '../../operators/to-async-iterable.js';
import type { Case } from '../harness.js';
import { assertCount, numbers } from '../harness.js';

/** Emits inside `subscribe`, so that only the reading is measured. */
function reading(n: number): Case {
  const values = numbers(n);
  const source = new Observable<number>((subscriber) => {
    for (const value of values) subscriber.next(value);
    subscriber.complete();
  });
  return {
    name: `a for await loop over ${n.toLocaleString('en')} values`,
    n,
    contestants: {
      'by hand': async () => {
        const queue: number[] = [];
        source.subscribe((value) => queue.push(value));
        let count = 0;
        for (const _ of queue) {
          await Promise.resolve();
          count++;
        }
        assertCount('by hand', count, n);
      },
      'sluice toAsyncIterable': async () => {
        let count = 0;
        for await (const _ of toAsyncIterable(source, { maxQueued: Infinity })) count++;
        assertCount('toAsyncIterable', count, n);
      },
    },
  };
}

export const cases: readonly (() => Case)[] = [() => reading(1e5)];

import { of, queueScheduler, range } from 'rxjs';
import { concatMapBy } from '../../operators/index.js';
import type { Shape } from '../matrix/shape.js';
import { echo } from '../matrix/shape.js';
import { shapes } from '../matrix/shapes.js';
import { HELD, MARKS } from './heap.js';

/** Options under which items go through instead of waiting for the end of a frame that never comes in a loop. */
const GOES_ON: Readonly<Record<string, object>> = {
  batchMap: { scheduler: queueScheduler },
  createBatcher: { scheduler: queueScheduler, maxQueued: Infinity },
  toAsyncIterable: { maxQueued: Infinity },
  toReadableStream: { maxQueued: Infinity },
};

const keyOf = (item: number): number => item;
const keyed: Readonly<Record<string, { readonly shape: Shape; readonly options?: object }>> = {
  'bulkheadMap, a key for each': { shape: shapes.bulkheadMap, options: { key: keyOf } },
  'concatMapBy, a key for each': {
    shape: { run: (input) => input.pipe(concatMapBy(keyOf, (item) => of([item]), { errors: 'propagate' })) },
  },
  'createBatcher, a key for each': { shape: shapes.createBatcher, options: { dedupe: keyOf, scheduler: queueScheduler } },
  'switchLatest, a key for each': { shape: shapes.switchLatest, options: { key: keyOf } },
};

/** What is on the heap when so many items have come out, in bytes. */
async function heapAt({ run }: Shape, options: object, marks: readonly number[]): Promise<number[]> {
  const bytes: number[] = [];
  let out = 0;
  await run(range(1, marks[marks.length - 1]), options, echo).forEach((items) => {
    for (const _item of items) {
      if (++out !== marks[bytes.length]) continue;
      globalThis.gc?.();
      bytes.push(process.memoryUsage().heapUsed);
    }
  });
  return bytes;
}

const heaps: Record<string, number[]> = {};
for (const [name, shape] of Object.entries(shapes)) {
  if (!(name in HELD)) heaps[name] = await heapAt(shape, GOES_ON[name] ?? {}, MARKS.items);
}
for (const [name, { shape, options = {} }] of Object.entries(keyed)) heaps[name] = await heapAt(shape, options, MARKS.keys);
console.log(JSON.stringify(heaps));

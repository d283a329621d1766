import { queueScheduler, range } from 'rxjs';
import { lruCache } from '../../operators/index.js';
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

/** A cache that is never full, one that always is, and one whose values are soon too old, each asked for the same few things again and again. */
const fewKeys = (maxEntries: number, ttlMs?: number) => ({
  shape: shapes.createBatcher,
  options: { ...GOES_ON['createBatcher'], dedupe: (item: number) => item % 10, cache: lruCache(maxEntries, { ...(ttlMs && { ttlMs }) }) },
});
const cached: typeof keyed = {
  'createBatcher, a cache with room': fewKeys(1000),
  'createBatcher, a full cache': fewKeys(5),
  'createBatcher, a cache of old values': fewKeys(1000, 1),
};

const heaps: Record<string, number[]> = {};
for (const [name, shape] of Object.entries(shapes)) {
  if (!(name in HELD)) heaps[name] = await heapAt(shape, GOES_ON[name] ?? {}, MARKS.items);
}
for (const [name, { shape, options = {} }] of Object.entries(keyed)) heaps[name] = await heapAt(shape, options, MARKS.keys);
for (const [name, { shape, options = {} }] of Object.entries(cached)) heaps[name] = await heapAt(shape, options, MARKS.items);
console.log(JSON.stringify(heaps));

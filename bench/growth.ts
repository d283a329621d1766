import { from } from 'rxjs';
import { batchMap } from '../operators/batch-map.js';
import { bulkheadMap } from '../operators/bulkhead-map.js';
import { createBatcher } from '../operators/create-batcher.js';
import { createLimiter } from '../operators/create-limiter.js';
import { pool } from './by-hand.js';
import { assertCount, collectGarbage, countValues, measure, median, numbers, table } from './harness.js';

const SIZES = [1e3, 1e4, 1e5, 1e6];
const ROUNDS = 3;
/** A short queue is filled and drained so often that as many items go through. */
const LEAST_ITEMS = 1e5;
const MOST_GROWTH = 2;

const double = (x: number): Promise<number> => Promise.resolve(2 * x);

/** Fills a queue with so many and waits until it is empty. */
type Drain = (items: readonly number[]) => Promise<void>;

async function all(what: string, results: readonly Promise<unknown>[]): Promise<void> {
  assertCount(what, (await Promise.all(results)).length, results.length);
}

/** A promise for each of a million calls is work for the collector, so those by hand grow too. */
const drains: Readonly<Record<string, { readonly drain: Drain; readonly most?: number }>> = {
  'batchMap, calls of 20': {
    drain: (items) =>
      countValues('batchMap', from(items).pipe(batchMap((xs) => Promise.resolve(xs), { maxSize: 20, concurrency: 10 })), items.length),
    most: MOST_GROWTH,
  },
  bulkheadMap: {
    drain: (items) =>
      countValues('bulkheadMap', from(items).pipe(bulkheadMap(double, { concurrency: 10, errors: 'propagate' })), items.length),
    most: MOST_GROWTH,
  },
  runAsync: {
    drain: (items) => {
      const limiter = createLimiter({ concurrency: 10 });
      return all(
        'runAsync',
        items.map((x) => limiter.runAsync(() => double(x))),
      );
    },
  },
  'by hand, a promise per call': { drain: (items) => all('by hand', items.map(pool(10, double))) },
};

/** CPU time per item, everything queued before the first call ends. */
async function costPerItem(name: string, drain: Drain, most: number | undefined): Promise<string[]> {
  const costs: number[] = [];
  for (const size of SIZES) {
    const items = numbers(size);
    const times = Math.max(1, LEAST_ITEMS / size);
    const repeat = async (): Promise<void> => {
      for (let i = 0; i < times; i++) await drain(items);
    };
    const { [name]: taken } = await measure({ contestants: { [name]: repeat } }, ROUNDS);
    costs.push((median(taken!.warm) * 1e6) / (size * times));
  }
  const growth = costs.at(-1)! / costs[0]!;
  return [name, ...costs.map((cost) => cost.toFixed(0)), growth.toFixed(2), verdict(growth, most)];
}

function verdict(value: number, most: number | undefined): string {
  if (most === undefined) return '';
  return value <= most ? String(most) : `${most} MISSED`;
}

/** Bytes that one waiting call holds on to, its promise included; the work is the same for all. */
async function bytesPerCall(open: (gate: Promise<void>) => () => Promise<unknown>): Promise<number> {
  const count = 1e5;
  let finish: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const add = open(gate);
  const results = new Array<Promise<unknown> | undefined>(count).fill(undefined);
  // The slots are taken before the count begins.
  const first = numbers(10).map(add);
  await new Promise((resolve) => setTimeout(resolve, 10));
  collectGarbage();
  const before = process.memoryUsage().heapUsed;
  for (let i = 0; i < count; i++) results[i] = add();
  collectGarbage();
  const bytes = (process.memoryUsage().heapUsed - before) / count;
  finish();
  await Promise.all([...first, ...results]);
  return bytes;
}

const queues: Readonly<Record<string, { readonly open: (gate: Promise<void>) => () => Promise<unknown>; readonly most?: number }>> = {
  'runAsync, waiting for a slot': {
    open: (gate) => {
      const limiter = createLimiter({ concurrency: 10 });
      const work = (): Promise<void> => gate;
      return () => limiter.runAsync(work);
    },
    most: 300,
  },
  'loadAsync, waiting for a slot': {
    open: (gate) => {
      const batcher = createBatcher((keys: readonly number[]) => gate.then(() => [...keys]), { maxSize: 1, concurrency: 10 });
      return () => batcher.loadAsync(1);
    },
    most: 450,
  },
  'by hand': {
    open: (gate) => {
      const run = pool(10, () => gate);
      return () => run(undefined);
    },
  },
};

export async function* growthTables(): AsyncGenerator<string> {
  const rows: string[][] = [];
  for (const [name, { drain, most }] of Object.entries(drains)) rows.push(await costPerItem(name, drain, most));
  const heads = SIZES.map((size) => `${size.toLocaleString('en')} queued`);
  yield `ns of CPU time per item as the queue grows\n\n${table(['queue', ...heads, 'last / first', 'promised'], rows)}`;
  const bytes: string[][] = [];
  for (const [name, { open, most }] of Object.entries(queues)) {
    const each = await bytesPerCall(open);
    bytes.push([name, each.toFixed(0), verdict(each, most)]);
  }
  yield `bytes per waiting call, 100,000 of them\n\n${table(['queue', 'bytes', 'promised'], bytes)}`;
}

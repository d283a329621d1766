import { monitorEventLoopDelay } from 'node:perf_hooks';
import fastq from 'fastq';
import pLimit from 'p-limit';
import PQueue from 'p-queue';
import type { OperatorFunction } from 'rxjs';
import { from } from 'rxjs';
import { batchMap } from '../operators/batch-map.js';
import { bulkheadMap } from '../operators/bulkhead-map.js';
import { concatMapBy } from '../operators/concat-map-by.js';
import { createLimiter } from '../operators/create-limiter.js';
import { pool } from './by-hand.js';
import { assertCount, collectGarbage, countValues, measure, numbers, table } from './harness.js';

const SIZES = [1e3, 1e4, 1e5, 1e6];
const ROUNDS = 3;
/** A short queue is filled and drained so often that as many items go through. */
const LEAST_ITEMS = 1e5;
const LANES = [{ name: 'urgent' }, { name: 'normal' }, { name: 'background' }];

const double = (x: number): Promise<number> => Promise.resolve(2 * x);

/** Fills a queue with so many and waits until it is empty. */
type Drain = (items: readonly number[]) => Promise<void>;

async function all(what: string, results: readonly Promise<unknown>[]): Promise<void> {
  assertCount(what, (await Promise.all(results)).length, results.length);
}

function through(operator: OperatorFunction<number, unknown>, items: readonly number[]): Promise<void> {
  return countValues('values', from(items).pipe(operator), items.length);
}

const drains: Readonly<Record<string, Drain>> = {
  'by hand, a promise per call': (items) => all('by hand', items.map(pool(10, double))),
  'sluice runAsync': (items) => {
    const limiter = createLimiter({ concurrency: 10, maxQueued: Infinity });
    return all(
      'runAsync',
      items.map((x) => limiter.runAsync(() => double(x))),
    );
  },
  'sluice runAsync, three lanes': (items) => {
    const limiter = createLimiter({ concurrency: 10, maxQueued: Infinity, lanes: LANES });
    return all(
      'runAsync',
      items.map((x) => limiter.runAsync(() => double(x), LANES_OF_JOBS[x % 3])),
    );
  },
  'sluice batchMap, three lanes, calls of 20': (items) =>
    countValues(
      'batchMap',
      from(items).pipe(
        batchMap((xs) => Promise.resolve(xs), {
          maxSize: 20,
          concurrency: 10,
          maxQueued: Infinity,
          lanes: LANES,
          lane: (x) => LANES[x % 3]!.name,
        }),
      ),
      items.length,
    ),
  'sluice bulkheadMap': (items) => through(bulkheadMap(double, PROPAGATE), items),
  'sluice concatMapBy, 100 keys': (items) =>
    through(
      concatMapBy((x) => x % 100, double, PROPAGATE),
      items,
    ),
};
const PROPAGATE = { concurrency: 10, maxQueued: Infinity, errors: 'propagate' } as const;
const LANES_OF_JOBS = LANES.map(({ name }) => ({ lane: name }));

/** CPU time per item, everything queued before the first call ends. */
async function costPerItem(name: string, drain: Drain): Promise<string[]> {
  const costs: number[] = [];
  for (const size of SIZES) {
    const items = numbers(size);
    const times = Math.max(1, LEAST_ITEMS / size);
    const repeat = async (): Promise<void> => {
      for (let i = 0; i < times; i++) await drain(items);
    };
    const [row] = await measure({ name, n: size * times, contestants: { [name]: repeat } }, ROUNDS);
    costs.push(row!.nsPerItem);
  }
  return [name, ...costs.map((cost) => cost.toFixed(0)), (costs.at(-1)! / costs[0]!).toFixed(2)];
}

/** Bytes that one waiting call holds on to, its promise included; the function to call is the same for all. */
async function bytesPerCall(count: number, open: (work: () => Promise<void>) => () => Promise<unknown>): Promise<number> {
  let finish: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const add = open(() => gate);
  const results = new Array<Promise<unknown> | undefined>(count).fill(undefined);
  // The slots are taken before the count begins.
  const first = numbers(10).map(add);
  collectGarbage();
  const before = process.memoryUsage().heapUsed;
  for (let i = 0; i < count; i++) results[i] = add();
  collectGarbage();
  const bytes = (process.memoryUsage().heapUsed - before) / count;
  finish();
  await Promise.all([...first, ...results]);
  return bytes;
}

const queues: Readonly<Record<string, (work: () => Promise<void>) => () => Promise<unknown>>> = {
  'by hand': (work) => {
    const run = pool(10, work);
    return () => run(undefined);
  },
  'sluice runAsync': (work) => {
    const limiter = createLimiter({ concurrency: 10, maxQueued: Infinity });
    return () => limiter.runAsync(work);
  },
  fastq: (work) => {
    const tasks = fastq.promise(work, 10);
    return () => tasks.push(undefined);
  },
  'p-limit': (work) => {
    const limit = pLimit(10);
    return () => limit(work);
  },
  'p-queue': (work) => {
    const tasks = new PQueue({ concurrency: 10 });
    return () => tasks.add(work);
  },
};

/** How late timers are while a queue empties: nobody else gets a turn for so long. */
async function loopDelay(name: string, drain: Drain): Promise<string[]> {
  const items = numbers(1e5);
  await drain(items);
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const pulse = setInterval(() => undefined, 1);
  await new Promise((resolve) => setTimeout(resolve, 50));
  await drain(items);
  await new Promise((resolve) => setTimeout(resolve, 50));
  clearInterval(pulse);
  delay.disable();
  return [name, (delay.mean / 1e6).toFixed(1), (delay.percentile(99) / 1e6).toFixed(1), (delay.max / 1e6).toFixed(1)];
}

export async function* growthTables(): AsyncGenerator<string> {
  const rows: string[][] = [];
  for (const [name, drain] of Object.entries(drains)) rows.push(await costPerItem(name, drain));
  const heads = SIZES.map((size) => `${size.toLocaleString('en')} queued`);
  yield `ns of CPU time per item as the queue grows\n\n${table(['queue', ...heads, 'last / first'], rows)}`;
  const bytes: string[][] = [];
  for (const [name, open] of Object.entries(queues)) bytes.push([name, (await bytesPerCall(1e5, open)).toFixed(0)]);
  yield `bytes per queued call, 100,000 queued\n\n${table(['queue', 'bytes'], bytes)}`;
  const delays: string[][] = [];
  for (const [name, drain] of Object.entries(drains)) delays.push(await loopDelay(name, drain));
  yield `event-loop delay in ms, 100,000 queued promises\n\n${table(['queue', 'mean', '99 %', 'longest'], delays)}`;
}

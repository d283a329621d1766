import DataLoader from 'dataloader';
import PQueue from 'p-queue';
import { bufferCount, bufferTime, from, mergeMap, Observable } from 'rxjs';
import { batch } from '../operators/batch.js';
import { batchMap } from '../operators/batch-map.js';
import { createBatcher } from '../operators/create-batcher.js';
import { createLimiter } from '../operators/create-limiter.js';
import type { Case } from './harness.js';
import { assertCount } from './harness.js';

function numbers(n: number): number[] {
  return Array.from({ length: n }, (_, i) => i);
}

function countItems(source: Observable<readonly unknown[]>, want: number): void {
  let items = 0;
  source.subscribe((batch) => (items += batch.length));
  assertCount('batches', items, want);
}

function countValues(source: Observable<unknown>, want: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let values = 0;
    source.subscribe({
      next: () => values++,
      error: reject,
      complete: () => {
        assertCount('values', values, want);
        resolve();
      },
    });
  });
}

const double = (x: number): Promise<number> => Promise.resolve(2 * x);

/** The least anybody could do: arrays and a loop, no library. */
const byHand = {
  batch(items: readonly number[], size: number, emit: (batch: number[]) => void): void {
    let open: number[] = [];
    for (const item of items) {
      open.push(item);
      if (open.length === size) {
        emit(open);
        open = [];
      }
    }
    if (open.length > 0) emit(open);
  },
  async pool(items: readonly number[], concurrency: number, work: (x: number) => Promise<number>): Promise<number> {
    let next = 0;
    let done = 0;
    const worker = async (): Promise<void> => {
      while (next < items.length) {
        await work(items[next++] as number);
        done++;
      }
    };
    await Promise.all(Array.from({ length: concurrency }, worker));
    return done;
  },
};

export function batchBySize(n: number): Case {
  const items = numbers(n);
  return {
    name: `batch by size 100, ${n.toLocaleString('en')} items`,
    n,
    contestants: {
      'by hand': () => {
        let count = 0;
        byHand.batch(items, 100, (b) => (count += b.length));
        assertCount('by hand', count, n);
      },
      'sluice batch': () => {
        countItems(from(items).pipe(batch({ maxSize: 100, maxWaitMs: Infinity })), n);
      },
      'rxjs bufferCount': () => {
        countItems(from(items).pipe(bufferCount(100)), n);
      },
    },
  };
}

export function batchBySizeOrTime(n: number): Case {
  const items = numbers(n);
  return {
    name: `batch by size 100 or 1 s, ${n.toLocaleString('en')} items`,
    n,
    contestants: {
      'sluice batch': () => {
        countItems(from(items).pipe(batch({ maxSize: 100, maxWaitMs: 1000 })), n);
      },
      'rxjs bufferTime': () => {
        countItems(from(items).pipe(bufferTime(1000, null, 100)), n);
      },
    },
  };
}

export function callsOfOne(n: number): Case {
  const items = numbers(n);
  return {
    name: `calls at concurrency 10, one item each, ${n.toLocaleString('en')} items`,
    n,
    contestants: {
      'by hand': async () => {
        assertCount('by hand', await byHand.pool(items, 10, double), n);
      },
      'sluice batchMap': () =>
        countValues(
          from(items).pipe(batchMap(([x]) => double(x as number).then((y) => [y]), { maxSize: 1, concurrency: 10, maxQueued: Infinity })),
          n,
        ),
      'rxjs mergeMap': () => countValues(from(items).pipe(mergeMap(double, 10)), n),
    },
  };
}

export function callsOfTwenty(n: number): Case {
  const items = numbers(n);
  return {
    name: `batches of 20 into calls at concurrency 10, ${n.toLocaleString('en')} items`,
    n,
    contestants: {
      'sluice batchMap': () =>
        countValues(
          from(items).pipe(batchMap((xs) => Promise.resolve(xs.map((x) => 2 * x)), { maxSize: 20, concurrency: 10, maxQueued: Infinity })),
          n,
        ),
      'rxjs bufferCount + mergeMap': () =>
        countValues(
          from(items).pipe(
            bufferCount(20),
            mergeMap((xs) => Promise.resolve(xs.map((x) => 2 * x)), 10),
            mergeMap((ys) => ys),
          ),
          n,
        ),
    },
  };
}

export function promiseForm(n: number): Case {
  const items = numbers(n);
  return {
    name: `a promise per call at concurrency 10, ${n.toLocaleString('en')} calls`,
    n,
    contestants: {
      'sluice limiter': async () => {
        const limiter = createLimiter({ concurrency: 10, maxQueued: Infinity });
        const results = await Promise.all(
          items.map(async (x) => {
            const lease = await limiter.acquireAsync();
            try {
              return await double(x);
            } finally {
              lease.release();
            }
          }),
        );
        assertCount('limiter', results.length, n);
      },
      'p-queue': async () => {
        const queue = new PQueue({ concurrency: 10 });
        const results = await Promise.all(items.map((x) => queue.add(() => double(x))));
        assertCount('p-queue', results.length, n);
      },
    },
  };
}

export function loadsInWaves(n: number): Case {
  const waves = Math.ceil(n / 100);
  const run = async (load: (key: number) => Promise<number>): Promise<void> => {
    let loaded = 0;
    for (let wave = 0; wave < waves; wave++) {
      loaded += (await Promise.all(Array.from({ length: 100 }, (_, i) => load(100 * wave + i)))).length;
    }
    assertCount('loads', loaded, 100 * waves);
  };
  return {
    name: `loads in waves of 100, ${n.toLocaleString('en')} loads`,
    n,
    contestants: {
      'sluice createBatcher': () => {
        const batcher = createBatcher<number, number>((keys) => Promise.resolve(keys.map((k) => 2 * k)), {
          maxSize: 100,
          maxWeight: Infinity,
          concurrency: Infinity,
        });
        return run((key) => batcher.loadAsync(key));
      },
      DataLoader: () => {
        const loader = new DataLoader<number, number>((keys) => Promise.resolve(keys.map((k) => 2 * k)), {
          cache: false,
          maxBatchSize: 100,
        });
        return run((key) => loader.load(key));
      },
    },
  };
}

/** Everything is queued before the first call ends; then the queue drains. */
export function growth(n: number): Case {
  const items = numbers(n);
  const lanes = [{ name: 'urgent' }, { name: 'normal' }, { name: 'background' }];
  return {
    name: `queued in three lanes, ${n.toLocaleString('en')} items`,
    n,
    contestants: {
      'sluice batchMap': () =>
        countValues(
          from(items).pipe(
            batchMap((xs) => Promise.resolve(xs), {
              maxSize: 20,
              concurrency: 10,
              maxQueued: Infinity,
              lanes,
              lane: (x) => (lanes[x % 3] as { name: string }).name,
            }),
          ),
          n,
        ),
    },
  };
}

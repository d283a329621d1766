import { eachLimit, priorityQueue } from 'async';
import DataLoader from 'dataloader';
import fastq from 'fastq';
import { bufferCount, from, Observable, of, range, switchMap } from 'rxjs';
import { batch as chunk } from 'streaming-iterables';
import * as sluice from '../operators/index.js';
import { lanes } from '../operators/lanes.js';
import { agUi } from './ag-ui.js';
import { batchBySize, batchByWeight, loader, mapInLanes, mapList, pool, priorityPool, SizeOrTime, slots } from './by-hand.js';
import type { Case, Contestant, Gate } from './harness.js';
import { assertCount, countValues, numbers } from './harness.js';

/** What is used here of the operators of 44f4f3e, under the names of then. */
interface Before {
  readonly batch: (options: object) => (source: Observable<number>) => Observable<unknown[]>;
  readonly batchMap: (work: (items: readonly number[]) => unknown, options: object) => (source: Observable<number>) => Observable<unknown>;
  readonly bulkheadMap: (work: (item: number) => unknown, options: object) => (source: Observable<number>) => Observable<unknown>;
  readonly createLimiter: (options: object) => PermitQueue;
  readonly createBatcher: (
    work: (items: readonly number[]) => unknown,
    options: object,
  ) => { readonly loadAsync: (item: number) => Promise<number> };
}

interface PermitQueue {
  runAsync(work: () => Promise<number>, job?: { readonly lane?: string }): Promise<number>;
  acquireAsync(): Promise<{ release(): void }>;
}

const BY_HAND = 'by hand';
const NOW = 'sluice';
const BEFORE = 'sluice at 44f4f3e';
/** Where the operators of 44f4f3e are, built; empty when the history is not there. */
const built = process.env['SLUICE_BEFORE'] ?? '';
/** What is the default now. */
const UNBOUNDED = { maxQueued: Infinity };
const before = built === '' ? undefined : ((await import(built)) as Before);

const double = (x: number): Promise<number> => Promise.resolve(2 * x);
const doubleAll = (xs: readonly number[]): Promise<number[]> => Promise.resolve(xs.map((x) => 2 * x));
const LEVELS = numbers(10).map((level) => ({ name: `p${level}` }));

/** Ours, now and then: a gate to the first contestant, and one to what it was. */
function gates(toHand: number | undefined, toBefore?: number): Gate[] {
  return [
    ...(toHand !== undefined ? [{ of: NOW, to: BY_HAND, most: toHand }] : []),
    ...(toBefore !== undefined && before ? [{ of: NOW, to: BEFORE, most: toBefore }] : []),
  ];
}

function ifBefore(contestant: (operators: Before) => void | Promise<void>): Record<string, Contestant> {
  return before ? { [BEFORE]: () => contestant(before) } : {};
}

function countItems(what: string, batches: Observable<readonly unknown[]>, want: number): void {
  let items = 0;
  batches.subscribe((taken) => (items += taken.length));
  assertCount(what, items, want);
}

function batchCases(): Record<string, Case> {
  const n = 1e6;
  const items = numbers(n);
  const texts = items.map((i) => ({ tokens: 1 + ((i * 7919) % 400) }));
  const weigh = ({ tokens }: { readonly tokens: number }): number => tokens;
  const byHand = (run: (emit: (taken: readonly unknown[]) => void) => void) => (): void => {
    let count = 0;
    run((taken) => (count += taken.length));
    assertCount(BY_HAND, count, n);
  };
  const bySize = { maxSize: 100, maxWaitMs: Infinity };
  const byTime = { maxSize: 100, maxWaitMs: 1000 };
  const byWeight = { maxSize: 100, maxWeight: 8000, weigh, maxWaitMs: Infinity };
  return {
    'batch by size': {
      title: '`batch`: by 100',
      n,
      contestants: {
        [BY_HAND]: byHand((emit) => {
          batchBySize(items, 100, emit);
        }),
        [NOW]: () => {
          countItems(NOW, from(items).pipe(sluice.batch(bySize)), n);
        },
        ...ifBefore(({ batch }) => {
          countItems(BEFORE, from(items).pipe(batch(bySize)), n);
        }),
        'rxjs bufferCount': () => {
          countItems('bufferCount', from(items).pipe(bufferCount(100)), n);
        },
        'streaming-iterables batch': byHand((emit) => {
          for (const taken of chunk<number, number[]>(100, items)) emit(taken);
        }),
      },
      gates: gates(1.4),
    },
    'batch by size or time': {
      title: '`batch`: by 100 or 1 s',
      n,
      contestants: {
        [BY_HAND]: byHand((emit) => {
          const batches = new SizeOrTime<number>(100, 1000, emit);
          for (const item of items) batches.push(item);
          batches.end();
        }),
        [NOW]: () => {
          countItems(NOW, from(items).pipe(sluice.batch(byTime)), n);
        },
        ...ifBefore(({ batch }) => {
          countItems(BEFORE, from(items).pipe(batch(byTime)), n);
        }),
      },
      gates: gates(1.1),
    },
    'batch by tokens': {
      title: '`batch`: by 8,000 tokens or 100',
      n,
      contestants: {
        [BY_HAND]: byHand((emit) => {
          batchByWeight(texts, 8000, 100, weigh, emit);
        }),
        [NOW]: () => {
          countItems(NOW, from(texts).pipe(sluice.batch(byWeight)), n);
        },
        ...ifBefore(({ batch }) => {
          countItems(BEFORE, (from(texts) as Observable<never>).pipe(batch(byWeight)), n);
        }),
      },
      gates: gates(1.9),
    },
  };
}

function batchMapCase(title: string, n: number, work: (items: readonly number[]) => unknown, maxSize: number): Case {
  const items = numbers(n);
  const options = { maxSize, concurrency: 10 };
  return {
    title: `\`batchMap\`: ${title}`,
    n,
    contestants: {
      [NOW]: () => countValues(NOW, from(items).pipe(sluice.batchMap(work as typeof doubleAll, options)), n),
      ...ifBefore(({ batchMap }) => countValues(BEFORE, from(items).pipe(batchMap(work, { ...options, ...UNBOUNDED })), n)),
    },
    gates: gates(undefined, 0.9),
  };
}

function listCases(): Record<string, Case> {
  const n = 1e5;
  const items = numbers(n);
  const list = { concurrency: 10 };
  const key = (x: number): number => x % 100;
  const keyed = { key, perKey: 10, concurrency: Infinity };
  const ours = (options: typeof list | typeof keyed): Record<string, Contestant> => ({
    [NOW]: () => countValues(NOW, from(items).pipe(sluice.bulkheadMap(double, { ...options, errors: 'propagate' })), n),
    "sluice, 'settle'": () => countValues(NOW, from(items).pipe(sluice.bulkheadMap(double, options)), n),
    ...ifBefore(({ bulkheadMap }) =>
      countValues(BEFORE, from(items).pipe(bulkheadMap(double, { ...options, ...UNBOUNDED, errors: 'propagate' })), n),
    ),
  });
  const byHand = (run: (emit: () => void) => Promise<void>) => async (): Promise<void> => {
    let count = 0;
    await run(() => count++);
    assertCount(BY_HAND, count, n);
  };
  return {
    list: {
      title: '`bulkheadMap`: a list of promises at concurrency 10',
      n,
      contestants: {
        [BY_HAND]: byHand((emit) => mapList(items, 10, double, emit)),
        ...ours(list),
        'async eachLimit': async () => {
          let count = 0;
          await eachLimit(items, 10, (x: number, done: (error?: Error | null) => void) => {
            count++;
            double(x).then(() => {
              done();
            }, done);
          });
          assertCount('eachLimit', count, n);
        },
      },
      gates: gates(2.2, 1.1),
    },
    keyed: {
      title: '`bulkheadMap`: 100 keys, ten at a time each',
      n,
      contestants: { [BY_HAND]: byHand((emit) => mapInLanes(items, key, 10, double, emit)), ...ours(keyed) },
      gates: gates(1.5, 1.1),
    },
  };
}

async function all(what: string, results: Iterable<Promise<unknown>>, want: number): Promise<void> {
  assertCount(what, (await Promise.all(results)).length, want);
}

async function acquireInTurn<P>(n: number, acquire: () => Promise<P>, release: (permit: P) => void): Promise<void> {
  let granted = 0;
  for (; granted < n; granted++) release(await acquire());
  assertCount('permits', granted, n);
}

async function acquireAtOnce<P>(n: number, acquire: () => Promise<P>, release: (permit: P) => void): Promise<void> {
  const asked = new Array<Promise<P> | undefined>(n).fill(undefined);
  for (let i = 0; i < n; i++) asked[i] = acquire();
  let granted = 0;
  for (const permit of asked) {
    release((await permit) as P);
    granted++;
  }
  assertCount('permits', granted, n);
}

function limiterCases(): Record<string, Case> {
  const n = 1e5;
  const items = numbers(n);
  const levels = items.map((i) => (i * 7919) % 10);
  const promises = (limiter: PermitQueue): Promise<void> =>
    all(
      NOW,
      items.map((x) => limiter.runAsync(() => double(x))),
      n,
    );
  const priorities = (limiter: PermitQueue): Promise<void> =>
    all(
      NOW,
      items.map((x) => limiter.runAsync(() => double(x), LEVELS_OF_JOBS[levels[x]!])),
      n,
    );
  const permits = (how: typeof acquireInTurn, limiter: PermitQueue): Promise<void> =>
    how(
      n,
      () => limiter.acquireAsync(),
      (lease) => {
        lease.release();
      },
    );
  const permitCase = (title: string, how: typeof acquireInTurn, concurrency: number, most: number): Case => ({
    title: `\`acquireAsync\`: ${title}`,
    n,
    contestants: {
      [BY_HAND]: () => {
        const { acquire, release } = slots(concurrency);
        return how(n, acquire, release);
      },
      [NOW]: () => permits(how, sluice.createLimiter({ concurrency })),
      ...ifBefore(({ createLimiter }) => permits(how, createLimiter({ concurrency, ...UNBOUNDED }))),
    },
    gates: gates(most, 0.8),
  });
  return {
    promises: {
      title: '`runAsync`: a promise per call at concurrency 10, all queued',
      n,
      contestants: {
        [BY_HAND]: () => all(BY_HAND, items.map(pool(10, double)), n),
        [NOW]: () => promises(sluice.createLimiter({ concurrency: 10 })),
        ...ifBefore(({ createLimiter }) => promises(createLimiter({ concurrency: 10, ...UNBOUNDED }))),
        fastq: () => {
          const tasks = fastq.promise(double, 10);
          return all(
            'fastq',
            items.map((x) => tasks.push(x)),
            n,
          );
        },
      },
      gates: gates(1.5, 0.8),
    },
    priorities: {
      title: '`runAsync`: ten priorities at concurrency 10, all queued',
      n,
      contestants: {
        [BY_HAND]: () => {
          const run = priorityPool(10, 10, double);
          return all(
            BY_HAND,
            items.map((x) => run(x, levels[x]!)),
            n,
          );
        },
        [NOW]: () => priorities(tenPriorities()),
        ...ifBefore(({ createLimiter }) => priorities(createLimiter({ concurrency: 10, ...UNBOUNDED, lanes: LEVELS }))),
        'async priorityQueue': () => {
          const tasks = priorityQueue<number>((x, done: (error: Error | null, result?: number) => void) => {
            double(x).then((result) => {
              done(null, result);
            }, done);
          }, 10) as unknown as { pushAsync(item: number, priority: number): Promise<number> };
          return all(
            'async',
            items.map((x) => tasks.pushAsync(x, levels[x]!)),
            n,
          );
        },
      },
      gates: gates(1.4, 0.8),
    },
    acquire: permitCase('one after the other, a slot always free', acquireInTurn, 10, 3.5),
    'acquire at once': permitCase('all in one turn, a slot for each', acquireAtOnce, n, 5),
  };
}

function tenPriorities(): PermitQueue {
  return sluice.createLimiter({ concurrency: 10, queue: lanes(LEVELS) });
}

const LEVELS_OF_JOBS = LEVELS.map(({ name }) => ({ lane: name }));
const WAVE = 100;

function loads(): Case {
  const n = 1e5;
  const options = { maxSize: WAVE, maxWeight: Infinity, concurrency: Infinity };
  const inWaves = async (what: string, load: (key: number) => Promise<number>): Promise<void> => {
    let loaded = 0;
    for (let wave = 0; wave < n; wave += WAVE) {
      loaded += (await Promise.all(Array.from({ length: WAVE }, (_, i) => load(wave + i)))).length;
    }
    assertCount(what, loaded, n);
  };
  return {
    title: `\`loadAsync\`: in waves of ${WAVE}`,
    n,
    contestants: {
      [BY_HAND]: () => inWaves(BY_HAND, loader(WAVE, doubleAll)),
      [NOW]: () => {
        const batcher = sluice.createBatcher<number, number>(doubleAll, options);
        return inWaves(NOW, (key) => batcher.loadAsync(key));
      },
      ...ifBefore(({ createBatcher }) => {
        const batcher = createBatcher(doubleAll, { ...options, ...UNBOUNDED });
        return inWaves(BEFORE, (key) => batcher.loadAsync(key));
      }),
      DataLoader: () => {
        const peer = new DataLoader<number, number>(doubleAll, { cache: false, maxBatchSize: WAVE });
        return inWaves('DataLoader', (key) => peer.load(key));
      },
    },
    gates: [{ of: NOW, to: 'DataLoader', most: 1.3 }],
  };
}

/** By name, as they are asked for. */
function switches(): Case {
  const n = 1e5;
  /** Answers later, unless it is left before. */
  const later = (item: number): Observable<number> =>
    new Observable((subscriber) => {
      void Promise.resolve().then(() => {
        subscriber.next(item);
        subscriber.complete();
      });
    });
  return {
    title: '`switchLatest`: asynchronous inner Observables, the signal not read',
    n,
    contestants: {
      [NOW]: () => countValues(NOW, range(0, n).pipe(sluice.switchLatest(later)), 1),
      switchMap: () => countValues('switchMap', range(0, n).pipe(switchMap(later)), 1),
    },
    gates: [{ of: NOW, to: 'switchMap', most: 1.05 }],
  };
}

export const cases: Readonly<Record<string, Case>> = {
  ...batchCases(),
  'batchMap by 100': batchMapCase('synchronous work, by 100', 1e5, (xs) => of(xs), 100),
  'batchMap by 20': batchMapCase('promises, by 20', 1e5, doubleAll, 20),
  'batchMap by 1': batchMapCase('promises, one item each', 1e5, doubleAll, 1),
  ...listCases(),
  ...limiterCases(),
  loads: loads(),
  switches: switches(),
  'ag-ui': agUi,
};

import { priorityQueue, queue } from 'async';
import fastq from 'fastq';
import pLimit from 'p-limit';
import PQueue from 'p-queue';
import { Observable } from 'rxjs';
import type { LimiterOptions } from '../../operators/create-limiter.js';
import { createLimiter } from '../../operators/create-limiter.js';
import type { Permit } from '../by-hand.js';
import { Permits, pool, priorityPool, rate, slots } from '../by-hand.js';
import type { Case } from '../harness.js';
import { assertCount, numbers } from '../harness.js';

const double = (x: number): Promise<number> => Promise.resolve(2 * x);

/** The same work for a queue that hands a callback around. */
function doubleThen(x: number, done: (error: Error | null, result?: number) => void): void {
  double(x).then((result) => {
    done(null, result);
  }, done);
}

async function all(what: string, results: Iterable<Promise<number>>, want: number): Promise<void> {
  assertCount(what, (await Promise.all(results)).length, want);
}

function promiseForm(n: number): Case {
  const items = numbers(n);
  return {
    name: `a promise per call at concurrency 10, ${n.toLocaleString('en')} calls queued`,
    n,
    contestants: {
      'by hand': () => all('by hand', items.map(pool(10, double)), n),
      'sluice runAsync': () => {
        const limiter = createLimiter({ concurrency: 10, maxQueued: Infinity });
        return all(
          'runAsync',
          items.map((x) => limiter.runAsync(() => double(x))),
          n,
        );
      },
      'sluice acquireAsync': () => {
        const limiter = createLimiter({ concurrency: 10, maxQueued: Infinity });
        return all(
          'acquireAsync',
          items.map(async (x) => {
            const lease = await limiter.acquireAsync();
            try {
              return await double(x);
            } finally {
              lease.release();
            }
          }),
          n,
        );
      },
      fastq: () => {
        const tasks = fastq.promise(double, 10);
        return all(
          'fastq',
          items.map((x) => tasks.push(x)),
          n,
        );
      },
      'async queue': () => {
        const tasks = queue(doubleThen, 10);
        return all(
          'async',
          items.map((x) => tasks.pushAsync<number>(x)),
          n,
        );
      },
      'p-limit': () => {
        const limit = pLimit(10);
        return all(
          'p-limit',
          items.map((x) => limit(() => double(x))),
          n,
        );
      },
      'p-queue': () => {
        const tasks = new PQueue({ concurrency: 10 });
        return all(
          'p-queue',
          items.map((x) => tasks.add(() => double(x))),
          n,
        );
      },
    },
  };
}

function priorities(n: number): Case {
  const items = numbers(n).map((i) => ({ value: i, level: (i * 7919) % 10 }));
  const lanes = numbers(10).map((level) => ({ name: `p${level}` }));
  return {
    name: `ten priorities at concurrency 10, ${n.toLocaleString('en')} calls queued`,
    n,
    contestants: {
      'by hand': () => {
        const run = priorityPool(10, 10, double);
        return all(
          'by hand',
          items.map(({ value, level }) => run(value, level)),
          n,
        );
      },
      'sluice runAsync': () => {
        const limiter = createLimiter({ concurrency: 10, maxQueued: Infinity, lanes });
        return all(
          'runAsync',
          items.map(({ value, level }) => limiter.runAsync(() => double(value), { lane: lanes[level]!.name })),
          n,
        );
      },
      'async priorityQueue': () => {
        const tasks = priorityQueue<number>(doubleThen, 10) as unknown as { pushAsync(item: number, priority: number): Promise<number> };
        return all(
          'async',
          items.map(({ value, level }) => tasks.pushAsync(value, level)),
          n,
        );
      },
    },
  };
}

async function acquireInTurn<P>(n: number, acquire: () => Promise<P>, release: (permit: P) => void): Promise<void> {
  let granted = 0;
  for (; granted < n; granted++) release(await acquire());
  assertCount('permits', granted, n);
}

function freeSlots(n: number): Case {
  return {
    name: `acquire and release one after the other, a slot always free, ${n.toLocaleString('en')} permits`,
    n,
    contestants: {
      'by hand': () => {
        const { acquire, release } = slots(10);
        return acquireInTurn(n, acquire, release);
      },
      'sluice acquireAsync': () => {
        const limiter = createLimiter({ concurrency: 10 });
        return acquireInTurn(
          n,
          () => limiter.acquireAsync(),
          (lease) => {
            lease.release();
          },
        );
      },
    },
  };
}

function freeRate(n: number): Case {
  return {
    name: `acquire one after the other under a rate never reached, ${n.toLocaleString('en')} permits`,
    n,
    contestants: {
      'by hand': () => acquireInTurn(n, rate(1e9), () => undefined),
      'sluice acquireAsync': () => {
        const limiter = createLimiter({ requestsPerMinute: 6e10 });
        return acquireInTurn(
          n,
          () => limiter.acquireAsync(),
          (lease) => {
            lease.release();
          },
        );
      },
    },
  };
}

const PER_SECOND = 1e9;
const RATES = { concurrency: 10, requestsPerMinute: 60 * PER_SECOND, tokensPerMinute: 60 * PER_SECOND };
const SLIDING = { ...RATES, discipline: 'sliding', costAboveCapacity: 'reject' } as const;
const JOB = { cost: { tokens: 100 } };

/** Takes a permit at once and gives it back, so many times. */
function takeInTurn(n: number, take: () => Pick<Permit, 'release'> | undefined): void {
  let granted = 0;
  for (let i = 0; i < n; i++) {
    const permit = take();
    if (permit === undefined) continue;
    granted++;
    permit.release();
  }
  assertCount('permits', granted, n);
}

function subscribeInTurn(n: number, permits: () => Observable<Pick<Permit, 'release'>>): void {
  let granted = 0;
  for (let i = 0; i < n; i++) {
    permits().subscribe((permit) => {
      granted++;
      permit.release();
    });
  }
  assertCount('permits', granted, n);
}

const byHand = (): Permits => new Permits(10, PER_SECOND, PER_SECOND);
const release = (permit: Pick<Permit, 'release'>): void => {
  permit.release();
};

/** Slots, requests and tokens, none of them ever reached. */
function tried(n: number): Case {
  const ours = (options: LimiterOptions): void => {
    const limiter = createLimiter(options);
    takeInTurn(n, () => limiter.tryAcquire(JOB));
  };
  return {
    name: `a slot, a request and 100 tokens at once, ${n.toLocaleString('en')} permits`,
    n,
    contestants: {
      'by hand': () => {
        const permits = byHand();
        takeInTurn(n, () => permits.take(100));
      },
      'sluice tryAcquire': () => {
        ours(RATES);
      },
      "sluice tryAcquire, 'sliding'": () => {
        ours(SLIDING);
      },
    },
  };
}

function observed(n: number): Case {
  return {
    name: `the same as an Observable, ${n.toLocaleString('en')} permits`,
    n,
    contestants: {
      'by hand': () => {
        const permits = byHand();
        subscribeInTurn(
          n,
          () =>
            new Observable<Permit>((subscriber) => {
              subscriber.next(permits.take(100)!);
              subscriber.complete();
            }),
        );
      },
      'sluice acquire': () => {
        const limiter = createLimiter(RATES);
        subscribeInTurn(n, () => limiter.acquire(JOB));
      },
    },
  };
}

function promised(n: number): Case {
  return {
    name: `the same as a promise, ${n.toLocaleString('en')} permits`,
    n,
    contestants: {
      'by hand': () => {
        const permits = byHand();
        return acquireInTurn(n, () => Promise.resolve(permits.take(100)!), release);
      },
      'sluice acquireAsync': () => {
        const limiter = createLimiter(RATES);
        return acquireInTurn(n, () => limiter.acquireAsync(JOB), release);
      },
    },
  };
}

export const cases: readonly (() => Case)[] = [
  () => promiseForm(1e5),
  () => priorities(1e5),
  () => freeSlots(1e5),
  () => freeRate(1e5),
  () => tried(1e6),
  () => observed(1e5),
  () => promised(1e5),
];

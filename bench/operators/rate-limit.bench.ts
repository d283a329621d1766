import type { Observable } from 'rxjs';
import { concatMap, delay, from, of } from 'rxjs';
import { createLimiter } from '../../operators/create-limiter.js';
import { rateLimit } from '../../operators/rate-limit.js';
import type { Case } from '../harness.js';
import { assertCount, countValues, numbers } from '../harness.js';

/** What one writes who needs only this: a bucket of requests. */
class Bucket {
  #level: number;
  #at = performance.now();

  constructor(
    private readonly perMs: number,
    private readonly capacity: number,
  ) {
    this.#level = capacity;
  }

  /** In how many ms one may go; it is taken when that is 0. */
  take(): number {
    const now = performance.now();
    this.#level = Math.min(this.capacity, this.#level + (now - this.#at) * this.perMs);
    this.#at = now;
    if (this.#level < 1) return (1 - this.#level) / this.perMs;
    this.#level--;
    return 0;
  }
}

/** What the operator costs where the rate is never reached. */
function free(n: number): Case {
  const items = numbers(n);
  const count = (what: string, stream: Observable<number>): void => {
    let seen = 0;
    stream.subscribe(() => seen++);
    assertCount(what, seen, n);
  };
  return {
    name: `rateLimit, a rate never reached, ${n.toLocaleString('en')} items`,
    n,
    contestants: {
      'by hand': () => {
        const bucket = new Bucket(1e6, 1e9);
        let seen = 0;
        from(items).subscribe(() => {
          if (bucket.take() === 0) seen++;
        });
        assertCount('by hand', seen, n);
      },
      'sluice rateLimit': () => {
        count('rateLimit', from(items).pipe(rateLimit(createLimiter({ requestsPerMinute: 6e10 }))));
      },
      'rxjs concatMap': () => {
        count('concatMap', from(items).pipe(concatMap((item) => of(item))));
      },
    },
  };
}

/** Everything waits for somebody who has the only slot, and then goes. RxJS's `concatMap` behind a signal loses all but 800 of them. */
function waiting(n: number): Case {
  const items = numbers(n);
  return {
    name: `rateLimit, ${n.toLocaleString('en')} items that wait for one slot, and then go`,
    n,
    contestants: {
      'by hand': () => {
        const queue: number[] = [];
        let seen = 0;
        from(items).subscribe((item) => queue.push(item));
        for (let at = 0; at < queue.length; at++) if (queue[at] !== undefined) seen++;
        assertCount('by hand', seen, n);
      },
      'sluice rateLimit': () => {
        const limiter = createLimiter({ concurrency: 1 });
        const lease = limiter.tryAcquire();
        let seen = 0;
        from(items)
          .pipe(rateLimit(limiter, {}, { maxQueued: Infinity }))
          .subscribe(() => seen++);
        lease?.release();
        assertCount('rateLimit', seen, n);
      },
    },
  };
}

/** One item in each millisecond. */
function paced(n: number): Case {
  const items = numbers(n);
  return {
    name: `rateLimit, one item in each ms, ${n.toLocaleString('en')} items`,
    n,
    contestants: {
      'by hand': () => {
        const bucket = new Bucket(1, 1);
        return new Promise<void>((resolve) => {
          let at = 0;
          const go = (): void => {
            for (; at < n; at++) {
              const waitMs = bucket.take();
              if (waitMs === 0) continue;
              setTimeout(go, Math.ceil(waitMs));
              return;
            }
            resolve();
          };
          go();
        });
      },
      'sluice rateLimit': () =>
        countValues(
          'rateLimit',
          from(items).pipe(rateLimit(createLimiter({ requestsPerMinute: 60_000, burstSeconds: 0.001, headroom: 1 }))),
          n,
        ),
      'rxjs concatMap, delay': () => countValues('concatMap', from(items).pipe(concatMap((item) => of(item).pipe(delay(1)))), n),
    },
  };
}

export const cases: readonly (() => Case)[] = [() => free(1e6), () => waiting(1e5), () => paced(300)];

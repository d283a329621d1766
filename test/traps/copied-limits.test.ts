import type { Observable } from 'rxjs';
import { delay, from, map, mergeMap, of, range, take, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import { createWorker } from '../../marbles/worker.js';
import type { Limiter, LimiterJob } from '../../operators/index.js';
import {
  batchMapFrom,
  bulkheadMap,
  createAccount,
  createLimiter,
  FlowConfigError,
  lanes,
  perMinute,
  settleAll,
} from '../../operators/index.js';
import { hostTime, numbers, sleep, stateOf, turns } from './tools.js';

// Three levels of limits (papers, stages, requests), as a design for a grading pipeline writes them.

/** One holder at a time, in line. */
class Lock {
  #last: Promise<unknown> = Promise.resolve();
  hold<R>(inside: () => Promise<R>): Promise<R> {
    const held = this.#last.then(inside);
    this.#last = held.catch(() => undefined);
    return held;
  }
}

class TokenBucket {
  #tokens: number;
  #updatedAt = Date.now();
  rounds = 0;
  readonly #lock = new Lock();
  constructor(
    readonly perSecond: number,
    readonly capacity: number,
  ) {
    this.#tokens = capacity;
  }
  acquire(tokens = 1): Promise<void> {
    return this.#lock.hold(async () => {
      for (;;) {
        this.rounds++;
        const now = Date.now();
        this.#tokens = Math.min(this.capacity, this.#tokens + ((now - this.#updatedAt) / 1000) * this.perSecond);
        this.#updatedAt = now;
        if (this.#tokens >= tokens) {
          this.#tokens -= tokens;
          return;
        }
        // "Gives the lock back and waits", says the text. The lock is held.
        await sleep(((tokens - this.#tokens) / this.perSecond) * 1000);
      }
    });
  }
}

/** A slot first, then a token; made once, whatever is asked for later. */
class GlobalRateLimiter {
  static #only: GlobalRateLimiter | undefined;
  readonly #bucket: TokenBucket;
  private constructor(
    public free: number,
    perSecond: number,
    burst: number,
  ) {
    this.#bucket = new TokenBucket(perSecond, burst);
  }
  static get(slots: number, perSecond: number, burst: number): GlobalRateLimiter {
    GlobalRateLimiter.#only ??= new GlobalRateLimiter(slots, perSecond, burst);
    return GlobalRateLimiter.#only;
  }
  static reset(): void {
    GlobalRateLimiter.#only = undefined;
  }
  async acquire(signal?: AbortSignal): Promise<void> {
    if (this.free === 0) throw new Error('no slot');
    this.free--;
    await this.#bucket.acquire();
    signal?.throwIfAborted();
  }
  release(): void {
    this.free++;
  }
}

/** Notes when a permit comes, and gives it back at once. */
function ask(limiter: Limiter, log: string[], name: string, job: LimiterJob, now: () => number): void {
  limiter.acquire(job).subscribe((lease) => {
    log.push(`${name} at ${now()}`);
    lease.release();
  });
}

const queue = lanes([{ name: 'now' }, { name: 'later' }]);

describe('a token bucket', () => {
  it('that sleeps with its lock makes every call wait for the most expensive one; here other lanes go on', async () => {
    await hostTime(async (pass) => {
      const log: string[] = [];
      const bucket = new TokenBucket(10, 10);
      await bucket.acquire(5);
      void bucket.acquire(10).then(() => log.push(`heavy at ${Date.now()}`));
      // Five are there.
      void bucket.acquire(1).then(() => log.push(`light at ${Date.now()}`));
      await pass(2000);
      expect(log).toEqual(['heavy at 500', 'light at 600']);
    });
    virtualTime(({ flush, now }) => {
      const log: string[] = [];
      const limiter = createLimiter({ rates: [perMinute('tokens', 600, { burst: 10 })], headroom: 1, queue });
      limiter.tryAcquire({ cost: { tokens: 5 } })!.release();
      ask(limiter, log, 'heavy', { lane: 'later', cost: { tokens: 10 } }, now);
      ask(limiter, log, 'light', { lane: 'now', cost: { tokens: 1 } }, now);
      flush();
      expect(log).toEqual(['light at 0', 'heavy at 600']);
    });
  });

  it('never grants more than its capacity, and nothing after that; here it goes into debt, and the next waits for that', async () => {
    await hostTime(async (pass) => {
      const bucket = new TokenBucket(10, 10);
      const [heavy, light] = [bucket.acquire(11), bucket.acquire(1)];
      await pass(20_000);
      expect([await stateOf(heavy), await stateOf(light)]).toEqual(['pending', 'pending']);
    });
    virtualTime(({ flush, now }) => {
      const log: string[] = [];
      const limiter = createLimiter({ rates: [perMinute('tokens', 600, { burst: 10 })], headroom: 1 });
      ask(limiter, log, 'heavy', { cost: { tokens: 11 } }, now);
      ask(limiter, log, 'light', { cost: { tokens: 1 } }, now);
      flush();
      expect(log).toEqual(['heavy at 0', 'light at 200']);
    });
  });

  it('divides by a rate of 0 and goes round without end; here nothing passes, and nothing goes round, until it is raised', async () => {
    await hostTime(async (pass) => {
      const bucket = new TokenBucket(0, 1);
      await bucket.acquire();
      void bucket.acquire();
      await pass(200);
      expect(bucket.rounds).toBeGreaterThan(100);
    });
    virtualTime(({ advance, flush }) => {
      const limiter = createLimiter();
      limiter.setLimits({ rates: [perMinute('requests', 0)] });
      let granted = 0;
      limiter.acquire().subscribe(() => granted++);
      // Flushing would not end if a timer went round.
      flush();
      advance(3_600_000);
      expect(granted).toBe(0);
      limiter.setLimits({ rates: [perMinute('requests', 60)] });
      advance(1000);
      expect(granted).toBe(1);
    });
    for (const rate of [-1, NaN]) {
      expect(() => createLimiter({ rates: [perMinute('requests', rate)] })).toThrow(FlowConfigError);
      expect(() => createLimiter({ rates: [perMinute('tokens', rate)] })).toThrow(FlowConfigError);
    }
  });

  it('lets twice the rate out in the first second, though the example counts five; here the burst is in seconds', async () => {
    await hostTime(async () => {
      let sent = 0;
      const bucket = new TokenBucket(5, 10);
      for (const _ of numbers(15)) void bucket.acquire().then(() => sent++);
      await turns(100);
      expect(sent).toBe(10);
    });
    virtualTime(() => {
      const limiter = createAccount({ requestsPerMinute: 300, headroom: 1, burstSeconds: 1 });
      expect(numbers(15).filter(() => limiter.tryAcquire() !== undefined)).toHaveLength(5);
    });
  });

  it('counts requests only; here tokens as well, and the estimate is put right afterwards', async () => {
    await hostTime(async () => {
      let tokens = 0;
      const bucket = new TokenBucket(5, 10);
      for (const _ of numbers(10)) void bucket.acquire().then(() => (tokens += 8000));
      await turns(100);
      expect(tokens).toBe(80_000);
    });
    virtualTime(() => {
      const limiter = createLimiter({
        rates: [perMinute('requests', 300, { burst: 300 }), perMinute('tokens', 20_000, { burst: 20_000 })],
        headroom: 1,
      });
      const leases = numbers(10).flatMap(() => limiter.tryAcquire({ cost: { tokens: 8000 } }) ?? []);
      expect(leases).toHaveLength(2);
      leases[0]?.settle({ inputTokens: 500, outputTokens: 500 });
      expect(limiter.snapshot().tokens).toBe(20_000 - 8000 - 1000);
    });
  });
});

describe('a slot and a token', () => {
  it('taken in this order hold the slot while the token is waited for; here a slot is taken when the token is there', async () => {
    await hostTime(async (pass) => {
      GlobalRateLimiter.reset();
      const limiter = GlobalRateLimiter.get(1, 1, 1);
      await limiter.acquire();
      limiter.release();
      const waiting = limiter.acquire();
      await turns(5);
      expect(limiter.free).toBe(0);
      await pass(1000);
      await waiting;
    });
    virtualTime(({ advance }) => {
      const limiter = createLimiter({ concurrency: 1, rates: [perMinute('tokens', 600, { burst: 10 })], headroom: 1, queue });
      limiter.tryAcquire({ cost: { tokens: 10 } })!.release();
      const log: string[] = [];
      ask(limiter, log, 'waits', { lane: 'later', cost: { tokens: 10 } }, () => 0);
      expect(limiter.snapshot()).toMatchObject({ executing: 0, heldByRate: 1 });
      limiter.tryAcquire({ lane: 'now' })!.release();
      advance(1000);
      expect(log).toEqual(['waits at 0']);
    });
  });

  it('lose the slot when the wait for the token is cancelled; here nothing is lost', async () => {
    await hostTime(async (pass) => {
      GlobalRateLimiter.reset();
      const limiter = GlobalRateLimiter.get(1, 1, 1);
      await limiter.acquire();
      limiter.release();
      const leave = new AbortController();
      const left = limiter.acquire(leave.signal).catch((error: unknown) => (error as Error).name);
      leave.abort();
      await pass(5000);
      expect([await left, limiter.free]).toEqual(['AbortError', 0]);
      await expect(limiter.acquire()).rejects.toThrow('no slot');
    });
    await hostTime(async (pass) => {
      const limiter = createLimiter({ concurrency: 1, rates: [perMinute('requests', 60, { burst: 1 })], headroom: 1 });
      (await limiter.acquireAsync()).release();
      const leave = new AbortController();
      const left = limiter.acquireAsync({ signal: leave.signal }).catch((error: unknown) => (error as Error).name);
      leave.abort();
      await pass(1000);
      expect(await left).toBe('AbortError');
      expect(limiter.tryAcquire()).toBeDefined();
    });
  });

  it('belong to one limiter for the whole process, whose later settings are ignored; here each is its own', () => {
    GlobalRateLimiter.reset();
    expect(GlobalRateLimiter.get(10, 5, 10).free).toBe(10);
    expect(GlobalRateLimiter.get(2, 1, 1).free).toBe(10);
    expect([createLimiter({ concurrency: 10 }), createLimiter({ concurrency: 2 })].map(({ concurrency }) => concurrency)).toEqual([10, 2]);
  });
});

describe('settings', () => {
  it('that are declared and never read are accepted; here an unknown one is refused', () => {
    interface Declared {
      readonly concurrency: number;
      readonly timeout?: number;
      readonly scheduling?: string;
    }
    const manager = ({ concurrency }: Declared): number => concurrency;
    expect(manager({ concurrency: 5, timeout: 120, scheduling: 'fair' })).toBe(5);
    expect(() => createLimiter({ concurrency: 5, scheduling: 'fair' } as never)).toThrow(FlowConfigError);
    expect(() => bulkheadMap(() => of(1), { concurrency: 5, timeout: 120 } as never)).toThrow(FlowConfigError);
    expect(() => settleAll([], () => of(1), { allowPartialFailure: true } as never)).toThrow(FlowConfigError);
  });

  it('that allow no failure still return them among the results; here one word decides', async () => {
    const fault = new Error('the second');
    const call = (i: number): Promise<number> => (i === 1 ? Promise.reject(fault) : Promise.resolve(i));
    const runStage = (_allowPartialFailure: boolean): Promise<unknown[]> =>
      Promise.all(numbers(3).map((i) => call(i).catch((error: unknown) => error)));
    expect(await runStage(false)).toEqual([0, fault, 2]);
    const ends: unknown[] = [];
    for (const errors of ['settle', 'propagate'] as const)
      settleAll(numbers(3), call, { errors }).subscribe({
        next: (results) => ends.push(results.map(({ status }) => status)),
        error: (error: unknown) => ends.push(error),
      });
    await turns(10);
    expect(ends).toHaveLength(2);
    expect(ends).toEqual(expect.arrayContaining([['fulfilled', 'rejected', 'fulfilled'], fault]));
  });

  it('that do not say what they limit are read in two ways; here a limit is per key, or for all', () => {
    const papers = ['a', 'b', 'c'];
    const most = (run: (call: (paper: string) => Observable<string>) => void): number =>
      virtualTime(({ flush }) => {
        const worker = createWorker<string, string>({ marbles: '--(r|)', answer: (paper) => paper });
        run((paper) => worker.work(paper));
        flush();
        return worker.peak;
      });
    const questions = from(papers.flatMap((paper) => numbers(20).map(() => paper)));
    // The example counts 15 at a time; the one semaphore of a stage, shared by all papers, allows five.
    expect(most((call) => questions.pipe(mergeMap(call, 5)).subscribe())).toBe(5);
    expect(most((call) => questions.pipe(bulkheadMap(call, { key: (paper) => paper, perKey: 5, concurrency: Infinity })).subscribe())).toBe(
      15,
    );
    const limiter = createLimiter({ concurrency: 5 });
    expect(
      most((call) => {
        for (const paper of papers)
          questions
            .pipe(
              take(20),
              map(() => paper),
              bulkheadMap(call, { limiter }),
            )
            .subscribe();
      }),
    ).toBe(5);
  });
});

describe('a hundred papers', () => {
  it('take longer than an estimate by rounds says: 1060 call seconds each, ten calls at a time; so they do here', () => {
    const perPaperS = [60, ...numbers(20).map(() => 30), ...numbers(20).map(() => 20)];
    const estimateMin = Math.ceil(100 / 3) * 4.2;
    const leastMin = (100 * 1060) / 10 / 60;
    expect(estimateMin).toBeLessThan(leastMin);
    const endedMin = virtualTime(({ flush, now }) => {
      let endedAt = 0;
      from(numbers(100).flatMap(() => perPaperS))
        .pipe(bulkheadMap((seconds) => timer(seconds * 1000), { concurrency: 10, maxQueued: Infinity }))
        .subscribe({ complete: () => (endedAt = now()) });
      flush();
      return endedAt / 60_000;
    });
    expect(endedMin).toBeGreaterThanOrEqual(leastMin);
    expect(endedMin).toBeLessThan(leastMin * 1.02);
  });

  it('are all in memory before the first is done, and cannot be stopped; here they are read as there is room, and leaving ends it', () => {
    let made = 0;
    function* prompts(): Generator<string> {
      for (let i = 0; i < 100; i++) {
        made++;
        yield `prompt ${i}`;
      }
    }
    let called = 0;
    const call = (items: readonly string[]): Observable<readonly string[]> => {
      called += items.length;
      return of(items).pipe(delay(1000));
    };
    virtualTime(({ advance }) => {
      const theirs = Promise.allSettled([...prompts()].map((prompt) => Promise.resolve(prompt)));
      expect(theirs).toBeInstanceOf(Promise);
      expect(made).toBe(100);
      made = 0;
      const ours = batchMapFrom(prompts(), call, { maxSize: 1, concurrency: 3, maxQueued: 2 }).subscribe();
      advance(10);
      expect(made).toBe(5);
      ours.unsubscribe();
      advance(60_000);
      expect([made, called]).toEqual([5, 3]);
    });
  });

  it('of rounds are not what a limit makes of them: the next starts when one has ended', () => {
    virtualTime(({ flush, now }) => {
      const startedAt: number[] = [];
      range(0, 6)
        .pipe(
          bulkheadMap(
            (paper) => {
              startedAt.push(now());
              return timer(paper === 0 ? 100 : 10);
            },
            { concurrency: 3 },
          ),
        )
        .subscribe();
      flush();
      // In rounds the second three would start at 100.
      expect(startedAt).toEqual([0, 0, 0, 10, 10, 20]);
    });
  });
});

import { lastValueFrom, of, throwError, toArray } from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import { createWorker } from '../../marbles/worker.js';
import type { Limiter } from '../../operators/index.js';
import {
  adaptiveLimit,
  batchMap,
  bulkheadMap,
  classifyError,
  createBatcher,
  createLimiter,
  FlowConfigError,
  lanes,
  retryFailed,
  settleAll,
  unwrap,
} from '../../operators/index.js';
import { Aimd } from '../../operators/kernel/index.js';
import { runOverloaded, unsettled } from '../support/overloaded-backend.js';
import { elementsMoved, hostTime, numbers, sleep, stateOf, turns } from './tools.js';

// Parallel tool calls for an agent, as tutorials write them: one text of many, rewritten in as few lines as show what goes wrong.

describe('calls in waves', () => {
  /** So many at a time, and the next so many when the last of them has ended. */
  async function* waves<T, R>(
    calls: readonly T[],
    size: number,
    execute: (call: T) => Promise<R>,
  ): AsyncGenerator<PromiseSettledResult<R>[]> {
    for (let i = 0; i < calls.length; i += size) yield await Promise.allSettled(calls.slice(i, i + size).map(execute));
  }

  /** Every third call takes ten times as long. */
  const lengthMs = (call: number): number => (call % 3 === 0 ? 10 : 1);

  it('wait for the slowest of each wave; here a place is taken again as soon as it is free', async () => {
    const theirs = await hostTime(async (pass) => {
      const all = (async () => {
        for await (const wave of waves(numbers(9), 3, (call) => sleep(lengthMs(call)))) expect(wave).toHaveLength(3);
        return Date.now();
      })();
      await pass(100);
      return all;
    });
    const ours = virtualTime(({ flush, now }) => {
      let endedAt = -1;
      const worker = createWorker({ marbles: (call: number) => (call % 3 === 0 ? '----------|' : '-|'), answer: (call) => call });
      settleAll(numbers(9), worker.work, { concurrency: 3 }).subscribe({ complete: () => (endedAt = now()) });
      flush();
      expect(worker.peak).toBe(3);
      return endedAt;
    });
    expect(theirs).toBe(30);
    expect(ours).toBeLessThan(15);
  });

  it('hand the place and the list to the call as arguments; here it gets its own call and a context', async () => {
    const seen: unknown[][] = [];
    const execute = (...args: unknown[]): Promise<number> => {
      seen.push(args);
      return Promise.resolve(0);
    };
    for await (const wave of waves(['a', 'b'], 2, execute)) expect(wave).toHaveLength(2);
    expect(seen).toEqual([
      ['a', 0, ['a', 'b']],
      ['b', 1, ['a', 'b']],
    ]);
    seen.length = 0;
    await lastValueFrom(settleAll(['a', 'b'], execute));
    await lastValueFrom(of('c').pipe(bulkheadMap(execute)));
    expect(seen).toMatchObject([
      ['a', { index: 0 }],
      ['b', { index: 1 }],
      ['c', { index: 0 }],
    ]);
    expect(seen.every((args) => args.length === 2)).toBe(true);
  });
});

describe('a class that counts running calls', () => {
  class ConcurrencyLimiter {
    #running = 0;
    readonly queue: (() => void)[] = [];
    constructor(readonly most: number) {}
    acquire(): Promise<void> {
      if (this.#running < this.most) {
        this.#running++;
        return Promise.resolve();
      }
      return new Promise((resolve) => {
        this.queue.push(() => {
          this.#running++;
          resolve();
        });
      });
    }
    release(): void {
      this.#running--;
      this.queue.shift()?.();
    }
  }

  it('takes 0 and NaN for a limit and never starts anything; here they are refused', async () => {
    for (const most of [0, NaN]) {
      expect(await stateOf(new ConcurrencyLimiter(most).acquire())).toBe('pending');
      expect(() => createLimiter({ concurrency: most })).toThrow(FlowConfigError);
      expect(() => settleAll([1], (call) => of(call), { concurrency: most })).toThrow(FlowConfigError);
    }
  });

  it('queues without a bound and without a word; here it tells, and with a bound the one too many is refused', () => {
    const theirs = new ConcurrencyLimiter(1);
    for (const _ of numbers(5001)) void theirs.acquire();
    expect(theirs.queue).toHaveLength(5000);
    const told: string[] = [];
    const open = createLimiter({ concurrency: 1, onEvent: ({ type }) => told.push(type) });
    for (const _ of numbers(10_001)) open.acquire().subscribe({ error: () => undefined });
    expect([open.snapshot().queued, told]).toEqual([10_000, ['queueLong']]);
    open.close();

    const bounded = createLimiter({ concurrency: 1, maxQueued: 1000 });
    const refused: string[] = [];
    for (const _ of numbers(5001)) bounded.acquire().subscribe({ error: (error: unknown) => refused.push((error as Error).name) });
    expect(bounded.snapshot().queued).toBe(1000);
    expect(refused).toEqual(Array.from({ length: 4000 }, () => 'OverflowError'));
    bounded.close();
  });

  it('cannot be left: a slot goes to a caller that has left; here it goes to the next', async () => {
    const theirs = new ConcurrencyLimiter(1);
    await theirs.acquire();
    // This caller has left, and the class has no way to say so.
    void theirs.acquire();
    const next = theirs.acquire();
    theirs.release();
    expect(await stateOf(next)).toBe('pending');

    const ours = createLimiter({ concurrency: 1 });
    const lease = await ours.acquireAsync();
    const leave = new AbortController();
    const left = ours.acquireAsync({ signal: leave.signal }).catch((error: unknown) => (error as Error).name);
    const last = ours.acquireAsync();
    leave.abort();
    lease.release();
    expect([await left, await stateOf(last)]).toEqual(['AbortError', 'fulfilled']);
  });

  it('knows no time limit and no urgency; here both are options of a job', async () => {
    const theirs = new ConcurrencyLimiter(1);
    await theirs.acquire();
    const order: string[] = [];
    void theirs.acquire().then(() => order.push('later'));
    void theirs.acquire().then(() => order.push('now'));
    theirs.release();
    theirs.release();
    await turns(5);
    expect(order).toEqual(['later', 'now']);
    virtualTime(({ advance }) => {
      const ours = createLimiter({ concurrency: 1, queue: lanes([{ name: 'now' }, { name: 'later' }]) });
      const lease = ours.tryAcquire()!;
      const log: string[] = [];
      const ask = (name: string, lane: string, timeoutMs?: number): void => {
        ours.acquire({ lane, ...(timeoutMs !== undefined && { deadlineMs: timeoutMs }) }).subscribe({
          next: (granted) => {
            log.push(name);
            granted.release();
          },
          error: (error: unknown) => log.push(`${name}: ${(error as Error).name}`),
        });
      };
      ask('later', 'later');
      ask('impatient', 'later', 10);
      ask('now', 'now');
      advance(20);
      lease.release();
      expect(log).toEqual(['impatient: DeadlineError', 'now', 'later']);
    });
  });

  it('moves its whole queue for each one that leaves it; here nothing is moved', () => {
    const theirs = new ConcurrencyLimiter(1);
    const ours = createLimiter({ concurrency: 1 });
    const lease = ours.tryAcquire()!;
    void theirs.acquire();
    for (const _ of numbers(1000)) {
      void theirs.acquire();
      ours.acquire().subscribe((next) => {
        next.release();
      });
    }
    const theirMoves = elementsMoved(() => {
      for (const _ of numbers(1000)) theirs.release();
    });
    const ourMoves = elementsMoved(() => {
      lease.release();
    });
    expect(theirMoves).toBe((1000 * 1001) / 2);
    expect(ours.snapshot()).toMatchObject({ queued: 0, executing: 0 });
    expect(ourMoves).toBe(0);
  });
});

describe('a race between a call and a timer', () => {
  const withTimeout = <R>(promise: Promise<R>, ms: number): Promise<R> =>
    Promise.race([
      promise,
      sleep(ms).then(() => {
        throw new Error('timed out');
      }),
    ]);

  it('leaves the timer behind when the call wins, and the process alive; here it is gone', async () => {
    await hostTime(async () => {
      await withTimeout(Promise.resolve('answer'), 30_000);
      expect(vi.getTimerCount()).toBe(1);
    });
    await hostTime(async () => {
      const batcher = createBatcher((items: readonly string[]) => Promise.resolve(items), { timeoutMs: 30_000 });
      await batcher.loadAsync('a');
      await lastValueFrom(of('b').pipe(bulkheadMap((item) => Promise.resolve(item), { timeoutMs: 30_000 })));
      await lastValueFrom(settleAll(['c'], (item) => Promise.resolve(item), { deadlineMs: 30_000 }));
      expect(vi.getTimerCount()).toBe(0);
    });
  });

  it('lets the call run on when the timer wins; here it is told to stop', async () => {
    const call = async (signal: AbortSignal): Promise<string> => {
      await sleep(100);
      if (signal.aborted) throw new DOMException('stopped', 'AbortError');
      finished++;
      return 'late';
    };
    let finished = 0;
    await hostTime(async (pass) => {
      const late = withTimeout(call(new AbortController().signal), 10).catch((error: unknown) => (error as Error).message);
      await pass(100);
      expect([await late, finished]).toEqual(['timed out', 1]);
      finished = 0;
      const ours = lastValueFrom(of('a').pipe(bulkheadMap((_item, { signal }) => call(signal), { timeoutMs: 10 })));
      await pass(100);
      expect([(await ours).status, finished]).toEqual(['rejected', 0]);
    });
  });

  it('starts its clock before the call has its place, and gives up calls for their wait; here it starts with the call', async () => {
    const started: number[] = [];
    const call = async (i: number): Promise<number> => {
      started.push(i);
      await sleep(8);
      return i;
    };
    await hostTime(async (pass) => {
      let line: Promise<unknown> = Promise.resolve();
      const queued = numbers(3).map((i) => {
        const inLine = line.then(() => call(i));
        line = inLine;
        return withTimeout(inLine, 10);
      });
      const ends = Promise.allSettled(queued);
      await pass(100);
      // Each takes 8 ms and may take 10. Two are given up while they wait, and run all the same.
      expect((await ends).map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected']);
      expect(started).toEqual([0, 1, 2]);
      const ours = lastValueFrom(of(0, 1, 2).pipe(bulkheadMap(call, { concurrency: 1, timeoutMs: 10 }), toArray()));
      await pass(100);
      expect((await ours).map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled']);
    });
  });
});

describe('a loop that tries again', () => {
  async function withRetry<R>(call: () => Promise<R>, maxRetries = 3, delayMs = 1000): Promise<R> {
    let last: unknown = null;
    for (let i = 0; i < maxRetries; i++) {
      try {
        return await call();
      } catch (error) {
        last = error;
        if (i < maxRetries - 1) await sleep(delayMs * (i + 1));
      }
    }
    throw last;
  }

  const overloaded = Object.assign(new Error('overloaded'), { status: 503 });

  it('waits longer by the same amount each time; here twice as long, and by chance', async () => {
    const theirs = await hostTime(async (pass) => {
      const at: number[] = [];
      const end = withRetry(() => {
        at.push(Date.now());
        return Promise.reject(overloaded);
      }, 4).catch(() => undefined);
      await pass(20_000);
      await end;
      return at;
    });
    const oursAt = (random: () => number): number[] =>
      virtualTime(({ flush, now }) => {
        const at: number[] = [];
        of('a')
          .pipe(
            batchMap(
              () => {
                at.push(now());
                return throwError(() => overloaded);
              },
              { random, repair: retryFailed({ maxAttempts: 4, delayMs: 1000 }), classify: classifyError },
            ),
          )
          .subscribe();
        flush();
        return at;
      });
    expect(theirs).toEqual([0, 1000, 3000, 6000]);
    expect(oursAt(() => 0.999_999).map(Math.round)).toEqual([0, 1000, 3000, 7000]);
    expect(oursAt(() => 0.5)).toEqual([0, 500, 1500, 3500]);
  });

  it.each([
    ['a call that was aborted', new DOMException('stopped', 'AbortError')],
    ['a wrong key', Object.assign(new Error('who are you'), { status: 401 })],
    ['a model that does not exist', Object.assign(new Error('no such model'), { status: 404 })],
  ])('makes %s again; here it is made once', async (_what, error) => {
    let calls = 0;
    const call = (): Promise<never> => {
      calls++;
      return Promise.reject(error);
    };
    await expect(withRetry(call, 3, 0)).rejects.toBe(error);
    expect(calls).toBe(3);
    calls = 0;
    const [settled] = await lastValueFrom(of('a').pipe(batchMap(call), toArray()));
    expect([calls, settled?.status]).toEqual([1, 'rejected']);
  });

  it('throws null when told never to try; here 0 is refused where it is written', async () => {
    await expect(withRetry(() => Promise.resolve('answer'), 0)).rejects.toBeNull();
    expect(() => batchMap(() => of([]), { repair: retryFailed({ maxAttempts: 0 }), classify: classifyError })).toThrow(FlowConfigError);
  });
});

describe('results of calls', () => {
  const calls = [
    { id: 'x', tool: 'read' },
    { id: 'y', tool: 'read' },
  ];
  const execute = ({ id }: (typeof calls)[number]): Promise<string> =>
    id === 'x' ? Promise.reject(new Error('gone')) : Promise.resolve(`text of ${id}`);

  it('sorted into two lists, or named after their tool, belong to no call; here each has its call, its index and its id', async () => {
    const plain = await Promise.allSettled(calls.map(execute));
    const successful = plain.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
    const labels = plain.map((result, i) => `[${calls[i]!.tool}] ${result.status}`);
    expect(successful).toEqual(['text of y']);
    expect(new Set(labels.map((label) => label.split(' ')[0])).size).toBe(1);

    const ours = await lastValueFrom(settleAll(calls, execute));
    expect(ours.map(({ input, index, status }) => [input.id, index, status])).toEqual([
      ['x', 0, 'rejected'],
      ['y', 1, 'fulfilled'],
    ]);
  });

  it('that failed without an Error break code that reads the message; here any reason passes through', async () => {
    // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- such reasons are what is tested
    const reject = (reason: unknown): Promise<never> => Promise.reject(reason);
    const reasons = [undefined, null, 'text'];
    const plain = await Promise.allSettled(reasons.map(reject));
    const read = (): unknown[] => plain.map((result) => (result as { reason: Error }).reason.message);
    expect(read).toThrow(TypeError);

    const ours = await lastValueFrom(settleAll(reasons, reject));
    expect(ours.map((settled) => settled.status === 'rejected' && settled.reason)).toEqual(reasons);
    const ends: unknown[] = [];
    of(...ours)
      .pipe(unwrap('first'))
      .subscribe({ error: (error: unknown) => ends.push(error) });
    expect(ends).toEqual([undefined]);
  });

  it('made without asking first skip the permission check; here the guard is asked for each, beside the limit and the signal', async () => {
    const made: string[] = [];
    const call = ({ id }: (typeof calls)[number]): Promise<string> => {
      made.push(id);
      return Promise.resolve(id);
    };
    await Promise.all(calls.map(call));
    expect(made).toEqual(['x', 'y']);
    made.length = 0;
    const ours = await lastValueFrom(settleAll(calls, call, { guard: ({ id }) => id !== 'x', concurrency: 1 }));
    expect(made).toEqual(['y']);
    expect(ours.map(({ status }) => status)).toEqual(['rejected', 'fulfilled']);
  });
});

describe('a limit that goes up and down by counts', () => {
  class AdaptiveConcurrency {
    #successes = 0;
    #failures = 0;
    constructor(
      public limit = 5,
      readonly most = 10,
    ) {}
    /** "After ten in a row", says the text. */
    success(): void {
      if (++this.#successes <= 10) return;
      this.limit = Math.min(this.most, this.limit + 1);
      this.#successes = 0;
    }
    /** "After two in a row." */
    failure(): void {
      if (++this.#failures <= 2) return;
      this.limit = Math.max(1, this.limit - 1);
      this.#failures = 0;
    }
  }

  /** The text stops at counting; this lets the count move a limiter, as `adaptiveLimit` does. */
  const counting =
    (counts: AdaptiveConcurrency) =>
    (limiter: Limiter): void => {
      limiter.setLimits({ concurrency: counts.limit });
      limiter.onRelease(({ outcome }) => {
        if (outcome === 'ok') counts.success();
        else counts.failure();
        if (counts.limit !== limiter.concurrency) limiter.setLimits({ concurrency: counts.limit });
      });
    };

  it('never finds out what the backend takes beyond its ten; here the limit settles there', () => {
    expect(unsettled(runOverloaded(4000, 20, counting(new AdaptiveConcurrency())), 20)).toEqual([
      'it never finds out how many calls the backend takes',
    ]);
    expect(unsettled(runOverloaded(4000, 20, adaptiveLimit), 20)).toEqual([]);
  });

  it('has a fifth of all calls refused where it may go further, one step for three refusals; here one in a hundred', () => {
    const theirs = runOverloaded(4000, 20, counting(new AdaptiveConcurrency(5, 64)));
    expect(unsettled(theirs, 20)).toEqual(['it swings too far', '20 % of the calls are refused']);
    const ours = runOverloaded(4000, 20, adaptiveLimit);
    expect(ours.refused).toBeLessThan(4000 / 100);
    expect(theirs.refused).toBeGreaterThan(20 * ours.refused);
  });

  it('goes down for three failures, however many calls went well between; here one refusal is one step, and what was gained stays', () => {
    const theirs = new AdaptiveConcurrency(10);
    for (let failure = 1; failure <= 3; failure++) {
      for (const _ of numbers(300_000)) theirs.success();
      theirs.failure();
    }
    expect(theirs.limit).toBe(9);
    const ours = new Aimd({ initial: 10, min: 1, max: 10 }, 0.75);
    let now = 0;
    const calls = (count: number): number => {
      for (const _ of numbers(count)) {
        now += 10;
        ours.add({ startedAt: now - 10, endedAt: now, inFlight: 10, outcome: 'ok' });
      }
      return ours.limit;
    };
    for (const _ of numbers(3)) {
      expect(ours.add({ startedAt: now + 1, endedAt: now + 2, inFlight: 10, outcome: 'dropped' })).toBe(7);
      now += 20;
      expect(calls(300)).toBe(10);
    }
  });

  it('takes two steps down for eight refusals of one burst, and grows while it is unused; here one step, and it stays', () => {
    virtualTime(({ advance }) => {
      const limits = [counting(new AdaptiveConcurrency(8)), (limiter: Limiter) => adaptiveLimit(limiter)].map((steer) => {
        const limiter = createLimiter();
        steer(limiter);
        const leases = numbers(9).flatMap(() => limiter.tryAcquire() ?? []);
        advance(10);
        for (const lease of leases) lease.release('error', Object.assign(new Error('too many'), { status: 429 }));
        const afterBurst = limiter.concurrency;
        for (const _ of numbers(100)) {
          const lease = limiter.tryAcquire();
          advance(10);
          lease?.release();
        }
        return [leases.length, afterBurst, limiter.concurrency];
      });
      expect(limits).toEqual([
        [8, 6, 10],
        [4, 3, 3],
      ]);
    });
  });

  it('is a number that nothing reads: as many calls run as before; here it is the limiter’s own', async () => {
    const counts = new AdaptiveConcurrency(2);
    let running = 0;
    let most = 0;
    const call = async (): Promise<void> => {
      most = Math.max(most, ++running);
      await Promise.resolve();
      running--;
      counts.success();
    };
    await Promise.all(numbers(20).map(call));
    expect(most).toBe(20);
    expect(runOverloaded(20, 50, (limiter) => adaptiveLimit(limiter, { max: 2 })).maxInFlight).toBe(2);
  });
});

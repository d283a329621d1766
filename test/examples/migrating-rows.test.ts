import Bottleneck from 'bottleneck';
import PQueue from 'p-queue';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createLimiter, isFlowError, perMinute } from '../../operators/index.js';

// Rows of the guides that name an equal: the same is done to both, and the same has to happen.

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

interface Pool {
  add(work: () => Promise<unknown>): Promise<unknown>;
  pause(): void;
  resume(): void;
  clear(): void;
  idle(): Promise<void>;
  below(count: number): Promise<void>;
  setConcurrency(count: number): void;
}

const pools: Readonly<Record<string, (concurrency: number) => Pool>> = {
  'p-queue': (concurrency) => {
    const queue = new PQueue({ concurrency });
    return {
      add: (work) => queue.add(work),
      pause: () => {
        queue.pause();
      },
      resume: () => queue.start(),
      clear: () => {
        queue.clear();
      },
      idle: () => queue.onIdle(),
      below: (count) => queue.onSizeLessThan(count),
      setConcurrency: (count) => (queue.concurrency = count),
    };
  },
  createLimiter: (concurrency) => {
    const limiter = createLimiter({ concurrency });
    return {
      add: (work) => limiter.runAsync(work),
      pause: () => {
        limiter.pause();
      },
      resume: () => {
        limiter.resume();
      },
      clear: () => {
        limiter.clear();
      },
      idle: () => limiter.whenIdle(),
      below: (count) => limiter.whenQueued({ below: count }),
      setConcurrency: (count) => {
        limiter.setLimits({ concurrency: count });
      },
    };
  },
};

describe.each(Object.entries(pools))('%s', (_name, create) => {
  /** Adds jobs of 10 ms each, and writes down what starts and ends, and when. */
  function start(concurrency: number) {
    const pool = create(concurrency);
    const startedAt = Date.now();
    const seen: string[] = [];
    const note = (what: string): void => void seen.push(`${what} at ${String(Date.now() - startedAt)}`);
    const add = (name: string): Promise<unknown> =>
      pool.add(async () => {
        note(name);
        await new Promise((resolve) => setTimeout(resolve, 10));
        note(`${name} done`);
        return name;
      });
    return { pool, seen, note, add };
  }

  it('starts nothing while it is paused, and lets go on what runs', async () => {
    const { pool, seen, add } = start(1);
    const jobs = ['a', 'b'].map(add);
    await vi.advanceTimersByTimeAsync(5);
    pool.pause();
    await vi.advanceTimersByTimeAsync(95);
    pool.resume();
    await vi.advanceTimersByTimeAsync(100);
    expect(await Promise.all(jobs)).toEqual(['a', 'b']);
    expect(seen).toEqual(['a at 0', 'a done at 10', 'b at 100', 'b done at 110']);
  });

  it('clears waiting calls, keeps running calls, and accepts more', async () => {
    const { pool, seen, add } = start(1);
    const running = add('a');
    const waiting = add('b').catch((error: unknown) => error);
    await vi.advanceTimersByTimeAsync(5);
    pool.clear();
    const later = add('c');
    await vi.advanceTimersByTimeAsync(100);
    expect(await Promise.all([running, later])).toEqual(['a', 'c']);
    expect(seen).toEqual(['a at 0', 'a done at 10', 'c at 10', 'c done at 20']);
    // The one difference, which the guide names: with p-queue the promise of a cleared call never settles.
    const told = await Promise.race([waiting, Promise.resolve('nothing')]);
    expect(told === 'nothing' || isFlowError(told, 'FLOW_CLEARED')).toBe(true);
    expect(told === 'nothing').toBe(_name === 'p-queue');
  });

  it('says when it is idle and when few wait, and takes more afterwards', async () => {
    const { pool, note, seen, add } = start(1);
    const jobs = ['a', 'b', 'c'].map(add);
    void pool.below(2).then(() => {
      note('below 2');
    });
    void pool.below(1).then(() => {
      note('below 1');
    });
    void pool.idle().then(() => {
      note('idle');
    });
    await vi.advanceTimersByTimeAsync(100);
    await Promise.all(jobs);
    expect(seen.filter((line) => /below|idle/.test(line))).toEqual(['below 2 at 10', 'below 1 at 20', 'idle at 30']);
    const more = add('d');
    await vi.advanceTimersByTimeAsync(100);
    expect(await more).toBe('d');
  });

  it('starts more at a time when it is told to', async () => {
    const { pool, seen, add } = start(1);
    const jobs = ['a', 'b', 'c'].map(add);
    await vi.advanceTimersByTimeAsync(5);
    pool.setConcurrency(3);
    await vi.advanceTimersByTimeAsync(100);
    await Promise.all(jobs);
    expect(seen.slice(0, 3)).toEqual(['a at 0', 'b at 5', 'c at 5']);
  });
});

describe('Bottleneck and createLimiter', () => {
  const outcome = (promise: Promise<unknown>): Promise<string> =>
    promise.then(
      (value) => String(value),
      () => 'refused',
    );
  const work = (name: string) => async (): Promise<string> => {
    await new Promise((resolve) => setTimeout(resolve, 10));
    return name;
  };

  it('keep `minTime` between two starts', async () => {
    const minTime = 50;
    const starts = async (run: (note: () => Promise<void>) => Promise<unknown>): Promise<number[]> => {
      const from = Date.now();
      const at: number[] = [];
      const all = Array.from({ length: 6 }, () => run(() => Promise.resolve(void at.push(Date.now() - from))));
      await vi.advanceTimersByTimeAsync(1000);
      await Promise.all(all);
      return at;
    };
    const theirs = new Bottleneck({ minTime });
    const ours = createLimiter({ rates: [perMinute('requests', 60_000 / minTime, { burst: 1 })], headroom: 1 });
    const gaps = (at: readonly number[]): number[] => at.slice(1).map((time, index) => time - (at[index] ?? 0));
    // Theirs begins a little late, and its clock is read between two timers.
    for (const gap of gaps(await starts((note) => theirs.schedule(note)))) expect(gap).toBeGreaterThanOrEqual(minTime - 1);
    expect(gaps(await starts((note) => ours.runAsync(note)))).toEqual([50, 50, 50, 50, 50]);
  });

  it('stop: drop waiting calls with an error, and wait for running calls', async () => {
    const theirs = new Bottleneck({ maxConcurrent: 1 });
    const theirJobs = ['a', 'b'].map((name) => outcome(theirs.schedule(work(name))));
    const ours = createLimiter({ concurrency: 1 });
    const ourJobs = ['a', 'b'].map((name) => outcome(ours.runAsync(work(name))));
    await vi.advanceTimersByTimeAsync(5);
    const theirEnd = theirs.stop();
    ours.clear();
    const ourEnd = ours.drain();
    await vi.advanceTimersByTimeAsync(1000);
    await theirEnd;
    await ourEnd;
    expect(await Promise.all(theirJobs)).toEqual(['a', 'refused']);
    expect(await Promise.all(ourJobs)).toEqual(['a', 'refused']);
  });

  it('stop without dropping: what waits is done first', async () => {
    const theirs = new Bottleneck({ maxConcurrent: 1 });
    const theirJobs = ['a', 'b'].map((name) => outcome(theirs.schedule(work(name))));
    const ours = createLimiter({ concurrency: 1 });
    const ourJobs = ['a', 'b'].map((name) => outcome(ours.runAsync(work(name))));
    await vi.advanceTimersByTimeAsync(5);
    const ends = [theirs.stop({ dropWaitingJobs: false }), ours.drain()];
    await vi.advanceTimersByTimeAsync(1000);
    await Promise.all(ends);
    expect(await Promise.all([...theirJobs, ...ourJobs])).toEqual(['a', 'b', 'a', 'b']);
  });

  it.each([
    ['LEAK', 'dropOldest', ['a', 'refused', 'c', 'd']],
    ['OVERFLOW', 'dropNewest', ['a', 'b', 'c', 'refused']],
  ] as const)('strategy %s is `overflow: %s` of `run`', async (strategy, overflow, expected) => {
    const theirs = new Bottleneck({ maxConcurrent: 1, highWater: 2, strategy: Bottleneck.strategy[strategy] });
    const theirJobs: Promise<string>[] = [];
    const ours = createLimiter({ concurrency: 1, maxQueued: 2, overflow });
    const ourJobs: Promise<string>[] = [];
    for (const name of ['a', 'b', 'c', 'd']) {
      theirJobs.push(outcome(theirs.schedule(work(name))));
      ourJobs.push(outcome(new Promise((resolve, reject) => ours.run(work(name)).subscribe({ next: resolve, error: reject }))));
      await vi.advanceTimersByTimeAsync(1);
    }
    await vi.advanceTimersByTimeAsync(1000);
    expect(await Promise.all(theirJobs)).toEqual(expected);
    expect(await Promise.all(ourJobs)).toEqual(expected);
  });
});

import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { Lease, Limiter, LimiterJob } from '../../operators/index.js';
import { batchMap, childOf, createAccount, createLimiter, perMinute, ranked } from '../../operators/index.js';

const byKey = ranked(
  ({ key }) => key as number,
  (one, other) => one - other,
);

/** Asks for leases, one for each key, and answers the keys in the order in which they were granted. Each is released when the next is asked for. */
function granted(limiter: Limiter, jobs: readonly LimiterJob[]): unknown[] {
  const order: unknown[] = [];
  const held: Lease[] = [];
  for (const job of jobs) {
    limiter.acquire(job).subscribe((lease) => {
      order.push(job.id ?? job.key);
      held.push(lease);
    });
  }
  for (let lease = held.shift(); lease; lease = held.shift()) lease.release();
  return order;
}

describe('a queue with an order of its own', () => {
  it('grants the group first that compares least, and in a group the job that came first', () => {
    const limiter = createLimiter({ concurrency: 1, queue: byKey });
    const jobs = [
      { key: 2, id: 'first' },
      { key: 3, id: '3a' },
      { key: 1, id: '1a' },
      { key: 3, id: '3b' },
      { key: 1, id: '1b' },
    ];
    expect(granted(limiter, jobs)).toEqual(['first', '1a', '1b', '3a', '3b']);
  });

  it('asks anew for each turn, and keeps the order of arrival where groups are equal', () => {
    const turns = new Map<unknown, number>();
    const turn = (key: unknown): number => turns.get(key) ?? 0;
    const queue = ranked(
      ({ key }) => key,
      (one, other) => turn(one) - turn(other),
    );
    const limiter = createLimiter({ concurrency: 1, queue });
    const order: unknown[] = [];
    const held: Lease[] = [];
    for (const key of ['a', 'a', 'a', 'b', 'c', 'c']) {
      limiter.acquire({ key }).subscribe((lease) => {
        order.push(key);
        turns.set(key, order.length);
        held.push(lease);
      });
    }
    while (held.length > 0) held.shift()?.release();
    expect(order).toEqual(['a', 'b', 'c', 'a', 'c', 'a']);
  });

  it('removes jobs that leave, and drops by age at a bound', () => {
    const limiter = createLimiter({ concurrency: 1, queue: byKey, maxQueued: 2, overflow: 'dropOldest' });
    const lease = limiter.tryAcquire({ key: 0 });
    const seen: string[] = [];
    const ask = (key: number): { unsubscribe(): void } =>
      limiter.acquire({ key }).subscribe({
        next: (granted) => {
          seen.push(`${String(key)} granted`);
          granted.release();
        },
        error: ({ code }: { code: string }) => seen.push(`${String(key)} ${code}`),
      });
    ask(1);
    const left = ask(3);
    ask(2);
    left.unsubscribe();
    ask(4);
    lease?.release();
    expect(seen).toEqual(['1 FLOW_OVERFLOW', '2 granted', '4 granted']);
    expect(limiter.snapshot()).toMatchObject({ queued: 0, executing: 0 });
  });

  it('reports what the comparison throws, and goes on in the order of arrival', () => {
    virtualTime(({ flush }) => {
      const queue = ranked(
        ({ key }) => key,
        () => {
          throw new Error('no order');
        },
      );
      const reported: unknown[] = [];
      const order = granted(createLimiter({ concurrency: 1, queue }), [{ key: 3 }, { key: 2 }, { key: 1 }]);
      expect(order).toEqual([3, 2, 1]);
      try {
        flush();
      } catch (error) {
        reported.push(error);
      }
      expect(reported.length).toBeLessThanOrEqual(1);
    });
  });
});

it('is for limiters alone: batches are refused it', () => {
  expect(() => batchMap(() => [], { queue: byKey as never })).toThrow(/`queue` to be lanes/);
});

describe('a child with a queue of its own in one lane of its parent', () => {
  it('waits in that lane, in its own order, below other lanes and beside what waits in the same one', () => {
    const account = createAccount({ concurrency: 1, lanes: ['user', 'bulk'] });
    const child = childOf(account, { lane: 'bulk', queue: byKey });
    const order: unknown[] = [];
    const held: Lease[] = [];
    const ask = (limiter: Limiter, job: LimiterJob, name: unknown): void => {
      limiter.acquire(job).subscribe((lease) => {
        order.push(name);
        held.push(lease);
      });
    };
    ask(account, { lane: 'user' }, 'running');
    ask(child, { key: 3 }, 3);
    ask(child, { key: 1 }, 1);
    ask(account, { lane: 'bulk' }, 'bulk');
    ask(account, { lane: 'user' }, 'user');
    ask(child, { key: 2 }, 2);
    while (held.length > 0) held.shift()?.release();
    expect(order.slice(0, 3)).toEqual(['running', 'user', 1]);
    expect(order.filter((name) => typeof name === 'number')).toEqual([1, 2, 3]);
    expect(order).toHaveLength(6);
    expect(account.snapshot()).toMatchObject({ queued: 0, executing: 0 });
  });

  it('has children of its own in the same order, and gives no lease while one of them is full', () => {
    const account = createAccount({ concurrency: 2 });
    const all = childOf(account, { lane: 'background', queue: byKey });
    const one = childOf(all, { concurrency: 1 });
    const order: unknown[] = [];
    const held = new Map<unknown, Lease>();
    const ask = (limiter: Limiter, key: number): void => {
      limiter.acquire({ key }).subscribe((lease) => {
        order.push(key);
        held.set(key, lease);
      });
    };
    ask(one, 5);
    ask(one, 1);
    ask(all, 3);
    ask(all, 2);
    expect(order).toEqual([5, 3]);
    held.get(3)?.release();
    expect(order).toEqual([5, 3, 2]);
    held.get(5)?.release();
    expect(order).toEqual([5, 3, 2, 1]);
  });

  it('pauses its parent where it is told to, and itself alone otherwise', () => {
    virtualTime(({ advance }) => {
      const account = createLimiter({ rates: [perMinute('requests', 600)] });
      childOf(account).penalize(1000);
      expect(account.snapshot().pausedForMs).toBe(0);
      const child = childOf(childOf(account, { pauses: 'parent' }), { pauses: 'parent' });
      child.penalize(1000);
      expect(account.snapshot().pausedForMs).toBe(1000);
      expect(child.tryAcquire()).toBeUndefined();
      advance(1000);
      expect(child.tryAcquire()).toBeDefined();
    });
  });

  it('refuses a lane that the parent does not have', () => {
    const account = createAccount({ lanes: ['user', 'bulk'] });
    expect(() => childOf(account, { lane: 'later' })).toThrow(/`lane`/);
    expect(() => childOf(account, { pauses: 'everything' as never })).toThrow(/`pauses`/);
    expect(() => childOf(account, { queue: byKey })).toThrow(/`queue`/);
  });
});

it('a comparison that takes jobs out leaves the others their turns', () => {
  let takes: ((limiter: Limiter) => void) | undefined;
  const queue = ranked(
    ({ key }) => key as number,
    (one, other) => {
      const take = takes;
      takes = undefined;
      take?.(limiter);
      return one - other;
    },
  );
  const limiter: Limiter = createLimiter({ concurrency: 1, queue });
  const ask = (keys: readonly number[]): number[] => {
    const order: number[] = [];
    const lease = limiter.tryAcquire();
    for (const key of keys) {
      limiter.acquire({ key, id: String(key) }).subscribe({
        next: (own) => {
          order.push(key);
          own.release();
        },
        error: () => undefined,
      });
    }
    return lease?.release(), order;
  };
  takes = (from) => {
    from.remove('1', 'gone');
  };
  expect(ask([1, 2, 3])).toEqual([2, 3]);
  takes = (from) => {
    from.clear();
  };
  expect(ask([1, 2, 3])).toEqual([]);
  expect(limiter.snapshot()).toMatchObject({ queued: 0, executing: 0 });
});

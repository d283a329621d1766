import { firstValueFrom, Subject } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { FlowEvent, Lease, Limiter, LimiterJob } from '../../operators/index.js';
import { childOf, createLimiter, heldBy, isFlowError, keyedLimiter, perMinute, slidingWindow } from '../../operators/index.js';
import { createMetrics } from '../../src/metrics/index.js';
import { unstamped } from '../support/events.js';

const ABSURD = [1e12, Number.MAX_VALUE, Infinity];

describe('a usage beyond all reason', () => {
  it.each(ABSURD)('of %d is told, and costs no more than what a bucket holds', (reported) => {
    virtualTime(({ flush, now }) => {
      const events: FlowEvent[] = [];
      const limiter = createLimiter({
        rates: [perMinute('tokens', 60_000)],
        headroom: 1,
        onEvent: unstamped((event) => events.push(event)),
      });
      const lease = limiter.tryAcquire({ cost: { tokens: 100 } });
      lease?.settle({ inputTokens: reported, outputTokens: 5 });
      lease?.release();
      expect(events).toEqual([{ type: 'usageClamped', operator: 'createLimiter', unit: 'tokens', reported: reported + 5, charged: 2000 }]);
      limiter.acquire({ cost: { tokens: 100 } }).subscribe();
      flush();
      expect(now()).toBeLessThanOrEqual(2000);
    });
  });

  it('costs what was paid for already, when that is more', () => {
    virtualTime(() => {
      const limiter = createLimiter({ rates: [perMinute('tokens', 60_000)], headroom: 1 });
      const lease = limiter.tryAcquire({ cost: { tokens: 7000 } });
      lease?.settle({ inputTokens: 1e12 });
      expect(limiter.snapshot().tokens).toBe(-5000);
      lease?.release('unused');
      expect(limiter.snapshot().tokens).toBe(2000);
    });
  });

  it('stalls neither a window nor the account above', () => {
    virtualTime(({ flush, now }) => {
      const account = createLimiter({ rates: [slidingWindow({ unit: 'tokens', amount: 60_000, windowMs: 60_000 })], headroom: 1 });
      const child = childOf(account, { rates: [perMinute('tokens', 6000)], headroom: 1 });
      const lease = child.tryAcquire({ cost: { tokens: 100 } });
      lease?.settle({ outputTokens: 1e15 });
      lease?.release();
      child.acquire({ cost: { tokens: 100 } }).subscribe();
      flush();
      expect(now()).toBeLessThanOrEqual(60_000);
    });
  });

  it.each([2_000_000, 10_000_000])('is not one that a model with a large context may have: %d tokens are owed in full', (tokens) => {
    virtualTime(() => {
      const events: FlowEvent[] = [];
      const limiter = createLimiter({
        rates: [perMinute('tokens', 60_000)],
        headroom: 1,
        onEvent: unstamped((event) => events.push(event)),
      });
      limiter.tryAcquire()?.settle({ inputTokens: tokens });
      expect([limiter.snapshot().tokens, events]).toEqual([2000 - tokens, []]);
    });
  });

  it('is not one that a minute of the account would pay', () => {
    virtualTime(() => {
      const limiter = createLimiter({ rates: [perMinute('tokens', 6e9)], headroom: 1 });
      limiter.tryAcquire()?.settle({ inputTokens: 5e9 });
      expect(limiter.snapshot().tokens).toBe(2e8 - 5e9);
    });
  });

  it('is ignored when it is no usage: a value that is no number counts as unknown', () => {
    virtualTime(() => {
      const limiter = createLimiter({ rates: [perMinute('tokens', 60_000)], headroom: 1 });
      const lease = limiter.tryAcquire({ cost: { tokens: 100 } });
      for (const usage of [undefined, null, 5, {}, { inputTokens: '7' }, { inputTokens: '7', outputTokens: '5' }, { outputTokens: NaN }]) {
        lease?.settle(usage as never);
      }
      expect(limiter.snapshot().tokens).toBe(1900);
    });
  });

  it('is nothing to a limiter without a rate of tokens', () => {
    const limiter = createLimiter({ concurrency: 1, headroom: 1 });
    const lease = limiter.tryAcquire();
    for (const tokens of ABSURD) lease?.settle({ inputTokens: tokens });
    limiter.setLimits({ rates: [perMinute('tokens', 60_000)] });
    lease?.release('unused');
    expect(limiter.snapshot().tokens).toBe(2000);
  });
});

describe('work that waits for a permit that is never given back before its own', () => {
  const pairs: Readonly<Record<string, () => readonly [Limiter, Limiter]>> = {
    'limiters that know nothing of each other': () => [createLimiter({ concurrency: 1 }), createLimiter({ concurrency: 1 })],
    'children with slots to spare above': () => {
      const account = createLimiter({ concurrency: 4 });
      return [childOf(account, { concurrency: 1 }), childOf(account, { concurrency: 1 })];
    },
    keys: () => {
      const tools = keyedLimiter({ concurrency: 1 });
      return [tools.of('search'), tools.of('fetch')];
    },
  };
  it.each(Object.keys(pairs))('is refused in a ring over two %s', async (kind) => {
    const [one, other] = pairs[kind]!();
    const met = new Subject<void>();
    const crossing = (first: Limiter, second: Limiter): Promise<string> =>
      first.runAsync(async ({ lease }) => {
        await firstValueFrom(met);
        return second.runAsync(() => 'served', { holder: heldBy(lease) });
      });
    const both = [crossing(one, other), crossing(other, one)];
    met.next();
    const ends = await Promise.allSettled(both);
    expect(ends.map((end) => (end.status === 'fulfilled' ? end.value : (end.reason as { code: string }).code))).toEqual([
      'served',
      'FLOW_NESTED_ACQUIRE',
    ]);
    expect([one.executing, other.executing]).toEqual([0, 0]);
  });

  it('is refused behind a job that wants more slots than will ever be free', async () => {
    const limiter = createLimiter({ concurrency: 2 });
    const outer = limiter.tryAcquire() as Lease;
    const large = limiter.acquireAsync({ cost: { slots: 2 } });
    const inner = limiter.acquireAsync({ holder: heldBy(outer) });
    await expect(inner).rejects.toMatchObject({ code: 'FLOW_NESTED_ACQUIRE' });
    outer.release();
    (await large).release();
    expect(limiter.executing).toBe(0);
  });
});

describe('work that waits for another permit of its own limiter', () => {
  it.each(['ok', 'cancelled'] as const)(
    'is refused when the last holder that could return a slot has done so (%s), though all slots are taken',
    (outcome) => {
      virtualTime(({ flush }) => {
        const limiter = createLimiter({ concurrency: 3 });
        const leases = [1, 2, 3].map(() => limiter.tryAcquire());
        const seen: string[] = [];
        for (const holder of leases.slice(0, 2)) {
          limiter.acquire({ holder: heldBy(holder as Lease) }).subscribe({
            next: (lease) => {
              seen.push('lease');
              lease.release();
              holder?.release();
            },
            error: (error: unknown) => {
              seen.push(isFlowError(error) ? error.code : String(error));
              holder?.release();
            },
          });
        }
        limiter.setLimits({ concurrency: 1 });
        expect(seen).toEqual([]);
        leases[2]?.release(outcome);
        flush();
        expect(seen).toEqual(['FLOW_NESTED_ACQUIRE', 'FLOW_NESTED_ACQUIRE']);
        expect([limiter.executing, limiter.snapshot().queued]).toEqual([0, 0]);
      });
    },
  );

  it('is refused as well when the slots are those of the limiter above, and of a child', () => {
    virtualTime(({ flush }) => {
      const account = createLimiter({ concurrency: 3 });
      const child = childOf(account);
      const leases = [child.tryAcquire(), child.tryAcquire(), account.tryAcquire()];
      const seen: string[] = [];
      for (const holder of leases.slice(0, 2)) {
        child.acquire({ holder: heldBy(holder as Lease) }).subscribe({
          next: (lease) => {
            seen.push('lease');
            lease.release();
            holder?.release();
          },
          error: (error: unknown) => {
            seen.push(isFlowError(error) ? error.code : String(error));
            holder?.release();
          },
        });
      }
      account.setLimits({ concurrency: 1 });
      leases[2]?.release('cancelled');
      flush();
      expect(seen).toEqual(['FLOW_NESTED_ACQUIRE', 'FLOW_NESTED_ACQUIRE']);
      expect([account.executing, account.snapshot().queued, child.snapshot().queued]).toEqual([0, 0, 0]);
    });
  });

  it('is refused when the other holder of a slot has left with its place in the queue', () => {
    virtualTime(({ flush }) => {
      const limiter = createLimiter({ concurrency: 2 });
      const [outer, other] = [limiter.tryAcquire(), limiter.tryAcquire()];
      const seen: string[] = [];
      limiter
        .acquire({ holder: heldBy(outer as Lease) })
        .subscribe({ error: (error: unknown) => seen.push((error as { code: string }).code) });
      limiter.setLimits({ concurrency: 1 });
      const never = new Promise<void>(() => undefined);
      other?.releaseAfter(never);
      flush();
      expect(seen).toEqual(['FLOW_NESTED_ACQUIRE']);
      outer?.release();
    });
  });
});

describe('the snapshot of a child', () => {
  it('says what can be had, of its own and of the account', () => {
    virtualTime(({ advance }) => {
      const account = createLimiter({ concurrency: 8, rates: [perMinute('requests', 300), perMinute('tokens', 6000)], headroom: 1 });
      const child = childOf(account, { concurrency: 5 });
      const small = childOf(account, { rates: [perMinute('requests', 60)], headroom: 1 });
      const both = childOf(child);
      const least = { requests: 10, tokens: 200, requestsPerMinute: 300, tokensPerMinute: 6000, pausedForMs: 0 };
      expect(child.snapshot()).toMatchObject({ ...least, concurrency: 5 });
      expect(both.snapshot()).toMatchObject({ ...least, concurrency: 5 });
      expect(small.snapshot()).toMatchObject({ ...least, requests: 2, requestsPerMinute: 60, concurrency: 8 });
      for (let i = 0; i < 9; i++) account.tryAcquire()?.release();
      account.penalize(700);
      expect(small.snapshot()).toMatchObject({ requests: 1, pausedForMs: 700 });
      advance(700);
      expect(child.snapshot().pausedForMs).toBe(0);
    });
  });

  it('makes levels from 0 to 1 of it', () => {
    const account = createLimiter({ rates: [perMinute('requests', 300)], headroom: 1 });
    const metrics = createMetrics();
    metrics.observe('child', childOf(account, { concurrency: 5 }));
    metrics.observe('small', childOf(account, { rates: [perMinute('requests', 60)], headroom: 1 }));
    expect(metrics.snapshot().observed).toMatchObject({
      child: { requestLevel: 1, tokenLevel: 1, requestsLeft: 10 },
      small: { requestLevel: 1, tokenLevel: 1, requestsLeft: 2 },
    });
  });
});

/** Leases as they come, and errors by their code. */
function asker(limiter: Limiter) {
  const leases: Lease[] = [];
  const log: string[] = [];
  const ask = (name: string, job?: LimiterJob) =>
    limiter.acquire(job).subscribe({
      next: (lease) => {
        leases.push(lease);
        log.push(name);
      },
      error: (error: unknown) => log.push(`${name} ${isFlowError(error) ? error.code : String(error)}`),
    });
  return { leases, log, ask };
}

describe('work that waits for a second permit', () => {
  it('is found out in the third generation', () => {
    const limiter = createLimiter({ concurrency: 2 });
    const { ask, log, leases } = asker(limiter);
    ask('outer');
    ask('inner', { holder: heldBy(leases[0] as Lease) });
    ask('innermost', { holder: heldBy(leases[1] as Lease) });
    expect(log).toEqual(['outer', 'inner', 'innermost FLOW_NESTED_ACQUIRE']);
  });

  it('is refused as often as it takes', () => {
    const limiter = createLimiter({ concurrency: 2 });
    const { ask, log, leases } = asker(limiter);
    ask('outer');
    ask('other');
    ask('one', { holder: heldBy(leases[0] as Lease) });
    ask('two', { holder: heldBy(leases[0] as Lease) });
    limiter.setLimits({ concurrency: 1 });
    leases[1]?.release();
    expect(log).toEqual(['outer', 'other', 'two FLOW_NESTED_ACQUIRE', 'one FLOW_NESTED_ACQUIRE']);
  });
});

describe('work that asks many times for a second permit', () => {
  it('is served each time, however many it has asked for before', () => {
    const limiter = childOf(createLimiter({ concurrency: 3 }));
    const outer = limiter.tryAcquire() as Lease;
    const other = limiter.tryAcquire() as Lease;
    let granted = 0;
    let spent = limiter.tryAcquire() as Lease;
    const ask = () => {
      limiter.acquire({ holder: heldBy(outer) }).subscribe((lease) => {
        granted++;
        spent = lease;
      });
    };
    // Two at a time, so that one of them waits whenever the other is granted.
    ask();
    for (let i = 0; i < 20_000; i++) {
      ask();
      spent.release();
    }
    expect([granted, limiter.snapshot().queued]).toEqual([20_000, 1]);
    other.release();
    expect([granted, limiter.executing]).toEqual([20_001, 3]);
  });
});

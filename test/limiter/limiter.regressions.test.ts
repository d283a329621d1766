import { config, VirtualTimeScheduler } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { Lease, Limiter, LimiterJob } from '../../operators/index.js';
import { childOf, createLimiter, fromHeaders, heldBy, isFlowError, lanes, perMinute, slidingWindow } from '../../operators/index.js';
import type { Drained } from '../../operators/options/types.js';
import { CountingScheduler } from '../support/counting-scheduler.js';

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

/** What a drain has answered by the time all promises have had their turn. */
async function answered(drain: Promise<Drained>): Promise<Drained | 'never'> {
  return Promise.race([drain, new Promise<'never'>((resolve) => setTimeout(resolve, 20, 'never'))]);
}

describe('a job in a child', () => {
  it('is not stranded when the child has learned that it may not go before its turn comes above', () => {
    virtualTime(({ scheduler, flush }) => {
      const parent = createLimiter({ concurrency: 1, scheduler });
      const child = childOf(parent, { rates: [perMinute('requests', 60, { burst: 1 })], headroom: 1, learn: fromHeaders() });
      const held = parent.tryAcquire();
      const { log, ask } = asker(child);
      ask('a');
      child.observe({ status: 200, headers: { 'x-ratelimit-limit-requests': '60', 'x-ratelimit-remaining-requests': '0' } });
      held?.release();
      expect(log).toEqual([]);
      flush();
      expect(log).toEqual(['a']);
      child.close();
    });
  });

  it('is not stranded when a correction has spent what it waits for', () => {
    virtualTime(({ scheduler, flush }) => {
      const parent = createLimiter({ concurrency: 2, scheduler });
      const child = childOf(parent, { rates: [perMinute('tokens', 6000, { burst: 100 })], headroom: 1 });
      const held = parent.tryAcquire();
      const other = child.tryAcquire({ cost: { tokens: 10 } });
      const { log, ask } = asker(child);
      ask('a', { cost: { tokens: 10 } });
      other?.settle({ inputTokens: 500 });
      held?.release();
      expect(log).toEqual([]);
      flush();
      expect(log).toEqual(['a']);
      child.close();
    });
  });

  it('leaves nothing behind above when it is refused for asking a second time', async () => {
    const parent = createLimiter({ concurrency: 1 });
    const child = childOf(parent);
    const held = parent.tryAcquire();
    const { log, ask } = asker(child);
    ask('a', { holder: heldBy(held as Lease) });
    expect(log).toEqual(['a FLOW_NESTED_ACQUIRE']);
    held?.release();
    expect(await answered(parent.drain())).toEqual({ done: 0, aborted: 0, dropped: 0 });
  });

  it('leaves nothing behind when it gives up its place', async () => {
    const parent = createLimiter({ concurrency: 1 });
    const child = childOf(parent);
    const held = parent.tryAcquire();
    let wants: number | undefined = 0;
    child.enlist({
      bid: () => wants,
      granted: (lease) => {
        lease.release();
      },
      refused: () => undefined,
    });
    wants = undefined;
    const end = child.drain();
    held?.release();
    expect(await answered(end)).toEqual({ done: 0, aborted: 0, dropped: 0 });
    expect(await answered(parent.drain())).toEqual({ done: 0, aborted: 0, dropped: 0 });
  });

  it('that has left is in the way of no other job', () => {
    virtualTime(({ scheduler, advance }) => {
      const parent = createLimiter({ rates: [perMinute('tokens', 6000, { burst: 100 })], headroom: 1, scheduler });
      const child = childOf(parent);
      const running = child.tryAcquire({ cost: { tokens: 90 } });
      const { ask } = asker(child);
      const waiting = ask('a', { cost: { tokens: 50 } });
      expect(parent.tryAcquire({ cost: { tokens: 5 } })).toBeUndefined();
      waiting.unsubscribe();
      advance(0);
      expect(parent.snapshot().queued).toBe(0);
      expect(parent.tryAcquire({ cost: { tokens: 5 } })).toBeDefined();
      running?.release();
      parent.close();
    });
  });

  it('refused because it may not wait is in the way of no other job either', () => {
    virtualTime(({ scheduler }) => {
      const parent = createLimiter({ concurrency: 1, scheduler });
      const child = childOf(parent, { maxQueued: 0 });
      const held = parent.tryAcquire();
      const { ask, log } = asker(child);
      for (let i = 0; i < 3; i++) ask('a');
      expect(log).toEqual(['a FLOW_RATE_LIMITED', 'a FLOW_RATE_LIMITED', 'a FLOW_RATE_LIMITED']);
      expect(parent.snapshot().queued).toBe(0);
      held?.release();
    });
  });

  it('keeps to the bound, however urgent it is', () => {
    const parent = createLimiter({ concurrency: 1, queue: lanes([{ name: 'user' }, { name: 'normal' }]) });
    const child = childOf(parent, { maxQueued: 2, overflow: 'error' });
    parent.tryAcquire();
    const { ask, log } = asker(child);
    ask('a', { lane: 'normal' });
    ask('b', { lane: 'normal' });
    ask('c', { lane: 'user' });
    expect(log).toEqual(['c FLOW_OVERFLOW']);
    expect(child.snapshot().queued).toBe(2);
    parent.close();
  });

  it('has the bounds and the overflow of the child, in the lanes of the parent', () => {
    const parent = createLimiter({ concurrency: 1, maxQueued: 0, queue: lanes([{ name: 'user' }, { name: 'normal' }]) });
    const child = childOf(parent, { maxQueued: 1, overflow: 'dropOldest' });
    parent.tryAcquire();
    const { ask, log } = asker(child);
    ask('a');
    ask('b');
    expect(log).toEqual(['a FLOW_OVERFLOW']);
    expect(child.snapshot().queued).toBe(1);
    parent.close();
  });

  it('that waits for a slot above is held by a slot, and one that waits for the rate above by the rate', () => {
    virtualTime(({ scheduler }) => {
      const parent = createLimiter({ concurrency: 1, rates: [perMinute('requests', 60)], headroom: 1, scheduler });
      const child = childOf(parent);
      parent.tryAcquire();
      const { ask } = asker(child);
      ask('a');
      ask('b');
      expect(child.snapshot()).toMatchObject({ queued: 2, heldBySlot: 1, heldByRate: 1 });
      parent.penalize(10);
      expect(child.snapshot()).toMatchObject({ queued: 2, heldBySlot: 0, heldByRate: 2 });
      parent.close();
    });
  });

  it('is the one that goes when its turn comes, whatever a limiter further up does in between', () => {
    virtualTime(({ scheduler, advance }) => {
      const account = createLimiter({
        rates: [perMinute('tokens', 6000, { burst: 100 })],
        headroom: 1,
        scheduler,
        queue: lanes([{ name: 'user' }, { name: 'normal', floor: 0 }]),
      });
      const model = childOf(account, { concurrency: 1 });
      const tenant = childOf(model);
      const first = account.tryAcquire({ lane: 'user', cost: { tokens: 90 } });
      const { ask, log, leases } = asker(tenant);
      ask('low', { lane: 'normal', cost: { tokens: 50 } });
      const holder = model.tryAcquire({ lane: 'user', cost: { tokens: 1 } });
      expect(holder).toBeDefined();
      ask('high', { lane: 'user', cost: { tokens: 2 } });
      expect(log).toEqual([]);
      holder?.release();
      expect(log).toEqual(['high']);
      leases[0]?.release();
      first?.release();
      advance(10_000);
      expect(log).toEqual(['high', 'low']);
      account.close();
    });
  });
});

describe('a job in a child, as time goes by,', () => {
  it('is not stranded when the one before it gives up its place while the timer is being set', () => {
    virtualTime(({ scheduler, flush }) => {
      const child = childOf(createLimiter({ scheduler }), { rates: [perMinute('tokens', 6000, { burst: 100 })], headroom: 1 });
      child.tryAcquire({ cost: { tokens: 100 } })?.release();
      const answers: (number | undefined)[] = [];
      const place = child.enlist({
        bid: () => (answers.length > 0 ? answers.shift() : 10),
        granted: () => undefined,
        refused: () => undefined,
      });
      const { log, ask } = asker(child);
      ask('free of charge', { cost: { tokens: 0 } });
      answers.push(10, undefined);
      place.poke();
      flush();
      expect(log).toEqual(['free of charge']);
    });
  });

  it('is told how long the pause above is, whatever was done to the clock before it was made', () => {
    const scheduler = new CountingScheduler();
    scheduler.offset = 10_000;
    const parent = createLimiter({ rates: [perMinute('requests', 60, { burst: 1 })], headroom: 1, scheduler });
    scheduler.offset = 1000;
    const child = childOf(parent);
    const errors: unknown[] = [];
    const ask = (job?: LimiterJob) => child.acquire(job).subscribe({ error: (error: unknown) => errors.push(error) });
    ask();
    ask({ deadlineMs: 0 });
    parent.penalize(5000);
    ask({ deadlineMs: 0 });
    expect(errors).toEqual([
      expect.objectContaining({ limit: 'requestsPerMinute', retryAfterMs: 1000 }),
      expect.objectContaining({ limit: 'pause', retryAfterMs: 5000 }),
    ]);
    parent.close();
  });
});

describe('a reported limit', () => {
  it('of less than one, which no caller can keep to, is none', () => {
    const limiter = createLimiter({ rates: [perMinute('requests', 60)], learn: fromHeaders() });
    const limits = { 'x-ratelimit-limit-requests': '0.000001', 'x-ratelimit-limit-tokens': ['0.5', '7'] };
    limiter.observe({ status: 200, headers: limits });
    expect(limiter.snapshot()).toMatchObject({ requestsPerMinute: 60, tokensPerMinute: Infinity });
  });
});

describe('close', () => {
  it.each(['itself', 'the limiter above'])('of %s asks no bidder that wants nothing any more since a job was refused', (closed) => {
    virtualTime(({ scheduler }) => {
      const top = createLimiter({ concurrency: 1, scheduler });
      const own = createLimiter({ rates: [perMinute('requests', 60, { burst: 1 })], headroom: 1, scheduler });
      const isAbove = closed !== 'itself';
      const [jobs, bidders] = isAbove
        ? [childOf(top, { concurrency: 1 }), childOf(top, { rates: [perMinute('requests', 600)] })]
        : [own, own];
      const limiter = isAbove ? top : own;
      limiter.tryAcquire();
      const refused: string[] = [];
      let wants: number | undefined = 1;
      jobs.acquire().subscribe({
        error: () => {
          refused.push('job');
          wants = undefined;
          place.poke();
        },
      });
      const place = bidders.enlist({ bid: () => wants, granted: () => undefined, refused: () => refused.push('bidder') });
      limiter.close();
      expect(refused).toEqual(['job', 'bidder']);
      expect(scheduler.actions).toHaveLength(0);
    });
  });

  it('tells a job whose wait ran out a moment ago that everything is closed', () => {
    const scheduler = new CountingScheduler();
    const limiter = createLimiter({ concurrency: 1, scheduler });
    const held = limiter.tryAcquire();
    const refused: string[] = [];
    const refusedAs =
      (name: string) =>
      (error: unknown): void => {
        refused.push(`${name} ${(error as Error).name}`);
      };
    let wants: number | undefined = 1;
    limiter.acquire().subscribe({
      error: (error: unknown) => {
        refusedAs('job')(error);
        wants = undefined;
        held?.release();
      },
    });
    limiter.enlist({ bid: () => wants, granted: () => undefined, refused: refusedAs('bidder') });
    limiter.acquire({ deadlineMs: 10 }).subscribe({ error: refusedAs('late') });
    // The timer has not fired yet: the event loop was busy.
    scheduler.frame += 20;
    limiter.close();
    expect(refused).toEqual(['job ClosedError', 'bidder ClosedError', 'late ClosedError']);
  });
});

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

describe('a listener to releases that throws', () => {
  it('costs no other job a slot', async () => {
    const parent = createLimiter({ concurrency: 1 });
    const child = childOf(parent);
    const reported: unknown[] = [];
    config.onUnhandledError = (error) => reported.push((error as Error).message);
    child.onRelease(() => {
      throw new Error('from onRelease');
    });
    child.watch(() => {
      throw new Error('from watch');
    });
    child.tryAcquire()?.release();
    expect([child.executing, parent.executing]).toEqual([0, 0]);
    await new Promise((resolve) => setTimeout(resolve));
    config.onUnhandledError = null;
    expect(reported).toEqual(['from onRelease', 'from watch', 'from watch']);
  });
});

describe('those who watch a child', () => {
  it('are told when something comes free above', () => {
    const parent = createLimiter({ concurrency: 1 });
    const child = childOf(parent);
    const held = parent.tryAcquire();
    let told = 0;
    child.watch(() => told++);
    held?.release();
    expect(told).toBeGreaterThan(0);
    const mine = child.tryAcquire();
    let got: Lease | undefined;
    child.watch(() => (got ??= child.tryAcquire()));
    mine?.release();
    expect(got).toBeDefined();
  });
});

describe('what comes back to a full bucket above', () => {
  const limiters = () => {
    let time = 0;
    const scheduler = { now: () => time, schedule: () => ({ unsubscribe: () => undefined }) as never };
    const root = createLimiter({ scheduler, concurrency: 2, headroom: 1, rates: [perMinute('tokens', 60_000, { burst: 10 })] });
    const child = childOf(childOf(root), { concurrency: 1 });
    return { root, child, later: (ms: number) => (time += ms) };
  };

  it.each([
    [
      'an unused lease',
      (lease: Lease) => {
        lease.release('unused');
      },
    ],
    [
      'a correction',
      (lease: Lease) => {
        lease.settle({ inputTokens: 0 });
      },
    ],
  ])('is lost before the next grant, not after: %s', (_, giveBack) => {
    const { root, child, later } = limiters();
    const lease = child.tryAcquire({ cost: { tokens: 10 } }) as Lease;
    child.acquire({ cost: { slots: 0, tokens: 10 } }).subscribe();
    later(50);
    giveBack(lease);
    expect(root.snapshot().tokens).toBe(0);
  });
});

describe('a rate that setLimits adds', () => {
  const limiterOf = () => createLimiter({ scheduler: new CountingScheduler(), headroom: 1, rates: [perMinute('requests', 6000)] });
  const add = (limiter: Limiter) => {
    limiter.setLimits({ rates: [perMinute('tokens', 60, { burst: 100 })] });
  };

  it.each([
    ['gives nothing back that was never paid to it', 5, 35],
    ['is paid what is reported again', 50, -10],
    ['is paid what is reported more', 60, -20],
  ])('%s', (_, inputTokens, left) => {
    const limiter = limiterOf();
    const lease = limiter.tryAcquire();
    lease?.settle({ inputTokens: 50 });
    add(limiter);
    limiter.tryAcquire({ cost: { tokens: 60 } });
    lease?.settle({ inputTokens });
    expect(limiter.snapshot().tokens).toBe(left);
    lease?.settle({ inputTokens });
    expect(limiter.snapshot().tokens).toBe(left);
    lease?.settle({ inputTokens: 0 });
    expect(limiter.snapshot().tokens).toBe(40);
  });

  it('gives back nothing for a lease that was corrected before and is unused', () => {
    const limiter = limiterOf();
    const lease = limiter.tryAcquire();
    lease?.settle({ inputTokens: 50 });
    add(limiter);
    limiter.tryAcquire({ cost: { tokens: 60 } });
    lease?.release('unused');
    expect(limiter.snapshot().tokens).toBe(40);
    lease?.settle({ inputTokens: 5 });
    expect(limiter.snapshot().tokens).toBe(35);
  });
});

describe('a place that is withdrawn', () => {
  it.each([
    [
      'in a listener',
      (place: { withdraw(): void }, limiter: Limiter) => {
        limiter.clear();
        place.withdraw();
      },
      'listener',
    ],
    ['in its `bid`, which throws', () => undefined, 'bid'],
  ])('%s is told nothing more', (_, end, where) => {
    const told: string[] = [];
    const limiter: Limiter = createLimiter({
      concurrency: 1,
      onEvent: ({ type }) => {
        if (type === 'dropped' && where === 'listener') place.withdraw();
      },
    });
    const lease = limiter.tryAcquire();
    let withdraws = false;
    const place = limiter.enlist({
      bid: () => {
        if (!withdraws) return 0;
        place.withdraw();
        throw new Error('bid');
      },
      granted: () => told.push('granted'),
      refused: () => told.push('refused'),
    });
    withdraws = where === 'bid';
    end(place, limiter);
    lease?.release();
    expect(told).toEqual([]);
  });
});

it('learns from responses to requests that were sent after the clock was set back', () => {
  const scheduler = new CountingScheduler();
  scheduler.offset = 3_600_000;
  const limiter = createLimiter({ scheduler, learn: fromHeaders() });
  const observe = (limit: string) => {
    limiter.observe({ status: 200, headers: { 'x-ratelimit-limit-requests': limit } }, { sentAt: scheduler.now() });
    return limiter.snapshot().requestsPerMinute;
  };
  expect(observe('600')).toBe(600);
  scheduler.offset = 0;
  expect(observe('300')).toBe(300);
});

it('grants a slot that a refused job gives back in its callback before `acquire` returns', () => {
  const limiter = createLimiter({ concurrency: 1, maxQueued: 1, overflow: 'dropNewest' });
  const { log, ask } = asker(limiter);
  const held = limiter.tryAcquire();
  ask('waiting');
  limiter.acquire().subscribe({ error: () => held?.release('cancelled') });
  expect(log).toEqual(['waiting']);
});

it('does not look again and again for a job that may pass from its reserve and waits for a second slot', () => {
  const scheduler = new VirtualTimeScheduler();
  let looks = 0;
  scheduler.now = () => {
    if (++looks > 10_000) throw new Error('looks without end');
    return scheduler.frame;
  };
  const limiter = createLimiter({
    scheduler,
    headroom: 1,
    concurrency: 2,
    queue: lanes([{ name: 'user', reserve: 0.5 }, 'batch']),
    rates: [slidingWindow({ unit: 'tokens', amount: 100, windowMs: 1000 })],
  });
  const { log, ask } = asker(limiter);
  const held = limiter.tryAcquire({ lane: 'batch', cost: { tokens: 50 } });
  ask('batch', { lane: 'batch', cost: { tokens: 50 } });
  // Until the other lane is owed the turn.
  for (let i = 0; i < 100; i++) limiter.tryAcquire({ lane: 'user' })?.release();
  ask('user', { lane: 'user', cost: { slots: 2, tokens: 10 } });
  ask('another', { lane: 'batch', cost: { tokens: 50 } });
  scheduler.maxFrames = 500;
  scheduler.flush();
  expect(log).toEqual([]);
  held?.release();
  expect(log).toEqual(['user']);
});

import type { Observable } from 'rxjs';
import { of, Subject } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { FlowEvent, Lease, Limiter, LimiterJob, RateRule } from '../../operators/index.js';
import {
  batchMap,
  childOf,
  createLimiter,
  isFlowError,
  keyedLimiter,
  lanes,
  natural,
  perMinute,
  slidingWindow,
} from '../../operators/index.js';
import type { Release } from '../../operators/options/limiter.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { unstamped } from '../support/events.js';

/** Asks, and writes down what comes of it. */
function asker(limiter: { acquire(job: never): Observable<Lease> }, now: () => number = () => 0) {
  const leases: Lease[] = [];
  const log: string[] = [];
  const ask = (name: string, wish: LimiterJob = {}) =>
    limiter.acquire(wish as never).subscribe({
      next: (lease) => {
        leases.push(lease);
        log.push(now() === 0 ? name : `${name} at ${String(now())}`);
      },
      error: (error: unknown) => log.push(`${name} ${isFlowError(error) ? error.code : String(error)}`),
    });
  return { leases, log, ask };
}

/** Whether a promise has settled by now. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  void promise.then(() => (settled = true));
  for (let i = 0; i < 5; i++) await Promise.resolve();
  return settled;
}

describe('pause', () => {
  it('lets nothing in until resume, and what runs goes on', () => {
    virtualTime(({ advance, now, pending }) => {
      const limiter = createLimiter({ concurrency: 2 });
      const { leases, log, ask } = asker(limiter, now);
      ask('a');
      limiter.pause();
      limiter.pause();
      ask('b');
      expect([limiter.tryAcquire(), limiter.executing, limiter.load]).toEqual([undefined, 1, 1]);
      expect(limiter.snapshot()).toMatchObject({ pausedForMs: Infinity, heldByRate: 1, heldBySlot: 0 });
      leases[0]?.release();
      advance(1e6);
      expect([log, pending()]).toEqual([['a'], 0]);
      limiter.resume();
      expect(log).toEqual(['a', 'b at 1000000']);
      limiter.resume();
      expect(limiter.tryAcquire()).toBeDefined();
    });
  });

  it('is another one than the pause a response has asked for', () => {
    virtualTime(({ advance, flush, now }) => {
      const limiter = createLimiter();
      const { log, ask } = asker(limiter, now);
      limiter.penalize(500);
      limiter.pause();
      ask('a');
      advance(1000);
      limiter.penalize(0);
      expect(log).toEqual([]);
      limiter.penalize(500);
      limiter.resume();
      flush();
      expect(log).toEqual(['a at 1500']);
    });
  });

  it('of an account holds its children, that of a child or of all keys only them', () => {
    virtualTime(() => {
      const account = createLimiter({ concurrency: 9 });
      const child = childOf(account, { concurrency: 5 });
      const keyed = keyedLimiter(account, { concurrency: 1 });
      account.pause();
      const [below, keys, above] = [asker(child), asker(keyed), asker(account)];
      below.ask('a');
      keys.ask('b', { key: 1 });
      child.pause();
      keyed.pause();
      account.resume();
      above.ask('c');
      expect([below.log, keys.log, above.log]).toEqual([[], [], ['c']]);
      child.resume();
      keyed.resume();
      expect([below.log, keys.log]).toEqual([['a'], ['b']]);
    });
  });

  it('lets a job’s own time run out, and is what it is told', () => {
    virtualTime(({ flush }) => {
      const limiter = createLimiter();
      limiter.pause();
      const errors: string[] = [];
      limiter.acquire({ deadlineMs: 100 }).subscribe({ error: (error: unknown) => errors.push(String((error as Error).cause)) });
      flush();
      expect(errors).toEqual(['RateLimitError: createLimiter: no permit under pause']);
    });
  });

  it('keeps a drain waiting until resume, and close refuses waiting jobs', async () => {
    const limiter = createLimiter();
    limiter.pause();
    const { log, ask } = asker(limiter);
    ask('a');
    const drained = limiter.drain();
    expect(await isSettled(drained)).toBe(false);
    limiter.close();
    expect([log, await drained]).toEqual([['a FLOW_CLOSED'], { done: 0, aborted: 0, dropped: 1 }]);
  });

  it('holds batches too', () => {
    virtualTime(({ flush }) => {
      const limiter = createLimiter({ concurrency: 1 });
      limiter.pause();
      const source = new Subject<number>();
      const sizes: number[] = [];
      source.pipe(batchMap((items) => (sizes.push(items.length), of([...items])), { limiter, window: natural() })).subscribe();
      for (let i = 0; i < 5; i++) source.next(i);
      flush();
      expect(sizes).toEqual([]);
      limiter.resume();
      source.complete();
      flush();
      expect(sizes).toEqual([5]);
    });
  });
});

describe('clear', () => {
  it('refuses jobs that wait with a named error and its reason, and leaves what runs alone', async () => {
    const events: FlowEvent[] = [];
    const limiter = createLimiter({ concurrency: 1, onEvent: unstamped((event) => events.push(event)) });
    let end: (value: string) => void = () => undefined;
    const running = limiter.runAsync(() => new Promise<string>((resolve) => (end = resolve)));
    const { log, ask } = asker(limiter);
    ask('a');
    const waiting = [limiter.acquireAsync(), limiter.runAsync(() => 5), limiter.acquireAsync({ signal: new AbortController().signal })];
    const reason = new Error('new question');
    limiter.clear(reason);
    const outcomes = await Promise.allSettled(waiting);
    for (const outcome of outcomes)
      expect(outcome).toMatchObject({ reason: { name: 'ClosedError', code: 'FLOW_CLEARED', cause: reason, operator: 'createLimiter' } });
    expect(log).toEqual(['a FLOW_CLEARED']);
    expect(events.map(({ type }) => type)).toEqual(['dropped', 'dropped', 'dropped', 'dropped']);
    const next = limiter.runAsync(() => 'next');
    end('answer');
    expect(await Promise.all([running, next])).toEqual(['answer', 'next']);
    expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
  });

  it('clears jobs of children as well, and keeps jobs made in answer to a refusal', () => {
    virtualTime(({ flush }) => {
      const account = createLimiter({ concurrency: 1 });
      const child = childOf(account, { concurrency: 1 });
      const held = account.tryAcquire();
      const log: string[] = [];
      const again = (limiter: Limiter, name: string): void => {
        limiter.acquire().subscribe({
          next: (lease) => {
            log.push(name);
            lease.release();
          },
          error: () => {
            again(limiter, `${name} again`);
          },
        });
      };
      again(child, 'child');
      again(account, 'account');
      again(child, 'other child');
      account.clear();
      expect([log, account.snapshot().queued]).toEqual([[], 2]);
      held?.release();
      flush();
      expect([...log].sort()).toEqual(['account again', 'child again', 'other child again']);
      expect([account.executing, child.snapshot().queued]).toEqual([0, 0]);
    });
  });

  it('of a child or of all keys refuses only their jobs, and ends at once in a limiter without waiting jobs', () => {
    virtualTime(() => {
      const account = createLimiter({ concurrency: 1 });
      const child = childOf(account);
      const keyed = keyedLimiter(account);
      const held = account.tryAcquire();
      const [above, below, keys] = [asker(account), asker(child), asker(keyed)];
      above.ask('a');
      below.ask('b');
      keys.ask('c', { key: 'k' });
      child.clear();
      keyed.clear();
      createLimiter().clear();
      expect([above.log, below.log, keys.log]).toEqual([[], ['b FLOW_CLEARED'], ['c FLOW_CLEARED']]);
      held?.release();
      expect(above.log).toEqual(['a']);
      above.leases[0]?.release();
      expect([account.executing, account.snapshot().queued]).toEqual([0, 0]);
    });
  });

  it('settles every item of a batch that waits, once', () => {
    virtualTime(({ flush }) => {
      const limiter = createLimiter({ concurrency: 1 });
      const held = limiter.tryAcquire();
      const source = new Subject<number>();
      const seen: string[] = [];
      source
        .pipe(batchMap((items) => of([...items]), { limiter, window: natural() }))
        .subscribe((settled) => seen.push(`${String(settled.input)} ${settled.status}`));
      source.next(1);
      source.next(2);
      flush();
      limiter.clear();
      held?.release();
      source.next(3);
      source.complete();
      flush();
      expect(seen).toEqual(['1 rejected', '2 rejected', '3 fulfilled']);
      expect(limiter.executing).toBe(0);
    });
  });

  it('ends a drain that nothing else keeps waiting', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const held = limiter.tryAcquire();
    asker(limiter).ask('a');
    const drained = limiter.drain();
    limiter.clear();
    held?.release();
    expect(await drained).toEqual({ done: 1, aborted: 0, dropped: 1 });
  });
});

describe('whenIdle', () => {
  it('is at once when nothing waits or runs, and not final', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    expect(await isSettled(limiter.whenIdle())).toBe(true);
    for (let round = 0; round < 2; round++) {
      const lease = limiter.tryAcquire();
      const idle = [limiter.whenIdle(), limiter.whenIdle()];
      const { leases, ask } = asker(limiter);
      ask('a');
      lease?.release();
      expect(await isSettled(Promise.race(idle))).toBe(false);
      leases[0]?.release();
      expect(await isSettled(Promise.all(idle))).toBe(true);
    }
  });

  it.each(['release', 'leave', 'clear', 'close'] as const)('is told when the last one goes by %s', async (how) => {
    const limiter = createLimiter({ concurrency: 1 });
    const lease = limiter.tryAcquire();
    const waiting = asker(limiter).ask('a');
    const idle = limiter.whenIdle();
    if (how === 'leave') waiting.unsubscribe();
    if (how === 'clear') limiter.clear();
    if (how === 'close') limiter.close();
    expect(await isSettled(idle)).toBe(false);
    lease?.release();
    if (how === 'release') {
      expect(await isSettled(idle)).toBe(false);
      waiting.unsubscribe();
      // The lease that was delivered is the asker's own.
      expect(await isSettled(idle)).toBe(false);
      limiter.close();
      return;
    }
    expect(await isSettled(idle)).toBe(true);
  });

  it('of an account waits for its children and keys, theirs not for it', async () => {
    const account = createLimiter({ concurrency: 4 });
    const child = childOf(account, { concurrency: 1 });
    const keyed = keyedLimiter(account, { concurrency: 1 });
    const leases = [account.tryAcquire(), child.tryAcquire(), keyed.tryAcquire({ key: 'a' })];
    const { leases: late, ask } = asker(child);
    ask('b');
    const [all, below, keys] = [account.whenIdle(), child.whenIdle(), keyed.whenIdle()];
    leases[2]?.release();
    leases[1]?.release();
    leases[0]?.release();
    expect([await isSettled(all), await isSettled(below), await isSettled(keys)]).toEqual([false, false, true]);
    late[0]?.release();
    expect([await isSettled(all), await isSettled(below)]).toEqual([true, true]);
  });

  it('waits for work that was given up and is not over', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    let end: () => void = () => undefined;
    limiter.tryAcquire()?.releaseAfter(new Promise<void>((resolve) => (end = resolve)));
    const idle = limiter.whenIdle();
    expect(await isSettled(idle)).toBe(false);
    end();
    expect(await isSettled(idle)).toBe(true);
  });
});

describe('whenQueued', () => {
  it('resolves when fewer wait, here and below', async () => {
    const account = createLimiter({ concurrency: 1 });
    const child = childOf(account, { concurrency: 5 });
    const held = account.tryAcquire();
    const [above, below] = [asker(account), asker(child)];
    above.ask('a');
    const second = below.ask('b');
    below.ask('c');
    expect(await isSettled(account.whenQueued({ below: 4 }))).toBe(true);
    const three = account.whenQueued({ below: 3 });
    const one = account.whenQueued({ below: 1 });
    expect(await isSettled(three)).toBe(false);
    second.unsubscribe();
    expect(await isSettled(three)).toBe(true);
    held?.release();
    above.leases[0]?.release();
    expect([below.log, await isSettled(one)]).toEqual([['c'], true]);
  });

  it('is what a producer waits for', async () => {
    const limiter = createLimiter({ concurrency: 2 });
    let most = 0;
    for (let i = 0; i < 100; i++) {
      await limiter.whenQueued({ below: 3 });
      void limiter.runAsync(() => new Promise((resolve) => setImmediate(resolve)));
      most = Math.max(most, limiter.snapshot().queued);
    }
    await limiter.whenIdle();
    expect([most, limiter.executing]).toEqual([3, 0]);
  });

  it.each([0, -1, 1.5, NaN, '3', undefined])('does not take %s', (below) => {
    expect(() => createLimiter().whenQueued({ below: below as number })).toThrow('expected `below` to be a whole number >= 1 or Infinity');
  });
});

describe('a rate of 0', () => {
  const rates: readonly (readonly [string, (amount: number) => RateRule])[] = [
    ['requests', (amount) => perMinute('requests', amount)],
    ['tokens', (amount) => perMinute('tokens', amount)],
    ['requests in a window', (amount) => slidingWindow({ unit: 'requests', amount, windowMs: 60_000 })],
  ];

  it.each(rates)('lets nothing pass until it is raised: %s', (_name, rate) => {
    virtualTime(({ advance, now, pending }) => {
      const limiter = createLimiter({ concurrency: 1, headroom: 1 });
      limiter.setLimits({ rates: [rate(0)] });
      const { log, ask } = asker(limiter, now);
      ask('a');
      ask('heavy', { cost: { tokens: 9 } });
      advance(1e7);
      expect([log, pending(), limiter.tryAcquire(), limiter.load]).toEqual([[], 0, undefined, 1]);
      expect(limiter.snapshot()).toMatchObject({ queued: 2, heldByRate: 2 });
      limiter.setLimits({ rates: [rate(600)] });
      expect(log).toEqual(['a at 10000000']);
      limiter.close();
    });
  });

  it('keeps what was saved up, and what was spent', () => {
    virtualTime(({ advance }) => {
      const limiter = createLimiter({ rates: [perMinute('requests', 300)], headroom: 1 });
      for (let i = 0; i < 10; i++) limiter.tryAcquire()?.release();
      limiter.setLimits({ rates: [perMinute('requests', 0)] });
      expect([limiter.tryAcquire(), limiter.snapshot().requests]).toEqual([undefined, 0]);
      limiter.setLimits({ rates: [perMinute('requests', 300)] });
      expect(limiter.tryAcquire()).toBeUndefined();
      limiter.setLimits({ rates: [perMinute('requests', 0)] });
      advance(60_000);
      limiter.setLimits({ rates: [perMinute('requests', 300)] });
      expect(limiter.snapshot().requests).toBe(10);
    });
  });

  it('of an account holds its children, and refuses jobs that may not wait', () => {
    virtualTime(({ flush, now }) => {
      const account = createLimiter({ headroom: 1 });
      account.setLimits({ rates: [perMinute('requests', 0)] });
      const { log, ask } = asker(childOf(account), now);
      ask('a');
      ask('b', { deadlineMs: 50 });
      flush();
      expect(log).toEqual(['b FLOW_DEADLINE']);
      account.setLimits({ rates: [perMinute('requests', 60)] });
      expect(log).toEqual(['b FLOW_DEADLINE', 'a at 50']);
      account.close();
    });
  });
});

describe('a queue', () => {
  it('has no bound unless it is given one, and tells once when it is long', () => {
    const events: FlowEvent[] = [];
    const limiter = createLimiter({
      concurrency: 1,
      onEvent: unstamped((event) => events.push(event)),
      queue: lanes([{ name: 'chat' }, { name: 'batch' }]),
    });
    const { leases, log, ask } = asker(limiter);
    for (let i = 0; i < 12_000; i++) ask(String(i));
    expect(events).toEqual([{ type: 'queueLong', operator: 'createLimiter', lane: 'batch', queued: 10_000 }]);
    while (leases.length > 0) leases.pop()?.release();
    expect([log.length, limiter.executing]).toEqual([12_000, 0]);
    for (let i = 0; i < 10_001; i++) ask(String(i));
    expect(events).toHaveLength(2);
    limiter.close();
  });

  it('with a bound overflows for `acquire` and `run`, and makes calls with a promise wait for room', async () => {
    const limiter = createLimiter({ concurrency: 1, maxQueued: 1 });
    const held = limiter.tryAcquire();
    const { log, ask } = asker(limiter);
    ask('a');
    const order: string[] = [];
    const run = (name: string, signal?: AbortSignal) => limiter.runAsync(() => order.push(name), signal ? { signal } : {});
    const waiting = [
      run('b'),
      run('c', new AbortController().signal),
      limiter.acquireAsync().then((lease) => {
        order.push('d');
        lease.release();
      }),
    ];
    ask('e');
    limiter.run(() => of(1)).subscribe({ error: (error: unknown) => log.push(`f ${(error as { code: string }).code}`) });
    expect(log).toEqual(['e FLOW_OVERFLOW', 'f FLOW_OVERFLOW']);
    expect(limiter.snapshot().queued).toBe(4);
    held?.release();
    expect(log.at(-1)).toBe('a');
    await Promise.resolve();
    limiter.snapshot();
    // First come, first served.
    const leases = asker(limiter);
    leases.ask('late');
    limiter.setLimits({ concurrency: 2 });
    await Promise.all(waiting);
    expect(order).toEqual(['b', 'c', 'd']);
  });

  it('without room for a waiting job refuses those with a promise as well', async () => {
    const limiter = createLimiter({ concurrency: 1, maxQueued: 0 });
    const held = limiter.tryAcquire();
    await expect(limiter.acquireAsync()).rejects.toMatchObject({ code: 'FLOW_RATE_LIMITED' });
    await expect(limiter.runAsync(() => 5)).rejects.toMatchObject({ code: 'FLOW_RATE_LIMITED' });
    held?.release();
    expect(await limiter.runAsync(() => 5)).toBe(5);
  });

  it('lets 3,000 promises in, as p-queue does', async () => {
    const limiter = createLimiter({ concurrency: 5, maxQueued: 10 });
    const answers = await Promise.all(Array.from({ length: 3000 }, (_, i) => limiter.runAsync(() => Promise.resolve(i))));
    expect(answers).toEqual(Array.from({ length: 3000 }, (_, i) => i));
  });
});

it('a clock that counts up to 0 puts nothing off until then', () => {
  const scheduler = new CountingScheduler();
  scheduler.offset = -100_000;
  const limiter = createLimiter({ concurrency: 1, scheduler });
  const held = limiter.tryAcquire();
  const granted: number[] = [];
  limiter.acquire().subscribe(() => granted.push(scheduler.frame));
  // What has come free is granted at the end of the frame.
  held?.release('cancelled');
  scheduler.flush();
  expect(granted).toEqual([0]);
  expect(scheduler.delays).toEqual([0]);
});

it('tells no time of a grant for which the clock was not read', () => {
  const scheduler = new CountingScheduler();
  const limiter = createLimiter({ scheduler, rates: [perMinute('requests', Infinity)] });
  const lease = limiter.tryAcquire();
  const releases: Release[] = [];
  limiter.onRelease((release) => releases.push(release));
  scheduler.offset = 7000;
  lease?.release();
  expect(releases).toMatchObject([{ grantedAt: 7000, releasedAt: 7000 }]);
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

it('grants a slot that a refused job gives back in its callback before `acquire` returns', () => {
  const limiter = createLimiter({ concurrency: 1, maxQueued: 1, overflow: 'dropNewest' });
  const { log, ask } = asker(limiter);
  const held = limiter.tryAcquire();
  ask('waiting');
  limiter.acquire().subscribe({ error: () => held?.release('cancelled') });
  expect(log).toEqual(['waiting']);
});

import { getEventListeners } from 'node:events';
import fc from 'fast-check';
import type { Subscription } from 'rxjs';
import { defer, mergeMap, NEVER, of, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { ChildLimiterOptions, Lease, Limiter, LimiterJob } from '../../operators/index.js';
import {
  batchMap,
  childOf,
  createLimiter,
  fromHeaders,
  heldBy,
  isFlowError,
  keyedLimiter,
  lanes,
  NestedAcquireError,
  perMinute,
} from '../../operators/index.js';
import type { Drained } from '../../operators/options/types.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { MORE_THAN_A_STACK, sized } from '../support/deep.js';
import { refusing } from '../support/refusing.js';

/** Leases as they come, and errors by their code. */
function asker(limiter: Limiter) {
  const leases: Lease[] = [];
  const log: string[] = [];
  const ask = (name: string, job?: LimiterJob): Subscription =>
    limiter.acquire(job).subscribe({
      next: (lease) => {
        leases.push(lease);
        log.push(name);
      },
      error: (error: unknown) => log.push(`${name} ${isFlowError(error) ? error.code : String(error)}`),
    });
  return { leases, log, ask };
}

describe('a child of a limiter', () => {
  it('counts against its own limits and those of its parent', () => {
    const parent = createLimiter({ concurrency: 3 });
    const one = childOf(parent, { concurrency: 2 });
    const two = childOf(parent);
    const first = one.tryAcquire();
    one.tryAcquire();
    expect(one.tryAcquire()).toBeUndefined();
    expect(two.tryAcquire()).toBeDefined();
    expect([parent.executing, one.executing, two.executing]).toEqual([3, 2, 1]);
    expect(two.tryAcquire()).toBeUndefined();
    first?.release();
    expect([parent.executing, one.executing]).toEqual([2, 1]);
    expect(two.tryAcquire()).toBeDefined();
    expect(one.tryAcquire()).toBeUndefined();
  });

  it('holds nothing of its parent while it waits for its own limits, and the other way round', () => {
    virtualTime(({ scheduler, advance }) => {
      const parent = createLimiter({ concurrency: 2, rates: [perMinute('requests', 600, { burst: 1 })], headroom: 1, scheduler });
      const slow = childOf(parent, { rates: [perMinute('requests', 60, { burst: 1 })], headroom: 1 });
      const { log, ask, leases } = asker(slow);
      ask('a');
      ask('b');
      expect(log).toEqual(['a']);
      leases[0]?.release();
      // `b` waits for the child's rate: both slots and the requests of the parent are free for others.
      expect(parent.snapshot()).toMatchObject({ executing: 0, queued: 0 });
      advance(100);
      expect(parent.tryAcquire()).toBeDefined();
      advance(899);
      expect(log).toEqual(['a']);
      advance(1);
      expect(log).toEqual(['a', 'b']);
      expect(parent.executing).toBe(2);
      leases[1]?.release();
      // And with the parent full, the child has spent nothing.
      advance(200);
      expect(parent.tryAcquire()).toBeDefined();
      advance(5000);
      const before = slow.snapshot().requests;
      ask('c');
      advance(1);
      expect(slow.snapshot()).toMatchObject({ executing: 0, queued: 1 });
      expect(slow.snapshot().requests).toBeGreaterThanOrEqual(before);
      slow.close();
    });
  });

  it('takes its turns among the jobs of its parent', () => {
    const parent = createLimiter({ concurrency: 1 });
    const child = childOf(parent);
    const log: string[] = [];
    const holder = parent.tryAcquire();
    const leases: Lease[] = [];
    const ask = (limiter: Limiter, name: string): void => {
      limiter.acquire().subscribe((lease) => {
        leases.push(lease);
        log.push(name);
      });
    };
    ask(parent, 'p1');
    ask(child, 'c1');
    ask(child, 'c2');
    ask(parent, 'p2');
    holder?.release();
    for (let i = 0; i < 3; i++) leases[i]?.release();
    expect(log).toEqual(['p1', 'c1', 'c2', 'p2']);
  });

  it('has the lanes of its parent, and its urgent jobs go before the other jobs of all limiters', () => {
    const parent = createLimiter({ concurrency: 1, queue: lanes([{ name: 'user' }, { name: 'normal', floor: 0 }]) });
    const child = childOf(parent, { concurrency: 1 });
    expect(child.lanes).toEqual(['user', 'normal']);
    const { log, ask, leases } = asker(child);
    const outer = asker(parent);
    const holder = parent.tryAcquire({ lane: 'user' });
    outer.ask('parent normal', { lane: 'normal' });
    ask('child normal', { lane: 'normal' });
    ask('child user', { lane: 'user' });
    holder?.release();
    expect([...log, ...outer.log]).toEqual(['child user']);
    leases[0]?.release();
    expect(outer.log).toEqual(['parent normal']);
    outer.leases[0]?.release();
    expect(log).toEqual(['child user', 'child normal']);
  });

  it('may have lanes of its own under a parent without any', () => {
    const parent = createLimiter({ concurrency: 1 });
    const child = childOf(parent, { queue: lanes([{ name: 'now' }, { name: 'later', floor: 0 }]) });
    const { log, ask, leases } = asker(child);
    const holder = parent.tryAcquire();
    ask('b', { lane: 'later' });
    ask('a', { lane: 'now' });
    holder?.release();
    leases[0]?.release();
    expect(log).toEqual(['a', 'b']);
  });

  it('settles both with what was really used, and gives both back what was not sent', () => {
    virtualTime(({ scheduler }) => {
      const parent = createLimiter({ rates: [perMinute('tokens', 6000, { burst: 1000 })], headroom: 1, scheduler });
      const child = childOf(parent, { rates: [perMinute('tokens', 3000, { burst: 500 })], headroom: 1 });
      const lease = child.tryAcquire({ cost: { tokens: 100 } });
      expect([parent.snapshot().tokens, child.snapshot().tokens]).toEqual([900, 400]);
      lease?.settle({ inputTokens: 200, outputTokens: 50 });
      expect([parent.snapshot().tokens, child.snapshot().tokens]).toEqual([750, 250]);
      lease?.release('unused');
      expect([parent.snapshot().tokens, child.snapshot().tokens]).toEqual([1000, 500]);
    });
  });

  it('refuses what its parent could never pay', () => {
    const parent = createLimiter({ rates: [refusing(perMinute('tokens', 60, { burst: 1 }))], headroom: 1 });
    const child = childOf(parent);
    const { log, ask } = asker(child);
    ask('huge', { cost: { tokens: 2 } });
    expect(log).toEqual(['huge FLOW_ITEM_TOO_HEAVY']);
    expect(child.tokenCapacity).toBe(1);
    expect(child.borrows).toBe(false);
  });

  it('pauses alone', () => {
    virtualTime(({ scheduler, advance }) => {
      const parent = createLimiter({ concurrency: 5, scheduler });
      const child = childOf(parent);
      child.penalize(1000);
      const { log, ask } = asker(child);
      ask('late');
      expect(parent.tryAcquire()).toBeDefined();
      advance(999);
      expect(log).toEqual([]);
      advance(1);
      expect(log).toEqual(['late']);
    });
  });

  it('waits no longer than it may, whatever job is in the way', () => {
    virtualTime(({ scheduler, advance }) => {
      const parent = createLimiter({ concurrency: 1, scheduler });
      const child = childOf(parent);
      const { log, ask } = asker(child);
      const holder = parent.tryAcquire();
      ask('a', { deadlineMs: 50 });
      advance(50);
      expect(log).toEqual(['a FLOW_DEADLINE']);
      holder?.release();
      expect(parent.snapshot()).toMatchObject({ executing: 0, queued: 0 });
    });
  });

  it('leaves the queue of its parent when its job leaves', () => {
    virtualTime(({ scheduler, advance }) => {
      const parent = createLimiter({ concurrency: 1, scheduler });
      const child = childOf(parent);
      const { log, ask } = asker(child);
      const holder = parent.tryAcquire();
      ask('a').unsubscribe();
      holder?.release();
      advance(1);
      expect(log).toEqual([]);
      expect(parent.snapshot()).toMatchObject({ executing: 0, queued: 0 });
      expect(parent.tryAcquire()).toBeDefined();
    });
  });

  it('can be the limiter of a batchMap, and a child again', () => {
    virtualTime(({ scheduler, flush }) => {
      const account = createLimiter({ concurrency: 2, scheduler });
      const model = childOf(childOf(account, { concurrency: 1 }), { rates: [perMinute('requests', 6000)], headroom: 1 });
      let most = 0;
      let now = 0;
      const values: number[] = [];
      of(1, 2, 3, 4, 5, 6)
        .pipe(
          batchMap(
            (items: readonly number[]) =>
              defer(() => {
                most = Math.max(most, ++now);
                return timer(10, scheduler).pipe(
                  mergeMap(() => {
                    now--;
                    return of(items.map((item) => item * 2));
                  }),
                );
              }),
            { limiter: model, maxSize: 2, scheduler },
          ),
        )
        .subscribe((settled) => {
          if (settled.status === 'fulfilled') values.push(settled.value);
        });
      flush();
      expect(values).toEqual([2, 4, 6, 8, 10, 12]);
      expect(most).toBe(1);
      expect(account.snapshot()).toMatchObject({ executing: 0, queued: 0 });
    });
  });

  it('ends with its parent: a drain waits for what it has accepted, a close gives it up', async () => {
    const parent = createLimiter({ concurrency: 1 });
    const child = childOf(parent, { concurrency: 1 });
    const { log, ask, leases } = asker(child);
    ask('a');
    ask('b');
    const drained = parent.drain();
    ask('c');
    expect(log).toEqual(['a', 'c FLOW_CLOSED']);
    leases[0]?.release();
    expect(log).toEqual(['a', 'c FLOW_CLOSED', 'b']);
    leases[1]?.release();
    expect(await drained).toEqual({ done: 2, aborted: 0, dropped: 0 });

    const other = createLimiter({ concurrency: 1 });
    const below = childOf(other);
    const again = asker(below);
    below.run(() => NEVER).subscribe({ error: (error: unknown) => again.log.push(isFlowError(error) ? error.code : '') });
    again.ask('d');
    other.close();
    expect(again.log).toEqual(['d FLOW_CLOSED', 'FLOW_CLOSED']);
    expect(await other.drain()).toEqual({ done: 0, aborted: 1, dropped: 1 });
    again.ask('e');
    expect(again.log.at(-1)).toBe('e FLOW_CLOSED');
  });

  it('serves many thousand synchronous jobs without recursion, through three levels', () => {
    const parent = createLimiter({ concurrency: 1 });
    const child = childOf(childOf(parent, { concurrency: 2 }), { maxQueued: Infinity });
    const holder = parent.tryAcquire();
    let sum = 0;
    for (let i = 0; i < MORE_THAN_A_STACK; i++) child.run(() => of(1)).subscribe((one) => (sum += one));
    expect(sum).toBe(0);
    holder?.release();
    expect(sum).toBe(MORE_THAN_A_STACK);
    expect(parent.snapshot()).toMatchObject({ executing: 0, queued: 0 });
  }, 30_000);

  it.each([
    ['scheduler', createLimiter(), { scheduler: new CountingScheduler() }],
    ['queue', createLimiter({ queue: lanes([{ name: 'user' }]) }), { queue: lanes([{ name: 'normal' }]) }],
  ])('refuses `%s`, which is that of its parent', (option, parent, options) => {
    expect(() => childOf(parent, options as ChildLimiterOptions)).toThrow(
      `\`${option}\` cannot be combined with a parent limiter that has one`,
    );
  });
});

describe('a keyed limiter', () => {
  it('limits each key by itself, and all of them together', () => {
    const limiter = createLimiter({ concurrency: 3 });
    const tools = keyedLimiter(limiter, { concurrency: 2 });
    const leases = [tools.tryAcquire({ key: 'a' }), tools.tryAcquire({ key: 'a' }), tools.tryAcquire({ key: 'a' })];
    expect(leases.map((lease) => lease !== undefined)).toEqual([true, true, false]);
    expect(tools.tryAcquire({ key: 'b' })).toBeDefined();
    expect(tools.tryAcquire({ key: 'c' })).toBeUndefined();
    expect(limiter.executing).toBe(3);
  });

  it('lets no full key block another', () => {
    const tools = keyedLimiter(createLimiter(), { concurrency: 1 });
    const log: string[] = [];
    const leases: Lease[] = [];
    for (const key of ['a', 'a', 'a', 'b']) {
      tools.acquire({ key }).subscribe((lease) => {
        log.push(key);
        leases.push(lease);
      });
    }
    expect(log).toEqual(['a', 'b']);
    leases[0]?.release();
    expect(log).toEqual(['a', 'b', 'a']);
  });

  it('forgets keys that have nothing to remember, and not those whose rate is spent', () => {
    virtualTime(({ scheduler, advance }) => {
      const tools = keyedLimiter(createLimiter({ scheduler }), { rates: [perMinute('requests', 60, { burst: 1 })], headroom: 1 });
      for (let i = 0; i < 500; i++) tools.tryAcquire({ key: i })?.release();
      expect(tools.keys).toBe(500);
      expect(tools.tryAcquire({ key: 0 })).toBeUndefined();
      advance(1000);
      expect(tools.keys).toBe(0);
    });
  });

  it('has a bound on its keys', async () => {
    const tools = keyedLimiter(createLimiter(), { concurrency: 1, maxKeys: 2 });
    tools.tryAcquire({ key: 1 });
    const second = tools.tryAcquire({ key: 2 });
    await expect(tools.runAsync(() => of(1), { key: 3 })).rejects.toMatchObject({ code: 'FLOW_OVERFLOW', bound: 'maxKeys', limit: 2 });
    second?.release();
    expect(await tools.runAsync(() => of(1), { key: 3 })).toBe(1);
  });

  it('hands out the limiter of a key, and keeps it', () => {
    const tools = keyedLimiter(createLimiter(), { concurrency: 1 });
    const one = tools.of('a');
    expect(tools.keys).toBe(1);
    one.tryAcquire();
    expect(tools.tryAcquire({ key: 'a' })).toBeUndefined();
    expect(tools.of('a')).toBe(one);
  });

  it('drains and closes all keys, and nothing else', async () => {
    const limiter = createLimiter();
    const tools = keyedLimiter(limiter, { concurrency: 1 });
    const lease = tools.tryAcquire({ key: 'a' });
    const drained = tools.drain();
    await expect(tools.acquireAsync({ key: 'b' })).rejects.toMatchObject({ code: 'FLOW_CLOSED' });
    lease?.release();
    expect(await drained).toEqual({ done: 1, aborted: 0, dropped: 0 });
    expect(limiter.tryAcquire()).toBeDefined();
  });

  it('drains when a signal aborts, and leaves the signal alone when all is over', async () => {
    const [leaving, gone] = [new AbortController(), new AbortController()];
    const tools = keyedLimiter(createLimiter(), { concurrency: 1 }).shutdownOn(leaving.signal, { timeoutMs: 1 }).shutdownOn(gone.signal);
    void tools.runAsync(() => new Promise(() => undefined), { key: 'a' }).catch(() => undefined);
    const waiting = tools.acquireAsync({ key: 'a' });
    leaving.abort();
    await expect(waiting).rejects.toMatchObject({ code: 'FLOW_CLOSED' });
    expect(await tools.drain()).toEqual({ done: 0, aborted: 1, dropped: 1 });
    expect(getEventListeners(gone.signal, 'abort')).toEqual([]);
    expect(await keyedLimiter({ concurrency: 1 }).shutdownOn(leaving.signal).drain()).toEqual({ done: 0, aborted: 0, dropped: 0 });
  });

  it.each([
    [{}, 'expected `job` to be an object with a `key`'],
    [{ key: 1, lanes: 'x' }, '`lanes`'],
  ])('names what is wrong with a job', (job, message) => {
    const tools = keyedLimiter(createLimiter());
    expect(() => tools.acquire(job as { key: number })).toThrow(message);
  });

  it('names what is wrong with its options at once', () => {
    expect(() => keyedLimiter(createLimiter(), { concurrency: 0 })).toThrow('`concurrency`');
    expect(() => keyedLimiter(createLimiter(), { maxKeys: 0 })).toThrow('`maxKeys`');
  });
});

describe('work that asks for a second permit of the limiter it runs under', () => {
  it('is refused when it could never be granted', () => {
    const limiter = createLimiter({ concurrency: 1 });
    const log: unknown[] = [];
    limiter
      .run(({ lease }) => limiter.run(() => of('never'), { holder: heldBy(lease) }))
      .subscribe({ next: (value) => log.push(value), error: (error: unknown) => log.push(error) });
    expect(log).toEqual([expect.any(NestedAcquireError)]);
    expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
  });

  it('waits while another job will give a slot back', () => {
    const limiter = createLimiter({ concurrency: 2 });
    const other = limiter.tryAcquire();
    const log: unknown[] = [];
    limiter.run(({ lease }) => limiter.run(() => of('inner'), { holder: heldBy(lease) })).subscribe((value) => log.push(value));
    expect(log).toEqual([]);
    other?.release();
    expect(log).toEqual(['inner']);
  });

  it('is refused as soon as all others wait as well, the newest first', () => {
    const limiter = createLimiter({ concurrency: 2 });
    const log: string[] = [];
    const nested = (name: string): void => {
      limiter
        .run(({ lease }) => limiter.run(() => of(`${name} done`), { holder: heldBy(lease) }))
        .subscribe({ next: (value) => log.push(value), error: (error: unknown) => log.push(`${name} ${(error as Error).name}`) });
    };
    const first = limiter.tryAcquire();
    nested('a');
    first?.release();
    expect(log).toEqual(['a done']);
    log.length = 0;
    const holders = [limiter.tryAcquire(), limiter.tryAcquire()];
    const asks = holders.map((lease, i) =>
      limiter
        .acquireAsync({ holder: heldBy(lease as Lease) })
        .then(
          () => log.push(`${String(i)} granted`),
          (error: unknown) => log.push(`${String(i)} ${(error as Error).name}`),
        )
        .then(() => lease?.release()),
    );
    return Promise.all(asks).then(() => {
      expect(log).toEqual(['1 NestedAcquireError', '0 granted']);
    });
  });

  it('is refused across a child, and when the limit is lowered', () => {
    const parent = createLimiter({ concurrency: 2 });
    const child = childOf(parent, { concurrency: 5 });
    const log: string[] = [];
    const outer = parent.tryAcquire() as Lease;
    const busy = parent.tryAcquire() as Lease;
    child.acquire({ holder: heldBy(outer) }).subscribe({ error: (error: unknown) => log.push((error as Error).name) });
    expect(log).toEqual([]);
    parent.setLimits({ concurrency: 1 });
    busy.release();
    expect(log).toEqual(['NestedAcquireError']);

    const under = createLimiter({ concurrency: 1 });
    const own = childOf(under).tryAcquire() as Lease;
    under.acquire({ holder: heldBy(own) }).subscribe({ error: (error: unknown) => log.push((error as Error).name) });
    expect(log).toEqual(['NestedAcquireError', 'NestedAcquireError']);
  });

  it('rejects an invalid holder by name', () => {
    expect(() => createLimiter().acquire({ holder: heldBy({} as Lease) })).toThrow('heldBy: expected `lease` to be a lease of a limiter');
  });
});

/** A tree of limiters, and jobs that come, leave, end and report at random. */
interface Node {
  readonly parent: number | undefined;
  readonly concurrency: number;
  readonly tokensPerSecond: number;
}

const nodes = fc.array(
  fc.record({ up: fc.nat(5), concurrency: fc.constantFrom(1, 2, 3, Infinity), tokensPerSecond: fc.constantFrom(10, 50, Infinity) }),
  { minLength: 2, maxLength: 5 },
);
const steps = fc.array(
  fc.oneof(
    fc.record({ do: fc.constant('ask' as const), node: fc.nat(9), tokens: fc.nat(15), lane: fc.nat(1) }),
    fc.record({ do: fc.constant('ask' as const), node: fc.nat(9), tokens: fc.nat(15), lane: fc.nat(1) }),
    fc.record({
      do: fc.constantFrom('release' as const, 'release' as const, 'leave' as const),
      which: fc.nat(20),
      outcome: fc.constantFrom('ok' as const, 'unused' as const, 'cancelled' as const),
    }),
    fc.record({ do: fc.constant('settle' as const), which: fc.nat(20), tokens: fc.nat(30) }),
    fc.record({ do: fc.constant('pass' as const), ms: fc.nat(700) }),
  ),
  { minLength: 5, maxLength: 60 },
);

describe('a tree of limiters', () => {
  it('never exceeds a limit, strands no job, and has nothing left at the end', () => {
    fc.assert(
      fc.property(nodes, steps, fc.boolean(), (shape, script, hasLanes) => {
        const scheduler = new CountingScheduler();
        const tree: Node[] = shape.map(({ up, ...limits }, i) => ({ ...limits, parent: i === 0 ? undefined : up % i }));
        const queue = hasLanes ? { queue: lanes([{ name: 'l0' }, { name: 'l1' }]) } : {};
        const limiters: Limiter[] = [];
        for (const { parent, concurrency, tokensPerSecond } of tree) {
          const saved = tokensPerSecond < Infinity ? { burst: tokensPerSecond } : {};
          const options = { concurrency, rates: [perMinute('tokens', tokensPerSecond * 60, saved)], headroom: 1 };
          limiters.push(
            parent === undefined ? createLimiter({ ...options, ...queue, scheduler }) : childOf(limiters[parent] as Limiter, options),
          );
        }
        const waiting: Subscription[] = [];
        const held: { readonly lease: Lease; readonly path: readonly number[] }[] = [];
        let asked = 0;
        let served = 0;
        const pathOf = (node: number): number[] => {
          const { parent } = tree[node] as Node;
          return parent === undefined ? [node] : [node, ...pathOf(parent)];
        };
        const check = (): void => {
          tree.forEach(({ concurrency }, i) => {
            const executing = held.filter(({ path }) => path.includes(i)).length;
            expect((limiters[i] as Limiter).executing).toBe(executing);
            expect(executing).toBeLessThanOrEqual(concurrency);
          });
        };
        const pass = (ms: number): void => {
          const until = scheduler.frame + ms;
          scheduler.maxFrames = until;
          scheduler.flush();
          scheduler.frame = until;
        };
        for (const step of script) {
          switch (step.do) {
            case 'ask': {
              const node = step.node % tree.length;
              asked++;
              const subscription = (limiters[node] as Limiter)
                .acquire({ cost: { tokens: step.tokens }, ...(hasLanes && { lane: `l${String(step.lane)}` }) })
                .subscribe((lease) => {
                  served++;
                  held.push({ lease, path: pathOf(node) });
                });
              waiting.push(subscription);
              break;
            }
            case 'leave': {
              const subscription = waiting[step.which % waiting.length];
              if (!subscription || subscription.closed) break;
              asked--;
              subscription.unsubscribe();
              break;
            }
            case 'release':
              held.splice(step.which % (held.length || 1), 1)[0]?.lease.release(step.outcome);
              break;
            case 'settle':
              held[step.which % (held.length || 1)]?.lease.settle({ inputTokens: step.tokens });
              break;
            case 'pass':
              pass(step.ms);
          }
          check();
        }
        // Every waiting job is served when earlier jobs return their slots and time passes.
        for (let rounds = 0; rounds < 500 && (held.length > 0 || served < asked); rounds++) {
          held.shift()?.lease.release();
          check();
          pass(1000);
        }
        expect(served).toBe(asked);
        expect(scheduler.actions).toHaveLength(0);
        for (const limiter of limiters) expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
      }),
      { numRuns: sized(50, 400) },
    );
  }, 60_000);
});

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

describe('listeners of a child', () => {
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

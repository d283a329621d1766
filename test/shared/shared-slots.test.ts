import { join } from 'node:path';
import { NEVER, throwError, VirtualTimeScheduler } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { CreditStore, Lease, Limiter } from '../../operators/index.js';
import { createAccount, createLimiter, lanes, memoryStore, shared, sharedStore, tokenBucket } from '../../operators/index.js';
import { localStore } from '../../src/shared/local-store.js';
import { testFolder } from './support/processes.js';

interface Job {
  readonly of: number;
  readonly takesMs: number;
  readonly lane?: string;
}

function world(count: number, concurrency: number, wrap: (store: CreditStore) => CreditStore = (store) => store) {
  const scheduler = new VirtualTimeScheduler();
  const inner = memoryStore({ scheduler });
  const tokens = tokenBucket({ unit: 'tokens', amount: 1e6, windowMs: 10_000, burst: 1e5 });
  const make = (): Limiter =>
    createLimiter({ scheduler, queue: lanes(['user', 'background']), rates: shared(wrap(inner), [tokens], { concurrency }) });
  const limiters = Array.from({ length: count }, make);
  const running = { now: 0, most: 0, ended: 0 };
  const start = ({ lane = 'background', of, takesMs }: Job): void => {
    limiters[of]!.acquire({ lane, cost: { tokens: 100 } }).subscribe((lease) => {
      running.most = Math.max(running.most, ++running.now);
      scheduler.schedule(() => {
        running.now--;
        running.ended++;
        lease.release();
      }, takesMs);
    });
  };
  const pass = (ms: number): void => {
    scheduler.maxFrames = scheduler.now() + ms;
    scheduler.flush();
    scheduler.frame = scheduler.maxFrames;
  };
  return { inner, limiters, pass, running, scheduler, start };
}

describe('slots that limiters share', () => {
  it('are never more than there are, and are taken again soon after they came back', () => {
    const { pass, running, start } = world(4, 6);
    for (let i = 0; i < 120; i++) start({ of: i % 4, takesMs: 300 });
    pass(60_000);
    expect(running).toMatchObject({ most: 6, now: 0, ended: 120 });
  });

  it('are used: jobs of a second go through them nearly as fast as they can', () => {
    const { pass, running, start } = world(4, 10);
    for (let i = 0; i < 400; i++) start({ of: i % 4, takesMs: 1000 });
    pass(20_000);
    expect(running.most).toBe(10);
    expect(running.ended).toBeGreaterThan(180);
  });

  it('are held as long as a job takes', () => {
    const { pass, running, start } = world(3, 4);
    for (let i = 0; i < 4; i++) start({ of: 0, takesMs: 60_000 });
    pass(100);
    for (let i = 0; i < 6; i++) start({ of: 1 + (i % 2), takesMs: 10 });
    pass(59_000);
    expect(running).toMatchObject({ most: 4, now: 4, ended: 0 });
    pass(2000);
    expect(running).toMatchObject({ most: 4, now: 0, ended: 10 });
  });

  it('of a job that is longer than anything is remembered come back as well', () => {
    const { pass, running, start } = world(2, 2);
    for (let i = 0; i < 2; i++) start({ of: 0, takesMs: 1_500_000 });
    pass(1_499_000);
    for (let i = 0; i < 50; i++) start({ of: 1, takesMs: 10 });
    pass(900);
    expect(running.ended).toBe(0);
    pass(3000);
    expect(running).toMatchObject({ most: 2, ended: 52 });
  });

  it('of a process that has died are free after five seconds', () => {
    let isDead = false;
    const { pass, running, start, limiters } = world(2, 2, (store) => ({
      ask: (question) => store.ask(question),
      correct: (corrections) => (isDead ? undefined : store.correct(corrections)),
      hold: (scope, ms) => store.hold(scope, ms),
    }));
    const leases: Lease[] = [];
    for (let i = 0; i < 2; i++) limiters[0]!.acquire({ lane: 'user', cost: { tokens: 1 } }).subscribe((lease) => leases.push(lease));
    pass(7000);
    isDead = true;
    start({ of: 1, takesMs: 1 });
    pass(2500);
    expect([leases.length, running.ended]).toEqual([2, 0]);
    pass(4000);
    expect(running.ended).toBe(1);
  });

  it('are held on although the store was out of reach once, and nothing was told to it since', () => {
    let isDown = false;
    const { limiters, pass, running, start } = world(2, 2, (store) => ({
      ...store,
      hold: (scope, ms) => (isDown ? throwError(() => new Error('down')) : store.hold(scope, ms)),
    }));
    for (let i = 0; i < 2; i++) start({ of: 0, takesMs: 20_000 });
    pass(100);
    isDown = true;
    limiters[0]!.penalize(50);
    isDown = false;
    start({ of: 1, takesMs: 1 });
    pass(15_000);
    expect(running).toMatchObject({ most: 2, now: 2, ended: 0 });
    pass(6000);
    expect(running).toMatchObject({ most: 2, now: 0, ended: 3 });
  });

  it('are held on although two messages in a row are lost just before the store is to hear of them', () => {
    let losing = 0;
    let first: string | undefined;
    const { limiters, pass, running, start } = world(2, 2, (store) => ({
      ...store,
      ask: (question) => {
        first ??= question.owner;
        return store.ask(question);
      },
      correct: (corrections) => (corrections.owner === first && losing-- > 0 ? NEVER : store.correct(corrections)),
    }));
    const leases: Lease[] = [];
    limiters[0]!.acquire({ lane: 'user', cost: { tokens: 100 } }).subscribe((lease) => leases.push(lease));
    for (let i = 0; i < 2; i++) start({ of: 1, takesMs: 20_000 });
    pass(1850);
    losing = 2;
    leases[0]!.settle({ units: { tokens: 150 } });
    pass(15_000);
    expect(running).toMatchObject({ most: 1, now: 1 });
    leases[0]!.release();
    pass(100);
    expect(running).toMatchObject({ most: 2, now: 2 });
  });

  it('are held on by leases that outlive their limiter, which leaves no timer after them', () => {
    const { limiters, pass, running, scheduler, start } = world(2, 2);
    for (let i = 0; i < 2; i++) start({ of: 0, takesMs: 20_000 });
    pass(100);
    limiters[0]!.close();
    start({ of: 1, takesMs: 1 });
    pass(15_000);
    expect(running).toMatchObject({ most: 2, now: 2, ended: 0 });
    pass(10_000);
    expect(running).toMatchObject({ most: 2, now: 0, ended: 3 });
    expect(scheduler.actions).toHaveLength(0);
  });

  it('are held on after an answer that was lost and is given again much later', () => {
    let lost = 0;
    const { pass, running, start } = world(2, 2, (store) => ({
      ...store,
      ask: (question) => {
        const answer = store.ask(question);
        return question.lane === 1 && question.number === 2 && lost++ < 2 ? NEVER : answer;
      },
    }));
    start({ of: 0, takesMs: 20_000 });
    start({ of: 0, takesMs: 10 });
    start({ of: 1, takesMs: 20_000, lane: 'user' });
    pass(15_000);
    expect(running).toMatchObject({ most: 2, now: 2, ended: 0 });
    pass(12_000);
    expect(running).toMatchObject({ most: 2, now: 0, ended: 3 });
  });

  it('leave no timer when the last one came back before the store was out of reach', () => {
    let isDown = false;
    const { limiters, pass, running, scheduler, start } = world(1, 2, (store) => ({
      ...store,
      hold: (scope, ms) => (isDown ? throwError(() => new Error('down')) : store.hold(scope, ms)),
    }));
    start({ of: 0, takesMs: 10 });
    pass(500);
    isDown = true;
    limiters[0]!.penalize(50);
    pass(10_000);
    expect(running.ended).toBe(1);
    expect(scheduler.actions).toHaveLength(0);
  });

  it('are free as soon as a job ends, also when the store answers late', () => {
    const { pass, running, start } = world(2, 1);
    start({ of: 0, takesMs: 1000 });
    pass(500);
    start({ of: 1, takesMs: 1 });
    pass(490);
    expect(running.ended).toBe(0);
    pass(80);
    expect(running.ended).toBe(2);
  });

  it('go to the urgent lane of whatever limiter first', () => {
    const { pass, running, scheduler, start, limiters } = world(2, 1);
    for (let i = 0; i < 20; i++) start({ of: 0, takesMs: 100 });
    pass(250);
    let grantedAt = 0;
    limiters[1]!.acquire({ lane: 'user', cost: { tokens: 1 } }).subscribe((lease) => {
      grantedAt = scheduler.now();
      lease.release();
    });
    pass(1000);
    expect(grantedAt).toBeGreaterThan(0);
    expect(grantedAt).toBeLessThan(600);
    expect(running.most).toBe(1);
  });

  it('of an account are those of its store, whole whatever the headroom', () => {
    const scheduler = new VirtualTimeScheduler();
    const store = sharedStore(memoryStore({ scheduler }), { concurrency: 3 });
    const accounts = [1, 2].map(() =>
      createAccount({ scheduler, store, concurrency: 2, models: [{ model: 'm', requestsPerMinute: 600 }] }),
    );
    const leases = [0, 1, 0, 1].map((of) => accounts[of]!.tryAcquire({ lane: 'user', model: 'm' }));
    expect(leases.map((lease) => lease !== undefined)).toEqual([true, true, true, false]);
    leases[0]!.release();
    scheduler.maxFrames = scheduler.now() + 300;
    scheduler.flush();
    expect(accounts[1]!.tryAcquire({ lane: 'user' })).toBeDefined();
    for (const account of accounts) account.close();
  });

  it('of a store are kept also where its rates are shared without an account', () => {
    const limiter = createLimiter({ rates: shared(sharedStore(memoryStore(), { concurrency: 1 }), []) });
    expect([limiter.tryAcquire(), limiter.tryAcquire()].map((lease) => lease !== undefined)).toEqual([true, false]);
    limiter.close();
  });

  it('are there for each lane: a lane keeps no part of one', async () => {
    const account = createAccount({ store: sharedStore(memoryStore(), { concurrency: 1 }) });
    expect(await account.runAsync(async () => 'ok', { lane: 'background' })).toBe('ok');
    account.close();
  });

  it('are free at once when nothing waits for the next one in their limiter', () => {
    const { pass, running, start } = world(2, 1);
    start({ of: 0, takesMs: 20 });
    pass(25);
    start({ of: 1, takesMs: 1 });
    pass(10);
    expect(running.ended).toBe(2);
  });

  it('are free for others within 0.6 s when the limiter that had them has asked for more than it needed', () => {
    const { pass, running, start } = world(2, 1);
    for (let i = 0; i < 3; i++) start({ of: 0, takesMs: 20 });
    pass(70);
    expect(running).toMatchObject({ now: 0, ended: 3 });
    start({ of: 1, takesMs: 1 });
    pass(600);
    expect(running.ended).toBe(4);
  });

  it('are those of all stores of a machine that name the same', async () => {
    const folder = join(testFolder(), 'stores');
    const accounts = [0, 1, 2].map(() => createAccount({ store: localStore({ name: 'any', folder, concurrency: 4 }), concurrency: 3 }));
    let [now, most] = [0, 0];
    let release: (() => void) | undefined;
    const second = new Promise<void>((resolve) => (release = resolve));
    const work = async (): Promise<void> => {
      most = Math.max(most, ++now);
      if (now === 2) release?.();
      // The first one ends when another one has begun: a new store gives slots out one by one in its first seconds.
      await second;
      await new Promise((resolve) => setTimeout(resolve, 500));
      now--;
    };
    await Promise.all(Array.from({ length: 14 }, (_, i) => accounts[i % 3]!.runAsync(work)));
    expect(most).toBeLessThanOrEqual(4);
  });

  it('are all taken by a job that takes more than there are', async () => {
    const limiter = createLimiter({ concurrency: 9, rates: shared(memoryStore(), [], { concurrency: 4 }) });
    const lease = limiter.tryAcquire({ cost: { slots: 5 } });
    expect([lease !== undefined, limiter.tryAcquire()]).toEqual([true, undefined]);
    lease?.release();
    expect(await limiter.runAsync(async () => 1, { cost: { slots: 4 } })).toBe(1);
    limiter.close();
  });
});

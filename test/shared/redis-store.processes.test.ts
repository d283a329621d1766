import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { fullest, longestGap, use } from './support/arrivals.js';
import type { LimiterPlan } from './support/plans.js';
import { machineTime } from './support/plans.js';
import type { Child } from './support/processes.js';
import { startLimiter, startProvider } from './support/processes.js';
import { RedisServer } from './support/redis-server.js';

const RATE = { kind: 'bucket', unit: 'tokens', amount: 40_000, windowMs: 2000 } as const;

async function world(settings: readonly string[] = []) {
  const server = await RedisServer.start(settings);
  onTestFinished(() => server.stop());
  const provider = await startProvider();
  const start = (over?: Partial<LimiterPlan>): Promise<Child> =>
    startLimiter({
      store: { kind: 'redis', name: 'openai:prod', path: server.path },
      rates: [RATE],
      guardMs: 100,
      waiting: 30,
      cost: { tokens: [20, 80] },
      provider: provider.address,
      ...over,
    });
  return { provider, server, start };
}

describe('processes with a store in Redis', () => {
  it('share a limit, and use it', async () => {
    const { provider, start } = await world();
    const children = await Promise.all([start(), start(), start()]);
    const beganAt = machineTime();
    for (const child of children) child.start();
    await sleep(10_500);
    const arrivals = await provider.arrivals();
    expect(fullest(arrivals, 'tokens', RATE.windowMs)).toBeLessThanOrEqual(RATE.amount);
    expect(use(arrivals, RATE, beganAt + 2500, beganAt + 10_500)).toBeGreaterThanOrEqual(0.9);
    expect(new Set(arrivals.map(({ pid }) => pid)).size).toBe(3);
    expect(children.flatMap(({ events }) => events).filter(({ event }) => event === 'storeDown')).toEqual([]);
  });

  it('wait while Redis is down, and continue with what was granted within a second', async () => {
    const { provider, server, start } = await world(['--appendonly', 'yes']);
    const children = await Promise.all([start(), start(), start()]);
    for (const child of children) child.start();
    await sleep(3000);
    await server.kill();
    const downAt = machineTime();
    await sleep(1500);
    await server.start();
    const upAt = machineTime();
    children[0].kill();
    await sleep(3500);
    const arrivals = await provider.arrivals();
    expect(fullest(arrivals, 'tokens', RATE.windowMs)).toBeLessThanOrEqual(RATE.amount);
    // Credit is good for 80 ms.
    expect(arrivals.filter(({ sentAt }) => sentAt > downAt + 150 && sentAt < upAt - 100)).toEqual([]);
    expect(longestGap(arrivals, upAt, upAt + 3000)).toBeLessThan(1000);
    expect(use(arrivals, RATE, upAt + 1000, upAt + 3400)).toBeGreaterThan(0.8);
    expect(children[1].events.map(({ event }) => event).filter((event) => event.startsWith('store'))).toEqual(['storeDown', 'storeUp']);
  });

  it('end when they have nothing to do and their connection is closed', async () => {
    const { provider, start } = await world();
    const child = await start({ waiting: 2, jobs: 4 });
    child.start();
    expect(await child.ended).toEqual({ code: 0, signal: null });
    expect(await provider.arrivals()).toHaveLength(4);
  });
});

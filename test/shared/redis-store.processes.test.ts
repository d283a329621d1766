import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { fullest } from './support/arrivals.js';
import type { Arrival, LimiterPlan } from './support/plans.js';
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
      // Long beside what a busy machine may take between a permit and its request.
      guardMs: 400,
      waiting: 30,
      cost: { tokens: [20, 80] },
      provider: provider.address,
      ...over,
    });
  return { provider, server, start };
}

describe('processes with a store in Redis', () => {
  it('share a limit, and continue when a window is over', async () => {
    const { provider, start } = await world();
    const children = await Promise.all([start(), start(), start()]);
    for (const child of children) child.start();
    const tokens = (arrivals: readonly Arrival[]): number => arrivals.reduce((sum, { cost }) => sum + (cost['tokens'] ?? 0), 0);
    await expect.poll(async () => tokens(await provider.arrivals()), { timeout: 30_000, interval: 500 }).toBeGreaterThan(2 * RATE.amount);
    const arrivals = await provider.arrivals();
    expect(fullest(arrivals, 'tokens', RATE.windowMs)).toBeLessThanOrEqual(RATE.amount);
    expect(new Set(arrivals.map(({ pid }) => pid)).size).toBe(3);
  });

  it('wait while Redis is down, and continue with what was granted before', async () => {
    const { provider, server, start } = await world(['--appendonly', 'yes']);
    const children = await Promise.all([start(), start(), start()]);
    for (const child of children) child.start();
    await sleep(3000);
    await server.kill();
    const downAt = machineTime();
    await sleep(1500);
    const startedAt = machineTime();
    await server.start();
    const upAt = machineTime();
    children[0].kill();
    const left = children.slice(1).map(({ pid }) => pid);
    const since = async (): Promise<number[]> => (await provider.arrivals()).filter(({ at }) => at > upAt + 2500).map(({ pid }) => pid);
    await expect.poll(since, { timeout: 20_000, interval: 500 }).toEqual(expect.arrayContaining(left));
    const arrivals = await provider.arrivals();
    expect(fullest(arrivals, 'tokens', RATE.windowMs)).toBeLessThanOrEqual(RATE.amount);
    // Credit is good for 320 ms.
    expect(arrivals.filter(({ sentAt }) => sentAt > downAt + 600 && sentAt < startedAt)).toEqual([]);
    const events = children[1].events.map(({ event }) => event).filter((event) => event.startsWith('store'));
    expect(events.slice(0, 2)).toEqual(['storeDown', 'storeUp']);
  });

  it('end when they have nothing to do and their connection is closed', async () => {
    const { provider, start } = await world();
    const child = await start({ waiting: 2, jobs: 4 });
    child.start();
    expect(await child.ended).toEqual({ code: 0, signal: null });
    expect(await provider.arrivals()).toHaveLength(4);
  });
});

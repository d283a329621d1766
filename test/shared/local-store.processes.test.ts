import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { openFolder } from '../../src/shared/local/folder.js';
import { latestGeneration } from '../../src/shared/local/generations.js';
import { fullest, longestGap, use } from './support/arrivals.js';
import type { LimiterPlan } from './support/plans.js';
import { machineTime } from './support/plans.js';
import type { Child, Provider } from './support/processes.js';
import { startLimiter, startProvider, testFolder } from './support/processes.js';

const RATE = { kind: 'bucket', unit: 'tokens', amount: 10_000, windowMs: 1000 } as const;
const NAME = 'openai:prod';

interface World {
  readonly provider: Provider;
  /** Of the store. */
  readonly folder: string;
  start(over?: Partial<LimiterPlan>): Promise<Child>;
}

async function world(): Promise<World> {
  const common = join(testFolder(), 'stores');
  const provider = await startProvider();
  return {
    provider,
    folder: openFolder('localStore', NAME, common),
    start: (over) =>
      startLimiter({
        store: { kind: 'local', name: NAME, folder: common },
        rates: [RATE],
        waiting: 30,
        cost: { tokens: [20, 60] },
        provider: provider.address,
        ...over,
      }),
  };
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** The process that serves. */
function serverOf(folder: string): number {
  return latestGeneration(folder)?.contact?.pid ?? 0;
}

describe('processes with a local store', () => {
  it('share a limit, begin with one server when they begin at once, and continue as soon as it is killed', async () => {
    const { folder, provider, start } = await world();
    const children = await Promise.all(Array.from({ length: 16 }, () => start({ waiting: 4 })));
    const beganAt = machineTime();
    for (const child of children) child.start();
    await sleep(1300);
    // One of the 16 processes has got the first number, and none the second.
    expect(readdirSync(folder).filter((name) => /^\d+$/.test(name))).toEqual(['1']);

    const killedAt: number[] = [];
    for (let i = 0; i < 4; i++) {
      await sleep(400);
      const server = children.find(({ pid }) => pid === serverOf(folder)) as Child;
      server.kill();
      killedAt.push(machineTime());
      await server.ended;
    }
    await sleep(600);
    const arrivals = await provider.arrivals();
    const endedAt = machineTime();
    expect(readdirSync(folder).filter((name) => /^\d+$/.test(name))).toEqual(['4', '5']);
    // Every other process got something.
    expect(new Set(arrivals.filter(({ at }) => at > (killedAt.at(-1) as number)).map(({ pid }) => pid)).size).toBe(12);
    expect(fullest(arrivals, 'tokens', RATE.windowMs)).toBeLessThanOrEqual(RATE.amount);
    for (const at of killedAt) expect(longestGap(arrivals, at, at + 1000)).toBeLessThan(1000);
    expect(use(arrivals, RATE, beganAt + 1300, endedAt)).toBeGreaterThan(0.4);
    // No limiter has noticed.
    expect(children.flatMap(({ events }) => events).filter(({ event }) => event === 'storeDown')).toEqual([]);
  });

  it('continue when the server is stopped, and keep the limit when it goes on', async () => {
    const { folder, provider, start } = await world();
    const children = await Promise.all([start(), start(), start()]);
    for (const child of children) child.start();
    await sleep(1000);
    const first = children.find(({ pid }) => pid === serverOf(folder)) as Child;
    first.kill('SIGSTOP');
    const stoppedAt = machineTime();
    await sleep(1700);
    first.kill('SIGCONT');
    await sleep(600);
    const arrivals = await provider.arrivals();
    expect(fullest(arrivals, 'tokens', RATE.windowMs)).toBeLessThanOrEqual(RATE.amount);
    expect(longestGap(arrivals, stoppedAt, stoppedAt + 1700)).toBeLessThan(1500);
    expect(serverOf(folder)).not.toBe(first.pid);
    // It is a client now.
    expect(new Set(arrivals.filter(({ at }) => at > stoppedAt + 1800).map(({ pid }) => pid)).size).toBe(3);
  });

  it('end when they have nothing to do, whether they serve or not, and leave what others need', async () => {
    const { folder, provider, start } = await world();
    const [one, other] = await Promise.all([start({ waiting: 2, jobs: 2 }), start({ waiting: 2, jobs: 3 })]);
    one.start();
    await one.done;
    expect(serverOf(folder)).toBe(one.pid);
    const endedAt = machineTime();
    expect(await one.ended).toEqual({ code: 0, signal: null });
    expect(machineTime() - endedAt).toBeLessThan(1000);
    other.start();
    expect(await other.ended).toEqual({ code: 0, signal: null });
    expect(await provider.arrivals()).toHaveLength(5);
    // The state of one is in the log of the other.
    expect(readFileSync(join(folder, '1'), 'utf8')).toBe('');
    expect(readFileSync(join(folder, '2'), 'utf8')).toContain('"tokens/1000/bucket/0"');
  });
});

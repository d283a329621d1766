import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Credit, CreditQuestion, CreditStore, CreditWait } from '../../operators/index.js';
import { openFolder } from '../../src/shared/local/folder.js';
import { latestGeneration } from '../../src/shared/local/generations.js';
import { localStore } from '../../src/shared/local-store.js';
import { fullest, longestGap, quantile, use } from '../shared/support/arrivals.js';
import type { LimiterPlan } from '../shared/support/plans.js';
import { machineTime } from '../shared/support/plans.js';
import type { Child } from '../shared/support/processes.js';
import { startLimiter, startProvider, testFolder } from '../shared/support/processes.js';

const NAME = 'openai:prod';
const WINDOW_MS = 10_000;
const TOKENS = { kind: 'bucket', unit: 'tokens', amount: 200_000, windowMs: WINDOW_MS } as const;
const REQUESTS = { kind: 'bucket', unit: 'requests', amount: 4000, windowMs: WINDOW_MS } as const;
const LANES = ['P0', 'P2'];

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

async function world() {
  const common = join(testFolder(), 'stores');
  const provider = await startProvider();
  const folder = openFolder('localStore', NAME, common);
  const start = (over: Partial<LimiterPlan>): Promise<Child> =>
    startLimiter({
      store: { kind: 'local', name: NAME, folder: common },
      rates: [TOKENS, REQUESTS],
      lanes: LANES,
      lane: 'P2',
      waiting: 100,
      cost: { tokens: [100, 400], requests: 1 },
      provider: provider.address,
      ...over,
    });
  return { provider, folder, start };
}

const urgent: Partial<LimiterPlan> = { lane: 'P0', waiting: 1, everyMs: 150 };

function report(name: string, what: Readonly<Record<string, string | number>>): void {
  const shown = Object.entries(what).map(([key, value]) => `${key} ${typeof value === 'number' ? value.toPrecision(3) : value}`);
  console.log(`${name}: ${shown.join(', ')}`);
}

describe('processes with a local store', () => {
  it.each([3, 7])('share a limit: %i that flood, and an urgent one', async (count) => {
    const { provider, start } = await world();
    const children = await Promise.all([...Array.from({ length: count }, () => start({})), start(urgent)]);
    const beganAt = machineTime();
    for (const child of children) child.start();
    await sleep(36_000);
    const arrivals = await provider.arrivals();
    const waits = arrivals.filter(({ at, lane }) => lane === 'P0' && at > beganAt + 12_000).map(({ waitedMs }) => waitedMs);
    const measured = {
      fullest: fullest(arrivals, 'tokens', WINDOW_MS) / TOKENS.amount,
      'fullest at the provider': fullest(arrivals, 'tokens', WINDOW_MS, 'at') / TOKENS.amount,
      use: use(arrivals, TOKENS, beganAt + 12_000, beganAt + 36_000),
      'use from the start': use(arrivals, TOKENS, beganAt + 1500, beganAt + 36_000),
      'P0 p50 ms': quantile(waits, 0.5),
      'P0 p99 ms': quantile(waits, 0.99),
    };
    report(`${String(count)} processes`, measured);
    expect(measured.fullest).toBeLessThanOrEqual(1);
    expect(measured.use).toBeGreaterThan(0.9);
  });

  it('keep it while the one that serves is killed every two seconds, and others are stopped', async () => {
    const { folder, provider, start } = await world();
    const children = new Set(await Promise.all([...Array.from({ length: 6 }, () => start({})), start(urgent)]));
    const beganAt = machineTime();
    for (const child of children) child.start();
    const kills: number[] = [];
    for (let i = 0; i < 20; i++) {
      await sleep(2000);
      const server = [...children].find(({ pid }) => pid === latestGeneration(folder)?.contact?.pid);
      if (!server) continue;
      server.kill();
      kills.push(machineTime());
      children.delete(server);
      const stopped = [...children][i % children.size] as Child;
      if (i % 7 === 3) {
        stopped.kill('SIGSTOP');
        setTimeout(() => {
          stopped.kill('SIGCONT');
        }, 3000);
      }
      void start({}).then((child) => {
        children.add(child);
        child.start();
      });
    }
    await sleep(2000);
    const arrivals = await provider.arrivals();
    const endedAt = machineTime();
    const gaps = kills.map((at) => longestGap(arrivals, at, at + 2000));
    const measured = {
      kills: String(kills.length),
      fullest: fullest(arrivals, 'tokens', WINDOW_MS) / TOKENS.amount,
      use: use(arrivals, TOKENS, beganAt + 12_000, endedAt),
      'longest gap p50 ms': quantile(gaps, 0.5),
      'longest gap ms': Math.max(...gaps),
      'last number': String(latestGeneration(folder)?.number),
    };
    report('chaos', measured);
    expect(kills.length).toBeGreaterThan(15);
    expect(measured.fullest).toBeLessThanOrEqual(1);
    expect(measured['longest gap ms']).toBeLessThan(2000);
  });
});

describe('a question', () => {
  const question = (number: number, owner = 'one'): CreditQuestion => ({
    scope: 'account',
    owner,
    number,
    limits: [
      { key: 'tokens/10000/bucket/0', column: 0, amount: 1e12, windowMs: WINDOW_MS, burst: 1e10, fromLane: 0 },
      { key: 'requests/10000/bucket/0', column: 1, amount: 1e12, windowMs: WINDOW_MS, burst: 1e10, fromLane: 0 },
    ],
    guardMs: 200,
    lane: 0,
    floors: [0, 0.1],
    least: [1, 1],
    most: [1, 1],
    epoch: 0,
  });
  const ask = (store: CreditStore, of: CreditQuestion) => store.ask(of) as Credit | CreditWait | Promise<Credit | CreditWait>;

  it('takes this long', async () => {
    const common = join(testFolder(), 'stores');
    // One serves, in this process; a child would be faster than a process that asks and answers.
    const [server, client] = [localStore({ name: NAME, folder: common }), localStore({ name: NAME, folder: common })];
    await ask(server, question(0));
    await ask(client, question(0, 'other'));
    const timed = async (count: number, each: (i: number) => unknown): Promise<number> => {
      const beganAt = machineTime();
      for (let i = 1; i <= count; i++) await each(i);
      return (count / (machineTime() - beganAt)) * 1000;
    };
    const measured = {
      'own, per s': await timed(20_000, (i) => ask(server, question(i))),
      'socket, one after the other, per s': await timed(5000, (i) => ask(client, question(i, 'other'))),
      'socket, 16 at a time, per s':
        16 * (await timed(1000, (i) => Promise.all(Array.from({ length: 16 }, async (_, k) => ask(client, question(i, String(k))))))),
    };
    report('questions', measured);
    expect(measured['socket, one after the other, per s']).toBeGreaterThan(500);
  });
});

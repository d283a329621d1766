// What a store in Redis costs, beside the store of one machine and the one in memory, in the same run. Starts a Redis of its own. Run: npm run bench:redis
// [-- --seconds 3]
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Credit, CreditLimit, CreditStore, CreditWait } from '../operators/index.js';
import { createLimiter, lanes, memoryStore, shared, tokenBucket } from '../operators/index.js';
import { localStore } from '../src/shared/local-store.js';
import { redisStore } from '../src/shared/redis-store.js';
import { RedisServer } from '../test/shared/support/redis-server.js';
import { machine, table } from './harness.js';

/** Owners that ask at the same time. */
const PARALLEL = 32;
/** Permits of which the wait is measured, one every so many ms. */
const IDLE = { permits: 400, everyMs: 20 };

const { values: flags } = parseArgs({ options: { seconds: { type: 'string', default: '3' } } });
const runMs = Number(flags.seconds) * 1000;

/** Never full: what is measured is the store. */
function limitsOf(count: number): CreditLimit[] {
  const names = ['tokens', 'requests', 'images', 'dollars'].slice(0, count);
  return names.map((name, column) => ({
    ...{ key: `${name}/10000/bucket/0`, column, amount: 1e12, windowMs: 10_000, burst: 1e10, fromLane: 0 },
  }));
}

/** Asks, and corrects what was granted; so many pairs in a second. */
async function pairsPerSecond(store: CreditStore, limits: readonly CreditLimit[], parallel: number): Promise<number> {
  const amounts = limits.map(() => 100);
  const beganAt = performance.now();
  let pairs = 0;
  await Promise.all(
    Array.from({ length: parallel }, async (_, k) => {
      const who = { scope: 'account', owner: `owner ${String(parallel)} ${String(k)}`, limits, guardMs: 200 };
      for (let number = 1; performance.now() < beganAt + runMs; number++) {
        const question = { ...who, number, lane: 1, floors: [0, 0.1], least: amounts, most: amounts, epoch: 0 };
        const answer = (await store.ask(question)) as Credit | CreditWait;
        const credit = 'credit' in answer ? answer.credit : 0;
        const corrections = [{ credit, lane: 1, amounts: amounts.map(() => -50) }];
        await store.correct({ ...who, number, corrections });
        pairs++;
        // A store that answers at once would keep the others from their turn.
        if (number % 50 === 0) await new Promise((next) => setImmediate(next));
      }
    }),
  );
  return (pairs / (performance.now() - beganAt)) * 1000;
}

/** How long an urgent job waits for its permit where nothing else waits. */
async function idleWaits(store: CreditStore): Promise<{ readonly p50: number; readonly p99: number }> {
  const rates = shared(store, [tokenBucket({ unit: 'requests', amount: 1_000_000, windowMs: 10_000, burst: 10_000 })], { scope: 'idle' });
  const limiter = createLimiter({ headroom: 1, rates, queue: lanes(['user', 'background']) });
  // The state of a store that begins counts as lost.
  await limiter.runAsync(() => sleep(1000), { lane: 'user' });
  const waits: number[] = [];
  for (let i = 0; i < IDLE.permits; i++) {
    const askedAt = performance.now();
    await limiter.runAsync(() => Promise.resolve(waits.push(performance.now() - askedAt)), { lane: 'user' });
    await sleep(IDLE.everyMs);
  }
  await limiter.drain();
  waits.sort((one, other) => one - other);
  return { p50: waits[Math.floor(waits.length / 2)] as number, p99: waits[Math.floor(waits.length * 0.99)] as number };
}

const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'));
const server = await RedisServer.start();
const logged = await RedisServer.start(['--appendonly', 'yes', '--appendfsync', 'everysec']);
try {
  const local = () => localStore({ name: 'bench', folder });
  // One serves, the other asks it over its socket.
  const serving = local();
  await serving.hold('account', 0);
  const stores: Readonly<Record<string, CreditStore>> = {
    'in memory': memoryStore(),
    'of one machine, over its socket': local(),
    'in Redis': redisStore(server.connect(), { name: 'bench' }),
    'in Redis, `appendonly`': redisStore(logged.connect(), { name: 'bench' }),
  };
  const rows: string[][] = [];
  let memory = 0;
  for (const [name, store] of Object.entries(stores)) {
    // Windows that begin evenly are over then, and code is compiled.
    await pairsPerSecond(store, limitsOf(2), PARALLEL);
    const [one, four, many] = [
      await pairsPerSecond(store, limitsOf(2), 1),
      await pairsPerSecond(store, limitsOf(4), PARALLEL),
      await pairsPerSecond(store, limitsOf(2), PARALLEL),
    ];
    memory ||= many;
    const { p50, p99 } = await idleWaits(store);
    const perSecond = (pairs: number): string => Math.round(pairs).toLocaleString('en');
    rows.push([name, perSecond(many), (many / memory).toFixed(3), perSecond(four), perSecond(one), p50.toFixed(2), p99.toFixed(2)]);
  }
  console.log(`${machine()}\n`);
  const heads = [
    'store',
    `ask + correct / s, ${String(PARALLEL)} at a time`,
    '/ memory',
    'with 4 limits',
    'one after the other',
    'idle wait p50, ms',
    'p99',
  ];
  console.log(table(heads, rows));
  const redis = server.connect();
  const bytesOf = (key: string): Promise<number | null> => redis.memory('USAGE', key, 'SAMPLES', 0);
  for (const key of await redis.keys('*:parts:account')) console.log(`\n${key}: ${String(await bytesOf(key))} bytes`);
  const owners = await Promise.all((await redis.keys('*:owner:account:*')).map(bytesOf));
  console.log(`${String(owners.length)} owners: ${String(Math.max(...owners.map(Number)))} bytes each at most`);
} finally {
  await server.stop();
  await logged.stop();
  rmSync(folder, { recursive: true, force: true });
}

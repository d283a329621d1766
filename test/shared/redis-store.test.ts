import { spawnSync } from 'node:child_process';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { build } from 'esbuild';
import { Cluster, Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Credit, CreditQuestion, CreditStore, CreditWait } from '../../operators/index.js';
import { createLimiter, FlowConfigError, slidingWindow } from '../../operators/index.js';
import type { RedisConnection } from '../../src/shared/redis-store.js';
import { redisStore } from '../../src/shared/redis-store.js';
import { questionOf } from './support/questions.js';
import { RedisServer } from './support/redis-server.js';

async function world(settings?: readonly string[]) {
  const server = await RedisServer.start(settings);
  onTestFinished(() => server.stop());
  return server;
}

const question = (over: Partial<CreditQuestion> = {}) => questionOf({ least: [1], most: [1], ...over });

function ask(store: CreditStore, over?: Partial<CreditQuestion>): Promise<Credit | CreditWait> {
  return store.ask(question(over)) as Promise<Credit | CreditWait>;
}

function freePort(): Promise<number> {
  return new Promise((settle) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => {
        settle(port);
      });
    });
  });
}

/** A connection that answers with this. */
function saying(answer: unknown): RedisConnection {
  return { eval: () => Promise.resolve(answer), evalsha: () => Promise.resolve(answer) };
}

describe('redisStore', () => {
  it.each([
    ['an address', 'redis://user:hunter2@127.0.0.1:6379', 'a string'],
    ['nothing', undefined, '`undefined`'],
    ['null', null, '`null`'],
    ['a client of another package', { evalSha: () => 0, eval: () => 0, options: { password: 'hunter2' } }, 'something else'],
    ['options of a connection', { host: '127.0.0.1', password: 'hunter2' }, 'something else'],
  ])('takes %s for no connection, and does not repeat what is in it', (_, redis, shown) => {
    const thrown = (() => {
      try {
        redisStore(redis as never, { name: 'any' });
      } catch (error) {
        return error as FlowConfigError;
      }
      return undefined;
    })();
    expect(thrown).toBeInstanceOf(FlowConfigError);
    expect(thrown?.message).toBe(
      `redisStore: expected \`redis\` to be a connection of ioredis 5, such as \`new Redis(url)\`, got ${shown}`,
    );
    expect(JSON.stringify(thrown)).not.toContain('hunter2');
  });

  it('takes connections of ioredis, and opens none', () => {
    const redis = new Redis({ lazyConnect: true });
    const cluster = new Cluster([{ host: '127.0.0.1', port: 1 }], { lazyConnect: true });
    for (const connection of [redis, cluster]) {
      redisStore(connection, { name: 'any' });
      expect(connection.status).toBe('wait');
      connection.disconnect();
    }
  });

  it('shares a limit between two connections', async () => {
    const server = await world();
    const [one, other] = [1, 2].map(() =>
      createLimiter({
        headroom: 1,
        rates: redisStore(server.connect(), { name: 'openai:prod' }).share([
          slidingWindow({ unit: 'requests', amount: 40, windowMs: 700_000 }),
        ]),
      }),
    );
    let granted = 0;
    const all = Array.from({ length: 50 }, (_, i) =>
      (i % 2 === 0 ? one : other)!
        .runAsync(() => Promise.resolve(granted++), { deadlineMs: 1500 })
        .then(
          () => 'granted',
          (error: unknown) => (error as Error).name,
        ),
    );
    const ends = await Promise.all(all);
    expect(ends.filter((end) => end === 'granted')).toHaveLength(40);
    expect(ends.filter((end) => end === 'DeadlineError')).toHaveLength(10);
  });

  it('gives all keys one hash tag, and an end', async () => {
    const server = await world();
    const redis = server.connect();
    const store = redisStore(redis, { name: 'openai:prod' });
    // Longer than what may have been lost: it begins with everything.
    const limits = [{ key: 'long', column: 0, amount: 1000, windowMs: 700_000, fromLane: 0 }];
    await ask(store, { limits, scope: 'model "{a}"\n' });
    await store.hold('other', 100);
    const keys = (await redis.keys('*')).sort();
    expect(keys).toEqual([
      'sluice:{openai:prod}:clock',
      'sluice:{openai:prod}:owner:model%20%5C%22%7Ba%7D%5C%22%5Cn:one',
      'sluice:{openai:prod}:parts:model%20%5C%22%7Ba%7D%5C%22%5Cn',
      'sluice:{openai:prod}:scope:model%20%5C%22%7Ba%7D%5C%22%5Cn',
      'sluice:{openai:prod}:scope:other',
    ]);
    const minutes = await Promise.all(keys.map(async (key) => Math.round((await redis.pttl(key)) / 60_000)));
    expect(minutes).toEqual([7 * 1440, 10, 23, 23, 10]);
  });

  it('keeps what a long window needs for as long, and a pause without an end for ever', async () => {
    const server = await world();
    const redis = server.connect();
    const store = redisStore(redis, { name: 'any' });
    await ask(store, { limits: [{ key: 'month', column: 0, amount: 1000, windowMs: 30 * 86_400_000, fromLane: 0 }] });
    for (const kind of ['clock', 'scope:account', 'parts:account'])
      expect((await redis.pttl(`sluice:{any}:${kind}`)) / 86_400_000).toBeCloseTo(60, 1);
    await store.hold('account', Infinity);
    expect(await redis.pttl('sluice:{any}:scope:account')).toBe(-1);
    expect(await ask(store, { number: 2 })).toMatchObject({ waitMs: Infinity, holdMs: Infinity });
    await store.hold('account', 0);
    expect(await ask(store, { number: 3 })).toMatchObject({ holdMs: 0 });
  });

  it.each(['a Redis that knows the script', 'a new Redis'])('applies holds in the order in which they were made: %s', async (which) => {
    const server = await world();
    const store = redisStore(server.connect(), { name: 'any' });
    if (which !== 'a new Redis') await ask(store);
    let number = 1;
    const holdMsAfter = async (...holds: number[]): Promise<number> => {
      // All are called before the first one is answered.
      await Promise.all(holds.map((ms) => store.hold('account', ms) as Promise<void>));
      return (await ask(store, { number: ++number })).holdMs;
    };
    expect(await holdMsAfter(0, 30_000, 0)).toBe(0);
    expect(await holdMsAfter(0, 30_000)).toBeGreaterThan(0);
    expect(await holdMsAfter(30_000, 0)).toBe(0);
    expect(await holdMsAfter(30_000, 0, 30_000)).toBeGreaterThan(0);
  });

  it('works with a prefix of keys, and under names that differ in one letter apart', async () => {
    const server = await world();
    const redis = server.connect({ keyPrefix: 'team:' });
    const limits = [{ key: 'day', column: 0, amount: 5, windowMs: 86_400_000, fromLane: 0 }];
    for (const name of ['a', 'A', 'a ', '%61', 'a\u0000', '\ud800', '\ud801']) {
      expect(await ask(redisStore(redis, { name }), { limits, least: [5], most: [5] })).toMatchObject({ amounts: [5] });
      expect(await ask(redisStore(redis, { name }), { limits, number: 2, least: [5], most: [5] })).toHaveProperty('waitMs');
    }
    expect((await server.connect().keys('*')).every((key) => key.startsWith('team:sluice:{'))).toBe(true);
  });

  it('works in a cluster', async () => {
    const port = await freePort();
    const server = await world(['--port', String(port), '--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1']);
    await server.connect().call('CLUSTER', 'ADDSLOTSRANGE', 0, 16_383);
    const cluster = new Cluster([{ host: '127.0.0.1', port }], { slotsRefreshTimeout: 5000 });
    onTestFinished(() => {
      cluster.disconnect();
    });
    const store = redisStore(cluster, { name: 'openai {prod}' });
    const limits = [{ key: 'long', column: 0, amount: 1000, windowMs: 700_000, fromLane: 0 }];
    await expect.poll(() => ask(store, { limits }).then(Object.keys, () => []), { timeout: 10_000 }).toContain('credit');
    expect(await ask(store, { limits, number: 2, scope: 'other {scope}' })).toHaveProperty('credit');
    await store.hold('account', 50);
  });

  it('rejects what Redis does not answer in 2 s, and sends a message that is told again once', async () => {
    let sent = 0;
    const silent: RedisConnection = { eval: () => new Promise(() => 0), evalsha: () => (sent++, new Promise(() => 0)) };
    const store = redisStore(silent, { name: 'any' });
    const beganAt = performance.now();
    await expect(ask(store)).rejects.toThrow('the Redis store does not answer: no answer in 2 s');
    expect(performance.now() - beganAt).toBeGreaterThan(1900);
    const again = [ask(store), ask(store), ask(store, { number: 2 }), ask(store, { owner: 'other' })];
    expect(sent).toBe(3);
    const owned = { scope: 'account', owner: 'one', guardMs: 100, corrections: [] };
    const day = { key: 'day', column: 0, amount: 1000, windowMs: 86_400_000, fromLane: 0 };
    // The day ends earlier when it is told again.
    for (const endsInMs of [500, 400]) again.push(store.correct({ ...owned, number: 1, limits: [{ ...day, endsInMs }] }) as Promise<never>);
    expect(sent).toBe(4);
    for (const each of await Promise.allSettled(again)) expect(each.status).toBe('rejected');
  });

  it.each([
    undefined,
    null,
    5,
    '',
    'null',
    '[]',
    '{}',
    '{"credit":1}',
    '{"waitMs":-1,"left":[],"holdMs":0,"epoch":0,"lessons":{}}',
    Buffer.from('{}'),
  ])('rejects %j as an answer', async (answer) => {
    await expect(ask(redisStore(saying(answer), { name: 'any' }))).rejects.toThrow('another program has written to its keys');
  });

  it('rejects what cannot be a message, and sends nothing of it', async () => {
    let sent = 0;
    const count: RedisConnection = { eval: () => Promise.resolve(sent++), evalsha: () => Promise.resolve(sent++) };
    const store = redisStore(count, { name: 'any' });
    const wrong: Partial<Record<keyof CreditQuestion, unknown>>[] = [
      { owner: 5 },
      { number: -1 },
      { number: 1.5 },
      { lane: 1e9 },
      { least: [NaN] },
      { most: [1, 2] },
      { guardMs: Infinity },
      { limits: [{ key: 'a', column: 1, amount: 1, windowMs: 1, fromLane: 0 }] },
      { limits: [{ key: 'a', column: 0, amount: 0, windowMs: 1, fromLane: 0 }] },
      { lessons: { a: 'b' } },
    ];
    for (const each of wrong) await expect(ask(store, each as never), JSON.stringify(each)).rejects.toThrow(TypeError);
    await expect(store.hold(5 as never, 1) as Promise<void>).rejects.toThrow(TypeError);
    await expect(store.hold('a', NaN) as Promise<void>).rejects.toThrow(TypeError);
    expect(sent).toBe(0);
  });

  it.each<Record<string, unknown>>([
    { enableOfflineQueue: false },
    { maxRetriesPerRequest: 0 },
    { maxRetriesPerRequest: null },
    { commandTimeout: 200 },
  ])('waits out a restart over a connection with %j', async (options) => {
    const server = await world(['--appendonly', 'yes']);
    const store = redisStore(server.connect(options), { name: 'any' });
    const events: string[] = [];
    const limiter = createLimiter({
      headroom: 1,
      rates: store.share([slidingWindow({ unit: 'requests', amount: 1000, windowMs: 1000 })]),
      onEvent: ({ type }) => events.push(type),
    });
    const call = () => limiter.runAsync(() => Promise.resolve('well'), { deadlineMs: 15_000 });
    expect(await call()).toBe('well');
    await server.kill();
    const waiting = call();
    await new Promise((later) => setTimeout(later, 2500));
    await server.start();
    expect(await waiting).toBe('well');
    expect(events.filter((type) => type.startsWith('store')).slice(-2)).toEqual(['storeDown', 'storeUp']);
  });

  it('keeps no process alive when the connection is closed', async () => {
    const server = await world();
    const outfile = join(server.folder, 'program.mjs');
    await build({
      stdin: {
        contents: `
          import { Redis } from 'ioredis';
          import { createLimiter, slidingWindow } from './operators/index.js';
          import { redisStore } from './src/shared/redis-store.js';
          const redis = new Redis({ path: process.argv[2] });
          const rates = redisStore(redis, { name: 'any' }).share([slidingWindow({ unit: 'requests', amount: 10, windowMs: 1000 })]);
          const limiter = createLimiter({ rates });
          console.log(await limiter.runAsync(async () => 'well'));
          await limiter.drain();
          const closed = new Promise((settle) => redis.once('end', settle));
          redis.disconnect();
          await closed;
          console.log(process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length);
        `,
        resolveDir: resolve(import.meta.dirname, '../..'),
        loader: 'ts',
      },
      absWorkingDir: resolve(import.meta.dirname, '../..'),
      outfile,
      bundle: true,
      format: 'esm',
      platform: 'node',
      banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
      alias: { '#async-context': './src/async-context.ts' },
      logLevel: 'error',
    });
    const { status, stdout } = spawnSync(process.execPath, [outfile, server.path], { encoding: 'utf8', timeout: 20_000 });
    expect([status, stdout]).toEqual([0, 'well\n0\n']);
  });
});

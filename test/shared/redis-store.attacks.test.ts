import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';
import { seededRandom } from '../../marbles/random.js';
import type { Credit, CreditLimit, CreditQuestion, CreditStore, CreditWait } from '../../operators/index.js';
import { createLimiter, tokenBucket } from '../../operators/index.js';
import { StoreKeys } from '../../src/shared/redis/keys.js';
import { redisStore } from '../../src/shared/redis-store.js';
import { questionOf } from './support/questions.js';
import { RedisServer } from './support/redis-server.js';

async function world(settings?: readonly string[]) {
  const server = await RedisServer.start(settings);
  onTestFinished(() => server.stop());
  return { server, redis: server.connect() };
}

/** A window so long that it begins with everything, though Redis is empty. */
const HOUR: CreditLimit = { key: 'tokens/3600000/window/0', column: 0, amount: 1000, windowMs: 3_600_000, fromLane: 0 };

const question = (over: Partial<CreditQuestion> = {}) => questionOf({ limits: [HOUR], ...over });

function ask(store: CreditStore, over?: Partial<CreditQuestion>): Promise<Credit | CreditWait> {
  return store.ask(question(over)) as Promise<Credit | CreditWait>;
}

function correct(store: CreditStore, credit: number, amount: number, number = 1): Promise<void> {
  const corrections = [{ credit, lane: 0, amounts: [amount] }];
  return store.correct({ scope: 'account', owner: 'one', number, limits: [HOUR], guardMs: 100, corrections }) as Promise<void>;
}

async function left(store: CreditStore): Promise<number | undefined> {
  const { left: all } = await ask(store, { owner: randomBytes(8).toString('hex'), least: [0], most: [0] });
  return all[0];
}

/** Everything that the server holds, as bytes. */
async function contents(redis: Redis): Promise<string> {
  const keys = await redis.keys('*');
  const values = await Promise.all(keys.map((key) => redis.dump(key)));
  return [...keys, ...values].join('\n');
}

const PIECES = [
  ...['a', 'Z', '0', ' ', '"', "'", '\\', '{', '}', '{}', '%', ':', '*', '?', '[', ']', '\n', '\r\n', '\0', '\u2028'],
  ...['é', '💥', '\ud800', '\udfff', '../', '$1', "'] = 1 --", '__proto__', 'EVAL', '\r\nFLUSHALL\r\n', 'x'.repeat(5000)],
];

function hostileName(i: number): string {
  const pick = (n: number): string => PIECES[n % PIECES.length] as string;
  return `${pick(i)}${pick(Math.floor(i / PIECES.length))}${pick(i * 7)}${String(i)}`;
}

describe('names that attack', () => {
  it('become keys that are apart, have one hash tag and mean nothing else', () => {
    const keys = new Set<string>();
    for (let i = 0; i < 10_000; i++) {
      const name = hostileName(i);
      for (const key of [...new StoreKeys(name).ofOwner('account', 'one'), ...new StoreKeys('any').ofOwner(name, name).slice(1)]) {
        expect(key).toMatch(/^sluice:\{[\w\-.!~()%:/@=]+\}:(clock|((scope|parts):[\w\-.!~()%=]+)|(owner:[\w\-.!~()%=]+:[\w\-.!~()%=]+))$/);
        expect(key.length).toBeLessThan(400);
        keys.add(key);
      }
    }
    expect(keys.size).toBe(70_000);
  });

  it('are answered, each for itself', async () => {
    const { redis } = await world();
    const names = Array.from({ length: 10_000 }, (_, i) => hostileName(i));
    for (let from = 0; from < names.length; from += 250) {
      const all = names.slice(from, from + 250);
      const answers = await Promise.all(
        all.map((name, i) => {
          const store = redisStore(redis, { name: i % 3 === 0 ? name : 'any' });
          if (i % 2 === 0) return ask(store, { owner: name, limits: [{ ...HOUR, amount: 1e9 }] });
          const lessons = { [name]: 5, [`tokens ${name}`]: 900 };
          return ask(store, { scope: name, limits: [{ ...HOUR, key: `tokens ${name}` }], lessons });
        }),
      );
      for (const [i, answer] of answers.entries()) {
        const name = all[i] as string;
        expect(answer).toMatchObject({ amounts: [100] });
        if (i % 2 === 0) continue;
        expect(answer.left).toEqual([800]);
        expect(answer.lessons).toEqual(
          Object.fromEntries([
            [name, 5],
            [`tokens ${name}`, 900],
          ]),
        );
      }
    }
  }, 60_000);
});

describe('keys that something else has written', () => {
  const kinds = new StoreKeys('any').ofOwner('account', 'one');
  const names = ['clock', 'scope', 'parts', 'owner'];

  it.each(names)('of the wrong type are told, and nothing is written: %s', async (name) => {
    const { redis } = await world();
    const store = redisStore(redis, { name: 'any' });
    const key = kinds[names.indexOf(name)] as string;
    if (name === 'clock') await redis.zadd(key, 1, 'a');
    else {
      await ask(store);
      await redis.del(key);
      await redis.rpush(key, 'a');
    }
    const before = await contents(redis);
    await expect(ask(store, { number: 2 })).rejects.toThrow(/the Redis store does not answer: WRONGTYPE/);
    expect(await contents(redis)).toBe(before);
    await redis.del(key);
    expect(await ask(store, { number: 3 })).toHaveProperty('credit');
  });

  it.each(['', 'hello', '\0', '[]', '5', '\x82\xa1v\x01\xa1w\xc0', '\x81\xa1v\x02', '\xdf\xff\xff\xff\xff', '\xc1', '\x90'])(
    'of another content are told, and nothing is written: %j',
    async (text) => {
      const { redis } = await world();
      const store = redisStore(redis, { name: 'any' });
      await ask(store);
      for (const key of [kinds[0], kinds[1], kinds[3]] as string[]) {
        const good = await redis.getBuffer(key);
        await redis.set(key, Buffer.from(text, 'latin1'));
        const before = await contents(redis);
        await expect(ask(store, { number: 2 }), key).rejects.toThrow('something that this version of Sluice has not written');
        expect(await contents(redis)).toBe(before);
        await redis.set(key, good as Buffer);
      }
      await redis.hset(kinds[2], { '1:5': 'garbage', 'no part': 'x' });
      expect(await ask(store, { number: 3 })).toMatchObject({ credit: expect.any(Number) as number, left: [800] });
    },
  );

  it('with a few bytes changed are refused or go on, and no process dies', async () => {
    const { redis } = await world();
    const store = redisStore(redis, { name: 'any' });
    await ask(store);
    await ask(store, { owner: 'other', least: [1000], most: [1000] });
    const good = new Map<string, Buffer>();
    for (const key of [kinds[0], kinds[1], kinds[3]]) good.set(key, (await redis.getBuffer(key)) as Buffer);
    let refused = 0;
    const random = seededRandom(1);
    for (let i = 0; i < 1000; i++) {
      for (const [key, value] of good) await redis.set(key, value);
      const [key, value] = [...good][i % good.size] as [string, Buffer];
      const changed = Buffer.from(value);
      const place = Math.floor(random() * (changed.length - 8));
      // A number that no count reaches, or any bytes.
      if (i % 2 === 0)
        changed.writeDoubleLE([1e300, -1e300, NaN, Infinity, -Infinity, 0.1][Math.floor(i / 2) % 6] as number, place - (place % 8));
      else for (let k = 0; k <= i % 4; k++) changed[place + k] = Math.floor(random() * 256);
      await redis.set(key, changed);
      const [end] = await Promise.allSettled([ask(store, { number: 2 + i })]);
      if (end.status === 'rejected') refused++;
    }
    expect(refused).toBeGreaterThan(100);
    await redis.flushall();
    expect(await ask(store, { number: 2000 })).toHaveProperty('credit');
  });

  it('let a limiter wait, and continue when they are gone', async () => {
    const { redis } = await world();
    const store = redisStore(redis, { name: 'any' });
    const events: string[] = [];
    const limiter = createLimiter({
      headroom: 1,
      rates: store.share([tokenBucket({ unit: 'requests', amount: 1000, windowMs: 1000 })]),
      onEvent: ({ type }) => events.push(type),
    });
    await redis.set(kinds[1], 'hello');
    const call = limiter.runAsync(() => Promise.resolve('well'), { deadlineMs: 20_000 });
    await expect.poll(() => events, { timeout: 5000 }).toContain('storeDown');
    await redis.del(kinds[1]);
    expect(await call).toBe('well');
    expect(events.filter((type) => type.startsWith('store'))).toEqual(['storeDown', 'storeUp']);
  });
});

describe('a password', () => {
  it('is in no key, value, error or event', async () => {
    const secret = 'hunter2-planted';
    const { server } = await world(['--requirepass', secret]);
    const redis = server.connect({ password: secret });
    const store = redisStore(redis, { name: 'openai:prod' });
    const told: unknown[] = [];
    const limiter = createLimiter({
      rates: store.share([tokenBucket({ unit: 'requests', amount: 1000, windowMs: 1000 })]),
      onEvent: (event) => told.push(event),
    });
    await limiter.runAsync(() => Promise.resolve(), { deadlineMs: 10_000 });
    await limiter.drain();
    expect(await contents(redis)).not.toContain(secret);

    const failed = async (over: Promise<unknown>): Promise<Error> =>
      over.then(
        () => new Error('it did not fail'),
        (error: unknown) => error as Error,
      );
    const wrong = redisStore(server.connect({ password: `${secret} wrong`, maxRetriesPerRequest: 0 }), { name: 'openai:prod' });
    const none = redisStore(server.connect({ enableReadyCheck: false }), { name: 'openai:prod' });
    const errors = [await failed(ask(wrong)), await failed(ask(none))];
    await redis.set('sluice:{openai:prod}:clock', 'hello');
    errors.push(await failed(ask(store)));
    redis.disconnect();
    errors.push(await failed(ask(store, { number: 5 })));
    for (const error of errors) {
      expect(error.message).toMatch(/^the Redis store does not answer: /);
      const all = [error.message, error.stack, JSON.stringify(error), String(error.cause), ...Object.getOwnPropertyNames(error)].join();
      expect(all).not.toContain('hunter2');
      expect(error.cause).toBeUndefined();
    }
    expect(JSON.stringify(told)).not.toContain('hunter2');
  });
});

describe('a Redis', () => {
  it('that forgets its scripts gets them again', async () => {
    const { redis } = await world();
    const store = redisStore(redis, { name: 'any' });
    for (let number = 1; number <= 5; number++) {
      expect(await ask(store, { number })).toHaveProperty('credit');
      await redis.script('FLUSH');
    }
    expect(await left(store)).toBe(500);
  });

  it('that forgets everything twice grants no window more than its amount', async () => {
    const { redis } = await world();
    const store = redisStore(redis, { name: 'any' });
    const windowMs = 1500;
    const limits = [{ key: 'tokens', column: 0, amount: 1000, windowMs, fromLane: 0 }];
    const granted: { readonly askedAt: number; readonly answeredAt: number; readonly amount: number; readonly flushes: number }[] = [];
    let number = 0;
    let flushes = 0;
    // Until a whole window has been granted after the second loss.
    for (let last = 0; flushes < 2 || last < 1000; ) {
      const askedAt = performance.now();
      const answer = await ask(store, { limits, number: ++number, least: [10], most: [40] });
      const answeredAt = performance.now();
      if ('credit' in answer) granted.push({ askedAt, answeredAt, amount: answer.amounts[0] as number, flushes });
      else await new Promise((later) => setTimeout(later, answer.waitMs));
      last = granted.reduce((sum, each) => (each.flushes === flushes ? sum + each.amount : sum), 0);
      if (last > 1200 && flushes < 2) {
        flushes++;
        await redis.flushall();
      }
    }
    // What was asked and answered within a window was granted in it, whatever a machine does between.
    const sums = granted.map(({ askedAt }, i) =>
      granted.slice(i).reduce((sum, each) => (each.answeredAt < askedAt + windowMs ? sum + each.amount : sum), 0),
    );
    expect(Math.max(...sums)).toBeLessThanOrEqual(1000);
    expect(Math.max(...sums)).toBeGreaterThan(300);
  });

  it('that is killed and starts again with its log remembers what was granted', async () => {
    const { redis, server } = await world(['--appendonly', 'yes', '--appendfsync', 'everysec']);
    const store = redisStore(redis, { name: 'any' });
    const first = (await ask(store, { least: [600], most: [600] })) as Credit;
    await correct(store, first.credit, 50);
    await server.kill();
    await server.start();
    expect(await ask(store, { least: [600], most: [600] })).toEqual(first);
    await correct(store, first.credit, 50);
    expect(await left(store)).toBe(350);
  });

  it('that lets its user do only what the guide says is enough', async () => {
    const { redis, server } = await world();
    const guide = readFileSync(resolve(import.meta.dirname, '../../docs/guides/many-processes.md'), 'utf8');
    const rules = /^ACL SETUSER sluice on >password (.+)$/m.exec(guide)?.[1]?.split(' ') ?? [];
    await redis.call('ACL', 'SETUSER', 'sluice', 'on', '>secret', ...rules);
    const own = server.connect({ username: 'sluice', password: 'secret' });
    const store = redisStore(own, { name: 'any' });
    const credit = (await ask(store)) as Credit;
    await correct(store, credit.credit, -50);
    await store.hold('account', Infinity);
    expect(await ask(store, { number: 2 })).toMatchObject({ holdMs: Infinity });
    await store.hold('account', 0);
    expect(await ask(store, { number: 3 })).toHaveProperty('credit');
    await redis.script('FLUSH');
    expect(await left(store)).toBe(850);
    await expect(own.get('other')).rejects.toThrow('NOPERM');
    await expect(own.flushall()).rejects.toThrow('NOPERM');
    await expect(own.keys('*')).rejects.toThrow('NOPERM');
  });

  it('that is full rejects, and grants nothing twice when there is room again', async () => {
    const { redis } = await world(['--maxmemory-policy', 'noeviction']);
    const store = redisStore(redis, { name: 'any' });
    const first = (await ask(store)) as Credit;
    const before = await contents(redis);
    await redis.config('SET', 'maxmemory', '1mb');
    await expect(ask(store, { number: 2 })).rejects.toThrow('the Redis store does not answer: OOM');
    await expect(correct(store, first.credit, -100)).rejects.toThrow('OOM');
    expect(await contents(redis)).toBe(before);
    await redis.config('SET', 'maxmemory', '0');
    expect(await ask(store, { number: 2 })).toMatchObject({ left: [800] });
    await correct(store, first.credit, -100);
    await correct(store, first.credit, -100);
    expect(await left(store)).toBe(900);
  });

  it('survives clients that send the largest numbers', async () => {
    const { redis } = await world();
    const store = redisStore(redis, { name: 'any' });
    const most = Number.MAX_SAFE_INTEGER;
    const extremes = [0, Number.MIN_VALUE, 1e-300, 1, 3.3, most];
    let answered = 0;
    const reasons = new Set<string>();
    for (let i = 0; i < 1500; i++) {
      const pick = (n: number): number => extremes[Math.floor(i / 6 ** n) % 6] as number;
      const positive = (n: number): number => Math.max(Number.MIN_VALUE, pick(n));
      const limit: CreditLimit = {
        ...{ key: `k${String(i % 5)}`, column: 0, amount: positive(0), windowMs: positive(1), fromLane: 0 },
        ...(i % 2 === 0 && { burst: pick(2) }),
        ...(i % 7 === 0 && { endsInMs: pick(3) }),
      };
      const over = {
        scope: `s${String(i % 3)}`,
        limits: [limit, limit],
        guardMs: pick(2),
        least: [pick(3)],
        most: [pick(0)],
        floors: [pick(1)],
      };
      const [asked] = await Promise.allSettled([ask(store, { ...over, number: i, lane: i % 3 })]);
      if (asked.status === 'fulfilled') answered++;
      else reasons.add((asked.reason as Error).message);
      const corrections = [{ credit: i % 2 === 0 ? most : -most, lane: 0, amounts: [i % 4 === 0 ? most : -pick(1)] }];
      await Promise.allSettled([
        store.correct({ scope: over.scope, owner: 'one', number: i, limits: [limit], guardMs: pick(2), corrections }) as Promise<void>,
      ]);
    }
    expect(answered).toBeGreaterThan(700);
    expect([...reasons]).toEqual(['the Redis store does not answer: ERR amounts that cannot be counted']);
    expect(await redis.ping()).toBe('PONG');
    for (const scope of ['s0', 's1', 's2', 'another']) expect(await ask(store, { scope, owner: 'well' }), scope).toHaveProperty('credit');
  }, 60_000);
});

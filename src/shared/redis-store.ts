import { check } from '../../operators/build.js';
import type { SharedStore } from '../../operators/index.js';
import { FlowConfigError, sharedStore } from '../../operators/index.js';
import type { RedisConnection } from './redis/redis-client.js';
import { RedisClient } from './redis/redis-client.js';

export type { RedisConnection } from './redis/redis-client.js';

/** @beta */
export interface RedisStoreOptions {
  /** What is shared, for example `'openai:prod'`: processes that pass the same name share limits. Any characters, at least one. */
  readonly name: string;
  /**
   * Most jobs at a time of all processes, a whole number >= 1, beside the `concurrency` of each account. A job holds its slot until it ends; the slots of a
   * process that has died or stopped are free again after about 5 s. @defaultValue Infinity
   */
  readonly concurrency?: number;
}

const NAME = 'redisStore';

/**
 * A store of credit that processes on many machines share over Redis ≥ 7 or Valkey: for `shared` and for the `store` of an account, where pods, functions or
 * machines use one API key. One script answers each question in one step, by the clock of Redis alone.
 *
 * - **The connection is yours**: the store opens and closes none, and works with any settings for retries and offline queues. TLS and passwords are options of it.
 * - **Waits** while Redis does not answer: a question without an answer after 2 s fails, and the limiter asks again under the same number.
 * - **Begins** with nothing saved up when Redis has no state of the name, because another process may have used the account before: windows of up to 10
 *   minutes then come in evenly until one of them is over.
 * - **Keys** begin with `sluice:{name}:` and end by themselves: 10 minutes or two windows after the last question, the clock of the store after 7 days. Other
 *   characters than letters, digits and `-_.!~():/@` are escaped, and long names hashed. No key holds a password.
 *
 * Set `maxmemory-policy noeviction` and `appendonly yes` in Redis: an evicted key is a window that begins anew. In a cluster all keys of a name are on one node.
 *
 * @beta
 * @param redis - A `Redis` or a `Cluster` of ioredis 5.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when `redis` is no such connection, `name` is not a non-empty string, `concurrency` is not a whole
 * number >= 1 or Infinity, or an option is unknown.
 * @example
 * ```ts
 * import { createAccount } from 'sluice';
 * import { redisStore } from 'sluice/redis';
 * import { Redis } from 'ioredis';
 *
 * const redis = new Redis({ host: 'redis.internal', lazyConnect: true });
 * // The same in each process:
 * const account = createAccount({ tokensPerMinute: 200_000, store: redisStore(redis, { name: 'openai:prod' }) });
 * redis.status; // => 'wait'
 * ```
 * @see `localStore` for the processes of one machine, and `memoryStore` for tests.
 */
export function redisStore(redis: RedisConnection, options: RedisStoreOptions): SharedStore {
  const { eval: runs, evalsha } = Object(redis) as Partial<RedisConnection>;
  if (typeof runs !== 'function' || typeof evalsha !== 'function')
    // Neither the error nor its message has the value: an address has a password in it.
    throw new FlowConfigError(NAME, 'redis', 'a connection of ioredis 5, such as `new Redis(url)`', undefined, shown(redis));
  const { concurrency, name } = check.options(NAME, options, { concurrency: Infinity }, { concurrency: check.count, name: check.nonEmpty });
  return sharedStore(new RedisClient(redis, name), { concurrency });
}

function shown(value: unknown): string {
  if (value === null || value === undefined) return `\`${String(value)}\``;
  return Object(value) === value ? 'something else' : `a ${typeof value}`;
}

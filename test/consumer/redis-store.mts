import { createAccount, createLimiter, perMinute, shared, type SharedStore } from 'sluice/operators';
import { redisStore, type RedisConnection, type RedisStoreOptions } from 'sluice/redis';

// A connection is whatever runs scripts
const redis: RedisConnection = { eval: () => Promise.resolve(null), evalsha: () => Promise.resolve(null) };
const options: RedisStoreOptions = { name: 'openai:prod' };
const store: SharedStore = redisStore(redis, options);
createLimiter({ rates: shared(store, [perMinute('tokens', 200_000)]) });
createAccount({ tokensPerMinute: 200_000, store });
// @ts-expect-error -- a store has a name
redisStore(redis, {});
// @ts-expect-error -- an address is no connection
redisStore('redis://127.0.0.1', options);

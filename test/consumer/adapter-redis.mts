import { Cluster, Redis } from 'ioredis';
import { createAccount } from 'sluice';
import { redisStore } from 'sluice/redis';

const redis = new Redis({ lazyConnect: true, maxRetriesPerRequest: null, enableOfflineQueue: false });
createAccount({ tokensPerMinute: 200_000, store: redisStore(redis, { name: 'openai:prod' }) });
const cluster = new Cluster([{ host: '127.0.0.1', port: 7000 }]);
createAccount({ tokensPerMinute: 200_000, store: redisStore(cluster, { name: 'openai:prod' }) });

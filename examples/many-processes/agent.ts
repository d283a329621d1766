// One agent: ten streamed calls through an account that it may share with other processes. Run by demo.ts, with its options as JSON. Prints how many of its
// calls ended well.

import { Redis } from 'ioredis';
import { createLimiter, fromHeaders, lanes, shared, tokenBucket } from '../../operators/index.js';
import { chatCompletions, createModelCaller } from '../../src/index.js';
import { localStore } from '../../src/shared/local-store.js';
import { redisStore } from '../../src/shared/redis-store.js';

export interface AgentOptions {
  readonly baseUrl: string;
  readonly store: 'none' | 'local' | 'redis';
  /** What the agents share. */
  readonly name: string;
  /** Port of the Redis on this machine, for the store of that name. */
  readonly redisPort?: number | undefined;
  readonly calls: number;
  readonly tokens: number;
  readonly windowMs: number;
  readonly cost: number;
}

const options = JSON.parse(process.argv[2] ?? '') as AgentOptions;
const { baseUrl, calls, cost, name, tokens, windowMs } = options;

const limits = [tokenBucket({ unit: 'tokens', amount: tokens, windowMs })];
const redis = options.store === 'redis' ? new Redis({ host: '127.0.0.1', port: options.redisPort ?? 6379 }) : undefined;
const local = options.store === 'local' ? localStore({ name }) : undefined;
const store = redis ? redisStore(redis, { name }) : local;
const limiter = createLimiter({
  concurrency: 10,
  headroom: 1,
  queue: lanes(['user', 'background']),
  learn: fromHeaders(),
  rates: store ? shared(store, limits) : limits,
});
const models = createModelCaller({ call: chatCompletions({ baseUrl, model: 'small' }), limiter, deadlineMs: 300_000 });

const ends = await Promise.allSettled(
  Array.from(
    { length: calls },
    () =>
      new Promise<void>((resolve, reject) => {
        models
          .stream({ messages: [{ role: 'user', content: '2 + 2?' }], max_tokens: cost })
          .subscribe({ complete: resolve, error: reject });
      }),
  ),
);
await limiter.drain();
redis?.disconnect();
const reasons = ends.flatMap((end) => (end.status === 'rejected' ? [String(end.reason)] : []));
console.log(JSON.stringify({ well: ends.length - reasons.length, reasons: reasons.slice(0, 3) }));

// One agent: ten streamed calls through an account that it may share with other processes. Run by demo.ts, with its options as JSON. Prints how many of its
// calls ended well.

import { createLimiter, fromHeaders, lanes, shared, tokenBucket } from '../../operators/index.js';
import { chatCompletions, createModelCaller } from '../../src/index.js';
import { localStore } from '../../src/shared/local-store.js';

export interface AgentOptions {
  readonly baseUrl: string;
  readonly store: 'none' | 'local';
  /** What the agents share. */
  readonly name: string;
  readonly calls: number;
  readonly tokens: number;
  readonly windowMs: number;
  readonly cost: number;
}

const options = JSON.parse(process.argv[2] ?? '') as AgentOptions;
const { baseUrl, calls, cost, name, tokens, windowMs } = options;

const limits = [tokenBucket({ unit: 'tokens', amount: tokens, windowMs })];
const store = options.store === 'local' ? localStore({ name }) : undefined;
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
const reasons = ends.flatMap((end) => (end.status === 'rejected' ? [String(end.reason)] : []));
console.log(JSON.stringify({ well: ends.length - reasons.length, reasons: reasons.slice(0, 3) }));
